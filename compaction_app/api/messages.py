"""Messages: append, read, redact and delete; the tree of a session and the branch of a message."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Header, Router, Schema, Status
from pydantic import Field

from compaction_app import chat
from compaction_app.api.authentication import user_of
from compaction_app.api.codes import Code, Problem
from compaction_app.api.contexts import SentContext, UsageIn
from compaction_app.api.errors import logger, operation
from compaction_app.api.lookup import find_message, find_session, find_tip, require, require_tip
from compaction_app.api.permissions import Action, count_against_throttle, is_allowed
from compaction_app.api.schemas import (
    Body,
    Cursor,
    Id,
    JsonObject,
    Limit,
    Page,
    RoleName,
    ShortText,
    example,
    page,
    parse_cursor,
)
from compaction_app.conversation.append import append_once
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.columns import checks_of, lean
from compaction_app.telemetry import log_error
from compaction_app.values import ChatContext, Kind, Strategy

router = Router(tags=["messages"])

#: Of text and JSON on one page of a branch; the message that exceeds it is the page's last.
PAGE_CHARACTERS = 1_000_000

_LENGTHS = (f"COALESCE(length(CAST(m.{name} AS text)), 0)" for name in checks_of(ChatMessage).large)
_PAGE = sql.PATH_PAGE.format(length=" + ".join(_LENGTHS))


class MessageIn(Body):
    model_config = example(parent_id=41, role="user", content="When is the tide in?")

    parent_id: Id | None = Field(
        None, description="What it follows. Null: a new root. A second child of one parent is a fork."
    )
    role: RoleName
    content: str | list[JsonObject] = Field(
        "", description="A text, or OpenAI's content parts: texts are joined, images and files become attachments."
    )
    tool_calls: list[JsonObject] | None = Field(
        None, description="As OpenAI's: `id`, `type`, `function` with `name` and `arguments` (JSON text)."
    )
    tool_call_id: str = Field("", description="On tool messages: the open call that this answers.")
    name: ShortText = ""
    reasoning: str | JsonObject | list[Any] | None = Field(None, description="The provider's blocks, opaque.")
    attachments: list[JsonObject] | None = Field(None, description="Each `{type, mime_type, name, url, tokens}`.")
    usage: UsageIn | None = Field(None, description="As the provider returned it with the reply.")
    model: ShortText = Field("", description="The model that wrote it.")
    metadata: JsonObject | None = None
    external_id: ShortText = Field("", description="Your own id. Unique in its session unless empty.")
    context: SentContext | None = Field(
        None, description="On a reply: the `figures` of what was sent for it. With `usage` they calibrate estimates."
    )


class NodeFields(Schema):
    """The fields that a message has in every answer, with its text or without."""

    id: int = Field(examples=[43])
    parent_id: int | None = Field(description="Of a summary: its anchor.", examples=[41])
    kind: Literal["message", "summary"]
    role: RoleName = Field(examples=["user"])
    depth: int = Field(description="1 for a root.", examples=[42])
    token_count: int = Field(description="Tokens of what is sent for it.", examples=[10])
    path_tokens: int = Field(description="Tokens from the root to here, inclusive.", examples=[90_122])
    pinned: bool = Field(
        validation_alias="is_pinned", description="Whether it stays in view though it is summarized.", examples=[False]
    )
    redacted_at: datetime | None = Field(examples=[None])
    created_at: datetime


class MessageOut(NodeFields):
    session_id: UUID
    content: str = Field(
        validation_alias="text",
        description="Of a summary: with its ledger under a heading.",
        examples=["When is the tide in?"],
    )
    tool_calls: list[JsonObject] | None = Field(examples=[None])
    tool_call_id: str = Field(examples=[""])
    name: str = Field(examples=[""])
    reasoning: Any = None
    attachments: list[JsonObject] | None = Field(examples=[None])
    usage: JsonObject | None = Field(examples=[None])
    model: str = Field(examples=[""])
    fallback_used: bool = Field(description="Of a reply: whether its `context` was cut to fit.", examples=[False])
    finish_reason: str = Field(description="How the reply ended, as its provider said. Empty: unknown.", examples=[""])
    metadata: JsonObject = Field(examples=[{}])
    external_id: str = Field(examples=[""])


class MessageCreated(Schema):
    message: MessageOut
    compaction_requested: bool = Field(description="Whether a compaction of this branch starts in the background.")
    run_id: int | None = Field(description="Its run, for `GET runs/{id}`.", examples=[None])
    fallback_used: bool = Field(description="Whether the `context` of this reply was cut to fit: compaction is late.")


class NodeOut(NodeFields):
    """A node of the tree, without its text."""

    sib_order: int = Field(description="Its position among its siblings, summaries included.")
    cutoff_id: int | None = Field(
        validation_alias="last_summarized_message_id", description="Of a summary: its cutoff."
    )
    pinned_id: int | None = Field(
        validation_alias="pinned_message_id", description="The turn's request, shown after it."
    )
    retired_at: datetime | None


class RedactIn(Body):
    model_config = example(replacement="[removed at the author's request]")

    replacement: str = Field(default="[redacted]", max_length=10_000, description="Replaces the text.")
    copies: bool = Field(
        default=False, description="Also redact the copies of the message in other sessions, where you may redact."
    )


_ONCE = "Makes it safe to send the same message again: it is stored once, and the stored one is returned."
IdempotencyKey = Annotated[
    str | None, Header(None, alias="Idempotency-Key", min_length=1, max_length=255, description=_ONCE)
]


@operation(
    router,
    "POST",
    "/sessions/{uuid:session_id}/messages",
    {201: MessageCreated},
    "duplicate invalid_message invalid_parent idempotency_conflict",
)
def append_message(
    request: HttpRequest, session_id: UUID, body: MessageIn, idempotency_key: IdempotencyKey
) -> Status[dict[str, Any]]:
    """The message is stored first. If the branch then needs a compaction, one starts in the background."""
    session = find_session(request, session_id, Action.APPEND)
    fields = body.model_dump(exclude={"parent_id", "context", "usage"})
    fields["usage"] = body.usage.model_dump(exclude_unset=True) if body.usage else None
    parent, context = _parent(session, body.parent_id, body.context), None
    if body.context is not None:
        context = ChatContext(messages=(), **body.context.model_dump() | {"strategy": Strategy(body.context.strategy)})
    key, run = idempotency_key or "", None
    message = append_once(session, parent, fields, context=context, idempotency_key=key, writer="client")
    # A message that is sent again may no longer be the tip of its branch.
    if not idempotency_key or message.is_leaf():
        try:
            run = chat.request_compaction(message, model=context.model or None if context else None)
        except CompactionError as error:
            # The message is stored, and the client must learn that.
            log_error(logger, error, session=message.session_id, tip=message.pk, step="request_compaction")
    run_id = run.pk if run is not None and run.is_open else None
    answer = {"message": message, "fallback_used": message.fallback_used}
    return Status(201, {**answer, "compaction_requested": run_id is not None, "run_id": run_id})


@operation(router, "GET", "/sessions/{uuid:session_id}/tree", {200: Page[NodeOut]})
def list_nodes(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Messages and summaries without their texts, oldest first. A parent comes before its children."""
    session = find_session(request, session_id, Action.READ)
    rows = ChatMessage.objects.in_database_of(session).in_session(session.pk)
    if cursor is not None:
        rows = rows.filter(pk__gt=parse_cursor(cursor))
    return page(lean(rows.select_related("pin")), limit, lambda row: row.pk)


@operation(router, "GET", "/messages/{int:message_id}", {200: MessageOut})
def get_message(request: HttpRequest, message_id: Id) -> ChatMessage:
    return find_message(request, message_id, Action.READ, whole=True)


@operation(router, "GET", "/messages/{int:message_id}/branch", {200: Page[MessageOut]}, "invalid_parent")
def read_branch(request: HttpRequest, message_id: Id, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """The transcript that people see, without summaries: from this message up to the root. A page ends early after a
    million characters: follow `next_cursor` whatever the number of items."""
    tip = find_tip(request, message_id)
    # Depths are unique on a branch, so the cursor of a page is a depth.
    start = tip.depth if cursor is None else min(parse_cursor(cursor), tip.depth)
    top = max(1, start - limit + 1)
    rows = ChatMessage.objects.in_database_of(tip).raw(
        _PAGE, {"node": tip.pk, "min_depth": top, "start": start, "characters": PAGE_CHARACTERS}
    )
    shown = sorted(rows, key=lambda row: -row.depth)
    # Empty if the branch was deleted meanwhile.
    last = shown[-1].depth if shown else 1
    return {"items": shown, "next_cursor": str(last - 1) if last > 1 else None}


@operation(router, "DELETE", "/messages/{int:message_id}", {204: None}, "invalid_message protected throttled")
def delete_message(request: HttpRequest, message_id: Id) -> Status[None]:
    """This cannot be undone. A summary cannot be deleted; retire it instead."""
    message = find_message(request, message_id, Action.ERASE)
    count_against_throttle(user_of(request))
    chat.delete_message(message)
    return Status(204, None)


@operation(router, "POST", "/messages/{int:message_id}/redact", {200: MessageOut}, "invalid_message throttled")
def redact_message(request: HttpRequest, message_id: Id, body: RedactIn | None = None) -> ChatMessage:
    """Its text is erased for good. Summaries that may repeat it are emptied and retired."""
    message, given = find_message(request, message_id, Action.REDACT), body or RedactIn()
    count_against_throttle(user_of(request))

    def may_redact(copy: ChatMessage) -> bool:
        # Nothing tells of copies that the user may not redact.
        return is_allowed(user_of(request), copy.session, Action.REDACT)

    return chat.redact_message(message, replacement=given.replacement, copies=may_redact if given.copies else ())


class CarryIn(Body):
    model_config = example(source_id=57)

    source_id: Id = Field(description="The end of the other branch, of the same session.")


@operation(
    router,
    "POST",
    "/messages/{int:message_id}/carry_over",
    {201: MessageOut},
    "open_run branch_gone base_changed invalid_message invalid_parent nothing_to_compact mode_off reply_under_way "
    "throttled spend compaction_failed",
)
def carry_over(
    request: HttpRequest, message_id: Id, body: CarryIn, idempotency_key: IdempotencyKey
) -> Status[ChatMessage]:
    """Stores below this message one that tells what another branch has below the fork: a summary of that, which a model
    writes. What is erased there is erased in it too. Needs `append` and `compact`, and `read` on the other branch."""
    tip = require_tip(find_message(request, message_id, Action.APPEND), "message_id")
    source = require_tip(find_message(request, body.source_id, Action.READ), "body.source_id")
    require(request, tip.session, Action.COMPACT)
    count_against_throttle(user_of(request))
    return Status(201, chat.carry_over(source, tip, idempotency_key=idempotency_key or ""))


@operation(router, "POST", "/messages/{int:message_id}/pin", {204: None}, "invalid_message pins_too_large")
def pin_message(request: HttpRequest, message_id: Id) -> Status[None]:
    """Once a summary covers it, the model is shown it verbatim beside the summary, on each branch that has it."""
    chat.pin_message(find_message(request, message_id, Action.PIN))
    return Status(204, None)


@operation(router, "DELETE", "/messages/{int:message_id}/pin", {204: None})
def unpin_message(request: HttpRequest, message_id: Id) -> Status[None]:
    chat.unpin_message(find_message(request, message_id, Action.PIN))
    return Status(204, None)


#: Each id in the figures of a context, with the kind of what it names.
_NAMED = {
    "summary_id": Kind.SUMMARY,
    **dict.fromkeys(("cutoff_id", "pinned_id", "pin_ids", "own_summary_id"), Kind.MESSAGE),
}


def _parent(session: ChatSession, parent_id: int | None, sent: SentContext | None) -> ChatMessage | None:
    """Return the parent. Raise for figures that no context of this branch can have.

    They are stored as the record of what the model saw, and a client may send anything. In Python they come directly
    from ``get_context``. One query finds the parent and everything that they name.
    """
    given = sent.model_dump(include=set(_NAMED)) if sent is not None else {}
    named = [(name, key) for name, keys in given.items() for key in (keys if isinstance(keys, list) else [keys]) if key]
    found: dict[int | None, ChatMessage] = {}
    if ids := {parent_id, *(key for _, key in named)} - {None}:
        rows = ChatMessage.objects.in_database_of(session).filter(session=session, pk__in=ids)
        found = {row.pk: row for row in rows.only("id", "session_id", "kind", "depth")}
    parent = found.get(parent_id)
    if parent is None and parent_id is not None:
        # The same detail for an unknown id and for one of another session, so ids cannot be probed.
        raise Problem(Code.INVALID_PARENT, "parent_id: There is no such message in this session.")
    if sent is None:
        return parent
    if parent is None or sent.tip_id != parent.pk:
        raise Problem(Code.INVALID, "body.context.tip_id: The context was not built for parent_id.")
    for name, key in named:
        if key not in found or found[key].kind != _NAMED[name]:
            raise Problem(Code.INVALID, f"body.context.{name}: There is no such {_NAMED[name]} in this session.")
    if sent.first_shown_depth is not None and not 1 <= sent.first_shown_depth <= parent.depth:
        detail = f"body.context.first_shown_depth: Must be from 1 to {parent.depth}, the depth of parent_id."
        raise Problem(Code.INVALID, detail)
    return parent
