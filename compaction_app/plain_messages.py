"""Dicts in the OpenAI chat format as the values that planning and pruning work on. Pure.

A content may be a text, a list of parts or nothing. Its text is what is counted and shortened; parts that are no
text (images, files, sounds) have a flat count and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compaction_app.arguments import check_list_of_dicts
from compaction_app.exceptions import InvalidMessage
from compaction_app.values import Message, Role


def check(message: Any, position: int) -> None:
    """Raise :class:`InvalidMessage`, naming the position, for what is no message."""
    if not isinstance(message, Mapping) or message.get("role") not in list(Role):
        raise InvalidMessage(f"Message {position} is no dict with a role of the OpenAI chat format.", field="role")
    if not isinstance(message.get("content"), str | list | None):
        raise InvalidMessage(f"The content of message {position} is neither text nor a list of parts.", field="content")


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
    return "\n".join(str(part["text"] or "") for part in parts_of(content) if "text" in part)


def attachments_of(content: Any) -> list[dict[str, Any]]:
    """Images, files and sounds among the parts, as attachments: each has a flat count."""
    return [{"type": str(part.get("type") or "file")} for part in parts_of(content) if "text" not in part]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
