"""The ledger: what a summary lost, word for word, at its end.

It is an extract of what the summary replaces, where the words of the summary, and of the messages that stay beside it,
are told already. It has a column of its own, and is shown under a heading; the next summary replaces it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby

from compaction_app.conf import Settings
from compaction_app.context.pruning import room_for_summary
from compaction_app.exceptions import RedactionFailed
from compaction_app.memory.extractive import read_earlier, statements_of
from compaction_app.memory.named_values import NamedValues
from compaction_app.memory.score import Told, share_kept
from compaction_app.memory.statements import Statement
from compaction_app.memory.writing import EDGE, compose
from compaction_app.messages.transcript import count_summary, largest_saving_summary, leaks_wrapper
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
#: The ledger's share of the summary's target where ``LEDGER_TOKENS`` does not say.
SHARE = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """The ledger of a summary, and the share of facts kept without and with it: 0–1, None if off."""

    ledger: str
    before: float | None
    after: float | None


def complete(
    draft: SummaryDraft, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> Kept:
    """The ledger that the plan of a draft leaves room for. Never fails a draft that was accepted.

    Everything told comes from the request, so it has passed the redactor.
    """
    prose = draft.text
    if settings.ledger_tokens == 0:
        return Kept("", None, None)
    following = following_messages(plan, settings)
    statements, values = _read(request, following)
    beside = [message.content for message in following]
    told = Told([prose, *beside])
    values.forget("\n".join([prose, *beside]))
    before = share_kept(statements, told)
    lost = _lost(statements, told, request.nonce, is_prose=not draft.is_extract)
    size = count_summary(with_ledger(prose, "\n"), count)
    room = _room(size, request, plan, budget, settings, count)
    ledger = _fit(prose, lost, values, told, size + room, room, count)
    if not ledger:
        return Kept("", before, before)
    return Kept(ledger, before, share_kept(statements, Told([prose, ledger, *beside])))


def following_messages(plan: CompactionPlan, settings: Settings) -> list[Message]:
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
    staying = [*([plan.pinned] if plan.pinned else []), *near]
    shown: list[Message] = []
    for message in staying:
        with suppress(RedactionFailed):
            shown.append(apply_redactor(message, redact))
    return shown


def read_replaced(request: SummaryRequest, following: Sequence[Message] = ()) -> list[Statement]:
    """What the summary takes the place of, and, where it was said, what stays beside it: that may correct it."""
    return _read(request, following)[0]


def _read(request: SummaryRequest, following: Sequence[Message]) -> tuple[list[Statement], NamedValues]:
    reader, values = read_earlier(
        request.previous_content, request.previous_ledger, is_extract=request.previous_is_extract
    )
    values.read(request.covered)
    staying = {message.id for message in following}
    # The pinned message was said before what its turn went on with.
    in_order = sorted([*request.covered, *following], key=lambda message: message.depth)
    for is_shown, messages in groupby(in_order, lambda message: message.id in staying):
        begun = len(reader.statements)
        reader.read_messages(list(messages))
        for one in reader.statements[begun:]:
            one.is_shown = is_shown
        if is_shown:
            # A covered sentence that joined a shown statement would be lost with it: that one is never written.
            reader.forget_last()
    return statements_of(reader), values


def _lost(statements: Sequence[Statement], told: Told, nonce: str, *, is_prose: bool) -> list[Statement]:
    """The statements that the summary leaves out and a reader would miss, and those that they need."""
    lost = []
    for one in statements:
        one.is_told = one.is_shown or told.holds(one)
        is_missed = one.words.marked or one.words.values or one.size >= _FULL_SENTENCE or one.is_rule
        # A rule that prose tells is nobody's in the next generation, unless it is quoted as well.
        if one.is_shown or (is_prose and one.is_firm) or (is_missed and not one.is_told):
            lost.append(one)
    wanted = {id(other) for one in lost for other in one.needs} | {id(one) for one in lost}
    return [one for one in statements if id(one) in wanted and not leaks_wrapper(one.text, nonce)]


def _room(
    size: int, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> int:
    """Tokens for the entries of the ledger: its budget, or what the branch's target and the saving leave.

    What the base's ledger had, it may have again, and a share it has always: a tail that is over the target for
    the moment must not cost the facts of all the time before.
    """
    share = budget.summary_target // SHARE
    wanted = share if settings.ledger_tokens is None else settings.ledger_tokens
    staying = sum(message.tokens for message in plan.kept) + (plan.pinned.tokens if plan.pinned else 0)
    carried = count([request.previous_ledger])[0] + EDGE
    heading = count([LEDGER_HEADING])[0]
    spare = max(budget.target - staying - size, carried, share - heading)
    saving = largest_saving_summary(plan.replaced_tokens, settings.min_saving_ratio) - size
    # More would leave the whole summary out of the prompt.
    shown = room_for_summary(plan.kept, plan.pinned, budget.available) - size
    return min(wanted - heading, spare, saving, shown)


def _fit(
    prose: str, lost: Sequence[Statement], values: NamedValues, told: Told, limit: int, room: int, count: Count
) -> str:
    """The ledger of ``room`` tokens at most with which the whole summary has no more than ``limit``, as one text."""
    while True:
        ledger = compose(lost, values, room, count, told=told.stems, keeps_last=False)
        over = count_summary(with_ledger(prose, ledger), count) - limit
        if not ledger or over <= 0:
            return ledger
        room -= over
