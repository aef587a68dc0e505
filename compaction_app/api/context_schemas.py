"""A context on the wire: what the model would be sent, and every figure behind it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from compaction_app.api.fields import MAX_NUMBER, Body, Id, JsonObject, Number, RoleName, ShortText

OriginName = Literal["system", "contribution", "summary", "pinned", "verbatim", "pruned"]
StrategyName = Literal["none", "tool_result_budget", "micro_compact", "auto_compact", "truncated"]


class Figures(Schema):
    """Tokens are this app's own count."""

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
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "figures": {
                        "tip_id": 7,
                        "model": "gpt-4o-mini",
                        "tokens": 10,
                        "history_tokens": 10,
                        "available_tokens": 119_808,
                        "reserved_tokens": 8_192,
                        "window": 128_000,
                        "threshold": 89_856,
                        "target": 64_000,
                        "summary_id": None,
                        "cutoff_id": None,
                        "pinned_id": None,
                        "strategy": "none",
                        "pruned": 0,
                        "dropped": 0,
                        "first_shown_depth": 1,
                    },
                    "messages": [
                        {
                            "origin": "verbatim",
                            "message_id": 7,
                            "role": "user",
                            "content": "When is the tide in?",
                            "tokens": 10,
                            "left_out_bytes": 0,
                            "tool_calls": [],
                            "tool_call_id": "",
                            "name": "",
                            "reasoning": None,
                            "attachments": [],
                        }
                    ],
                    "openai": [{"role": "user", "content": "When is the tide in?"}],
                }
            ]
        }
    )

    figures: Figures
    messages: list[ContextMessageOut] = Field(description="In the order in which they are sent.")
    openai: list[JsonObject] = Field(
        description="The same as `messages` of a chat completion; a call that never got its result is given one."
    )
