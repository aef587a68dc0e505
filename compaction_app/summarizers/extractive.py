"""A summarizer that quotes instead of asking a model."""

from __future__ import annotations

from typing import Any

from compaction_app.conf import Settings, load_function
from compaction_app.memory.extractive import extractive_draft
from compaction_app.summarizers.base import Summarizer
from compaction_app.tokens import Count
from compaction_app.values import SummaryDraft, SummaryRequest


class ExtractiveSummarizer(Summarizer):
    """Quotes the most telling sentences. Deterministic, without network: the same request gives the same bytes."""

    #: It quotes messages, never reasoning.
    reads_reasoning = False
    looks_ahead = False

    def __init__(self, settings: Settings, **options: Any) -> None:
        super().__init__(settings, **options)
        self._count: Count = load_function(settings.token_counter)

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return extractive_draft(request, self._count)
