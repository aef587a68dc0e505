"""ShareGPT's form, which fine-tuning sets have: ``{"conversations": [{"from": "human", "value": "Hello"}]}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.reading import a_call, a_text, an_object, objects, text_in

_ROLES = {"human": "user", "user": "user", "system": "system"}
_CALLS = frozenset({"function_call", "tool_call"})
_RESULTS = frozenset({"observation", "tool", "function_response", "tool_response"})


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    turns = objects(document.get("conversations")) or objects(document.get("items"))
    if not any(_said(turn) for turn in turns):
        return None
    messages: list[dict[str, Any]] = []
    waiting: list[str] = []
    for number, turn in enumerate(turns, start=1):
        said, value = _said(turn), text_in(turn.get("value", turn.get("content")))
        if said in _CALLS:
            calls = _calls(value, number)
            waiting = [call["id"] for call in calls]
            messages.append({"role": "assistant", "tool_calls": calls})
        elif said in _RESULTS:
            call_id = waiting.pop(0) if waiting else f"call_{number}"
            messages.append({"role": "tool", "tool_call_id": call_id, "content": value})
        else:
            messages.append({"role": _ROLES.get(said, "assistant"), "content": value})
    return {"title": a_text(document.get("title")), "system": a_text(document.get("system")), "messages": messages}


def _said(turn: Mapping[str, Any]) -> str:
    return a_text(turn.get("from")) or a_text(turn.get("role"))


def _calls(value: str, number: int) -> list[dict[str, Any]]:
    try:
        given = json.loads(value)
    except ValueError:
        given = {"arguments": value}
    calls = objects(given if isinstance(given, list) else [given]) or [{"arguments": value}]
    found = []
    for place, call in enumerate(calls):
        function = an_object(call.get("function")) or call
        found.append(a_call(f"call_{number}_{place}", function.get("name"), function.get("arguments")))
    return found
