"""Stretches of a branch, of which no more is read than a page shows: their ends, their sums."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from django.db import connections

from compaction_app.models import ChatMessage, sql


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
    return _read(sql.PATH_PLACES, using, {"node": node_id, "min_depth": first})


def _read(statement: str, using: str, parameters: dict[str, int]) -> list[Place]:
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return [Place(*row) for row in cursor.fetchall()]


def rows(node_id: int, using: str, *, first: int, early: int, late: int) -> list[ChatMessage]:
    """The messages of :func:`places` as rows, without those between the depths ``early`` and ``late``."""
    parameters = {"node": node_id, "min_depth": first, "early": early, "late": late}
    return list(ChatMessage.objects.using(using).raw(sql.PATH_OUTSIDE, parameters))


def stretch(node_id: int, using: str, *, first: int, last: int) -> Stretch | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    found = _read(sql.STRETCH_ENDS, using, {"node": node_id, "first": first, "last": last})
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
