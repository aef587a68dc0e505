"""The ledger: what a summary lost, word for word, at its end.

Summarizers forget. After a draft is accepted, what must survive (:mod:`retention`) and stands neither in the
draft nor in what stays verbatim is written under a heading of its own, most important first, as far as the
room goes. Nothing else is kept between generations: the ledger is part of the summary's text, so it is part
of what the next summary replaces, and what that one leaves out is lost again and comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from compaction_app import facts, meaning
from compaction_app.conf import Settings
from compaction_app.exceptions import RedactionFailed
from compaction_app.fact_spans import FactKind
from compaction_app.ledger_text import LEDGER_HEADING, ledger_of, prose_of, with_ledger
from compaction_app.needs import Clause, Need, is_advice
from compaction_app.prompts import count_summary, leaks_wrapper
from compaction_app.redaction import Redact, guarded_redactor_of, redact_message
from compaction_app.retention import Passages, repeats, survey
from compaction_app.sayings import NOBODY, SEPARATOR, Saying, read_messages, read_summary
from compaction_app.tokens import Count
from compaction_app.transcript import defuse
from compaction_app.values import Budget, CompactionPlan, Message, Role, SummaryDraft, SummaryRequest

#: The ledger's share of the summary's target where ``LEDGER_TOKENS`` does not say.
SHARE = 5

#: How much a thing counts that must survive. Rules of people first.
_STATEMENT, _ADVICE = 4.0, 3.0
_WEIGHTS: dict[FactKind, float] = {
    FactKind.URL: 3.0,
    FactKind.PATH: 2.5,
    FactKind.CODE: 3.0,
    FactKind.DATE: 2.0,
    FactKind.NAME: 2.5,
    FactKind.QUOTE: 2.0,
    FactKind.NUMBER: 2.0,
}
#: A figure with what bounds it is nearly a rule; a single capital is often no name, and a bare file one of a list.
_BOUND, _SINGLE_NAME, _BARE_FILE = 3.0, 1.5, 1.0
#: A model numbers and counts a lot: a figure of one or two digits that it wrote tells little.
_SMALL_FIGURE, _TELLING_DIGITS = 1.2, 3
#: People say what must be remembered, models explain, tools dump.
_SCALES: dict[str, float] = {Role.ASSISTANT: 0.5, Role.TOOL: 0.5}
#: … and of one thing that they said, so many facts count: a table has dozens.
_COUNTED = 3
#: Whoever knows the old value and not the new one is misled, so changes come first.
_NEWER = 2.0
#: Words around a fact that say what it is about: before and after it, in the long and in the short form.
_AROUND = ((6, 3), (2, 1), (1, 0))
#: A clause of at most so many characters is told whole where there is room.
_WHOLE_CHARS = 90
#: Facts closer than this are told in one excerpt.
_GAP_CHARS = 25
#: … unless they stand so far from the first that the excerpt would be the text: a log without punctuation.
_GROUP_CHARS = 120
#: … and one in which a word turns the others round.
_TURNED_CHARS = 100
#: A clause of at most so many characters in a language whose small words are not known is told whole.
_FOREIGN_CHARS = 240
#: An excerpt of a text without spaces takes so many characters on each side.
_UNSPACED_CHARS = 30
#: Tokens of a line's end and speaker.
_LINE_TOKENS = 4
#: What is left of a full ledger is offered to so many smaller entries.
_TRIES = 64


_WORD = re.compile(r"\S+")
_PAUSE = re.compile(r"[,;:.!?)、，；：。](?:\s+|\Z)|[、，；：。]")


class Entry(NamedTuple):
    role: str
    #: Excerpts of the clause, the longest first.
    forms: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary's text as it is stored, and the share of what must survive that did, 0–1."""

    text: str
    before: float
    after: float


def prose_draft(draft: SummaryDraft) -> SummaryDraft:
    return replace(draft, text=prose_of(draft.text))


def complete(
    draft: str, request: SummaryRequest, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> Kept:
    """The draft with the ledger that its plan leaves room for. Never fails a draft that was accepted.

    Everything told comes from the request, so it has passed the redactor.
    """
    prose = prose_of(draft)
    following = read_messages(following_messages(plan, settings))
    needed = survey(read_replaced(request), following)
    staying = [saying.text for saying in following]
    passages = Passages([prose, *staying])
    lost = {key: need for key, need in needed.keys.items() if not passages.holds(need)}
    before = 1 - len(lost) / len(needed.keys) if needed.keys else 1.0
    safe = [
        entry
        for entry in _entries(needed.clauses, lost)
        if not any(leaks_wrapper(form, request.nonce) for form in entry.forms)
    ]
    ledger = _fit(prose, safe, _room(prose, request, plan, budget, settings, count), count)
    if not ledger:
        return Kept(prose, before, before)
    return Kept(with_ledger(prose, ledger), before, needed.share_held(Passages([prose, ledger, *staying])))


def following_messages(plan: CompactionPlan, settings: Settings) -> list[Message]:
    """What stays verbatim after the summary on every branch that shares it, as a model is shown it.

    What follows the anchor is unknown to some of these branches, and vouches for nothing; neither does a message
    that the redactor fails on, for no context can hold it.
    """
    redact = guarded_redactor_of(settings)
    shared = [message for message in plan.kept if message.depth <= plan.anchor_depth]
    staying = [*([plan.pinned] if plan.pinned else []), *shared]
    return [shown for message in staying if (shown := _as_shown(message, redact)) is not None]


def _as_shown(message: Message, redact: Redact | None) -> Message | None:
    try:
        return redact_message(message, redact)
    except RedactionFailed:
        return None


def read_replaced(request: SummaryRequest) -> list[Saying]:
    """What the summary takes the place of: the previous one's prose before its ledger, which is never older."""
    text = request.previous_summary
    return [*read_summary(prose_of(text)), *read_summary(ledger_of(text)), *read_messages(request.covered)]


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
    return min(wanted - heading, spare, saving)


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


def _entries(clauses: Sequence[Clause], lost: dict[str, Need]) -> list[Entry]:
    """An excerpt for everything lost, the most important first; what is told once is told."""
    ranked = sorted(range(len(clauses)), key=lambda i: (-_weight(clauses[i], lost), -i))
    told: dict[str, None] = {}
    stated: list[Need] = []
    entries: list[Entry] = []
    for i in ranked:
        needs = [need for need in clauses[i].needs if need.key in lost and need.key not in told]
        needs = [need for need in needs if need.fact or not any(repeats(need, other) for other in stated)]
        if needs:
            told.update(dict.fromkeys(need.key for need in needs))
            stated += [need for need in needs if need.fact is None]
            entries += _excerpts(clauses[i], needs)
    return sorted(entries, key=lambda entry: -entry.weight)


def _weight(clause: Clause, keys: dict[str, Need]) -> float:
    return _told([need for need in clause.needs if need.key in keys], clause)


def _told(needs: Sequence[Need], clause: Clause) -> float:
    """What telling these things of a clause is worth."""
    scale = _SCALES.get(clause.saying.role)
    weights = sorted((_need_weight(need, clause) for need in needs), reverse=True)
    total = sum(weights) if scale is None else scale * sum(weights[:_COUNTED])
    return total * (_NEWER if clause.newer else 1.0)


def _need_weight(need: Need, clause: Clause) -> float:
    if need.fact is None:
        return _ADVICE if is_advice(clause.saying) else _STATEMENT
    kind, key = need.fact.kind, need.fact.key
    if need.fact.is_bound:
        return _BOUND
    if kind is FactKind.NAME and " " not in key:
        return _SINGLE_NAME
    if kind is FactKind.PATH and "/" not in key:
        return _BARE_FILE
    if kind is FactKind.NUMBER and clause.saying.role in _SCALES and sum(map(str.isdigit, key)) < _TELLING_DIGITS:
        return _SMALL_FIGURE
    return _WEIGHTS[kind]


def _excerpts(clause: Clause, needs: Sequence[Need]) -> Iterator[Entry]:
    """One entry for each group of facts that stand close to each other."""
    groups: list[list[Need]] = []
    for need in sorted(needs, key=lambda need: need.start):
        is_near = groups and need.start - max(other.end for other in groups[-1]) <= _GAP_CHARS
        if is_near and need.end - groups[-1][0].start <= _GROUP_CHARS:
            groups[-1].append(need)
        else:
            groups.append([need])
    text = clause.saying.text
    for group in _apart(text, groups):
        start, end = group[0].start, max(need.end for need in group)
        spans = [_excerpt_span(text, start, end, before, after) for before, after in _AROUND]
        forms = [text[left:right] for left, right in (_with_meaning(text, *span) for span in spans)]
        if clause.saying.role != Role.TOOL and len(text) <= _FOREIGN_CHARS and not _is_understood(text):
            forms = [text]
        if len(text) <= _WHOLE_CHARS:
            forms.insert(0, text)
        clean = dict.fromkeys(filter(None, (_as_entry(form) for form in forms)))
        yield Entry(clause.saying.role, tuple(clean), _told(group, clause))


def _as_entry(excerpt: str) -> str:
    """Quoted so that it closes nothing, and is read back neither as two nor as a heading."""
    return defuse(excerpt.replace(SEPARATOR, " - ").strip(" \t\n,;:，、；：").lstrip("# "))


def _apart(text: str, groups: Sequence[list[Need]]) -> list[list[Need]]:
    """The groups, or all of them as one where each would tell the whole text."""
    if len(text) > _TURNED_CHARS or not _turns_round(text):
        return list(groups)
    return [[need for group in groups for need in group]]


def _with_meaning(text: str, start: int, end: int) -> tuple[int, int]:
    """The span grown to whole brackets and quotations, and over each part beside it, up to a pause, that could turn
    it round: "it carries 3 tons" says something else where "nobody believes that" stands before it."""
    start, end = meaning.reach(text, start, end)
    if not _turns_round(text):
        return start, end
    if len(text) <= _TURNED_CHARS:
        return 0, len(text)
    parts = _parts(text)
    first = next((i for i, (_, right) in enumerate(parts) if right > start), 0)
    last = next((i for i, (_, right) in enumerate(parts) if right >= end), len(parts) - 1)
    turning = [_turns_round(text[left:right]) for left, right in parts]
    while first and turning[first - 1]:
        first -= 1
    # An object may follow its negation after a pause: "never, whatever happens, the red one".
    while last + 1 < len(parts) and (turning[last + 1] or turning[last]):
        last += 1
    if any(turning[first : last + 1]):
        start, end = min(start, parts[first][0]), max(end, parts[last][1])
    return start, end


def _turns_round(text: str) -> bool:
    return meaning.turns_round(text, [facts.weigh(token).norm for token in text.split()])


def _is_understood(text: str) -> bool:
    return meaning.is_understood(text, [facts.weigh(token).norm for token in text.split()])


def _parts(text: str) -> list[tuple[int, int]]:
    """From pause to pause, none of them inside a bracket or a quotation."""
    spans = meaning.enclosed(text)[0]
    ends = [match.end() for match in _PAUSE.finditer(text)]
    ends = [end for end in ends if not any(left < end < right for left, right in spans)]
    bounds = [0, *ends, len(text)]
    return [(left, right) for left, right in pairwise(bounds) if left < right] or [(0, len(text))]


def _without_loose_end(text: str, end: int, right: int) -> int:
    """Where an excerpt may end at ``right`` or before it: not between "at" and what is there."""
    if right >= len(text) or _pauses(text[end:right]):
        return right
    words = [(match.start() + end, match.group()) for match in _WORD.finditer(text[end:right])]
    small = [facts.weigh(word).strength == facts.FUNCTION for _, word in words]
    if True not in small:
        return right
    first = len(small) - 1 - small[::-1].index(True)
    while first and small[first - 1]:
        first -= 1
    return end + len(text[end : words[first][0]].rstrip())


def _excerpt_span(text: str, start: int, end: int, before: int, after: int) -> tuple[int, int]:
    """From some telling words before ``start`` to some after ``end``, at word ends."""
    left, right = start, end
    while left > 0 and before >= 0:
        cut = text.rfind(" ", 0, left - 1) + 1
        if left - cut > _UNSPACED_CHARS:
            left = max(left - _UNSPACED_CHARS, 0) if left == start else left
            break
        if left < start and _pauses(text[cut:left]):
            break
        before -= facts.weigh(text[cut:left]).strength >= facts.CONTENT
        if before >= 0:
            left = cut
    while right < len(text) and after >= 0:
        cut = text.find(" ", right + 1)
        cut = len(text) if cut < 0 else cut
        if cut - right > _UNSPACED_CHARS:
            right = min(right + _UNSPACED_CHARS, len(text)) if right == end else right
            break
        after -= facts.weigh(text[right:cut]).strength >= facts.CONTENT
        if after >= 0:
            right = cut
        if _pauses(text[right:cut]):
            break
    return left, _without_loose_end(text, end, right)


def _pauses(token: str) -> bool:
    return token.rstrip().endswith((",", ";", ":", ".", "!", "?", ")"))


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
    _lengthen(entries, priced, chosen, room, count)
    return _render(entries, chosen)


def _choose(
    entries: Sequence[Entry], priced: Sequence[Sequence[int]], shortest: Sequence[int], room: int
) -> dict[int, int]:
    """Entry → form: the most told for each token, in the shortest form, until the room is full."""
    order = sorted(range(len(entries)), key=lambda i: (-entries[i].weight / (priced[i][shortest[i]] + 2), i))
    chosen: dict[int, int] = {}
    roles: dict[str, None] = {}
    for i in order:
        cost = priced[i][shortest[i]] + (0 if entries[i].role in roles else _LINE_TOKENS)
        if cost <= room:
            room -= cost
            roles[entries[i].role] = None
            chosen[i] = shortest[i]
    return chosen


def _lengthen(
    entries: Sequence[Entry], priced: Sequence[Sequence[int]], chosen: dict[int, int], room: int, count: Count
) -> None:
    """Longer forms of what is chosen, the most important first, while there is room."""
    size, tries = count([_render(entries, chosen)])[0] if chosen else 0, _TRIES
    for i in sorted(chosen):
        if not tries:
            return
        form = next((form for form in range(chosen[i]) if size + priced[i][form] - priced[i][chosen[i]] <= room), None)
        if form is None:
            continue
        tries -= 1
        longer = count([_render(entries, {**chosen, i: form})])[0]
        if longer <= room:
            chosen[i], size = form, longer


def _render(entries: Sequence[Entry], chosen: dict[int, int]) -> str:
    """A line for each speaker, the one with the most important entry first."""
    lines: dict[str, list[str]] = {}
    for i in sorted(chosen):
        lines.setdefault(entries[i].role, []).append(entries[i].forms[chosen[i]])
    return "\n".join(
        f"{role}: {SEPARATOR.join(told)}" if role != NOBODY else SEPARATOR.join(told) for role, told in lines.items()
    )


__all__ = ["Kept", "complete", "ledger_of", "prose_draft", "prose_of"]
