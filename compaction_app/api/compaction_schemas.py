"""Compactions on the wire: asking for one, the generations, a run."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from compaction_app.api import examples
from compaction_app.api.fields import Body, Id
from compaction_app.chat import MAX_INSTRUCTIONS

StatusName = Literal["ready", "running", "succeeded", "failed", "skipped"]
TriggerName = Literal["threshold", "manual", "overflow"]


class CompactIn(Body):
    model_config = examples.shown(examples.COMPACT)

    message_id: Id | None = Field(
        default=None, description="The tip of the branch; null: the session's newest message."
    )
    instructions: str = Field(default="", max_length=MAX_INSTRUCTIONS, description="What the summary should look to.")
    wait: bool = Field(
        default=True, description="Answer when the summary is there; false: answer at once, with the run."
    )


class RunReferences(Schema):
    """Ids; null where what they named was deleted, or was never made."""

    run_id: int
    tip_id: int | None = Field(description="The branch's tip when the compaction was asked for.")
    anchor_id: int | None = Field(description="The message that the summary is attached to.")
    cutoff_id: int | None = Field(description="The last message that the summary covers.")
    base_id: int | None = Field(description="The summary that it goes on from.")
    summary_id: int | None


class RunFigures(Schema):
    tokens_before: int | None = Field(description="Of the branch's history.")
    tokens_after: int | None
    messages_compacted: int | None
    input_tokens: int | None = Field(description="Of the summarizer's calls, as reported.")
    output_tokens: int | None
    cached_tokens: int | None
    cost: str | None = Field(description="By the prices in the settings; a decimal number as a text.")


class CompactionOut(RunReferences, RunFigures):
    """One generation of a session, without its text."""

    model_config = examples.shown(examples.GENERATION)

    generation: int
    trigger: TriggerName
    summarizer_model: str
    prompt_version: str
    retention_before: float | None = Field(description="Share of the facts that the draft kept.")
    retention_after: float | None = Field(description="With the ledger at the summary's end.")
    retired_at: datetime | None = Field(description="Since when it is out of use.")
    created_at: datetime
    finished_at: datetime | None


class CompactionDetail(CompactionOut):
    model_config = examples.shown(examples.GENERATION_IN_FULL)

    summary: str | None = Field(description="The summary's text; empty once it was redacted, null once it was deleted.")
    instructions: str
    pinned_id: int | None = Field(description="The user message shown verbatim after the summary.")


class Compacted(RunReferences, RunFigures):
    """The summary was made."""

    model_config = examples.shown(examples.COMPACTED)

    generation: int
    summary_preview: str = Field(description="The first 200 characters.")


class RunOut(RunReferences, RunFigures):
    """One attempt to compact. `ready` and `running` are open; poll until it is neither."""

    model_config = examples.shown(examples.RUN)

    session_id: UUID
    status: StatusName
    trigger: TriggerName
    generation: int | None
    skip_reason: str = Field(description="Where it was skipped: why.")
    error_code: str = Field(description="Where it failed, or will be tried again: why.")
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class Retired(Schema):
    model_config = examples.shown(examples.RETIRED)

    retired: list[int] = Field(description="The summary, and every live one that was built on it.")
