"""The scale of the branch map, from depths to pixels. Pure.

Only depths where something is drawn get a place. The messages between two places are collapsed to the width of a
label, however many they are, so a map of five messages and one of a hundred thousand are equally readable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

#: Pixels that a character of a label takes, at the size that the style sheet gives it.
CHARACTER = 6.5
#: Pixels between two labels.
_APART = 6


class Density(NamedTuple):
    """Distances for a scale of at most this many places."""

    places: int
    #: Pixels between neighbors.
    step: int
    #: Pixels between a place and the collapsed messages beside it.
    shoulder: int
    #: Labels say "12 messages", not only "12".
    in_words: bool


DENSITIES = (Density(14, 28, 12, True), Density(40, 20, 9, False), Density(10**9, 14, 7, False))


class Tick(NamedTuple):
    """A depth that is labeled on the axis."""

    x: int
    label: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Collapsed messages: those strictly between two places."""

    x1: int
    x2: int
    label: str

    @property
    def middle(self) -> int:
        return (self.x1 + self.x2) // 2


@dataclass(frozen=True, slots=True)
class Scale:
    """Depth → x, rising with the depth."""

    #: (depth, x), rising; depths between two are interpolated.
    knots: tuple[tuple[int, int], ...]
    ticks: tuple[Tick, ...]
    folds: tuple[Fold, ...]
    #: Half of what a place may take to each side without touching its neighbour.
    reach: int

    def x(self, depth: int) -> int:
        """Where a message of this depth is, or would be."""
        after = bisect_right(self.knots, (depth, 10**9))
        if after in (0, len(self.knots)):
            return self.knots[after and -1][1]
        (depth1, x1), (depth2, x2) = self.knots[after - 1], self.knots[after]
        return round(x1 + (x2 - x1) * (depth - depth1) / (depth2 - depth1))


def make_scale(depths: Collection[int], left: int) -> Scale:
    """A scale on which each of ``depths`` has a place, the first at ``left``."""
    places = sorted(depths) or [1]
    density = next(density for density in DENSITIES if len(places) <= density.places)
    side = density.shoulder
    folds: list[Fold] = []
    knots = [(places[0], left)]
    x_of = {places[0]: left}
    for depth, following in pairwise(places):
        x, hidden = x_of[depth], following - depth - 1
        label = _fold_label(hidden, density)
        natural = 2 * side + max(round(len(label) * CHARACTER), density.step // 2) if hidden else density.step
        end = x + natural
        if hidden:
            folds.append(Fold(x + side // 2, end - side // 2, label))
            # The first and the last that are collapsed; of a single one only the first.
            knots += [(depth + 1, x + side), (following - 1, end - side)][:hidden]
        knots.append((following, end))
        x_of[following] = end
    return Scale(tuple(knots), _ticks(places, x_of), tuple(folds), reach=density.step // 2 - 2)


def _fold_label(messages: int, density: Density) -> str:
    if not density.in_words:
        return f"{messages:,}"
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def _ticks(places: Sequence[int], x_of: Mapping[int, int]) -> tuple[Tick, ...]:
    """As many labels as fit without touching each other, the first and the last depth before the others."""
    taken: list[tuple[float, float]] = []
    found = []
    for place in [places[0], places[-1], *places[1:-1]]:
        label, x = f"#{place:,}", x_of[place]
        half = len(label) * CHARACTER / 2
        if all(x + half + _APART <= low or x - half - _APART >= high for low, high in taken):
            taken.append((x - half, x + half))
            found.append(Tick(x, label))
    return tuple(sorted(found))
