"""Which row of the branch map each lane stands in: lanes that lie side by side share one. Pure.

A lane takes a stretch of its row, from the message that it forks from to the end of what is written at its tip, and
its line comes down to that stretch's left end through all rows between. Lanes are placed in the order of
``map_lines.numbered``, a lane before its forks and the deeper forks first. So whatever already stands below the lane
that one leaves stands to its right, and of each row only the leftmost thing in it needs to be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from compaction_app.admin.map_lines import Line

#: Pixels between two lanes of a row, and between a lane and a line that passes it.
APART = 10


def pack(lines: Iterable[Line], extents: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Lane → row: the first below the lane that it leaves in which it touches nothing. ``extents``: left, right."""
    rows: dict[int, int] = {}
    # The leftmost x of each row, lines that pass through it included; it never falls from one row to the next.
    taken: list[int] = []
    for line in lines:
        left, right = extents[line.id]
        first = rows[line.parent_id] + 1 if line.parent_id is not None else 0
        row = next((row for row in range(first, len(taken)) if right + APART < taken[row]), len(taken))
        if row == len(taken):
            taken.append(left)
        rows[line.id] = row
        # A root has no line from above. It counts as if it had, or its forks would meet what stands left of them.
        taken[first : row + 1] = [min(left, other) for other in taken[first : row + 1]]
    return rows


def wanted_room(lines: Sequence[Line], after: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """What the scale must leave free for lanes to share rows: depth → (an earlier depth, pixels from there).

    Wherever all that goes on from a fork ends before the next deeper fork of the same lane; without room for what is
    written at its tips it would need rows of its own. ``after``: pixels that it takes to the right of each lane's end.
    """
    ends = {line.id: (line.end, after[line.id]) for line in lines}
    forks: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    # From the last to the first: the forks of a lane come after it.
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
