"""What a context says of itself, proved by the rows it was made from."""

import pytest

from compaction_app import chat, tasks
from compaction_app.models import ChatSession, CompactionEvent
from tests.builders import grow, words
from tests.small import anchored_summary, shown_ids, small, tool_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


class TestFigures:
    @pytest.mark.parametrize(
        ("shorthand", "changes", "summary", "strategy"),
        [
            pytest.param("u(1205)", {"CONTEXT_WINDOW": 2_000}, None, "none", id="whole, though calibration says no"),
            pytest.param("u(1205)", {"CONTEXT_WINDOW": 2_000, "PRUNE": "always"}, None, "none", id="nothing to prune"),
            pytest.param("u a u a", {}, 30, "auto_compact", id="a summary"),
            pytest.param("u a u a", {}, 7_990, "truncated", id="the summary is left out, and all else fits"),
            pytest.param("u c t(8500)", {}, None, "truncated", id="a result shortened to fit"),
        ],
    )
    def test_truncated_is_where_something_is_missing_and_auto_compact_where_a_summary_is(
        self, settings, shorthand, changes, summary, strategy
    ):
        settings.COMPACTION = small(**changes, RESERVED_TOKENS=500 if changes else 2_000)
        session = ChatSession.objects.create(model="m", token_calibration={"m": 1.5} if changes else {})
        rows = grow(session, None, shorthand)
        if summary:
            anchored_summary(rows[1], rows[1], tokens=summary)
        context = chat.get_context(rows[-1])
        assert (context.strategy, context.fallback_used) == (strategy, strategy == "truncated")
        assert (context.summary_id is not None) == (strategy == "auto_compact")
        reply = chat.append_message(session, rows[-1], role="assistant", content="x", context=context)
        recorded = CompactionEvent.objects.filter(kind="fallback_used").count()
        assert (reply.fallback_used, recorded) == (context.fallback_used, context.fallback_used)

    def test_a_reply_keeps_the_same_figures_and_an_event_where_messages_were_left_out(self):
        session = chat.start_session(model="m")
        tip = grow(session, None, "u " + "c t(900) " * 40)[-1]
        context = chat.get_context(tip)
        reply = chat.append_message(session, tip, role="assistant", content="x", context=context)
        for name in ("strategy", "pruned", "dropped", "tokens", "summary_id", "cutoff_id", "first_shown_depth"):
            assert reply.sent_context[name] == getattr(context, name)
        [event] = CompactionEvent.objects.filter(kind="fallback_used")
        assert (event.payload["dropped"], event.payload["pruned"]) == (context.dropped, context.pruned)


class TestPrefix:
    """A provider's prompt cache is kept where the prompt of the turn before is a prefix of the next."""

    @pytest.mark.parametrize(
        ("changes", "size", "least"),
        [
            # With a boundary that moves in every turn it is 15, 2 and 16.
            ({"PRUNE": "pressure", "CONTEXT_WINDOW": 64_000}, 3_000, 22),
            ({"PRUNE": "always", "CONTEXT_WINDOW": 64_000}, 3_000, 19),
            ({"CONTEXT_WINDOW": 5_000}, 200, 20),
        ],
    )
    def test_over_thirty_turns_with_tools_the_beginning_mostly_stays(self, settings, changes, size, least):
        settings.COMPACTION = small(**changes, TOKEN_COUNTER="compaction_app.tokens.CharacterTokenCounter")
        session, tip, prompt, kept = chat.start_session(), None, [], -1
        for number in range(30):
            written = [
                {"role": "user", "content": f"question {number}"},
                {"role": "assistant", "tool_calls": [tool_call(f"c{number}")]},
                {"role": "tool", "content": f"{number:02} " * size, "tool_call_id": f"c{number}"},
            ]
            *_, tip = chat.append_messages(session, tip, written)
            before, prompt = prompt, chat.get_context(tip).to_openai()
            kept += prompt[: len(before)] == before
            tip = chat.append_message(session, tip, role="assistant", content=f"answer {number}")
        assert kept >= least


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


@pytest.mark.parametrize(
    ("model", "own", "threshold"),
    [
        pytest.param("house-large-2", {}, 7_200, id="the longest prefix counts"),
        pytest.param("another", {}, 6_000, id="any other has the ratio of all"),
        pytest.param("house-small", {"TRIGGER_RATIO": 0.6}, 4_800, id="a session's own ratio goes first"),
        pytest.param("house-small", {"MODE": "aggressive"}, 4_000, id="what is set explicitly beats a preset"),
    ],
)
def test_the_threshold_is_the_models(settings, model, own, threshold):
    """8,000 tokens are available."""
    models = {"house-": {"trigger_ratio": 0.5}, "house-large": {"trigger_ratio": 0.9}}
    settings.COMPACTION = small(TRIGGER_RATIO=0.75, MODELS=models)
    tip = grow(chat.start_session(model="another", settings=own), None, "u")[-1]
    assert chat.get_context(tip, model=model).threshold == threshold


def test_a_smaller_chat_model_is_shown_the_newest_turns_until_a_summary_fits(settings):
    """One message of 7 tokens was shown of 6,144, and nothing made it better."""
    windows = {"large": 128_000, "little": 8_192}
    settings.COMPACTION = small(
        CONTEXT_WINDOW=None,
        MODELS={model: {"window": window} for model, window in windows.items()},
        RESERVED_TOKENS=2_048,
    )
    session = chat.start_session(model="large")
    rows = grow(session, None, "u a " * 100 + "u(500) a(500) " * 10 + "u(7)")
    summary = anchored_summary(rows[210], rows[199], tokens=7_570)
    assert chat.get_context(rows[-1]).summary_id == summary.pk
    context = chat.get_context(rows[-1], model="little")
    assert (context.summary_id, context.strategy) == (None, "truncated")
    assert 5_000 < context.history_tokens <= context.available_tokens == 6_144
    assert context.messages[-1].message_id == rows[-1].pk
    assert context.dropped == len(rows) - len(context.messages)
    assert chat.should_compact(rows[-1], model="little")
    run = chat.request_compaction(rows[-1], model="little")
    tasks.compact_branch(run.pk)
    run.refresh_from_db()
    assert run.base_id == summary.pk
    context = chat.get_context(rows[-1], model="little")
    assert context.summary_id == run.summary_id is not None
    assert (context.strategy, context.dropped) == ("auto_compact", 0)


def test_a_tip_that_is_cutoff_and_anchor_is_shown_where_its_summary_cannot_be(session):
    """The prompt was empty, nothing was dropped, and there was no error."""
    rows = grow(session, None, "u a u a u a")
    anchored_summary(rows[3], rows[3], tokens=900)
    assert shown_ids(rows[3])[0] not in {row.pk for row in rows}
    context = chat.get_context(rows[3], reserved_tokens=9_500)
    assert [message.message_id for message in context.messages] == [row.pk for row in rows[:4]]
    assert len(context.to_openai()) == 4
