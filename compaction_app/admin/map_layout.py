"""The layout of a session's branch map: a row for every lane, a bar for every summary, a mark for every message. Pure.

Messages run from left to right by depth. A lane's forks are below it, the deepest fork nearest: the line down to a
shallower fork then passes to the left of everything between, and no line crosses another. Lanes that fit side by side
share a row. A summary is a bar above the lane that contains its cutoff, over what it covers and no summary before it
does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from compaction_app.admin.map_parts import (
    CHARACTER,
    GAUGE_WIDTH,
    Bar,
    DrawnLane,
    Gauge,
    Mark,
    MarkKind,
    Picture,
    Place,
    Row,
    Scale,
    Stretch,
    make_scale,
)

if TYPE_CHECKING:
    # Types only: the layout is given values and reads nothing.
    from compaction_app.tree.lanes import Lane, SummarySpan, TipHistory
    from compaction_app.values import Budget

#: Up to this depth, and this many messages, every message has a mark.
EVERY_DEPTH = 24
EVERY_MESSAGE = 120
#: Up to so many lanes each may have its own row. With more the map becomes wider rather than higher.
FEW_LANES = 8
_MOST_STRIPS = 3

# Pixels.
#: Room for half of the first depth on the axis.
_LEFT = 30
_MARGIN = 14
_AXIS = 40
_FOLD_LABELS = 14
_STRIP = 11
_BAR = 7
_ABOVE_LINE = 14
_BELOW_LINE = 14
_BELOW_ANCHORS = 20
_CURVE = 9
_BESIDE_TIP = 14
_BESIDE_START = 24
#: A character in bold.
BOLD_CHARACTER = 8
_WORD_SPACE = 5
#: Between two lanes of a row, and between a lane and a line that passes it.
APART = 10
#: To each side of a mark, for the pointer.
REACH = 8
#: The width of the narrowest stretch between two marks, for the pointer.
_NARROWEST = 4
#: Bars drawn at most beside those in use at a tip; other live summaries share one bar a lane.
MOST_SUMMARIES = 6


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
    """The picture of some lanes. ``spans`` newest first; ``histories`` by tip; without ``budget`` no gauges.

    ``first``: the number that lanes are numbered from; ``guests``: ids of lanes that are numbered on another page.
    """
    return _Drawing(lanes, spans, histories, budget, places, first, guests).picture()


def is_small(lanes: Sequence[Lane]) -> bool:
    """Whether every message of these lanes can have a mark."""
    messages = sum(lane.end_depth - lane.start_depth + 1 for lane in lanes)
    return messages <= EVERY_MESSAGE and max((lane.end_depth for lane in lanes), default=0) <= EVERY_DEPTH


class _Drawing:
    def __init__(
        self,
        lanes: Sequence[Lane],
        spans: Sequence[SummarySpan],
        histories: Mapping[int, TipHistory],
        budget: Budget | None,
        places: Sequence[Place],
        first: int,
        guests: Collection[int],
    ) -> None:
        self.histories, self.budget = histories, budget
        self.lines = make_lines(lanes)
        self.places: dict[int, list[Place]] = defaultdict(list)
        for place in places:
            self.places[place.lane_id].append(place)
        self.in_use = {tip.summary_id for tip in histories.values()}
        here = [span for span in spans if span.cutoff_lane_id in self.lines]
        self.spans = choose(here, self.in_use)
        chosen = {span.summary_id for span in self.spans}
        self.others = [span for span in here if span.summary_id not in chosen]
        for span in self.spans:
            self.lines[span.cutoff_lane_id].reach(span.cutoff_depth)
            if span.anchor_lane_id in self.lines:
                self.lines[span.anchor_lane_id].reach(span.anchor_depth)
        self.order = numbered(self.lines.values(), first, guests)
        self.gauges = {line.id: gauge for line in self.order if (gauge := self._gauge(line))}
        after = {line.id: self._after(line) for line in self.order}
        room = wanted_room(self.order, after) if len(self.order) > FEW_LANES else {}
        self.scale = make_scale(self._depths(places), _LEFT, room)
        self.axis = _AXIS if self.scale.folds else _AXIS - _FOLD_LABELS
        self._add_bars(first_covered(spans, lanes))
        self.strips = {line.id: self._strips(line) for line in self.lines.values()}
        bars = [bar for strips in self.strips.values() for strip in strips for bar in strip]
        drawn = {bar.summary_id for bar in bars}
        # An anchor without a bar would be read as another summary's.
        self.spans = [span for span in self.spans if span.summary_id in drawn]
        self.left_out = len(here) - sum(len(bar.summary_ids) for bar in bars)
        self.y: dict[int, int] = {}

    def _depths(self, places: Sequence[Place]) -> set[int]:
        found = {place.depth for place in places}
        for line in self.lines.values():
            found |= {line.start, line.end}
            found |= {depth for _, depth in line.forks}
        for span in self.spans:
            found.add(span.cutoff_depth)
            # The anchors of other summaries have no place: a long branch has dozens of them.
            if span.summary_id in self.in_use and span.anchor_lane_id in self.lines:
                found.add(span.anchor_depth)
        return found

    # -- summaries ----------------------------------------------------------------------------------------

    def _add_bars(self, first: Mapping[int, int]) -> None:
        for span in self.spans:
            self._add_bar([span], first[span.summary_id])
        others: dict[int, list[SummarySpan]] = defaultdict(list)
        for span in self.others:
            if span.is_live:
                others[span.cutoff_lane_id].append(span)
        for spans in others.values():
            self._add_bar(spans, min(first[span.summary_id] for span in spans))

    def _add_bar(self, spans: Sequence[SummarySpan], begins: int) -> None:
        """One bar for these summaries of one lane."""
        newest = max(spans, key=lambda span: (span.cutoff_depth, span.summary_id))
        line, scale = self.lines[newest.cutoff_lane_id], self.scale
        x1 = scale.x(max(begins, line.start)) - scale.reach
        if begins > line.start:
            # Not over the bar before it, where both ends are within one collapsed stretch.
            x1 = max(x1, scale.x(begins - 1) + scale.reach + 3)
        # The end of a shared bar has no place on the scale: the next bar begins right after it.
        x2 = scale.x(newest.cutoff_depth) + (scale.reach if len(spans) == 1 else 0)
        bar = Bar(
            summary_ids=tuple(sorted(span.summary_id for span in spans)),
            x1=x1,
            x2=max(x2, x1 + _BAR),
            y=0,
            first=begins,
            last=newest.cutoff_depth,
            is_live=newest.is_live,
            is_in_use=newest.summary_id in self.in_use,
            is_open=begins < line.start,
        )
        line.bars.append(bar)

    def _strips(self, line: Line) -> list[list[Bar]]:
        """Bars that do not touch share a strip; those in use are nearest to the line."""
        strips: list[list[Bar]] = []
        for bar in sorted(line.bars, key=lambda bar: (not bar.is_in_use, not bar.is_live, bar.x1, -bar.summary_id)):
            free = (strip for strip in strips if all(bar.x1 > other.x2 or bar.x2 < other.x1 for other in strip))
            strip = next(free, None)
            if strip is not None:
                strip.append(bar)
            elif len(strips) < _MOST_STRIPS or bar.is_in_use:
                strips.append([bar])
        return strips

    # -- rows ---------------------------------------------------------------------------------------------

    def picture(self) -> Picture:
        extents = {line.id: self._extent(line) for line in self.lines.values()}
        row_of = pack(self.order, extents)
        rows = self._rows(row_of)
        lanes = tuple(self._lane(line, row_of[line.id], extents[line.id]) for line in self.order)
        newest = max((line.lane.end_id, line.id) for line in self.order if line.lane) if lanes else (0, 0)
        return Picture(
            width=max((right for _, right in extents.values()), default=_LEFT) + _MARGIN,
            height=(rows[-1].top + rows[-1].height if rows else self.axis) + 4,
            axis=self.axis,
            scale=self.scale,
            rows=rows,
            lanes=lanes,
            newest=extents.get(newest[1], (0, 0))[1],
            left_out=self.left_out,
        )

    def _extent(self, line: Line) -> tuple[int, int]:
        """From the message that it forks from to the end of its label, or of its bars."""
        scale = self.scale
        left = scale.x(line.start - 1) if line.parent_id is not None else scale.x(line.start) - _BESIDE_START
        right = scale.x(line.end) + self._after(line)
        return left, max([right, *(bar.x2 + REACH for bar in line.bars)])

    def _after(self, line: Line) -> int:
        """Pixels from a lane's end to the end of its label."""
        gauge = self.gauges.get(line.id)
        if line.lane is None:
            return REACH
        text: float = len(str(line.number)) * BOLD_CHARACTER
        if gauge:
            character = BOLD_CHARACTER if gauge.is_over else CHARACTER
            text = max(GAUGE_WIDTH, text + _WORD_SPACE + len(gauge.label) * character)
        return _BESIDE_TIP + ceil(text)

    def _rows(self, row_of: Mapping[int, int]) -> tuple[Row, ...]:
        """The stripes, each as high as its contents; sets the y of each lane's line."""
        inside: dict[int, list[Line]] = defaultdict(list)
        for line in self.order:
            inside[row_of[line.id]].append(line)
        anchored = {span.anchor_lane_id for span in self.spans}
        rows: list[Row] = []
        top = self.axis
        for row in sorted(inside):
            above = _ABOVE_LINE + _STRIP * max(len(self.strips[line.id]) for line in inside[row])
            below = _BELOW_ANCHORS if any(line.id in anchored for line in inside[row]) else _BELOW_LINE
            self.y |= {line.id: top + above for line in inside[row]}
            rows.append(Row(top, above + below))
            top += above + below
        return tuple(rows)

    def _lane(self, line: Line, row: int, extent: tuple[int, int]) -> DrawnLane:
        y, gauge, bars = self.y[line.id], self.gauges.get(line.id), self._bars(line)
        at_end = self.scale.x(line.end) + _BESIDE_TIP
        marks = marks_of(line, self.scale, y, self.places[line.id], self.spans, bars)
        return DrawnLane(
            lane_id=line.id,
            number=line.number,
            is_elsewhere=line.lane is None,
            row=row,
            y=y,
            left=extent[0],
            right=extent[1],
            line=tuple(self.scale.stretches(line.start, line.end)),
            fork=self._fork(line, y),
            bars=bars,
            marks=marks,
            stretches=stretches_of(line, self.scale, marks),
            gauge=replace(gauge, x=at_end, y=y + 1) if gauge else None,
            label_x=at_end if line.lane else extent[0],
            label_y=y - 4 if gauge else y + 4,
        )

    def _bars(self, line: Line) -> tuple[Bar, ...]:
        return tuple(
            replace(bar, y=self.y[line.id] - _ABOVE_LINE // 2 - _STRIP * level - _BAR)
            for level, strip in enumerate(self.strips[line.id])
            for bar in sorted(strip, key=lambda bar: bar.x1)
        )

    def _fork(self, line: Line, y: int) -> str:
        if line.parent_id is None:
            return ""
        x, end = self.scale.x(line.start - 1), self.scale.x(line.start)
        return f"M{x} {self.y[line.parent_id] + 5}V{y - _CURVE}Q{x} {y} {min(x + _CURVE, end)} {y}H{end}"

    # -- gauges -------------------------------------------------------------------------------------------

    def _gauge(self, line: Line) -> Gauge | None:
        """Not yet placed."""
        lane, budget = line.lane, self.budget
        tip = self.histories.get(lane.end_id) if lane and lane.is_tip else None
        if tip is None or budget is None:
            return None
        share = tip.history_tokens / budget.available
        return Gauge(
            x=0,
            y=0,
            # Stored sums may be wrong, and a browser accepts no negative width.
            filled=round(max(0.0, min(1.0, share)) * GAUGE_WIDTH),
            threshold=round(min(1.0, budget.threshold / budget.available) * GAUGE_WIDTH),
            percent=tip.history_tokens * 100 // budget.available,
            is_over=tip.history_tokens > budget.threshold,
        )


# -- lanes --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Line:
    """A lane during the layout. One known only by its forks extends from the first to the last of them."""

    id: int
    start: int
    end: int
    lane: Lane | None = None
    bars: list[Bar] = field(default_factory=list)
    #: (message, depth) → how many lanes leave there.
    forks: dict[tuple[int, int], int] = field(default_factory=dict)
    #: As in the picture and the table; 0 for a lane of another page.
    number: int = 0

    @property
    def parent_id(self) -> int | None:
        """The lane that it leaves."""
        return self.lane.parent_lane_id if self.lane else None

    def reach(self, depth: int) -> None:
        if self.lane is None:
            self.start, self.end = min(self.start, depth), max(self.end, depth)


def make_lines(lanes: Sequence[Lane]) -> dict[int, Line]:
    """These lanes, and those that they leave, by id."""
    lines = {lane.start_id: Line(lane.start_id, lane.start_depth, lane.end_depth, lane) for lane in lanes}
    for lane in lanes:
        if lane.parent_id is None or lane.parent_lane_id is None:
            continue
        depth = lane.start_depth - 1
        line = lines.setdefault(lane.parent_lane_id, Line(lane.parent_lane_id, depth, depth))
        line.reach(depth)
        fork = lane.parent_id, depth
        line.forks[fork] = line.forks.get(fork, 0) + 1
    return lines


def numbered(lines: Iterable[Line], first: int = 1, guests: Collection[int] = ()) -> list[Line]:
    """Each lane, then its forks, the deepest first; of one message's forks the oldest first.

    ``guests``: lanes that are numbered on another page.
    """
    found = list(_in_order(lines))
    for number, line in enumerate((line for line in found if line.lane and line.id not in guests), first):
        line.number = number
    return found


def _in_order(lines: Iterable[Line]) -> Iterator[Line]:
    below: dict[int | None, list[Line]] = defaultdict(list)
    for line in lines:
        below[line.parent_id].append(line)
    for siblings in below.values():
        # A stack: the first is pushed last.
        siblings.sort(key=lambda line: (line.start, -line.id))
    below[None].sort(key=lambda line: -line.id)
    waiting = below[None]
    while waiting:
        line = waiting.pop()
        yield line
        waiting += below.get(line.id, [])


# -- summaries ----------------------------------------------------------------------------------------------


def choose(spans: Sequence[SummarySpan], in_use: set[int | None]) -> list[SummarySpan]:
    """The summaries to draw: those in use, and the newest of the others, live ones before retired ones."""
    used = [span for span in spans if span.summary_id in in_use]
    others = [span for span in spans if span.summary_id not in in_use]
    others.sort(key=lambda span: (not span.is_live, -span.summary_id))
    return used + others[:MOST_SUMMARIES]


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
    lane_id: int | None = span.anchor_lane_id
    depth = span.anchor_depth
    found: dict[int, int] = {}
    while lane_id is not None:
        found[lane_id] = depth
        lane = lanes.get(lane_id)
        if lane is None:
            break
        lane_id, depth = lane.parent_lane_id, lane.start_depth - 1
    return found


# -- rows ---------------------------------------------------------------------------------------------------


def pack(lines: Iterable[Line], extents: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Lane → row: the first below the lane that it leaves in which it touches nothing. ``extents``: left, right.

    A lane takes its extent of a row, and its line comes down to the left end of that through all rows between. A lane
    is placed before its forks, and deeper forks first. So everything already placed below the lane that it leaves is
    to its right, and of each row only the leftmost x is needed.
    """
    rows: dict[int, int] = {}
    # The leftmost x of each row, with lines that pass through it; it never decreases from one row to the next.
    taken: list[int] = []
    for line in lines:
        left, right = extents[line.id]
        first = rows[line.parent_id] + 1 if line.parent_id is not None else 0
        row = next((row for row in range(first, len(taken)) if right + APART < taken[row]), len(taken))
        if row == len(taken):
            taken.append(left)
        rows[line.id] = row
        # A root has no line from above, but counts as if it had: else its forks would meet what is left of them.
        taken[first : row + 1] = [min(left, other) for other in taken[first : row + 1]]
    return rows


def wanted_room(lines: Sequence[Line], after: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """What the scale must leave free for lanes to share rows: depth → (an earlier depth, pixels from there).

    Where everything below a fork ends before the next deeper fork of the same lane, it can share a row if there is
    room for its labels. ``after``: pixels to the right of each lane's end.
    """
    ends = {line.id: (line.end, after[line.id]) for line in lines}
    forks: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    # Backwards: the forks of a lane come after it.
    for line in reversed(lines):
        if line.parent_id is not None:
            (end, room), (above, above_room) = ends[line.id], ends[line.parent_id]
            forks[line.parent_id][line.start - 1].append(line.id)
            ends[line.parent_id] = max(end, above), max(room, above_room)
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for by_depth in forks.values():
        for depth, deeper in pairwise(sorted(by_depth)):
            for end, room in (ends[lane_id] for lane_id in by_depth[depth]):
                if end < deeper:
                    found[deeper].append((end, room + APART + 1))
    return dict(found)


# -- marks --------------------------------------------------------------------------------------------------


def marks_of(
    line: Line, scale: Scale, y: int, places: Collection[Place], spans: Sequence[SummarySpan], bars: Sequence[Bar]
) -> tuple[Mark, ...]:
    """Along the lane, which is also the order of the Tab key. ``bars``: this lane's own."""
    marks = [*_messages(line, scale, y, places), *_cutoffs(line, y, spans, bars), *_anchors(line, scale, y, spans)]
    return tuple(sorted(marks, key=lambda mark: (mark.depth, mark.x)))


def stretches_of(line: Line, scale: Scale, marks: Iterable[Mark]) -> tuple[Stretch, ...]:
    """The messages between the marks of a lane: each message has a mark or is in one of these."""
    depths = sorted({mark.depth for mark in marks if mark.is_message} | {line.start, line.end})
    return tuple(_between(scale, one, other) for one, other in pairwise(depths) if other - one > 1)


def _between(scale: Scale, above: int, below: int) -> Stretch:
    left, right = scale.x(above) + REACH, scale.x(below) - REACH
    width = max(right - left, _NARROWEST)
    return Stretch(first=above + 1, last=below - 1, x=(left + right - width) // 2, width=width)


def _messages(line: Line, scale: Scale, y: int, places: Collection[Place]) -> Iterator[Mark]:
    lane = line.lane
    found = {place.message_id: place.depth for place in places}
    found |= dict(line.forks.keys())
    if lane:
        found |= {lane.start_id: lane.start_depth, lane.end_id: lane.end_depth}
    for message_id, depth in found.items():
        forks = line.forks.get((message_id, depth), 0)
        yield Mark(
            kind=_kind(message_id, lane, forks),
            message_id=message_id,
            depth=depth,
            x=scale.x(depth),
            y=y,
            forks=forks,
            is_start=lane is not None and message_id == lane.start_id,
        )


def _cutoffs(line: Line, y: int, spans: Sequence[SummarySpan], bars: Sequence[Bar]) -> Iterator[Mark]:
    """From the end of the bar down to the line."""
    at: dict[tuple[int, int], list[Bar]] = defaultdict(list)
    over_it = {bar.summary_id: bar for bar in bars}
    for span in spans:
        if span.cutoff_lane_id == line.id:
            at[span.cutoff_id, span.cutoff_depth].append(over_it[span.summary_id])
    for (message_id, depth), over in at.items():
        x, top, bottom = max(bar.x2 for bar in over), min(bar.y for bar in over) - 2, y + 7
        yield Mark(
            kind=MarkKind.CUTOFF,
            message_id=message_id,
            depth=depth,
            x=x,
            y=y,
            summary_ids=tuple(sorted(bar.summary_id for bar in over)),
            path=f"M{x} {top}V{bottom}",
            top=top,
            bottom=bottom,
            is_retired=not any(bar.is_live for bar in over),
        )


def _anchors(line: Line, scale: Scale, y: int, spans: Sequence[SummarySpan]) -> Iterator[Mark]:
    """Below the line, so that they hide no message."""
    at: dict[tuple[int, int], list[SummarySpan]] = defaultdict(list)
    for span in spans:
        if span.anchor_lane_id == line.id:
            at[span.anchor_id, span.anchor_depth].append(span)
    for (message_id, depth), anchored in at.items():
        x = scale.x(depth)
        yield Mark(
            kind=MarkKind.ANCHOR,
            message_id=message_id,
            depth=depth,
            x=x,
            y=y,
            summary_ids=tuple(sorted(span.summary_id for span in anchored)),
            path=f"M{x} {y + 7}l5 5l-5 5l-5 -5z",
            top=y + 6,
            bottom=y + 18,
            is_retired=not any(span.is_live for span in anchored),
        )


def _kind(message_id: int, lane: Lane | None, forks: int) -> MarkKind:
    if lane and message_id == lane.end_id:
        return MarkKind.TIP if lane.is_tip else MarkKind.END
    if forks:
        return MarkKind.FORK
    return MarkKind.START if lane and message_id == lane.start_id else MarkKind.MESSAGE
