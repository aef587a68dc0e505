"""Imports a file of conversations, whole or not at all.

:mod:`formats` reads the file as trees that can be stored, and refuses what cannot, with its place. Here each tree is
appended through ``chat``, chain by chain, in one transaction. A digest of the conversation is kept as the session's
``external_id``, so importing a file twice finds the first import.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connections, transaction

from compaction_app import chat
from compaction_app.conf import site_setting
from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.transfer.formats import Conversation, children_of, read_file

logger = logging.getLogger("compaction_app.importing")

#: Messages appended at once: few statements, and progress that is visible.
_BATCH = 500
#: From this number on, an import refreshes the database's statistics.
MANY_MESSAGES = 1_000

#: Called with the number of messages stored since the last call.
Advance = Callable[[int], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A conversation of the file, as it is stored."""

    session: ChatSession
    messages: int
    tips: int
    #: Stored by an earlier import; nothing was written.
    already_there: bool = False


def read(path: Path) -> list[Conversation]:
    """The checked conversations of a file; :class:`ImportFailed` with the place of what cannot be stored."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"{path} cannot be read: {error.strerror or error}.") from error
    return read_file(data, max_bytes=site_setting("MAX_MESSAGE_BYTES"))


def store(
    conversations: Sequence[Conversation],
    *,
    owner: Any = None,
    using: str = "default",
    on_stored: Advance = lambda count: None,
) -> list[Imported]:
    """Store conversations: all or none."""
    try:
        with transaction.atomic(using=using):
            stored = [_store(one, owner, using, on_stored) for one in conversations]
    except InvalidMessage as error:
        # Another import of the same file, say, that runs at the same time.
        raise ImportFailed(f"Nothing was imported: {error}") from error
    many = sum(imported.messages for imported in stored if not imported.already_there) >= MANY_MESSAGES
    if many and connections[using].vendor == "postgresql":
        # Without statistics PostgreSQL scans the table for each level of a branch, until autovacuum runs.
        with connections[using].cursor() as cursor:
            cursor.execute(f"ANALYZE {sql.MESSAGES}")
    return stored


def _store(conversation: Conversation, owner: Any, using: str, advance: Advance) -> Imported:
    below = children_of(conversation.messages)
    tips = sum(index not in below for index in range(len(conversation.messages)))
    stored = ChatSession.objects.using(using).filter(owner=owner, external_id=conversation.external_id)
    if (session := stored.first()) is not None:
        advance(len(conversation.messages))
        logger.info("skip session=%s reason=imported_before", session.pk)
        return Imported(session=session, messages=len(conversation.messages), tips=tips, already_there=True)
    session = chat.start_session(
        owner=owner,
        title=conversation.title,
        model=conversation.model,
        system_prompt=conversation.system_prompt,
        external_id=conversation.external_id,
        using=using,
    )
    if conversation.created_at is not None:
        session.created_at = conversation.created_at
        session.save(using=using, update_fields=["created_at"])
    # Chain by chain, with a stack: a conversation may be deeper than Python can recurse.
    waiting: list[tuple[ChatMessage | None, int]] = [(None, root) for root in reversed(below[None])]
    while waiting:
        parent, first = waiting.pop()
        # A message, its first child, that child's first child and so on.
        chain = [first]
        while len(chain) < _BATCH and (following := below.get(chain[-1])):
            chain.append(following[0])
        rows = chat.append_messages(session, parent, [conversation.messages[i].fields for i in chain])
        for row, index in zip(rows, chain, strict=True):
            # The first child of each message but the last is in the chain. Siblings wait in reverse order.
            left = below.get(index, [])[0 if index == chain[-1] else 1 :]
            waiting.extend((row, child) for child in reversed(left))
        advance(len(chain))
    return Imported(session=session, messages=len(conversation.messages), tips=tips)
