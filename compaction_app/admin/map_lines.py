"""The lanes of a branch map while it is made, and the order in which they are numbered. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from compaction_app.admin.map_parts import Bar, Lane


@dataclass(slots=True)
class Line:
    """A lane while the map is made; one that only forks tell of grows to where they leave."""

    id: int
    start: int
    end: int
    lane: Lane | None = None
    bars: list[Bar] = field(default_factory=list)
    #: (message, depth) → lanes that leave there.
    forks: dict[tuple[int, int], int] = field(default_factory=dict)
    #: As the picture and the table name it; 0 for one of another page.
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
    """Each lane, then its forks, the deepest first; of one message's forks the eldest first.

    ``guests``: lanes that have their number on another page.
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
        # A stack: what is to come first is put on last.
        siblings.sort(key=lambda line: (line.start, -line.id))
    below[None].sort(key=lambda line: -line.id)
    waiting = below[None]
    while waiting:
        line = waiting.pop()
        yield line
        waiting += below.get(line.id, [])
