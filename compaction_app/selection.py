"""Filling a budget with clauses: which stay, in which form, and the text they make.

Every clause offers moves: its shortest form costs some tokens and tells something, each longer form costs and
tells a little more. Moves are made in the order of what they tell per token, rules and decisions first, until
the text is as large as it may be. The text is counted as a whole, so the target is kept exactly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from compaction_app.clauses import LEVELS, SEPARATOR, Clause, clip
from compaction_app.facts import CONTENT, TELLING
from compaction_app.superseding import Statement
from compaction_app.tokens import Count

_DAY = r"\d{4}-\d{2}-\d{2}"
_TO = " to "
_DAYS = re.compile(f"{_DAY}(?:{_TO}{_DAY})?")
#: Of the target, what headings may take.
_HEADING_SHARE = 0.1
#: A target below this has no room for headings.
HEADING_TOKENS = 60
#: Drafts below this are refused (``MIN_SUMMARY_CHARS``); a tiny target is filled to it where it can be.
FEWEST_CHARS = 30
#: About what a speaker and a line end add for a new unit, shared with its neighbours.
_OWN_LINE, _OTHER_LINE = 2, 5
#: The numbers of a table tell less than those of a sentence: further ones of a clause count only so much.
_TELLING_WORDS = 8
_CROWDED_TELLING = 0.25
#: A conversation is looked at in so many parts when words are credited to who told them first.
_PARTS = 16
#: How many further moves are tried for the room that the best ones leave.
_TRIES = 48


@dataclass(slots=True)
class Unit:
    """A clause with who said it, when, and how much its words count."""

    heading: str
    speaker: str
    clause: Clause
    scale: float
    #: A rule, decision or preference: it is placed before anything else.
    first: bool = False
    #: What it says plainly, if a later one may replace it.
    statement: Statement | None = None


class _Point(NamedTuple):
    """A form of a clause: what it costs and what it tells."""

    level: int
    cost: int
    told: float


class _Move(NamedTuple):
    unit: int
    #: The form before, None if the unit is not in the text yet.
    before: int | None
    after: int
    cost: int
    #: Position in the order of moves; smaller is earlier.
    key: tuple[int, float, int]


@dataclass(slots=True)
class _Page:
    """The text that is being filled: what it may hold, and how it is laid out."""

    units: Sequence[Unit]
    target: int
    count: Count
    #: Indices of the units that begin a new span of days; None for a heading a day.
    spans: list[int] | None = None

    def size(self, chosen: Mapping[int, int]) -> int:
        return self.count([self.render(chosen)])[0] if chosen else 0

    def render(self, chosen: Mapping[int, int]) -> str:
        """Markdown: a heading a day, a line for each run of one speaker."""
        kept = sorted(chosen)
        headings = self._headings(kept) if self.target >= HEADING_TOKENS else [""] * len(kept)
        lines: list[str] = []
        heading = speaker = None
        for i, above in zip(kept, headings, strict=True):
            unit = self.units[i]
            text = unit.clause.shortened(chosen[i])
            if above != heading:
                heading, speaker = above, None
                lines += [f"## {heading}"] if heading else []
            if unit.speaker == speaker:
                lines[-1] += SEPARATOR + text
            else:
                speaker = unit.speaker
                lines.append(f"{speaker}: {text}" if speaker else text)
        return "\n".join(lines)

    def join_days(self, chosen: Mapping[int, int]) -> bool:
        """Put several days under one heading where headings take too much of the target; whether it did."""
        kept = sorted(chosen)
        used = list(dict.fromkeys(self.units[i].heading for i in kept))
        *sizes, span = self.count([*(f"## {heading}\n" for heading in used), f"## 2000-01-01{_TO}2000-01-02\n"])
        groups = max(int(_HEADING_SHARE * self.target / span), 1)
        if self.target < HEADING_TOKENS or sum(sizes) <= _HEADING_SHARE * self.target or groups >= len(used):
            return False
        self.spans = [kept[group * len(kept) // groups] for group in range(1, groups)]
        return True

    def _headings(self, kept: Sequence[int]) -> list[str]:
        """The heading of each unit: its own, or the span from the first to the last day of its part."""
        own = [self.units[i].heading for i in kept]
        if self.spans is None:
            return own
        parts = [bisect_right(self.spans, i) for i in kept]
        days: dict[int, list[str]] = {}
        for part, heading in zip(parts, own, strict=True):
            if _DAYS.fullmatch(heading):
                days.setdefault(part, []).extend(heading.split(_TO))
        return [
            _span(days[part]) if _DAYS.fullmatch(heading) else heading for part, heading in zip(parts, own, strict=True)
        ]


def fill(units: Sequence[Unit], *, target: int, count: Count, needs: Mapping[int, int]) -> str:
    """The text of the best forms of ``units`` in at most ``target`` tokens.

    ``needs`` maps a unit to another without which it would mislead.
    """
    page = _Page(units, target, count)
    moves = _order(_moves(units, count), needs)
    chosen = _largest_prefix(page, moves)
    if page.join_days(chosen):
        chosen = _largest_prefix(page, moves)
    _use_room(page, moves, chosen, needs)
    text = page.render(chosen)
    return _squeeze(page, moves, text) if len(text) < FEWEST_CHARS and moves else text


def _span(days: Sequence[str]) -> str:
    first, last = min(days), max(days)
    return first if first == last else f"{first}{_TO}{last}"


def _moves(units: Sequence[Unit], count: Count) -> list[_Move]:
    forms = [_forms(unit.clause) for unit in units]
    costs = iter(count([text for offered in forms for _, text in offered]))
    priced = [[(level, next(costs) + 1) for level, _ in offered] for offered in forms]
    told = _told(units, priced)
    moves: list[_Move] = []
    for i, offered in enumerate(priced):
        points: list[_Point] = []
        for level, cost in offered:
            # More words for no more tokens: the shorter form has no use.
            while points and points[-1].cost >= cost:
                points.pop()
            points.append(_Point(level, cost, told[i][level]))
        moves += _unit_moves(i, units[i], points)
    return moves


def _forms(clause: Clause) -> list[tuple[int, str]]:
    """The distinct forms of a clause, shortest first."""
    if clause.whole:
        return [(0, clause.text)]
    forms: list[tuple[int, str]] = []
    for level in range(clause.strongest, -1, -1):
        text = clause.shortened(level)
        if text and (not forms or text != forms[-1][1]):
            forms.append((level, text))
    return forms


def _told(units: Sequence[Unit], priced: Sequence[Sequence[tuple[int, int]]]) -> list[list[float]]:
    """For each unit and level what the form tells, each word less the more often it was told before."""
    seen: dict[str, int] = {}
    told: list[list[float]] = [[] for _ in units]
    for i in _best_of_each_part([_density(unit, offered) for unit, offered in zip(units, priced, strict=True)]):
        unit = units[i]
        by_strength = [0.0] * len(LEVELS)
        telling = 0
        for word, strength in zip(unit.clause.words, unit.clause.strengths, strict=True):
            weight = word.weight
            if word.strength >= CONTENT:
                times = seen.get(word.norm, 0)
                seen[word.norm] = times + 1
                weight /= 1 + times
            if strength == TELLING:
                telling += 1
                weight *= 1.0 if telling <= _TELLING_WORDS else _CROWDED_TELLING
            by_strength[strength] += weight
        told[i] = [unit.scale * total for total in reversed(list(accumulate(reversed(by_strength))))]
    return told


def _best_of_each_part(densities: Sequence[float]) -> list[int]:
    """All units: the best of each part of the conversation, then the second best of each, and so on. Who tells
    a word first has the credit for it, and no part is to have it all."""
    size = len(densities) // _PARTS + 1
    ranked: list[tuple[int, int]] = []
    for start in range(0, len(densities), size):
        part = sorted(range(start, min(start + size, len(densities))), key=lambda i: (-densities[i], i))
        ranked += [(rank, i) for rank, i in enumerate(part)]
    return [i for _, i in sorted(ranked)]


def _density(unit: Unit, offered: Sequence[tuple[int, int]]) -> float:
    """What the shortest form tells per token if nothing else were told."""
    if not offered:
        return 0.0
    level, cost = offered[0]
    weights = zip(unit.clause.words, unit.clause.strengths, strict=True)
    return unit.scale * (unit.first + sum(word.weight for word, strength in weights if strength >= level)) / cost


def _unit_moves(i: int, unit: Unit, points: Sequence[_Point]) -> list[_Move]:
    """From nothing to the shortest form to the longest, each step telling no more per token than the one
    before."""
    # The line around a new unit is not free, and another speaker breaks the user's line in two.
    overhead = _OWN_LINE if unit.speaker.startswith("user") or not unit.speaker else _OTHER_LINE
    moves: list[_Move] = []
    before: int | None = None
    spent = 0
    steps = iter(_hull(_Point(-1, -overhead, 0.0), points))
    end, rate = 0, 0.0
    for level, cost, _ in points:
        while end < cost:
            end, rate = next(steps)
        first = unit.first and before is None
        moves.append(_Move(i, before, level, cost - spent, (0 if first else 1, -rate, i)))
        before, spent = level, cost
    return moves


def _hull(start: _Point, points: Sequence[_Point]) -> list[tuple[int, float]]:
    """(cost, value per token) of the steps along the upper hull: a form that tells little for its cost has
    the rate of the longer form that it is a step to."""
    corners = [start]
    for point in points:
        while len(corners) > 1 and _rate(corners[-2], corners[-1]) <= _rate(corners[-1], point):
            corners.pop()
        corners.append(point)
    return [(after.cost, _rate(before, after)) for before, after in pairwise(corners)]


def _rate(before: _Point, after: _Point) -> float:
    return (after.told - before.told) / (after.cost - before.cost)


def _order(moves: Iterable[_Move], needs: Mapping[int, int]) -> list[_Move]:
    """Moves in order, a unit that another needs before that one."""
    keys = {move.unit: move.key for move in moves if move.before is None}
    for older in sorted(needs):
        newer = needs[older]
        if older in keys and newer in keys and keys[newer] > keys[older]:
            keys[newer] = (*keys[older][:2], -1)
    return sorted(
        moves, key=lambda move: (keys[move.unit] if move.before is None else move.key, move.unit, -move.after)
    )


def _largest_prefix(page: _Page, moves: Sequence[_Move]) -> dict[int, int]:
    """The forms after as many of the first moves as the target allows, counted exactly."""
    # Joined text is hardly smaller than the sum of its parts, so what is far over need not be rendered.
    costs = accumulate(move.cost for move in moves)
    high = next((k for k, total in enumerate(costs) if total > 1.25 * page.target + 40), len(moves))
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if page.size(_after(moves[:middle])) <= page.target:
            low = middle
        else:
            high = middle - 1
    return _after(moves[:low])


def _after(moves: Iterable[_Move]) -> dict[int, int]:
    return {move.unit: move.after for move in moves}


def _use_room(page: _Page, moves: Sequence[_Move], chosen: dict[int, int], needs: Mapping[int, int]) -> None:
    """Spend what the first move that did not fit has left over on smaller ones behind it."""
    room = page.target - page.size(chosen)
    tries = _TRIES
    for move in moves:
        if room < 2 or not tries:
            return
        if chosen.get(move.unit) != move.before or move.cost > room:
            continue
        if move.unit in needs and needs[move.unit] not in chosen:
            continue
        tries -= 1
        size = page.size({**chosen, move.unit: move.after})
        if size <= page.target:
            chosen[move.unit] = move.after
            room = page.target - size


def _squeeze(page: _Page, moves: Sequence[_Move], text: str) -> str:
    """A target so small that not one clause fits: the head and tail of the most important one."""
    unit = page.units[moves[0].unit]
    prefix = f"{unit.speaker}: " if unit.speaker else ""
    candidates = [text, page.render({moves[0].unit: 0})]
    for full in (prefix + unit.clause.text, unit.clause.text):
        low, high = 0, len(full)
        while low < high:
            middle = (low + high + 1) // 2
            fits = page.count([clip(full, middle)])[0] <= page.target
            low, high = (middle, high) if fits else (low, middle - 1)
        candidates.append(clip(full, low))
    sizes = page.count(candidates)
    fitting = [text for text, size in zip(candidates, sizes, strict=True) if size <= page.target]
    return next((text for text in fitting if len(text) >= FEWEST_CHARS), max(fitting, key=len, default=""))
