"""The context at a message: what a gateway asks for before it calls its model, and sends back with the reply."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compaction_app import chat
from compaction_app.api.errors import operation
from compaction_app.api.lookup import find_tip
from compaction_app.api.schemas import MAX_NUMBER, Body, Id, InQuery, JsonObject, Number, RoleName, ShortText, whole
from compaction_app.messages.validation import MAX_REPORTED, check_text
from compaction_app.values import Meter

router = Router(tags=["messages"])

OriginName = Literal["system", "contribution", "summary", "shared_extract", "pin", "pinned", "verbatim", "pruned"]
StrategyName = Literal["none", "tool_result_budget", "micro_compact", "auto_compact", "shared_extract", "truncated"]
#: Tokens as the provider counted them; null: not reported.
Reported = Annotated[int, Field(ge=0, le=MAX_REPORTED), BeforeValidator(whole)] | None


class Figures(Schema):
    """Token counts are this app's estimates."""

    tip_id: Id = Field(description="The message that the context was built for.", examples=[43])
    model: ShortText = Field(description="The model that the context was built for. Empty: none was given.")
    tokens: Number = Field(description="Of everything sent, without the reserve for the reply.", examples=[3_055])
    history_tokens: Number = Field(description="Of summary, pins, the turn's request and tail.", examples=[3_046])
    available_tokens: Number = Field(examples=[119_799])
    reserved_tokens: Number = Field(description="For the system prompt and the reply.", examples=[8_201])
    window: Number = Field(examples=[128_000])
    threshold: Number = Field(description="A larger history is compacted.", examples=[89_849])
    target: Number = Field(description="The size that a compaction aims at.", examples=[64_000])
    summary_id: Id | None = Field(description="Of a `shared_extract` too: the summary that has it.", examples=[42])
    cutoff_id: Id | None = Field(description="The last message that the summary covers.", examples=[39])
    pinned_id: Id | None = Field(description="The turn's request, shown beside the summary.", examples=[None])
    pin_ids: list[Id] = Field([], description="Pinned messages shown beside the summary.", max_length=1000)
    own_summary_id: Id | None = Field(
        None, description="The reply with the provider's own summary: nothing from above it is sent.", examples=[None]
    )
    strategy: StrategyName = Field(description="The last layer that was needed to make the history fit.")
    pruned: Number = Field(description="How many tool results are shortened.", examples=[0])
    dropped: Number = Field(description="How many messages after the cutoff, and pins, are left out.", examples=[0])
    first_shown_depth: Number | None = Field(examples=[40])
    attachment_tokens: Number = Field(0, description="Of `tokens`, what pictures, sounds and files take.")


class SentContext(Body, Figures):
    """The `figures` of a context, sent back with the reply to it."""

    # The provider's count is divided by it.
    tokens: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = Field(examples=[3_055])


# Not django-ninja's Schema, which would drop keys that it has no field for.
class UsageIn(BaseModel):
    """Other keys, specific to a provider, are stored as they are."""

    model_config = ConfigDict(extra="allow", strict=True)

    prompt_tokens: Reported = Field(None, description="OpenAI's, cached tokens included.", examples=[3_302])
    completion_tokens: Reported = None
    total_tokens: Reported = None
    input_tokens: Reported = Field(None, description="Anthropic's, without cached tokens.")
    output_tokens: Reported = None
    cache_read_input_tokens: Reported = None
    cache_creation_input_tokens: Reported = None


class ContextMessageOut(Schema):
    origin: OriginName = Field(description="Where it comes from.")
    message_id: int | None = Field(description="The message or summary that it shows.", examples=[42])
    role: RoleName
    content: str = Field(examples=["## Tide tables\n\nThe user plans a crossing to the island; the ferry…"])
    tokens: int = Field(examples=[3_012])
    left_out_bytes: int = Field(description="How many bytes of the original pruning or fitting left out.")
    tool_calls: list[JsonObject] = Field(examples=[[]])
    tool_call_id: str
    name: str
    reasoning: Any = None
    attachments: list[JsonObject] = Field(examples=[[]])


class ContextOut(Schema):
    figures: Figures
    fallback_used: bool = Field(description="Whether the prompt was cut to fit, because compaction is late or failing.")
    messages: list[ContextMessageOut] = Field(description="In the order they are sent.")
    openai: list[JsonObject] = Field(
        description="The same as `messages` of a chat completion. A tool call without a result is given one.",
        examples=[[{"role": "system", "content": "You know the harbour."}, {"role": "user", "content": "When?"}]],
    )


class MeterOut(Schema):
    """Tokens, by this app's count. `history` is the sum from `summary` to `messages`."""

    tip_id: int = Field(examples=[43])
    model: str
    state: Literal["running", "failed", "due", "extract", "ok"] = Field(
        description="`due`: over the threshold. `extract`: quotes stand in for a summary that no model wrote."
    )
    code: str = Field(description="Why the newest run failed, is tried again, or stored an extract.", examples=[""])
    run_id: int | None = Field(description="The branch's newest run, for `GET runs/{id}`.", examples=[3])
    system_prompt: int = Field(examples=[9])
    tools: int = Field(examples=[0])
    contributions: int = Field(examples=[0])
    summary: int = Field(examples=[3_012])
    pins: int = Field(description="Pinned messages and the turn's request beside the summary.", examples=[0])
    recalled: int = Field(description="What a search found again.", examples=[0])
    messages: int = Field(examples=[34])
    reserved: int = Field(description="Kept free for the reply.", examples=[8_192])
    history: int = Field(examples=[3_046])
    available: int = Field(examples=[119_799])
    threshold: int = Field(examples=[89_849])
    window: int = Field(examples=[128_000])
    fallback_used: bool = Field(description="Whether the prompt is cut to fit, because compaction is late or failing.")
    dropped: int = Field(description="How many messages are left out then.", examples=[0])


_MODEL = "Fit this model's context window. Default: the session's model."
_RESERVED = "Kept free for the reply and for what you add, such as tools."
_REASONING = "Count the reasoning blocks of the tail's messages, and include those that fit in `openai`."
Model = Annotated[str | None, Query(None, max_length=255, description=_MODEL)]
ReservedTokens = Annotated[int | None, InQuery, Query(None, ge=0, le=MAX_NUMBER, description=_RESERVED)]
IncludeReasoning = Annotated[bool, Query(False, description=_REASONING)]


@operation(
    router,
    "GET",
    "/messages/{int:message_id}/context",
    {200: ContextOut},
    "invalid_message invalid_parent context_overflow redaction_failed",
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
    shown = {"fallback_used": context.fallback_used, "messages": context.messages, "openai": context.to_openai()}
    return {"figures": context, **shown}


@operation(
    router,
    "GET",
    "/messages/{int:message_id}/meter",
    {200: MeterOut},
    "invalid_message invalid_parent context_overflow redaction_failed",
)
def get_meter(
    request: HttpRequest,
    message_id: Id,
    model: Model,
    reserved_tokens: ReservedTokens,
    include_reasoning: IncludeReasoning,
) -> Meter:
    """How full the window is at a message, by what, and whether the branch is being compacted. Without any text."""
    tip = find_tip(request, message_id)
    check_text(model or "", "model")
    return chat.measure(tip, model=model, reserved_tokens=reserved_tokens, include_reasoning=include_reasoning)
