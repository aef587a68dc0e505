"""Messages: append, read, redact, delete; the tree without its texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from ninja import Header, Router, Status

from compaction_app import chat
from compaction_app.api.answers import answers
from compaction_app.api.context_schemas import SentContext
from compaction_app.api.fields import SHORT_TEXT, Id, Page
from compaction_app.api.finding import find_message, find_session, find_tip
from compaction_app.api.message_schemas import MessageCreated, MessageIn, MessageOut, NodeOut, RedactIn
from compaction_app.api.paging import Cursor, Limit, number_in, page
from compaction_app.api.permissions import Action
from compaction_app.api.problems import Code, Problem
from compaction_app.conversation.append import append_once
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import database_of
from compaction_app.values import ChatContext, Kind, Strategy

logger = logging.getLogger("compaction_app.api")

router = Router(tags=["messages"])

REPLAYED = "Idempotency-Replayed"

IdempotencyKey = Annotated[
    str | None,
    Header(
        None,
        alias="Idempotency-Key",
        min_length=1,
        max_length=SHORT_TEXT,
        description="Sent again with the same message: the stored one is the answer, and nothing is stored twice.",
    ),
]


@router.post(
    "/sessions/{uuid:session_id}/messages",
    summary="Append a message",
    **answers(
        {201: MessageCreated},
        Code.NOT_FOUND,
        Code.DUPLICATE,
        Code.INVALID_MESSAGE,
        Code.INVALID_PARENT,
        Code.IDEMPOTENCY_CONFLICT,
        changes=True,
        headers={201: {REPLAYED: "`true` where the message was stored before, by a request with the same key."}},
    ),
)
def append_message(
    request: HttpRequest, response: HttpResponse, session_id: UUID, body: MessageIn, idempotency_key: IdempotencyKey
) -> Status[dict[str, Any]]:
    """It is stored before anything else happens, and a compaction that is wanted by now runs in the background."""
    session = find_session(request, session_id, Action.APPEND)
    said = body.model_dump(exclude={"parent_id", "context", "usage"})
    said["usage"] = body.usage.model_dump(exclude_unset=True) if body.usage else None
    parent = _parent(session, body)
    context = _context(body.context)
    try:
        appended = append_once(session, parent, said, context=context, idempotency_key=idempotency_key or "")
    except IntegrityError as error:
        raise Problem(Code.DUPLICATE, "Another message of this session has this external_id.") from error
    message = appended.message
    if not appended.is_new:
        response[REPLAYED] = "true"
    # A message that was sent again may have been answered long ago; its branch is asked about at its tip.
    is_tip = not idempotency_key or message.is_leaf()
    run = _request_compaction(message, context) if is_tip else None
    requested = run is not None and run.is_open
    return Status(
        201, {"message": message, "compaction_requested": requested, "run_id": run.pk if run and requested else None}
    )


@router.get(
    "/sessions/{uuid:session_id}/tree",
    summary="List a session's nodes",
    **answers({200: Page[NodeOut]}, Code.NOT_FOUND),
)
def list_nodes(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Messages and summaries without their texts, in the order in which they were written: parents come first."""
    session = find_session(request, session_id, Action.READ)
    rows = ChatMessage.objects.using(database_of(session)).in_session(session.pk)
    if cursor is not None:
        rows = rows.filter(pk__gt=number_in(cursor))
    named = rows.values(
        "id",
        "kind",
        "role",
        "depth",
        "sib_order",
        "token_count",
        "path_tokens",
        "retired_at",
        "redacted_at",
        "created_at",
        parent_id=F("parent__pk"),
        cutoff_id=F("last_summarized_message__pk"),
        pinned_id=F("pinned_message__pk"),
    )
    shown, following = page(named, limit, lambda row: row["id"])
    return {"items": shown, "next_cursor": following}


@router.get(
    "/messages/{int:message_id}", summary="Read a message or a summary", **answers({200: MessageOut}, Code.NOT_FOUND)
)
def get_message(request: HttpRequest, message_id: Id) -> ChatMessage:
    return find_message(request, message_id, Action.READ, whole=True)


@router.get(
    "/messages/{int:message_id}/branch",
    summary="Read a branch upwards",
    **answers({200: Page[MessageOut]}, Code.NOT_FOUND, Code.INVALID_PARENT),
)
def read_branch(request: HttpRequest, message_id: Id, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """The transcript that people see, without summaries: this message first, then the ones above it."""
    tip = find_tip(request, message_id)
    # Every message of the branch has a depth of its own, so a depth says where a page ends.
    start = tip.depth if cursor is None else min(number_in(cursor), tip.depth)
    top = max(1, start - limit + 1)
    rows = ChatMessage.objects.using(database_of(tip)).raw(
        sql.PATH_PAGE, {"node": tip.pk, "min_depth": top, "start": start}
    )
    shown = sorted(rows, key=lambda row: -row.depth)
    return {"items": shown, "next_cursor": str(top - 1) if top > 1 else None}


@router.delete(
    "/messages/{int:message_id}",
    summary="Delete a message and all below it",
    **answers({204: None}, Code.NOT_FOUND, Code.INVALID_MESSAGE, changes=True),
)
def delete_message(request: HttpRequest, message_id: Id) -> Status[None]:
    """For good. A summary is not deleted: retire it."""
    message = find_message(request, message_id, Action.ERASE)
    _require_message(message, "deleted")
    chat.delete_message(message)
    return Status(204, None)


@router.post(
    "/messages/{int:message_id}/redact",
    summary="Redact a message",
    **answers({200: MessageOut}, Code.NOT_FOUND, Code.INVALID_MESSAGE, changes=True),
)
def redact_message(request: HttpRequest, message_id: Id, body: RedactIn | None = None) -> ChatMessage:
    """Its text goes for good, and every summary that may tell it is emptied and taken out of use."""
    message = find_message(request, message_id, Action.REDACT)
    _require_message(message, "redacted")
    return chat.redact_message(message, replacement=(body or RedactIn()).replacement)


def _parent(session: ChatSession, body: MessageIn) -> ChatMessage | None:
    """The parent, looked up together with all that the context of a reply names."""
    ids = {body.parent_id} - {None}
    if body.context is not None:
        ids |= {getattr(body.context, name) for name in _NAMED} - {None}
    if not ids:
        return None
    rows = ChatMessage.objects.using(database_of(session)).filter(session=session, pk__in=ids)
    found = {row.pk: row for row in rows.only("id", "session_id", "kind", "depth")}
    parent = found.get(body.parent_id)
    if parent is None and body.parent_id is not None:
        # The same words for one of another session and for none at all: nobody learns which ids there are.
        raise Problem(Code.INVALID_PARENT, "parent_id: This session has no such message.")
    if body.context is not None:
        _check_context(body.context, parent, found)
    return parent


#: Figure → the kind of what it names.
_NAMED = {"summary_id": Kind.SUMMARY, "cutoff_id": Kind.MESSAGE, "pinned_id": Kind.MESSAGE}


def _check_context(sent: SentContext, parent: ChatMessage | None, found: Mapping[int, ChatMessage]) -> None:
    """Raise for figures that no context of this branch has: they are kept as the answer to what the model saw.

    From Python they come from ``get_context`` itself; here they have been somewhere else in between.
    """
    if parent is None or sent.tip_id != parent.pk:
        raise Problem(Code.INVALID, "body.context.tip_id: The context was made for another message than parent_id.")
    for name, kind in _NAMED.items():
        named = getattr(sent, name)
        if named is not None and (named not in found or found[named].kind != kind):
            raise Problem(Code.INVALID, f"body.context.{name}: This session has no such {kind}.")
    depth = sent.first_shown_depth
    if depth is not None and not 1 <= depth <= parent.depth:
        raise Problem(Code.INVALID, f"body.context.first_shown_depth: It lies in 1 to {parent.depth}, parent_id's own.")


def _context(sent: SentContext | None) -> ChatContext | None:
    if sent is None:
        return None
    figures = sent.model_dump() | {"strategy": Strategy(sent.strategy)}
    return ChatContext(messages=(), **figures)


def _require_message(message: ChatMessage, done: str) -> None:
    if message.kind == Kind.SUMMARY:
        way = f"take it out of use with DELETE summaries/{message.pk}"
        raise Problem(Code.INVALID_MESSAGE, f"message_id: A summary is not {done}; {way}.")


def _request_compaction(message: ChatMessage, context: ChatContext | None) -> CompactionRun | None:
    """Compaction never makes a chat turn fail: the message is stored, and its sender is to be told so."""
    try:
        return chat.request_compaction(message, model=context.model or None if context else None)
    except CompactionError as error:
        log_error(logger, error, session=message.session_id, tip=message.pk, step="request_compaction")
        return None
