"""A context in the OpenAI chat format. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compaction_app.values import ContextMessage

#: The result that is supplied for a tool call without one.
NO_RESULT = "[no result]"
#: OpenAI accepts names that match ``^[^\s<|\\/>]+$``, up to this length.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64


def to_openai(messages: Sequence[ContextMessage], *, include_reasoning: bool = False) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            open_calls = [call for call in open_calls if call != message.tool_call_id]
        else:
            result.extend({"role": "tool", "tool_call_id": call, "content": NO_RESULT} for call in open_calls)
            open_calls = [str(call.get("id", "")) for call in message.tool_calls]
        result.append(_openai_message(message, include_reasoning))
    return result


def _openai_message(message: ContextMessage, include_reasoning: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"role": str(message.role), "content": message.content}
    if message.attachments:
        data["content"] = _content_with_attachments(message)
    if message.name and message.role != "tool":
        data["name"] = sent_name(message.name)
    if message.tool_calls:
        data["tool_calls"] = [_openai_call(call) for call in message.tool_calls]
        if not message.content:
            data["content"] = None
    if message.role == "tool":
        data["tool_call_id"] = message.tool_call_id
    if include_reasoning and message.reasoning is not None:
        data["reasoning"] = message.reasoning
    return data


def sent_name(name: str) -> str:
    """A name as providers accept it; the stored one stays as it was written."""
    return _FORBIDDEN_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _content_with_attachments(message: ContextMessage) -> Any:
    """Text with one line per attachment; images with a URL as image parts of a user message."""
    lines = [message.content] if message.content else []
    images = []
    for attachment in message.attachments:
        if message.role == "user" and attachment.get("type") == "image" and attachment.get("url"):
            images.append({"type": "image_url", "image_url": {"url": str(attachment["url"])}})
        else:
            lines.append(attachment_line(attachment))
    text = "\n".join(lines)
    if not images:
        return text
    return [{"type": "text", "text": text}, *images] if text else images


def attachment_line(attachment: Mapping[str, Any]) -> str:
    """One line that replaces an attachment where only text can be sent."""
    kind = attachment.get("type") or "file"
    described = attachment.get("name") or attachment.get("url") or attachment.get("mime_type")
    if kind == "image":
        return f"[image: {described}]" if described else "[image]"
    return f"[attached: {described or kind}]"


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": str(function.get("name", "")), "arguments": str(function.get("arguments", ""))},
    }
