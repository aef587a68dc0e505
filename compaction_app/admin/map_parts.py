"""What the branch map is drawn from: the scale, and the parts of the picture. Pure.

The scale turns depths into pixels. Only depths where something is drawn get a place. The messages between two places
are collapsed to the width of a label, however many they are, so a map of five messages and one of a hundred thousand
are equally readable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

#: Pixels of a gauge: the available tokens.
GAUGE_WIDTH = 48
#: Pixels that a character of a label takes, at the size that the style sheet gives it.
CHARACTER = 6.5
#: Pixels between two labels.
_APART = 6


@dataclass(frozen=True, slots=True)
class Density:
    """Distances for a scale of at most this many places."""

    places: int
    #: Pixels between neighbors.
    step: int
    #: Pixels between a place and the collapsed messages beside it.
    shoulder: int
    #: Labels say "12 messages", not only "12".
    in_words: bool


DENSITIES = (Density(14, 28, 12, True), Density(40, 20, 9, False), Density(10**9, 14, 7, False))


@dataclass(frozen=True, slots=True)
class Tick:
    """A depth that is labeled on the axis."""

    x: int
    label: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Collapsed messages: those strictly between two places."""

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

    def stretches(self, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
        """A line from one depth to another in pieces: (x1, x2, whether it is collapsed)."""
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
    """A scale on which each of ``depths`` has a place, the first at ``left``.

    ``room``: for some depths the earlier depths that must be at least so many pixels away.
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
        # The first and the last that are collapsed; of a single one only the first.
        knots += [(depth + 1, x + side), (following - 1, end - side)][:hidden]
        knots.append((following, end))
    ticks = _ticks(places, x_of)
    return Scale(tuple(knots), ticks, tuple(folds), reach=density.step // 2 - 2)


def _stretch(messages: int, density: Density) -> str:
    if not density.in_words:
        return f"{messages:,}"
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def _ticks(places: Sequence[int], x_of: dict[int, int]) -> tuple[Tick, ...]:
    """As many labels as fit without touching each other, the first and the last depth before the others."""
    taken: list[tuple[float, float]] = []
    found = []
    for place in [places[0], places[-1], *places[1:-1]]:
        half = len(f"{place:,}") * CHARACTER / 2
        x = x_of[place]
        if all(x + half + _APART <= low or x - half - _APART >= high for low, high in taken):
            taken.append((x - half, x + half))
            found.append(Tick(x, f"{place:,}"))
    return tuple(sorted(found, key=lambda tick: tick.x))


# -- parts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A message that gets a mark although it is nothing but a message."""

    message_id: int
    depth: int
    lane_id: int


class MarkKind(StrEnum):
    """What a mark shows; a message that is several of the first five is drawn as the first of them."""

    TIP = "tip"
    END = "end"
    FORK = "fork"
    START = "start"
    MESSAGE = "message"
    CUTOFF = "cutoff"
    ANCHOR = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    kind: MarkKind
    message_id: int
    depth: int
    x: int
    y: int
    #: Lanes that leave here.
    forks: int = 0
    #: The first message of its lane.
    is_start: bool = False
    #: Whose cutoff or anchor it is.
    summary_ids: tuple[int, ...] = ()
    #: The shape of a cutoff or an anchor, and from where to where it goes down; messages are circles.
    path: str = ""
    top: int = 0
    bottom: int = 0
    #: Of cutoffs and anchors: none of their summaries is live.
    is_retired: bool = False

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def is_message(self) -> bool:
        """It shows a message, not a summary's cutoff or anchor."""
        return self.kind not in (MarkKind.CUTOFF, MarkKind.ANCHOR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A summary above what it covers; where there are many, several of one lane as one bar."""

    summary_ids: tuple[int, ...]
    x1: int
    x2: int
    y: int
    #: Depths of the first and the last message that it covers and no summary before it does.
    first: int
    last: int
    is_live: bool
    #: It applies at one of the tips drawn.
    is_in_use: bool
    #: It begins before this lane's first message.
    is_open: bool

    @property
    def width(self) -> int:
        return self.x2 - self.x1

    @property
    def outline(self) -> str:
        """Its shape: round at both ends, or pointed to the left where it begins before its lane."""
        end = f"H{self.x2 - 3}a3 3 0 0 1 3 3v1a3 3 0 0 1 -3 3"
        if self.is_open:
            return f"M{self.x1 + 3} {self.y}{end}H{self.x1 + 3}l-4 -3.5z"
        return f"M{self.x1 + 3} {self.y}{end}H{self.x1 + 3}a3 3 0 0 1 -3 -3v-1a3 3 0 0 1 3 -3z"

    @property
    def summary_id(self) -> int:
        """0 where the bar shows several."""
        return self.summary_ids[0] if len(self.summary_ids) == 1 else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """How full the window is at a tip."""

    x: int
    y: int
    #: Pixels of the history, and of the threshold, out of ``GAUGE_WIDTH`` for what is available.
    filled: int
    threshold: int
    percent: int
    is_over: bool

    @property
    def label(self) -> str:
        """Short: "97 %", or "97 % full · over", which is over the threshold and not over by 97 %."""
        return f"{self.percent:,} % full · over" if self.is_over else f"{self.percent:,} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Messages of a lane that have no mark, between two that have one."""

    #: Depth of the first and the last of them.
    first: int
    last: int
    x: int
    width: int

    @property
    def depth(self) -> int:
        return self.first

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnLane:
    """A lane with everything drawn for it."""

    lane_id: int
    #: 0 for a lane of an older page, which is drawn because others leave it.
    number: int
    #: Only its forks are known, neither its own end nor its beginning.
    is_elsewhere: bool
    #: Its row in the picture, from 0 on, and the y of its line.
    row: int
    y: int
    #: Its extent in the row, with its line from above and its label.
    left: int
    right: int
    #: Pieces of its line: x1, x2, whether messages are collapsed there.
    line: tuple[tuple[int, int, bool], ...]
    #: From the message it forks from; "" for a root.
    fork: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    stretches: tuple[Stretch, ...]
    gauge: Gauge | None
    #: Of its number, beside its end.
    label_x: int
    label_y: int


@dataclass(frozen=True, slots=True)
class Row:
    """A stripe of the picture, with one lane or several side by side."""

    top: int
    height: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    width: int
    height: int
    axis: int
    scale: Scale
    rows: tuple[Row, ...]
    #: In the order of their numbers, which is the keyboard's too.
    lanes: tuple[DrawnLane, ...]
    #: The right end of the lane with the newest message, to scroll to first.
    newest: int
    #: Summaries of these lanes that are not drawn: retired ones, and those without room.
    left_out: int

    @property
    def ids(self) -> tuple[int, ...]:
        """Every message and summary that has a mark, each once."""
        found = [mark.message_id for lane in self.lanes for mark in lane.marks]
        found += [bar.summary_id for lane in self.lanes for bar in lane.bars if bar.summary_id]
        return tuple(dict.fromkeys(found))

    @property
    def has_open(self) -> bool:
        """One of the bars begins before the lane that it is above."""
        return any(bar.is_open for lane in self.lanes for bar in lane.bars)

    @property
    def has_many(self) -> bool:
        """One of the bars shows several summaries."""
        return any(not bar.summary_id for lane in self.lanes for bar in lane.bars)
