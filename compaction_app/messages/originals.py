"""What came, read into the fields of a message, whatever its format. Pure.

The fields are a reading: text, calls, results, reasoning and attachments, as far as they are found in the shapes that
providers and frameworks use (chat completions, Responses items, Anthropic's blocks, pydantic-ai, LangChain). Where the
fields could not give it back, what came is kept beside them as ``original``. What is not understood leaves a one-line
marker in the text, so that a summarizer knows of it. A model's reply is never refused for its form; a host's message
is refused where it contradicts itself, since a host can correct it.

``original`` is of a whole message and goes back to the model that sent it, at the same endpoint. ``part`` of an
attachment is the form of one content part, which goes to any endpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Literal

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.media import TOKENS_PER_ATTACHMENT, media_tokens
from compaction_app.messages.openai_format import (
    PARTS,
    attachment_line,
    attachment_of,
    described,
    made_id,
    sent_name,
    short_id,
    strings,
    with_address,
)
from compaction_app.messages.tool_calls import name_and_arguments, tool_marker
from compaction_app.messages.truncate import in_brackets, one_line
from compaction_app.messages.validation import FORMATS, check_list_of_dicts, sizes_of, storable

#: Who wrote what is read: a client of the JSON API may send only what its documentation names; a host may send
#: anything that does not contradict itself; a model anything at all.
Writer = Literal["client", "host", "model"]

OPENAI, RESPONSES, ANTHROPIC, PYDANTIC_AI, LANGCHAIN = FORMATS
FormatName = Literal["openai", "openai-responses", "anthropic", "pydantic-ai", "langchain"]

#: Begins a result whose call is not there: :func:`become_text`.
RESULT_AS_TEXT = "[result of a tool call: "
_MARKER_CHARS = 240
#: Keys with a name or a number in them, which a stream repeats, and ends of such keys.
_NAMES = frozenset({"id", "type", "role", "name", "index", "format", "status", "object", "model", "mime_type"})
_NAME_ENDS = ("_id", "signature")
#: Kinds of parts whose text goes on in the next chunk of a stream.
_FLOWING = re.compile(r"text|think|reason|summary", re.IGNORECASE)
_SEALED = re.compile(r"encrypt|redact", re.IGNORECASE)
#: Providers' own summaries of what is above them, sealed or with its words.
_COMPACTIONS = frozenset({"compaction", "response.compaction", "compaction_summary", "context_compaction"})
#: In one message: nobody takes each of more out of its text.
_MOST_COMPACTIONS = 100
_CALLS = frozenset({"tool_use", "tool-call", "tool_call", "function_call", "custom_tool_call"})
_RESULTS = frozenset({"tool_result", "tool-return"})
_REASONING_KEYS = ("reasoning", "reasoning_content", "thinking_blocks", "reasoning_details")
#: Keys of a message, of a part and of a call that the fields give back.
_READ_KEYS = frozenset({"role", "content", "refusal", "reasoning", "tool_calls", "tool_call_id", "name", "index"})
_PART_KEYS = frozenset({"type", "text", "refusal", "image_url", "file", "input_audio"})
_OTHER_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool"}
_LANGCHAIN_TYPES = frozenset({*_OTHER_ROLES, "tool", "system"})
#: Characters of the bytes that a message's attachments hold beside its original, so that another endpoint can be sent
#: them. With more the message would be too large.
_MOST_TWICE = 1_500_000
#: Strings of an original that nobody reads as text: see :func:`original_texts`.
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
#: What providers write beside the fields.
PROVIDER_KEYS = frozenset(
    {*_REASONING_KEYS[1:], "refusal", "annotations", "audio", "function_call", "images", "extra_content"}
    | {"provider_specific_fields", "citations"}
)
_WHOLE_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"}) | PROVIDER_KEYS
#: What is no key of a message, and how like one a typing error is.
_ARGUMENTS, _LIKENESS = ("context", "idempotency_key", "lenient", "parent"), 0.8
#: A part of a client goes out as it came where it has no other keys.
_CLIENT_KEYS = frozenset({"type", "url", "detail", "data", "format", "filename", "file_data", "file_id"}) | _PART_KEYS
#: Of a reply that is too large to be stored, keys of its original with this many bytes or more are left out first.
_LARGE_KEY = 10_000
_UNREAD = frozenset({"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "index", "format", "status"})
#: Keys at any depth of an original that no model reads: what frameworks note beside what is sent.
_NOTED = _UNREAD | frozenset(
    "kind part_kind run_id conversation_id timestamp state metadata instructions usage usage_metadata response_metadata"
    " provider_data provider_details provider_name provider_url provider_response_id model_name finish_reason".split()
)


# -- one value of the pieces of a stream -------------------------------------------------------------------


def merged(pieces: Iterable[Any]) -> Any:
    """The pieces of a stream as one value: texts joined, objects and lists merged item by item, of others the last."""
    given = [piece for piece in pieces if piece is not None]
    if not given:
        return None
    if all(isinstance(piece, str) for piece in given):
        return "".join(given)
    if all(isinstance(piece, Mapping) for piece in given):
        found: dict[str, list[Any]] = {}
        for piece in given:
            for key, item in piece.items():
                found.setdefault(key, []).append(item)
        return {key: _merged_key(key, items) for key, items in found.items()}
    if any(isinstance(piece, list) for piece in given):
        return _merged_lists(given)
    return given[-1]


def is_name(key: str) -> bool:
    """Whether the value of a key comes whole in each piece of a stream that has it."""
    return key in _NAMES or key.endswith(_NAME_ENDS)


def _merged_key(key: str, pieces: list[Any]) -> Any:
    if is_name(key):
        return next((piece for piece in reversed(pieces) if piece not in (None, "")), pieces[-1])
    return merged(pieces)


def _merged_lists(given: list[Any]) -> list[Any]:
    """Items with an index by their index; else the first item of a chunk continues the last one of its kind."""
    slots: list[list[Any]] = []
    numbered: dict[tuple[int, str], list[Any]] = {}
    for piece in given:
        items = piece if isinstance(piece, list) else [{"type": "text", "text": piece}] if piece else []
        begun = len(slots)
        last = slots[-1] if slots else None
        for place, item in enumerate(items):
            number = _number_of(item)
            slot = numbered.get(number) if number else last if place == 0 and _goes_on(last, item) else None
            if slot is None:
                slots.append([item])
            else:
                slot.append(item)
        # A chunk has one piece of each.
        for slot in slots[begun:]:
            if number := _number_of(slot[0]):
                numbered.setdefault(number, slot)
    return [merged(slot) for slot in slots]


def _number_of(item: Any) -> tuple[int, str] | None:
    index = item.get("index") if isinstance(item, Mapping) else None
    return (index, str(item.get("type"))) if isinstance(index, int) else None


def _goes_on(last: list[Any] | None, item: Any) -> bool:
    if last is None or not isinstance(last[0], Mapping) or not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    if last[0].get("type") != kind or last[-1].get("signature"):
        return False
    flows = _FLOWING.search(str(kind)) and not _SEALED.search(str(kind))
    return bool(flows) and "id" not in item


# -- reading --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reading:
    """What was read of a message or a part."""

    writer: Writer
    #: Texts in order; None where something that is no text stood between two.
    texts: list[str | None] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    #: Of results: the call's id, the tool's name, the text, the attachments, and the part itself.
    results: list[tuple[str, str, Reading, Any]] = field(default_factory=list)
    reasoning: list[Any] = field(default_factory=list)
    attachments: list[dict[str, Any]] = field(default_factory=list)
    #: Parts that are no results.
    others: list[Any] = field(default_factory=list)
    format: str = OPENAI
    #: Whether the fields could give it back.
    is_exact: bool = True

    def text(self, role: str = "user") -> str:
        """Parts of a reply go on where the one before ended; those of others are paragraphs."""
        between = "" if role == "assistant" else "\n\n"
        runs = [list(filter(None, run)) for _, run in groupby(self.texts, key=lambda text: text is None)]
        return "\n\n".join(between.join(run) for run in runs if run)

    def read_content(self, content: Any) -> None:
        if isinstance(content, str):
            self.texts.append(content)
        elif isinstance(content, list | tuple):
            for number, part in enumerate(content, start=1):
                self.read_part(part, number)
        elif isinstance(content, Mapping) and _is_media(content):
            self.read_part(content, 1)
            self.is_exact = False
        elif content is not None:
            self.texts.append(json.dumps(self._without_media(content), ensure_ascii=False))
            self.is_exact = False

    def _without_media(self, value: Any) -> Any:
        """The value with a line in place of each picture, sound and file, which become attachments."""
        if isinstance(value, list | tuple):
            return [self._without_media(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if _is_media(value) and described(value)["url"][:5] == "data:":
            self.attachments.append(attachment_of(value, 1, len(self.attachments) + 1))
            return attachment_line(self.attachments[-1])
        return {key: self._without_media(item) for key, item in value.items()}

    def read_part(self, part: Any, number: int) -> None:
        if isinstance(part, str) and self.writer != "client":
            self.texts.append(part)
            self.is_exact = False
            return
        if not isinstance(part, Mapping):
            self._refuse(f"Part {number} of content must be an object, not {type(part).__name__}.", part)
            return
        kind = str(part.get("type") or part.get("part_kind") or part.get("kind") or next(iter(part), ""))
        results, attachments = len(self.results), len(self.attachments)
        known = self.writer != "client" and self._read_known(part, kind)
        if not known:
            text = _text_in(part)
            if isinstance(text, str):
                self.texts.append(text)
            elif text is not None:
                words = f"The text of part {number} of content must be a string, not {type(text).__name__}."
                self._refuse(words, part)
            else:
                self._read_media(part, kind, number)
        if len(self.results) == results:
            self.others.append(part)
        # An attachment has all of its part, and the bytes once.
        if known or "source" in part or not (set(part) <= _PART_KEYS or len(self.attachments) > attachments):
            self.is_exact = False

    def _read_known(self, part: Mapping[str, Any], kind: str) -> bool:
        """Items of all formats but OpenAI's own parts; whether it is one."""
        ids = (part[key] for key in ("call_id", "tool_call_id", "tool_use_id", "id") if part.get(key))
        call_id, name = str(next(ids, "")), part.get("name") or part.get("tool_name")
        if "part_kind" in part:
            self.format = PYDANTIC_AI
        elif kind in ("tool_use", "tool_result", "redacted_thinking") or "signature" in part or "source" in part:
            self.format = ANTHROPIC
        elif kind in ("function_call", "message", "reasoning", "output_text", "input_text") or "_call" in kind[1:]:
            self.format = LANGCHAIN if kind == "tool_call" else RESPONSES
        if kind in _CALLS or (kind.endswith("_call") and part.get("call_id")):
            self.add_call({**part, "id": call_id, "name": name or kind})
        elif kind in _RESULTS or kind.endswith("_call_output") or (kind == "retry-prompt" and part.get("tool_name")):
            inner = Reading(self.writer)
            inner.read_content(part.get("output", part.get("content")))
            self.results.append((call_id, str(name or ""), inner, part))
        elif "thinking" in kind or kind.startswith("reasoning"):
            self.reasoning.append(dict(part))
        elif kind == "message" or ("part_kind" in part and not set(part) & {"text", "data"}):
            others = len(self.others)
            self.read_content(part.get("content"))
            del self.others[others:]
            return True
        elif kind == "server_tool_use" or kind.endswith(("_call", "builtin-tool-call")):
            # A picture that a hosted tool made is in its call.
            self._without_media(part)
            self.texts += [None, tool_marker({**part, "name": name or kind}, None)]
        else:
            return False
        # What comes behind it is a paragraph of its own.
        self.texts.append(None)
        return True

    def _read_media(self, part: Mapping[str, Any], kind: str, number: int) -> None:
        if kind == "text" or _is_media(part) or self.writer == "client":
            try:
                attachment = attachment_of(part, number, len(self.attachments) + 1)
            except InvalidMessage:
                if self.writer == "client" or (self.writer == "host" and kind in ("image_url", "text")):
                    raise
            else:
                inner = part.get(kind)
                keys = {*part, *(inner if isinstance(inner, Mapping) else ())}
                if self.writer == "client" and not keys <= _CLIENT_KEYS:
                    attachment.pop("part", None)
                self.attachments.append(attachment)
                return
        self._mark(kind, part)

    def _refuse(self, words: str, part: Any) -> None:
        if self.writer != "model":
            raise InvalidMessage(words, field="content")
        self._mark("part", part)

    def _mark(self, kind: str, part: Any) -> None:
        """One line that tells of a part that is not understood."""
        part = self._without_media(part)
        texts = strings(part, keys=False, without=_UNREAD)
        words = " ".join(text for text in texts if text.strip() and not _is_blob(text))
        self.texts += [None, one_line(f"[{kind}: {words}" if words else f"[{kind}", _MARKER_CHARS - 1) + "]", None]
        self.is_exact = False

    def add_call(self, call: Any, salt: str = "") -> None:
        """A call in any shape, with an id, a name and arguments as text, whatever came."""
        given = call if isinstance(call, Mapping) else {}
        name, arguments = name_and_arguments(given)
        is_custom = isinstance(given.get("custom"), Mapping) or given.get("type") == "custom_tool_call"
        if is_custom and isinstance(arguments, str):
            arguments = {"input": arguments}
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        name = name if isinstance(name, str) and name else "unnamed"
        call_id = given.get("id")
        if not isinstance(call_id, str) or not call_id.strip() or call_id in self._ids:
            call_id = made_id(json.dumps([salt, len(self.calls), name, text]))
        self._ids.add(call_id)
        function = {"name": name, "arguments": text}
        made = {"id": call_id, "type": "custom" if is_custom else "function", "function": function}
        # What a client of the API writes beside them is nowhere else.
        self.calls.append(storable({**given, **made} if self.writer == "client" else made))
        own = {**given, "type": given.get("type") or "function", "function": given.get("function", given)}
        own = {key: value for key, value in own.items() if value not in (None, [], {}) and key != "index"}
        if own != self.calls[-1] or short_id(call_id) != call_id:
            self.is_exact = False


def _is_media(block: Mapping[str, Any], key: str = "") -> bool:
    """Whether the block is a picture, a sound or a file; ``key``: of an object that does not say what it is."""
    kind = block.get("type") or block.get("kind") or key
    return described({**block, "type": kind} if key else block)["type"] in PARTS


def _text_in(part: Mapping[str, Any]) -> Any:
    """The text of a part, or of the text file in it."""
    inner = next((one for key in ("source", "resource") if isinstance(one := part.get(key), Mapping)), {})
    own = inner.get("data") if inner.get("type") == "text" else inner.get("text")
    return part.get("text", part.get("refusal", own))


def read_message(data: Mapping[str, Any], *, writer: Writer = "host", salt: str = "") -> Reading:
    """A message of the OpenAI chat format, or in the form of another that is like it.

    ``salt``: makes the ids of calls without one differ between messages.
    """
    reading = Reading(writer)
    reading.read_content(data.get("content"))
    role = str(data.get("role") or "assistant")
    if role == "assistant" and isinstance(data.get("content"), list | tuple):
        reading.is_exact = False
    audio = data.get("audio")
    said = [data.get("refusal"), audio.get("transcript") if isinstance(audio, Mapping) else None]
    if text := next((t for t in said if isinstance(t, str) and t), ""):
        if reading.text().strip():
            reading.is_exact = False
        else:
            reading.texts.append(text)
    # The AI SDK's messages have their text there.
    if isinstance(parts := data.get("parts"), list | tuple):
        reading.read_content(parts)
    for number, image in enumerate(data.get("images") or () if isinstance(data.get("images"), list) else (), start=1):
        if isinstance(image, Mapping):
            reading.read_part(image, number)
    # LangChain repeats the calls of its content.
    repeated = {one["id"] for one in reading.calls}
    for call in _calls_of(data):
        if not (isinstance(call, Mapping) and call.get("type") == "tool_call" and str(call.get("id")) in repeated):
            reading.add_call(call, salt)
    reasoning = next((data[key] for key in _REASONING_KEYS if data.get(key)), None)
    if reasoning is not None:
        reading.reasoning[:0] = [reasoning]
    is_odd = not isinstance(data.get("tool_calls") or [], list | tuple)
    if is_odd or any(data[key] not in (None, "", [], {}) for key in data if key not in _READ_KEYS):
        reading.is_exact = False
    return reading


def _calls_of(data: Mapping[str, Any]) -> Sequence[Any]:
    calls, legacy = data.get("tool_calls"), data.get("function_call")
    if calls and isinstance(calls, list | tuple):
        return calls
    if isinstance(calls, Mapping):
        return [calls]
    # Its result has the function's name and no id.
    return [{**legacy, "id": made_id(str(legacy.get("name")))}] if isinstance(legacy, Mapping) else []


def fields_of(data: Mapping[str, Any], *, source: Mapping[str, str], salt: str = "") -> dict[str, Any]:
    """What a model wrote, in the keywords of ``append_message``; it is kept where they could not give it back.

    ``source``: the endpoint, and the model that was asked.
    """
    data = storable(data)
    reading = read_message(data, writer="model", salt=salt)
    return {
        "content": reading.text("assistant"),
        "tool_calls": reading.calls,
        "reasoning": one_or_all(reading.reasoning),
        "attachments": reading.attachments or None,
        "original": None if reading.is_exact else {"format": OPENAI, **source, "data": data},
    }


def bounded(fields: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The fields of a reply in at most ``max_bytes``, or without all that may be left out: it was paid for.

    Text and calls stay. What is beside them is left out, as much of it as needed; a picture is only named then.
    """
    original, attachments = fields["original"], fields["attachments"]
    smaller: list[dict[str, Any]] = [{"reasoning": None}, {"original": None}]
    if attachments:
        smaller.insert(1, {"attachments": [dict(with_address(one, "")) for one in attachments]})
    if original:
        sizes = sizes_of(original["data"])
        data = {
            key: item for key, item in original["data"].items() if key in _READ_KEYS or sizes.get(key, 0) < _LARGE_KEY
        }
        smaller.insert(0, {"original": {**original, "data": data}})
    for fewer in smaller:
        if sum(sizes_of(fields).values()) <= max_bytes:
            break
        fields = {**fields, **fewer}
    return fields


def one_or_all(blocks: list[Any]) -> Any:
    """Reasoning as it came: the one text or list that is all of it, or the blocks."""
    return blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str | list) else blocks or None


# -- whole messages of other formats --------------------------------------------------------------------------


class _Answer(dict[str, Any]):
    """Items of the Responses API as one message."""


def native_format(message: Mapping[str, Any]) -> str:
    """The format of a message that is not in the OpenAI chat format; "" of one that is."""
    kind = message.get("type")
    if isinstance(message, _Answer):
        return RESPONSES
    if "role" not in message and isinstance(message.get("parts"), list | tuple):
        return PYDANTIC_AI
    if not isinstance(kind, str):
        return ""
    return LANGCHAIN if kind in _LANGCHAIN_TYPES else RESPONSES


def items_joined(messages: Iterable[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """The messages with consecutive items of one Responses answer as one message, each with its first index."""
    joined: list[tuple[int, Mapping[str, Any]]] = []
    answer: list[Any] | None = None
    for index, message in enumerate(messages):
        if native_format(message) != RESPONSES or isinstance(message, _Answer):
            joined.append((index, message))
            answer = None
        elif str(message["type"]).endswith("_call_output") or message.get("role", "assistant") != "assistant":
            joined.append((index, _Answer(role=message.get("role", "tool"), content=[message])))
            answer = None
        elif answer is None:
            answer = [message]
            joined.append((index, _Answer(role="assistant", content=answer)))
        else:
            answer.append(message)
    return joined


def with_known_keys(message: Mapping[str, Any], known: Collection[str]) -> Mapping[str, Any]:
    """A host's message with what is neither ``known`` nor a provider's in its metadata, as an import has it.

    Refused is what is like a key that is known.
    """
    others = {key: item for key, item in message.items() if key not in known and key not in PROVIDER_KEYS}
    if native_format(message) or not others:
        return message
    for key in others:
        if key in _ARGUMENTS:
            words = f"{key} is an argument of append_message, and no key of a message: leave it out."
            raise InvalidMessage(words, field=key)
        if meant := get_close_matches(str(key), known, 1, _LIKENESS):
            words = f"Unknown message key {key!r}: did you mean {meant[0]}? Put what is yours into metadata."
            raise InvalidMessage(words, field=str(key))
    given = message.get("metadata") or {}
    if not isinstance(given, Mapping):
        return message
    return {**message, "metadata": {**{key: item for key, item in others.items() if item is not None}, **given}}


def check_shape(message: Mapping[str, Any]) -> None:
    """Refuse a message of the chat format whose content or calls are neither a text nor a list."""
    if not isinstance(message.get("content"), str | list | tuple | None):
        kind = type(message["content"]).__name__
        raise InvalidMessage(f"content must be a string or a list of parts, not {kind}.", field="content")
    check_list_of_dicts(message.get("tool_calls") or [], "tool_calls", "dicts")


def messages_of(message: Mapping[str, Any], writer: Writer) -> list[dict[str, Any]]:
    """One message in any format as the messages that store it: each result of a tool is a message of its own.

    What is no reading (``metadata``, ``external_id`` and the like) goes to the last of them.
    """
    form = native_format(message) if writer != "client" else ""
    if form == RESPONSES and not isinstance(message, _Answer):
        return messages_of(items_joined([message])[0][1], writer)
    given = _in_our_keys(message, form) if writer == "host" else message
    check_shape(given)
    attachments = given.get("attachments") or []
    check_list_of_dicts(attachments, "attachments", "dicts")
    if writer == "client":
        attachments = [{key: item for key, item in one.items() if key != "part"} for one in attachments]
    reading = read_message({key: given[key] for key in _WHOLE_KEYS if key in given}, writer=writer)
    whole = message if form else {key: given[key] for key in given if key in _WHOLE_KEYS and given[key]}
    form = form or reading.format
    rest = {key: given[key] for key in given if key not in ("content", "tool_calls") and key not in PROVIDER_KEYS}

    # What is beside the parts is stored once, with the last of them; the others have what a message cannot be without.
    kinds: dict[str, Any] = {key: whole[key] for key in ("role", "type", "kind") if key in whole}
    # As LangChain dumps a message.
    inside: dict[str, Any] = {"data": {}} if isinstance(whole.get("data"), Mapping) else {}

    def kept(parts: list[Any], beside: Mapping[str, Any]) -> dict[str, Any]:
        data: Any = whole
        if form == RESPONSES:
            data = parts
        elif len(parts) < len(reading.others) + len(reading.results):
            own = {"parts" if form == PYDANTIC_AI else "content": parts}
            data = {**beside, "data": {**beside["data"], **own}} if inside else {**beside, **own}
        return {"format": form, "endpoint": "", "data": storable(data)}

    stored: list[dict[str, Any]] = []
    for call_id, name, result, part in reading.results:
        texts = {"content": result.text(), "tool_call_id": call_id, "name": name}
        with_it = {"attachments": _with_bytes_once(result.attachments)} if result.attachments else {}
        stored.append({"role": "tool", **texts, **with_it, "original": kept([part], kinds | inside)})
    if not stored or reading.others:
        own = {**rest, "content": reading.text(str(rest.get("role"))), "tool_calls": reading.calls}
        own["attachments"] = [*attachments, *reading.attachments]
        if reading.reasoning:
            own["reasoning"] = one_or_all(reading.reasoning)
        if not own.get("original") and writer != "client" and (form != OPENAI or not reading.is_exact):
            own["original"] = kept(reading.others, whole)
            own["attachments"] = [*attachments, *_with_bytes_once(reading.attachments)]
        stored.append(own)
    else:
        stored[-1] = {**rest, **stored[-1], "original": kept([reading.results[-1][-1]], whole)}
    return stored


def _with_bytes_once(attachments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attachments of a message whose original has the bytes, too: those that would make it too large without."""
    total, kept = 0, list[dict[str, Any]]()
    for one in attachments:
        total += len(one.get("url", ""))
        tokens = media_tokens(one["type"], one) or TOKENS_PER_ATTACHMENT
        kept.append(one if total <= _MOST_TWICE else {**with_address(one, ""), "tokens": tokens})
    return kept


def _in_our_keys(message: Mapping[str, Any], form: str) -> Mapping[str, Any]:
    given = message
    if form == LANGCHAIN:
        inner = message["data"] if isinstance(message.get("data"), Mapping) else message
        extra = inner.get("additional_kwargs")
        given = {key: inner[key] for key in ("content", "tool_calls", "tool_call_id", "name") if inner.get(key)}
        given |= {key: extra[key] for key in _REASONING_KEYS if isinstance(extra, Mapping) and extra.get(key)}
        given["role"] = message["type"]
    elif form == PYDANTIC_AI:
        kinds = {str(part.get("part_kind")) for part in message["parts"] if isinstance(part, Mapping)}
        asked = "system" if kinds == {"system-prompt"} else "user"
        given = {"role": "assistant" if message.get("kind") == "response" else asked, "content": message["parts"]}
    role: Any = given.get("role")
    if role == "function":
        # The old form of a result.
        given = {**given, "tool_call_id": made_id(str(given.get("name")))}
    return {**given, "role": _OTHER_ROLES[role]} if isinstance(role, str) and role in _OTHER_ROLES else given


def become_text(result: Any) -> None:
    """Make a tool's result without its call a text of the user role, which is valid anywhere. In place.

    Each line is quoted, and its name and id are no sentences: nobody may take them for what a person asked for.
    """
    data = {"role": "tool", "tool_call_id": result.tool_call_id, "content": result.content}
    result.original = result.original or {"format": OPENAI, "endpoint": "", "data": data}
    about = in_brackets(" ".join(sent_name(one) for one in (result.name, result.tool_call_id) if one), 80)
    quoted = "".join(f"\n> {line}" for line in result.content.splitlines())
    result.role, result.content = "user", f"{RESULT_AS_TEXT}{about}]{quoted}"
    result.tool_call_id = result.name = ""


def is_compaction(item: Any) -> bool:
    """Whether it is a provider's own summary, also as LangChain wraps what it does not know."""
    if not isinstance(item, Mapping):
        return False
    return str(item.get("type") or item.get("part_kind")) in _COMPACTIONS or is_compaction(item.get("value"))


def without_compactions(value: Any, cut: list[Any]) -> Any:
    """A JSON value without the providers' own summaries in it, at any depth: they are added to ``cut``."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    items = dict(value if isinstance(value, Mapping) else enumerate(value))
    cut += filter(is_compaction, items.values())
    kept = {key: without_compactions(item, cut) for key, item in items.items() if not is_compaction(item)}
    return kept if isinstance(value, Mapping) else list(kept.values())


def text_without(text: str, cut: Iterable[Any]) -> str:
    """A message's text without what was read of these parts of its original."""
    reading = Reading("model")
    for part in cut:
        reading.read_part(part, 1)
    said = list(filter(None, reading.texts))
    if len(said) > _MOST_COMPACTIONS:
        return ""
    for one in said:
        text = text.replace(one, "", 1)
    return text.strip()


def original_texts(original: Any) -> list[str]:
    """The texts that an original is sent as, for counting.

    Of a signature, of encrypted reasoning and of other base64 a quarter is counted: four of its characters stand for
    three bytes, and the providers that read them back count about that. Pictures and files count as attachments.
    """
    return list(_counted(original.get("data"))) if isinstance(original, Mapping) else []


def _counted(value: Any, key: str = "", in_media: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        is_blob = _is_blob(value)
        if not is_blob or not (in_media or value.startswith("data:")):
            yield value[: len(value) // 4] if is_blob else value
    elif isinstance(value, Mapping):
        in_media = in_media or _is_media(value, key)
        for name, item in value.items():
            if name not in _NOTED:
                yield from _counted(item, name, in_media)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _counted(item, key, in_media)


def _is_blob(text: str) -> bool:
    return text.startswith("data:") or _BLOB.fullmatch(text) is not None
