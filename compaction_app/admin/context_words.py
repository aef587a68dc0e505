"""What the rows of a context are called, and what each of them is."""

from __future__ import annotations

from compaction_app.admin import display
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
    Strategy.AUTO_COMPACT: "A summary in use",
    Strategy.TRUNCATED: "Messages left out: the history does not fit the window now",
}
_SUMMARY_NEEDED = "A summary is needed, and there is none yet"


def strategy_words(code: str, *, has_summary: bool) -> str:
    """What was done to the history; a code that is none of ours as it stands."""
    if code == Strategy.AUTO_COMPACT and not has_summary:
        return _SUMMARY_NEEDED
    return next((told for known, told in STRATEGY_WORDS.items() if known == code), display.words(code))


def reserved_words(reserved: int, system: int, others: int = 0) -> str:
    """Tokens kept free, and what for: ``RESERVED_TOKENS`` alone is the reply's part."""
    parts = {"reply": reserved - system - others, "system prompt": system, "others": others}
    told = ", ".join(f"{name} {display.number(tokens)}" for name, tokens in parts.items() if tokens)
    return f"{display.number(reserved)} ({told})" if system or others else display.number(reserved)


def calibration_words(factor: float) -> str:
    """The provider's tokens ÷ ours; why what is available is not the window less what is reserved."""
    shown = f"× {factor:g}"
    if factor == 1:
        return shown
    return (
        f"{shown}: what the provider counts ÷ what is counted here; available, threshold and target are divided by it"
    )
