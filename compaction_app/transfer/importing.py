"""Reading a file of conversations and storing it: all of it or nothing.

``import_formats`` turns the file into trees that can be stored and refuses what can not, by its line. What is left
for here is to walk each tree and append its chains through ``chat``, in one transaction.

A conversation is known by a digest of what is in it, kept as the session's ``external_id``: importing a file twice
finds the first import.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from django.db import IntegrityError, connections, transaction

from compaction_app import chat
from compaction_app.conf import site_setting
from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.transfer.formats import Conversation, decode, is_one_value, read_json, read_lines

logger = logging.getLogger("compaction_app.importing")

#: Messages appended in one go: few statements beside the inserts, and a progress that moves.
_BATCH = 500
#: An import of this many changes what the database should know of the table.
MANY_MESSAGES = 1_000
_LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})

#: Told how many messages were stored since the last call.
Advance = Callable[[int], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """One conversation of a file, in the database."""

    session: ChatSession
    messages: int
    tips: int
    #: An earlier import had stored it; nothing was written.
    already_there: bool = False


def read(path: Path, *, join: bool = False) -> list[Conversation]:
    """The conversations of a file, checked. ``join``: all of its trees end to end, as one.

    Raises :class:`ImportFailed` with the line for what can not be stored.
    """
    max_bytes = site_setting("MAX_MESSAGE_BYTES")
    try:
        with path.open("rb") as file:
            if _has_a_value_a_line(path, file):
                return read_lines(enumerate(file, start=1), max_bytes=max_bytes, join=join)
            return read_json(decode(file.read()), max_bytes=max_bytes, join=join)
    except OSError as error:
        raise ImportFailed(f"{path} can't be read: {error.strerror or error}.") from error


def _has_a_value_a_line(path: Path, file: BinaryIO) -> bool:
    """By the name, or because a line that is not the only one is a whole JSON value. Leaves the file rewound."""
    try:
        if path.suffix.lower() in _LINE_SUFFIXES:
            return True
        written = (line for line in file if line.strip())
        first, second = next(written, b""), next(written, b"")
        return bool(second) and is_one_value(first)
    finally:
        file.seek(0)


def store(
    conversations: Sequence[Conversation],
    *,
    owner: Any = None,
    title: str = "",
    using: str = "default",
    again: bool = False,
    on_stored: Advance | None = None,
) -> list[Imported]:
    """Store conversations: all of them or none. ``again``: also those that are there already."""
    try:
        with transaction.atomic(using=using):
            stored = [
                _store(conversation, owner, name, using, again, on_stored or (lambda count: None))
                for conversation, name in zip(conversations, _titles(conversations, title), strict=True)
            ]
    except InvalidMessage as error:
        raise ImportFailed(f"Nothing was imported: {error}") from error
    if sum(imported.messages for imported in stored if not imported.already_there) >= MANY_MESSAGES:
        _refresh_statistics(using)
    return stored


def _refresh_statistics(using: str) -> None:
    """Without statistics PostgreSQL scans the table once for each level of a branch, until autovacuum comes."""
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            cursor.execute(f"ANALYZE {sql.MESSAGES}")


def import_file(path: Path, *, join: bool = False, **options: Any) -> list[Imported]:
    """:func:`read` and :func:`store` in one."""
    return store(read(path, join=join), **options)


def _titles(conversations: Sequence[Conversation], title: str) -> list[str]:
    if not title:
        return [conversation.title for conversation in conversations]
    if len(conversations) == 1:
        return [title]
    return [f"{title} ({number} of {len(conversations)})" for number in range(1, len(conversations) + 1)]


def _store(conversation: Conversation, owner: Any, title: str, using: str, again: bool, advance: Advance) -> Imported:
    below = conversation.children()
    tips = sum(index not in below for index in range(len(conversation.messages)))
    external_id = conversation.external_id
    stored = ChatSession.objects.using(using).filter(owner=owner)
    if again:
        external_id = _free_id(stored, external_id)
    elif (session := stored.filter(external_id=external_id).first()) is not None:
        advance(len(conversation.messages))
        logger.info("skip session=%s reason=imported_before", session.pk)
        return Imported(session=session, messages=len(conversation.messages), tips=tips, already_there=True)
    session = _start(conversation, owner, title, external_id, using)
    _append_tree(session, conversation, below, advance)
    return Imported(session=session, messages=len(conversation.messages), tips=tips)


def _free_id(stored: Any, external_id: str) -> str:
    taken = set(stored.filter(external_id__startswith=external_id).values_list("external_id", flat=True))
    numbered = (f"{external_id}#{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([external_id], numbered) if name not in taken)


def _start(conversation: Conversation, owner: Any, title: str, external_id: str, using: str) -> ChatSession:
    try:
        session = chat.start_session(
            owner=owner,
            title=title,
            model=conversation.model,
            system_prompt=conversation.system_prompt,
            external_id=external_id,
            using=using,
        )
    except IntegrityError as error:
        raise ImportFailed("Another import of the same file is running; nothing was written.") from error
    if conversation.created_at is not None:
        session.created_at = conversation.created_at
        session.save(using=using, update_fields=["created_at"])
    return session


def _append_tree(
    session: ChatSession, conversation: Conversation, below: Mapping[int | None, list[int]], advance: Advance
) -> None:
    """Chain by chain, with a stack: a conversation is deeper than Python's own calls go."""
    waiting: list[tuple[ChatMessage | None, int]] = [(None, root) for root in reversed(below[None])]
    while waiting:
        parent, first = waiting.pop()
        chain = _chain(first, below)
        rows = chat.append_messages(session, parent, [conversation.messages[i].fields for i in chain])
        for row, index in zip(rows, chain, strict=True):
            # The first child of each but the last went along; siblings wait in reverse, to be taken in order.
            following = below.get(index, [])[0 if index == chain[-1] else 1 :]
            waiting.extend((row, child) for child in reversed(following))
        advance(len(chain))


def _chain(first: int, below: Mapping[int | None, list[int]]) -> list[int]:
    """A message, its first child, that one's first child and so on."""
    chain = [first]
    while len(chain) < _BATCH and (following := below.get(chain[-1])):
        chain.append(following[0])
    return chain
