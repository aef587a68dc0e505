"""Dicts in the OpenAI chat format as the values that planning and pruning work on. Pure.

A content may be a text, a list of parts or nothing. Its text is what is counted and shortened; parts that are no
text (images, files, sounds) have a flat count and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.arguments import check_list_of_dicts
from compaction_app.messages.validation import MAX_JSON_DEPTH
from compaction_app.values import Message, Role

#: Keys of a message that are counted, and go to a model as text.
_SENT = ("content", "name", "tool_call_id", "tool_calls")
#: Keys under which a part has its text.
_TEXTS = ("text", "refusal")
#: Types of parts that are pictures.
_IMAGES = ("image", "image_url", "input_image")


def check(message: Any, position: int) -> None:
    """Raise :class:`InvalidMessage`, naming the position, for what is no message."""
    if not isinstance(message, Mapping) or message.get("role") not in list(Role):
        raise InvalidMessage(f"Message {position} is no dict with a role of the OpenAI chat format.", field="role")
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise InvalidMessage(f"The content of message {position} is neither text nor a list of parts.", field="content")
    if isinstance(content, list) and any(not isinstance(part, str | Mapping) for part in content):
        words = f"The content of message {position} has a part that is neither text nor a dict."
        raise InvalidMessage(words, field="content")
    _check_calls(message.get("tool_calls"), position)
    for name in _SENT:
        _check_encodable(message.get(name), name, position)


def _check_calls(calls: Any, position: int) -> None:
    """A list of dicts, the function of each a dict: what is in them is between the caller and their provider."""
    if calls is None:
        return
    if not isinstance(calls, list | tuple) or any(not isinstance(call, Mapping) for call in calls):
        raise InvalidMessage(f"The tool_calls of message {position} are no list of dicts.", field="tool_calls")
    if any(not isinstance(call.get("function"), Mapping | None) for call in calls):
        raise InvalidMessage(f"A tool call of message {position} has a function that is no dict.", field="tool_calls")


def _check_encodable(value: Any, field: str, position: int, depth: int = 0) -> None:
    """Half of a surrogate pair is no character: it can be neither counted nor sent."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            words = f"The {field} of message {position} has a lone surrogate at position {error.start}."
            raise InvalidMessage(words, field=field) from error
    elif depth > MAX_JSON_DEPTH:
        words = f"The {field} of message {position} is nested deeper than {MAX_JSON_DEPTH} levels."
        raise InvalidMessage(words, field=field)
    elif isinstance(value, Mapping | list | tuple):
        within = [*value, *value.values()] if isinstance(value, Mapping) else value
        for item in within:
            _check_encodable(item, field, position, depth + 1)


def check_all(messages: Any) -> None:
    """Raise :class:`InvalidMessage` for what is no list of messages."""
    check_list_of_dicts(messages, "messages", "messages (dicts in the OpenAI chat format)")
    for position, message in enumerate(messages):
        check(message, position)


def as_values(messages: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[Message]:
    """A chain of values numbered from 1; ``sizes`` are the tokens of each."""
    values, path_tokens = [], 0
    for number, (message, tokens) in enumerate(zip(messages, sizes, strict=True), start=1):
        path_tokens += tokens
        values.append(
            Message(
                id=number,
                parent_id=number - 1 or None,
                depth=number,
                role=str(message["role"]),
                tokens=tokens,
                path_tokens=path_tokens,
                content=text_of(message.get("content")),
                tool_calls=tuple(message.get("tool_calls") or ()),
                tool_call_id=str(message.get("tool_call_id") or ""),
                name=str(message.get("name") or ""),
                reasoning=message.get("reasoning"),
                attachments=tuple(attachments_of(message.get("content"))),
            )
        )
    return values


def countable(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as ``tokens.count_messages`` takes it."""
    content = message.get("content")
    return {**message, "content": text_of(content), "attachments": attachments_of(content)}


def text_of(content: Any) -> str:
    if not isinstance(content, list):
        return str(content or "")
    return "\n".join(text for part in content if (text := _text_of_part(part)) is not None)


def others_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts that are no text: images, files, sounds."""
    return [part for part in content if _text_of_part(part) is None] if isinstance(content, list) else []


def attachments_of(content: Any) -> list[dict[str, Any]]:
    """Those parts as attachments: each has a flat count, and a line of its own in a transcript."""
    return [_attachment(part) for part in others_of(content)]


def _text_of_part(part: Any) -> str | None:
    """What a part says, a bare text included; None for what is no text."""
    if not isinstance(part, Mapping):
        return str(part)
    said = [part[name] for name in _TEXTS if name in part]
    return str(said[0] or "") if said else None


def _attachment(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(part.get("type") or "file")
    described = part.get(kind)
    name = described.get("filename") if isinstance(described, Mapping) else None
    return {"type": "image" if kind in _IMAGES else kind, **({"name": str(name)} if name else {})}
