"""What a model must be shown at a tip, worked out by brute force from the whole branch (rules 3 to 7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compaction_app.conf import Settings
from compaction_app.context.budget import Calibration
from compaction_app.context.pruning import collapse_blanks
from compaction_app.messages.transcript import summary_message
from compaction_app.messages.truncate import shorten
from compaction_app.values import ChatContext
from tests.state_machine.model import TOKENS_PER_MESSAGE, Node, Tree, count, groups, newest_user, serials_in, told_by
from tests.state_machine.tally import seen


@dataclass(frozen=True)
class Limits:
    """The budget, worked out again."""

    settings: Settings
    reserved: int
    available: int
    threshold: int
    target: int
    #: What is tried where the newest turn is too large for ``available``: what was learned may be wrong.
    tried: int

    @classmethod
    def of(
        cls, settings: Settings, system_prompt: str, learned: Calibration, *, extra: int = 0, reply: int | None = None
    ) -> Limits:
        window = settings.context_window or settings.default_context_window
        if reply is None:
            reply = min(settings.reserved_tokens, window // 4)
        reserved = (4 + count(system_prompt) if system_prompt else 0) + extra + reply
        tried = available = window - reserved
        available -= int(min(learned.offset, available // 4))
        factor = learned.ratio
        threshold = min(int(available * settings.trigger_ratio), settings.trigger_tokens_cap)
        target = min(int(window * settings.target_ratio), int(0.9 * threshold))
        return cls(
            settings=settings,
            reserved=reserved,
            available=int(available / factor),
            threshold=int(threshold / factor),
            target=int(target / factor),
            tried=max(tried, int(available / factor)),
        )


@dataclass(frozen=True)
class Piece:
    """One message of the history as it is shown."""

    origin: str
    id: int
    role: str
    content: str
    tokens: int


@dataclass
class Expected:
    pieces: list[Piece]
    strategy: str
    pruned: int = 0
    dropped: int = 0
    #: Tokens needed, where nothing helps.
    overflow: int | None = None
    #: Results had to be shortened beyond PRUNE_TOOL_RESULT_BYTES.
    squeezed: bool = False
    #: What shrinks to less than the reader reckons with may let more fit than was read.
    read_short: bool = False
    over_threshold: bool = False
    #: The reply with the provider's own summary, which stands for all above it.
    own: int | None = None


def verbatim(node: Node, origin: str = "verbatim") -> Piece:
    return Piece(origin, node.id, node.role, node.content, node.tokens)


def rewritten(piece: Piece, content: str) -> Piece:
    if content == piece.content:
        return piece
    return replace(piece, origin="pruned", content=content, tokens=piece.tokens - count(piece.content) + count(content))


def expected_context(tree: Tree, tip_id: int, limits: Limits) -> Expected:
    settings = limits.settings
    if settings.mode == "off":
        return Expected([verbatim(node) for node in tree.path(tip_id)], "none")
    own = expected_own(tree, tip_id, limits)
    if own and own.own:
        return own
    expected = expected_ours(tree, tip_id, limits)
    # Whether it is due is decided by what the provider's summary leaves.
    return replace(expected, over_threshold=own.over_threshold) if own else expected


def expected_own(tree: Tree, tip_id: int, limits: Limits) -> Expected | None:
    """With the nearest summary of the provider's that is below the cutoff in use, if all below it was read."""
    newest = tree.newest(tip_id)
    whole, pins = tree.tail(tip_id, newest), tree.pins(tip_id)
    read = read_messages(whole, limits)
    found = next((node for node in reversed(whole) if node.own and not node.is_others and node.id in read), None)
    if found is None:
        return None
    first = next(group[0] for group in groups([n for n in whole if n.id in read]) if found in group)
    tail = whole[whole.index(first) :]
    if not all(node.id in read for node in tail):
        return None
    user = None
    if not newest_user(tail):
        user = newest_user(whole) or (tree[newest.pin] if newest and newest.pin else None)
        pins = sorted({node.id: node for node in [*pins, *([user] if user else [])]}.values(), key=lambda n: n.id)
    head = pins_beside(pins, tail)
    depths = {node.id: tree.depth(node.id) for node in tail}
    shown, strategy, raw = prune(head, tail, depths, limits)
    stays = [*whole, *([tree[newest.pin]] if newest and newest.pin else [])]
    history = sum(n.tokens for n in stays) + _tokens(pins_beside(tree.pins(tip_id), stays))
    history += newest.tokens if newest else 0
    total = _tokens(head) + _tokens(shown)
    over = history > limits.threshold and raw > limits.threshold and total > limits.threshold
    expected = Expected([*head, *shown], strategy, pruned=_pruned(shown))
    if total > limits.available:

        def fitted(limits: Limits) -> Expected:
            room, fitting_pins = room_and_pins(tail, None, limits.available, pins)
            everything = {node.id for node in tail}
            return fit(
                _Fitting(head, tail, shown, depths, everything, limits, fitting_pins, pins), room, limits, strategy
            )

        expected = fitted(limits)
        if expected.overflow and limits.tried > limits.available:
            expected = fitted(replace(limits, available=min(expected.overflow, limits.tried)))
    needed = {found.id, user.id if user else found.id}
    is_shown = not expected.overflow and needed <= {piece.id for piece in expected.pieces}
    return replace(expected, over_threshold=over, own=found.id if is_shown else None)


def expected_ours(tree: Tree, tip_id: int, limits: Limits) -> Expected:
    settings = limits.settings
    summary = shown_summary(tree, tip_id, limits)
    tail, pins = tree.tail(tip_id, summary), tree.pins(tip_id)
    head = []
    if summary:
        head.append(Piece("summary", summary.id, "user", summary_message(summary.content), summary.tokens))
    head += pins_beside(pins, [*tail, *([tree[summary.pin]] if summary and summary.pin else [])])
    if summary and summary.pin:
        head.append(verbatim(tree[summary.pin], "pinned"))
    depths = {node.id: tree.depth(node.id) for node in tail}
    shown, strategy, raw = prune(head, tail, depths, limits)
    read = read_messages(tail, limits)
    # Results that shrink more than the reader reckons with leave room for messages that it has not read.
    beyond = len(read) < len(tail)
    read_short = settings.micro_compact and beyond
    total = _tokens(head) + _tokens(shown)
    over = raw > limits.threshold and total > limits.threshold
    # The summary that is passed over is left out, or replaced by an older one.
    is_newest = summary is tree.newest(tip_id)
    if summary or not is_newest:
        strategy = "auto_compact" if is_newest else "truncated"
    if total <= limits.available:
        pieces = [*head, *shown]
        return Expected(pieces, strategy, pruned=_pruned(shown), over_threshold=over, read_short=read_short)
    pin = tree[summary.pin] if summary and summary.pin else None

    def fitted(limits: Limits) -> Expected:
        room, fitting_pins = room_and_pins(tail, pin, limits.available, pins)
        fitting = _Fitting(head, tail, shown, depths, read, limits, fitting_pins, pins)
        return fit(fitting, room, limits, strategy)

    expected = fitted(limits)
    if expected.overflow and limits.tried > limits.available:
        expected = fitted(replace(limits, available=min(expected.overflow, limits.tried)))
    if expected.dropped and not expected.overflow:
        expected = with_shared_extract(tree, tip_id, summary, limits) or expected
    expected.read_short = read_short or (expected.squeezed and beyond)
    expected.over_threshold = over
    return expected


def with_shared_extract(tree: Tree, tip_id: int, base: Node | None, limits: Limits) -> Expected | None:
    """What is shown with the extract of another branch's summary, if nothing has to be left out then."""
    found = borrowed_summary(tree, tip_id, base, limits)
    if found is None:
        return None
    tail, pin = tree.tail(tip_id, found), tree[found.pin] if found.pin else None
    if not (pin or newest_user(tail)) or not all(map(has_its_calls, groups(tail))):
        return None
    text = summary_message(found.extract)
    pins = tree.pins(tip_id)
    head = [Piece("shared_extract", found.id, "user", text, TOKENS_PER_MESSAGE + count(text))]
    head += pins_beside(pins, [*tail, *([pin] if pin else [])])
    head += [verbatim(pin, "pinned")] if pin else []
    depths = {node.id: tree.depth(node.id) for node in tail}
    shown, _, _ = prune(head, tail, depths, limits)
    if _tokens(head) + _tokens(shown) <= limits.available:
        return Expected([*head, *shown], "shared_extract", pruned=_pruned(shown))
    read = {node.id for node in tail}
    room, fitting_pins = room_and_pins(tail, pin, limits.available, pins)
    head[0] = replace(head[0], origin="summary")
    fitting = _Fitting(head, tail, shown, depths, read, limits, fitting_pins, pins)
    expected = fit(fitting, room, limits, "shared_extract")
    if expected.overflow or expected.dropped or len(expected.pieces) != len(head) + len(tail):
        return None
    head[0] = replace(head[0], origin="shared_extract")
    return replace(expected, pieces=[head[0], *expected.pieces[1:]])


def borrowed_summary(tree: Tree, tip_id: int, base: Node | None, limits: Limits) -> Node | None:
    """Up from the tip, above the cutoff in use, the first cutoff of live summaries with an extract: the newest of them,
    unless its anchor is on the branch. What cannot fit is not looked at."""
    least = max(1, limits.settings.prune_tool_result_bytes // 32)
    reach, above = 0, tree.depth(base.cutoff) if base and base.cutoff else 0
    walked: set[int] = set()
    for node in reversed(tree.path(tip_id)):
        if reach > limits.available or tree.depth(node.id) <= above:
            return None
        walked.add(node.id)
        if found := [one for one in tree.live() if one.cutoff == node.id and one.extract]:
            newest = max(found, key=lambda one: one.id)
            return None if newest.parent in walked else newest
        reach += min(node.tokens, least) if node.role == "tool" else node.tokens
    return None


def shown_summary(tree: Tree, tip_id: int, limits: Limits) -> Node | None:
    """The newest summary, or where it leaves no room for what is always shown the newest that is small enough."""
    newest = tree.newest(tip_id)
    if newest is None:
        return None
    pin = tree[newest.pin] if newest.pin else None
    room = room_for_summary(tree.tail(tip_id, newest), pin, limits.available, tree.pins(tip_id))
    seen["summary passed over"] += newest.tokens > room
    return newest if newest.tokens <= room else tree.newest(tip_id, at_most=room)


def pins_beside(pins: Sequence[Node], shown: Sequence[Node]) -> list[Piece]:
    """Those that are not shown otherwise."""
    return [verbatim(node, "pin") for node in pins if node.id not in {one.id for one in shown}]


def room_for_summary(kept: Sequence[Node], pin: Node | None, available: int, pins: Sequence[Node] = ()) -> int:
    return room_and_pins(kept, pin, available, pins)[0]


def room_and_pins(
    kept: Sequence[Node], pin: Node | None, available: int, pins: Sequence[Node]
) -> tuple[int, list[Node]]:
    """What is available without the request, the newest user message and the last group, its results as short as can
    be, and without the newest of the pins that fit beside these; and those pins."""
    always = {node.id: node for group in groups(kept)[-1:] for node in group}
    if user := newest_user(kept):
        always[user.id] = user
    least = sum(min(80, node.tokens) if node.role == "tool" else node.tokens for node in always.values())
    # A request that is the newest user message is shown in any case; another one goes before the summary.
    if pin and not user:
        always[pin.id] = pin
        least += pin.tokens
    room, fitting = available - least, list[Node]()
    for node in reversed([one for one in pins if one.id not in always]):
        if node.tokens > room:
            break
        room -= node.tokens
        fitting.insert(0, node)
    return room, fitting


def read_messages(tail: Sequence[Node], limits: Limits) -> set[int]:
    """Which messages are read: as far back as they could fit, and those that are shown at any size."""
    least = max(1, limits.settings.prune_tool_result_bytes // 32)
    read, reach = set(), 0
    for node in reversed(tail):
        reach += min(node.tokens, least) if node.role == "tool" else node.tokens
        if reach <= limits.available:
            read.add(node.id)
    read |= {node.id for node in tail[-limits.settings.preserve_recent_messages :]}
    read |= {node.id for group in groups(tail)[-1:] for node in group}
    user = newest_user(tail)
    return read | ({user.id} if user else set())


def parted(group: Sequence[Node], read: set[int]) -> list[list[Node]]:
    """A group as one, or where its beginning was not read as what was not and what was."""
    parts = [[node for node in group if node.id not in read], [node for node in group if node.id in read]]
    return [part for part in parts if part]


def has_its_calls(group: Sequence[Node]) -> bool:
    calls = [call for node in group for call in node.call_ids]
    for node in group:
        if node.role == "tool":
            if node.answers not in calls:
                return False
            calls.remove(node.answers)
    return True


def roundness(depths: Sequence[int]) -> int:
    """The largest power of two that divides one of these depths."""
    return max(depth & -depth for depth in range(min(depths), max(depths) + 1)) if depths else 0


def prune(
    head: Sequence[Piece], tail: Sequence[Node], depths: dict[int, int], limits: Limits
) -> tuple[list[Piece], str, int]:
    """The free layers: old tool results shortened, then their white space, up to a boundary that moves in steps."""
    settings = limits.settings
    shown = [verbatim(node) for node in tail]
    raw = _tokens(head) + _tokens(shown)
    if raw <= limits.threshold and settings.prune != "always":
        return shown, "none", raw
    users = [index for index, node in enumerate(tail) if node.role == "user"]
    end = users[-settings.prune_keep_turns] if len(users) >= settings.prune_keep_turns else 0
    stops = sorted({end, *(index for index in users if 0 < index < end)} - {0})
    begins = [0, *stops]
    turns = {stop: [depths[node.id] for node in tail[begin:stop]] for begin, stop in zip(begins, stops, strict=False)}

    def in_steps(before: list[Piece], rewrite: Callable[[str], str]) -> list[Piece]:
        """Rewritten up to the roundest of the last eight places at which the history is small enough."""
        done = {
            stop: [
                rewritten(piece, rewrite(piece.content)) if index < stop and piece.role == "tool" else piece
                for index, piece in enumerate(before)
            ]
            for stop in stops
        }
        for room in (limits.threshold, limits.available):
            small = [stop for stop in stops[-8:] if _tokens(head) + _tokens(done[stop]) <= room]
            if small:
                return done[max(small, key=lambda stop: (roundness(turns[stop]), stop))]
        return done[end] if end else before

    strategy = "none"
    shown = in_steps(shown, lambda text: shorten(text, settings.prune_tool_result_bytes))
    if _pruned(shown):
        strategy = "tool_result_budget"
    if settings.micro_compact and _tokens(head) + _tokens(shown) > limits.threshold:
        before = shown
        shown = in_steps(before, collapse_blanks)
        strategy = strategy if before == shown else "micro_compact"
    return shown, strategy, raw


def fit(fitting: _Fitting, room: int, limits: Limits, strategy: str) -> Expected:
    """The last resort, on the whole tail: which pieces are left when not all fit; ``strategy`` where all are, whole."""
    whole = [*fitting.heads.values(), *fitting.beside(), *fitting.whole.values()]
    if "summary" in fitting.heads and fitting.heads["summary"].tokens > room:
        del fitting.heads["summary"]
    fitting.shorten_results(limits.available, limits.settings.prune_tool_result_bytes, limits.available // 8)
    unread = fitting.leave_out_unread()
    older = fitting.older_turns()
    fitting.drop_in_steps(older, limits.available, begun=unread)
    newest = [[n] for n in fitting.unprotected() if n in fitting.turns()[-1]]
    fitting.drop_in_steps(newest, limits.available, begun=unread and not older)
    squeezed = fitting.fit_results(limits)
    # From here on only while it is over what is available.
    if fitting.total() > limits.available:
        fitting.drop(fitting.preserved_but_last(), limits.available)
        fitting.drop_heads(limits.available)
        fitting.fit_results(limits)
    pieces = fitting.pieces()
    summary, request = (fitting.heads.get(origin) for origin in ("summary", "pinned"))
    left = [piece for piece in (summary, *fitting.beside(), request, *pieces) if piece]
    dropped = len(fitting.known - {piece.id for piece in left})
    return Expected(
        left,
        "truncated" if dropped or any(piece not in left for piece in whole) else strategy,
        pruned=_pruned(pieces),
        dropped=dropped,
        overflow=fitting.total() if fitting.total() > limits.available else None,
        squeezed=squeezed,
    )


class _Fitting:
    """Call groups by number, oldest first, and which of them are still here."""

    def __init__(
        self,
        head: Sequence[Piece],
        tail: Sequence[Node],
        shown: Sequence[Piece],
        depths: dict[int, int],
        read: set[int],
        limits: Limits,
        fitting_pins: Sequence[Node],
        all_pins: Sequence[Node],
    ) -> None:
        self.known = {node.id for node in (*tail, *all_pins)}
        self.pins = list(fitting_pins)
        # Shown beside the summary, whether they were read with the tail or not.
        tail = [node for node in tail if node.id in read or not node.pinned]
        self.tail, self.depths, self.read = tail, depths, read
        self.step = limits.available // 8
        self.whole = {piece.id: piece for piece in shown}
        self.left = dict(self.whole)
        self.heads = {piece.origin: piece for piece in head if piece.origin != "pin"}
        self.groups = [[node.id for node in part] for group in groups(tail) for part in parted(group, read)]
        #: Results without their call, which was not read.
        self.headless = {part[0] for part in self.groups if not has_its_calls([n for n in tail if n.id in part])}
        self.starts = [self.left[group[0]].role == "user" for group in self.groups]
        self.here = list(range(len(self.groups)))
        self.newest = max((n for n in self.here if self.starts[n]), default=None)
        floor = {node.id for node in tail[-limits.settings.preserve_recent_messages :]}
        self.preserved = {n for n in self.here if floor & set(self.groups[n])}

    def pieces(self) -> list[Piece]:
        return [self.left[i] for n in self.here for i in self.groups[n]]

    def total(self) -> int:
        return _tokens(self.pieces()) + _tokens(list(self.heads.values())) + _tokens(self.beside())

    def beside(self) -> list[Piece]:
        shown = {piece.id for piece in (*self.pieces(), *self.heads.values())}
        return [verbatim(node, "pin") for node in self.pins if node.id not in shown]

    def turns(self) -> list[list[int]]:
        numbers = [sum(self.starts[: n + 1]) for n in range(len(self.groups))]
        return [[n for n in range(len(self.groups)) if numbers[n] == turn] for turn in sorted(set(numbers))]

    def is_read(self, n: int) -> bool:
        return self.read >= set(self.groups[n]) and self.groups[n][0] not in self.headless

    def leave_out_unread(self) -> bool:
        """Groups that were not read whole, and the rest of a turn whose beginning was not; whether there are any."""
        for turn in self.turns()[:-1]:
            if not all(self.is_read(n) for n in turn):
                self.here = [n for n in self.here if n not in turn or n in self.preserved or n == self.newest]
        self.here = [n for n in self.here if self.is_read(n)]
        return len(self.read) < len(self.tail)

    def older_turns(self) -> list[list[int]]:
        """What was read of each turn but the newest, without what is preserved and the newest user message."""
        left = set(self.unprotected())
        return [[n for n in turn if n in left] for turn in self.turns()[:-1] if any(self.is_read(n) for n in turn)]

    def drop_in_steps(self, units: Sequence[Sequence[int]], limit: int, *, begun: bool) -> None:
        """The oldest units until it fits; then, where any had to go, up to the roundest place that a step reaches."""
        best, spared = 0, 0
        least: int | None = None
        waiting: list[int] = []
        for unit in units:
            place = roundness([self.depths[i] for n in unit for i in self.groups[n]])
            if self.total() > limit:
                self.here = [n for n in self.here if n not in unit]
                best, begun = place, True
                continue
            least = self.total() if least is None else least
            pinned = {node.id for node in self.pins}
            spared += sum(self.left[i].tokens for n in unit for i in self.groups[n] if i not in pinned)
            waiting += unit
            if not begun or least - spared < min(least, limit - self.step):
                return
            if place > best:
                self.here = [n for n in self.here if n not in waiting]
                best, waiting = place, []

    def fit_results(self, limits: Limits) -> bool:
        """All results of what is left anew, no shorter than they have to be; whether that is shorter than the layer."""
        self.left |= {i: self.whole[i] for n in self.here for i in self.groups[n]}
        self.shorten_results(limits.available, limits.settings.prune_tool_result_bytes, self.step)
        squeezed = self.total() > limits.available
        if squeezed:
            self.shorten_results(0, 64)
        return squeezed

    def shorten_results(self, target: int, max_bytes: int, step: int = 1) -> None:
        """Tool results of what is left, the largest first, until a whole number of steps is saved."""
        results = [piece for piece in self.pieces() if piece.role == "tool"]
        missing = -(-(self.total() - target) // max(1, step)) * max(1, step)
        goal = self.total() - missing
        for piece in sorted(results, key=lambda piece: (-(piece.tokens.bit_length() // 2), results.index(piece))):
            shorter = rewritten(piece, shorten(piece.content, max_bytes))
            if self.total() > goal and shorter.tokens < piece.tokens:
                self.left[piece.id] = shorter

    def unprotected(self) -> list[int]:
        return [n for n in self.here if n not in self.preserved and n != self.newest]

    def preserved_but_last(self) -> list[int]:
        return [n for n in self.here if n in self.preserved and n not in (self.newest, len(self.groups) - 1)]

    def drop(self, candidates: Sequence[int], limit: int) -> None:
        for n in candidates:
            if self.total() > limit:
                self.here.remove(n)

    def drop_heads(self, available: int) -> None:
        """A request that is not the newest user message, then the summary, then pins, the oldest first."""
        if self.newest is not None and self.total() > available:
            self.heads.pop("pinned", None)
        if self.total() > available:
            self.heads.pop("summary", None)
        while self.pins and self.total() > available:
            self.pins.pop(0)


def _tokens(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _pruned(pieces: Sequence[Piece]) -> int:
    return sum(piece.origin == "pruned" for piece in pieces)


# -- comparing ------------------------------------------------------------------------------------------


def check_context(tree: Tree, tip_id: int, context: ChatContext, expected: Expected, limits: Limits) -> None:
    """The context against the model, then against the rules themselves, which may find the model wrong too."""
    assert (context.available_tokens, context.threshold, context.target, context.reserved_tokens) == (
        limits.available,
        limits.threshold,
        limits.target,
        limits.reserved,
    )
    history = [m for m in context.messages if m.origin not in ("system", "contribution")]
    shown = [Piece(str(m.origin), m.message_id or 0, m.role, m.content, m.tokens) for m in history]
    if expected.read_short:
        check_laws(tree, tip_id, context, limits)
        return
    if expected.squeezed:
        assert [piece.id for piece in shown] == [piece.id for piece in expected.pieces]
    else:
        assert shown == expected.pieces, f"shown {_brief(shown)}, due {_brief(expected.pieces)}"
        assert context.pruned == expected.pruned
    assert (str(context.strategy), context.dropped) == (expected.strategy, expected.dropped)
    assert context.own_summary_id == expected.own
    check_laws(tree, tip_id, context, limits)


def _brief(pieces: Sequence[Piece]) -> str:
    return " ".join(f"{piece.origin}:{piece.id}:{piece.tokens}" for piece in pieces)


def check_laws(tree: Tree, tip_id: int, context: ChatContext, limits: Limits) -> None:
    history = [m for m in context.messages if m.origin not in ("system", "contribution")]
    around = [m for m in context.messages if m.origin in ("system", "contribution")]
    assert list(context.messages) == around + history
    assert context.history_tokens == sum(m.tokens for m in history)
    assert context.tokens == sum(m.tokens for m in context.messages)
    sent = context.to_openai()
    assert _recount(sent) <= sum(m.tokens for m in context.messages), "more is sent than was counted"
    path = tree.path(tip_id)
    on_branch = told_by(path) | tree.told_above
    assert serials_in(json.dumps(sent)) <= on_branch, "text of another branch, or erased text, is shown"
    check_calls(sent)
    told = {node.id for node in path if node.own and node.own in json.dumps(sent)}
    if limits.settings.mode == "off":
        assert [m.message_id for m in history] == [node.id for node in path]
        return
    assert told == {context.own_summary_id} - {None}, (
        "a provider's summary is shown to another, or none where it counts"
    )
    assert context.history_tokens <= limits.tried
    summary = shown_summary(tree, tip_id, limits)
    if any(m.origin == "shared_extract" for m in history):
        assert context.summary_id is not None
        before, summary = summary, tree[context.summary_id]
        assert summary.parent not in {node.id for node in path}, "its anchor is on the branch"
        assert before is None or tree.depth(before.cutoff or 0) < tree.depth(summary.cutoff or 0)
        assert context.dropped == 0
    tail = tree.tail(tip_id, summary)
    if context.own_summary_id:
        tail = tail_of_own(tail, context)
        assert context.summary_id is context.pinned_id is None
    ids = [m.message_id for m in history if m.origin not in ("summary", "shared_extract", "pinned", "pin")]
    tail_ids, pins = [node.id for node in tail], [node.id for node in tree.pins(tip_id)]
    if context.own_summary_id and not newest_user(tail):
        newest = tree.newest(tip_id)
        user = newest_user(tree.tail(tip_id, newest)) or (tree[newest.pin] if newest and newest.pin else None)
        pins = sorted({*pins, user.id} if user else pins)
    beside = [m.message_id for m in history if m.origin == "pin"]
    assert list(context.pin_ids) == beside == [i for i in pins if i in beside], "no pin, or out of order"
    assert not {*ids, context.pinned_id} & set(beside), "shown twice"
    assert ids == [i for i in tail_ids if i in set(ids)], "out of order, twice, or from before the cutoff"
    missing = {*tail_ids, *pins} - {m.message_id for m in history}
    assert context.dropped == len(missing), "a message is missing and not counted as dropped"
    assert context.dropped == 0 or context.strategy == "truncated"
    assert (context.strategy == "auto_compact") <= ("summary" in {m.origin for m in history})
    for message in history:
        left = len(tree[message.message_id].content.encode()) - len(message.content.encode())
        assert message.left_out_bytes == (left if message.origin == "pruned" else 0)
    for group in groups(tail):
        shown = [node.id in ids for node in group]
        # Reading may begin between two messages with calls of a group.
        assert shown == sorted(shown), "a call stands without its result"
        assert has_its_calls([node for node in group if node.id in ids]), "a result stands without its call"
    _check_newest_user(tree, path, summary, context)


def tail_of_own(tail: list[Node], context: ChatContext) -> list[Node]:
    """What is below the provider's summary and in its group: the newest on the branch, that no summary covers."""
    own = next(node for node in tail if node.id == context.own_summary_id)
    assert own.own
    assert not own.is_others
    below = tail[tail.index(own) + 1 :]
    assert not any(node.own and not node.is_others for node in below)
    return tail[tail.index(next(group[0] for group in groups(tail) if own in group)) :]


def _check_newest_user(tree: Tree, path: list[Node], summary: Node | None, context: ChatContext) -> None:
    """Rule 7: verbatim in the prompt, unless a compaction covered it where it was not the newest."""
    user = newest_user(path)
    covered = {i for link in tree.chain(summary) for i in link.covered} if summary else set()
    if user is None or user.id in covered:
        return
    found = [m for m in context.messages if m.message_id == user.id]
    assert [m.content for m in found] == [user.content], f"the newest user message, {user.id}, is not shown as it is"


def check_calls(sent: list[dict[str, Any]]) -> None:
    """What a provider checks: each call answered directly after it, and no result without its call."""
    waiting: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "a result without its call"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "a call without its result"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]


def _recount(sent: list[dict[str, Any]]) -> int:
    total = 0
    for message in sent:
        total += 4 + count(str(message["content"] or "")) + count(message.get("name") or "")
        for call in message.get("tool_calls") or ():
            total += count(call["function"]["name"]) + count(call["function"]["arguments"])
    return total
