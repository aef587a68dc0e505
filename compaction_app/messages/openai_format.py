"""A context in the OpenAI chat format, valid for its providers whatever was stored. Pure.

What a model wrote goes back as it came to that model at its endpoint (``original``), and as its fields to any other.
Either way arguments are the JSON of an object, ids are short, different and the same for call and result, and
nothing is blank.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.media import media_type
from compaction_app.messages.truncate import in_brackets

if TYPE_CHECKING:
    from compaction_app.values import ContextMessage

#: The result that is supplied for a tool call without one.
NO_RESULT = "[no result]"
#: OpenAI accepts names that match ``^[^\s<|\\/>]+$``, up to this length.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64
#: OpenAI accepts ids of calls of up to 40 characters. Mistral's have exactly nine letters and digits, and Anthropic's
#: no signs: by a word in the address of the endpoint.
_ID_FORM = re.compile(r"[!-~]{1,40}")
_ID_FORMS = {"mistral": re.compile(r"[A-Za-z0-9]{9}"), "anthropic": re.compile(r"[A-Za-z0-9_-]{1,40}")}
_ID_CHARS = 9
_FORBIDDEN_IN_FUNCTIONS = re.compile(r"[^\w-]+", re.ASCII)
#: In place of a user's message, where a conversation must begin with one and does not.
CONVERSATION_BEGINS = "[the conversation begins]"
_LONGEST_SHOWN_NAME, _LONGEST_ADDRESS = 255, 100
#: What a type or a media type says → what it is.
_LABELS = {"image": "image", "screenshot": "image", "audio": "audio"}
_FILES = ("file", "document", "binary", "media", "video", "resource", "inline")
PARTS = frozenset({"image", "audio", "file"})
#: Where content parts have an address or the bytes themselves, and objects inside that may have it for them.
_ADDRESSES = ("url", "image_url", "file_data", "file_url", "data")
_BYTES = ("data", "base64", "blob", "bytes", "result")
_LINKS = ("uri", "file_uri", "fileUri")
_INSIDE = ("source", "inline_data", "inlineData", "file_data", "fileData", "resource")
_MEDIA_TYPES = ("media_type", "mime_type", "mimeType")
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
#: Of a message that came; what a reply's content parts have.
_NOT_SENT_BACK = ("function_call", "name", "tool_call_id")
_CONTENTS: dict[str, Any] = {"text": str, "refusal": str, "image_url": (str, dict)}


def to_openai(
    messages: Sequence[ContextMessage],
    *,
    include_reasoning: bool = False,
    alternate: bool = False,
    endpoint: str | None = None,
    model: str = "",
    offered: Collection[str] = (),
) -> list[dict[str, Any]]:
    """``alternate``: a user's message first, and consecutive messages of one role become one.

    ``offered``: names of the tools that are sent with it; they are the host's, and stay as they are.
    """
    endpoint = str(endpoint or "").rstrip("/")  # the base URL of an openai client ends with a slash
    #: Those of a list become one message.
    result: list[list[dict[str, Any]]] = []
    #: Of the calls without a result, in order: the stored id → the ids that were sent for it; and all of those.
    waiting: dict[str, deque[str]] = {}
    used: set[str] = set()
    #: No call has a result yet: calls that follow at once are of the same message.
    is_asking = reasons = False
    for message in messages:
        whole = _whole(message, endpoint, model)
        data = _openai_message(message, whole, include_reasoning, offered)
        if message.role == "tool":
            sent = waiting.get(message.tool_call_id) or deque([short_id(message.tool_call_id, endpoint)])
            data["tool_call_id"] = sent.popleft()
            used.discard(data["tool_call_id"])
            if not sent:
                waiting.pop(message.tool_call_id, None)
            result.append([data])
            is_asking = False
            continue
        if not (is_asking and message.tool_calls):
            missing = (one for ids in waiting.values() for one in ids)
            result.extend([{"role": "tool", "tool_call_id": one, "content": NO_RESULT}] for one in missing)
            waiting, used, is_asking = {}, set(), False
        for call, made in zip(message.tool_calls, data.get("tool_calls", ()), strict=False):
            stored = str(call.get("id", ""))
            made["id"] = _unused(made["id"] if whole else short_id(stored, endpoint), used)
            waiting.setdefault(stored, deque()).append(made["id"])
        if not data["content"] and not message.tool_calls and not data.get("audio"):
            continue
        # DeepSeek refuses a prompt in which some replies have this key and later ones have not.
        reasons = reasons or "reasoning_content" in data
        if reasons and message.role == "assistant":
            data.setdefault("reasoning_content", "")
        if is_asking:
            result[-1].append(data)
        else:
            result.append([data])
        is_asking = bool(message.tool_calls)
    joined = list(map(_joined, result))
    return _alternating(joined) if alternate else joined


def _whole(message: ContextMessage, endpoint: str, model: str) -> Mapping[str, Any] | None:
    """What came from this model in this format, with the role that the message has here.

    The model is the one that was asked: what an endpoint reports may have a date. Without one, any will do.
    """
    original = message.original
    if not isinstance(original, Mapping) or original.get("format") != "openai":
        return None
    if str(original.get("endpoint")).rstrip("/") != endpoint or original.get("model", model) != model:
        return None
    data = original.get("data")
    return data if isinstance(data, Mapping) and data.get("role", message.role) == message.role else None


def _unused(call_id: str, used: set[str]) -> str:
    number, chosen = len(used), call_id
    while chosen in used:
        number += 1
        chosen = made_id(f"{call_id} {number}")
    used.add(chosen)
    return chosen


def made_id(text: str) -> str:
    """An id that every endpoint accepts, always the same for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_CHARS]


def short_id(call_id: str, endpoint: str = "") -> str:
    """The id, or one made of it that the endpoint accepts: the same for the call and its result."""
    form = next((form for word, form in _ID_FORMS.items() if word in endpoint), _ID_FORM)
    return call_id if form.fullmatch(call_id) else made_id(call_id)


def _alternating(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat templates such as Llama's, Mistral's and Gemma's refuse two messages of one role in a row."""
    result: list[list[dict[str, Any]]] = []
    for message in messages:
        last = result[-1][-1] if result else {}
        if message["role"] == "assistant" and last.get("role") in (None, "system", "developer"):
            result.append([{"role": "user", "content": CONVERSATION_BEGINS}])
            last = {}
        # Results of tools answer one call each, and nothing may come between a call and its result.
        if message["role"] != last.get("role") or message["role"] == "tool" or last.get("tool_calls"):
            result.append([message])
        else:
            result[-1].append(message)
    return list(map(_joined, result))


def with_user(messages: Sequence[Mapping[str, Any]], text: str, *, alternate: bool) -> list[dict[str, Any]]:
    """A list that was sent, and a user's text behind it."""
    result = [*map(dict, messages), {"role": "user", "content": text}]
    return _alternating(result) if alternate else result


def _joined(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Messages of one role as one, all at once: joined one by one, the first would be copied for each."""
    if len(messages) == 1:
        return messages[0]
    values: dict[str, list[Any]] = {}
    for message in messages:
        for key, value in message.items():
            values.setdefault(key, []).append(value)
    role, names = values.pop("role"), values.pop("name", [])
    joined = {"role": role[-1], **{key: _all_of(given, key == "content") for key, given in values.items()}}
    is_of_one = len(names) == len(messages) and len(set(names)) == 1
    return {**joined, "name": names[0]} if is_of_one else joined


def _all_of(given: Sequence[Any], are_contents: bool) -> Any:
    """Values of one key as one: texts with an empty line between, the items of all lists; of others the last."""
    found = [one for one in given if one] or given[-1:]
    if all(isinstance(one, str) for one in found):
        return "\n\n".join(found)
    if are_contents:
        found = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in found]
    return [item for one in found for item in one] if all(isinstance(one, list) for one in found) else found[-1]


def _openai_message(
    message: ContextMessage, whole: Mapping[str, Any] | None, include_reasoning: bool, offered: Collection[str]
) -> dict[str, Any]:
    """The message without the ids of its calls; ``whole`` is what came, where that goes back."""
    data: dict[str, Any] = {"role": str(message.role)}
    if whole is not None:
        data |= {key: value for key, value in whole.items() if value is not None and key not in _NOT_SENT_BACK}
        content = whole.get("content")
        data["content"] = content if content and _is_content(content) else message.content
        audio = data.pop("audio", None)
        if isinstance(audio, Mapping) and isinstance(audio.get("id"), str):
            data["audio"] = {"id": audio["id"]}
    else:
        data["content"] = content_with_attachments(message) if message.attachments else message.content
        if include_reasoning and message.reasoning is not None:
            data["reasoning"] = message.reasoning
    if message.name and message.role != "tool":
        data["name"] = sent_name(message.name)
    came = data.pop("tool_calls", None)
    if message.tool_calls:
        count = len(message.tool_calls)
        raw = came if isinstance(came, list) and len(came) == count else [None] * count
        data["tool_calls"] = [_openai_call(*pair, offered) for pair in zip(message.tool_calls, raw, strict=True)]
    if message.role != "tool":
        data["content"] = _without_blanks(data["content"]) or (None if message.tool_calls else "")
    return data


def _is_content(came: Any) -> bool:
    """Whether it is a text, or each part of it says what it is and, of the kinds that any provider knows, has that."""
    if not isinstance(came, list):
        return isinstance(came, str)
    return all(
        isinstance(part, Mapping)
        and isinstance(kind := part.get("type"), str)
        and isinstance(part.get(kind), _CONTENTS.get(kind, object))
        for part in came
        if not isinstance(part, str)
    )


def _without_blanks(content: Any) -> Any:
    """Some providers refuse every prompt with a blank text."""
    if isinstance(content, str):
        return content if content.strip() else ""
    parts = ({"type": "text", "text": part} if isinstance(part, str) else part for part in content)
    return [
        part
        for part in parts
        if isinstance(part, Mapping) and (part.get("type") != "text" or str(part.get("text") or "").strip())
    ]


def attachment_of(part: Mapping[str, Any], number: int, count: int) -> dict[str, Any]:
    """The attachment of an image, a sound or a file. ``count``: how many attachments there are with it."""
    kind = str(part.get("type") or "")
    flat = described(part)
    label = flat["type"] if flat["type"] in PARTS else ""
    url = str(flat.get("url") or "")
    if not label or (label == "image" and not url):
        raise InvalidMessage(
            f"Part {number} of content must be text, an image with its URL, a sound or a file, "
            f"not {kind or 'untyped'!r}{' without a URL' if label else ''}. Pass what else there is in attachments.",
            field="content",
        )
    name = flat.get("filename") or flat.get("title") or flat.get("file_id")
    attachment = {"type": label, "name": str(name or f"{label} {count}")}
    attachment |= {key: str(flat[key]) for key in ("url", "detail", "file_id") if flat.get(key)}
    if mime := media_type(url):
        attachment["mime_type"] = mime
    # The chat format has the payload of a part under its type; the forms of other APIs are translated.
    is_translated = kind in ("image", *_INSIDE) or (kind == "image_url" and isinstance(part.get(kind), str))
    if kind in part and not is_translated and content_part(attachment) != part:
        attachment["part"] = {**part, kind: _filled(part[kind], "")}
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

    A form is told by its structure: a word for what it is, and its address, or its base64 and often a media type, in
    the part or in an object inside.
    """
    kind = str(attachment.get("type") or attachment.get("kind") or "")
    inner = attachment.get(kind)
    flat: dict[str, Any] = dict(attachment)
    for more in (inner, *map(attachment.get, _INSIDE)):
        flat = {**more, **flat} if isinstance(more, Mapping) else flat
    links = [link for link in map(flat.get, _LINKS) if str(link).startswith(("https://", "http://"))]
    url = _first_text([*(flat.get(key) for key in _ADDRESSES if key != "data"), inner, *links])
    data = _first_text(map(flat.get, _BYTES))
    if url == flat.get("file_data") and ":" not in url[:200]:
        url, data = "", url
    mime = _first_text(map(flat.get, _MEDIA_TYPES))
    # Many clients call everything a file.
    words = (kind or " ".join(attachment.keys() & {*_INSIDE})).lower()
    seen = media_type(url or data) or (mime if data or kind != "file" else "")
    label = next((label for word, label in _LABELS.items() if word in words), "")
    if not label and (not words or any(word in words for word in _FILES)):
        label = next((label for word, label in _LABELS.items() if word in seen), "file" if words else "")
    label = label or kind
    if not url and data and (media_type(data) or label in PARTS):
        usual = {"image": "image/png", "audio": f"audio/{flat.get('format') or 'wav'}"}
        url = f"data:{mime or usual.get(label, 'application/octet-stream')};base64,{data}"
        url = data if media_type(data) else url
    if flat.get("source_type") == "id":
        flat.setdefault("file_id", flat.get("id"))
    return {**flat, "type": label, "url": url}


def _first_text(values: Iterable[Any]) -> str:
    return next((one for one in values if isinstance(one, str) and one), "")


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


def content_with_attachments(message: ContextMessage) -> Any:
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
    shown = _shown(name) or _shown(url) or attachment.get("mime_type") or media_type(url) or media_type(name)
    described = in_brackets(str(shown or ""))
    if kind == "image":
        return f"[image: {described}]" if described else "[image]"
    return f"[attached: {described or in_brackets(str(kind))}]"


def _shown(text: str) -> str:
    if text[:5].lower() == "data:":
        return ""
    if "://" not in text and len(text) <= _LONGEST_SHOWN_NAME:
        return text
    return text if len(text) <= _LONGEST_ADDRESS else re.split(r"[?#]", text, maxsplit=1)[0][:_LONGEST_ADDRESS]


def _openai_call(call: Mapping[str, Any], raw: Any, offered: Collection[str]) -> dict[str, Any]:
    """``raw``: the call as it came, where that goes back; its unknown keys (a thought signature) go with it."""
    function = call.get("function") or {}
    raw = raw if isinstance(raw, Mapping) else {}
    call_id = raw["id"] if isinstance(raw.get("id"), str) and raw["id"].strip() else call.get("id")
    data = {**raw, "id": str(call_id or "")}
    data.pop("index", None)
    custom = raw.get("custom")
    if raw.get("type") == "custom" and isinstance(custom, Mapping) and isinstance(custom.get("input"), str):
        return data
    own = raw.get("function")
    name = str(function.get("name", ""))
    data |= {"type": "function", "function": dict(own) if isinstance(own, Mapping) else {}}
    # A model may have made up a name that providers refuse, or had other rules.
    made = name if name in offered else _FORBIDDEN_IN_FUNCTIONS.sub("_", name)
    if name not in offered and (len(made) > _LONGEST_NAME or not made.strip("_")):
        made = f"{made[:50]}_{made_id(name)}"
    data["function"] |= {"name": made, "arguments": sent_arguments(str(function.get("arguments", "")))}
    return data


def sent_arguments(text: str) -> str:
    """The arguments of a call as the JSON of an object: providers refuse a prompt with anything else.

    What the model wrote instead stays visible to it, or it would not know what to mend.
    """
    if parse_arguments(text) is not None:
        return text
    return json.dumps({"invalid_arguments": text}, ensure_ascii=False) if text.strip() else "{}"


def parse_arguments(text: Any) -> dict[str, Any] | None:
    """The arguments of a call; None where they are not the JSON of an object that every reader accepts."""
    try:
        parsed = json.loads(text, parse_constant=_refuse_constant)
        texts = "".join(strings(parsed))
        texts.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and "\0" not in texts else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def strings(value: Any, *, keys: bool = True, without: Collection[str] = ()) -> Iterator[str]:
    """Every string in a JSON value, in order, but for those in the values of the keys ``without``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if keys:
                yield str(key)
            if key not in without:
                yield from strings(item, keys=keys, without=without)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item, keys=keys, without=without)
