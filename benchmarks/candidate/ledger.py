"""The ledger: what a summary lost, word for word, at its end.

It is an extract of what the summary replaces, where the words of the summary, and of the messages that stay beside it,
are told already. Nothing else is kept between generations: the ledger is part of the summary's text, so it is part of
what the next one replaces.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.candidate.choosing import mark_names
from benchmarks.candidate.extractive import reader_of
from benchmarks.candidate.relating import relate
from benchmarks.candidate.score import Told, share_kept
from benchmarks.candidate.statements import Statement
from benchmarks.candidate.writing import compose, read_back
from compaction_app.conf import Settings
from compaction_app.messages.transcript import count_summary, leaks_wrapper
from compaction_app.retention.ledger import Kept, _room, _without_entries, following_messages
from compaction_app.retention.ledger_text import ledger_of, prose_of, with_ledger
from compaction_app.tokens import Count
from compaction_app.values import Budget, CompactionPlan, Message, SummaryRequest

#: Content words of a sentence without a fact that is told.
_FULL_SENTENCE = 4


def complete(
    draft: str, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> Kept:
    """The draft with the ledger that its plan leaves room for. Never fails a draft that was accepted.

    Everything told comes from the request, so it has passed the redactor.
    """
    prose = prose_of(draft)
    if settings.ledger_tokens == 0:
        return Kept(prose, None, None)
    following = following_messages(plan, settings)
    statements = read_replaced(request, following)
    beside = [message.content for message in following]
    told = Told([prose, *beside])
    before = share_kept(statements, told)
    lost = _lost(statements, told, request.nonce)
    ledger = _fit(prose, lost, told, _room(prose, request, plan, budget, settings, count), count)
    if not ledger:
        return Kept(prose, before, before)
    return Kept(with_ledger(prose, ledger), before, share_kept(statements, Told([prose, ledger, *beside])))


def read_replaced(request: SummaryRequest, following: Sequence[Message] = ()) -> list[Statement]:
    """What the summary takes the place of, and behind it what stays beside it: that may correct what was said."""
    reader = reader_of(request.previous_summary, read_back(ledger_of(request.previous_summary)))
    reader.read_messages(request.covered)
    replaced = len(reader.statements)
    reader.read_messages(following)
    for one in reader.statements[replaced:]:
        one.is_shown = True
    statements = [one for one in reader.statements if not one.is_gone]
    mark_names(statements)
    return relate(statements)


def _lost(statements: Sequence[Statement], told: Told, nonce: str) -> list[Statement]:
    """What the summary does not tell, and what may only be told together with it."""
    lost = [one for one in statements if one.is_shown or (_is_worth_it(one) and not told.holds(one))]
    wanted = {id(other) for one in lost for other in one.needs} | {id(one) for one in lost}
    return [one for one in statements if id(one) in wanted and not leaks_wrapper(one.text, nonce)]


def _is_worth_it(one: Statement) -> bool:
    """Whether it says anything that a reader would miss: a rule, a name, a value, or a full sentence."""
    return bool(one.words.marked or one.words.values or one.is_rule or one.size >= _FULL_SENTENCE)


def _fit(prose: str, lost: Sequence[Statement], told: Told, room: int, count: Count) -> str:
    """The ledger that makes the whole summary no larger than its prose and ``room``, counted as one text."""
    limit = _without_entries(prose, count) + room
    ledger = _compose(lost, told, room, count)
    while ledger and (over := count_summary(with_ledger(prose, ledger), count) - limit) > 0:
        room -= over
        ledger = _compose(lost, told, room, count)
    return ledger


def _compose(lost: Sequence[Statement], told: Told, room: int, count: Count) -> str:
    return compose(lost, room, count, told=told.stems, keeps_last=False)
