"""Imports conversations, each whole or not at all: one that cannot be stored does not stop the others.

:mod:`formats` reads a document as a tree that can be stored, or refuses it with the place. Here each tree is appended
through ``chat``, chain by chain, in a transaction of its own. The id of the conversation, or a digest of one without
ids, is kept as the session's ``external_id``: a later import finds it, and appends the messages that are new.
"""

import hashlib
import json
import logging
import traceback
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.models import QuerySet

from compaction_app import chat
from compaction_app.conf import find_session_error, site_setting
from compaction_app.exceptions import CompactionError, ImportFailed, InvalidMessage
from compaction_app.messages.validation import is_storable, validate_message, validate_session
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.columns import checks_of
from compaction_app.transfer.formats import (
    EXTERNAL_ID_PREFIX,
    LONGEST_TITLE,
    SAID,
    Conversation,
    FormatReader,
    ImportedMessage,
    at,
    children_of,
    conversation_of,
    is_uuid,
    json_type,
    recognized,
)
from compaction_app.values import BESIDE_A_TEXT, Role

logger = logging.getLogger("compaction_app.importing")

#: Messages appended at once: few statements, and few rows in memory.
_BATCH = 500
#: From this number on, an import refreshes the database's statistics.
MANY_MESSAGES = 1_000
#: So many documents that are not recognized, and none that is: the file is something else.
_UNKNOWN = 1_000
#: What is no document's fault: the database or the disk is gone.
_NOT_OF_A_DOCUMENT = (OSError, MemoryError, OperationalError, InterfaceError)

_TITLE_CHARACTERS = 80
_NO_TIME = datetime.min.replace(tzinfo=UTC)
_DIGEST_CHARACTERS = 40


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


def read(
    documents: Iterable[tuple[str, Any]], readers: Sequence[FormatReader] = ()
) -> Iterator[Conversation | Refused]:
    """The conversations among JSON documents with their places, one after the other.

    A document may be an :class:`ImportFailed`: what could not be read there. Raises it where nothing is recognized.
    """
    max_bytes = site_setting("MAX_MESSAGE_BYTES")
    #: Until the first that is recognized.
    unknown: list[Refused] | None = []
    for place, document in documents:
        named = (document.get("title"), document.get("name")) if isinstance(document, dict) else ()
        title = next((one for one in named if isinstance(one, str) and one), "")
        try:
            is_broken = isinstance(document, ImportFailed)
            if not is_broken and (found := recognized(document, readers)) is not None:
                yield from unknown or ()
                unknown = None
                yield checked(conversation_of(found, place=place, max_bytes=max_bytes), max_bytes)
                continue
            reason = str(document) if is_broken else _not_recognized(document)
        except Exception as error:
            reason = _reason(error, place)
        refused = Refused(place=place, title=title, reason=reason)
        if unknown is None:
            yield refused
        elif len(unknown) < _UNKNOWN:
            unknown.append(refused)
        else:
            break
    if unknown is not None:
        raise ImportFailed(str(unknown[0]) if unknown else "it contains no conversation.")


def _reason(error: Exception, place: str) -> str:
    """Why one conversation is refused. Whatever a document holds, what is behind it in the file is imported."""
    if isinstance(error, CompactionError):
        return str(error)
    if isinstance(error, _NOT_OF_A_DOCUMENT):
        raise error
    # Its text may have what somebody wrote, so the log has its place in the code.
    *_, at = traceback.extract_tb(error.__traceback__)
    where = f"{Path(at.filename).name}:{at.lineno}"
    logger.error("refuse place=%s reason=malformed error=%s at=%s", place, type(error).__name__, where)
    return f"it is not in the form of its format ({type(error).__name__} at {where})."


def _not_recognized(document: Any) -> str:
    keys = f" with the keys {', '.join(document)[:80]}" if isinstance(document, dict) and document else ""
    todo = "write a conversation as a list of messages, each with a role and a content, under the key messages."
    return f"the format of this {json_type(document)}{keys} is not recognized: {todo}"


def store(
    conversations: Iterable[Conversation | Refused], *, owner: Any = None, using: str = "default"
) -> Iterator[Imported | Refused]:
    """Store conversations as they come, each in a transaction of its own."""
    stored, sessions = 0, ChatSession.objects.using(using)
    for one in conversations:
        if isinstance(one, Refused):
            yield one
            continue
        about: dict[str, Any] = {"place": one.place, "title": one.title}
        if not any(message.fields.get(key) for message in one.messages for key in SAID):
            yield Refused(**about, reason="it contains no message.", is_empty=True)
            continue
        try:
            with transaction.atomic(using=using):
                imported = _store(one, owner, sessions)
        except Exception as error:
            # Another import of the same file, say, that runs at the same time.
            yield Refused(**about, reason=_reason(error, one.place))
            continue
        stored += 0 if imported.already_there else imported.messages
        yield imported
    if stored >= MANY_MESSAGES and connections[using].vendor == "postgresql":
        # Without statistics PostgreSQL scans the table for each level of a branch, until autovacuum runs.
        with connections[using].cursor() as cursor:
            cursor.execute(f"ANALYZE {sql.MESSAGES}")


def checked(conversation: Conversation, max_bytes: int) -> Conversation:
    """The conversation as it can be stored: with its system prompt, a title, and an external id.

    What storing would refuse is refused here, with its place.
    """
    columns = checks_of(ChatMessage)
    for message in conversation.messages:
        with at(message.place):
            validate_message(message.fields, columns, max_bytes=max_bytes)
    system_prompt, messages, shown = _without_opening_system(conversation)
    # The first words of the first user message.
    asked = (m.fields["content"] for m in messages if m.fields.get("role") == Role.USER)
    title = conversation.title or " ".join(next(asked, "").split())
    longest = LONGEST_TITLE if conversation.title else _TITLE_CHARACTERS
    if len(title) > longest:
        if conversation.title:
            conversation.notes["titles, shortened"] += 1
        title = title[: longest - 1].rstrip() + "…"
    session = {"title": title, "model": conversation.model, "system_prompt": system_prompt}
    try:
        validate_session({**session, "metadata": conversation.metadata}, checks_of(ChatSession))
    except InvalidMessage as error:
        raise ImportFailed(str(error)) from error
    named = conversation.external_id
    is_name = 0 < len(named) <= LONGEST_TITLE and is_storable(named)
    # What is new in a conversation is found by the ids of its messages.
    if not is_name or not all(message.fields.get("external_id") for message in messages):
        # Of the content, whatever the layout of the file.
        digest = hashlib.sha256(json.dumps([system_prompt, conversation.id]).encode())
        for message in messages:
            digest.update(json.dumps([message.parent, message.fields], sort_keys=True, default=str).encode())
        named = EXTERNAL_ID_PREFIX + digest.hexdigest()[:_DIGEST_CHARACTERS]
    return replace(
        conversation,
        messages=tuple(messages),
        title=title,
        system_prompt=system_prompt,
        external_id=named,
        shown=shown,
    )


def _without_opening_system(conversation: Conversation) -> tuple[str, list[ImportedMessage], int | None]:
    """Take the opening system message as the conversation's prompt; its replies become the roots.

    If several trees open with the same one, it is removed from all; one with another text stays a message.
    """
    messages, prompt, below = conversation.messages, "", children_of(conversation.messages)
    #: The new position of each parent; None for one that is removed.
    moved: dict[int | None, int | None] = {None: None}
    opening = below.get(None, [])[::-1]
    while opening:
        index = opening.pop()
        fields = messages[index].fields
        if fields["role"] == Role.SYSTEM and (not fields["content"] or prompt in ("", fields["content"])):
            prompt = prompt or fields["content"]
            if any(fields.get(key) for key in BESIDE_A_TEXT):
                conversation.notes["what is beside the text of a system prompt, left out"] += 1
            moved[index] = None
            opening.extend(reversed(below.get(index, [])))
    kept = [index for index in range(len(messages)) if index not in moved]
    moved |= {index: position for position, index in enumerate(kept)}
    left = [replace(messages[index], parent=moved[messages[index].parent]) for index in kept]
    return prompt, left, moved[conversation.shown]


def _store(conversation: Conversation, owner: Any, sessions: QuerySet[ChatSession]) -> Imported:
    below = children_of(conversation.messages)
    tips = sum(index not in below for index in range(len(conversation.messages)))
    counts: dict[str, Any] = {"messages": len(conversation.messages), "tips": tips, "notes": conversation.notes}
    ids = [message.fields.get("external_id") or "" for message in conversation.messages]
    of_owner = sessions.filter(owner=owner)
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
            logger.debug("skip session=%s reason=imported_before", session.pk)
            return Imported(session=session, **counts)
    else:
        session = _begin(conversation, owner, sessions)
    #: The rows and ids of messages that others follow, but for the next of a chain.
    stored: dict[int | None, ChatMessage | int | None] = {None: None}
    stored |= {index: known[own] for index, own in enumerate(ids) if own in known}
    for chain in _chains(conversation, below, stored.keys()):
        parent = stored[conversation.messages[chain[0]].parent]
        if isinstance(parent, int):
            parent = session.messages.get(pk=parent)
        rows = chat.append_messages(session, parent, [conversation.messages[i].fields for i in chain], lenient=True)
        for row, index in zip(rows, chain, strict=True):
            message = conversation.messages[index]
            conversation.notes["results without their call, texts now"] += row.role != message.fields["role"]
            if message.redacted_at:
                session.messages.filter(pk=row.pk).update(redacted_at=message.redacted_at)
            if message.is_pinned:
                try:
                    chat.pin_message(row)
                except CompactionError:
                    # Of a call, say, or more of them than the window of this site's model takes.
                    conversation.notes["pins, left out"] += 1
            # The next of the chain has its parent already.
            if len(below.get(index, ())) > (index != chain[-1]):
                stored[index] = row
    return Imported(session=session, **counts)


def _chains(
    conversation: Conversation, below: Mapping[int | None, Sequence[int]], stored: Container[int | None]
) -> Iterator[list[int]]:
    """What is not stored, the oldest first: each message with a reply to it, a reply to that and so on.

    As if the conversation had been held here, so that the newest row is where people go on. With a heap: it may be
    deeper than Python can recurse.
    """

    def add(siblings: Iterable[int], when: tuple[bool, datetime]) -> None:
        for index in siblings:
            date = conversation.messages[index].fields.get("created_at") or _NO_TIME
            heappush(waiting, (max(when, (index == conversation.shown, date)), index))

    waiting: list[tuple[tuple[bool, datetime], int]] = []
    add(below[None], (False, _NO_TIME))
    chain: list[int] = []
    while waiting:
        when, index = heappop(waiting)
        add(below.get(index, ()), when)
        if chain and (index in stored or conversation.messages[index].parent != chain[-1] or len(chain) == _BATCH):
            yield chain
            chain = []
        if index not in stored:
            chain.append(index)
    if chain:
        yield chain


def _begin(conversation: Conversation, owner: Any, sessions: QuerySet[ChatSession]) -> ChatSession:
    is_known = find_session_error(conversation.settings) is None
    if not is_known:
        conversation.notes["settings of a session that are not known, left out"] += 1
    session = chat.start_session(
        owner=owner,
        title=conversation.title,
        model=conversation.model,
        system_prompt=conversation.system_prompt,
        settings=conversation.settings if is_known else {},
        external_id=conversation.external_id,
        metadata=conversation.metadata,
        using=sessions.db,
    )
    if conversation.created_at is not None:
        session.created_at = conversation.created_at
        session.save(using=sessions.db, update_fields=["created_at"])
    return session
