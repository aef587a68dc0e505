"""The OpenAI chat format: what a context looks like on the wire. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class SentMessage(Protocol):
    """What is read of a message that is sent; :class:`compaction_app.values.ContextMessage` is one."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def tool_calls(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def reasoning(self) -> Any: ...
    @property
    def attachments(self) -> Sequence[Mapping[str, Any]]: ...


#: What a provider is sent as the result of a call that never got one.
NO_RESULT = "[no result]"
#: What OpenAI takes as the name of a message's author is ``^[^\s<|\\/>]+$``, in so many characters.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64


def to_openai(messages: Sequence[SentMessage], *, include_reasoning: bool = False) -> list[dict[str, Any]]:
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


def _openai_message(message: SentMessage, include_reasoning: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"role": str(message.role), "content": message.content}
    images = [a for a in message.attachments if a.get("type") == "image" and a.get("url")]
    if message.attachments:
        data["content"] = _content_with_attachments(message, images)
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
    """A name as providers take it; what is stored stays as people are called."""
    return _FORBIDDEN_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _content_with_attachments(message: SentMessage, images: list[Mapping[str, Any]]) -> Any:
    """Text with a line for each attachment; images with an address as image parts of a user message."""
    lines = [message.content] if message.content else []
    as_parts = images if message.role == "user" else []
    lines += [attachment_line(a) for a in message.attachments if not any(a is image for image in as_parts)]
    text = "\n".join(lines)
    if not as_parts:
        return text
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    parts += [{"type": "image_url", "image_url": {"url": str(a["url"])}} for a in as_parts]
    return parts


def attachment_line(attachment: Mapping[str, Any]) -> str:
    """One line that stands for an attachment where only text can be sent."""
    kind = attachment.get("type") or "file"
    told = attachment.get("name") or attachment.get("url") or attachment.get("mime_type")
    if kind == "image":
        return f"[image: {told}]" if told else "[image]"
    return f"[attached: {told or kind}]"


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": str(function.get("name", "")), "arguments": str(function.get("arguments", ""))},
    }
