"""What the rows of a context are called, and what each of them is."""

from __future__ import annotations

from compaction_app.values import Origin, Strategy

#: Where a row comes from, beside an :class:`Origin`: it was not sent, the format demands it, or the page is full.
DROPPED, SUPPLIED, FOLDED = "dropped", "supplied", "folded"

ORIGIN_WORDS = {
    Origin.SYSTEM: "System prompt",
    Origin.CONTRIBUTION: "Contribution",
    Origin.SUMMARY: "Summary",
    Origin.PINNED: "Pinned",
    Origin.VERBATIM: "Verbatim",
    Origin.PRUNED: "Pruned",
}
OTHER_WORDS = {DROPPED: "Left out", SUPPLIED: "Supplied", FOLDED: "Sent, not listed"}

MEANINGS: dict[str, str] = {
    Origin.SYSTEM: "the session's own, never compacted",
    Origin.CONTRIBUTION: "what the caller adds to each request; not stored",
    Origin.SUMMARY: "stands for every message up to its cutoff",
    Origin.PINNED: "the user message of the turn that the cutoff lies in",
    Origin.VERBATIM: "a message after the cutoff, as it was written",
    Origin.PRUNED: "a tool result after the cutoff, shortened",
    DROPPED: "after the cutoff and not sent: there was no room",
    SUPPLIED: "a result that a provider wants for a call that never got one",
    FOLDED: "sent like its neighbours; too many for this page",
}

STRATEGY_WORDS = {
    Strategy.NONE: "Everything verbatim",
    Strategy.TOOL_RESULT_BUDGET: "Old tool results pruned",
    Strategy.MICRO_COMPACT: "White space in old tool results collapsed",
    Strategy.AUTO_COMPACT: "A summary is in use, or needed",
    Strategy.TRUNCATED: "Messages left out: the history does not fit the window now",
}
