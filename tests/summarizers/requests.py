"""A request built from parts, without a branch or a plan of the app's own making."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_app.conf import Settings, settings_from_snapshot
from compaction_app.summarizers.prompts import SummarizerLimit, request_for
from compaction_app.tokens import Count
from compaction_app.values import CompactionPlan, Message, Role, Summary, SummaryRequest

NONCE = "1f2e3d4c5b6a7980"


def base(text: str, tokens: int = 0) -> Summary | None:
    """A previous summary; None for no text."""
    if not text:
        return None
    at_start = {"anchor_id": 0, "anchor_depth": 0, "cutoff_id": 0, "cutoff_depth": 0, "cutoff_path_tokens": 0}
    return Summary(id=0, tokens=tokens, content=text, **at_start)


def settings(**changes: Any) -> Settings:
    return settings_from_snapshot({"SUMMARIZER_MAX_OUTPUT_TOKENS": 5000, **changes})


def request(
    *,
    covered: Sequence[Message],
    lookahead: Sequence[Message] = (),
    pinned: Message | None = None,
    base_text: str = "",
    target_tokens: int = 1000,
    previous_tokens: int = 0,
    reasoning: str = "summarize",
    summary_prompt: str | None = None,
    nonce: str = NONCE,
    **options: Any,
) -> SummaryRequest:
    """The request of a plan with these parts; ``options`` are those of :func:`request_for`."""
    plan = CompactionPlan(
        covered=tuple(covered),
        lookahead=tuple(lookahead),
        kept=(),
        base=base(base_text, previous_tokens),
        pinned=pinned,
        cutoff=covered[-1] if covered else Message(id=1, depth=1, role=Role.USER, tokens=1),
        anchor_id=1,
        anchor_depth=1,
        target_tokens=target_tokens,
        replaced_tokens=0,
    )
    asked = settings(REASONING=reasoning, SUMMARY_PROMPT=summary_prompt)
    return request_for(plan, asked, nonce=nonce, **options)


def sizes(
    count: Count, *, reasoning: str = "summarize", summary_prompt: str | None = None, **options: Any
) -> SummarizerLimit:
    asked = settings(REASONING=reasoning, SUMMARY_PROMPT=summary_prompt)
    return SummarizerLimit(100_000, asked, count, **options)
