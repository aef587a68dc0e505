"""ShareGPT's form, which fine-tuning sets have: ``{"conversations": [{"from": "human", "value": "Hello"}]}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.reading import Json, OpenCalls, Rows, a_call

_ROLES = {"human": "user", "user": "user", "system": "system"}
_CALLS = frozenset({"function_call", "tool_call"})
_RESULTS = frozenset({"observation", "tool", "function_response", "tool_response"})


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    turns = document.rows("conversations") or document.rows("items")
    if not any(turn.text("from", "role") for turn in turns) and document.given.get("conversations") != []:
        return None
    messages: list[dict[str, Any]] = []
    rows, waiting = Rows(), OpenCalls()
    for number, turn in enumerate(turns, start=1):
        said, value = turn.text("from", "role"), turn.said("value" if "value" in turn else "content")
        if said in _CALLS:
            calls, waiting = _calls(value, number), OpenCalls()
            for call in calls:
                waiting.add(call["id"])
            message: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
        elif said in _RESULTS:
            message = {"role": "tool", "tool_call_id": waiting.answered(None) or f"call_{number}", "content": value}
        else:
            message = {"role": _ROLES.get(said, "assistant"), "content": value}
        message["metadata"] = turn.rest()
        rows.add(turn, message["role"], [message], rest=message["metadata"])
        messages.append(message)
    about = {"id": document.id("id"), "title": document.text("title"), "system_prompt": document.text("system")}
    return {**about, "metadata": document.rest(), "messages": messages, "notes": rows.done(document)}


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
