"""Stretches of a branch, of which no more is read than a page shows: their ends, their sums."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from django.db import connections

from compaction_app import sql
from compaction_app.models import ChatMessage

_COLUMNS = "m.id, m.depth, m.token_count, m.path_tokens"
_JOINED = f"FROM path JOIN {sql.MESSAGES} m ON m.id = path.id "
_PLACES = sql.PATH + f"SELECT {_COLUMNS} {_JOINED} ORDER BY path.depth"
_ROWS = sql.PATH + (f"SELECT m.* {_JOINED} WHERE path.depth <= %(early)s OR path.depth >= %(late)s ORDER BY path.depth")
# From lane to lane, of which there is one a fork: a long stretch costs what a short one does. A message of a lane
# is on the branch down to where the branch leaves that lane. Each end is looked up by itself and by a subquery:
# SQLite takes a list of depths for a reason to read the whole lane, and a condition on a joined row for one to build
# a bloom filter over the whole table.
_LANE = "COALESCE({row}.lane_id, {row}.id)"
_START = f"(SELECT s.depth FROM {sql.MESSAGES} s WHERE s.id = {_LANE})"  # noqa: S608  # names of tables
_END = f"""
SELECT (SELECT e.id FROM {sql.MESSAGES} e WHERE e.lane_id = up.lane AND e.depth = {{depth}} AND e.kind = 'message')
FROM up WHERE up.depth >= {{depth}} AND up.start < {{depth}}
"""  # noqa: S608  # names of tables, never a value
_ENDS = f"""
WITH RECURSIVE up(lane, depth, start) AS (
    SELECT {_LANE.format(row="m")}, m.depth, {_START.format(row="m")}
    FROM {sql.MESSAGES} m WHERE m.id = %(node)s
    UNION ALL
    SELECT {_LANE.format(row="p")}, p.depth, {_START.format(row="p")}
    FROM up JOIN {sql.MESSAGES} l ON l.id = up.lane JOIN {sql.MESSAGES} p ON p.id = l.parent_message_id
    WHERE up.start > %(first)s
), ends(id) AS (
    {_END.format(depth="%(first)s")}
    UNION ALL
    {_END.format(depth="%(last)s")}
    UNION ALL
    SELECT lane FROM up WHERE start IN (%(first)s, %(last)s)
)
SELECT {_COLUMNS} FROM ends JOIN {sql.MESSAGES} m ON m.id = ends.id
ORDER BY m.depth
"""  # noqa: S608  # names of tables, never a value


@dataclass(frozen=True, slots=True)
class Place:
    """A message by what is counted of it."""

    id: int
    depth: int
    tokens: int
    path_tokens: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages of a branch that follow each other."""

    first: Place
    last: Place

    @property
    def messages(self) -> int:
        return self.last.depth - self.first.depth + 1

    @property
    def tokens(self) -> int:
        return self.last.path_tokens - self.first.path_tokens + self.first.tokens


def places(node_id: int, using: str, *, first: int) -> list[Place]:
    """Every message from depth ``first`` down to the node. One query."""
    return _read(_PLACES, using, {"node": node_id, "min_depth": first})


def _read(statement: str, using: str, parameters: dict[str, int]) -> list[Place]:
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return [Place(*row) for row in cursor.fetchall()]


def rows(node_id: int, using: str, *, first: int, early: int, late: int) -> list[ChatMessage]:
    """The messages of :func:`places` as rows, without those between the depths ``early`` and ``late``."""
    parameters = {"node": node_id, "min_depth": first, "early": early, "late": late}
    return list(ChatMessage.objects.using(using).raw(_ROWS, parameters))


def stretch(node_id: int, using: str, *, first: int, last: int) -> Stretch | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    found = _read(_ENDS, using, {"node": node_id, "first": first, "last": last})
    is_there = bool(found) and (found[0].depth, found[-1].depth) == (first, last)
    return Stretch(found[0], found[-1]) if is_there else None


def gaps(found: Iterable[Place], shown: Set[int]) -> dict[int, Stretch]:
    """Stretches of a branch that are not shown, by the id of the shown message that follows each."""
    result: dict[int, Stretch] = {}
    missing: list[Place] = []
    for place in found:
        if place.id not in shown:
            missing.append(place)
        elif missing:
            result[place.id] = Stretch(missing[0], missing[-1])
            missing = []
    return result
