"""How much of a branch one request to a summarizer can hold, and what its texts pass through on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_app.conf import Settings
from compaction_app.models import CompactionRun
from compaction_app.redaction import guarded_redactor_of
from compaction_app.summarizers.prompts import measure_blocks, measure_overhead
from compaction_app.tokens import Count
from compaction_app.values import CompactionPlan, Message, Summary

#: A message that the summarizer is shown head-and-tail keeps at least this much.
SMALLEST_SHOWN_BYTES = 256


class SummarizerLimit:
    """Sizes of the parts of a request as they will be serialized; see :class:`planning.InputLimit`."""

    def __init__(self, max_tokens: int, run: CompactionRun, settings: Settings, count: Count) -> None:
        self.max_tokens = max_tokens
        self.run = run
        self.settings = settings
        self.count = count
        self._redact = guarded_redactor_of(settings)
        self._overheads: dict[tuple[Any, ...], int] = {}

    def blocks(self, messages: Sequence[Message], limits: dict[int, int] | None = None) -> list[int]:
        return measure_blocks(
            messages,
            reasoning=self.settings.reasoning,
            limits=limits,
            redact=self._redact,
            count=self.count,
        )

    def overhead(self, base: Summary | None, pinned: Message | None, lookahead: Sequence[Message]) -> int:
        # Asked for each candidate cut, and the same for nearly all of them.
        key = (pinned.id if pinned else None, tuple(message.id for message in lookahead))
        if key not in self._overheads:
            self._overheads[key] = sum(self.blocks(lookahead)) + measure_overhead(
                pinned=pinned,
                base_text=base.content if base else "",
                instructions=self.run.instructions,
                policy_line=self.run.policy_line,
                reasoning=self.settings.reasoning,
                summary_prompt=self.settings.summary_prompt,
                redact=self._redact,
                count=self.count,
            )
        return self._overheads[key]

    def byte_limits(self, plan: CompactionPlan) -> dict[int, int]:
        """A byte limit for the largest covered messages, as large as lets the request fit."""
        room = self.max_tokens - self.overhead(plan.base, plan.pinned, plan.lookahead)
        low = SMALLEST_SHOWN_BYTES
        high = max((len(m.content.encode()) for m in plan.covered), default=low)
        while low < high:
            middle = (low + high + 1) // 2
            fits = sum(self.blocks(plan.covered, self._over(plan, middle))) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        return self._over(plan, low)

    def _over(self, plan: CompactionPlan, size: int) -> dict[int, int]:
        return {m.id: size for m in plan.covered if len(m.content.encode()) > size}
