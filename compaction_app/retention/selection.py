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

from compaction_app.retention import meaning
from compaction_app.retention.choosing import Move, Needs, Unit, choose, company
from compaction_app.retention.clauses import SEPARATOR
from compaction_app.retention.facts import BOUND, FILLER, FUNCTION, weigh
from compaction_app.retention.sentences import CUT
from compaction_app.tokens import Count

_DAY = r"\d{4}-\d{2}-\d{2}"
_TO = " to "
_DAYS = re.compile(f"{_DAY}(?:{_TO}{_DAY})?")
#: Heading of what has no date.
UNDATED = "Conversation"
#: Of the target, what headings may take.
_HEADING_SHARE = 0.1
#: A target below this has no room for headings that are days.
HEADING_TOKENS = 60
#: Drafts below this are refused (``MIN_SUMMARY_CHARS``); a tiny target is filled to it where it can be.
FEWEST_CHARS = 30
#: Told where nothing can be cut to the target without saying something else.
_TOO_SMALL = "What was said is too long for this summary"
#: How many further moves are tried for the room that the best ones leave.
_TRIES = 48
#: Words, and in a script without spaces what stands between two pauses.
_WORD = re.compile(r"[^\s，、；：]+")
_TRAILING = " ,;:，、；："
#: No beginning of more characters is tried.
_CUT_CHARS = 2000


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
        headings = self._headings(kept)
        if self.target < HEADING_TOKENS:
            # What is no day may be "Rejected": under it stands what was.
            headings = ["" if _DAYS.fullmatch(heading) or heading == UNDATED else heading for heading in headings]
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
                lines.append(f"{unit.speaker}: {text}" if unit.speaker else text)
            speaker = unit.last_speaker
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


def fill(units: Sequence[Unit], *, target: int, count: Count, needs: Needs) -> str:
    """The text of the best forms of ``units`` in at most ``target`` tokens, none without what it needs."""
    page = _Page(units, target, count)
    moves = choose(units, target=target, count=count, needs=needs)
    chosen = _accompanied(_largest_prefix(page, moves), needs)
    if page.join_days(chosen):
        chosen = _accompanied(_largest_prefix(page, moves), needs)
    _use_room(page, moves, chosen, needs)
    text = page.render(chosen)
    return (
        _squeeze(page, [move for move in moves if move.unit not in needs], text)
        if len(text) < FEWEST_CHARS and moves
        else text
    )


def _span(days: Sequence[str]) -> str:
    first, last = min(days), max(days)
    return first if first == last else f"{first}{_TO}{last}"


def _largest_prefix(page: _Page, moves: Sequence[Move]) -> dict[int, int]:
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


def _after(moves: Iterable[Move]) -> dict[int, int]:
    return {move.unit: move.after for move in moves}


def _accompanied(chosen: dict[int, int], needs: Needs) -> dict[int, int]:
    """Without the units that need one which was cut off; and without those that need these."""
    while lonely := [i for i in chosen if any(needed not in chosen for needed in needs.get(i, ()))]:
        for i in lonely:
            del chosen[i]
    return chosen


def _use_room(page: _Page, moves: Sequence[Move], chosen: dict[int, int], needs: Needs) -> None:
    """Spend what the first move that did not fit has left over on smaller ones behind it."""
    room = page.target - page.size(chosen)
    tries = _TRIES
    begun = {move.unit: move for move in moves if move.before is None}
    for move in moves:
        if room < 2 or not tries:
            return
        if chosen.get(move.unit) != move.before or move.cost > room:
            continue
        others = company(move.unit, needs, chosen) if move.unit in needs else []
        if any(i not in begun for i in others) or move.cost + sum(begun[i].cost for i in others) > room:
            continue
        tries -= 1
        added = {**_after(begun[i] for i in others), move.unit: move.after}
        size = page.size(chosen | added)
        if size <= page.target:
            chosen.update(added)
            room = page.target - size


def _squeeze(page: _Page, moves: Sequence[Move], text: str) -> str:
    """A target so small that not one clause fits: the beginning of the most important one that may be cut."""
    candidates = [text, *(page.render({move.unit: 0}) for move in moves[:1])]
    unit = next((page.units[move.unit] for move in moves if _may_be_cut(page.units[move.unit])), None)
    prefix = f"{unit.speaker}: " if unit and unit.speaker else ""
    beginnings = _beginnings(unit.clause.text) if unit else []
    for before in dict.fromkeys((prefix, "")):
        low, high = 0, len(beginnings)
        while low < high:
            middle = (low + high + 1) // 2
            fits = page.count([before + beginnings[middle - 1]])[0] <= page.target
            low, high = (middle, high) if fits else (low, middle - 1)
        candidates += [before + beginnings[low - 1]] if low else []
    sizes = page.count(candidates)
    fitting = [text for text, size in zip(candidates, sizes, strict=True) if size <= page.target]
    if not any(fitting):
        return _TOO_SMALL if page.count([_TOO_SMALL])[0] <= page.target else ""
    return next((text for text in fitting if len(text) >= FEWEST_CHARS), max(fitting, key=len, default=""))


def _may_be_cut(unit: Unit) -> bool:
    clause = unit.clause
    return not (clause.as_said or clause.whole or meaning.enclosed(clause.text)[0])


def _beginnings(text: str) -> list[str]:
    """What a text may be cut to, with a mark for the rest: whole words, and none that needs the next one, as a number
    needs its unit and a first name the family's."""
    words = list(_WORD.finditer(text[:_CUT_CHARS]))
    return [
        f"{text[: word.end()].rstrip(_TRAILING)}{CUT}"
        for word, following in pairwise(words)
        if _may_end(word.group(), following.group())
    ]


def _may_end(word: str, following: str) -> bool:
    if weigh(word).strength in (FILLER, FUNCTION, BOUND) or any(map(str.isdigit, word + following)):
        return False
    return not (word[:1].isupper() and following[:1].isupper())
