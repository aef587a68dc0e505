"""Shortening what a model is shown, without a model call and without changing what is stored. Pure.

``prune`` shortens old tool results; ``fit`` is the deterministic last resort when the prompt does not fit the window
now, because compaction is late or failing. ``apply_layers`` uses as much of them as is needed. All keep a tool call and
its results together, and none changes the newest user message.

What each leaves out ends at a boundary. A boundary that moved with every turn would change the prompt's beginning with
every turn, and a provider's prompt cache would be lost each time. So of the places that would do the roundest is taken
(see :func:`_roundness`), which stays the same for several turns, and most turns only add to the end of the prompt.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise
from typing import Any

from compaction_app.conf import Mode, PruneWhen, Settings
from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.truncate import shorten
from compaction_app.tokens import Count, attachment_tokens, count_messages
from compaction_app.values import Branch, Budget, Message, Origin, Role, Strategy, Summary, pins_beside

_BLANKS = re.compile(r"[ \t\r\f\v]+")
#: A shorter result would be useless: the notice alone is a third of it.
SMALLEST_RESULT_BYTES = 64
#: Most tokens of a tool message whose result has been shortened to that.
_SMALLEST_RESULT_TOKENS = 80
#: How many turns the boundary of the free layers may lie before the turns that are never shortened.
MOST_TURNS_BEHIND = 7
#: A fit may leave out this share of the available tokens more than it has to.
_STEPS = 8


def _shown_as(message: Message, content: str, count: Count) -> Message:
    """The message with less content. Only the difference is counted: its count may also include results supplied for
    unanswered calls."""
    kept = {"content": message.content, "original": message.original}
    before, after = count_messages([kept, {"content": content}], count)
    return replace(
        message,
        content=content,
        original=None,
        tokens=message.tokens - before + after,
        origin=Origin.PRUNED,
        left_out_bytes=message.left_out_bytes + len(message.content.encode()) - len(content.encode()),
    )


def protected_from(messages: Sequence[Message], keep_turns: int) -> int:
    """The index where the last ``keep_turns`` turns begin; 0 if there are not that many."""
    if not keep_turns:
        return len(messages)
    users = [index for index, message in enumerate(messages) if message.starts_turn]
    return users[-keep_turns] if len(users) >= keep_turns else 0


def collapse_blanks(text: str) -> str:
    """It hurts code and diffs, so ``MICRO_COMPACT`` is off by default."""
    lines = (line.strip() for line in _BLANKS.sub(" ", text).split("\n"))
    return "\n".join(filter(None, lines))


def prune(
    messages: Sequence[Message],
    rewrite: Callable[[str], str],
    *,
    keep_turns: int,
    count: Count,
    rooms: Sequence[int] = (),
) -> tuple[Message, ...]:
    """Old tool results written shorter: head + notice + tail, or without blanks. Idempotent.

    ``rooms``: tokens that the messages may take, the smallest first. Within the first that all pruning can reach, the
    boundary lies up to seven turns behind; without one every old result is shortened.
    """
    end = protected_from(messages, keep_turns)
    rewritten = {}
    for index, message in enumerate(messages[:end]):
        if message.role == Role.TOOL and (content := rewrite(message.content)) != message.content:
            rewritten[index] = _shown_as(message, content, count)
    boundary = _boundary(messages, end, rewritten, rooms) if rewritten else 0
    return tuple(rewritten.get(at, message) if at < boundary else message for at, message in enumerate(messages))


def _boundary(messages: Sequence[Message], end: int, rewritten: Mapping[int, Message], rooms: Sequence[int]) -> int:
    """Before which index old results are rewritten: at the end of one of the last turns before ``end``."""
    ends = [0, *(index for index in range(1, end + 1) if index == end or messages[index].starts_turn)]
    # The later one first, which is taken where nothing distinguishes two.
    places = list(pairwise(ends[-MOST_TURNS_BEHIND - 2 :]))[::-1]
    total = sum(message.tokens for message in messages)
    sizes = {
        stop: total
        - sum(messages[index].tokens - message.tokens for index, message in rewritten.items() if index < stop)
        for _, stop in places
    }
    for room in rooms:
        if within := [(start, stop) for start, stop in places if sizes[stop] <= room]:
            return max(within, key=lambda place: _roundness(messages[slice(*place)]))[1]
    return end


def _roundness(messages: Sequence[Message]) -> int:
    """How round the place behind these messages is: which power of two divides a depth from the first to the last.

    It depends on the path alone. Of neighbouring places one is the roundest, and remains so while the range of
    possible places moves over it. 0 for no message, and the same for all without a depth.
    """
    return ((messages[0].depth - 1) ^ messages[-1].depth).bit_length() if messages else 0


@dataclass(frozen=True, kw_only=True)
class ShownHistory:
    """What the layers leave of a branch."""

    summary: Summary | None
    turn_request: Message | None
    #: Those that are shown beside the summary.
    pins: tuple[Message, ...] = ()
    tail: tuple[Message, ...]
    #: Messages after the cutoff, and pins, that are not shown.
    dropped: int = 0
    #: The last layer that made it, set when all of them are through.
    strategy: Strategy = Strategy.NONE

    @cached_property
    def tokens(self) -> int:
        parts = [part for part in (self.summary, *self.pins, self.turn_request, *self.tail) if part is not None]
        return sum(part.tokens for part in parts)

    @property
    def pruned_messages(self) -> int:
        return sum(message.origin == Origin.PRUNED for message in self.tail)


def call_groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages that are kept or dropped together: assistant messages with calls and the results of these."""
    groups: list[list[Message]] = []
    for message in messages:
        last = groups[-1][-1] if groups else None
        answers = message.role == Role.TOOL and last is not None and groups[-1][0].tool_calls
        if last is not None and (answers or (message.tool_calls and last.tool_calls)):
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def has_its_calls(group: Sequence[Message]) -> bool:
    """Whether each result is of a call that was read, too: providers refuse a result without its call."""
    results = Counter(message.tool_call_id for message in group if message.role == Role.TOOL)
    return results <= Counter(call["id"] for message in group for call in message.tool_calls)


def fit(branch: Branch, *, available: int, preserve: int, max_bytes: int, count: Count) -> ShownHistory:
    """Shorten tool results, then leave out the oldest turns, until the history fits; raise only if nothing helps."""
    fitting, unread = _Fitting(branch, preserve, count), branch.unread
    if not unread and fitting.total() <= available:
        return fitting.result()
    fitting.pins, room = pins_and_room(branch.tail, branch.turn_request, available, branch.pins)
    # A summary that would go last is left out first: without it there is room for the newest turns.
    if fitting.summary_tokens > room:
        fitting.summary = None
    step = max(1, available // _STEPS)
    # Of a history that was not read whole not even its shortest form fits: all of its results are shortened.
    fitting.shorten_results(max_bytes, 0 if unread else available, step)
    # A turn whose beginning was not read cannot be shown whole, so all of it is dropped.
    cut_short = bool(unread and fitting.groups) and not fitting.groups[0][0].starts_turn
    *older, newest = fitting.turns() or [[]]
    fitting.drop(older, available, step, at_least=int(cut_short), begun=bool(unread))
    fitting.drop([[group] for group in newest], available, step, begun=bool(unread and not older))
    # Shorten results further before dropping preserved messages, the turn's request, the summary or pins.
    fitting.fit_results(max_bytes, available, step)
    if fitting.total() <= available:
        return fitting.result()
    fitting.drop([[group] for group in fitting.groups[:-1] if group is not fitting.newest_user], available)
    # If the tail has no user message, the request is the newest one, and the newest one always stays.
    if fitting.newest_user is not None and fitting.total() > available:
        fitting.turn_request = None
    if fitting.total() > available:
        fitting.summary = None
    while fitting.pins and fitting.total() > available:
        fitting.pins = fitting.pins[1:]
    is_empty = branch.base and not (fitting.groups or fitting.turn_request or fitting.summary or fitting.pins)
    if fitting.total() > available or is_empty:
        # A prompt of nothing would hide that the summary, all that there is to show, is too large.
        needed = fitting.summary_tokens if is_empty else fitting.total()
        what = "The summary alone takes" if is_empty else "The newest user message and the last group alone take"
        raise ContextOverflow(f"{what} {needed} tokens; {available} are available.", needed=needed, available=available)
    fitting.fit_results(max_bytes, available, step)
    return fitting.result()


def apply_layers(branch: Branch, budget: Budget, settings: Settings, count: Count) -> ShownHistory:
    """All layers for a branch; raises :class:`ContextOverflow` only if the newest turn alone is too large."""
    branch, strategy = prune_branch(branch, budget, settings, count)
    base, request = branch.base, branch.turn_request
    pins = pins_beside(branch.pins, request, branch.tail)
    whole = ShownHistory(summary=base, turn_request=request, pins=pins, tail=branch.tail)
    if settings.mode == Mode.OFF:
        return whole
    shown = whole
    if whole.tokens > budget.available or branch.unread:
        shown = _fitted(branch, whole, budget, settings, count)
    if shown != whole or branch.is_without_newest_summary:
        strategy = Strategy.TRUNCATED
    elif base:
        strategy = Strategy.SHARED_EXTRACT if base.is_shared else Strategy.AUTO_COMPACT
    return replace(shown, strategy=strategy)


def _fitted(branch: Branch, whole: ShownHistory, budget: Budget, settings: Settings, count: Count) -> ShownHistory:
    fit_to = partial(
        fit, branch, preserve=settings.preserve_recent_messages, max_bytes=settings.prune_tool_result_bytes, count=count
    )
    try:
        return fit_to(available=budget.available)
    except ContextOverflow as overflow:
        # What is learned and what is estimated may be wrong, and the provider knows: the newest turn is tried alone.
        always = (*whole.pins, *whole.tail, *filter(None, [whole.turn_request]))
        estimated = sum(attachment_tokens(message.attachments) for message in always)
        return fit_to(available=max(budget.available, min(overflow.needed, budget.limit + estimated)))


def prune_branch(branch: Branch, budget: Budget, settings: Settings, count: Count) -> tuple[Branch, Strategy]:
    """The branch after the free layers, and the last one that changed it."""
    history, strategy = branch.history_tokens, Strategy.NONE
    if settings.mode == Mode.OFF or not (history > budget.threshold or settings.prune == PruneWhen.ALWAYS):
        return branch, strategy
    # What the messages of the tail may take: up to the threshold if that can be, or else up to what is available.
    around = history - sum(message.tokens for message in branch.tail)
    rooms = (budget.threshold - around, budget.available - around)
    about: dict[str, Any] = {"keep_turns": settings.prune_keep_turns, "count": count, "rooms": rooms}
    to_limit = partial(shorten, limit=settings.prune_tool_result_bytes)
    pruned = replace(branch, tail=prune(branch.tail, to_limit, **about))
    if pruned != branch:
        branch, strategy = pruned, Strategy.TOOL_RESULT_BUDGET
    if settings.micro_compact and branch.history_tokens > budget.threshold:
        collapsed = replace(branch, tail=prune(branch.tail, collapse_blanks, **about))
        if collapsed != branch:
            branch, strategy = collapsed, Strategy.MICRO_COMPACT
    return branch, strategy


def pins_and_room(
    messages: Sequence[Message], turn_request: Message | None, available: int, pins: Sequence[Message]
) -> tuple[tuple[Message, ...], int]:
    """The pins that fit beside what is always shown, and the tokens that a summary may take then to be shown.

    Always shown are the newest user message, which may be the turn's request, and the last group, with results as short
    as a fit makes them.
    """
    user = next((message for message in reversed(messages) if message.starts_turn), turn_request)
    last = call_groups(messages)[-1] if messages else []
    always: dict[int, Message] = {message.id: message for message in (*last, *([user] if user else ()))}
    room = available - sum(
        min(message.tokens, _SMALLEST_RESULT_TOKENS) if message.role == Role.TOOL else message.tokens
        for message in always.values()
    )
    fitting = newest_within([pin for pin in pins if pin.id not in always], room)
    return fitting, room - sum(pin.tokens for pin in fitting)


def newest_within(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    start, total = len(messages), 0
    while start > 0 and total + messages[start - 1].tokens <= tokens:
        start -= 1
        total += messages[start].tokens
    return tuple(messages[start:])


class _Fitting:
    """The state of one fit: which groups are still shown, and how."""

    def __init__(self, branch: Branch, preserve: int, count: Count) -> None:
        self.branch, self.count = branch, count
        # Without the results of calls that were not read.
        self.groups = [group for group in call_groups(branch.tail) if has_its_calls(group)]
        self.summary_tokens = branch.base.tokens if branch.base else 0
        self.summary, self.turn_request, self.pins = branch.base, branch.turn_request, branch.pins
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
        return self.result().tokens

    def keeps(self, group: list[Message]) -> bool:
        return group is self.newest_user or group[0].id in self.preserved

    def turns(self) -> list[list[list[Message]]]:
        """The groups of each turn, oldest first, without those that are kept."""
        turns: list[list[list[Message]]] = []
        for group in self.groups:
            if group[0].starts_turn or not turns:
                turns.append([])
            turns[-1].append(group)
        return [[group for group in turn if not self.keeps(group)] for turn in turns]

    def drop(
        self, units: list[list[list[Message]]], limit: int, step: int = 0, *, at_least: int = 0, begun: bool = False
    ) -> None:
        """Leave out the oldest of these units, each as a whole, while the history is over ``limit``.

        Where any have to go, or older ones were left out before (``begun``), as many more go as make the boundary the
        roundest, while no more than a ``step`` of the tokens within ``limit`` becomes free.
        """
        # A pinned message stays, beside the summary.
        pinned = {pin.id for pin in self.pins}
        sizes = [sum(one.tokens for group in unit for one in group if one.id not in pinned) for unit in units]
        totals = list(accumulate(sizes, operator.sub, initial=self.total()))
        least = next((n for n in range(at_least, len(units)) if totals[n] <= limit), len(units))
        # Without a step only what has to go goes: a pinned message costs nothing here, and would lose its place.
        most = len(units) if step else least
        enough = [n for n in range(least, most + 1) if totals[n] >= min(totals[least], limit - step)]
        if not (least or begun):
            return
        # Of a unit that was not read whole the first depth is not known.
        chosen = max(enough, key=lambda n: _roundness([*chain(*units[n - 1])]) if n > at_least else 0)
        gone = {id(group) for unit in units[:chosen] for group in unit}
        self.groups = [group for group in self.groups if id(group) not in gone]

    def fit_results(self, max_bytes: int, limit: int, step: int) -> None:
        """Show whole what was shortened, and then shorten no more than the turns that are left need."""
        whole = {message.id: message for message in self.branch.tail}
        # A group without results stays the same object.
        self.groups = [[whole[one.id] for one in group] if group[0].tool_calls else group for group in self.groups]
        self.shorten_results(max_bytes, limit, step)
        while self.total() > limit and max_bytes > SMALLEST_RESULT_BYTES:
            max_bytes = max(max_bytes // 4, SMALLEST_RESULT_BYTES)
            self.shorten_results(max_bytes, limit, step)

    def shorten_results(self, max_bytes: int, limit: int, step: int) -> None:
        """Tool results head-and-tail while the history is over ``limit``: the largest first, of like size the oldest.

        What is saved is rounded up to a step, so that a turn more does not shorten one result more.
        """
        total = self.total()
        wanted = total - -(-(total - limit) // step) * step
        # Sizes within a factor of four are alike: two bits each.
        places = [
            (message.tokens.bit_length() // 2, g, m)
            for g, group in enumerate(self.groups)
            for m, message in enumerate(group)
            if message.role == Role.TOOL
        ]
        for _, g, m in sorted(places, key=lambda place: (-place[0], place[1], place[2])):
            if total <= wanted:
                return
            message = self.groups[g][m]
            content = shorten(message.content, max_bytes)
            if content == message.content:
                continue
            shorter = _shown_as(message, content, self.count)
            if shorter.tokens >= message.tokens:
                continue
            total += shorter.tokens - message.tokens
            self.groups[g][m] = shorter

    def result(self) -> ShownHistory:
        tail = tuple(message for group in self.groups for message in group)
        pins = pins_beside(self.pins, self.turn_request, tail)
        read = {message.id for message in (*self.branch.pins, *self.branch.tail)}
        gone = read.difference(one.id for one in (*tail, *pins, self.turn_request) if one)
        return ShownHistory(
            summary=self.summary,
            turn_request=self.turn_request,
            pins=pins,
            tail=tail,
            dropped=self.branch.unread + len(gone),
        )
