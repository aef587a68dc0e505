"""Messages and the tree on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compaction_app.api import examples
from compaction_app.api.context_schemas import SentContext
from compaction_app.api.fields import Body, Id, JsonObject, RoleName, ShortText, whole
from compaction_app.conversation.usage import MAX_REPORTED

#: Characters.
MAX_REPLACEMENT = 10_000
#: Tokens as a provider counted them; null is not said.
Reported = Annotated[int, Field(ge=0, le=MAX_REPORTED), BeforeValidator(whole)] | None


# Not one of django-ninja's, which would drop what it has no field for.
class UsageIn(BaseModel):
    """Other keys, which each provider has of its own, are kept as they are."""

    model_config = ConfigDict(extra="allow", strict=True) | examples.shown(examples.USAGE)

    prompt_tokens: Reported = Field(default=None, description="As OpenAI says it, cached ones included.")
    completion_tokens: Reported = None
    total_tokens: Reported = None
    input_tokens: Reported = Field(default=None, description="As Anthropic says it, without cached ones.")
    output_tokens: Reported = None
    cache_read_input_tokens: Reported = None
    cache_creation_input_tokens: Reported = None


class MessageIn(Body):
    model_config = examples.shown(examples.QUESTION_IN, examples.REPLY_IN)

    parent_id: Id | None = Field(
        default=None,
        description="The message that it follows; null: a new root. A second child of one parent is a fork.",
    )
    role: RoleName
    content: str = ""
    tool_calls: list[JsonObject] | None = Field(
        default=None,
        description="As in the OpenAI chat format: `id`, `type`, `function` with `name` and `arguments`, a JSON text.",
    )
    tool_call_id: ShortText = Field(default="", description="On tool messages: the open call that this answers.")
    name: ShortText = ""
    reasoning: str | JsonObject | list[Any] | None = Field(
        default=None, description="The provider's own blocks, opaque."
    )
    attachments: list[JsonObject] | None = Field(
        default=None, description="Each `{type, mime_type, name, url, tokens}`."
    )
    usage: UsageIn | None = Field(default=None, description="As the provider returned it with the reply.")
    model: ShortText = Field(default="", description="The model that wrote it.")
    metadata: JsonObject | None = None
    external_id: ShortText = Field(default="", description="Your own id; unique in its session where it is not empty.")
    context: SentContext | None = Field(
        default=None,
        description="On a reply: the `figures` of the context that was sent for it. They are kept, and with `usage` "
        "they teach how this model counts tokens.",
    )


class MessageOut(Schema):
    model_config = examples.shown(examples.MESSAGE)

    id: int
    session_id: UUID
    parent_id: int | None
    kind: Literal["message", "summary"]
    role: RoleName
    content: str
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
    compaction_requested: bool = Field(description="A compaction of this branch was started in the background.")
    run_id: int | None = Field(description="Its run, for `GET runs/{id}`.")


class NodeOut(Schema):
    """A node of the tree, without its text."""

    model_config = examples.shown(examples.SUMMARY_NODE, examples.NODE)

    id: int
    parent_id: int | None = Field(description="Of a summary: its anchor.")
    kind: Literal["message", "summary"]
    role: RoleName
    depth: int
    sib_order: int = Field(description="Its place among the nodes below its parent, summaries included.")
    token_count: int
    path_tokens: int
    cutoff_id: int | None = Field(description="Of a summary: the last message that it covers.")
    pinned_id: int | None = Field(description="Of a summary: the user message shown verbatim after it.")
    retired_at: datetime | None
    redacted_at: datetime | None
    created_at: datetime


class RedactIn(Body):
    model_config = examples.shown(examples.REDACT)

    replacement: str = Field(
        default="[redacted]", max_length=MAX_REPLACEMENT, description="What stands there from now on."
    )
