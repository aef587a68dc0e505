"""Sessions on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from compaction_app.api.fields import Body, JsonObject, ShortText

_EXAMPLE: dict[str, Any] = {
    "title": "Tide tables",
    "model": "gpt-4o-mini",
    "system_prompt": "You know the harbour.",
    "settings": {"MODE": "standard"},
    "external_id": "crm-7",
    "metadata": {"team": "harbour"},
}


class SessionIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    title: ShortText = ""
    model: ShortText = Field(
        default="", description="The chat model's name; its window is what contexts are fitted to."
    )
    system_prompt: str = Field(default="", description="Sent first, never compacted.")
    settings: JsonObject = Field(default_factory=dict, description="Overrides of keys of COMPACTION.")
    external_id: ShortText = Field(default="", description="Your own id; unique for its owner where it is not empty.")
    metadata: JsonObject = Field(default_factory=dict, description="Yours; never sent to a model.")


class SessionPatch(Body):
    """What is left out stays as it is; what is given replaces the whole of its field."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Tides"}]})

    title: ShortText = ""
    model: ShortText = ""
    system_prompt: str = ""
    settings: JsonObject = Field(default_factory=dict)
    external_id: ShortText = ""
    metadata: JsonObject = Field(default_factory=dict)


class SessionListed(Schema):
    """A session in a list: without the texts that may be long."""

    id: UUID
    title: str
    model: str
    external_id: str
    created_at: datetime
    updated_at: datetime = Field(description="Rises with every message and every compaction.")


class SessionOut(SessionListed):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "0b9c7f5e-7c41-4b0e-9d3f-3f0a3b8f6a10",
                    **_EXAMPLE,
                    "created_at": "2026-01-05T09:00:00Z",
                    "updated_at": "2026-01-05T09:04:00Z",
                }
            ]
        }
    )

    system_prompt: str
    settings: JsonObject
    metadata: JsonObject
