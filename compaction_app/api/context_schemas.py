"""A context on the wire: what the model would be sent, and every figure behind it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field

from compaction_app.api import examples
from compaction_app.api.fields import MAX_NUMBER, Body, Id, JsonObject, Number, RoleName, ShortText

OriginName = Literal["system", "contribution", "summary", "pinned", "verbatim", "pruned"]
StrategyName = Literal["none", "tool_result_budget", "micro_compact", "auto_compact", "truncated"]


class Figures(Schema):
    """Tokens are this app's own count."""

    model_config = examples.shown(examples.FIGURES)

    tip_id: Id = Field(description="The message that it was made for.")
    model: ShortText = Field(description="The model that it is meant for; empty: none is named.")
    tokens: Number = Field(description="Of everything but the reply's reserve.")
    history_tokens: Number = Field(description="Of summary, pinned message and what is shown of the tail.")
    available_tokens: Number
    reserved_tokens: Number = Field(description="System prompt, and what is kept free for the reply.")
    window: Number
    threshold: Number = Field(description="Over it a compaction is wanted.")
    target: Number = Field(description="Down to it a compaction should bring the branch.")
    summary_id: Id | None
    cutoff_id: Id | None = Field(description="The last message that the summary covers.")
    pinned_id: Id | None
    strategy: StrategyName = Field(description="How far the ladder of layers went.")
    pruned: Number = Field(description="Tool results that are shown shortened.")
    dropped: Number = Field(description="Messages after the cutoff that are not shown.")
    first_shown_depth: Number | None


class SentContext(Body, Figures):
    """The `figures` of a context, sent back with the reply that it led to."""

    # A provider's count is divided by it.
    tokens: Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class ContextMessageOut(Schema):
    model_config = examples.shown(examples.CONTEXT_MESSAGE)

    origin: OriginName = Field(description="Where it comes from.")
    message_id: int | None = Field(description="The message or summary that it stands for.")
    role: RoleName
    content: str
    tokens: int
    left_out_bytes: int = Field(description="Bytes of the original that pruning or fitting left out.")
    tool_calls: list[JsonObject]
    tool_call_id: str
    name: str
    reasoning: Any = None
    attachments: list[JsonObject]


class ContextOut(Schema):
    model_config = examples.shown(examples.CONTEXT)

    figures: Figures
    messages: list[ContextMessageOut] = Field(description="In the order in which they are sent.")
    openai: list[JsonObject] = Field(
        description="The same as `messages` of a chat completion; a call that never got its result is given one."
    )
