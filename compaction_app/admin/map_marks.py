"""The marks of a lane on the branch map: its messages, and the cutoffs and anchors of what is summarized. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from compaction_app.admin.map_lines import Line
from compaction_app.admin.map_parts import Bar, Lane, Mark, MarkKind, Place, Span, Stretch
from compaction_app.admin.map_scale import Scale

#: Pixels that a mark takes to each side, where the pointer finds it.
REACH = 8
#: A stretch is never narrower, so that the pointer finds it between two marks.
_NARROWEST = 4


def marks_of(
    line: Line, scale: Scale, y: int, places: Collection[Place], spans: Sequence[Span], bars: Sequence[Bar]
) -> tuple[Mark, ...]:
    """In the order in which the keyboard goes through them: along the lane. ``bars``: this lane's own."""
    marks = [*_messages(line, scale, y, places), *_cutoffs(line, y, spans, bars), *_anchors(line, scale, y, spans)]
    return tuple(sorted(marks, key=lambda mark: (mark.depth, mark.x)))


def stretches_of(line: Line, scale: Scale, marks: Iterable[Mark]) -> tuple[Stretch, ...]:
    """What stands between the marked messages of a lane: each message of it has a mark, or is in one of these."""
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


def _cutoffs(line: Line, y: int, spans: Sequence[Span], bars: Sequence[Bar]) -> Iterator[Mark]:
    """At the end of its bar, down to the line."""
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


def _anchors(line: Line, scale: Scale, y: int, spans: Sequence[Span]) -> Iterator[Mark]:
    """Below the line, so that it hides no message."""
    at: dict[tuple[int, int], list[Span]] = defaultdict(list)
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
