"""Which clauses to tell, and in which form: always next what tells most per token beside what is told already.

Every clause offers moves: its shortest form costs some tokens and tells something, a longer form costs and tells a
little more. What a word tells depends on how often it is told already, so the gain of a move is worked out again
when its turn comes. Gains only fall while more is told, so a move whose gain is still the best is the best of all.

Rules, decisions and preferences begin, until they have a good part of the room.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from compaction_app.retention.clauses import LEVELS, Clause
from compaction_app.retention.facts import CONTENT
from compaction_app.retention.superseded import Statement
from compaction_app.tokens import Count

#: From this weight on a telling word is a fact: a name, a number, an identifier.
_FACT_WEIGHT = 1.0
#: What a fact counts for each of its tokens, beside its weight; a longer word is a dump and counts no more.
_TOKEN_WORTH = 0.2
_LONGEST_WORD = 24
#: What a plain word counts against a fact: it is told with one, not instead of one.
_PLAIN = 0.2
#: What a word counts each time that it is told again.
_AGAIN = 0.3
#: Rates nearer than this are the same: the order of adding floats must not decide.
_SAME = 1e-9
#: About what a speaker and a line end add for a new unit, shared with its neighbours.
_OWN_LINE, _OTHER_LINE = 2, 5
#: The facts of a list tell less than those of a sentence: further ones of a clause count only so much.
_TELLING_WORDS = 8
_CROWDED_TELLING = 0.25
#: Of the target, what rules, decisions and preferences take before anything else is looked at.
_FIRST_SHARE = 0.6
#: What needs more others than this is not told.
_TOGETHER = 24
#: How much more what is left of them counts afterwards.
_FIRST_BOOST = 2.0


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
    #: The first thing that a message, or a line of a summary, says.
    opens: bool = False
    #: Who speaks on its last line, if that is somebody else.
    answered_by: str = ""

    @property
    def last_speaker(self) -> str:
        return self.answered_by or self.speaker


#: For a unit, others without which it would mislead, directly; two may need each other.
Needs = Mapping[int, Sequence[int]]


def company(i: int, needs: Needs, told: Container[int]) -> list[int]:
    """All that a unit needs and that is not ``told`` yet, in order; without itself."""
    found: dict[int, None] = {i: None}
    waiting = [i]
    while waiting:
        for needed in needs.get(waiting.pop(), ()):
            if needed not in found and needed not in told:
                found[needed] = None
                waiting.append(needed)
    del found[i]
    return sorted(found)


class Move(NamedTuple):
    unit: int
    #: The form before, None if the unit is not in the text yet.
    before: int | None
    after: int
    cost: int


class _Point(NamedTuple):
    """A form of a clause and what it costs, in tokens."""

    level: int
    cost: int


def choose(units: Sequence[Unit], *, target: int, count: Count, needs: Needs) -> list[Move]:
    """Moves in order, for somewhat more than ``target`` tokens. What a unit needs comes right before it."""
    return _Choosing(units, target, count, needs).moves()


class _Choosing:
    def __init__(self, units: Sequence[Unit], target: int, count: Count, needs: Needs) -> None:
        self.units, self.target, self.needs = units, target, needs
        self.points = _price(units, count)
        worth = _worth(units, count)
        self.values = [_values(unit, worth) for unit in units]
        self.times: dict[str, int] = {}
        #: Position in its points of the form that each chosen unit has.
        self.at: dict[int, int] = {}
        self.taken: list[Move] = []
        self.spent = 0

    def moves(self) -> list[Move]:
        """Every move that tells something, until more is taken than the target can hold."""
        self._take_best([i for i, unit in enumerate(self.units) if unit.first], _FIRST_SHARE * self.target, once=True)
        # Joined text is hardly smaller than the sum of its parts: what is further than this is never shown.
        self._take_best(range(len(self.units)), 1.25 * self.target + 40)
        return self.taken

    def _take_best(self, candidates: Iterable[int], limit: float, *, once: bool = False) -> None:
        """Take the best moves of the candidates while no more than ``limit`` is spent; ``once``: the first of each."""
        heap = [(-rate, _spread(i), i) for i in candidates if (rate := self._rate(i)) > 0]
        heapify(heap)
        while heap and self.spent <= limit:
            before, spread, i = heappop(heap)
            if once and i in self.at:
                continue
            if self._rate(i) >= -before - _SAME:
                # What tells nothing new itself is taken for what it needs.
                self._take(i, max(self._step(i)[1], 0) if i not in self.at else self._step(i)[1])
                if once:
                    continue
            # What it tells may be told by now: back in line with what it is worth today.
            if (rate := self._rate(i)) > 0:
                heappush(heap, (-rate, spread, i))

    def _rate(self, i: int) -> float:
        if i in self.at:
            return self._step(i)[0]
        rate = self._rate_together(i) if i in self.needs else self._step(i)[0]
        return rate * _FIRST_BOOST if self.units[i].first else rate

    def _rate_together(self, i: int) -> float:
        """What a unit tells with all that it needs, for what they cost together; 0 where they never fit."""
        if not self.points[i]:
            return 0.0
        told = spent = 0.0
        together = [*company(i, self.needs, self.at), i]
        for unit in together if len(together) <= _TOGETHER else ():
            rate, position = self._step(unit)
            cost = self.points[unit][position].cost - self._standing(unit)[1] if position >= 0 else 0
            told, spent = told + rate * cost, spent + cost
        return told / spent if 0 < spent <= self.target + _OTHER_LINE * len(together) else 0.0

    def _step(self, i: int) -> tuple[float, int]:
        """(value per token, position) of the best next form of a unit; (0, -1) if there is none."""
        points, values, times = self.points[i], self.values[i], self.times
        level, spent = self._standing(i)
        best, at, told = 0.0, -1, 0.0
        for position in range(self.at.get(i, -1) + 1, len(points)):
            point = points[position]
            while level > point.level:
                level -= 1
                for norm, value in values[level]:
                    before = times.get(norm, 0)
                    told += value * _AGAIN**before if before else value
            rate = told / (point.cost - spent)
            if rate > best + _SAME:
                best, at = rate, position
        return best, at

    def _standing(self, i: int) -> tuple[int, int]:
        """Level and cost of the form that a unit has; a new one is charged for the line around it."""
        if i in self.at:
            point = self.points[i][self.at[i]]
            return point.level, point.cost
        # Another speaker breaks the user's line in two.
        speaker = self.units[i].speaker
        return len(LEVELS), -(_OWN_LINE if speaker.startswith("user") or not speaker else _OTHER_LINE)

    def _take(self, i: int, position: int) -> None:
        for needed in company(i, self.needs, self.at) if i in self.needs and i not in self.at else ():
            if self.points[needed]:
                self._take_one(needed, max(self._step(needed)[1], 0))
        self._take_one(i, position)

    def _take_one(self, i: int, position: int) -> None:
        level, spent = self._standing(i)
        before = level if i in self.at else None
        after = self.points[i][position]
        for words in self.values[i][after.level : level]:
            for norm, _ in words:
                if norm:
                    self.times[norm] = self.times.get(norm, 0) + 1
        self.at[i] = position
        cost = after.cost - max(spent, 0)
        self.spent += cost
        self.taken.append(Move(i, before, after.level, cost))


def _spread(i: int) -> int:
    """Among equals those far from each other come first: the bits of the position in reverse."""
    return int(f"{i:024b}"[::-1], 2)


def _price(units: Sequence[Unit], count: Count) -> list[list[_Point]]:
    """The forms of each unit, shortest first, each costing more than the one before it."""
    forms = [_forms(unit.clause) for unit in units]
    costs = iter(count([text for offered in forms for _, text in offered]))
    priced: list[list[_Point]] = []
    for offered in forms:
        points: list[_Point] = []
        for level, _ in offered:
            # One for the separator or the line end.
            cost = next(costs) + 1
            # More words for no more tokens: the shorter form has no use.
            while points and points[-1].cost >= cost:
                points.pop()
            points.append(_Point(level, cost))
        priced.append(points)
    return priced


def _forms(clause: Clause) -> list[tuple[int, str]]:
    """The distinct forms of a clause, shortest first."""
    if clause.whole or clause.as_said:
        return [(0, clause.text)]
    forms: list[tuple[int, str]] = []
    levels = {clause.strongest, *clause.strengths, 0}
    for level in sorted((level for level in levels if level <= clause.strongest), reverse=True):
        text = clause.shortened(level)
        if text and (not forms or text != forms[-1][1]):
            forms.append((level, text))
    return forms


def _worth(units: Sequence[Unit], count: Count) -> dict[str, float]:
    """What each fact is worth beside its kind: more where it costs more, or a long name or address would always
    lose to a few short words that say nothing."""
    norms = {
        word.norm: None
        for unit in units
        if not unit.clause.whole
        for word in unit.clause.words
        if word.weight >= _FACT_WEIGHT
    }
    costs = count(list(norms))
    return {norm: 1.0 + _TOKEN_WORTH * min(cost, _LONGEST_WORD) for norm, cost in zip(norms, costs, strict=True)}


def _values(unit: Unit, worth: Mapping[str, float]) -> list[list[tuple[str, float]]]:
    """By strength, (norm, value) of each word; the norm is "" for a word that may repeat."""
    values: list[list[tuple[str, float]]] = [[] for _ in LEVELS]
    telling = 0
    clause = unit.clause
    times: dict[str, int] = {}
    for (kind, weight, norm), strength in zip(clause.words, clause.strengths, strict=True):
        value = weight * unit.scale
        if not value:
            continue
        if weight >= _FACT_WEIGHT:
            value *= worth.get(norm, 1.0)
            telling += 1
            if telling > _TELLING_WORDS:
                value *= _CROWDED_TELLING
        elif kind == CONTENT:
            value *= _PLAIN
        # What a clause says twice it tells once.
        before = times.get(norm, 0)
        times[norm] = before + 1
        if before:
            value *= _AGAIN**before
        values[strength].append((norm if kind >= CONTENT else "", value))
    return values
