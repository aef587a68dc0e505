"""The ledger: what a summary lost, word for word, at its end.

Summarizers forget. After a draft is accepted, what must survive (:mod:`retention`) and stands neither in the
draft nor in what stays verbatim is written under a heading of its own, as far as the room goes. What matters most
decides what is told, the order of saying how: so the newer of two values is the last. Nothing else is kept between
generations: the ledger is part of the summary's text, so it is part of what the next summary replaces, and what that
one leaves out is lost again and comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compaction_app.conf import Settings
from compaction_app.context.pruning import room_for_summary
from compaction_app.exceptions import RedactionFailed
from compaction_app.messages.transcript import count_summary, leaks_wrapper
from compaction_app.redaction import Redact, apply_redactor, redactor_of
from compaction_app.retention.ledger_entries import Entry, line_of, read_entries
from compaction_app.retention.ledger_excerpts import read_day
from compaction_app.retention.ledger_text import LEDGER_HEADING, ledger_of, prose_of, with_ledger
from compaction_app.retention.sayings import (
    NOBODY,
    SEPARATOR,
    Saying,
    read_each_message,
    read_messages,
    read_summary,
)
from compaction_app.retention.score import Passages, survey
from compaction_app.retention.taken_back import join_taken_back
from compaction_app.tokens import Count
from compaction_app.values import Budget, CompactionPlan, Message, SummaryDraft, SummaryRequest

#: The ledger's share of the summary's target where ``LEDGER_TOKENS`` does not say.
SHARE = 5
#: Tokens of a line's end and speaker.
_LINE_TOKENS = 4
#: What is left of a full ledger is offered to so many smaller entries.
_TRIES = 64


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary's text as it is stored, and the share of what must survive that did, 0–1; None without a ledger."""

    text: str
    before: float | None
    after: float | None


def prose_draft(draft: SummaryDraft) -> SummaryDraft:
    return replace(draft, text=prose_of(draft.text))


def complete(
    draft: str, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> Kept:
    """The draft with the ledger that its plan leaves room for. Never fails a draft that was accepted.

    Everything told comes from the request, so it has passed the redactor.
    """
    prose = prose_of(draft)
    if settings.ledger_tokens == 0:
        return Kept(prose, None, None)
    following = read_messages(following_messages(plan, settings))
    needed = survey(read_replaced(request), following)
    staying = [saying.text for saying in following]
    passages = Passages([prose, *staying])
    lost = {key: need for key, need in needed.keys.items() if not passages.holds(need)}
    before = 1 - len(lost) / len(needed.keys) if needed.keys else 1.0
    entries = read_entries(needed.clauses, lost, prose, lambda form: not leaks_wrapper(form, request.nonce))
    ledger = _fit(prose, entries, _room(prose, request, plan, budget, settings, count), count)
    if not ledger:
        return Kept(prose, before, before)
    return Kept(with_ledger(prose, ledger), before, needed.share_held(Passages([prose, ledger, *staying])))


def following_messages(plan: CompactionPlan, settings: Settings) -> list[Message]:
    """What stays verbatim after the summary on every branch that shares it, as a model is shown it.

    What follows the anchor is unknown to some of these branches, and vouches for nothing; neither does a message
    that the redactor fails on, for no context can hold it.
    """
    redact = redactor_of(settings)
    shared = [message for message in plan.kept if message.depth <= plan.anchor_depth]
    staying = [*([plan.pinned] if plan.pinned else []), *shared]
    return [shown for message in staying if (shown := _as_shown(message, redact)) is not None]


def _as_shown(message: Message, redact: Redact | None) -> Message | None:
    try:
        return apply_redactor(message, redact)
    except RedactionFailed:
        return None


def read_replaced(request: SummaryRequest) -> list[Saying]:
    """What the summary takes the place of: the previous one's prose before its ledger, which is never older."""
    text = request.previous_summary
    said = join_taken_back(read_each_message(request.covered), _said_next(request))
    return [*read_summary(prose_of(text)), *read_ledger(text), *said]


def _said_next(request: SummaryRequest) -> list[Saying]:
    """What the message right behind the covered ones says: it may accept what the last of them proposes."""
    if not request.covered:
        return []
    depth = request.covered[-1].depth + 1
    return read_messages([message for message in request.lookahead[:1] if message.depth == depth])


def read_ledger(text: str) -> list[Saying]:
    """What a summary's ledger tells, with the day of what would be undated without it."""
    told = [(saying, *read_day(saying.text)) for saying in read_summary(ledger_of(text))]
    return [saying._replace(text=words, day=day) for saying, words, day in told]


def _room(
    prose: str, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> int:
    """Tokens for the entries of the ledger: its budget, or what the branch's target and the saving leave.

    What the base's ledger had, it may have again, and a share it has always: a tail that is over the target for
    the moment must not cost the facts of all the time before.
    """
    share = budget.summary_target // SHARE
    wanted = share if settings.ledger_tokens is None else settings.ledger_tokens
    size = _without_entries(prose, count)
    staying = sum(message.tokens for message in plan.kept) + (plan.pinned.tokens if plan.pinned else 0)
    carried = count([ledger_of(request.previous_summary)])[0]
    heading = count([LEDGER_HEADING])[0]
    spare = max(budget.target - staying - size, carried, share - heading)
    saving = int((1 - settings.min_saving_ratio) * plan.replaced_tokens) - size
    # More would leave the whole summary out of the prompt.
    shown = room_for_summary(plan.kept, plan.pinned, budget.available) - size
    return min(wanted - heading, spare, saving, shown)


def _fit(prose: str, entries: Sequence[Entry], room: int, count: Count) -> str:
    """The ledger that makes the whole summary no larger than its prose and ``room``, counted as one text."""
    limit = _without_entries(prose, count) + room
    ledger = _write(entries, room, count)
    while ledger and (over := count_summary(with_ledger(prose, ledger), count) - limit) > 0:
        room -= over
        ledger = _write(entries, room, count)
    return ledger


def _without_entries(prose: str, count: Count) -> int:
    return count_summary(with_ledger(prose, "\n"), count)


def _write(entries: Sequence[Entry], room: int, count: Count) -> str:
    """As many entries as fit, longer forms where there is room for all."""
    if room <= 0 or not entries:
        return ""
    costs = iter(count([form + SEPARATOR for entry in entries for form in entry.forms]))
    priced = [[next(costs) for _ in entry.forms] for entry in entries]
    shortest = [sizes.index(min(sizes)) for sizes in priced]
    chosen = _choose(entries, priced, shortest, room)
    while chosen and count([_render(entries, chosen)])[0] > room:
        chosen.popitem()
        chosen = _complete(entries, chosen)
    _lengthen(entries, priced, chosen, room, count)
    return _render(entries, chosen)


def _choose(
    entries: Sequence[Entry], priced: Sequence[Sequence[int]], shortest: Sequence[int], room: int
) -> dict[int, int]:
    """Entry → form: firm ones first, then the most told for each token, in the shortest form, until the room is full.

    What may only be told together is chosen together, the newer first: whoever takes the last ones out again takes the
    older ones first.
    """
    at = {entry.place: i for i, entry in enumerate(entries)}
    told = [i for i, entry in enumerate(entries) if entry.weight]
    order = sorted(told, key=lambda i: (-entries[i].firm, -entries[i].weight / (priced[i][shortest[i]] + 2), -i))
    chosen: dict[int, int] = {}
    speakers: dict[str, None] = {}
    for i in order:
        together = _together(entries, at, i)
        new = [k for k in reversed(together) if k not in chosen]
        if not new:
            continue
        lines = dict.fromkeys(entries[k].speaker for k in new if entries[k].speaker not in speakers)
        cost = sum(priced[k][shortest[k]] for k in new) + _LINE_TOKENS * len(lines)
        if cost <= room:
            room -= cost
            speakers |= lines
            chosen |= {k: shortest[k] for k in new}
    return chosen


def _together(entries: Sequence[Entry], at: Mapping[tuple[int, int], int], i: int) -> list[int]:
    """An entry and all without which it would mislead; nothing where one of them can not be told."""
    together = [i]
    for k in together:
        if any(place not in at for place in entries[k].needs):
            return []
        together += [at[place] for place in entries[k].needs if at[place] not in together]
    return together


def _complete(entries: Sequence[Entry], chosen: dict[int, int]) -> dict[int, int]:
    """What is chosen without the entries that would mislead without one that is not."""
    while True:
        places = {entries[i].place for i in chosen}
        kept = {i: form for i, form in chosen.items() if all(place in places for place in entries[i].needs)}
        if len(kept) == len(chosen):
            return kept
        chosen = kept


def _lengthen(
    entries: Sequence[Entry], priced: Sequence[Sequence[int]], chosen: dict[int, int], room: int, count: Count
) -> None:
    """Longer forms of what is chosen, the most important first, while there is room."""
    size, tries = count([_render(entries, chosen)])[0] if chosen else 0, _TRIES
    for i in sorted(chosen, key=lambda i: (-entries[i].firm, -entries[i].weight, -i)):
        if not tries:
            return
        form = next((form for form in range(chosen[i]) if size + priced[i][form] - priced[i][chosen[i]] <= room), None)
        if form is None or _tells_other(entries, chosen, i, form):
            continue
        tries -= 1
        longer = count([_render(entries, {**chosen, i: form})])[0]
        if longer <= room:
            chosen[i], size = form, longer


def _tells_other(entries: Sequence[Entry], chosen: Mapping[int, int], i: int, form: int) -> bool:
    """Whether a longer form would repeat what another entry of its clause tells."""
    longer = entries[i].forms[form]
    beside = (k for k in (i - 1, i + 1) if k in chosen and entries[k].place[0] == entries[i].place[0])
    return any(entries[k].forms[chosen[k]] in longer or longer in entries[k].forms[chosen[k]] for k in beside)


def _render(entries: Sequence[Entry], chosen: dict[int, int]) -> str:
    """A line for each speaker, people first; on each, the order in which it was said."""
    lines: dict[str, list[str]] = {}
    for i in sorted(chosen, key=lambda i: (line_of(entries[i].speaker), i)):
        lines.setdefault(entries[i].speaker, []).append(entries[i].forms[chosen[i]])
    return "\n".join(
        f"{speaker}: {SEPARATOR.join(told)}" if speaker != NOBODY else SEPARATOR.join(told)
        for speaker, told in lines.items()
    )


__all__ = ["Kept", "complete", "ledger_of", "prose_draft", "prose_of"]
