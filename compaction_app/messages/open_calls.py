"""The calls of a branch that wait for a result. Pure.

A result answers a call of the messages right above it; any other message closes the calls for good. The calls at one
message are a value, so that a tree can be read in any order; but a value for each of thousands of results would cost
the square of their number. So those of one group share a table of ids. It is as the newest of them has it; an older
one that is asked, where a branch forks, takes back what has changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, cast

from compaction_app.exceptions import InvalidMessage
from compaction_app.values import ContextMessage, Role

#: Ids, and characters of each, that an error names.
_MOST_NAMED, _LONGEST_NAMED = 10, 255


class OpenCalls:
    """The calls without a result at one message, which never change."""

    __slots__ = ("change", "ids", "none_answered", "number", "since")

    def __init__(self, called: Sequence[str] = ()) -> None:
        #: How many open calls have each id; None while another one has the table.
        self.ids: dict[str, int] | None = Counter(called) if called else {}
        self.number = len(called)
        #: What was made of this one, and the ids of which it has one more, or one less.
        self.since: OpenCalls | None = None
        self.change: tuple[Sequence[str], int] = ((), 0)
        #: An assistant message that follows adds its own.
        self.none_answered = True

    def __len__(self) -> int:
        return self.number

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.table()

    def with_change(self, ids: Sequence[str], by: int) -> OpenCalls:
        made = OpenCalls()
        made.number, made.none_answered = self.number + by * len(ids), by > 0
        self.table()
        self.hand_over(made, ids, by)
        return made

    def table(self) -> dict[str, int]:
        way = [self]
        while (since := way[-1].since) is not None:
            way.append(since)
        for newer, older in pairwise(reversed(way)):
            ids, by = older.change
            newer.hand_over(older, ids, -by)
        return cast(dict[str, int], self.ids)

    def hand_over(self, other: OpenCalls, ids: Sequence[str], by: int) -> None:
        table = cast(dict[str, int], self.ids)
        for call_id in ids:
            if left := table.get(call_id, 0) + by:
                table[call_id] = left
            else:
                del table[call_id]
        other.ids, other.since = table, None
        self.ids, self.since, self.change = None, other, (ids, by)


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
        return OpenCalls(called) if called else NONE_OPEN
    answered = str(message.get("tool_call_id"))
    if answered not in open_calls:
        named = [call_id[:_LONGEST_NAMED] for call_id in islice(open_calls.table(), _MOST_NAMED)]
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
