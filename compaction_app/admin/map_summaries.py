"""Which summaries the branch map draws, and from where on each is drawn. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compaction_app.admin.map_parts import Lane, Span

#: Bars drawn at most, those in use at a tip not counted; the live ones beyond are one bar a lane.
MOST_SUMMARIES = 6


def choose(spans: Sequence[Span], in_use: set[int | None]) -> list[Span]:
    """Those in use, and the newest of the others: the live before the retired."""
    used = [span for span in spans if span.summary_id in in_use]
    others = [span for span in spans if span.summary_id not in in_use]
    others.sort(key=lambda span: (not span.is_live, -span.summary_id))
    return used + others[:MOST_SUMMARIES]


def first_covered(spans: Sequence[Span], lanes: Iterable[Lane]) -> dict[int, int]:
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


def _above(span: Span, lanes: Mapping[int, Lane]) -> dict[int, int]:
    """Lane → how deep it belongs to the path that ends at the summary's anchor."""
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
