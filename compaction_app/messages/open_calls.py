"""The calls of a branch that wait for a result. Pure.

A result answers a call of the messages right above it; any other message closes the calls for good. The calls at one
message are a value, so that a tree can be read in any order: a search tree, of which a message makes only the few
nodes on the way to its own call anew, so that thousands of results cost no square of their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.values import ContextMessage, Role

#: Ids, and characters of each, that an error names.
_MOST_NAMED, _LONGEST_NAMED = 10, 255
#: An id, how many open calls have it, and what is below, by the next bit of an id's hash; None where no call is open.
_Tree = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The calls without a result at one message, which never change."""

    tree: _Tree | None = None
    number: int = 0
    #: An assistant message that follows adds its own.
    none_answered: bool = True

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[str]:
        left = [self.tree]
        while left:
            if tree := left.pop():
                left += tree[2:]
                if tree[1]:
                    yield tree[0]

    def __contains__(self, call_id: str) -> bool:
        tree, bits = self.tree, hash(call_id)
        while tree and tree[0] != call_id:
            tree, bits = tree[2 + bits % 2], bits >> 1
        return bool(tree and tree[1])

    def with_change(self, ids: Sequence[str], by: int) -> OpenCalls:
        tree = self.tree
        for call_id in ids:
            tree = _counted(tree, call_id, by, hash(call_id))
        return OpenCalls(tree, self.number + by * len(ids), by > 0)


def _counted(tree: _Tree | None, call_id: str, by: int, bits: int) -> _Tree | None:
    own, count, *below = tree or (call_id, 0, None, None)
    if own == call_id:
        count += by
    else:
        below[bits % 2] = _counted(below[bits % 2], call_id, by, bits >> 1)
    return (own, count, *below) if count or any(below) else None


NONE_OPEN = OpenCalls()


def open_calls_after(open_calls: OpenCalls, message: Mapping[str, Any]) -> OpenCalls:
    """The calls without a result after ``message``, given those before it.

    Raises where a tool message answers none of them. Any other message closes all open calls for good, unless it goes
    on calling right after them: some clients append the calls of one reply one by one.
    """
    if message.get("role") != Role.TOOL:
        called = [str(call.get("id")) for call in message.get("tool_calls") or ()]
        if goes_on_calling(open_calls, message):
            return open_calls.with_change(called, 1)
        return OpenCalls().with_change(called, 1) if called else NONE_OPEN
    answered = str(message.get("tool_call_id"))
    if answered not in open_calls:
        named = sorted(call_id[:_LONGEST_NAMED] for call_id in islice(open_calls, _MOST_NAMED))
        waiting = ", ".join(named) or "none"
        if len(open_calls) > len(named):
            waiting += f" and {len(open_calls) - len(named)} more"
        raise InvalidMessage(
            f"No open call {answered[:_LONGEST_NAMED]!r} here; open calls on this path: {waiting}. Append the message "
            "that calls first; in Python lenient=True stores a result without its call as a text.",
            field="tool_call_id",
        )
    return open_calls.with_change([answered], -1)


def goes_on_calling(open_calls: OpenCalls | None, message: Mapping[str, Any]) -> bool:
    """Whether a message's calls are of one group with those of the message before."""
    return bool(open_calls and open_calls.none_answered and message.get("tool_calls"))


def open_calls_at_end(messages: Sequence[ContextMessage]) -> list[str]:
    """The ids of the calls of the last call group that still wait for a result."""
    answered: Counter[str] = Counter()
    called: list[str] = []
    for message in reversed(messages):
        if message.role == Role.TOOL and not called:
            answered[message.tool_call_id] += 1
        elif message.tool_calls:
            called += [str(call.get("id")) for call in reversed(message.tool_calls)]
        else:
            break
    return list((Counter(reversed(called)) - answered).elements())
