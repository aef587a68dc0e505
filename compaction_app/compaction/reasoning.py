"""Which rule the reasoning of each turn went by in a compaction. Pure.

Reasoning is verbatim inside the tail, enters the summarizer's prompt as ordinary text or is dropped before the
cutoff, and may have been taken out of what the model saw by the provider itself. A turn that the cutoff parts is
counted on either side, because its reasoning went by two rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_app.conf import ReasoningRule
from compaction_app.messages.transcript import reasoning_text
from compaction_app.values import CompactionPlan, Message, ReasoningOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Downgrade:
    """Reasoning that became ordinary text in the material of a summary."""

    turns: int
    messages: int


def turns_by_rule(plan: CompactionPlan, *, as_text: bool, cleared_turns: int = 0) -> dict[str, int]:
    """Turns that hold reasoning, counted by rule.

    ``as_text``: the summarizer was shown it. ``cleared_turns``: how many the provider says that it cleared from
    the last prompt; it clears the oldest first.
    """
    covered = list(_turns_with_reasoning(plan.covered))
    kept = len(list(_turns_with_reasoning(plan.kept)))
    summarized = sum(as_text and any(map(_is_readable, turn)) for turn in covered)
    cleared = min(cleared_turns, kept)
    return {
        str(ReasoningOutcome.VERBATIM): kept - cleared,
        str(ReasoningOutcome.SUMMARIZED): summarized,
        str(ReasoningOutcome.DROPPED): len(covered) - summarized,
        str(ReasoningOutcome.CLEARED_BY_PROVIDER): cleared,
    }


def downgrade_of(plan: CompactionPlan, *, as_text: bool) -> Downgrade | None:
    """None where no reasoning became text."""
    turns = [turn for turn in _turns_with_reasoning(plan.covered) if any(map(_is_readable, turn))]
    if not as_text or not turns:
        return None
    return Downgrade(turns=len(turns), messages=sum(map(_is_readable, plan.covered)))


def is_shown_as_text(rule: str, summarizer: Any) -> bool:
    """Whether reasoning reaches this summarizer; one that works without it says so by ``reads_reasoning``."""
    return rule == ReasoningRule.SUMMARIZE and getattr(summarizer, "reads_reasoning", True)


def _turns_with_reasoning(messages: Sequence[Message]) -> Iterable[list[Message]]:
    turn: list[Message] = []
    for message in messages:
        if message.starts_turn:
            if any(m.reasoning for m in turn):
                yield turn
            turn = []
        turn.append(message)
    if any(m.reasoning for m in turn):
        yield turn


def _is_readable(message: Message) -> bool:
    """Encrypted and redacted blocks have no text that could enter a prompt."""
    return bool(message.reasoning) and bool(reasoning_text(message.reasoning))
