"""Sessions: create, list, read, change and delete."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from compaction_app import chat
from compaction_app.api.authentication import user_of
from compaction_app.api.codes import Code, Problem
from compaction_app.api.errors import operation
from compaction_app.api.lookup import (
    database,
    find_message,
    find_session,
    require,
    require_tip,
)
from compaction_app.api.messages import IdempotencyKey
from compaction_app.api.permissions import Action, count_against_throttle, is_allowed
from compaction_app.api.schemas import (
    CURSOR,
    Body,
    Id,
    JsonObject,
    Limit,
    Page,
    ShortText,
    example,
    invalid_cursor,
    page,
    parse_cursor,
)
from compaction_app.contrib import histories
from compaction_app.conversation.append import start_session
from compaction_app.conversation.hand_over import needs_summary
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.columns import lean
from compaction_app.models.database import database_of, locked

router = Router(tags=["sessions"])


class SessionIn(Body):
    model_config = example(title="Tide tables", model="gpt-4o-mini", system_prompt="You know the harbour.")

    title: ShortText = ""
    model: ShortText = Field("", description="It selects the context window; the API calls no model by this name.")
    system_prompt: str = Field("", description="Sent first and never compacted.")
    settings: JsonObject = Field(default_factory=dict, description="Overrides of `COMPACTION`. Needs `configure`.")
    external_id: ShortText = Field("", description="Your own id. Unique per owner unless empty.")
    metadata: JsonObject = Field(default_factory=dict, description="Your own data. Never sent to a model.")


class SessionPatch(SessionIn):
    """Fields that are left out stay unchanged. A given field replaces the whole value."""

    model_config = example(title="Tides")


class CopyIn(Body):
    model_config = example(message_id=43)

    message_id: Id = Field(description="A message of the branch, such as its tip.")
    until: Id | None = Field(None, description="The last message that is copied. Null: `message_id`.")


class SessionListed(Schema):
    """A session in a list, without its long texts."""

    id: UUID
    title: str = Field(examples=["Tide tables"])
    model: str = Field(examples=["gpt-4o-mini"])
    external_id: str = Field(examples=["crm-7"])
    created_at: datetime
    updated_at: datetime = Field(description="When its newest message or summary was stored.")


class SessionOut(SessionListed):
    system_prompt: str = Field(examples=["You know the harbour."])
    settings: JsonObject = Field(examples=[{"MODE": "standard"}])
    metadata: JsonObject = Field(examples=[{"team": "harbour"}])
    continues_id: int | None = Field(
        description="The last message, of another session, that is summarized here. It was handed over there."
    )
    numbered_from: int | None = Field(
        description="Not null in a session that was handed over: its first root then stands for what is not here."
    )


_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
SessionCursor = Annotated[
    str | None, Query(None, examples=["1767603840000000-0b9c7f5e7c414b0e9d3f3f0a3b8f6a10"], **CURSOR)
]


@operation(router, "POST", "/sessions", {201: SessionOut}, "duplicate invalid_message")
def create_session(request: HttpRequest, body: SessionIn) -> Status[ChatSession]:
    """The user who creates it owns it. Every field is optional; the smallest body is `{}`."""
    require(request, None, Action.CREATE)
    _check_settings(request, None, {}, body.settings)
    return Status(201, start_session(owner=user_of(request), using=database(), **body.model_dump()))


@operation(router, "GET", "/sessions", {200: Page[SessionListed]})
def list_sessions(request: HttpRequest, limit: Limit, cursor: SessionCursor) -> dict[str, Any]:
    """Your own sessions, the most recently used first. One used while you page moves to the front."""
    user = user_of(request)
    rows: QuerySet[ChatSession] = ChatSession.objects.using(database()).filter(owner_id=user.pk)
    if cursor is not None:
        ticks, _, key = cursor.partition("-")
        try:
            at, last = _EPOCH + parse_cursor(ticks) * _TICK, UUID(hex=key)
        except (ValueError, OverflowError) as error:
            raise invalid_cursor() from error
        # The first condition is one range of the index; the second excludes what the previous page has shown of it.
        rows = rows.filter(Q(updated_at__lt=at) | Q(pk__lt=last), updated_at__lte=at)
    rows = lean(rows.order_by("-updated_at", "-pk"))
    # A cursor counts microseconds, as the database stores them, so it has no characters that a URL must escape.
    found = page(rows, limit, lambda row: f"{(row.updated_at - _EPOCH) // _TICK}-{row.pk.hex}")
    return {**found, "items": [row for row in found["items"] if is_allowed(user, row, Action.VIEW)]}


@operation(router, "GET", "/sessions/{uuid:session_id}", {200: SessionOut})
def get_session(request: HttpRequest, session_id: UUID) -> ChatSession:
    return find_session(request, session_id, Action.VIEW)


@operation(router, "GET", "/sessions/{uuid:session_id}/export", {200: JsonObject}, "throttled")
def export_session(request: HttpRequest, session_id: UUID, form: Literal["openai", "chatgpt"] = "openai") -> Any:
    """All branches, without summaries: in the OpenAI chat format, with `id` and `parent` of each message, or as ChatGPT
    exports a conversation. `import_chats` reads both."""
    session = find_session(request, session_id, Action.READ)
    count_against_throttle(user_of(request))
    return histories.WRITERS[form](histories.document_of(session))


@operation(router, "PATCH", "/sessions/{uuid:session_id}", {200: SessionOut}, "duplicate invalid_message")
def change_session(request: HttpRequest, session_id: UUID, body: SessionPatch) -> ChatSession:
    """Fields that are left out stay unchanged. Messages are not affected."""
    session = find_session(request, session_id, Action.CHANGE)
    given = body.model_dump(exclude_unset=True)
    if given.get("title") == session.title:
        # It stays its message's, with which it may just be erased.
        del given["title"]
    elif "title" in given:
        given["title_of"] = None
    try:
        with locked(session):
            if "settings" in given:
                # Read again under the session's lock: another request may just have changed them.
                stored = ChatSession.objects.in_database_of(session).only("settings").get(pk=session.pk)
                _check_settings(request, session, stored.settings, given["settings"])
            for name, value in given.items():
                setattr(session, name, value)
            session.save(using=database_of(session), update_fields=list(given))
    except IntegrityError as error:
        raise Problem(Code.DUPLICATE, "Another session of this owner has this external_id.") from error
    session.refresh_from_db(using=session._state.db)
    return session


@operation(router, "DELETE", "/sessions/{uuid:session_id}", {204: None}, "protected")
def delete_session(request: HttpRequest, session_id: UUID) -> Status[None]:
    """Deletes its messages, summaries, runs and events too."""
    chat.delete_session(find_session(request, session_id, Action.DELETE))
    return Status(204, None)


@operation(
    router, "POST", "/sessions/{uuid:session_id}/copy", {201: SessionOut}, "invalid_message invalid_parent throttled"
)
def copy_branch(request: HttpRequest, session_id: UUID, body: CopyIn) -> Status[ChatSession]:
    """A new session of your own with the branch and the summary that applies there. Needs `copy` on this one, and
    `create`."""
    session = find_session(request, session_id, Action.COPY)
    require(request, None, Action.CREATE)
    count_against_throttle(user_of(request))
    rows = lean(ChatMessage.objects.in_database_of(session).filter(session=session))
    found = rows.in_bulk([pk for pk in (body.message_id, body.until) if pk])
    for name, pk in (("message_id", body.message_id), ("until", body.until)):
        if pk and pk not in found:
            raise Problem(Code.INVALID_PARENT, f"body.{name}: There is no such message in this session.")
    until = found.get(body.until) if body.until else None
    return Status(201, chat.copy_branch(found[body.message_id], owner=user_of(request), until=until))


@operation(
    router,
    "POST",
    "/messages/{int:message_id}/hand_over",
    {201: SessionOut},
    "open_run branch_gone base_changed invalid_message invalid_parent nothing_to_compact mode_off throttled spend "
    "compaction_failed",
)
def hand_over(request: HttpRequest, message_id: Id, idempotency_key: IdempotencyKey) -> Status[ChatSession]:
    """A new session of your own that goes on here with the summary and what follows it alone. What is erased in this
    session is erased there too. Needs `copy` on this one, and `create`; where no summary applies one is made first,
    which needs `compact`."""
    tip = require_tip(find_message(request, message_id, Action.COPY), "message_id")
    require(request, None, Action.CREATE)
    if needs_summary(tip):
        require(request, tip.session, Action.COMPACT)
    count_against_throttle(user_of(request))
    return Status(201, chat.hand_over(tip, owner=user_of(request), idempotency_key=idempotency_key or ""))


def _check_settings(
    request: HttpRequest, session: ChatSession | None, stored: dict[str, Any], given: dict[str, Any]
) -> None:
    """Require the permission to configure for what changes; ``given`` replaces all of a session's settings, so a key
    that is left out is a change too."""
    unset = object()
    changed = sorted(key for key in {*given, *stored} if given.get(key, unset) != stored.get(key, unset))
    # Settings decide how hard a request works, what is sent where, and what it costs.
    if changed:
        detail = f"body.settings: Setting {', '.join(changed)} needs the permission `configure`."
        require(request, session, Action.CONFIGURE, detail)
