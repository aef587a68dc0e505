"""Messages: append, read, redact and delete; the tree of a session and the branch of a message."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Router, Schema, Status
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compaction_app import chat
from compaction_app.api import examples
from compaction_app.api.authentication import user_of
from compaction_app.api.contexts import SentContext
from compaction_app.api.errors import Code, Problem, responses
from compaction_app.api.lookup import TEXTS, find_message, find_session, find_tip
from compaction_app.api.permissions import Action
from compaction_app.api.schemas import (
    SHORT_TEXT,
    Body,
    Cursor,
    Id,
    JsonObject,
    Limit,
    Page,
    RoleName,
    ShortText,
    page,
    parse_cursor,
    whole,
)
from compaction_app.api.throttle import count_against_throttle
from compaction_app.conversation.append import append_once
from compaction_app.exceptions import CompactionError
from compaction_app.messages.validation import MAX_REPORTED
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import database_of
from compaction_app.values import ChatContext, Kind, Strategy

logger = logging.getLogger("compaction_app.api")

router = Router(tags=["messages"])

#: Of text and JSON on one page of a branch; the message that exceeds it is the page's last.
PAGE_CHARACTERS = 1_000_000

REPLAYED = "Idempotency-Replayed"
#: In characters.
MAX_REPLACEMENT = 10_000
#: Of the feedback on a message, as JSON.
MAX_FEEDBACK_BYTES = 10_000
#: Tokens as the provider counted them; null: not reported.
Reported = Annotated[int, Field(ge=0, le=MAX_REPORTED), BeforeValidator(whole)] | None


# Not django-ninja's Schema, which would drop keys that it has no field for.
class UsageIn(BaseModel):
    """Other keys, specific to a provider, are stored as they are."""

    model_config = ConfigDict(extra="allow", strict=True) | examples.shown(examples.USAGE)

    prompt_tokens: Reported = Field(default=None, description="As OpenAI reports it, cached tokens included.")
    completion_tokens: Reported = None
    total_tokens: Reported = None
    input_tokens: Reported = Field(default=None, description="As Anthropic reports it, without cached tokens.")
    output_tokens: Reported = None
    cache_read_input_tokens: Reported = None
    cache_creation_input_tokens: Reported = None


class MessageIn(Body):
    model_config = examples.shown(examples.QUESTION_IN, examples.REPLY_IN)

    parent_id: Id | None = Field(
        default=None,
        description="The message that it follows. Null: a new root. A second child of the same parent is a fork.",
    )
    role: RoleName
    content: str | list[JsonObject] = Field(
        default="",
        description="A text, or content parts in the OpenAI chat format: their texts are joined, and images and files "
        "become attachments.",
    )
    tool_calls: list[JsonObject] | None = Field(
        default=None,
        description="As in the OpenAI chat format: `id`, `type`, `function` with `name` and `arguments` (JSON text).",
    )
    tool_call_id: str = Field(default="", description="On tool messages: the open call that this answers.")
    name: ShortText = ""
    reasoning: str | JsonObject | list[Any] | None = Field(
        default=None, description="The provider's reasoning blocks, opaque."
    )
    attachments: list[JsonObject] | None = Field(
        default=None, description="Each `{type, mime_type, name, url, tokens}`."
    )
    usage: UsageIn | None = Field(default=None, description="As the provider returned it with the reply.")
    model: ShortText = Field(default="", description="The model that wrote it.")
    metadata: JsonObject | None = None
    external_id: ShortText = Field(default="", description="Your own id. Unique in its session unless empty.")
    context: SentContext | None = Field(
        default=None,
        description="On a reply: the `figures` of the context that was sent for it. They are stored, and with `usage` "
        "they calibrate the token estimate for this model.",
    )


class MessageOut(Schema):
    model_config = examples.shown(examples.MESSAGE)

    id: int
    session_id: UUID
    parent_id: int | None
    kind: Literal["message", "summary"]
    role: RoleName
    content: str = Field(validation_alias="text", description="Of a summary: with its ledger under a heading.")
    tool_calls: list[JsonObject] | None
    tool_call_id: str
    name: str
    reasoning: Any = None
    attachments: list[JsonObject] | None
    usage: JsonObject | None
    model: str
    metadata: JsonObject
    external_id: str
    depth: int = Field(description="1 for a root.")
    token_count: int = Field(description="Tokens of what is sent for it.")
    path_tokens: int = Field(description="Tokens from the root to here, inclusive.")
    redacted_at: datetime | None
    created_at: datetime


class MessageCreated(Schema):
    model_config = examples.shown(examples.MESSAGE_CREATED)

    message: MessageOut
    compaction_requested: bool = Field(description="Whether a compaction of this branch starts in the background.")
    run_id: int | None = Field(description="Its run, for `GET runs/{id}`.")
    fallback_used: bool = Field(
        description="Whether the `context` of this reply was cut to fit, because compaction is late or failing."
    )


class NodeOut(Schema):
    """A node of the tree, without its text."""

    model_config = examples.shown(examples.SUMMARY_NODE, examples.NODE)

    id: int
    parent_id: int | None = Field(description="Of a summary: its anchor.")
    kind: Literal["message", "summary"]
    role: RoleName
    depth: int
    sib_order: int = Field(description="Its position among its siblings, summaries included.")
    token_count: int
    path_tokens: int
    cutoff_id: int | None = Field(
        validation_alias="last_summarized_message_id", description="Of a summary: the last message that it covers."
    )
    pinned_id: int | None = Field(
        validation_alias="pinned_message_id", description="Of a summary: the user message shown verbatim after it."
    )
    retired_at: datetime | None
    redacted_at: datetime | None
    created_at: datetime


class RedactIn(Body):
    model_config = examples.shown(examples.REDACT)

    replacement: str = Field(default="[redacted]", max_length=MAX_REPLACEMENT, description="Replaces the text.")


class FeedbackIn(Body):
    model_config = examples.shown(examples.FEEDBACK)

    feedback: Any = Field(
        description=f"Any JSON of at most {MAX_FEEDBACK_BYTES:,} bytes, stored in `metadata`. Null removes it."
    )


IdempotencyKey = Annotated[
    str | None,
    Header(
        None,
        alias="Idempotency-Key",
        min_length=1,
        max_length=SHORT_TEXT,
        description="Makes it safe to send the same message again: it is stored once, and the stored one is returned.",
    ),
]


@router.post(
    "/sessions/{uuid:session_id}/messages",
    summary="Append a message",
    **responses(
        {201: MessageCreated},
        Code.NOT_FOUND,
        Code.DUPLICATE,
        Code.INVALID_MESSAGE,
        Code.INVALID_PARENT,
        Code.IDEMPOTENCY_CONFLICT,
        changes=True,
        headers={201: {REPLAYED: "`true` if an earlier request with the same key stored the message."}},
    ),
)
def append_message(
    request: HttpRequest, response: HttpResponse, session_id: UUID, body: MessageIn, idempotency_key: IdempotencyKey
) -> Status[dict[str, Any]]:
    """The message is stored first. If the branch then needs a compaction, one starts in the background."""
    session = find_session(request, session_id, Action.APPEND)
    fields = body.model_dump(exclude={"parent_id", "context", "usage"})
    fields["usage"] = body.usage.model_dump(exclude_unset=True) if body.usage else None
    parent = _parent(session, body)
    context = None
    if body.context is not None:
        context = ChatContext(messages=(), **body.context.model_dump() | {"strategy": Strategy(body.context.strategy)})
    appended = append_once(
        session, parent, fields, context=context, idempotency_key=idempotency_key or "", writer="client"
    )
    message = appended.message
    if not appended.is_new:
        response[REPLAYED] = "true"
    # A message that is sent again may no longer be the tip of its branch.
    is_tip = not idempotency_key or message.is_leaf()
    run = _request_compaction(message, context) if is_tip else None
    run_id = run.pk if run is not None and run.is_open else None
    answer = {"message": message, "fallback_used": message.fallback_used}
    return Status(201, {**answer, "compaction_requested": run_id is not None, "run_id": run_id})


@router.get(
    "/sessions/{uuid:session_id}/tree",
    summary="List the nodes of a session",
    **responses({200: Page[NodeOut]}, Code.NOT_FOUND),
)
def list_nodes(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Messages and summaries without their texts, oldest first. A parent comes before its children."""
    session = find_session(request, session_id, Action.READ)
    rows = ChatMessage.objects.using(database_of(session)).in_session(session.pk)
    if cursor is not None:
        rows = rows.filter(pk__gt=parse_cursor(cursor))
    return page(rows.defer(*TEXTS), limit, lambda row: row.pk)


@router.get(
    "/messages/{int:message_id}", summary="Get a message or a summary", **responses({200: MessageOut}, Code.NOT_FOUND)
)
def get_message(request: HttpRequest, message_id: Id) -> ChatMessage:
    return find_message(request, message_id, Action.READ, whole=True)


@router.get(
    "/messages/{int:message_id}/branch",
    summary="List a branch, newest message first",
    **responses({200: Page[MessageOut]}, Code.NOT_FOUND, Code.INVALID_PARENT),
)
def read_branch(request: HttpRequest, message_id: Id, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """The transcript that people see, without summaries: from this message up to the root. A page ends early after a
    million characters: follow `next_cursor` whatever the number of items."""
    tip = find_tip(request, message_id)
    # Depths are unique on a branch, so the cursor of a page is a depth.
    start = tip.depth if cursor is None else min(parse_cursor(cursor), tip.depth)
    top = max(1, start - limit + 1)
    rows = ChatMessage.objects.using(database_of(tip)).raw(
        sql.PATH_PAGE, {"node": tip.pk, "min_depth": top, "start": start, "characters": PAGE_CHARACTERS}
    )
    shown = sorted(rows, key=lambda row: -row.depth)
    # Empty if the branch was deleted meanwhile.
    last = shown[-1].depth if shown else 1
    return {"items": shown, "next_cursor": str(last - 1) if last > 1 else None}


@router.patch(
    "/messages/{int:message_id}",
    summary="Set the feedback on a message",
    **responses({200: MessageOut}, Code.NOT_FOUND, Code.INVALID_MESSAGE, changes=True),
)
def annotate_message(request: HttpRequest, message_id: Id, body: FeedbackIn) -> ChatMessage:
    """The only part of a message that changes, under the key `feedback` of its `metadata`. Redaction clears it."""
    message = find_message(request, message_id, Action.ANNOTATE)
    _refuse_summary(message, "annotated")
    if len(json.dumps(body.feedback, ensure_ascii=False).encode()) > MAX_FEEDBACK_BYTES:
        raise Problem(Code.INVALID, f"body.feedback: Must have at most {MAX_FEEDBACK_BYTES:,} bytes of JSON.")
    return chat.annotate_message(message, feedback=body.feedback)


@router.delete(
    "/messages/{int:message_id}",
    summary="Delete a message and everything below it",
    **responses({204: None}, Code.NOT_FOUND, Code.INVALID_MESSAGE, Code.THROTTLED, changes=True),
)
def delete_message(request: HttpRequest, message_id: Id) -> Status[None]:
    """This cannot be undone. A summary cannot be deleted; retire it instead."""
    message = find_message(request, message_id, Action.ERASE)
    _refuse_summary(message, "deleted")
    count_against_throttle(user_of(request))
    chat.delete_message(message)
    return Status(204, None)


@router.post(
    "/messages/{int:message_id}/redact",
    summary="Redact a message",
    **responses({200: MessageOut}, Code.NOT_FOUND, Code.INVALID_MESSAGE, Code.THROTTLED, changes=True),
)
def redact_message(request: HttpRequest, message_id: Id, body: RedactIn | None = None) -> ChatMessage:
    """Its text is erased for good. Summaries that may repeat it are emptied and retired."""
    message = find_message(request, message_id, Action.REDACT)
    _refuse_summary(message, "redacted")
    count_against_throttle(user_of(request))
    return chat.redact_message(message, replacement=(body or RedactIn()).replacement)


#: Each id in the figures of a context, with the kind of what it names.
_NAMED = {"summary_id": Kind.SUMMARY, "cutoff_id": Kind.MESSAGE, "pinned_id": Kind.MESSAGE}


def _parent(session: ChatSession, body: MessageIn) -> ChatMessage | None:
    """Return the parent. One query finds it and everything that the context of a reply names."""
    ids = {body.parent_id} - {None}
    if body.context is not None:
        ids |= {getattr(body.context, name) for name in _NAMED} - {None}
    if not ids:
        return None
    rows = ChatMessage.objects.using(database_of(session)).filter(session=session, pk__in=ids)
    found = {row.pk: row for row in rows.only("id", "session_id", "kind", "depth")}
    parent = found.get(body.parent_id)
    if parent is None and body.parent_id is not None:
        # The same detail for an unknown id and for one of another session, so ids cannot be probed.
        raise Problem(Code.INVALID_PARENT, "parent_id: There is no such message in this session.")
    if body.context is not None:
        _check_context(body.context, parent, found)
    return parent


def _check_context(sent: SentContext, parent: ChatMessage | None, found: Mapping[int, ChatMessage]) -> None:
    """Raise for figures that no context of this branch can have.

    They are stored as the record of what the model saw, and a client may send anything. In Python they come directly
    from ``get_context``.
    """
    if parent is None or sent.tip_id != parent.pk:
        raise Problem(Code.INVALID, "body.context.tip_id: The context was not built for parent_id.")
    for name, kind in _NAMED.items():
        named = getattr(sent, name)
        if named is not None and (named not in found or found[named].kind != kind):
            raise Problem(Code.INVALID, f"body.context.{name}: There is no such {kind} in this session.")
    depth = sent.first_shown_depth
    if depth is not None and not 1 <= depth <= parent.depth:
        detail = f"body.context.first_shown_depth: Must be from 1 to {parent.depth}, the depth of parent_id."
        raise Problem(Code.INVALID, detail)


def _refuse_summary(message: ChatMessage, action: str) -> None:
    if message.is_summary:
        detail = f"message_id: A summary cannot be {action}; retire it with DELETE summaries/{message.pk}."
        raise Problem(Code.INVALID_MESSAGE, detail)


def _request_compaction(message: ChatMessage, context: ChatContext | None) -> CompactionRun | None:
    """Return the run, if any. An error is only logged: the message is stored, and the client must learn that."""
    try:
        return chat.request_compaction(message, model=context.model or None if context else None)
    except CompactionError as error:
        log_error(logger, error, session=message.session_id, tip=message.pk, step="request_compaction")
        return None
