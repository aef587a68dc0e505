"""The extract of a summary, and its ledger: what of the extract the summary lost, word for word.

The extract is made of the covered messages and the base's own extract alone. Nothing that was said after the cutoff,
and nothing that a model wrote of the conversation, is read for it, so it is true on every branch that contains the
cutoff. The ledger is the choice from it that neither the summary tells nor the messages that stay beside it. Each has a
column of its own; the ledger is shown under a heading. The next summary replaces both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from compaction_app.conf import Settings
from compaction_app.context.pruning import pins_and_room
from compaction_app.exceptions import RedactionFailed
from compaction_app.memory.extractive import read_replaced
from compaction_app.memory.score import Told, share_kept
from compaction_app.memory.statements import Statement
from compaction_app.memory.writing import compose
from compaction_app.messages.transcript import count_summary, leaks_wrapper
from compaction_app.redaction import apply_redactor, redactor_of
from compaction_app.tokens import Count
from compaction_app.values import (
    LEDGER_HEADING,
    Budget,
    CompactionPlan,
    Message,
    SummaryDraft,
    SummaryRequest,
    with_ledger,
)

#: So many content words make a sentence worth keeping that has no name, number or rule: "Flights are fine too."
_FULL_SENTENCE = 2
#: So many tokens behind the cutoff are read, or as many as are covered.
_LEAST_FOLLOWING = 8_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What is stored beside a draft, and the share of facts kept without and with the ledger: 0–1, None if off."""

    extract: str
    memory: str
    ledger: str
    before: float | None
    after: float | None


def complete_draft(
    draft: SummaryDraft, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> Kept:
    """The extract of a plan, and the ledger that its draft leaves room for. Never fails a draft that was accepted.

    Everything told comes from the request, so it has passed the redactor.
    """
    prose, material = draft.text, draft.material or read_replaced(request)
    extract, state = material.extract(_extract_target(plan, budget, settings), count), material.working.state()
    if settings.ledger_tokens == 0:
        return Kept(extract, state, "", None, None)
    before = share_kept(material.statements, Told([prose]))
    beside = [message.content for message in _following_messages(plan, settings)]
    told = Told([prose, *beside])
    lost = _lost(material.of_text(extract), told, request.nonce, is_prose=not draft.is_extract)
    working, said = material.working, "\n".join([prose, *beside])
    size = count_summary(with_ledger(prose, "\n"), count)
    room = _room(prose, size, plan, budget, settings, count)
    limit, ledger = size + room, compose(lost, working, room, count, told=told.stems, said=said)
    # In one text with the prose it may have more tokens than alone.
    while ledger and (over := count_summary(with_ledger(prose, ledger), count) - limit) > 0:
        room -= over
        ledger = compose(lost, working, room, count, told=told.stems, said=said)
    after = share_kept(material.statements, Told([prose, ledger])) if ledger else before
    return Kept(extract, state, ledger, before, after)


def _following_messages(plan: CompactionPlan, settings: Settings) -> list[Message]:
    """What stays verbatim after the summary on every branch that shares it, as a model is shown it.

    What follows the anchor is unknown to some of these branches, and vouches for nothing; neither does a message
    that the redactor fails on, for no context can hold it.
    """
    redact = redactor_of(settings)
    shared = [message for message in plan.kept if message.depth <= plan.anchor_depth]
    # A history that takes many generations to catch up with would be read as a whole in each of them.
    room = max(_LEAST_FOLLOWING, sum(message.tokens for message in plan.covered))
    sizes = accumulate(message.tokens for message in shared)
    near = [message for message, size in zip(shared, sizes, strict=True) if size <= room]
    shown: list[Message] = []
    for message in [*([plan.turn_request] if plan.turn_request else []), *near]:
        with suppress(RedactionFailed):
            shown.append(apply_redactor(message, redact))
    return shown


def _lost(statements: Sequence[Statement], told: Told, nonce: str, *, is_prose: bool) -> list[Statement]:
    """The statements that the summary leaves out and a reader would miss, and those that they need."""
    lost = []
    for one in statements:
        one.is_told = told.holds(one)
        is_missed = one.words.marked or one.words.values or one.size >= _FULL_SENTENCE or one.is_rule
        # A rule that prose tells is nobody's in the next generation, unless it is quoted as well.
        if (is_prose and one.is_firm) or (is_missed and not one.is_told):
            lost.append(one)
    wanted = {id(other) for one in lost for other in one.needs} | {id(one) for one in lost}
    return [one for one in statements if id(one) in wanted and not leaks_wrapper(one.text, nonce)]


def _extract_target(plan: CompactionPlan, budget: Budget, settings: Settings) -> int:
    """The summary's target, and what ``LEDGER_TOKENS`` adds to it where the branch's target leaves room."""
    spare = min(budget.target - _staying(plan), plan.most_tokens) - plan.target_tokens
    return plan.target_tokens + max(0, min(settings.ledger_tokens or 0, spare))


def _staying(plan: CompactionPlan) -> int:
    request = plan.turn_request
    return sum(message.tokens for message in (*plan.pins, *plan.kept)) + (request.tokens if request else 0)


def _room(prose: str, size: int, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count) -> int:
    """Tokens for the entries of the ledger: those that the draft left of its target, or what ``LEDGER_TOKENS`` says,
    as far as the branch's target, the saving and the prompt leave room."""
    heading = count([LEDGER_HEADING])[0]
    wanted = plan.target_tokens - sum(count([prose])) - heading
    if settings.ledger_tokens is not None:
        wanted = min(settings.ledger_tokens - heading, max(wanted, budget.target - _staying(plan) - size))
    # More would leave the whole summary out of the prompt.
    shown = pins_and_room(plan.kept, plan.turn_request, budget.available, plan.pins)[1] - size
    return min(wanted, plan.most_tokens - size, shown)
