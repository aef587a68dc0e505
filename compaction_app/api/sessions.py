"""Sessions: create, list, read, change and delete."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from compaction_app import chat
from compaction_app.api import examples
from compaction_app.api.authentication import user_of
from compaction_app.api.errors import Code, Problem, responses
from compaction_app.api.lookup import database, find_session
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.api.schemas import (
    CURSOR,
    Body,
    JsonObject,
    Limit,
    Page,
    ShortText,
    invalid_cursor,
    page,
    parse_cursor,
)
from compaction_app.conf import DEFAULTS, SITE_ONLY
from compaction_app.conversation.append import start_session
from compaction_app.models import ChatSession
from compaction_app.models.managers import lock_session
from compaction_app.tree.branches import database_of

router = Router(tags=["sessions"])


class SessionIn(Body):
    model_config = examples.shown(examples.SESSION_IN)

    title: ShortText = ""
    model: ShortText = Field(
        default="",
        description="The chat model's name. It selects the context window; the API calls no model by this name.",
    )
    system_prompt: str = Field(default="", description="Sent first and never compacted.")
    settings: JsonObject = Field(
        default_factory=dict,
        description="Overrides of `COMPACTION` keys, with the permission to `configure`.",
    )
    external_id: ShortText = Field(default="", description="Your own id. Unique per owner unless empty.")
    metadata: JsonObject = Field(default_factory=dict, description="Your own data. Never sent to a model.")


class SessionPatch(SessionIn):
    """Fields that are left out stay unchanged. A given field replaces the whole value."""

    model_config = examples.shown(examples.SESSION_PATCH)


class SessionListed(Schema):
    """A session in a list, without its long texts."""

    model_config = examples.shown(examples.SESSION_LISTED)

    id: UUID
    title: str
    model: str
    external_id: str
    created_at: datetime
    updated_at: datetime = Field(description="Set by every message and every compaction.")


class SessionOut(SessionListed):
    model_config = examples.shown(examples.SESSION_OUT)

    system_prompt: str
    settings: JsonObject
    metadata: JsonObject


SessionCursor = Annotated[
    str | None, Query(None, examples=["1767603840000000-0b9c7f5e7c414b0e9d3f3f0a3b8f6a10"], **CURSOR)
]


@router.post(
    "/sessions",
    summary="Create a session",
    **responses({201: SessionOut}, Code.DUPLICATE, Code.INVALID_MESSAGE, changes=True),
)
def create_session(request: HttpRequest, body: SessionIn) -> Status[ChatSession]:
    """The user who creates it owns it. Every field is optional; the smallest body is `{}`."""
    user = user_of(request)
    if not is_allowed(user, None, Action.CREATE):
        raise Problem(Code.FORBIDDEN)
    _check_settings(user, None, body.settings)
    return Status(201, start_session(owner=user, using=database(), **body.model_dump()))


@router.get("/sessions", summary="List your sessions", **responses({200: Page[SessionListed]}))
def list_sessions(request: HttpRequest, limit: Limit, cursor: SessionCursor) -> dict[str, Any]:
    """Your own sessions, the most recently used first. One used while you page moves to the front."""
    user = user_of(request)
    rows: QuerySet[ChatSession] = ChatSession.objects.using(database()).filter(owner_id=user.pk)
    if cursor is not None:
        at, last = _parse_session_cursor(cursor)
        # The first condition is one range of the index; the second excludes what the previous page has shown of it.
        rows = rows.filter(updated_at__lte=at).filter(Q(updated_at__lt=at) | Q(pk__lt=last))
    rows = rows.order_by("-updated_at", "-pk").defer("system_prompt", "settings", "token_calibration", "metadata")
    found = page(rows, limit, _session_cursor)
    return {**found, "items": [row for row in found["items"] if is_allowed(user, row, Action.VIEW)]}


@router.get("/sessions/{uuid:session_id}", summary="Get a session", **responses({200: SessionOut}, Code.NOT_FOUND))
def get_session(request: HttpRequest, session_id: UUID) -> ChatSession:
    return find_session(request, session_id, Action.VIEW)


@router.patch(
    "/sessions/{uuid:session_id}",
    summary="Change a session",
    **responses({200: SessionOut}, Code.NOT_FOUND, Code.DUPLICATE, Code.INVALID_MESSAGE, changes=True),
)
def change_session(request: HttpRequest, session_id: UUID, body: SessionPatch) -> ChatSession:
    """Fields that are left out stay unchanged. Messages are not affected."""
    session = find_session(request, session_id, Action.CHANGE)
    given = body.model_dump(exclude_unset=True)
    if not given:
        # Saving would set updated_at, though nothing changed.
        return session
    using = database_of(session)
    with _unique_external_id(using):
        lock_session(session.pk, using)
        if "settings" in given:
            _check_settings(user_of(request), session, given["settings"])
        for name, value in given.items():
            setattr(session, name, value)
        session.save(using=using, update_fields=list(given))
    session.refresh_from_db(using=using)
    return session


@router.delete(
    "/sessions/{uuid:session_id}",
    summary="Delete a session",
    **responses({204: None}, Code.NOT_FOUND, changes=True),
)
def delete_session(request: HttpRequest, session_id: UUID) -> Status[None]:
    """Deletes its messages, summaries, runs and events too."""
    chat.delete_session(find_session(request, session_id, Action.DELETE))
    return Status(204, None)


_NOT_SET = object()
#: In characters: a key of the request may be longer.
_SHOWN_KEY = 60


def _check_settings(user: Any, session: ChatSession | None, given: dict[str, Any]) -> None:
    """Raise for keys that a session cannot override, and for changes that this user may not make.

    ``given`` replaces all of a session's settings, so a key that is left out is a change too.
    """
    if unknown := sorted(set(given) - set(DEFAULTS)):
        key = unknown[0][:_SHOWN_KEY]
        near = difflib.get_close_matches(key.upper(), sorted(set(DEFAULTS) - SITE_ONLY), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise Problem(Code.CONFIGURATION, f"body.settings: There is no setting {key!r}.{hint}")
    if site_only := sorted(set(given) & SITE_ONLY):
        raise Problem(Code.CONFIGURATION, f"body.settings: {site_only[0]} is set for the whole site, not in a session.")
    stored: dict[str, Any] = {}
    if session is not None:
        # Read again under the session's lock: another request may just have changed them.
        rows = ChatSession.objects.using(database_of(session))
        stored = rows.values_list("settings", flat=True).get(pk=session.pk)
    changed = sorted(key for key in {*given, *stored} if given.get(key, _NOT_SET) != stored.get(key, _NOT_SET))
    # Settings decide how hard a request works, what is sent where, and what it costs.
    if changed and not is_allowed(user, session, Action.CONFIGURE):
        raise Problem(Code.FORBIDDEN, f"body.settings: Setting {', '.join(changed)} needs the permission `configure`.")


@contextmanager
def _unique_external_id(using: str) -> Iterator[None]:
    """Store a session in a transaction; raise ``duplicate`` if its owner has another one with this external_id."""
    try:
        with transaction.atomic(using=using):
            yield
    except IntegrityError as error:
        raise Problem(Code.DUPLICATE, "Another session of this owner has this external_id.") from error


# The database stores times in microseconds. A cursor counts them, so it has no characters that a URL must escape.
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def _session_cursor(session: ChatSession) -> str:
    return f"{(session.updated_at - _EPOCH) // _TICK}-{session.pk.hex}"


def _parse_session_cursor(cursor: str) -> tuple[datetime, UUID]:
    ticks, _, last = cursor.partition("-")
    try:
        return _EPOCH + parse_cursor(ticks) * _TICK, UUID(hex=last)
    except (ValueError, OverflowError) as error:
        raise invalid_cursor() from error
