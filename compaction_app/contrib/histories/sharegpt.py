"""ShareGPT's form, which fine-tuning sets have: ``{"conversations": [{"from": "human", "value": "Hello"}]}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.reading import Json, a_call, text_in

_ROLES = {"human": "user", "user": "user", "system": "system"}
_CALLS = frozenset({"function_call", "tool_call"})
_RESULTS = frozenset({"observation", "tool", "function_response", "tool_response"})


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    turns = document.inners("conversations") or document.inners("items")
    if not any(turn.text("from", "role") for turn in turns) and document.get("conversations") != []:
        return None
    messages: list[dict[str, Any]] = []
    waiting: list[str] = []
    for number, turn in enumerate(turns, start=1):
        said, value = turn.text("from", "role"), text_in(turn.get("value" if "value" in turn else "content"))
        if said in _CALLS:
            calls = _calls(value, number)
            waiting = [call["id"] for call in calls]
            messages.append({"role": "assistant", "tool_calls": calls})
        elif said in _RESULTS:
            call_id = waiting.pop(0) if waiting else f"call_{number}"
            messages.append({"role": "tool", "tool_call_id": call_id, "content": value})
        else:
            messages.append({"role": _ROLES.get(said, "assistant"), "content": value})
    about = {"id": document.id("id"), "title": document.text("title"), "system": document.text("system")}
    return {**about, "messages": messages}


def _calls(value: str, number: int) -> list[dict[str, Any]]:
    try:
        given = json.loads(value)
    except ValueError:
        given = None
    calls = Json({"calls": given if isinstance(given, list) else [given]}).inners("calls")
    functions = [call.inner("function") or call for call in calls] or [Json({"arguments": value})]
    return [
        a_call(f"call_{number}_{place}", function.text("name"), function.get("arguments"))
        for place, function in enumerate(functions)
    ]
