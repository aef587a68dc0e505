"""A context in the OpenAI chat format. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.truncate import in_brackets

if TYPE_CHECKING:
    from compaction_app.values import ContextMessage

#: The result that is supplied for a tool call without one.
NO_RESULT = "[no result]"
#: OpenAI accepts names that match ``^[^\s<|\\/>]+$``, up to this length.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)[;,]")


def to_openai(
    messages: Sequence[ContextMessage], *, include_reasoning: bool = False, alternate: bool = False
) -> list[dict[str, Any]]:
    """``alternate``: consecutive messages of one role become one."""
    result: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            open_calls = [call for call in open_calls if call != message.tool_call_id]
        else:
            result.extend({"role": "tool", "tool_call_id": call, "content": NO_RESULT} for call in open_calls)
            open_calls = [str(call.get("id", "")) for call in message.tool_calls]
        result.append(_openai_message(message, include_reasoning))
    return _alternating(result) if alternate else result


def _alternating(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat templates such as Llama's, Mistral's and Gemma's refuse two messages of one role in a row."""
    result: list[dict[str, Any]] = []
    for message in messages:
        last = result[-1] if result else {}
        # Results of tools answer one call each, and nothing may come between a call and its result.
        if message["role"] != last.get("role") or message["role"] == "tool" or last.get("tool_calls"):
            result.append(message)
            continue
        joined = {**last, **message, "content": _both(last["content"], message["content"])}
        if last.get("name") != message.get("name"):
            joined.pop("name", None)
        result[-1] = joined
    return result


def _both(first: Any, second: Any) -> Any:
    """Two contents as one: texts with an empty line between them, or the parts of both."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = ([{"type": "text", "text": one}] if isinstance(one, str) else one for one in (first, second))
    return [part for both in parts for part in both]


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


def split_content(parts: Sequence[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Content parts as a message stores them: their texts joined, everything else as attachments."""
    texts: list[str] = []
    attachments: list[dict[str, Any]] = []
    for number, part in enumerate(parts, start=1):
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping):
            raise InvalidMessage(
                f"Part {number} of content must be an object, not {type(part).__name__}.", field="content"
            )
        text = part.get("text", part.get("refusal"))
        if text is None:
            attachments.append(_attachment_of(part, number, len(attachments) + 1))
        elif isinstance(text, str):
            texts.append(text)
        else:
            raise InvalidMessage(
                f"The text of part {number} of content must be a string, not {type(text).__name__}.", field="content"
            )
    return "\n\n".join(texts), attachments


def _attachment_of(part: Mapping[str, Any], number: int, count: int) -> dict[str, Any]:
    """The attachment of an image, a sound or a file. ``count``: how many attachments there are with it."""
    kind = str(part.get("type") or "")
    label = next((label for label in ("image", "audio", "file") if label in kind), "")
    inner = part.get(kind, part)
    inner = {"url": inner} if isinstance(inner, str) else inner if isinstance(inner, Mapping) else {}
    url = str(inner.get("url") or inner.get("image_url") or inner.get("file_data") or "")
    if not url and inner.get("data"):
        url = f"data:audio/{inner.get('format') or 'wav'};base64,{inner['data']}"
    name = str(inner.get("filename") or inner.get("file_id") or "")
    if not label or (label == "image" and not url):
        raise InvalidMessage(
            f"Part {number} of content must be text, an image with its URL, a sound or a file, "
            f"not {kind or 'untyped'!r}{' without a URL' if label else ''}. Pass what else there is in attachments.",
            field="content",
        )
    # Always with a name: without one the address is shown and counted instead, and a data: address has a hundred
    # thousand characters.
    attachment = {"type": label, "name": name or f"{label} {count}"}
    if url:
        attachment["url"] = url
    if detail := inner.get("detail"):
        attachment["detail"] = str(detail)
    if mime := _DATA_URL.match(url):
        attachment["mime_type"] = mime[1]
    return attachment


def sent_name(name: str) -> str:
    """A name as providers accept it; the stored one stays as it was written."""
    return _FORBIDDEN_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _content_with_attachments(message: ContextMessage) -> Any:
    """Text with one line per attachment; images with a URL as image parts of a user message."""
    lines = [message.content] if message.content else []
    images = []
    for attachment in message.attachments:
        if message.role == "user" and attachment.get("type") == "image" and attachment.get("url"):
            detail = {"detail": str(attachment["detail"])} if attachment.get("detail") else {}
            images.append({"type": "image_url", "image_url": {"url": str(attachment["url"]), **detail}})
        else:
            lines.append(attachment_line(attachment))
    text = "\n".join(lines)
    if not images:
        return text
    return [{"type": "text", "text": text}, *images] if text else images


def attachment_line(attachment: Mapping[str, Any]) -> str:
    """One line that replaces an attachment where only text can be sent."""
    kind = attachment.get("type") or "file"
    described = in_brackets(str(attachment.get("name") or attachment.get("url") or attachment.get("mime_type") or ""))
    if kind == "image":
        return f"[image: {described}]" if described else "[image]"
    return f"[attached: {described or in_brackets(str(kind))}]"


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": str(function.get("name", "")), "arguments": str(function.get("arguments", ""))},
    }
