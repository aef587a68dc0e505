"""A context in the OpenAI chat format. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.media import media_type

if TYPE_CHECKING:
    from compaction_app.values import ContextMessage

#: The result that is supplied for a tool call without one.
NO_RESULT = "[no result]"
#: OpenAI accepts names that match ``^[^\s<|\\/>]+$``, up to this length.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64
_LONGEST_SHOWN_NAME, _LONGEST_ADDRESS = 255, 100
#: What a type says → what it is. Anthropic calls files documents.
_LABELS = {"image": "image", "audio": "audio", "file": "file", "document": "file"}
_PARTS = frozenset(_LABELS.values())
#: Where content parts have an address or the bytes themselves.
_ADDRESSES = ("url", "image_url", "file_data", "file_url", "data")
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
#: What a host may tell of an attachment, in a content part too; no provider knows these keys.
_OURS = ("tokens", "width", "height", "duration")


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
    inner = part.get(kind, part)
    flat = described(part)
    label = flat["type"] if flat["type"] in _PARTS else ""
    url = str(flat.get("url") or "")
    if not label or (label == "image" and not url):
        raise InvalidMessage(
            f"Part {number} of content must be text, an image with its URL, a sound or a file, "
            f"not {kind or 'untyped'!r}{' without a URL' if label else ''}. Pass what else there is in attachments.",
            field="content",
        )
    attachment = {"type": label, "name": str(flat.get("filename") or flat.get("file_id") or f"{label} {count}")}
    attachment |= {key: str(flat[key]) for key in ("url", "detail", "file_id") if flat.get(key)}
    attachment |= {key: flat[key] for key in _OURS if flat.get(key) is not None}
    if mime := media_type(url):
        attachment["mime_type"] = mime
    # The chat format has the payload of a part under its type; the forms of other APIs are translated.
    if kind in part and kind != "image" and not (kind == "image_url" and isinstance(inner, str)):
        whole = {key: value for key, value in part.items() if key not in _OURS}
        if isinstance(inner, Mapping):
            whole[kind] = {key: value for key, value in inner.items() if key not in _OURS}
        if content_part(attachment) != whole:
            attachment["part"] = {**whole, kind: _filled(whole[kind], "")}
    return attachment


def _filled(inner: Any, address: str) -> Any:
    """What a content part has under its type, with its address: "" takes it out, since the attachment has it.

    It may be a picture of megabytes, and another one when it is sent. Some servers take it bare.
    """
    if not isinstance(inner, Mapping):
        return address
    filled = dict(inner)
    for key in _ADDRESSES:
        if key in inner and (inner[key] == "" if address else inner[key]):
            filled[key] = address.partition(",")[2] if key == "data" and media_type(address) else address
    return filled


def described(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """An attachment, or a content part in any of the forms that APIs have for it, with the keys of an attachment.

    ``type`` is ``image``, ``audio`` or ``file`` where it is one of these.
    """
    kind = str(attachment.get("type") or "")
    inner = attachment.get(kind)
    flat: dict[str, Any] = dict(attachment)
    for more in (inner, attachment.get("source")):
        flat = {**more, **flat} if isinstance(more, Mapping) else flat
    addresses = [flat.get(key) for key in _ADDRESSES if key != "data"]
    url = next((one for one in (*addresses, inner) if isinstance(one, str) and one), "")
    mime = flat.get("media_type") or flat.get("mime_type") or flat.get("mimeType") or ""
    # Many clients call everything a file.
    words = " ".join([kind, media_type(url) if kind in ("", "file") else "", "" if kind else str(mime)]).lower()
    label = next((label for word, label in _LABELS.items() if word in words), kind)
    if label == "audio" and not mime:
        mime = f"audio/{flat.get('format') or 'wav'}"
    if not url and mime and isinstance(data := flat.get("data"), str) and data:
        url = data if media_type(data) else f"data:{mime};base64,{data}"
    return {**flat, "type": label, "url": url}


def content_part(attachment: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content part that a model is sent for an attachment of a user's message; None where it is only named.

    Sent are images with an address; as every chat model takes them that takes any, sounds in WAV or MP3 and PDFs with
    their bytes (a ``data:`` URL), and files that the provider has (``file_id``); and what came as a part, in its form.
    """
    flat = described(attachment)
    url, kept = str(flat["url"]), attachment.get("part")
    if isinstance(kept, Mapping):
        kind = str(kept.get("type") or "")
        return {**kept, kind: _filled(kept.get(kind), url)} if url or flat.get("file_id") else None
    if flat["type"] == "image" and url:
        detail = {"detail": str(flat["detail"])} if flat.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    mime = media_type(url)
    if flat["type"] == "audio" and (form := _SOUNDS.get(mime)):
        return {"type": "input_audio", "input_audio": {"data": url.partition(",")[2], "format": form}}
    if flat["type"] == "file" and mime == "application/pdf":
        name = str(flat.get("filename") or flat.get("name") or "file.pdf")
        return {"type": "file", "file": {"filename": name, "file_data": url}}
    if flat["type"] == "file" and not url and flat.get("file_id"):
        return {"type": "file", "file": {"file_id": str(flat["file_id"])}}
    return None


def with_address(attachment: Mapping[str, Any], address: str | None) -> Mapping[str, Any]:
    """The attachment at the address that it has now; None: the one that is stored, "": none, so it is only named."""
    if address is None:
        return attachment
    if not address:
        return {key: attachment[key] for key in ("type", "name", "mime_type") if key in attachment}
    moved = {**attachment, "url": address}
    # A line that names it must not tell a signed address.
    return moved if content_part(moved) else attachment


def sent_name(name: str) -> str:
    """A name as providers accept it; the stored one stays as it was written."""
    return _FORBIDDEN_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _content_with_attachments(message: ContextMessage) -> Any:
    """The text and the content parts of a user message; a line for each attachment that is only named."""
    lines = [message.content] if message.content else []
    parts = []
    for attachment in message.attachments:
        if message.role == "user" and (part := content_part(attachment)):
            parts.append(part)
        else:
            lines.append(attachment_line(attachment))
    text = "\n".join(lines)
    if not parts:
        return text
    return [{"type": "text", "text": text}, *parts] if text else parts


def attachment_line(attachment: Mapping[str, Any]) -> str:
    """One line that replaces an attachment where only text can be sent.

    Never with a ``data:`` URL, nor with the query of a long address, which may be a signature.
    """
    kind = attachment.get("type") or "file"
    name, url = str(attachment.get("name") or ""), str(attachment.get("url") or "")
    described = _shown(name) or _shown(url) or attachment.get("mime_type") or media_type(url) or media_type(name)
    if kind == "image":
        return f"[image: {described}]" if described else "[image]"
    return f"[attached: {described or kind}]"


def _shown(text: str) -> str:
    if text[:5].lower() == "data:":
        return ""
    if "://" not in text and len(text) <= _LONGEST_SHOWN_NAME:
        return text
    return text if len(text) <= _LONGEST_ADDRESS else re.split(r"[?#]", text, maxsplit=1)[0][:_LONGEST_ADDRESS]


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": str(function.get("name", "")), "arguments": str(function.get("arguments", ""))},
    }
