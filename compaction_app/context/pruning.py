"""Shortening what a model is shown, without a model call and without changing what is stored. Pure.

``prune`` shortens old tool results; ``fit`` is the deterministic last resort when the prompt does not fit the window
now. Both keep a tool call and its results together, and neither changes the newest user message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.truncate import shorten
from compaction_app.tokens import Count
from compaction_app.values import Message, Role

_BLANKS = re.compile(r"[ \t\r\f\v]+")
_BLANK_LINES = re.compile(r"\s*\n\s*")
#: A shorter result would be useless: the notice alone is a third of it.
SMALLEST_RESULT_BYTES = 64


@dataclass(frozen=True)
class Pruned:
    """Messages after pruning."""

    messages: tuple[Message, ...]
    #: Message id → bytes left out, for each shortened message.
    left_out: dict[int, int] = field(default_factory=dict)


def recount(message: Message, content: str, count: Count) -> Message:
    """The message with other content. Only the difference is counted: its count may also include results supplied
    for unanswered calls."""
    before, after = count([message.content, content])
    return replace(message, content=content, tokens=message.tokens - before + after)


def protected_from(messages: Sequence[Message], keep_turns: int) -> int:
    """The index where the last ``keep_turns`` turns begin; 0 if there are not that many."""
    if not keep_turns:
        return len(messages)
    users = [index for index, message in enumerate(messages) if message.starts_turn]
    return users[-keep_turns] if len(users) >= keep_turns else 0


def prune(messages: Sequence[Message], *, keep_turns: int, max_bytes: int, count: Count) -> Pruned:
    """Old tool results over ``max_bytes`` become head + notice + tail. Idempotent."""
    return _rewrite_old_results(messages, keep_turns, lambda text: shorten(text, max_bytes), count)


def micro_compact(messages: Sequence[Message], *, keep_turns: int, count: Count) -> Pruned:
    """White space in old tool results collapsed. It hurts code and diffs, so it is off by default."""
    return _rewrite_old_results(messages, keep_turns, collapse_blanks, count)


def collapse_blanks(text: str) -> str:
    return _BLANK_LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def _rewrite_old_results(
    messages: Sequence[Message], keep_turns: int, rewrite: Callable[[str], str], count: Count
) -> Pruned:
    result, left_out = list(messages), {}
    for index in range(protected_from(messages, keep_turns)):
        message = messages[index]
        if message.role != Role.TOOL:
            continue
        content = rewrite(message.content)
        if content != message.content:
            result[index] = recount(message, content, count)
            left_out[message.id] = len(message.content.encode()) - len(content.encode())
    return Pruned(messages=tuple(result), left_out=left_out)


@dataclass(frozen=True)
class Fitted:
    """The part of a history that is shown when not all of it fits."""

    messages: tuple[Message, ...]
    left_out: dict[int, int]
    dropped: int
    summary: bool = True
    pinned: bool = True


def call_groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages that are kept or dropped together: an assistant message and the results of its calls."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == Role.TOOL and groups and groups[-1][0].tool_calls:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def fit(
    messages: Sequence[Message],
    *,
    summary_tokens: int,
    pinned: Message | None,
    available: int,
    target: int,
    preserve: int,
    max_bytes: int,
    count: Count,
    unread: int = 0,
) -> Fitted:
    """Leave out the oldest turns until the history is at most ``target``; raise only if nothing helps.

    ``unread`` is the number of messages before the first one: they were not read, and cannot be shown.
    """
    fitting = _Fitting(messages, summary_tokens, pinned, preserve, count)
    if not unread and fitting.total() <= available:
        return fitting.result(len(messages))
    target = min(target, available)
    # A turn whose beginning was not read cannot be shown whole, so all of it is dropped.
    cut_short = bool(unread and fitting.groups) and not fitting.groups[0][0].starts_turn
    fitting.drop(fitting.older_turns(), target, at_least=int(cut_short))
    fitting.shorten_results(max_bytes, target)
    fitting.drop([[group] for group in fitting.groups if not fitting.keeps(group)], target)
    # Shorten results further before dropping preserved messages, the pin or the summary.
    limit = max_bytes
    while fitting.total() > available and limit > SMALLEST_RESULT_BYTES:
        limit = max(limit // 4, SMALLEST_RESULT_BYTES)
        fitting.shorten_results(limit, available)
    fitting.drop([[group] for group in fitting.groups[:-1] if group is not fitting.newest_user], available)
    # If the tail has no user message, the pin is the newest one, and the newest one always stays.
    if fitting.newest_user is not None and fitting.total() > available:
        fitting.show_pinned = False
    if fitting.total() > available:
        fitting.show_summary = False
    if fitting.total() > available:
        needed = fitting.total()
        raise ContextOverflow(
            f"The newest user message and the last group alone take {needed} tokens; {available} are available.",
            needed=needed,
            available=available,
        )
    return fitting.result(len(messages) + unread)


class _Fitting:
    """The state of one fit: which groups are still shown, and how."""

    def __init__(
        self, messages: Sequence[Message], summary_tokens: int, pinned: Message | None, preserve: int, count: Count
    ) -> None:
        # Without results whose call was not read: providers refuse a result without its call.
        self.groups = [group for group in call_groups(messages) if group[0].role != Role.TOOL]
        self.summary_tokens = summary_tokens
        self.pinned = pinned
        self.count = count
        self.left_out: dict[int, int] = {}
        self.show_summary = True
        self.show_pinned = pinned is not None
        self.newest_user = next((g for g in reversed(self.groups) if g[0].starts_turn), None)
        #: The first ids of the groups that contain the last ``preserve`` messages.
        self.preserved: list[int] = []
        seen = 0
        for group in reversed(self.groups):
            if seen >= preserve:
                break
            seen += len(group)
            self.preserved.append(group[0].id)

    def total(self) -> int:
        shown = sum(message.tokens for group in self.groups for message in group)
        pinned = self.pinned.tokens if self.pinned and self.show_pinned else 0
        return shown + pinned + (self.summary_tokens if self.show_summary else 0)

    def keeps(self, group: list[Message]) -> bool:
        return group is self.newest_user or group[0].id in self.preserved

    def older_turns(self) -> list[list[list[Message]]]:
        """The groups of each turn but the newest, without those that are kept."""
        turns: list[list[list[Message]]] = []
        for group in self.groups:
            if group[0].starts_turn or not turns:
                turns.append([])
            turns[-1].append(group)
        return [[group for group in turn if not self.keeps(group)] for turn in turns[:-1]]

    def drop(self, units: list[list[list[Message]]], limit: int, *, at_least: int = 0) -> None:
        """Leave out the oldest of these units, each as a whole, while the history is over ``limit``."""
        total = self.total()
        gone: set[int] = set()
        for position, unit in enumerate(units):
            if total <= limit and position >= at_least:
                break
            total -= sum(message.tokens for group in unit for message in group)
            gone.update(map(id, unit))
        self.groups = [group for group in self.groups if id(group) not in gone]

    def shorten_results(self, max_bytes: int, target: int) -> None:
        """Tool results head-and-tail, the largest first."""
        total = self.total()
        places = [
            (message.tokens, g, m)
            for g, group in enumerate(self.groups)
            for m, message in enumerate(group)
            if message.role == Role.TOOL
        ]
        for _, g, m in sorted(places, key=lambda place: (-place[0], place[1], place[2])):
            if total <= target:
                return
            message = self.groups[g][m]
            content = shorten(message.content, max_bytes)
            if content == message.content:
                continue
            shorter = recount(message, content, self.count)
            if shorter.tokens >= message.tokens:
                continue
            self.left_out[message.id] = self.left_out.get(message.id, 0) + (
                len(message.content.encode()) - len(content.encode())
            )
            total += shorter.tokens - message.tokens
            self.groups[g] = [*self.groups[g][:m], shorter, *self.groups[g][m + 1 :]]

    def result(self, count: int) -> Fitted:
        messages = tuple(message for group in self.groups for message in group)
        return Fitted(
            messages=messages,
            left_out=self.left_out,
            dropped=count - len(messages),
            summary=self.show_summary,
            pinned=self.show_pinned,
        )
