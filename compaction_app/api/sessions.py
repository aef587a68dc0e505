"""Sessions: begin, list, read, change, delete."""

from __future__ import annotations

import difflib
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
from compaction_app.api.permissions import FREE_SETTINGS, Action, is_allowed
from compaction_app.api.problems import Code, Problem
from compaction_app.api.session_schemas import SessionIn, SessionListed, SessionOut, SessionPatch
from compaction_app.conf import DEFAULTS, SITE_ONLY
from compaction_app.conversation.append import start_session
from compaction_app.models import ChatSession
from compaction_app.models.managers import lock_session
from compaction_app.tree.branches import database_of

router = Router(tags=["sessions"])

SessionCursor = Annotated[
    str | None, Query(None, examples=["1767603840000000-0b9c7f5e7c414b0e9d3f3f0a3b8f6a10"], **CURSOR)
]

_NOT_SET = object()
#: Characters of a key that somebody made up.
_SHOWN_KEY = 60
#: What the database keeps of a time: cursors count it, so that they hold nothing that a URL would change.
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@router.post(
    "/sessions",
    summary="Begin a session",
    **answers({201: SessionOut}, Code.DUPLICATE, Code.INVALID_MESSAGE, changes=True),
)
def create_session(request: HttpRequest, body: SessionIn) -> Status[ChatSession]:
    """It belongs to whoever asks. Every field may be left out; the body is `{}` then."""
    user = user_of(request)
    if not is_allowed(user, None, Action.CREATE):
        raise Problem(Code.FORBIDDEN)
    _check_settings(user, None, body.settings)
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
    if not given:
        # A session that nothing changes in has not been used.
        return session
    using = database_of(session)
    try:
        with transaction.atomic(using=using):
            lock_session(session.pk, using)
            if "settings" in given:
                _check_settings(user_of(request), session, given["settings"])
            for name, value in given.items():
                setattr(session, name, value)
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


def _check_settings(user: Any, session: ChatSession | None, given: dict[str, Any]) -> None:
    """Raise for what this user may not set, and for keys that a session does not have.

    All of a session's settings are given at once: one that is left out is taken back, which is a change as well.
    """
    if unknown := sorted(set(given) - set(DEFAULTS)):
        raise Problem(Code.CONFIGURATION, f"body.settings: {_unknown(unknown[0])}")
    if site_only := sorted(set(given) & SITE_ONLY):
        raise Problem(Code.CONFIGURATION, f"body.settings: {site_only[0]} is set for the whole site, not in a session.")
    kept = _settings_now(session) if session is not None else {}
    changed = sorted(key for key in {*given, *kept} if given.get(key, _NOT_SET) != kept.get(key, _NOT_SET))
    refused = [key for key in changed if key not in FREE_SETTINGS]
    if refused and not is_allowed(user, session, Action.CONFIGURE):
        free = " and ".join(sorted(FREE_SETTINGS))
        detail = f"body.settings: This user may set {free} and not {', '.join(refused)}, which takes `configure`."
        raise Problem(Code.FORBIDDEN, detail)


def _settings_now(session: ChatSession) -> dict[str, Any]:
    """As they are stored by now, for the session is locked: somebody else may just have set one."""
    rows = ChatSession.objects.using(database_of(session))
    settings: dict[str, Any] = rows.values_list("settings", flat=True).get(pk=session.pk)
    return settings


def _unknown(key: str) -> str:
    """What was written, and the key that was meant where one is near; forty of them would help nobody."""
    written = key[:_SHOWN_KEY]
    near = difflib.get_close_matches(written.upper(), sorted(set(DEFAULTS) - SITE_ONLY), n=1)
    return f"There is no setting {written!r}." + (f" Did you mean {near[0]}?" if near else "")


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
