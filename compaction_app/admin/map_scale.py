"""Where the messages of a branch map stand: from depths to pixels, with long stretches folded. Pure.

Only depths where something is to be seen get a place of their own. What lies between two of them takes the room
of its label, however many messages it is, so a map of five and one of a hundred thousand are equally readable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Pixels that a character of a label takes, at the size that the style sheet gives it.
CHARACTER = 6.5
#: Pixels between two labels.
_APART = 6


@dataclass(frozen=True, slots=True)
class Density:
    """How much room there is: ``places`` at most."""

    places: int
    #: Pixels between neighbours.
    step: int
    #: Pixels between a place and what is folded beside it.
    shoulder: int
    #: Folded stretches are labelled in words, not only with their number.
    in_words: bool


DENSITIES = (Density(14, 28, 12, True), Density(40, 20, 9, False), Density(10**9, 14, 7, False))


@dataclass(frozen=True, slots=True)
class Tick:
    """A depth that is told on the axis."""

    x: int
    label: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Messages that have no place of their own: those strictly between two places."""

    x1: int
    x2: int
    #: Depth of the first and the last of them.
    first: int
    last: int
    label: str

    @property
    def messages(self) -> int:
        return self.last - self.first + 1

    @property
    def middle(self) -> int:
        return (self.x1 + self.x2) // 2


@dataclass(frozen=True, slots=True)
class Scale:
    """Depth → x, rising with the depth."""

    #: (depth, x), rising; what lies between two is interpolated.
    knots: tuple[tuple[int, int], ...]
    ticks: tuple[Tick, ...]
    folds: tuple[Fold, ...]
    #: Half of what a place may take to each side without touching its neighbour.
    reach: int

    def x(self, depth: int) -> int:
        """Where a message of this depth stands, or would stand."""
        after = bisect_right(self.knots, (depth, 10**9))
        if after in (0, len(self.knots)):
            return self.knots[after and -1][1]
        (depth1, x1), (depth2, x2) = self.knots[after - 1], self.knots[after]
        return round(x1 + (x2 - x1) * (depth - depth1) / (depth2 - depth1))

    def stretches(self, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
        """A line from one depth to another in pieces: (x1, x2, whether it is folded)."""
        at, end = self.x(first), self.x(last)
        for fold in self.folds:
            if fold.x2 <= at or fold.x1 >= end:
                continue
            if fold.x1 > at:
                yield at, fold.x1, False
            yield max(at, fold.x1), min(end, fold.x2), True
            at = min(end, fold.x2)
        if at < end or first == last:
            yield at, end, False


def make_scale(
    depths: Collection[int], left: int, room: Mapping[int, Collection[tuple[int, int]]] | None = None
) -> Scale:
    """A scale on which each of ``depths`` has a place; the first stands at ``left``.

    ``room``: for some of them other, earlier ones, with the pixels that must lie between at least.
    """
    room = room or {}
    places = sorted(depths) or [1]
    density = next(density for density in DENSITIES if len(places) <= density.places)
    folds: list[Fold] = []
    knots = [(places[0], left)]
    x_of = {places[0]: left}
    for depth, following in pairwise(places):
        x = knots[-1][1]
        least = max((x_of[other] + pixels for other, pixels in room.get(following, ())), default=0)
        hidden = following - depth - 1
        if not hidden:
            x_of[following] = max(least, x + density.step)
            knots.append((following, x_of[following]))
            continue
        label, side = _stretch(hidden, density), density.shoulder
        end = max(least, x + 2 * side + max(round(len(label) * CHARACTER), density.step // 2))
        x_of[following] = end
        folds.append(Fold(x + side // 2, end - side // 2, depth + 1, following - 1, label))
        # The first and the last that are folded; of a single one only the first.
        knots += [(depth + 1, x + side), (following - 1, end - side)][:hidden]
        knots.append((following, end))
    ticks = _ticks(places, x_of)
    return Scale(tuple(knots), ticks, tuple(folds), reach=density.step // 2 - 2)


def _stretch(messages: int, density: Density) -> str:
    if not density.in_words:
        return f"{messages:,}"
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def _ticks(places: Sequence[int], x_of: dict[int, int]) -> tuple[Tick, ...]:
    """As many depths as can be told without touching each other; the first and the last before the others."""
    taken: list[tuple[float, float]] = []
    found = []
    for place in [places[0], places[-1], *places[1:-1]]:
        half = len(f"{place:,}") * CHARACTER / 2
        x = x_of[place]
        if all(x + half + _APART <= low or x - half - _APART >= high for low, high in taken):
            taken.append((x - half, x + half))
            found.append(Tick(x, f"{place:,}"))
    return tuple(sorted(found, key=lambda tick: tick.x))
