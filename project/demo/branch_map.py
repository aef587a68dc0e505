"""The branch map: the tree as lines, each branch in its own lane.

The deepest branch is the trunk and stays in its lane; the others leave it to the right, and each is drawn whole before
the trunk continues. So the indentation of a line depends on the forks above it, not on the number of messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from project.demo.reading import Node


class Mark(StrEnum):
    """What a line of the map shows."""

    FORK = "fork"
    SPAN = "span"
    CUTOFF = "cutoff"
    ANCHOR = "anchor"
    TIP = "tip"


@dataclass(frozen=True, kw_only=True, slots=True)
class MapLine:
    """One line. ``lane`` is the number of lanes to its left."""

    mark: Mark
    lane: int
    #: First and last message of a span; elsewhere the message that is marked.
    first: int
    last: int
    messages: int = 0
    tokens: int = 0
    #: The summary that a cutoff or an anchor belongs to.
    summary: Node | None = None


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Where a lane begins, or continues below a fork."""

    node: Node
    lane: int
    is_side: bool = False


def draw(nodes: Sequence[Node]) -> list[MapLine]:
    """The lines of a session's map. ``nodes`` in the order of their ids: parents before children."""
    tree = _Tree(nodes)
    lines: list[MapLine] = []
    waiting = tree.beginnings(None, 0)
    while waiting:
        beginning = waiting.pop()
        if beginning.is_side:
            fork = beginning.node.parent_id or beginning.node.id
            lines.append(MapLine(mark=Mark.FORK, lane=beginning.lane - 1, first=fork, last=fork))
        last, drawn = tree.run_down(beginning)
        lines += drawn
        waiting += tree.beginnings(last, beginning.lane)
    return lines


class _Tree:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.children: dict[int | None, list[Node]] = defaultdict(list)
        self.cutoffs: dict[int | None, list[Node]] = defaultdict(list)
        self.anchored: dict[int | None, list[Node]] = defaultdict(list)
        for node in nodes:
            if node.is_summary:
                self.cutoffs[node.cutoff_id].append(node)
                self.anchored[node.parent_id].append(node)
            else:
                self.children[node.parent_id].append(node)
        self.heights: dict[int, int] = {}
        for node in reversed(nodes):
            below = (self.heights[child.id] for child in self.children.get(node.id, ()))
            self.heights[node.id] = 1 + max(below, default=0)

    def beginnings(self, parent: int | None, lane: int) -> list[_Beginning]:
        """A stack: side branches are taken first, in order, and the trunk last."""
        found = self.children.get(parent, [])
        if not found:
            return []
        trunk = max(found, key=lambda node: self.heights[node.id])
        sides = [_Beginning(node, lane + 1, is_side=True) for node in found if node is not trunk]
        return [_Beginning(trunk, lane), *reversed(sides)]

    def run_down(self, beginning: _Beginning) -> tuple[int, list[MapLine]]:
        """Follow the lane to the next fork or the tip; returns its id and the lines on the way."""
        lines: list[MapLine] = []
        span: list[Node] = []
        node = beginning.node
        while True:
            span.append(node)
            following = self.children.get(node.id, [])
            marks = self._marks(node, beginning.lane)
            if marks or len(following) != 1:
                lines += [_span(span, beginning.lane), *marks]
                span = []
            if len(following) != 1:
                break
            node = following[0]
        if not following:
            lines.append(MapLine(mark=Mark.TIP, lane=beginning.lane, first=node.id, last=node.id))
        return node.id, lines

    def _marks(self, node: Node, lane: int) -> list[MapLine]:
        found = [(Mark.CUTOFF, summary) for summary in self.cutoffs.get(node.id, ())]
        found += [(Mark.ANCHOR, summary) for summary in self.anchored.get(node.id, ())]
        return [MapLine(mark=mark, lane=lane, first=node.id, last=node.id, summary=summary) for mark, summary in found]


def _span(nodes: Sequence[Node], lane: int) -> MapLine:
    return MapLine(
        mark=Mark.SPAN,
        lane=lane,
        first=nodes[0].id,
        last=nodes[-1].id,
        messages=len(nodes),
        tokens=sum(node.tokens for node in nodes),
    )
