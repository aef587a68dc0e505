"""Ten thousand random tool results through prune and fit: never larger, always valid, pairs whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compaction_app.context.pruning import call_groups, fit, micro_compact, protected_from, prune
from compaction_app.exceptions import ContextOverflow
from compaction_app.tokens import ExactTokenCounter, count_messages
from compaction_app.values import Message, Role

pytestmark = pytest.mark.pure

#: Results in all, and in one conversation.
RESULTS = 10_000
BATCH = 100
count = ExactTokenCounter()

# What tools print: words, code with white space that matters, wide and joined characters, escapes, one long line, a
# notice of ours that is none. Most are small and some are far over every limit, as in life.
PIECES = st.sampled_from(
    [
        "ok\n",
        "    def f(x):\n\t\treturn x  \n\n\n",
        "語",
        "👩‍👩‍👧",
        "e\u0301",
        "\x1b[31mred\x1b[0m",
        "...truncated 12 bytes...",
        '{"a": [1, 2, {"b": null}]}',
        "</tool>",
        "\r\n",
        "\u2028",
        "x" * 257,
        "-",
    ]
)
SMALL_RESULTS = st.text(max_size=60)
LARGE_RESULTS = st.builds(
    lambda pieces, times: "".join(pieces) * times, st.lists(PIECES, max_size=5), st.integers(0, 150)
)
RESULT = st.one_of(SMALL_RESULTS, LARGE_RESULTS, LARGE_RESULTS)


def conversation(results: Sequence[str], sizes: Sequence[int]) -> list[Message]:
    """Turns with a call for as many results as the sizes say: one call each, or several in one message."""
    rows: list[dict[str, object]] = []
    waiting = list(results)
    while waiting:
        size = sizes[len(rows) % len(sizes)]
        taken, waiting = waiting[:size], waiting[size:]
        ids = [f"c{len(waiting)}_{n}" for n in range(len(taken))]
        calls = tuple({"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in ids)
        if len(rows) % 3 == 0:
            rows.append({"role": Role.USER, "content": f"and then? {len(rows)}"})
        rows.append({"role": Role.ASSISTANT, "content": "", "tool_calls": calls})
        rows += [{"role": Role.TOOL, "content": text, "tool_call_id": i} for text, i in zip(taken, ids, strict=True)]
    tokens = count_messages(rows, count)
    return [
        Message(id=n, depth=n, tokens=size, **row)  # type: ignore[arg-type]  # built two lines up
        for n, (row, size) in enumerate(zip(rows, tokens, strict=True), start=1)
    ]


def assert_valid(before: Message, after: Message) -> None:
    """Never larger, still UTF-8, and only a tool result has changed, in its content."""
    assert len(after.content.encode()) <= len(before.content.encode())
    if after.content != before.content:
        assert before.role == Role.TOOL
    assert all(getattr(after, f) == getattr(before, f) for f in ("id", "role", "tool_calls", "tool_call_id"))


def assert_pairs_whole(messages: Sequence[Message], shown: Sequence[Message]) -> None:
    ids = {message.id for message in shown}
    for group in call_groups(messages):
        assert len({message.id in ids for message in group}) == 1


class TestTenThousand:
    seen: ClassVar[list[int]] = []

    @given(
        results=st.lists(RESULT, min_size=BATCH, max_size=BATCH),
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
        limit=st.integers(1, 6_000),
        keep_turns=st.integers(1, 5),
        share=st.floats(0.01, 1.2),
        preserve=st.integers(2, 6),
    )
    @settings(
        max_examples=RESULTS // BATCH,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def _put_through(
        self, results: list[str], sizes: list[int], limit: int, keep_turns: int, share: float, preserve: int
    ) -> None:
        self.seen.append(len(results))
        messages = conversation(results, sizes)
        pruned = prune(messages, keep_turns=keep_turns, max_bytes=limit, count=count)
        collapsed = micro_compact(pruned.messages, keep_turns=keep_turns, count=count)
        protected = protected_from(messages, keep_turns)
        for before, after, last in zip(messages, pruned.messages, collapsed.messages, strict=True):
            assert_valid(before, after)
            assert_valid(after, last)
            if before.role == Role.TOOL and before.id <= protected:
                is_too_large = len(before.content.encode()) > limit
                assert len(after.content.encode()) <= limit if is_too_large else after == before
            if before.id in pruned.left_out:
                left = len(before.content.encode()) - len(after.content.encode())
                assert pruned.left_out[before.id] == left > 0
        assert pruned.messages[protected:] == tuple(messages[protected:]) == collapsed.messages[protected:]
        assert prune(pruned.messages, keep_turns=keep_turns, max_bytes=limit, count=count).messages == pruned.messages
        self._fit(messages, collapsed.messages, limit, share, preserve)

    def _fit(
        self, originals: list[Message], messages: Sequence[Message], limit: int, share: float, preserve: int
    ) -> None:
        available = max(1, int(sum(message.tokens for message in messages) * share))
        newest = max(m.id for m in messages if m.role == Role.USER)
        try:
            options = {"summary_tokens": 0, "pinned": None, "preserve": preserve, "max_bytes": limit, "count": count}
            fitted = fit(messages, available=available, **options)  # type: ignore[arg-type]  # of several types
        except ContextOverflow as overflow:
            needed = [m for m in messages if m.id == newest or m in call_groups(messages)[-1]]
            assert available < overflow.needed <= sum(m.tokens for m in needed)  # noqa: PT017  # its numbers are the law
            return
        by_id = {message.id: message for message in originals}
        for message in fitted.messages:
            assert_valid(by_id[message.id], message)
        assert [m.id for m in fitted.messages] == sorted(m.id for m in fitted.messages)
        assert sum(m.tokens for m in fitted.messages) <= available
        assert newest in [m.id for m in fitted.messages]
        assert next(m for m in fitted.messages if m.id == newest) == by_id[newest]
        assert fitted.dropped == len(messages) - len(fitted.messages)
        assert_pairs_whole(messages, fitted.messages)

    def test_none_gets_larger_none_is_invalid_and_no_pair_is_split(self):
        self.seen.clear()
        self._put_through()
        assert sum(self.seen) >= RESULTS
