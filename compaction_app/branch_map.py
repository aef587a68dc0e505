"""The branch map of a session: which lane stands where, what leaves it, what summarizes it. Pure.

Messages run from left to right by depth, each lane in a row of its own. A lane's forks stand below it, the deepest
fork nearest: what goes down to a shallower fork then passes to the left of all that stands between, and no line
crosses another. A summary is a bar above the line of the lane that holds its cutoff, over what it covers beyond
the summary before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compaction_app.map_parts import (
    GAUGE_WIDTH,
    Bar,
    Filling,
    Gauge,
    Lane,
    Limits,
    Mark,
    MarkKind,
    Picture,
    Place,
    Row,
    Span,
)
from compaction_app.map_scale import make_scale
from compaction_app.map_summaries import choose, first_covered

#: Up to this depth, and this many messages, every message has a mark of its own.
EVERY_DEPTH = 24
EVERY_MESSAGE = 120
_MOST_STRIPS = 3

# Pixels.
_LEFT = 48
_RIGHT = 150
_AXIS = 40
_FOLD_LABELS = 14
_STRIP = 11
_BAR = 7
_ABOVE_LINE = 14
_BELOW_LINE = 20
_CURVE = 9
_BESIDE_TIP = 14


@dataclass(slots=True)
class _Line:
    """A lane while the map is made; one that only forks tell of grows to where they leave."""

    id: int
    start: int
    end: int
    lane: Lane | None = None
    bars: list[Bar] = field(default_factory=list)
    #: (message, depth) → lanes that leave there.
    forks: dict[tuple[int, int], int] = field(default_factory=dict)

    def reach(self, depth: int) -> None:
        if self.lane is None:
            self.start, self.end = min(self.start, depth), max(self.end, depth)


def draw(
    lanes: Sequence[Lane],
    spans: Sequence[Span],
    fillings: Mapping[int, Filling],
    limits: Limits | None = None,
    places: Sequence[Place] = (),
) -> Picture:
    """The picture of some lanes. ``spans`` newest first; ``fillings`` by tip; without ``limits`` no gauges."""
    return _Drawing(lanes, spans, fillings, limits, places).picture()


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
    ) -> None:
        self.fillings, self.limits = fillings, limits
        self.lines = {lane.start_id: _Line(lane.start_id, lane.start_depth, lane.end_depth, lane) for lane in lanes}
        self.places: dict[int, list[Place]] = defaultdict(list)
        for place in places:
            self.places[place.lane_id].append(place)
        self._add_forks(lanes)
        self.in_use = {filling.summary_id for filling in fillings.values()}
        here = [span for span in spans if span.cutoff_lane_id in self.lines]
        self.spans = choose(here, self.in_use)
        chosen = {span.summary_id for span in self.spans}
        self.others = [span for span in here if span.summary_id not in chosen]
        for span in self.spans:
            self.lines[span.cutoff_lane_id].reach(span.cutoff_depth)
            if span.anchor_lane_id in self.lines:
                self.lines[span.anchor_lane_id].reach(span.anchor_depth)
        self.scale = make_scale(self._depths(places), _LEFT)
        self._add_bars(first_covered(spans, lanes))
        self.strips = {line.id: self._strips(line) for line in self.lines.values()}
        bars = [bar for strips in self.strips.values() for strip in strips for bar in strip]
        self.drawn = {bar.summary_id for bar in bars}
        self.left_out = len(here) - sum(len(bar.summary_ids) for bar in bars)
        self.y: dict[int, int] = {}

    def _add_forks(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            if lane.parent_id is None or lane.parent_lane_id is None:
                continue
            depth = lane.start_depth - 1
            line = self.lines.setdefault(lane.parent_lane_id, _Line(lane.parent_lane_id, depth, depth))
            line.reach(depth)
            fork = lane.parent_id, depth
            line.forks[fork] = line.forks.get(fork, 0) + 1

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

    def _strips(self, line: _Line) -> list[list[Bar]]:
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
        rows: list[Row] = []
        axis = _AXIS if self.scale.folds else _AXIS - _FOLD_LABELS
        top, number = axis, 0
        for line in self._in_order():
            number += line.lane is not None
            row = self._row(line, number if line.lane else 0, top)
            rows.append(row)
            top += row.height
        right = max((x for _, x in self.scale.knots), default=_LEFT) + _RIGHT
        return Picture(
            width=right, height=top + 4, axis=axis, scale=self.scale, rows=tuple(rows), left_out=self.left_out
        )

    def _in_order(self) -> Iterator[_Line]:
        """Each lane, then its forks, the deepest first; of one message's forks the eldest first."""
        below: dict[int | None, list[_Line]] = defaultdict(list)
        for line in self.lines.values():
            parent = line.lane.parent_lane_id if line.lane else None
            below[parent].append(line)
        for siblings in below.values():
            # A stack: what is to come first is put on last.
            siblings.sort(key=lambda line: (line.start, -line.id))
        below[None].sort(key=lambda line: -line.id)
        waiting = below[None]
        while waiting:
            line = waiting.pop()
            yield line
            waiting += below.get(line.id, [])

    def _row(self, line: _Line, number: int, top: int) -> Row:
        strips = self.strips[line.id]
        y = top + _ABOVE_LINE + _STRIP * len(strips)
        self.y[line.id] = y
        bars = tuple(
            replace(bar, y=y - _ABOVE_LINE // 2 - _STRIP * level - _BAR)
            for level, strip in enumerate(strips)
            for bar in sorted(strip, key=lambda bar: bar.x1)
        )
        return Row(
            lane_id=line.id,
            number=number,
            top=top,
            height=y + _BELOW_LINE - top,
            y=y,
            line=tuple(self._line(line)),
            fork=self._fork(line, y),
            bars=bars,
            marks=self._marks(line, y, {bar.summary_id: bar for bar in bars}),
            gauge=self._gauge(line, y),
        )

    def _line(self, line: _Line) -> Iterator[tuple[int, int, bool]]:
        return self.scale.stretches(line.start, line.end)

    def _fork(self, line: _Line, y: int) -> str:
        lane = line.lane
        if lane is None or lane.parent_lane_id is None:
            return ""
        x, end = self.scale.x(lane.start_depth - 1), self.scale.x(lane.start_depth)
        return f"M{x} {self.y[lane.parent_lane_id] + 5}V{y - _CURVE}Q{x} {y} {min(x + _CURVE, end)} {y}H{end}"

    def _gauge(self, line: _Line, y: int) -> Gauge | None:
        lane, limits = line.lane, self.limits
        filling = self.fillings.get(lane.end_id) if lane and lane.is_tip else None
        if lane is None or filling is None or limits is None:
            return None
        share = filling.history_tokens / limits.available
        return Gauge(
            x=self.scale.x(lane.end_depth) + _BESIDE_TIP,
            y=y - 4,
            # A session whose sums are wrong is looked at too: a browser takes no negative width.
            filled=round(max(0.0, min(1.0, share)) * GAUGE_WIDTH),
            threshold=round(min(1.0, limits.threshold / limits.available) * GAUGE_WIDTH),
            percent=filling.history_tokens * 100 // limits.available,
            is_over=filling.history_tokens > limits.threshold,
        )

    # -- marks --------------------------------------------------------------------------------------------

    def _marks(self, line: _Line, y: int, bars: Mapping[int, Bar]) -> tuple[Mark, ...]:
        """In the order in which the keyboard goes through them: along the lane."""
        marks = [*self._messages(line, y), *self._cutoffs(line, y, bars), *self._anchors(line, y)]
        return tuple(sorted(marks, key=lambda mark: (mark.depth, mark.x)))

    def _messages(self, line: _Line, y: int) -> Iterator[Mark]:
        lane = line.lane
        found = {place.message_id: place.depth for place in self.places.get(line.id, ())}
        found |= dict(line.forks.keys())
        if lane:
            found |= {lane.start_id: lane.start_depth, lane.end_id: lane.end_depth}
        for message_id, depth in found.items():
            forks = line.forks.get((message_id, depth), 0)
            yield Mark(
                kind=_kind(message_id, lane, forks),
                message_id=message_id,
                depth=depth,
                x=self.scale.x(depth),
                y=y,
                forks=forks,
                is_start=lane is not None and message_id == lane.start_id,
            )

    def _cutoffs(self, line: _Line, y: int, bars: Mapping[int, Bar]) -> Iterator[Mark]:
        """At the end of its bar, down to the line."""
        at: dict[tuple[int, int], list[Bar]] = defaultdict(list)
        for span in self.spans:
            if span.cutoff_lane_id == line.id and span.summary_id in bars:
                at[span.cutoff_id, span.cutoff_depth].append(bars[span.summary_id])
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

    def _anchors(self, line: _Line, y: int) -> Iterator[Mark]:
        """Below the line, so that it hides no message."""
        at: dict[tuple[int, int], list[Span]] = defaultdict(list)
        for span in self.spans:
            if span.anchor_lane_id == line.id and span.summary_id in self.drawn:
                at[span.anchor_id, span.anchor_depth].append(span)
        for (message_id, depth), anchored in at.items():
            x = self.scale.x(depth)
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
