"""A message as it may leave for a model: every text that a person, a tool or a model wrote, through
``REDACTOR``.

What is stored stays as it is; these are copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from compaction_app.values import ContextMessage, Json, Message

Redact = Callable[[str], str]

AnyMessage = TypeVar("AnyMessage", Message, ContextMessage)


def redact_message(message: AnyMessage, redact: Redact | None) -> AnyMessage:
    """Content, name, tool calls, reasoning and attachments redacted; ids kept, for results are found by
    them."""
    if redact is None:
        return message
    return replace(
        message,
        content=redact(message.content),
        name=redact(message.name),
        tool_calls=tuple(_redact_call(call, redact) for call in message.tool_calls),
        reasoning=redact_json(message.reasoning, redact),
        attachments=tuple(redact_json(attachment, redact) for attachment in message.attachments),
    )


def redact_json(value: Json, redact: Redact) -> Any:
    """Every string in ``value``, keys excepted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redact_json(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_json(item, redact) for item in value]
    return value


def _redact_call(call: Mapping[str, Json], redact: Redact) -> dict[str, Json]:
    result = {key: value if key == "id" else redact_json(value, redact) for key, value in call.items()}
    function = call.get("function")
    source, target = (function, result["function"]) if isinstance(function, Mapping) else (call, result)
    if isinstance(arguments := source.get("arguments"), str):
        target["arguments"] = _redact_arguments(arguments, redact)
    return result


def _redact_arguments(arguments: str, redact: Redact) -> str:
    """The strings in the JSON one by one, since its escapes hide a key that spans lines; then the whole of
    it, since ``"password": "…"`` is only seen there."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return redact(arguments)
    redacted = redact_json(parsed, redact)
    return redact(arguments if redacted == parsed else json.dumps(redacted, ensure_ascii=False))
