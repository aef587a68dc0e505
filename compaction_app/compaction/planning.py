"""Where to cut a branch, what to show the summarizer, and where to anchor its summary. Pure.

A *cut* is an index into the tail: everything before it is covered, everything from it on stays verbatim. A cut lies
before a user message, so that whole turns are covered. Only where a single turn is too large does the cut lie inside
it, before a later reply; that turn's user message, its request, is then shown beside the summary.

What somebody pinned is covered like any other message and shown besides. So it costs the same wherever a cut lies: all
pins are counted once, and no pinned message is counted again with the messages around it.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from compaction_app.conf import Lookahead, Settings
from compaction_app.context.budget import get_compaction_params
from compaction_app.context.pruning import newest_within, pins_and_room
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.open_calls import open_calls_at_end
from compaction_app.messages.transcript import SUMMARY_WRAPPER_TOKENS, largest_saving_summary
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR, SummarizerLimit
from compaction_app.telemetry import log
from compaction_app.values import Branch, Budget, CompactionPlan, Message, Role, Summary, pins_beside

logger = logging.getLogger("compaction_app.planning")

#: Tokens that the summarizer sees beyond the cutoff at most: enough for the topic to be recognized.
LOOKAHEAD_TOKENS = 4_000
#: No draft is accepted for a smaller one: the shortest summary has thirty characters.
_SMALLEST_TARGET = 10
#: With its wrapper, where a summary takes the place of nothing.
_FEW_SENTENCES = 400


def get_messages_to_summarize(
    messages: Sequence[Message], tokens_for_recent: int, *, preserve: int = 2
) -> tuple[list[Message], list[Message]]:
    """Split into (covered, kept): the newest messages within the budget are kept, beginning with a user message.

    The last ``preserve`` messages are kept whatever their size. This is the basic rule, for callers with a list of
    messages; :func:`plan_compaction` applies it to a branch and does the rest.
    """
    cut = _turn_cut(messages, tokens_for_recent, preserve)
    return list(messages[:cut]), list(messages[cut:])


def _turn_cut(messages: Sequence[Message], tokens_for_recent: int, preserve: int) -> int:
    start, total = len(messages), 0
    while start > 0:
        tokens = messages[start - 1].tokens
        kept = len(messages) - start
        if kept >= preserve and total + tokens > tokens_for_recent:
            break
        if kept < preserve and tokens > tokens_for_recent > 0:
            kept_id = messages[start - 1].id
            log(logger, logging.INFO, "keep", message=kept_id, tokens=tokens, budget=tokens_for_recent)
        total += tokens
        start -= 1
    following = next((i for i in range(start, len(messages)) if messages[i].starts_turn), None)
    if following is not None and len(messages) - following >= preserve:
        return following
    # Covering these too would leave fewer than ``preserve``, or no user message: keep their whole turn.
    return _last_user(messages, start) or 0


def covered_messages(
    before_cut: Sequence[Message], base: Summary | None, request: Message | None
) -> tuple[Message, ...]:
    """The messages between the base's cutoff and the cut without the turn's request; first the base's request, if it is
    another."""
    inherited = base.turn_request if base else None
    answered = (inherited,) if inherited and (request is None or inherited.id != request.id) else ()
    return (*answered, *(message for message in before_cut if request is None or message.id != request.id))


def most_tokens_of(replaced: int, settings: Settings, *, whole: bool) -> int:
    """Most tokens of a summary that replaces this many; one for another branch may always have a few sentences."""
    return max(largest_saving_summary(replaced, settings.min_saving_ratio), _FEW_SENTENCES if whole else 0)


def _last_user(messages: Sequence[Message], end: int) -> int | None:
    """The index of the last user message before ``end``."""
    return next((i for i in range(end - 1, -1, -1) if messages[i].starts_turn), None)


def plan_compaction(
    branch: Branch,
    budget: Budget,
    settings: Settings,
    *,
    focused: bool = False,
    follow_up: bool = False,
    limit: SummarizerLimit | None = None,
    until: int | None = None,
    whole: bool = False,
) -> CompactionPlan | None:
    """What the next compaction of ``branch`` covers; None: nothing can be covered, or nothing is new.

    ``focused``: it has instructions or a policy line. ``follow_up``: it continues a partial generation. ``limit``:
    what the summarizer takes; without it the plan is never partial. ``until``: the last message to cover, by its id.
    ``whole``: all of the tail, for another branch.
    """
    history = branch.history_tokens
    over = history > budget.threshold
    if until is None and not over and not focused and not follow_up and branch.already_compacted:
        return None
    planner = _Planner(
        tail=branch.tail,
        base=branch.base,
        pins=branch.pins,
        budget=budget,
        settings=settings,
        lookahead=Lookahead.TIP if focused else settings.lookahead,
        # It only informs: of a small summarizer's input beside the prompt's own words a quarter at most.
        lookahead_tokens=min(LOOKAHEAD_TOKENS, limit.spare(branch.base) // 4) if limit else LOOKAHEAD_TOKENS,
        whole=whole,
    )
    if whole:
        cut = len(branch.tail)
    elif until is None:
        cut = planner.choose(get_compaction_params(history, budget).tokens_for_recent, over=over)
    else:
        cut = _cut_behind(branch, until)
    if not cut or (until is not None and planner.largest_target(cut) < 1):
        return None
    return planner.plan_within(cut, limit) if limit else planner.plan(cut, kept_from=cut)


def _cut_behind(branch: Branch, until: int) -> int:
    """The cut behind a message that ends a turn; :class:`InvalidMessage` with the reason where there is none."""
    cut = next((place for place, message in enumerate(branch.tail, 1) if message.id == until), 0)
    if not cut:
        raise InvalidMessage(f"Message {until} is summarized already.", field="until")
    ends = [place for place, message in enumerate(branch.tail) if message.starts_turn and place >= cut]
    if cut not in ends:
        near = f" Its turn ends at message {branch.tail[ends[0] - 1].id}." if ends else ""
        raise InvalidMessage(f"No turn begins behind message {until}, so it is no place to cut.{near}", field="until")
    return cut


@dataclass(frozen=True, kw_only=True)
class _Planner:
    """What each cut in a tail would cover and keep, and the plan of the best one."""

    tail: Sequence[Message]
    base: Summary | None
    pins: tuple[Message, ...]
    budget: Budget
    settings: Settings
    lookahead: Lookahead
    lookahead_tokens: int
    whole: bool = False

    @cached_property
    def turn_user(self) -> list[int | None]:
        """For each message the index of its turn's user message; None where that is above the tail."""
        users: list[int | None] = []
        current = None
        for index, message in enumerate(self.tail):
            current = index if message.starts_turn else current
            users.append(current)
        return users

    @cached_property
    def pin_tokens(self) -> int:
        return sum(pin.tokens for pin in self.pins)

    def tokens(self, messages: Iterable[Message]) -> int:
        """Without those of pinned messages."""
        pinned = {pin.id for pin in self.pins}
        return sum(message.tokens for message in messages if message.id not in pinned)

    def kept_tokens(self, cut: int) -> int:
        return self.tokens(self.tail[cut:])

    def turn_request(self, cut: int) -> Message | None:
        """The user message of the turn that the cut lies in; None if the cut lies between turns."""
        inherited = self.base.turn_request if self.base else None
        if cut == 0:
            return inherited
        if cut == len(self.tail) or self.tail[cut].starts_turn:
            return None
        user = self.turn_user[cut - 1]
        return inherited if user is None else self.tail[user]

    def turn_request_tokens(self, cut: int) -> int:
        request = self.turn_request(cut)
        return self.tokens([request]) if request else 0

    def covered(self, cut: int) -> tuple[Message, ...]:
        return covered_messages(self.tail[:cut], self.base, self.turn_request(cut))

    def cut_inside_turn(self, start: int, tail_budget: int, room: int) -> int:
        """The cut inside a turn after ``start``: the earliest whose kept part fits, else the latest; 0 if none."""
        points = [i for i in self.cuts_inside_turns() if i > start]
        kept, before = self.kept_tokens(start), start
        for point in points:
            kept -= self.tokens(self.tail[before:point])
            before = point
            if kept <= min(tail_budget, room - self.turn_request_tokens(point)):
                return point
        return points[-1] if points else 0

    def cuts_inside_turns(self) -> list[int]:
        """Before each assistant message that is not the first reply of its turn and leaves ``preserve`` messages.

        Earlier calls are closed there: an assistant message closes every open call, unless it goes on calling. And the
        part before is never a request alone: it also contains the first reply of the turn.
        """
        points = []
        replied = bool(self.base and self.base.turn_request)
        for index, message in enumerate(self.tail):
            if message.starts_turn:
                replied = False
            elif message.role == Role.ASSISTANT and not (
                index and message.tool_calls and self.tail[index - 1].tool_calls
            ):
                if index and replied and len(self.tail) - index >= self.settings.preserve_recent_messages:
                    points.append(index)
                replied = True
        return points

    def cuts(self, end: int) -> list[int]:
        """Every cut up to ``end`` in order: before user messages and inside turns."""
        turns = [i for i, message in enumerate(self.tail[: end + 1]) if i and message.starts_turn]
        return sorted({*turns, *(i for i in self.cuts_inside_turns() if i <= end)})

    def choose(self, tail_budget: int, *, over: bool) -> int:
        """The cut; 0 if nothing can be covered, or so little that the wrapper of a summary would be larger, or if what
        stays leaves no room to show one.

        Over the threshold with nothing to cover, a second attempt keeps as little as possible.
        """
        attempts = [(tail_budget, False), (0, True)] if over else [(tail_budget, False)]
        room = self.budget.target - self.budget.summary_target - self.pin_tokens
        sized = [replace(message, tokens=self.tokens([message])) for message in self.tail] if self.pins else self.tail
        for tokens, force in attempts:
            kept_tokens = min(tokens, max(0, room))
            cut = _turn_cut(sized, kept_tokens, self.settings.preserve_recent_messages)
            # Inside a turn, where the kept part is too large.
            if self.turn_request_tokens(cut) + self.kept_tokens(cut) > room or (force and not cut):
                cut = self.cut_inside_turn(cut, kept_tokens, room) or cut
            if cut and self.largest_target(cut) >= 1:
                return cut
        return 0

    def plan(self, cut: int, *, kept_from: int, partial: bool = False, shorten: bool = False) -> CompactionPlan:
        """The plan for a cut; ``kept_from`` is where the kept part begins once all generations are done."""
        kept = tuple(self.tail[cut:])
        # What the summarizer may be shown after the cut; the anchor is at or below its last message.
        span = kept[: _last_user(kept, len(kept)) or 0]
        if self.lookahead != Lookahead.PREVIOUS_TURN:
            span = kept if self.lookahead == Lookahead.TIP else ()
        anchor_id, anchor_depth = self.anchor(cut, span)
        full = self.budget.summary_target
        staying = self.kept_tokens(kept_from) + self.turn_request_tokens(cut) + self.pin_tokens
        wanted = max(min(full, self.budget.target - staying), full // 5)
        return CompactionPlan(
            covered=self.covered(cut),
            lookahead=newest_within(span, self.lookahead_tokens),
            kept=kept,
            base=self.base,
            turn_request=self.turn_request(cut),
            cutoff=self.tail[cut - 1],
            anchor_id=anchor_id,
            anchor_depth=anchor_depth,
            target_tokens=max(1, min(wanted, self.largest_target(cut))),
            replaced_tokens=self.replaced_tokens(cut),
            most_tokens=self.most_tokens(cut),
            pins=pins_beside(self.pins, self.turn_request(cut), kept),
            partial=partial,
            shorten=shorten,
        )

    def replaced_tokens(self, cut: int) -> int:
        """The tokens that the summary replaces: its base and what it covers."""
        base = self.base.tokens if self.base else 0
        return base + self.tokens(self.covered(cut))

    def most_tokens(self, cut: int) -> int:
        return most_tokens_of(self.replaced_tokens(cut), self.settings, whole=self.whole)

    def largest_target(self, cut: int) -> int:
        """The largest target at which a draft saves enough and even the longest that is accepted is shown; below 1
        where there is none."""
        _, room = pins_and_room(self.tail[cut:], self.turn_request(cut), self.budget.available, self.pins)
        # One token more, since the ends of a text may count differently inside the wrapper. What is too large to be
        # shown is not refused later, so there the wrapper is taken as large as the crudest counter counts it.
        saving = self.most_tokens(cut) - SUMMARY_WRAPPER_TOKENS - 1
        return min(saving, int((room - 2 * SUMMARY_WRAPPER_TOKENS) / OVERSIZE_FACTOR))

    def anchor(self, cut: int, span: Sequence[Message]) -> tuple[int, int]:
        """The deepest of look-ahead, cutoff, the base's anchor and the message that closes an open call at the cutoff.

        The base's anchor, since the new summary contains what the base was made from. The closing message, since on a
        branch without it the call's result may still be appended, and would be there without its call.
        """
        tail = self.tail
        candidates = [(m.depth, m.id) for m in (tail[cut - 1], *span[-1:])]
        if self.base:
            candidates.append((self.base.anchor_depth, self.base.anchor_id))
        if cut < len(tail) and open_calls_at_end(tail[:cut]):
            candidates.append((tail[cut].depth, tail[cut].id))
        depth, message_id = max(candidates)
        return message_id, depth

    def plan_within(self, cut: int, limit: SummarizerLimit) -> CompactionPlan:
        """The plan for ``cut``, or for the oldest part of it that the summarizer takes in one request."""
        whole = self.plan(cut, kept_from=cut)
        sizes = dict(zip((m.id for m in whole.covered), limit.blocks(whole.covered), strict=True))
        request = whole.turn_request
        if request and request.id not in sizes:
            sizes[request.id] = limit.blocks([request])[0]

        def size(plan: CompactionPlan) -> int:
            return limit.overhead(plan.base, plan.turn_request, plan.lookahead) + sum(sizes[m.id] for m in plan.covered)

        def partly(point: int) -> CompactionPlan:
            return self.plan(point, kept_from=cut, partial=True)

        if size(whole) <= limit.max_tokens:
            return whole
        shorter = [point for point in self.cuts(cut) if point < cut]
        fitting = bisect_left(shorter, True, key=lambda point: size(partly(point)) > limit.max_tokens)
        if fitting and self.largest_target(shorter[fitting - 1]) >= _SMALLEST_TARGET:
            return partly(shorter[fitting - 1])
        # Not even the first legal cut fits, or what fits is too small for any summary to be smaller: the next one is
        # taken, and its largest messages are shown shortened, head and tail.
        first = next((point for point in shorter[fitting:] if self.largest_target(point) >= _SMALLEST_TARGET), cut)
        return self.plan(first, kept_from=cut, partial=first < cut, shorten=True)
