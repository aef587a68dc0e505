"""The layout of a session's branch map: a row for every lane, a bar for every summary, a mark for every message. Pure.

Messages run from left to right by depth. A lane's forks are below it, the deepest fork nearest: the line down to a
shallower fork then passes to the left of everything between, and no line crosses another. Lanes that fit side by side
share a row. A summary is a bar above the lane that contains its cutoff, over what it covers and no summary before it
does. The y of a part is relative to the line of its lane.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from compaction_app.admin.map_scale import CHARACTER, Scale, make_scale

if TYPE_CHECKING:
    # Types only: the layout is given values and reads nothing.
    from compaction_app.tree.branches import TipHistory
    from compaction_app.tree.lanes import Lane, SummarySpan
    from compaction_app.values import Budget

#: Up to this depth, and this many messages, every message has a mark.
EVERY_DEPTH = 24
EVERY_MESSAGE = 120
#: Bars drawn at most beside those in use at a tip; other live summaries share one bar a lane.
MOST_SUMMARIES = 6
_MOST_STRIPS = 3

# Pixels.
#: Of a gauge: the available tokens.
GAUGE_WIDTH = 48
#: A character in bold.
BOLD_CHARACTER = 8
_WORD_SPACE = 5
#: Between two lanes of a row, and between a lane and a line that passes it.
APART = 10
#: To each side of a mark, for the pointer.
REACH = 8
#: Room for half of the first depth on the axis.
_LEFT = 30
_MARGIN = 14
_AXIS = 40
_FOLD_LABELS = 14
_NARROWEST_BAR = 7
#: A digit of a bar's number, in the small size that the style sheet gives it.
_SMALL_DIGIT = 7
_STRIP = 15
_ABOVE_LINE = 14
_BELOW_LINE = 14
_BELOW_ANCHORS = 20
_CURVE = 9
_BESIDE_TIP = 14
_BESIDE_START = 24


# -- the parts of a picture ---------------------------------------------------------------------------------


class Place(NamedTuple):
    """A message that gets a mark although it is nothing but a message."""

    message_id: int
    depth: int
    lane_id: int


class Shape(StrEnum):
    """What a mark shows; a message that is several of the first five is drawn as the first of them."""

    TIP = "tip"
    END = "end"
    FORK = "fork"
    START = "start"
    MESSAGE = "message"
    CUTOFF = "cutoff"
    ANCHOR = "anchor"
    #: Messages of the lane that have no mark, between two that have one.
    STRETCH = "stretch"


@dataclass(kw_only=True, slots=True)
class Part:
    """What is a link in the picture: its box for the pointer, and the messages of the lane that it shows."""

    #: Depth of the first and the last of them.
    first: int
    last: int
    x1: int = 0
    x2: int = 0
    top: int = 0
    bottom: int = 0
    #: The summaries that it shows.
    spans: Sequence[SummarySpan] = ()
    #: The address and the description, which the layout does not know.
    url: str = ""
    name: str = ""

    @property
    def summary_ids(self) -> tuple[int, ...]:
        return tuple(sorted(span.summary_id for span in self.spans))

    @property
    def is_live(self) -> bool:
        return any(span.is_live for span in self.spans)

    @property
    def width(self) -> int:
        return self.x2 - self.x1

    @property
    def height(self) -> int:
        return self.bottom - self.top


@dataclass(kw_only=True, slots=True)
class Mark(Part):
    """On the line of a lane, or beside it: a message, a summary's cutoff or anchor, or a stretch."""

    shape: Shape
    #: 0 for a stretch.
    message_id: int = 0
    #: Lanes that leave here.
    forks: int = 0
    #: The first message of its lane.
    is_start: bool = False

    @property
    def x(self) -> int:
        return (self.x1 + self.x2) // 2

    @property
    def is_message(self) -> bool:
        return self.shape not in (Shape.CUTOFF, Shape.ANCHOR, Shape.STRETCH)


@dataclass(kw_only=True, slots=True)
class Bar(Part):
    """A summary above what it covers and no summary before it does; or several of one lane as one bar."""

    #: It applies at one of the tips drawn.
    is_in_use: bool
    #: Of live summaries that have no bar of their own.
    is_shared: bool
    #: It begins before this lane's first message.
    is_open: bool = False

    @property
    def state(self) -> str:
        """How it is drawn."""
        if self.is_in_use:
            return "used"
        if not self.summary_id:
            return "many"
        return "live" if self.is_live else "retired"

    @property
    def summary_id(self) -> int:
        """0 where the bar shows several."""
        return self.spans[0].summary_id if len(self.spans) == 1 else 0

    @property
    def number(self) -> int:
        """Of its compaction, as on the summary's page; 0 where the bar shows several, or the run is gone."""
        return (self.spans[0].generation or 0) if self.summary_id else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """How long the history at a tip is, beside what is available for it."""

    #: Pixels of what is available, of the history and of the threshold.
    width: int = GAUGE_WIDTH
    filled: int
    threshold: int
    percent: int
    is_over: bool

    @property
    def label(self) -> str:
        """Short: "61 %", or "97 % · over threshold", which is not over by 97 %."""
        return f"{self.percent:,} % · over threshold" if self.is_over else f"{self.percent:,} %"


@dataclass(slots=True)
class DrawnLane:
    """A lane with all that is drawn for it. One known only by its forks extends from the first to the last of them."""

    lane_id: int
    #: Depth of its first and its last message.
    start: int
    end: int
    #: None for one known only by its forks.
    lane: Lane | None = None
    #: The lane that it leaves.
    parent: DrawnLane | None = None
    #: As in the picture and the table; 0 for a lane that is numbered on another page.
    number: int = 0
    #: The depths of the messages that have a mark.
    messages: dict[int, int] = field(default_factory=dict)
    #: Message → how many lanes leave there.
    forks: Counter[int] = field(default_factory=Counter)
    gauge: Gauge | None = None
    bars: list[Bar] = field(default_factory=list)
    #: Along the lane, which is also the order of the Tab key.
    marks: list[Mark] = field(default_factory=list)
    #: Its row in the picture, from 0 on, and the y of its line.
    row: int = 0
    y: int = 0
    #: Its extent in the row, with its line from above and its label.
    left: int = 0
    right: int = 0
    #: Its line where messages have marks, from the message that it forks from.
    path: str = ""
    #: Of its number and its gauge.
    label_x: int = 0

    @property
    def parent_id(self) -> int | None:
        return self.parent.lane_id if self.parent else None

    @property
    def after(self) -> int:
        """Pixels from its end to the end of its label."""
        if self.lane is None:
            return REACH
        text: float = len(str(self.number)) * BOLD_CHARACTER
        if gauge := self.gauge:
            character = BOLD_CHARACTER if gauge.is_over else CHARACTER
            text = max(GAUGE_WIDTH, text + _WORD_SPACE + len(gauge.label) * character)
        return _BESIDE_TIP + ceil(text)

    def reach(self, depth: int) -> None:
        if self.lane is None:
            self.start, self.end = min(self.start, depth), max(self.end, depth)


class Row(NamedTuple):
    """A stripe of the picture, with one lane or several side by side."""

    top: int
    height: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """The lanes of a page, laid out."""

    #: The y at which the rows begin.
    axis: int
    scale: Scale
    rows: Sequence[Row]
    #: In the order of their numbers, which is the keyboard's too.
    lanes: Sequence[DrawnLane]
    #: Summaries of these lanes that are not drawn.
    left_out: Sequence[SummarySpan]

    @property
    def width(self) -> int:
        return max((lane.right for lane in self.lanes), default=_LEFT) + _MARGIN

    @property
    def height(self) -> int:
        return self.axis + sum(row.height for row in self.rows) + 4

    @property
    def newest(self) -> int:
        """The right end of the lane with the newest message, to scroll to first."""
        return max(((lane.lane.end_id, lane.right) for lane in self.lanes if lane.lane), default=(0, 0))[1]

    @property
    def bars(self) -> list[Bar]:
        return [bar for lane in self.lanes for bar in lane.bars]

    @property
    def ids(self) -> set[int]:
        """Every message and summary that has a mark."""
        marked = {mark.message_id for lane in self.lanes for mark in lane.marks}
        return (marked | {bar.summary_id for bar in self.bars}) - {0}

    @property
    def has_open(self) -> bool:
        return any(bar.is_open for bar in self.bars)

    @property
    def has_many(self) -> bool:
        return any(not bar.summary_id for bar in self.bars)


# -- drawing ------------------------------------------------------------------------------------------------


def is_small(lanes: Sequence[Lane]) -> bool:
    """Whether every message of these lanes can have a mark."""
    messages = sum(lane.end_depth - lane.start_depth + 1 for lane in lanes)
    return messages <= EVERY_MESSAGE and max((lane.end_depth for lane in lanes), default=0) <= EVERY_DEPTH


def draw(
    lanes: Sequence[Lane],
    spans: Sequence[SummarySpan],
    histories: Mapping[int, TipHistory],
    budget: Budget | None = None,
    places: Sequence[Place] = (),
    *,
    first: int = 1,
    guests: Collection[int] = (),
) -> Picture:
    """The picture of some lanes. ``histories`` by tip; without ``budget`` no gauges.

    ``first``: the number that lanes are numbered from; ``guests``: ids of lanes that are numbered on another page.
    """
    drawn = _drawn_lanes(lanes, places)
    in_use = {tip.summary_id for tip in histories.values()}
    here = [span for span in spans if span.cutoff_lane_id in drawn]
    bars = list(_bars(here, first_covered(spans, lanes), in_use))
    depths = {depth for lane in drawn.values() for depth in lane.messages.values()}
    for bar in bars:
        if bar.is_shared:
            continue
        [span] = bar.spans
        drawn[span.cutoff_lane_id].reach(span.cutoff_depth)
        depths.add(span.cutoff_depth)
        if span.anchor_lane_id in drawn:
            drawn[span.anchor_lane_id].reach(span.anchor_depth)
            # The anchors of other summaries have no place: a long branch has dozens of them.
            depths |= {span.anchor_depth} if bar.is_in_use else set()
    order = _numbered(drawn.values(), first, guests)
    for lane in order:
        lane.gauge = _gauge(lane.lane, histories, budget)
        depths |= {lane.start, lane.end}
    scale = make_scale(depths, _LEFT)
    for lane in order:
        own = [bar for bar in bars if bar.spans[0].cutoff_lane_id == lane.lane_id]
        for bar in own:
            _extend_bar(bar, lane, scale)
        lane.bars = list(_in_strips(own))
    _add_marks(drawn, scale)
    for lane in order:
        _extend(lane, scale)
    _pack(order)
    axis = _AXIS if scale.folds else _AXIS - _FOLD_LABELS
    rows = _stack(order, axis)
    for lane in order:
        lane.path = _path(lane, scale)
    shown = {span.summary_id for lane in order for bar in lane.bars for span in bar.spans}
    left_out = [span for span in here if span.summary_id not in shown]
    return Picture(axis=axis, scale=scale, rows=rows, lanes=order, left_out=left_out)


# -- lanes --------------------------------------------------------------------------------------------------


def _drawn_lanes(lanes: Sequence[Lane], places: Iterable[Place]) -> dict[int, DrawnLane]:
    """These lanes, and those that they leave, by id."""
    found = {lane.start_id: DrawnLane(lane.start_id, lane.start_depth, lane.end_depth, lane) for lane in lanes}
    for lane in lanes:
        drawn = found[lane.start_id]
        drawn.messages |= {lane.start_id: lane.start_depth, lane.end_id: lane.end_depth}
        if lane.parent_id is None or lane.parent_lane_id is None:
            continue
        depth = lane.start_depth - 1
        drawn.parent = parent = found.setdefault(lane.parent_lane_id, DrawnLane(lane.parent_lane_id, depth, depth))
        parent.reach(depth)
        parent.messages[lane.parent_id] = depth
        parent.forks[lane.parent_id] += 1
    for place in places:
        # A message that was stored since the lanes were read may be on another one.
        if place.lane_id in found:
            found[place.lane_id].messages[place.message_id] = place.depth
    return found


def _numbered(lanes: Iterable[DrawnLane], first: int, guests: Collection[int]) -> list[DrawnLane]:
    """Each lane, then its forks, the deepest first; of one message's forks the oldest first, and so the roots."""

    def path(lane: DrawnLane) -> tuple[tuple[int, int], ...]:
        return (*path(lane.parent), (-lane.start, lane.lane_id)) if lane.parent else ((0, lane.lane_id),)

    found = sorted(lanes, key=path)
    for number, lane in enumerate((lane for lane in found if lane.lane and lane.lane_id not in guests), first):
        lane.number = number
    return found


def _gauge(lane: Lane | None, histories: Mapping[int, TipHistory], budget: Budget | None) -> Gauge | None:
    tip = histories.get(lane.end_id) if lane and lane.is_tip else None
    return gauge_of(tip, budget) if tip and budget else None


def gauge_of(tip: TipHistory, budget: Budget) -> Gauge:
    share = tip.tokens / budget.available
    return Gauge(
        # Stored sums may be wrong, and a browser accepts no negative width.
        filled=round(max(0.0, min(1.0, share)) * GAUGE_WIDTH),
        threshold=round(min(1.0, budget.threshold / budget.available) * GAUGE_WIDTH),
        percent=tip.tokens * 100 // budget.available,
        is_over=tip.tokens > budget.threshold,
    )


# -- summaries ----------------------------------------------------------------------------------------------


def _bars(spans: Iterable[SummarySpan], covered: Mapping[int, int], in_use: Collection[int | None]) -> Iterator[Bar]:
    """One for each summary in use, and for the newest of the others, live ones first; other live ones share one."""
    ranked = sorted(spans, key=lambda span: (span.summary_id not in in_use, not span.is_live, -span.summary_id))
    most = MOST_SUMMARIES + sum(span.summary_id in in_use for span in ranked)
    shared: dict[int, list[SummarySpan]] = defaultdict(list)
    for span in ranked[most:]:
        if span.is_live:
            shared[span.cutoff_lane_id].append(span)
    alone = [(False, [span]) for span in ranked[:most]]
    for is_shared, group in [*alone, *((True, group) for group in shared.values())]:
        yield Bar(
            first=min(covered[span.summary_id] for span in group),
            last=max(span.cutoff_depth for span in group),
            spans=group,
            is_in_use=group[0].summary_id in in_use,
            is_shared=is_shared,
        )


def first_covered(spans: Sequence[SummarySpan], lanes: Iterable[Lane]) -> dict[int, int]:
    """For each summary the depth of the first message that it, and no applicable summary before it, covers."""
    parents = {lane.start_id: lane for lane in lanes}
    found = {}
    for span in spans:
        above = _above(span, parents)
        before = [
            other.cutoff_depth
            for other in spans
            if other.summary_id < span.summary_id
            and other.cutoff_depth < span.cutoff_depth
            and other.anchor_depth <= above.get(other.anchor_lane_id, 0)
            and (other.is_live or not span.is_live)
        ]
        found[span.summary_id] = max(before, default=0) + 1
    return found


def _above(span: SummarySpan, lanes: Mapping[int, Lane]) -> dict[int, int]:
    """Lane → the depth down to which it belongs to the path that ends at the summary's anchor."""
    found = {span.anchor_lane_id: span.anchor_depth}
    lane = lanes.get(span.anchor_lane_id)
    while lane and lane.parent_lane_id is not None:
        found[lane.parent_lane_id] = lane.start_depth - 1
        lane = lanes.get(lane.parent_lane_id)
    return found


def _extend_bar(bar: Bar, lane: DrawnLane, scale: Scale) -> None:
    bar.is_open = bar.first < lane.start
    bar.x1 = scale.x(max(bar.first, lane.start)) - scale.reach
    if bar.first > lane.start:
        # Not over the bar before it, where both ends are within one collapsed stretch.
        bar.x1 = max(bar.x1, scale.x(bar.first - 1) + scale.reach + 3)
    # The end of a shared bar has no place on the scale: the next bar begins right after it.
    end = scale.x(bar.last) + (scale.reach if len(bar.spans) == 1 else 0)
    narrowest = len(str(bar.number)) * _SMALL_DIGIT + 6 if bar.number else _NARROWEST_BAR
    bar.x2 = max(end, bar.x1 + narrowest)


def _in_strips(bars: Iterable[Bar]) -> Iterator[Bar]:
    """Bars that do not touch share a strip; those in use are nearest to the line, and others may find no room."""
    strips: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (not bar.is_in_use, not bar.is_live, bar.x1, -bar.summary_id)):
        free = (strip for strip in strips if all(bar.x1 > other.x2 or bar.x2 < other.x1 for other in strip))
        strip = next(free, None)
        if strip is not None:
            strip.append(bar)
        elif len(strips) < _MOST_STRIPS or bar.is_in_use:
            strips.append([bar])
    for level, strip in enumerate(strips):
        for bar in sorted(strip, key=lambda bar: bar.x1):
            bar.top = -_STRIP * (level + 1) - 5
            bar.bottom = bar.top + _STRIP
            yield bar


# -- marks --------------------------------------------------------------------------------------------------


def _add_marks(drawn: Mapping[int, DrawnLane], scale: Scale) -> None:
    for lane in drawn.values():
        lane.marks = [_message(message_id, depth, lane, scale) for message_id, depth in lane.messages.items()]
        # Each message has a mark or is in a stretch between two of them.
        for above, below in pairwise(sorted({*lane.messages.values(), lane.start, lane.end})):
            if below - above > 1:
                x1, x2 = scale.x(above) + REACH, scale.x(below) - REACH
                part = Mark(shape=Shape.STRETCH, first=above + 1, last=below - 1, x1=x1, x2=x2, top=-6, bottom=6)
                lane.marks.append(part)
    # One mark for all summaries with the same cutoff, and one for all with the same anchor. An anchor without a bar
    # would be read as another summary's.
    grouped: dict[tuple[Shape, Place], list[SummarySpan]] = defaultdict(list)
    bars = (bar for lane in drawn.values() for bar in lane.bars if not bar.is_shared)
    for span in (span for bar in bars for span in bar.spans):
        grouped[Shape.CUTOFF, Place(span.cutoff_id, span.cutoff_depth, span.cutoff_lane_id)].append(span)
        grouped[Shape.ANCHOR, Place(span.anchor_id, span.anchor_depth, span.anchor_lane_id)].append(span)
    for (shape, place), group in grouped.items():
        if place.lane_id in drawn:
            lane = drawn[place.lane_id]
            lane.marks.append(_of_summaries(shape, place, group, lane, scale))
    for lane in drawn.values():
        lane.marks.sort(key=lambda mark: (mark.first, mark.x))


def _message(message_id: int, depth: int, lane: DrawnLane, scale: Scale) -> Mark:
    stored, forks, x = lane.lane, lane.forks[message_id], scale.x(depth)
    is_start = stored is not None and message_id == stored.start_id
    if stored and message_id == stored.end_id:
        shape = Shape.TIP if stored.is_tip else Shape.END
    elif forks:
        shape = Shape.FORK
    else:
        shape = Shape.START if is_start else Shape.MESSAGE
    return Mark(
        shape=shape,
        message_id=message_id,
        first=depth,
        last=depth,
        x1=x - REACH,
        x2=x + REACH,
        top=-REACH,
        bottom=REACH,
        forks=forks,
        is_start=is_start,
    )


def _of_summaries(shape: Shape, place: Place, spans: Sequence[SummarySpan], lane: DrawnLane, scale: Scale) -> Mark:
    if shape == Shape.CUTOFF:
        # From the end of the bar down to the line.
        bars = [bar for bar in lane.bars if bar.spans[0] in spans]
        x, top, bottom = max(bar.x2 for bar in bars), min(bar.top for bar in bars), 7
    else:
        # Below the line, so that it hides no message.
        x, top, bottom = scale.x(place.depth), 6, 18
    return Mark(
        shape=shape,
        message_id=place.message_id,
        first=place.depth,
        last=place.depth,
        x1=x - 7,
        x2=x + 7,
        top=top,
        bottom=bottom,
        spans=spans,
    )


# -- rows ---------------------------------------------------------------------------------------------------


def _extend(lane: DrawnLane, scale: Scale) -> None:
    """From the message that it forks from to the end of its label, or of its bars."""
    end = scale.x(lane.end)
    lane.left = scale.x(lane.start) - _BESIDE_START if lane.parent is None else scale.x(lane.start - 1)
    lane.right = max([end + lane.after, *(bar.x2 + REACH for bar in lane.bars)])
    lane.label_x = end + _BESIDE_TIP if lane.lane else lane.left


def _pack(lanes: Iterable[DrawnLane]) -> None:
    """Puts each lane into the first row below the lane that it leaves in which it touches nothing.

    A lane takes its extent of a row, and its line comes down to the left end of that through all rows between. A lane
    is placed before its forks, and deeper forks first. So everything already placed below the lane that it leaves is
    to its right, and of each row only the leftmost x is needed.
    """
    # The leftmost x of each row, with lines that pass through it; it never decreases from one row to the next.
    taken: list[int] = []
    for lane in lanes:
        first = lane.parent.row + 1 if lane.parent else 0
        fits = (row for row in range(first, len(taken)) if lane.right + APART < taken[row])
        lane.row = next(fits, len(taken))
        if lane.row == len(taken):
            taken.append(lane.left)
        # A root has no line from above, but counts as if it had: else its forks would meet what is left of them.
        taken[first : lane.row + 1] = [min(lane.left, other) for other in taken[first : lane.row + 1]]


def _stack(lanes: Iterable[DrawnLane], top: int) -> list[Row]:
    """The stripes, each as high as its contents; sets the y of each lane's line."""
    rows = []
    for _, group in groupby(sorted(lanes, key=lambda lane: lane.row), lambda lane: lane.row):
        inside = list(group)
        above = max([_ABOVE_LINE, *(9 - bar.top for lane in inside for bar in lane.bars)])
        has_anchors = any(mark.shape == Shape.ANCHOR for lane in inside for mark in lane.marks)
        rows.append(Row(top, above + (_BELOW_ANCHORS if has_anchors else _BELOW_LINE)))
        for lane in inside:
            lane.y = top + above
        top += rows[-1].height
    return rows


def _path(lane: DrawnLane, scale: Scale) -> str:
    """Down from the message that it forks from, and along its messages; not where a stretch is drawn."""
    start = scale.x(lane.start)
    fork = f"M{start} 0"
    if lane.parent:
        x = lane.left
        fork = f"M{x} {lane.parent.y - lane.y + 5}V{-_CURVE}Q{x} 0 {min(x + _CURVE, start)} 0H{start}"
    gaps = (f"H{mark.x1}M{mark.x2} 0" for mark in lane.marks if mark.shape == Shape.STRETCH)
    return f"{fork}{''.join(gaps)}H{scale.x(lane.end)}"
