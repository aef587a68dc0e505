"""Reads conversations of other programs as trees of messages that can be stored. Pure: text in, values out.

Two formats are supported. Open-Assistant trees: one a line, ``prompt`` is the root, ``replies`` nest. The OpenAI chat
format: an object with ``messages``, or the bare list; one for the file, or one a line. Its messages may have ``id``
and ``parent``, which makes the list a tree.

A file is imported whole or not at all, so everything that storing would refuse is refused here, with its line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.messages.validation import open_calls_after, validate_message, validate_session
from compaction_app.values import Role

#: Marks imported sessions; a digest of the conversation follows.
EXTERNAL_ID_PREFIX = "import:"
_TITLE_CHARACTERS = 80
_DIGEST_CHARACTERS = 40

_OASST_ROLES = {"prompter": Role.USER, "assistant": Role.ASSISTANT}
_OASST_KEYS = frozenset({"text", "role", "replies", "message_id", "parent_id", "created_date", "model_name"})
#: Stored as they are; every unknown key of a message goes to its metadata, so that nothing of a file is lost.
_OPENAI_STORED = ("tool_calls", "tool_call_id", "name", "reasoning", "usage", "model")
_OPENAI_KEYS = frozenset({*_OPENAI_STORED, "role", "content", "id", "parent", "created_at", "attachments", "metadata"})

_KNOWN = (
    "Supported are Open-Assistant trees (an object with 'prompt' a line) and the OpenAI chat format (an object with "
    "'messages', or a list of messages)."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: a line, or a message of a list, whose line is searched for if an error needs it."""

    line: int | None = None
    #: Position in ``messages``, from 0.
    index: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMessage:
    #: A message dict as ``chat.append_messages`` takes it.
    fields: Mapping[str, Any]
    #: Position of the parent in the conversation's messages, None for a root.
    parent: int | None
    place: Place
    #: Lower is better; None if not ranked.
    rank: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A session to store: its messages in the order of the file, which is also the order of siblings."""

    messages: tuple[ImportedMessage, ...]
    title: str = ""
    model: str = ""
    system_prompt: str = ""
    created_at: datetime | None = None
    external_id: str = ""

    def children(self) -> dict[int | None, list[int]]:
        """Positions of the children of each position; the roots are those of None."""
        return _children(self.messages)


@dataclass(kw_only=True)
class _Draft:
    """A conversation before it is checked."""

    messages: Sequence[ImportedMessage]
    place: Place
    title: str = ""
    model: str = ""
    created_at: datetime | None = None


def read_json(text: str, *, max_bytes: int, join: bool = False) -> list[Conversation]:
    """Read a file that is one JSON value."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ImportFailed(f"line {error.lineno}: this is not JSON: {error}.", line=error.lineno) from error
    except RecursionError as error:
        raise ImportFailed("line 1: nested too deeply.", line=1) from error
    try:
        return _conversations([_recognize_format(document, Place())], max_bytes=max_bytes, join=join)
    except _ErrorAt as wrong:
        raise wrong.in_text(text) from wrong


def read_lines(lines: Iterable[tuple[int, bytes]], *, max_bytes: int, join: bool = False) -> list[Conversation]:
    """Read a file with one JSON value a line; ``lines`` are pairs of number and line."""
    try:
        drafts = [_recognize_format(document, Place(line=number)) for number, document in _documents(lines)]
        if not drafts:
            raise ImportFailed("line 1: the file is empty.", line=1)
        return _conversations(drafts, max_bytes=max_bytes, join=join)
    except _ErrorAt as wrong:
        raise wrong.in_lines() from wrong


def decode(data: bytes, first_line: int = 1) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise ImportFailed(f"line {line}: this is not UTF-8 ({error.reason}).", line=line) from error


def is_one_value(line: bytes) -> bool:
    """Whether a line is a complete JSON object or list: then the file has one a line."""
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


class _ErrorAt(Exception):
    """An error at a place in the file; becomes an ImportFailed with the line."""

    def __init__(self, what: str, place: Place) -> None:
        super().__init__(what)
        self.what = what
        self.place = place

    def in_lines(self) -> ImportFailed:
        number = "" if self.place.index is None else f", message {self.place.index + 1}"
        return ImportFailed(f"line {self.place.line or 1}{number}: {self.what}", line=self.place.line or 1)

    def in_text(self, text: str) -> ImportFailed:
        if self.place.index is None:
            return ImportFailed(f"line 1: {self.what}", line=1)
        line = _line_of_message(text, self.place.index)
        return ImportFailed(f"line {line} (message {self.place.index + 1}): {self.what}", line=line)


def _documents(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        text = decode(line, number)
        if not text.strip():
            continue
        try:
            yield number, json.loads(text)
        except json.JSONDecodeError as error:
            problem = f"line {number}: this is not JSON: {error.msg} at character {error.pos + 1}."
            raise ImportFailed(problem, line=number) from error
        except RecursionError as error:
            raise ImportFailed(f"line {number}: nested too deeply.", line=number) from error


def _recognize_format(document: Any, place: Place) -> _Draft:
    """Recognize a format by its content, not by the name of the file."""
    if isinstance(document, dict) and isinstance(document.get("prompt"), dict):
        return _Draft(messages=_oasst_messages(document["prompt"], place), place=place)
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        return _openai_draft(document, place)
    if _is_chatgpt_export(document):
        raise _ErrorAt(f"this is an export of ChatGPT (conversations.json), which is not supported. {_KNOWN}", place)
    if isinstance(document, list) and all(isinstance(item, dict) and "role" in item for item in document):
        return _openai_draft({"messages": document}, place)
    raise _ErrorAt(f"the format is not recognized: {_kind(document)}. {_KNOWN}", place)


def _is_chatgpt_export(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        keys = ", ".join(str(key)[:30] for key in list(value)[:6])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {_kind(value[0])}" if value else "an empty list"
    return {"str": "a text", "NoneType": "null", "bool": "true or false"}.get(type(value).__name__, "a number")


# -- Open-Assistant trees -------------------------------------------------------------------------------


def _oasst_messages(prompt: Mapping[str, Any], place: Place) -> list[ImportedMessage]:
    """Depth first, with a stack: a tree may be deeper than Python can recurse."""
    messages: list[ImportedMessage] = []
    waiting: list[tuple[Any, int | None]] = [(prompt, None)]
    while waiting:
        node, parent = waiting.pop()
        messages.append(_oasst_message(node, parent, place))
        replies = node.get("replies") or []
        if not isinstance(replies, list):
            raise _ErrorAt("'replies' must be a list.", place)
        waiting.extend((reply, len(messages) - 1) for reply in reversed(replies))
    return messages


def _oasst_message(node: Any, parent: int | None, place: Place) -> ImportedMessage:
    if not isinstance(node, dict):
        raise _ErrorAt(f"a message of a tree must be an object, not {_kind(node)}.", place)
    named = f"message {str(node.get('message_id', ''))[:40] or '(without message_id)'}"
    role = _OASST_ROLES.get(node["role"]) if isinstance(node.get("role"), str) else None
    if role is None:
        raise _ErrorAt(f"{named}: the role must be prompter or assistant.", place)
    rank = node.get("rank")
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int | float)):
        raise _ErrorAt(f"{named}: the rank must be a number.", place)
    fields = {
        "role": role,
        "content": node.get("text"),
        "external_id": _text_id(node.get("message_id"), place),
        "model": node.get("model_name") or "",
        "created_at": _moment(node.get("created_date"), place),
        "metadata": {key: node[key] for key in node if key not in _OASST_KEYS},
    }
    return ImportedMessage(fields=fields, parent=parent, place=place, rank=rank)


# -- The OpenAI chat format -----------------------------------------------------------------------------


def _openai_draft(document: Mapping[str, Any], place: Place) -> _Draft:
    items = document["messages"]
    parents = _parents(items, place)
    messages = [
        _openai_message(item, parent, replace(place, index=index))
        for index, (item, parent) in enumerate(zip(items, parents, strict=True))
    ]
    if system_prompt := document.get("system_prompt"):
        messages = _below_system_prompt(system_prompt, messages, place)
    return _Draft(
        messages=messages,
        place=place,
        title=_text(document, "title", place),
        model=_text(document, "model", place),
        created_at=_moment(document.get("created_at"), place),
    )


def _below_system_prompt(text: Any, messages: Sequence[ImportedMessage], place: Place) -> list[ImportedMessage]:
    """The system prompt as the opening message, so that one rule covers both ways to write it."""
    opening = ImportedMessage(fields={"role": Role.SYSTEM, "content": text}, parent=None, place=place)
    return [opening, *(replace(m, parent=0 if m.parent is None else m.parent + 1) for m in messages)]


def _parents(items: Sequence[Any], place: Place) -> list[int | None]:
    """Position of each message's parent: the named one, else the message before."""
    position: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise _ErrorAt(f"a message must be an object, not {_kind(item)}.", replace(place, index=index))
        if key := _text_id(item.get("id"), replace(place, index=index)):
            if key in position:
                raise _ErrorAt(f"the id {key!r} is used a second time.", replace(place, index=index))
            position[key] = index
    return [_parent(item, index, position, place) for index, item in enumerate(items)]


def _parent(item: Mapping[str, Any], index: int, position: Mapping[str, int], place: Place) -> int | None:
    if "parent" not in item:
        return index - 1 if index else None
    named = _text_id(item["parent"], replace(place, index=index))
    if not named:
        return None
    if named not in position:
        raise _ErrorAt(f"the parent {named!r} is in no message's id.", replace(place, index=index))
    return position[named]


def _openai_message(item: Mapping[str, Any], parent: int | None, place: Place) -> ImportedMessage:
    if item.get("function_call") or item.get("role") == "function":
        raise _ErrorAt("function_call is not supported; write it as tool_calls and messages of role tool.", place)
    content, attachments = _flatten(item.get("content"), place)
    fields = {key: item[key] for key in _OPENAI_STORED if item.get(key) is not None}
    if isinstance(fields.get("tool_calls"), list):
        fields["tool_calls"] = [_with_text_arguments(call) for call in fields["tool_calls"]]
    given = item.get("attachments") or []
    if not isinstance(given, list):
        raise _ErrorAt("attachments must be a list of objects.", place)
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _ErrorAt("metadata must be an object.", place)
    others = {key: item[key] for key in item if key not in _OPENAI_KEYS and item[key] is not None}
    fields |= {
        "role": item.get("role"),
        "content": content,
        "external_id": _text_id(item.get("id"), place),
        "created_at": _moment(item.get("created_at"), place),
        "attachments": [*given, *attachments] or None,
        "metadata": {**others, **metadata},
    }
    return ImportedMessage(fields=fields, parent=parent, place=place)


def _with_text_arguments(call: Any) -> Any:
    """Some programs write a call's arguments as an object; the format requires JSON text."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), dict):
        return call
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


def _flatten(content: Any, place: Place) -> tuple[Any, list[dict[str, Any]]]:
    """Text and attachments of a content, which may be a list of parts."""
    if content is None:
        return "", []
    if not isinstance(content, list):
        return content, []
    texts: list[str] = []
    attachments: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise _ErrorAt(f"a part of a content must be an object, not {_kind(part)}.", place)
        elif (text := part.get("text", part.get("refusal"))) is not None:
            texts.append(_part_text(text, place))
        else:
            attachments.append(_attachment(part, len(attachments) + 1))
    return "\n\n".join(texts), attachments


def _part_text(text: Any, place: Place) -> str:
    if not isinstance(text, str):
        raise _ErrorAt(f"the text of a part must be a text, not {_kind(text)}.", place)
    return text


def _attachment(part: Mapping[str, Any], number: int) -> dict[str, Any]:
    kind = str(part.get("type") or "attachment")
    label = "image" if "image" in kind else "audio" if "audio" in kind else "file" if "file" in kind else kind
    inner = part.get(kind)
    inner = inner if isinstance(inner, dict) else {"url": inner} if isinstance(inner, str) else {}
    url = inner.get("url") or inner.get("file_data") or inner.get("file_id") or ""
    # Always with a name: without one the address is shown and counted instead, and a data: address has a hundred
    # thousand characters.
    attachment = {"type": label, "name": str(inner.get("filename") or f"{label} {number}")}
    if url:
        attachment["url"] = str(url)
    if mime := re.match(r"data:([\w.+-]+/[\w.+-]+)[;,]", str(url)):
        attachment["mime_type"] = mime[1]
    return attachment


# -- Both formats ---------------------------------------------------------------------------------------


def _text(document: Mapping[str, Any], key: str, place: Place) -> str:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise _ErrorAt(f"{key} must be a text, not {_kind(value)}.", place)
    return value or ""


def _text_id(value: Any, place: Place) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _ErrorAt(f"an id must be a text or a number, not {_kind(value)}.", place)
    return str(value)


def _moment(value: Any, place: Place) -> datetime | None:
    """A time from ISO 8601 or seconds since 1970; UTC if it has no zone."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        shown = repr(value)[:60]
        raise _ErrorAt(f"{shown} is not a time; write ISO 8601 or seconds since 1970.", place) from error


def _conversations(drafts: Sequence[_Draft], *, max_bytes: int, join: bool) -> list[Conversation]:
    if join and len(drafts) > 1:
        drafts = [_joined(drafts)]
    return [_checked(draft, max_bytes) for draft in drafts]


def _joined(drafts: Sequence[_Draft]) -> _Draft:
    """One conversation of all trees: each tree is attached to the end of the best-ranked branch of the tree before."""
    messages: list[ImportedMessage] = []
    leaf: int | None = None
    for draft in drafts:
        offset = len(messages)
        messages += [
            replace(message, parent=leaf if message.parent is None else message.parent + offset)
            for message in draft.messages
        ]
        if draft.messages:
            leaf = offset + _best_leaf(draft.messages)
    return replace(drafts[0], messages=messages)


def _best_leaf(messages: Sequence[ImportedMessage]) -> int:
    """The leaf reached by the lowest rank at each level; unranked replies last, ties by file order."""
    below = _children(messages)
    best: int | None = None
    while replies := below.get(best):
        best = min(replies, key=lambda index: (messages[index].rank is None, messages[index].rank or 0.0, index))
    return best or 0


def _children(messages: Iterable[ImportedMessage]) -> dict[int | None, list[int]]:
    below: dict[int | None, list[int]] = {}
    for index, message in enumerate(messages):
        below.setdefault(message.parent, []).append(index)
    return below


def _checked(draft: _Draft, max_bytes: int) -> Conversation:
    """A conversation that can be stored: each message is checked, its place in the tree and its id."""
    _check_messages(draft.messages, max_bytes)
    system_prompt, messages = _without_opening_system(draft.messages)
    if not messages:
        raise _ErrorAt("it contains no message.", draft.place)
    conversation = Conversation(
        messages=tuple(messages),
        title=draft.title or _title(messages),
        model=draft.model,
        system_prompt=system_prompt,
        created_at=draft.created_at,
        external_id=EXTERNAL_ID_PREFIX + _digest(system_prompt, messages),
    )
    texts = {name: getattr(conversation, name) for name in ("title", "model", "system_prompt")}
    _refuse_invalid(draft.place, validate_session, texts)
    return conversation


def _refuse_invalid(place: Place, check: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return check(*arguments, **options)
    except InvalidMessage as error:
        raise _ErrorAt(str(error), place) from error


def _check_messages(messages: Sequence[ImportedMessage], max_bytes: int) -> None:
    """Check every message, from the roots down: a result must answer an open call of its own path."""
    below = _children(messages)
    ids: set[str] = set()
    open_calls: dict[int | None, list[str]] = {None: []}
    waiting = list(reversed(below.get(None, [])))
    while waiting:
        index = waiting.pop()
        message = messages[index]
        _refuse_invalid(message.place, validate_message, message.fields, max_bytes=max_bytes)
        if external_id := message.fields.get("external_id"):
            if external_id in ids:
                raise _ErrorAt(f"the id {external_id!r} is used a second time.", message.place)
            ids.add(external_id)
        open_calls[index] = _refuse_invalid(message.place, open_calls_after, open_calls[message.parent], message.fields)
        waiting.extend(reversed(below.get(index, [])))
    unreached = next((message for i, message in enumerate(messages) if i not in open_calls), None)
    if unreached is not None:
        raise _ErrorAt("its parents form a cycle and never reach a root.", unreached.place)


def _without_opening_system(messages: Sequence[ImportedMessage]) -> tuple[str, list[ImportedMessage]]:
    """Take the opening system message as the conversation's prompt; its replies become the roots.

    If several trees open with the same one, it is removed from all; one with another text stays a message.
    """
    below = _children(messages)
    prompt, gone = "", set[int]()
    waiting = list(reversed(below.get(None, [])))
    while waiting:
        index = waiting.pop()
        content = messages[index].fields["content"]
        if messages[index].fields["role"] == Role.SYSTEM and (not content or prompt in ("", content)):
            prompt = prompt or content
            gone.add(index)
            waiting.extend(reversed(below.get(index, [])))
    return prompt, _without(messages, gone) if gone else list(messages)


def _without(messages: Sequence[ImportedMessage], gone: set[int]) -> list[ImportedMessage]:
    moved: dict[int | None, int | None] = {None: None}
    moved |= dict.fromkeys(gone)
    kept = [index for index in range(len(messages)) if index not in gone]
    moved |= {index: position for position, index in enumerate(kept)}
    return [replace(messages[index], parent=moved[messages[index].parent]) for index in kept]


def _title(messages: Sequence[ImportedMessage]) -> str:
    """The first words of the first user message."""
    asked = (m.fields["content"] for m in messages if m.fields.get("role") == Role.USER)
    words = " ".join(next(asked, "").split())
    return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1].rstrip() + "…"


def _digest(system_prompt: str, messages: Iterable[ImportedMessage]) -> str:
    """A digest of the content, whatever the layout of the file."""
    digest = hashlib.sha256(json.dumps(system_prompt).encode())
    for message in messages:
        line = json.dumps([message.parent, message.fields], sort_keys=True, default=str)
        digest.update(line.encode())
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


_BLANK = re.compile(r"[ \t\r\n]*")


def _line_of_message(text: str, index: int) -> int:
    """The line on which a message begins. The JSON parser keeps no positions, so the text is parsed again."""
    decoder = json.JSONDecoder()
    position = _start_of_messages(text, decoder)
    for _ in range(index):
        _, position = decoder.raw_decode(text, _skip(text, position))
        position = _skip(text, position) + 1
    return text.count("\n", 0, _skip(text, position)) + 1


def _start_of_messages(text: str, decoder: json.JSONDecoder) -> int:
    """The position after the bracket that opens the list of messages."""
    position = _skip(text, 0) + 1
    if text[position - 1] == "[":
        return position
    while True:
        key, position = decoder.raw_decode(text, _skip(text, position))
        position = _skip(text, _skip(text, position) + 1)
        if key == "messages" and text[position] == "[":
            return position + 1
        _, position = decoder.raw_decode(text, position)
        position = _skip(text, position) + 1


def _skip(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position
