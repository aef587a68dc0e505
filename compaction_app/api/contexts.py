"""The context at a message: what a gateway asks for before it calls its model, and the schemas of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from compaction_app import chat
from compaction_app.api import examples
from compaction_app.api.errors import Code, responses
from compaction_app.api.lookup import find_tip
from compaction_app.api.schemas import (
    MAX_NUMBER,
    SHORT_TEXT,
    Body,
    Id,
    InQuery,
    JsonObject,
    Number,
    RoleName,
    ShortText,
)
from compaction_app.messages.validation import check_text

router = Router(tags=["messages"])

OriginName = Literal["system", "contribution", "summary", "pinned", "verbatim", "pruned"]
StrategyName = Literal["none", "tool_result_budget", "micro_compact", "auto_compact", "truncated"]


class Figures(Schema):
    """Token counts are this app's estimates."""

    model_config = examples.shown(examples.FIGURES)

    tip_id: Id = Field(description="The message that the context was built for.")
    model: ShortText = Field(description="The model that the context was built for. Empty: none was given.")
    tokens: Number = Field(description="Of everything sent, without the reserve for the reply.")
    history_tokens: Number = Field(description="Of the summary, the pinned message and the part of the tail shown.")
    available_tokens: Number
    reserved_tokens: Number = Field(description="For the system prompt and the reply.")
    window: Number
    threshold: Number = Field(description="A larger history is compacted.")
    target: Number = Field(description="The size that a compaction aims at.")
    summary_id: Id | None
    cutoff_id: Id | None = Field(description="The last message that the summary covers.")
    pinned_id: Id | None
    strategy: StrategyName = Field(description="The last layer that was needed to make the history fit.")
    pruned: Number = Field(description="How many tool results are shortened.")
    dropped: Number = Field(description="How many messages after the cutoff are left out.")
    first_shown_depth: Number | None
    attachment_tokens: Number = Field(0, description="Of `tokens`, what pictures, sounds and files take.")


class SentContext(Body, Figures):
    """The `figures` of a context, sent back with the reply to it."""

    # The provider's count is divided by it.
    tokens: Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class ContextMessageOut(Schema):
    model_config = examples.shown(examples.CONTEXT_MESSAGE)

    origin: OriginName = Field(description="Where it comes from.")
    message_id: int | None = Field(description="The message or summary that it shows.")
    role: RoleName
    content: str
    tokens: int
    left_out_bytes: int = Field(description="How many bytes of the original pruning or fitting left out.")
    tool_calls: list[JsonObject]
    tool_call_id: str
    name: str
    reasoning: Any = None
    attachments: list[JsonObject]


class ContextOut(Schema):
    model_config = examples.shown(examples.CONTEXT)

    figures: Figures
    fallback_used: bool = Field(
        description="Whether the prompt was cut to fit, because compaction is late or failing: tool results are "
        "shortened, or `dropped` messages left out."
    )
    messages: list[ContextMessageOut] = Field(description="In the order they are sent.")
    openai: list[JsonObject] = Field(
        description="The same as `messages` of a chat completion. A tool call without a result is given one."
    )


Model = Annotated[
    str | None,
    Query(None, max_length=SHORT_TEXT, description="Fit this model's context window. Default: the session's model."),
]
ReservedTokens = Annotated[
    int | None,
    InQuery,
    Query(None, ge=0, le=MAX_NUMBER, description="Kept free for the reply and for what you add, such as tools."),
]
IncludeReasoning = Annotated[
    bool,
    Query(
        False, description="Count the reasoning blocks of the tail's messages, and include those that fit in `openai`."
    ),
]


@router.get(
    "/messages/{int:message_id}/context",
    summary="Get the context at a message",
    **responses(
        {200: ContextOut},
        Code.NOT_FOUND,
        Code.INVALID_MESSAGE,
        Code.INVALID_PARENT,
        Code.CONTEXT_OVERFLOW,
        Code.REDACTION_FAILED,
    ),
)
def get_context(
    request: HttpRequest,
    message_id: Id,
    model: Model,
    reserved_tokens: ReservedTokens,
    include_reasoning: IncludeReasoning,
) -> dict[str, Any]:
    """What the model would be sent. Nothing is stored or started. Send `openai` to your model, then append its reply
    with `figures` as `context`."""
    tip = find_tip(request, message_id)
    check_text(model or "", "model")
    context = chat.get_context(tip, model=model, reserved_tokens=reserved_tokens, include_reasoning=include_reasoning)
    return {
        "figures": context,
        "fallback_used": context.fallback_used,
        "messages": context.messages,
        "openai": context.to_openai(),
    }
