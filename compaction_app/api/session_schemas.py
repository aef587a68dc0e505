"""Sessions on the wire."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import Field

from compaction_app.api import examples
from compaction_app.api.fields import Body, JsonObject, ShortText


class SessionIn(Body):
    model_config = examples.shown(examples.SESSION_IN)

    title: ShortText = ""
    model: ShortText = Field(
        default="",
        description="The chat model's name; its window is what contexts are fitted to. No model is called by it.",
    )
    system_prompt: str = Field(default="", description="Sent first, never compacted.")
    settings: JsonObject = Field(
        default_factory=dict,
        description="Overrides of keys of COMPACTION: `MODE`, and with the permission to `configure` others.",
    )
    external_id: ShortText = Field(default="", description="Your own id; unique for its owner where it is not empty.")
    metadata: JsonObject = Field(default_factory=dict, description="Yours; never sent to a model.")


class SessionPatch(Body):
    """What is left out stays as it is; what is given replaces the whole of its field."""

    model_config = examples.shown(examples.SESSION_PATCH)

    title: ShortText = ""
    model: ShortText = ""
    system_prompt: str = ""
    settings: JsonObject = Field(default_factory=dict)
    external_id: ShortText = ""
    metadata: JsonObject = Field(default_factory=dict)


class SessionListed(Schema):
    """A session in a list: without the texts that may be long."""

    model_config = examples.shown(examples.SESSION_LISTED)

    id: UUID
    title: str
    model: str
    external_id: str
    created_at: datetime
    updated_at: datetime = Field(description="Rises with every message and every compaction.")


class SessionOut(SessionListed):
    model_config = examples.shown(examples.SESSION_OUT)

    system_prompt: str
    settings: JsonObject
    metadata: JsonObject
