"""The branch map of a session: which lane stands where, what leaves it, what summarizes it. Pure.

Messages run from left to right by depth. A lane's forks stand below it, the deepest fork nearest: what goes down to a
shallower fork then passes to the left of all that stands between, and no line crosses another. Lanes that lie side by
side share a row. A summary is a bar above the line of the lane that holds its cutoff, over what it covers beyond the
summary before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import ceil

from compaction_app.admin.map_lines import Line, make_lines, numbered
from compaction_app.admin.map_marks import REACH, marks_of, stretches_of
from compaction_app.admin.map_parts import (
    GAUGE_WIDTH,
    Bar,
    DrawnLane,
    Filling,
    Gauge,
    Lane,
    Limits,
    Picture,
    Place,
    Row,
    Span,
)
from compaction_app.admin.map_rows import pack, wanted_room
from compaction_app.admin.map_scale import CHARACTER, make_scale
from compaction_app.admin.map_summaries import choose, first_covered

#: Up to this depth, and this many messages, every message has a mark of its own.
EVERY_DEPTH = 24
EVERY_MESSAGE = 120
#: Up to so many lanes each may have a row of its own; of more the map is rather made wider than higher.
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


def draw(
    lanes: Sequence[Lane],
    spans: Sequence[Span],
    fillings: Mapping[int, Filling],
    limits: Limits | None = None,
    places: Sequence[Place] = (),
    *,
    first: int = 1,
    guests: Collection[int] = (),
) -> Picture:
    """The picture of some lanes. ``spans`` newest first; ``fillings`` by tip; without ``limits`` no gauges.

    ``first``: the number that lanes are numbered from; ``guests``: ids of lanes that are numbered on another page.
    """
    return _Drawing(lanes, spans, fillings, limits, places, first, guests).picture()


def is_small(lanes: Sequence[Lane]) -> bool:
    """Whether every message of these lanes can have a mark of its own."""
    messages = sum(lane.end_depth - lane.start_depth + 1 for lane in lanes)
    return messages <= EVERY_MESSAGE and max((lane.end_depth for lane in lanes), default=0) <= EVERY_DEPTH


class _Drawing:
    def __init__(
        self,
        lanes: Sequence[Lane],
        spans: Sequence[Span],
        fillings: Mapping[int, Filling],
        limits: Limits | None,
        places: Sequence[Place],
        first: int,
        guests: Collection[int],
    ) -> None:
        self.fillings, self.limits = fillings, limits
        self.lines = make_lines(lanes)
        self.places: dict[int, list[Place]] = defaultdict(list)
        for place in places:
            self.places[place.lane_id].append(place)
        self.in_use = {filling.summary_id for filling in fillings.values()}
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
            # The anchors of the others stand among what is folded: a long branch has dozens of them.
            if span.summary_id in self.in_use and span.anchor_lane_id in self.lines:
                found.add(span.anchor_depth)
        return found

    # -- summaries ----------------------------------------------------------------------------------------

    def _add_bars(self, first: Mapping[int, int]) -> None:
        for span in self.spans:
            self._add_bar([span], first[span.summary_id])
        others: dict[int, list[Span]] = defaultdict(list)
        for span in self.others:
            if span.is_live:
                others[span.cutoff_lane_id].append(span)
        for spans in others.values():
            self._add_bar(spans, min(first[span.summary_id] for span in spans))

    def _add_bar(self, spans: Sequence[Span], begins: int) -> None:
        """One bar for these summaries of one lane."""
        newest = max(spans, key=lambda span: (span.cutoff_depth, span.summary_id))
        line, scale = self.lines[newest.cutoff_lane_id], self.scale
        x1 = scale.x(max(begins, line.start)) - scale.reach
        if begins > line.start:
            # Not into the bar before it, where both ends stand within one folded stretch.
            x1 = max(x1, scale.x(begins - 1) + scale.reach + 3)
        # The end of several has no place of its own: the bar that goes on from there begins right behind it.
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
        """Bars that do not touch share a strip; those in use stand nearest to the line."""
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
        """From the message that it forks from to the end of what is written beside it, or of its bars."""
        scale = self.scale
        left = scale.x(line.start - 1) if line.parent_id is not None else scale.x(line.start) - _BESIDE_START
        right = scale.x(line.end) + self._after(line)
        return left, max([right, *(bar.x2 + REACH for bar in line.bars)])

    def _after(self, line: Line) -> int:
        """Pixels from a lane's end to the end of what is written beside it."""
        gauge = self.gauges.get(line.id)
        if line.lane is None:
            return REACH
        text: float = len(str(line.number)) * BOLD_CHARACTER
        if gauge:
            character = BOLD_CHARACTER if gauge.is_over else CHARACTER
            text = max(GAUGE_WIDTH, text + _WORD_SPACE + len(gauge.label) * character)
        return _BESIDE_TIP + ceil(text)

    def _rows(self, row_of: Mapping[int, int]) -> tuple[Row, ...]:
        """The stripes, each as high as what stands in it; and for each lane where its line runs."""
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
        """Without its place."""
        lane, limits = line.lane, self.limits
        filling = self.fillings.get(lane.end_id) if lane and lane.is_tip else None
        if filling is None or limits is None:
            return None
        share = filling.history_tokens / limits.available
        return Gauge(
            x=0,
            y=0,
            # A session whose sums are wrong is looked at too: a browser takes no negative width.
            filled=round(max(0.0, min(1.0, share)) * GAUGE_WIDTH),
            threshold=round(min(1.0, limits.threshold / limits.available) * GAUGE_WIDTH),
            percent=filling.history_tokens * 100 // limits.available,
            is_over=filling.history_tokens > limits.threshold,
        )
