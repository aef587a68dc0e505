"""Imports conversations, each whole or not at all: one that cannot be stored does not stop the others.

:mod:`formats` reads a document as a tree that can be stored, or refuses it with the place. Here each tree is appended
through ``chat``, chain by chain, in a transaction of its own. The id of the conversation, or a digest of one without
ids, is kept as the session's ``external_id``: a later import finds it, and appends the messages that are new.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.utils import timezone

from compaction_app import chat
from compaction_app.conf import site_setting
from compaction_app.exceptions import CompactionError, ImportFailed
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.transfer.formats import (
    Conversation,
    Reader,
    children_of,
    conversation_of,
    is_uuid,
    json_type,
    recognized,
)

logger = logging.getLogger("compaction_app.importing")

#: Messages appended at once: few statements, and progress that is visible.
_BATCH = 500
#: From this number on, an import refreshes the database's statistics.
MANY_MESSAGES = 1_000
#: So many documents that are not recognized, and none that is: the file is something else.
_UNKNOWN = 1_000
#: What a reader of a format raises where a file is not in the form that it knows.
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)

#: What a message may hold.
_SAID = ("content", "tool_calls", "attachments", "reasoning", "original")
_TITLE_CHARACTERS = 80

#: Called with the number of messages stored since the last call.
Advance = Callable[[int], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A conversation of the file, as it is stored."""

    session: ChatSession
    messages: int
    tips: int
    #: Stored by an earlier import, or exported from here; ``notes`` has how many messages were added.
    already_there: bool = False
    #: What was mended or left out, and how often.
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A conversation of the file of which nothing was stored."""

    #: In the file: "conversation 3", "line 7".
    place: str
    title: str = ""
    reason: str
    #: There is nothing to store.
    is_empty: bool = False

    def __str__(self) -> str:
        title = f"“{self.title[:_TITLE_CHARACTERS]}”" if self.title else ""
        return ": ".join(filter(None, [f"{self.place} {title}".strip(), self.reason]))


def read(documents: Iterable[tuple[str, Any]], readers: Sequence[Reader] = ()) -> Iterator[Conversation | Refused]:
    """The conversations among JSON documents with their places, one after the other.

    A document may be an :class:`ImportFailed`: what could not be read there. Raises it where nothing is recognized.
    """
    max_bytes = site_setting("MAX_MESSAGE_BYTES")
    #: Until the first that is recognized.
    unknown: list[Refused] | None = []
    for place, document in documents:
        title = str(document.get("title") or document.get("name") or "") if isinstance(document, dict) else ""
        try:
            if isinstance(document, ImportFailed):
                raise document
            if (found := recognized(document, readers)) is not None:
                yield from unknown or ()
                unknown = None
                yield conversation_of(found, place=place, max_bytes=max_bytes)
                continue
            reason = _not_recognized(document)
        except CompactionError as error:
            reason = str(error)
        except _MALFORMED as error:
            logger.info("refuse place=%s reason=malformed", place, exc_info=error)
            reason = "it is not in the form of its format."
        refused = Refused(place=place, title=title, reason=reason)
        if unknown is None:
            yield refused
        elif len(unknown) < _UNKNOWN:
            unknown.append(refused)
        else:
            break
    if unknown is not None:
        raise ImportFailed(str(unknown[0]) if unknown else "it contains no conversation.")


def _not_recognized(document: Any) -> str:
    keys = f" with the keys {', '.join(document)[:80]}" if isinstance(document, dict) and document else ""
    return f"the format of this {json_type(document)}{keys} is not recognized."


def store(
    conversations: Iterable[Conversation | Refused],
    *,
    owner: Any = None,
    using: str = "default",
    on_stored: Advance = lambda count: None,
) -> Iterator[Imported | Refused]:
    """Store conversations as they come, each in a transaction of its own."""
    stored = 0
    for one in conversations:
        if isinstance(one, Refused):
            yield one
            continue
        about: dict[str, Any] = {"place": one.place, "title": one.title}
        if not any(message.fields.get(key) for message in one.messages for key in _SAID):
            yield Refused(**about, reason="it contains no message.", is_empty=True)
            continue
        try:
            with transaction.atomic(using=using):
                imported = _store(one, owner, using, on_stored)
        except CompactionError as error:
            # Another import of the same file, say, that runs at the same time.
            yield Refused(**about, reason=str(error))
            continue
        stored += 0 if imported.already_there else imported.messages
        yield imported
    if stored >= MANY_MESSAGES and connections[using].vendor == "postgresql":
        # Without statistics PostgreSQL scans the table for each level of a branch, until autovacuum runs.
        with connections[using].cursor() as cursor:
            cursor.execute(f"ANALYZE {sql.MESSAGES}")


def _store(conversation: Conversation, owner: Any, using: str, advance: Advance) -> Imported:
    below = children_of(conversation.messages)
    tips = sum(index not in below for index in range(len(conversation.messages)))
    counts: dict[str, Any] = {"messages": len(conversation.messages), "tips": tips, "notes": conversation.notes}
    ids = [message.fields.get("external_id") or "" for message in conversation.messages]
    of_owner = ChatSession.objects.using(using).filter(owner=owner)
    #: The messages that are there. Without an id they are those of a digest.
    known: dict[str, int | None] = {}
    # Our own export has the session's id.
    session = of_owner.filter(pk=conversation.id).first() if is_uuid(conversation.id) else None
    is_own = session is not None
    if (session := session or of_owner.filter(external_id=conversation.external_id).first()) is not None:
        known = {"": None, **dict(session.messages.exclude(external_id="").values_list("external_id", "pk"))}
        added = 0 if is_own else sum(own not in known for own in ids)
        conversation.notes["messages added to conversations that were there"] += added
        counts["already_there"] = True
        if not added:
            advance(len(conversation.messages))
            logger.debug("skip session=%s reason=imported_before", session.pk)
            return Imported(session=session, **counts)
    else:
        session = chat.start_session(
            owner=owner,
            title=conversation.title,
            model=conversation.model,
            system_prompt=conversation.system_prompt,
            external_id=conversation.external_id,
            metadata=conversation.metadata,
            using=using,
        )
        if conversation.created_at is not None:
            session.created_at = conversation.created_at
            session.save(using=using, update_fields=["created_at"])
    # Chain by chain, with a stack: a conversation may be deeper than Python can recurse.
    waiting: list[tuple[ChatMessage | int | None, int]] = [(None, root) for root in reversed(below[None])]
    while waiting:
        parent, first = waiting.pop()
        if ids[first] in known:
            waiting.extend((known[ids[first]], child) for child in reversed(below.get(first, [])))
            advance(1)
            continue
        # A message, its first child, that child's first child and so on.
        chain = [first]
        while len(chain) < _BATCH and (following := below.get(chain[-1])) and ids[following[0]] not in known:
            chain.append(following[0])
        if isinstance(parent, int):
            parent = session.messages.get(pk=parent)
        rows = chat.append_messages(session, parent, [conversation.messages[i].fields for i in chain], lenient=True)
        for row, index in zip(rows, chain, strict=True):
            fields = conversation.messages[index].fields
            conversation.notes["results without their call, texts now"] += row.role != fields["role"]
            if fields.get("metadata", {}).get("redacted_at"):
                chat.redact_message(row, replacement=row.content)
            # The first child of each message but the last is in the chain. Siblings wait in reverse order.
            left = below.get(index, [])[0 if index == chain[-1] else 1 :]
            waiting.extend((row, child) for child in reversed(left))
        advance(len(chain))
    # The lists of conversations go by their last use, which is none of the import's.
    if used := max(filter(None, (message.fields.get("created_at") for message in conversation.messages)), default=None):
        used = min(timezone.now(), max(used, session.updated_at) if counts.get("already_there") else used)
        of_owner.filter(pk=session.pk).update(updated_at=used)
    return Imported(session=session, **counts)
