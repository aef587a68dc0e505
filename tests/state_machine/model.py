"""The slow, obvious model of a session: a dict of nodes, each with its parent. Nothing that can be worked out is
remembered, so that nothing remembered can be wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

SERIAL = re.compile(r"#s(\d+)#")
TOKENS_PER_MESSAGE = 4
TOKENS_PER_MISSING_RESULT = 8


class QuarterTokenCounter:
    """``TOKEN_COUNTER`` of the machine: four characters are a token, so a size is chosen by a length."""

    def __call__(self, texts: Sequence[str]) -> list[int]:
        return [count(text) for text in texts]


def count(text: str) -> int:
    return -(-len(text) // 4)


def serials_of(nodes: Iterable[Node]) -> tuple[int, ...]:
    """Those of the messages that quote one: not of those that stand for others, or for what was erased elsewhere."""
    return tuple(node.serial for node in nodes if node.serial)


def told_by(nodes: Iterable[Node]) -> set[int]:
    """All serials that they quote."""
    return {serial for node in nodes for serial in (node.serial, *node.carries)}


def serials_in(text: str) -> set[int]:
    """The serial numbers quoted in a text. Each content that was ever stored has one of its own."""
    return {int(number) for number in SERIAL.findall(text)}


@dataclass
class Node:
    """A message or a summary."""

    id: int
    parent: int | None
    role: str
    content: str
    order: int
    tokens: int
    serial: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    answers: str = ""
    attachments: list[dict[str, Any]] = field(default_factory=list)
    reasoning: Any = None
    #: The provider's own summary of what is above, which came with a reply.
    own: str = ""
    #: It came from another model than that which is asked.
    is_others: bool = False
    redacted: bool = False
    #: By somebody; ``pin`` of a summary is another matter, its turn's request.
    pinned: bool = False
    #: Of a copy the message that was copied first, whatever has become of that; of what was carried over its summary.
    copy_of: int | None = None
    #: Serials that it quotes where it was carried over: of another branch.
    carries: frozenset[int] = frozenset()
    # Of summaries only.
    cutoff: int | None = None
    pin: int | None = None
    base: int | None = None
    covered: tuple[int, ...] = ()
    shown: frozenset[int] = frozenset()
    #: What its extract says; it may tell of what is covered along the line of bases, and of nothing else.
    extract: str = ""
    retired: bool = False
    by_person: bool = False
    #: Made to be carried over.
    for_another: bool = False

    @property
    def is_summary(self) -> bool:
        return self.cutoff is not None

    @property
    def call_ids(self) -> list[str]:
        return [call["id"] for call in self.calls]

    def own_tokens(self) -> int:
        """What its own texts cost, without the results supplied for calls that it closed."""
        total = TOKENS_PER_MESSAGE + count(self.content) + count(self.own)
        for call in self.calls:
            total += count(call["function"]["name"]) + count(call["function"]["arguments"])
        for attachment in self.attachments:
            total += count(f"[attached: {attachment['name']}]") + attachment.get("tokens", 0)
        return total


class Tree:
    """All nodes of a session by id."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        #: Serials of what is summarized above, in conversations that this one continues.
        self.told_above: set[int] = set()
        #: What a message's number has more than its position.
        self.shift = 0

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.nodes

    def messages(self) -> list[Node]:
        return [node for _, node in sorted(self.nodes.items()) if not node.is_summary]

    def summaries(self) -> list[Node]:
        return [node for _, node in sorted(self.nodes.items()) if node.is_summary]

    def live(self) -> list[Node]:
        return [node for node in self.summaries() if not node.retired]

    def pins(self, tip_id: int | None) -> list[Node]:
        return [node for node in self.path(tip_id) if node.pinned]

    def children(self, node_id: int | None) -> list[Node]:
        return sorted((n for n in self.nodes.values() if n.parent == node_id), key=lambda n: n.order)

    def tips(self) -> list[Node]:
        parents = {node.parent for node in self.messages()}
        return [node for node in self.messages() if node.id not in parents]

    def path(self, node_id: int | None) -> list[Node]:
        """Root → node."""
        path: list[Node] = []
        while node_id is not None:
            path.append(self.nodes[node_id])
            node_id = path[-1].parent
        return path[::-1]

    def depth(self, node_id: int) -> int:
        return len(self.path(node_id))

    def number(self, node_id: int) -> int:
        return self.depth(node_id) + self.shift

    def path_tokens(self, node_id: int) -> int:
        node = self.nodes[node_id]
        return sum(n.tokens for n in self.path(node.parent if node.is_summary else node_id))

    def subtree(self, node_id: int) -> set[int]:
        below = {node_id}
        while True:
            more = {n.id for n in self.nodes.values() if n.parent in below} - below
            if not more:
                return below
            below |= more

    def newest(self, tip_id: int, at_most: int | None = None) -> Node | None:
        """Rule 4 by brute force: up from the tip; at an anchor the live summary with the highest id. ``at_most``: of
        those with no more tokens."""
        fitting = {s.parent: s for s in self.live() if at_most is None or s.tokens <= at_most}
        return next((fitting[node.id] for node in reversed(self.path(tip_id)) if node.id in fitting), None)

    def tail(self, tip_id: int, summary: Node | None) -> list[Node]:
        """The messages after the cutoff, in order."""
        path = self.path(tip_id)
        if summary is None:
            return path
        return path[[node.id for node in path].index(summary.cutoff) + 1 :]

    def drop_own(self, below: int) -> None:
        """The providers' summaries below an erased message, which may tell of it."""
        for i in self.subtree(below) - {below}:
            self.nodes[i].tokens -= count(self.nodes[i].own)
            self.nodes[i].own = ""

    def chain(self, summary: Node) -> list[Node]:
        """The summary and its bases, newest first."""
        chain = [summary]
        while chain[-1].base is not None:
            chain.append(self.nodes[chain[-1].base])
        return chain

    def built_on(self, summary_id: int) -> set[int]:
        """The summary and all that have it in their line of bases."""
        return {s.id for s in self.summaries() if summary_id in {link.id for link in self.chain(s)}}


def open_calls(messages: Iterable[Node]) -> list[str]:
    """The calls that wait for a result after these messages. Calls that follow each other at once are one group."""
    waiting: list[str] = []
    before: Node | None = None
    for message in messages:
        if message.role == "tool":
            waiting.remove(message.answers)
        else:
            waiting = [*(waiting if goes_on(before, message) else ()), *message.call_ids]
        before = message
    return waiting


def goes_on(before: Node | None, message: Node) -> bool:
    """Whether a message's calls are of the group of the message right before it."""
    return bool(before and before.calls and message.calls)


def groups(messages: Sequence[Node]) -> list[list[Node]]:
    """A message, those that go on calling and the tool results that follow it."""
    grouped: list[list[Node]] = []
    for message in messages:
        if grouped and (message.role == "tool" or goes_on(grouped[-1][-1], message)):
            grouped[-1].append(message)
        else:
            grouped.append([message])
    return grouped


def newest_user(messages: Sequence[Node]) -> Node | None:
    return next((message for message in reversed(messages) if message.role == "user"), None)
