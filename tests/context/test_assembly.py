"""What a context says of itself, proved by the rows it was made from (design §9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.context.pruning import collapse_blanks
from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.truncate import shorten
from compaction_app.models import ChatMessage, CompactionEvent
from compaction_app.testing.builders import grow, words
from compaction_app.values import ChatContext
from tests.small import anchored_summary, small

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small_world(small_window):
    """Before the fixtures of a class, which change some of it: a mark would come after them."""


def assert_true(context: ChatContext, tip: ChatMessage, max_bytes: int, *, collapses: bool = False) -> None:
    """Every figure of a context, worked out anew from the branch's rows."""
    path = chat.get_branch(tip)
    rows = {row.pk: row for row in path}
    summary = chat.find_summary(tip)
    cutoff = summary.last_summarized_message if summary else None
    after = [row for row in path if cutoff is None or row.depth > cutoff.depth]
    tail = [m for m in context.messages if m.origin in ("verbatim", "pruned")]

    assert [m.message_id for m in tail] == [row.pk for row in after if row.pk in {m.message_id for m in tail}]
    assert context.dropped == len(after) - len(tail)
    changed = [m for m in tail if m.content != rows[m.message_id].content]
    assert context.pruned == len(changed)
    for message in tail:
        assert (message.origin == "pruned") is (message in changed)
        left = len(rows[message.message_id].content.encode()) - len(message.content.encode())
        assert message.left_out_bytes == left
    for message in changed:
        stored = rows[message.message_id].content
        assert message.role == "tool"
        assert left_by_a_layer(message.content, stored, max_bytes, collapses)
    assert context.tokens == sum(m.tokens for m in context.messages)
    assert context.history_tokens <= context.available_tokens
    assert context.strategy == expected_strategy(context, collapsed=any_collapsed(changed, rows, max_bytes))


def left_by_a_layer(shown: str, stored: str, max_bytes: int, collapses: bool) -> bool:
    """The prune's bytes; a fit in need shortens further; collapsed white space on top where that is on."""
    pruned = shorten(stored, max_bytes)
    if collapses and shown == collapse_blanks(pruned):
        return True
    return shown == pruned or len(shown.encode()) < len(pruned.encode())


def any_collapsed(changed: list[Any], rows: dict[int, ChatMessage], max_bytes: int) -> bool:
    """Whether a result is shown otherwise than pruning by itself leaves it, and as collapsing leaves that."""
    for message in changed:
        pruned = shorten(rows[message.message_id].content, max_bytes)
        if message.content == collapse_blanks(pruned) != pruned:
            return True
    return False


def expected_strategy(context: ChatContext, *, collapsed: bool) -> str:
    if context.dropped:
        return "truncated"
    if context.summary_id or context.history_tokens > context.threshold:
        return "auto_compact"
    if collapsed:
        return "micro_compact"
    return "tool_result_budget" if context.pruned else "none"


class TestFigures:
    @pytest.mark.parametrize(
        ("shorthand", "changes", "strategy"),
        [
            ("u a u", {}, "none"),
            ("u c t(2000) u a u a u", {}, "none"),
            ("u c t(2000) u a u a u", {"PRUNE": "always"}, "tool_result_budget"),
            ("u c t(2000) u a u a u", {"MODE": "deterministic"}, "tool_result_budget"),
            ("u c t(2500) c t t(2500) u c t(1500) u a u a u", {}, "tool_result_budget"),
            ("u a " * 35, {}, "auto_compact"),
            ("u a " * 60, {}, "truncated"),
            ("u c t(700) " * 8, {"MODE": "aggressive"}, "tool_result_budget"),
            ("u " + "c t(900) " * 40, {}, "truncated"),
        ],
    )
    def test_strategy_pruned_and_dropped_are_what_the_rows_say(self, settings, shorthand, changes, strategy):
        settings.COMPACTION = small(**changes)
        tip = grow(chat.start_session(), None, shorthand)[-1]
        context = chat.get_context(tip)
        assert context.strategy == strategy
        if strategy != "truncated":
            assert_true(context, tip, 1024 if changes.get("MODE") == "aggressive" else 4096)

    @given(
        letters=st.lists(
            st.sampled_from(["u", "u(400)", "a", "a(700)", "c t(1500)", "c t t(90)"]), min_size=2, max_size=30
        ),
        prune=st.sampled_from(["always", "pressure"]),
        max_bytes=st.sampled_from([300, 4096]),
        share=st.floats(0, 1),
        is_compacted=st.booleans(),
    )
    @settings(
        max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    def test_they_are_true_of_any_branch(self, settings, letters, prune, max_bytes, share, is_compacted):
        settings.COMPACTION = small(PRUNE=prune, PRUNE_TOOL_RESULT_BYTES=max_bytes)
        messages = grow(chat.start_session(), None, " ".join(["u", *letters]))
        if is_compacted:
            starts = [i for i, message in enumerate(messages) if message.role == "user" and i > 1]
            if starts:
                cut = starts[int(share * (len(starts) - 1))]
                anchored_summary(messages[cut - 1], messages[cut - 1])
        context = chat.get_context(messages[-1])
        assert_true(context, messages[-1], max_bytes)

    def test_collapsed_results_are_counted_with_the_pruned_ones(self, settings):
        """Layer on layer: shortened, then collapsed; what is left out is the sum of both."""
        counter = "compaction_app.tokens.CharacterTokenCounter"
        settings.COMPACTION = small(TOKEN_COUNTER=counter, MICRO_COMPACT=True)
        session = chat.start_session()
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages: list[dict[str, Any]] = []
        for airy in ("tide \n\n\n  " * 1_000, "ebb  " * 300):
            messages += [{"role": "user", "content": "look"}, {"role": "assistant", "tool_calls": [call]}]
            messages.append({"role": "tool", "content": airy, "tool_call_id": "c"})
        messages += [{"role": role, "content": "x" * 5_000} for role in ("user", "assistant", "user")]
        messages.append({"role": "user", "content": "now?"})
        tip = chat.append_messages(session, None, messages)[-1]
        context = chat.get_context(tip)
        assert (context.strategy, context.pruned, context.dropped) == ("micro_compact", 2, 0)
        assert_true(context, tip, 4096, collapses=True)

    def test_a_reply_keeps_the_same_figures_and_an_event_where_messages_were_left_out(self):
        session = chat.start_session(model="m")
        tip = grow(session, None, "u " + "c t(900) " * 40)[-1]
        context = chat.get_context(tip)
        reply = chat.append_message(session, tip, role="assistant", content="x", context=context)
        for name in ("strategy", "pruned", "dropped", "tokens", "summary_id", "cutoff_id", "first_shown_depth"):
            assert reply.sent_context[name] == getattr(context, name)
        [event] = CompactionEvent.objects.filter(kind="fallback_used")
        assert (event.payload["dropped"], event.payload["pruned"]) == (context.dropped, context.pruned)

    def test_nothing_helps_is_said_with_numbers(self):
        tip = grow(chat.start_session(), None, "u a u(9000)")[-1]
        with pytest.raises(ContextOverflow) as caught:
            chat.get_context(tip)
        assert (caught.value.needed, caught.value.available) == (9_000, 8_000)


class TestContributions:
    def test_they_take_room_from_the_history_and_nothing_else(self):
        """2,000 tokens more around it: threshold and target move, and what fits is less by as much."""
        tip = grow(chat.start_session(system_prompt="Be kind."), None, "u a " * 35)[-1]
        plain = chat.get_context(tip)
        contributions = [{"role": "developer", "content": words(1_004)}, {"role": "user", "content": words(1_004)}]
        context = chat.get_context(tip, contributions=contributions)
        assert [m.origin for m in context.messages][:4] == ["system", "contribution", "contribution", "verbatim"]
        assert [m.tokens for m in context.messages][1:3] == [1_004, 1_004]
        assert context.available_tokens == plain.available_tokens - 2_008
        assert context.reserved_tokens == plain.reserved_tokens + 2_008
        assert context.threshold == int(context.available_tokens * 0.75)
        assert (plain.dropped, context.strategy) == (0, "truncated")
        assert context.tokens <= context.window - 2_000

    def test_they_come_before_the_summary_and_are_made_anew_each_turn(self):
        messages = grow(chat.start_session(system_prompt="Be kind."), None, "u a u a u")
        anchored_summary(messages[1], messages[1])
        first = chat.get_context(messages[-1], contributions=[{"role": "system", "content": "tide: 4"}])
        assert [m.origin for m in first.messages] == ["system", "contribution", "summary", *["verbatim"] * 3]
        again = chat.get_context(messages[-1], contributions=[{"role": "system", "content": "tide: 5"}])
        assert [m["content"] for m in again.to_openai()][1] == "tide: 5"
        assert ChatMessage.objects.filter(content__contains="tide").count() == 0

    def test_they_count_towards_the_trigger(self):
        tip = grow(chat.start_session(), None, "u a " * 28)[-1]
        assert not chat.should_compact(tip)
        assert chat.should_compact(tip, contributions=[{"role": "system", "content": words(1_004)}])
