"""What a model must be shown at a tip, worked out by brute force from the whole branch (rules 3 to 7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from compaction_app.conf import Settings
from compaction_app.context.pruning import collapse_blanks
from compaction_app.messages.transcript import summary_message
from compaction_app.messages.truncate import shorten
from compaction_app.values import ChatContext
from tests.state_machine.model import Node, Tree, count, groups, newest_user, serials_in


@dataclass(frozen=True)
class Limits:
    """The budget of design §5, worked out again."""

    settings: Settings
    window: int
    system_tokens: int
    reserved: int
    available: int
    threshold: int
    target: int

    @classmethod
    def of(
        cls, settings: Settings, system_prompt: str, factor: float, *, extra: int = 0, reply: int | None = None
    ) -> Limits:
        window = settings.context_window or settings.default_context_window
        system_tokens = 4 + count(system_prompt) if system_prompt else 0
        if reply is None:
            reply = min(settings.reserved_tokens, window // 4)
        reserved = system_tokens + extra + reply
        available = window - reserved
        threshold = min(int(available * settings.trigger_ratio), settings.trigger_tokens_cap)
        target = min(int(window * settings.target_ratio), int(0.9 * threshold))
        return cls(
            settings=settings,
            window=window,
            system_tokens=system_tokens,
            reserved=reserved,
            available=int(available / factor),
            threshold=int(threshold / factor),
            target=int(target / factor),
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

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)


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
    summary = tree.newest(tip_id)
    tail = tree.tail(tip_id, summary)
    head = []
    if summary:
        head.append(
            Piece("summary", summary.id, settings.summary_role, summary_message(summary.content), summary.tokens)
        )
        if summary.pin:
            head.append(verbatim(tree[summary.pin], "pinned"))
    shown, strategy, raw = prune(head, tail, limits)
    least = max(1, settings.prune_tool_result_bytes // 32)
    reach = sum(min(n.tokens, least) if n.role == "tool" else n.tokens for n in tail)
    # Results that shrink more than the reader reckons with leave room for messages that it has not read.
    beyond = reach > limits.available
    read_short = settings.micro_compact and beyond
    total = _tokens(head) + _tokens(shown)
    over = raw > limits.threshold and total > limits.threshold
    if summary or total > limits.threshold:
        strategy = "auto_compact"
    if total <= limits.available:
        pieces = [*head, *shown]
        return Expected(pieces, strategy, pruned=_pruned(shown), over_threshold=over, read_short=read_short)
    expected = fit(head, tail, shown, limits)
    expected.read_short = read_short or (expected.squeezed and beyond)
    expected.over_threshold = over
    return expected


def prune(head: Sequence[Piece], tail: Sequence[Node], limits: Limits) -> tuple[list[Piece], str, int]:
    """The free layers: old tool results shortened, then their white space."""
    settings = limits.settings
    shown = [verbatim(node) for node in tail]
    raw = _tokens(head) + _tokens(shown)
    if raw <= limits.threshold and settings.prune != "always":
        return shown, "none", raw
    users = [index for index, node in enumerate(tail) if node.role == "user"]
    old = range(users[-settings.prune_keep_turns]) if len(users) >= settings.prune_keep_turns else range(0)
    strategy = "none"
    for index in old:
        if shown[index].role == "tool":
            shown[index] = rewritten(shown[index], shorten(shown[index].content, settings.prune_tool_result_bytes))
    if _pruned(shown):
        strategy = "tool_result_budget"
    if settings.micro_compact and _tokens(head) + _tokens(shown) > limits.threshold:
        before = list(shown)
        for index in old:
            if shown[index].role == "tool":
                shown[index] = rewritten(shown[index], collapse_blanks(shown[index].content))
        strategy = strategy if before == shown else "micro_compact"
    return shown, strategy, raw


def fit(head: Sequence[Piece], tail: Sequence[Node], shown: Sequence[Piece], limits: Limits) -> Expected:
    """The last resort of design §9, on the whole tail: which pieces are left when not all fit."""
    fitting = _Fitting(head, tail, shown, limits.settings.preserve_recent_messages)
    max_bytes = limits.settings.prune_tool_result_bytes
    target = min(limits.target, limits.available)
    fitting.drop_turns(target)
    fitting.shorten_results(target, max_bytes)
    fitting.drop(fitting.unprotected(), target)
    # From here on only while it is over what is available.
    squeezed = fitting.total() > limits.available
    if squeezed:
        fitting.shorten_results(0, 64)
    fitting.drop(fitting.preserved_but_last(), limits.available)
    fitting.drop_heads(limits.available)
    pieces = fitting.pieces()
    return Expected(
        [*fitting.heads.values(), *pieces],
        "truncated",
        pruned=_pruned(pieces),
        dropped=len(tail) - len(pieces),
        overflow=fitting.total() if fitting.total() > limits.available else None,
        squeezed=squeezed,
    )


class _Fitting:
    """Call groups by number, oldest first, and which of them are still here."""

    def __init__(self, head: Sequence[Piece], tail: Sequence[Node], shown: Sequence[Piece], preserve: int) -> None:
        self.left = {piece.id: piece for piece in shown}
        self.heads = {piece.origin: piece for piece in head}
        self.groups = [[node.id for node in group] for group in groups(tail)]
        self.starts = [self.left[group[0]].role == "user" for group in self.groups]
        self.here = list(range(len(self.groups)))
        self.newest = max((n for n in self.here if self.starts[n]), default=None)
        floor = {node.id for node in tail[-preserve:]}
        self.preserved = {n for n in self.here if floor & set(self.groups[n])}

    def pieces(self) -> list[Piece]:
        return [self.left[i] for n in self.here for i in self.groups[n]]

    def total(self) -> int:
        return _tokens(self.pieces()) + _tokens(list(self.heads.values()))

    def drop_turns(self, target: int) -> None:
        """Whole turns, oldest first, but for what is preserved and the newest user message."""
        turns = [sum(self.starts[: n + 1]) for n in range(len(self.groups))]
        for old in sorted(set(turns))[:-1]:
            if self.total() > target:
                self.here = [n for n in self.here if turns[n] != old or n in self.preserved or n == self.newest]

    def shorten_results(self, target: int, max_bytes: int) -> None:
        """Tool results of what is left, the largest first."""
        results = [piece for piece in self.pieces() if piece.role == "tool"]
        for piece in sorted(results, key=lambda piece: (-piece.tokens, results.index(piece))):
            shorter = rewritten(piece, shorten(piece.content, max_bytes))
            if self.total() > target and shorter.tokens < piece.tokens:
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
        """A pin that is not the newest user message, then the summary."""
        if self.newest is not None and self.total() > available:
            self.heads.pop("pinned", None)
        if self.total() > available:
            self.heads.pop("summary", None)


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
    on_branch = {n.serial for n in path}
    assert serials_in(json.dumps(sent)) <= on_branch, "text of another branch, or erased text, is shown"
    check_calls(sent)
    if limits.settings.mode == "off":
        assert [m.message_id for m in history] == [node.id for node in path]
        return
    assert context.history_tokens <= limits.available
    summary = tree.newest(tip_id)
    tail = tree.tail(tip_id, summary)
    ids = [m.message_id for m in history if m.origin not in ("summary", "pinned")]
    tail_ids = [node.id for node in tail]
    assert ids == [i for i in tail_ids if i in set(ids)], "out of order, twice, or from before the cutoff"
    assert context.dropped == len(tail_ids) - len(ids), "a message is missing and not counted as dropped"
    assert context.dropped == 0 or context.strategy == "truncated"
    for message in history:
        left = len(tree[message.message_id].content.encode()) - len(message.content.encode())
        assert message.left_out_bytes == (left if message.origin == "pruned" else 0)
    for group in groups(tail):
        assert len({node.id in ids for node in group}) == 1, "a call stands without its result"
    _check_newest_user(tree, path, summary, context)


def _check_newest_user(tree: Tree, path: list[Node], summary: Node | None, context: ChatContext) -> None:
    """Rule 7: verbatim in the prompt, unless a compaction covered it where it was not the newest."""
    user = newest_user(path)
    covered = {i for link in tree.chain(summary) for i in link.covered} if summary else set()
    if user is None or user.id in covered:
        return
    found = [m for m in context.messages if m.message_id == user.id]
    assert [m.content for m in found] == [user.content]


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
