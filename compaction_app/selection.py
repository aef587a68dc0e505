"""Filling a budget with clauses: which stay, in which form, and the text they make.

Every clause offers moves: its shortest form costs some tokens and tells something, each longer form costs and
tells a little more. Moves are made in the order of what they tell per token, rules and decisions first, until
the text is as large as it may be. The text is counted as a whole, so the target is kept exactly.
"""

from __future__ import annotations

import re
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


def fill(units: Sequence[Unit], *, target: int, count: Count, needs: Mapping[int, int]) -> str:
    """The text of the best forms of ``units`` in at most ``target`` tokens.

    ``needs`` maps a unit to another without which it would mislead.
    """
    moves = _order(_moves(units, count), needs)
    headings = target >= HEADING_TOKENS
    chosen = _largest_prefix(units, moves, target, count, headings)
    if headings and join_days(units, chosen, target, count):
        chosen = _largest_prefix(units, moves, target, count, headings)
    _use_room(units, moves, chosen, target, count, needs, headings)
    text = render(units, chosen, headings=headings)
    if len(text) < FEWEST_CHARS and moves:
        return _squeeze(units, moves, text, target, count)
    return text


def render(units: Sequence[Unit], chosen: Mapping[int, int], *, headings: bool = True) -> str:
    """Markdown: a heading a day, a line for each run of one speaker."""
    lines: list[str] = []
    heading: str | None = None
    speaker: str | None = None
    for i in sorted(chosen):
        unit = units[i]
        text = unit.clause.shortened(chosen[i])
        if headings and unit.heading != heading:
            heading, speaker = unit.heading, None
            lines.append(f"## {heading}")
        if unit.speaker == speaker:
            lines[-1] += SEPARATOR + text
        else:
            speaker = unit.speaker
            lines.append(f"{speaker}: {text}" if speaker else text)
    return "\n".join(lines)


def join_days(units: Sequence[Unit], chosen: Mapping[int, int], target: int, count: Count) -> bool:
    """Put several days under one heading where headings would take too much of a small target; whether it
    did."""
    used = list(dict.fromkeys(units[i].heading for i in sorted(chosen)))
    *sizes, span = count([*(f"## {heading}\n" for heading in used), f"## 2000-01-01{_TO}2000-01-02\n"])
    groups = max(int(_HEADING_SHARE * target / span), 1)
    if sum(sizes) <= _HEADING_SHARE * target or groups >= len(used):
        return False
    kept = sorted(chosen)
    names: dict[str, str] = {}
    for group in range(groups):
        part = kept[group * len(kept) // groups : (group + 1) * len(kept) // groups]
        days = [
            h for h in dict.fromkeys(units[i].heading for i in part) if h not in names and _DAYS.fullmatch(h)
        ]
        if days:
            first, last = min(map(_first_day, days)), max(day.rpartition(_TO)[2] for day in days)
            names.update(dict.fromkeys(days, first if first == last else f"{first}{_TO}{last}"))
    for unit in units:
        unit.heading = _span_of(unit.heading, names)
    return True


def _span_of(heading: str, names: Mapping[str, str]) -> str:
    """The span that a day belongs to; that of a day nothing was kept of is the one before it."""
    if heading in names or not _DAYS.fullmatch(heading):
        return names.get(heading, heading)
    day = _first_day(heading)
    return next((span for span in reversed(list(names.values())) if _first_day(span) <= day), heading)


def _first_day(heading: str) -> str:
    return heading.partition(_TO)[0]


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
    """For each unit and level what the form tells, each word less the more often it was told by a better
    unit."""
    seen: dict[str, int] = {}
    told: list[list[float]] = [[] for _ in units]
    for i in sorted(range(len(units)), key=lambda i: (-_density(units[i], priced[i]), i)):
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


def _density(unit: Unit, offered: Sequence[tuple[int, int]]) -> float:
    """What the shortest form tells per token if nothing else were told."""
    if not offered:
        return 0.0
    level, cost = offered[0]
    weights = zip(unit.clause.words, unit.clause.strengths, strict=True)
    return (
        unit.scale * (unit.first + sum(word.weight for word, strength in weights if strength >= level)) / cost
    )


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


def _largest_prefix(
    units: Sequence[Unit], moves: Sequence[_Move], target: int, count: Count, headings: bool
) -> dict[int, int]:
    """The forms after as many of the first moves as the target allows, counted exactly."""
    # Joined text is hardly smaller than the sum of its parts, so what is far over need not be rendered.
    costs = accumulate(move.cost for move in moves)
    high = next((k for k, total in enumerate(costs) if total > 1.25 * target + 40), len(moves))
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if _size(units, _after(moves[:middle]), count, headings) <= target:
            low = middle
        else:
            high = middle - 1
    return _after(moves[:low])


def _after(moves: Iterable[_Move]) -> dict[int, int]:
    return {move.unit: move.after for move in moves}


def _size(units: Sequence[Unit], chosen: Mapping[int, int], count: Count, headings: bool) -> int:
    return count([render(units, chosen, headings=headings)])[0] if chosen else 0


def _use_room(
    units: Sequence[Unit],
    moves: Sequence[_Move],
    chosen: dict[int, int],
    target: int,
    count: Count,
    needs: Mapping[int, int],
    headings: bool,
) -> None:
    """Spend what the first move that did not fit has left over on smaller ones behind it."""
    room = target - _size(units, chosen, count, headings)
    tries = _TRIES
    for move in moves:
        if room < 2 or not tries:
            return
        needed = needs.get(move.unit)
        if (
            chosen.get(move.unit) != move.before
            or move.cost > room
            or (needed is not None and needed not in chosen)
        ):
            continue
        tries -= 1
        size = _size(units, {**chosen, move.unit: move.after}, count, headings)
        if size <= target:
            chosen[move.unit] = move.after
            room = target - size


def _squeeze(units: Sequence[Unit], moves: Sequence[_Move], text: str, target: int, count: Count) -> str:
    """A target so small that not one clause fits: the head and tail of the most important one."""
    unit = units[moves[0].unit]
    prefix = f"{unit.speaker}: " if unit.speaker else ""
    candidates = [text, render(units, {moves[0].unit: 0})]
    for full in (prefix + unit.clause.text, unit.clause.text):
        low, high = 0, len(full)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if count([clip(full, middle)])[0] <= target else (low, middle - 1)
        candidates.append(clip(full, low))
    sizes = count(candidates)
    fitting = [candidate for candidate, size in zip(candidates, sizes, strict=True) if size <= target]
    return next((c for c in fitting if len(c) >= FEWEST_CHARS), max(fitting, key=len, default=""))
