"""Reads conversations of other programs as trees of messages that can be stored. Pure: text in, values out.

Two formats are supported. Open-Assistant trees: one a line, ``prompt`` is the root, ``replies`` nest. The OpenAI chat
format: an object with ``messages``, or the bare list; one for the file, or one a line. Its messages are those that
``append_messages`` takes, and may have ``id`` and ``parent`` (or ``parentId``, ``parent_id`` …), which makes the list a
tree.

A file is imported whole or not at all, so everything that storing would refuse is refused here, with its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any

from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.messages.originals import PROVIDER_KEYS, messages_of
from compaction_app.messages.validation import check_datetime, open_calls_after, validate_message, validate_session
from compaction_app.values import Role

#: Marks imported sessions; a digest of the conversation follows.
EXTERNAL_ID_PREFIX = "import:"
_TITLE_CHARACTERS = 80
_DIGEST_CHARACTERS = 40

_OASST_ROLES = {"prompter": Role.USER, "assistant": Role.ASSISTANT}
_OASST_KEYS = frozenset({"text", "role", "replies", "message_id", "parent_id", "created_date", "model_name"})
#: Read as ``append_messages`` reads them; every other key of a message goes to its metadata, so that nothing is lost.
_OPENAI_KEYS = PROVIDER_KEYS | {
    *("role", "content", "tool_calls", "tool_call_id", "name", "reasoning", "original"),
    *("attachments", "usage", "model", "finish_reason"),
}
#: As programs name them, the first that a message has counts.
_IDS = ("id", "message_id", "messageId")
_PARENTS = ("parent", "parent_id", "parentId", "parent_message_id", "parentMessageId")
_SYSTEM_PROMPTS = ("system_prompt", "systemPrompt", "system")

_KNOWN = (
    "Supported are Open-Assistant trees (an object with 'prompt' a line) and the OpenAI chat format (an object with "
    "'messages', or a list of messages)."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMessage:
    #: A message dict as ``chat.append_messages`` takes it.
    fields: Mapping[str, Any]
    #: Position of the parent in the conversation's messages, None for a root.
    parent: int | None
    #: For errors: "line 3, message 2".
    place: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A session to store: its messages in the order of the file, which is also the order of siblings."""

    messages: tuple[ImportedMessage, ...]
    title: str = ""
    model: str = ""
    system_prompt: str = ""
    created_at: datetime | None = None
    external_id: str = ""
    place: str = ""


def read_file(data: bytes, *, max_bytes: int) -> list[Conversation]:
    """Read a file that is one JSON value, or has one a line, as the first of several lines says."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if len(lines) > 1 and _is_json(lines[0][1]):
        found = [_recognize_format(_parse(line, number), f"line {number}") for number, line in lines]
    else:
        found = [_recognize_format(_parse(data), "")]
    return [checked(one, max_bytes) for one in found]


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False


def _parse(data: bytes, first_line: int = 1) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ImportFailed(f"line {line}: this is not JSON: {error.msg} at character {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        # Not UTF-8, a number that is too long, nested too deeply.
        raise ImportFailed(f"line {first_line}: this cannot be read: {error}") from error


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Say where in the file: what reads or checks a message does not know its place."""
    try:
        yield
    except InvalidMessage as error:
        raise ImportFailed(": ".join(filter(None, [place, str(error)]))) from error


def _recognize_format(document: Any, place: str) -> Conversation:
    """Recognize a format by its content, not by the name of the file."""
    with _at(place):
        if isinstance(document, dict) and isinstance(document.get("prompt"), dict):
            return _openai_conversation({"messages": _oasst_items(document["prompt"])}, place)
        if isinstance(document, dict) and isinstance(document.get("messages"), list):
            return _openai_conversation(document, place)
        if isinstance(document, list) and all(isinstance(item, dict) and "role" in item for item in document):
            return _openai_conversation({"messages": document}, place)
        first = document[0] if isinstance(document, list) and document else document
        if isinstance(first, dict) and isinstance(first.get("mapping"), dict):
            raise InvalidMessage(f"this is an export of ChatGPT (conversations.json), which is not supported. {_KNOWN}")
        keys = f" with the keys {', '.join(first)[:80]}" if isinstance(first, dict) else ""
        raise InvalidMessage(f"the format of this {type(document).__name__}{keys} is not recognized. {_KNOWN}")


# -- Open-Assistant trees -------------------------------------------------------------------------------


def _oasst_items(prompt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As messages of the other format, depth first with a stack: a tree may be deeper than Python can recurse."""
    items: list[dict[str, Any]] = []
    waiting: list[tuple[Any, str | None]] = [(prompt, None)]
    while waiting:
        node, parent = waiting.pop()
        replies = (node.get("replies") or []) if isinstance(node, dict) else None
        if not isinstance(replies, list):
            raise InvalidMessage("a message of a tree must be an object, and its 'replies' a list.")
        own_id = _text_id(node.get("message_id")) or f"message {len(items) + 1}"
        others = {key: node[key] for key in node if key not in _OASST_KEYS}
        role = _OASST_ROLES.get(str(node.get("role")), node.get("role"))
        read = {"role": role, "content": node.get("text"), "created_at": node.get("created_date")}
        items.append({**others, **read, "model": node.get("model_name"), "id": own_id, "parent": parent})
        waiting.extend((reply, own_id) for reply in reversed(replies))
    return items


# -- The OpenAI chat format -----------------------------------------------------------------------------


def _openai_conversation(document: Mapping[str, Any], place: str) -> Conversation:
    items = list(document["messages"])
    if prompt := _first(document, _SYSTEM_PROMPTS):
        # As the opening message, so that one rule covers both ways to write it.
        items.insert(0, {"role": Role.SYSTEM, "content": prompt})
    found: list[tuple[dict[str, Any], dict[str, Any], str]] = []
    position: dict[str, int] = {}
    for number, item in enumerate(items, start=0 if prompt else 1):
        named = ", ".join(filter(None, [place, f"message {number}"]))
        with _at(named):
            if not isinstance(item, dict):
                raise InvalidMessage(f"a message must be an object, not {type(item).__name__}.")
            # Of several results of tools each is a message, behind the one before.
            for fields, source in zip(_openai_messages(item), chain([item], repeat({})), strict=False):
                # An id that is used a second time is refused later, with every other one.
                position.setdefault(fields.get("external_id", ""), len(found))
                found.append((fields, source, named))
    messages = []
    for index, (fields, source, named) in enumerate(found):
        with _at(named):
            messages.append(ImportedMessage(fields=fields, parent=_parent(source, index, position), place=named))
    return Conversation(
        messages=tuple(messages),
        title=str(document.get("title") or ""),
        model=str(document.get("model") or ""),
        created_at=_moment(document.get("created_at")),
        place=place,
    )


def _parent(item: Mapping[str, Any], index: int, position: Mapping[str, int]) -> int | None:
    """Return the position of the message's parent: the named one, else the message before."""
    if not any(key in item for key in _PARENTS):
        return index - 1 if index else None
    named = _text_id(_first(item, _PARENTS))
    if named and named not in position:
        raise InvalidMessage(f"the parent {named!r} is in no message's id.")
    return position[named] if named else None


def _first(item: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first key that has one."""
    return next((item[key] for key in keys if item.get(key) not in (None, "")), None)


def _openai_messages(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    own_id = next((key for key in _IDS if item.get(key) not in (None, "")), "id")
    used = {*_OPENAI_KEYS, *_PARENTS, own_id, "created_at", "metadata"}
    others = {key: item[key] for key in item if key not in used and item[key] is not None}
    metadata = item.get("metadata") or {}
    given = {key: item[key] for key in _OPENAI_KEYS if item.get(key) is not None}
    given |= {
        "external_id": _text_id(item.get(own_id)),
        "created_at": _moment(item.get("created_at")),
        # What is of another type is refused with every other field.
        "metadata": {**others, **metadata} if isinstance(metadata, dict) else metadata,
    }
    return messages_of(given, "host")


# -- Both formats ---------------------------------------------------------------------------------------


def _text_id(value: Any) -> str:
    return "" if value is None else str(value)


def _moment(value: Any) -> datetime | None:
    """A time from ISO 8601 or seconds since 1970; UTC if it has no zone."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            moment = datetime.fromisoformat(value)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        shown = repr(value)[:60]
        raise InvalidMessage(f"{shown} is not a time; write ISO 8601 or seconds since 1970.") from error
    check_datetime(moment)
    return moment


def children_of(messages: Iterable[ImportedMessage]) -> dict[int | None, list[int]]:
    """Return the positions of the children of each position; the roots are those of None."""
    below: dict[int | None, list[int]] = {}
    for index, message in enumerate(messages):
        below.setdefault(message.parent, []).append(index)
    return below


def _from_the_roots(messages: Sequence[ImportedMessage]) -> Iterator[int]:
    """Yield positions depth first, parents before children. Messages whose parents form a cycle are left out."""
    below = children_of(messages)
    waiting = below.get(None, [])[::-1]
    while waiting:
        index = waiting.pop()
        yield index
        waiting.extend(reversed(below.get(index, [])))


def checked(conversation: Conversation, max_bytes: int) -> Conversation:
    """The conversation as it can be stored: with its system prompt, a title, and an id that tells its content."""
    _check_messages(conversation.messages, max_bytes)
    system_prompt, messages = _without_opening_system(conversation.messages)
    with _at(conversation.place):
        if not messages:
            raise InvalidMessage("it contains no message.")
        # The first words of the first user message.
        asked = (m.fields["content"] for m in messages if m.fields.get("role") == Role.USER)
        title = conversation.title or " ".join(next(asked, "").split())
        if not conversation.title and len(title) > _TITLE_CHARACTERS:
            title = title[: _TITLE_CHARACTERS - 1].rstrip() + "…"
        validate_session({"title": title, "model": conversation.model, "system_prompt": system_prompt})
    # Of the content, whatever the layout of the file.
    digest = hashlib.sha256(json.dumps(system_prompt).encode())
    for message in messages:
        digest.update(json.dumps([message.parent, message.fields], sort_keys=True, default=str).encode())
    return replace(
        conversation,
        messages=tuple(messages),
        title=title,
        system_prompt=system_prompt,
        external_id=EXTERNAL_ID_PREFIX + digest.hexdigest()[:_DIGEST_CHARACTERS],
    )


def _check_messages(messages: Sequence[ImportedMessage], max_bytes: int) -> None:
    """Check every message, from the roots down: a result must answer an open call of its own path."""
    ids: set[str] = set()
    open_calls: dict[int | None, Sequence[str]] = {None: ()}
    for index in _from_the_roots(messages):
        message = messages[index]
        with _at(message.place):
            validate_message(message.fields, max_bytes=max_bytes)
            if external_id := message.fields.get("external_id"):
                if external_id in ids:
                    raise InvalidMessage(f"the id {external_id!r} is used a second time.")
                ids.add(external_id)
            open_calls[index] = open_calls_after(open_calls[message.parent], message.fields)
    unreached = next((message for i, message in enumerate(messages) if i not in open_calls), None)
    if unreached is not None:
        raise ImportFailed(f"{unreached.place}: its parents form a cycle and never reach a root.")


def _without_opening_system(messages: Sequence[ImportedMessage]) -> tuple[str, list[ImportedMessage]]:
    """Take the opening system message as the conversation's prompt; its replies become the roots.

    If several trees open with the same one, it is removed from all; one with another text stays a message.
    """
    prompt = ""
    #: The new position of each parent; None for one that is removed.
    moved: dict[int | None, int | None] = {None: None}
    for index in _from_the_roots(messages):
        fields, parent = messages[index].fields, messages[index].parent
        opens = parent in moved and fields["role"] == Role.SYSTEM
        if opens and (not fields["content"] or prompt in ("", fields["content"])):
            prompt = prompt or fields["content"]
            moved[index] = None
    kept = [index for index in range(len(messages)) if index not in moved]
    moved |= {index: position for position, index in enumerate(kept)}
    return prompt, [replace(messages[index], parent=moved[messages[index].parent]) for index in kept]
