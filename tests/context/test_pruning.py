"""Shortening what is shown: prune and fit."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compaction_app.context.pruning import call_groups, collapse_blanks, fit, protected_from, prune
from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.truncate import shorten
from compaction_app.tokens import ExactTokenCounter, count_messages
from compaction_app.values import Branch, Message, Role, Summary
from tests.builders import WordTokenCounter
from tests.small import messages_of

pytestmark = pytest.mark.pure

count = WordTokenCounter()


def ids(messages):
    return [message.id for message in messages]


def shortened(messages):
    return [message.id for message in messages if message.origin == "pruned"]


def conversation(*texts, sizes=(1,), every=1):
    """Messages with tool calls, each followed by its results.

    ``texts`` are the results; ``sizes`` say how many each message with calls has, in turn. A user's message stands
    before the first of ``every`` messages with calls.
    """
    rows, waiting = [], list(texts)
    for number in range(len(texts)):
        size = sizes[number % len(sizes)]
        taken, waiting = waiting[:size], waiting[size:]
        if not taken:
            break
        ids = [f"c{number}_{n}" for n in range(len(taken))]
        calls = [{"id": call, "type": "function", "function": {"name": "read", "arguments": "{}"}} for call in ids]
        if number % every == 0:
            rows.append({"role": Role.USER, "content": f"question {number}"})
        rows.append({"role": Role.ASSISTANT, "content": "", "tool_calls": tuple(calls)})
        rows += [{"role": Role.TOOL, "content": t, "tool_call_id": c} for t, c in zip(taken, ids, strict=True)]
    tokens = count_messages(rows, ExactTokenCounter())
    return [
        Message(id=n, depth=n, tokens=size, **row) for n, (row, size) in enumerate(zip(rows, tokens, strict=True), 1)
    ]


class TestPrune:
    def pruned(self, text, limit=4_096):
        messages = conversation(text, "b", "c", "d")
        return messages[2], prune(messages, partial(shorten, limit=limit), keep_turns=3, count=ExactTokenCounter())[2]

    def test_a_limit_smaller_than_the_notice_still_shortens(self):
        _, after = self.pruned("y" * 101, limit=100)
        assert len(after.content.encode()) <= 100
        before, after = self.pruned("y" * 30, limit=5)
        assert len(after.content.encode()) <= len(before.content.encode())

    def test_the_boundary_lies_behind_as_long_as_there_is_room(self):
        """With each turn one result more was shortened, in the middle of the prompt."""
        boundaries, behind = [], []
        for turns in range(4, 34):
            pruned = self.behind(turns, rooms=(20_000,))
            boundaries.append(max(shortened(pruned)))
            behind.append(turns - 3 - len(shortened(pruned)))
        assert (min(behind), max(behind)) == (0, 7)
        assert boundaries == sorted(boundaries)
        assert len(set(boundaries)) <= 9

    def test_without_room_every_old_result_is_shortened(self):
        pruned = self.behind(20, rooms=())
        assert len(shortened(self.behind(20, rooms=(100,)))) == len(shortened(pruned)) == 17
        least = sum(message.tokens for message in pruned)
        assert len(shortened(self.behind(20, rooms=(100, least)))) == 17

    def behind(self, turns, rooms):
        messages = conversation(*["z " * 300] * turns)
        return prune(messages, partial(shorten, limit=100), keep_turns=3, count=ExactTokenCounter(), rooms=rooms)

    def test_white_space_is_collapsed_in_old_results_only(self):
        messages = conversation("a   b\n\n\n c", "a   b", "c", "d")
        collapsed = prune(messages, collapse_blanks, keep_turns=3, count=ExactTokenCounter())
        assert [collapsed[i].content for i in (2, 5)] == ["a b\nc", "a   b"]


def fitted(shorthand, room, *, summary_tokens=0, pinned=None, unread=0, **options):
    options = {"preserve": 2, "max_bytes": 4_096, "count": count} | options
    messages = messages_of(shorthand) if isinstance(shorthand, str) else shorthand
    places = dict.fromkeys(("id", "anchor_id", "anchor_depth", "cutoff_id", "cutoff_depth", "cutoff_path_tokens"), 0)
    base = Summary(**places, tokens=summary_tokens, turn_request=pinned) if summary_tokens or pinned else None
    branch = Branch(tip_id=0, tip_depth=0, tip_path_tokens=0, base=base, tail=tuple(messages), unread=unread)
    return fit(branch, available=room, **options)


class TestFit:
    def test_what_is_available_is_used(self):
        """It went down to the target, and a third of the room was empty."""
        result = fitted("u a u a u a u a", 700)
        assert ids(result.tail) == [3, 4, 5, 6, 7, 8]

    def test_results_are_shortened_before_turns_are_left_out(self):
        """The turns of two large results were left out, and the third was shown in full."""
        result = fitted(conversation(*["big " * 3_000] * 3), 6_000, count=ExactTokenCounter())
        assert result.dropped == 0
        assert shortened(result.tail) == [3, 6], "the oldest of like size, and no more than a step"
        result = fitted(conversation(*["big " * 3_000, "small"] * 2), 5_000, count=ExactTokenCounter())
        assert (result.dropped, shortened(result.tail)) == (0, [3])

    def test_the_boundary_moves_in_steps(self):
        """It moved in each of these turns, and with it the beginning of the prompt."""
        tails = [fitted("u a " * turns, 8_000).tail for turns in range(60, 100)]
        starts = [tail[0].id for tail in tails]
        assert starts == sorted(starts)
        assert len(set(starts)) <= 12
        assert min(sum(m.tokens for m in tail) for tail in tails) >= 7_000

    @pytest.mark.long
    def test_a_document_that_goes_leaves_its_room_to_the_turns_after_it(self):
        """With it went seven turns that fitted, and their room stayed free until it was full again."""
        document = "u(60000) a " + "u(700) a(700) " * 43
        assert fitted(document, 119_808).dropped == 2
        starts = [ids(fitted(document + "u(700) a(700) " * more, 119_808).tail)[0] for more in range(0, 100, 4)]
        assert starts == sorted(starts)
        # A hundred turns are nine steps, and a few places more while the room that the document left fills up.
        assert len(set(starts)) <= 13

    def test_results_are_whole_again_where_a_turn_that_went_left_them_room(self):
        """They were cut to 4,096 bytes, and nine tenths of the room stayed free."""
        messages = conversation(*["big " * 3_000] * 2)
        huge = replace(messages[0], id=0, depth=0, tokens=20_000)
        result = fitted([huge, *messages], 10_000, count=ExactTokenCounter())
        assert (ids(result.tail), shortened(result.tail)) == ([1, 2, 3, 4, 5, 6], [])

    @given(
        sizes=st.lists(st.one_of(st.integers(1, 300), st.integers(1, 3_000)), min_size=2, max_size=60),
        available=st.integers(3_000, 9_000),
    )
    def test_no_more_is_left_out_than_has_to_be_and_a_step(self, sizes, available):
        messages = [replace(one, tokens=size) for one, size in zip(messages_of("u " * len(sizes)), sizes, strict=True)]
        gone = fitted(messages, available).dropped
        least = next(n for n in range(len(sizes)) if sum(sizes[n:]) <= available)
        assert gone == least or (gone > least and sum(sizes[gone:]) >= available - available // 8)

    def test_the_summary_goes_only_when_all_else_is_gone(self):
        result = fitted("u(300) a(300) u(300) c(100) t(100)", 900, summary_tokens=300)
        assert result.summary
        result = fitted("u(300) c(100) t(100)", 600, summary_tokens=300)
        assert not result.summary
        assert ids(result.tail) == [1, 2, 3]

    @given(
        letters=st.lists(
            st.sampled_from("u|u(700)|a|a(900)|c t|c t t(800)|c(300) t t t".split("|")), min_size=1, max_size=25
        ),
        available=st.integers(50, 4_000),
        summary=st.integers(0, 500),
    )
    def test_every_fit_fits_and_keeps_pairs_and_the_newest_user(self, letters, available, summary):
        assert_fits(messages_of(" ".join(letters)), available, summary_tokens=summary)


def assert_fits(messages, available, **options):
    """Within what is available, in order, with whole groups and the newest user's message; or an error with numbers."""
    newest = max((m.id for m in messages if m.role == Role.USER), default=None)
    try:
        result = fitted(messages, available, **options)
    except ContextOverflow as overflow:
        last = call_groups(messages)[-1]
        needed = sum(m.tokens for m in messages if m in last or m.id == newest)
        assert available < overflow.needed <= needed  # noqa: PT017  # its numbers are the law
        return
    total = sum(m.tokens for m in result.tail) + (result.summary.tokens if result.summary else 0)
    assert total <= available
    assert newest is None or next(m for m in messages if m.id == newest) in result.tail
    assert result.dropped == len(messages) - len(result.tail)
    assert ids(result.tail) == sorted(ids(result.tail))
    by_id = {message.id: message for message in messages}
    assert all(is_valid(by_id[message.id], message) for message in result.tail)
    for group in call_groups(messages):
        assert len({message.id in ids(result.tail) for message in group}) == 1


def is_valid(before, after):
    """Never larger, still UTF-8, and only a tool result has changed, in its content."""
    assert len(after.content.encode()) <= len(before.content.encode())
    assert after.content == before.content or before.role == Role.TOOL
    return all(getattr(after, f) == getattr(before, f) for f in ("id", "role", "tool_calls", "tool_call_id"))


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
LARGE_RESULTS = st.builds(
    lambda pieces, times: "".join(pieces) * times, st.lists(PIECES, max_size=5), st.integers(0, 150)
)
RESULTS = st.lists(st.one_of(st.text(max_size=60), LARGE_RESULTS, LARGE_RESULTS), min_size=40, max_size=40)


@settings(max_examples=15, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    results=RESULTS,
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    limit=st.integers(1, 6_000),
    keep_turns=st.integers(1, 5),
    share=st.floats(0.01, 1.2),
    preserve=st.integers(2, 6),
)
def test_no_result_gets_larger_or_invalid_and_no_pair_is_split(results, sizes, limit, keep_turns, share, preserve):
    exact = ExactTokenCounter()
    messages = conversation(*results, sizes=sizes, every=3)
    to_limit = partial(shorten, limit=limit)
    pruned = prune(messages, to_limit, keep_turns=keep_turns, count=exact)
    collapsed = prune(pruned, collapse_blanks, keep_turns=keep_turns, count=exact)
    protected = protected_from(messages, keep_turns)
    for before, after, last in zip(messages, pruned, collapsed, strict=True):
        assert is_valid(before, after)
        assert is_valid(after, last)
        if before.role == Role.TOOL and before.id <= protected:
            is_too_large = len(before.content.encode()) > limit
            assert len(after.content.encode()) <= limit if is_too_large else after == before
        if after.origin == "pruned":
            left = len(before.content.encode()) - len(after.content.encode())
            assert after.left_out_bytes == left > 0
        else:
            assert after == before
    assert pruned[protected:] == tuple(messages[protected:]) == collapsed[protected:]
    assert prune(pruned, to_limit, keep_turns=keep_turns, count=exact) == pruned
    available = max(1, int(sum(message.tokens for message in messages) * share))
    assert_fits(collapsed, available, preserve=preserve, max_bytes=limit, count=exact)
