"""What one attempt at a run works with, from the claim to the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compaction_app.conf import Settings
from compaction_app.memory.ledger_text import prose_draft
from compaction_app.models import CompactionRun
from compaction_app.summarizers.base import Summarizer
from compaction_app.summarizers.prompts import refuse_draft
from compaction_app.tokens import Count
from compaction_app.values import (
    Branch,
    Budget,
    Capacity,
    CompactionPlan,
    ErrorCode,
    EventKind,
    SummaryDraft,
    SummaryRequest,
)

#: A kind and its payload.
Event = tuple[EventKind, dict[str, Any]]


@dataclass(kw_only=True)
class Work:
    """Everything that the model's call needs, read before the connection was given back."""

    run: CompactionRun
    #: The database of the run.
    using: str
    settings: Settings
    #: The run's, with a summary's target that the summarizer can write.
    budget: Budget
    #: What the summarizer takes and writes in one call; None: it has no limit.
    capacity: Capacity | None
    branch: Branch
    plan: CompactionPlan
    request: SummaryRequest
    summarizer: Summarizer
    #: Bytes that covered messages are shortened to, by id.
    limits: dict[int, int]
    count: Count
    #: What happened during the model's call, written once the connection is back.
    events: list[Event] = field(default_factory=list)

    def refusal(self, draft: SummaryDraft) -> ErrorCode | None:
        """Why the draft cannot become the summary; None if it can."""
        return refuse_draft(
            prose_draft(draft),
            target_tokens=self.request.target_tokens,
            replaced_tokens=self.plan.replaced_tokens,
            count=self.count,
            min_saving_ratio=self.settings.min_saving_ratio,
            request=self.request,
        )

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        self.events.append((kind, payload))
