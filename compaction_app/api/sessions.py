"""Sessions: begin, list, read, change, delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Status

from compaction_app import chat
from compaction_app.api.answers import answers
from compaction_app.api.authentication import user_of
from compaction_app.api.fields import Page
from compaction_app.api.finding import database, find_session
from compaction_app.api.paging import CURSOR, Limit, number_in, page, wrong_cursor
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.api.problems import Code, Problem
from compaction_app.api.session_schemas import SessionIn, SessionListed, SessionOut, SessionPatch
from compaction_app.appending import start_session
from compaction_app.branches import using_of
from compaction_app.managers import lock_session
from compaction_app.models import ChatSession

router = Router(tags=["sessions"])

SessionCursor = Annotated[
    str | None, Query(None, examples=["1767603840000000-0b9c7f5e7c414b0e9d3f3f0a3b8f6a10"], **CURSOR)
]

#: What the database keeps of a time: cursors count it, so that they hold nothing that a URL would change.
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@router.post(
    "/sessions",
    summary="Begin a session",
    **answers({201: SessionOut}, Code.DUPLICATE, Code.INVALID_MESSAGE, changes=True),
)
def create_session(request: HttpRequest, body: SessionIn) -> Status[ChatSession]:
    """It belongs to whoever asks."""
    user = user_of(request)
    if not is_allowed(user, None, Action.CREATE):
        raise Problem(Code.FORBIDDEN)
    using = database()
    try:
        with transaction.atomic(using=using):
            session = start_session(owner=user, using=using, **body.model_dump())
    except IntegrityError as error:
        raise _duplicate() from error
    return Status(201, session)


@router.get("/sessions", summary="List one's sessions", **answers({200: Page[SessionListed]}))
def list_sessions(request: HttpRequest, limit: Limit, cursor: SessionCursor) -> dict[str, Any]:
    """One's own, the most recently used first; one that is used while you page through them moves to the front."""
    user = user_of(request)
    rows: QuerySet[ChatSession] = ChatSession.objects.using(database()).filter(owner_id=user.pk)
    if cursor is not None:
        at, last = _place_in(cursor)
        # The first condition is one range of the index; the second leaves out what the last page has shown of it.
        rows = rows.filter(updated_at__lte=at).filter(Q(updated_at__lt=at) | Q(pk__lt=last))
    rows = rows.order_by("-updated_at", "-pk").defer("system_prompt", "settings", "token_calibration", "metadata")
    shown, following = page(rows, limit, _place_of)
    return {"items": [row for row in shown if is_allowed(user, row, Action.VIEW)], "next_cursor": following}


@router.get("/sessions/{uuid:session_id}", summary="Read a session", **answers({200: SessionOut}, Code.NOT_FOUND))
def get_session(request: HttpRequest, session_id: UUID) -> ChatSession:
    return find_session(request, session_id, Action.VIEW)


@router.patch(
    "/sessions/{uuid:session_id}",
    summary="Change a session",
    **answers({200: SessionOut}, Code.NOT_FOUND, Code.DUPLICATE, Code.INVALID_MESSAGE, changes=True),
)
def change_session(request: HttpRequest, session_id: UUID, body: SessionPatch) -> ChatSession:
    """What is left out stays as it is. Messages are never changed by it."""
    session = find_session(request, session_id, Action.CHANGE)
    given = body.model_dump(exclude_unset=True)
    using = using_of(session)
    for name, value in given.items():
        setattr(session, name, value)
    try:
        with transaction.atomic(using=using):
            lock_session(session.pk, using)
            session.save(using=using, update_fields=list(given))
    except IntegrityError as error:
        raise _duplicate() from error
    session.refresh_from_db(using=using)
    return session


@router.delete(
    "/sessions/{uuid:session_id}",
    summary="Delete a session",
    **answers({204: None}, Code.NOT_FOUND, changes=True),
)
def delete_session(request: HttpRequest, session_id: UUID) -> Status[None]:
    """With its messages, its summaries and all that was recorded about them."""
    chat.delete_session(find_session(request, session_id, Action.DELETE))
    return Status(204, None)


def _duplicate() -> Problem:
    return Problem(Code.DUPLICATE, "Another session of this owner has this external_id.")


def _place_of(session: ChatSession) -> str:
    return f"{(session.updated_at - _EPOCH) // _TICK}-{session.pk.hex}"


def _place_in(cursor: str) -> tuple[datetime, UUID]:
    ticks, _, last = cursor.partition("-")
    try:
        return _EPOCH + number_in(ticks) * _TICK, UUID(hex=last)
    except (ValueError, OverflowError) as error:
        raise wrong_cursor() from error
