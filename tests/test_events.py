"""Events: every kind made to happen, in numbers and codes alone; what they say of reasoning and of the estimate."""

import re

import pytest
from django.test import override_settings

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import EventKind
from tests.builders import grow, words
from tests.conversation.asking import client_of
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.steps import stream_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


SECRET = "pelican"
THOUGHT = {"type": "thinking", "thinking": f"the {SECRET} knows"}
ENCRYPTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
CLEARED = {
    "context_management": {
        "applied_edits": [
            {"type": "clear_thinking_20251015", "cleared_thinking_turns": 3, "cleared_input_tokens": 15_000},
            {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000},
        ]
    }
}


@pytest.fixture
def session():
    return chat.start_session(model="house-model")


def secret_branch(session):
    """Over the threshold of 6,000, with thoughts and with a word that no event may hold."""
    tip = grow(session, None, "u", word=SECRET)[-1]
    tip = chat.append_message(session, tip, role="assistant", content=words(100, SECRET), reasoning=[THOUGHT])
    return grow(session, tip, "u a " * 34, word=SECRET)[-1]


def of_kind(session, kind):
    return list(CompactionEvent.objects.filter(session=session, kind=kind).order_by("id"))


def compacted(session):
    tip = secret_branch(session)
    chat.compact(tip)
    return tip


def failing(session, code="quota"):
    FakeSummarizer.error = SummarizerError(f"{SECRET} is away", error_code=code)
    with pytest.raises(CompactionFailed):
        chat.compact(secret_branch(session))


def oversize(session):
    FakeSummarizer.text = words(6_000, SECRET)
    with pytest.raises(CompactionFailed):
        chat.compact(secret_branch(session))


def next_model(session):
    """The first model answers with an error message and status 200, the second with a summary."""
    with ScriptedOpenAIServer() as server:
        server.script(model="first", default=steps.reply(f"Error: {SECRET} is away, please try again later."))
        models = [{"model": name, "base_url": server.url} for name in ("first", "second")]
        with override_settings(COMPACTION=small(asked={"MODELS": models})):
            chat.compact(secret_branch(session))


def fall_back(session):
    tip = grow(session, secret_branch(session), "u a " * 20 + "u", word=SECRET)[-1]
    context = chat.get_context(tip)
    chat.append_message(session, tip, role="assistant", content=SECRET, context=context)


def ask_for_two(session):
    tip = grow(session, None, "u", word=SECRET)[-1]
    with ScriptedOpenAIServer() as server:
        chat.complete(tip, client=client_of(server), extra_body={"truncation": "auto"})


def report_two(session):
    tip = grow(session, None, "u", word=SECRET)[-1]
    chat.append_message(session, tip, role="assistant", content=SECRET, metadata=CLEARED)


def redact(session):
    tip = compacted(session)
    chat.redact_message(chat.get_branch(tip)[3])


HAPPENINGS = {
    EventKind.THRESHOLD_HIT: lambda session: chat.request_compaction(secret_branch(session)),
    EventKind.STARTED: compacted,
    EventKind.COMPLETED: compacted,
    EventKind.FAILED: failing,
    EventKind.SUPPRESSED: lambda session: chat.request_compaction(grow(session, None, "u a(6500)", word=SECRET)[-1]),
    EventKind.FALLBACK_USED: fall_back,
    EventKind.SUMMARY_OVERSIZE: oversize,
    EventKind.MODEL_FAILED: next_model,
    EventKind.NO_PROGRESS: lambda session: failing(session, "no_progress"),
    EventKind.REASONING_DOWNGRADED: compacted,
    EventKind.DOUBLE_COMPACTION_CONFIGURED: ask_for_two,
    EventKind.DOUBLE_RAN: report_two,
    EventKind.RETIRED: lambda session: chat.retire_summary(chat.find_summary(compacted(session)), reason=SECRET),
    EventKind.INVALIDATED: redact,
}

CODE = re.compile(r"[\w.:-]*")


def only_numbers_and_codes(value):
    if isinstance(value, dict):
        return all(CODE.fullmatch(key) and only_numbers_and_codes(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(only_numbers_and_codes, value))
    return value is None or isinstance(value, bool | int | float) or bool(CODE.fullmatch(value))


@pytest.mark.few
@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_happens_and_holds_numbers_and_codes_alone(session, kind):
    HAPPENINGS[kind](session)
    assert of_kind(session, kind)
    told = list(CompactionEvent.objects.filter(session=session))
    assert all(only_numbers_and_codes(event.payload) for event in told)
    assert SECRET not in str([event.payload for event in told])


class TestReasoning:
    """What is said when the reasoning of a turn becomes text."""

    def turns(self, session, reasonings):
        """As many as are over the threshold."""
        tip = None
        for reasoning in reasonings:
            tip = grow(session, tip, "u")[-1]
            tip = chat.append_message(session, tip, role="assistant", content=words(100), reasoning=reasoning)
        return grow(session, tip, "u a " * (35 - len(reasonings)))[-1]

    def test_reasoning_that_becomes_text_is_counted(self, session):
        tip = self.turns(session, [[THOUGHT]] * 4)
        run = chat.compact(tip)
        [event] = of_kind(session, "reasoning_downgraded")
        assert event.payload == {"turns": 4, "messages": 4}
        assert (event.run_id, event.message_id) == (run.pk, tip.pk)
        assert f"the {SECRET} knows" in FakeSummarizer.requests[0].user

    @pytest.mark.parametrize(
        ("settings_of_site", "thoughts", "downgraded"),
        [
            ({"REASONING": "drop"}, [[THOUGHT]] * 4, []),
            # Encrypted blocks have no text that could enter a prompt.
            ({}, [[ENCRYPTED]] * 4 + [[THOUGHT]] * 3, [3]),
            # The extractive summarizer does not read it.
            ({"MODE": "deterministic", "SUMMARIZER": "extractive"}, [[THOUGHT]] * 4, []),
        ],
    )
    def test_reasoning_that_is_dropped_is_not_downgraded(
        self, session, settings, settings_of_site, thoughts, downgraded
    ):
        settings.COMPACTION = small(**settings_of_site)
        run = chat.compact(self.turns(session, thoughts))
        assert [event.payload["turns"] for event in of_kind(session, "reasoning_downgraded")] == downgraded
        if not downgraded:
            assert SECRET not in run.summary.content + "".join(asked.user for asked in FakeSummarizer.requests)


class TestDoubleRan:
    def test_a_reply_that_reports_it_says_what_was_done(self, session):
        tip = grow(session, None, "u")[-1]
        reply = chat.append_message(session, tip, role="assistant", content="x", metadata=CLEARED)
        [event] = of_kind(session, "double_ran")
        told = {"cleared_thinking_turns": 3, "cleared_tool_uses": 8, "cleared_input_tokens": 65_000}
        assert (event.payload, event.message_id) == (told, reply.pk)

    def test_with_the_mode_off_only_one_of_the_two_ran(self, session):
        session.settings = {"MODE": "off"}
        session.save()
        tip = grow(session, None, "u")[-1]
        chat.append_message(session, tip, role="assistant", content="x", metadata=CLEARED)
        assert of_kind(session, "double_ran") == []

    def test_complete_reads_the_report_and_stores_its_numbers(self, session):
        edits = [{"type": "compact_20260112", "cleared_input_tokens": 90, "summary": SECRET}]

        def answer(exchange):
            usage = {"prompt_tokens": 400, "completion_tokens": 2, "total_tokens": 402}
            message = {"role": "assistant", "content": "Noted."}
            body = {"id": "x", "object": "chat.completion", "created": 0, "model": "house-model", "usage": usage}
            body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
            exchange.send_json(200, {**body, "context_management": {"applied_edits": edits}})

        tip = grow(session, None, "u(1000)")[-1]
        with ScriptedOpenAIServer([answer]) as server:
            reply = chat.complete(tip, client=client_of(server))
        [event] = of_kind(session, "double_ran")
        assert event.payload == {"compactions": 1, "cleared_input_tokens": 90}
        assert SECRET not in str(reply.metadata)
        assert "estimate_error" not in reply.sent_context
        session.refresh_from_db()
        assert session.token_calibration == {}, "a prompt that was compacted says nothing of how tokens are counted"


class TestEstimate:
    """How far our estimate was off stands on the reply, and with the decision that was made by it."""

    def test_a_reply_keeps_the_error_before_and_after_calibration(self, session):
        tip = grow(session, None, "u(996)")[-1]
        errors = []
        for _ in range(3):
            context = chat.get_context(tip)
            usage = {"prompt_tokens": int(context.tokens * 1.5)}
            session.refresh_from_db()
            reply = chat.append_message(session, tip, role="assistant", content="x", context=context, usage=usage)
            errors.append(reply.sent_context["estimate_error"])
            assert reply.sent_context["provider_tokens"] == usage["prompt_tokens"]
        assert errors[0] == pytest.approx(-1 / 3, abs=0.001), "we thought it a third smaller than it was"
        assert errors[1:] == pytest.approx([0, 0], abs=0.001)

    def test_what_is_learned_goes_by_the_name_that_is_asked(self, session):
        """OpenAI answers gpt-4o-mini as gpt-4o-mini-2024-07-18; the next turn asks for gpt-4o-mini again."""
        tip = grow(session, None, "u(1000)")[-1]
        context = chat.get_context(tip)
        usage = {"prompt_tokens": 1_500}
        reply = chat.append_message(
            session, tip, role="assistant", content="x", context=context, usage=usage, model="house-model-2026-01-01"
        )
        assert reply.model == "house-model-2026-01-01"
        session.refresh_from_db()
        assert {name: one["offset"] for name, one in session.token_calibration.items()} == {"house-model": 500}
        assert chat.get_context(tip).threshold < context.threshold

    def test_the_decision_says_by_how_much_the_estimate_was_off(self, session):
        tip = grow(session, None, "u a " * 34 + "u")[-1]
        context = chat.get_context(tip)
        usage = {"prompt_tokens": int(context.tokens * 1.25)}
        reply = chat.append_message(session, tip, role="assistant", content="x", context=context, usage=usage)
        run = chat.request_compaction(reply)
        [event] = of_kind(session, "threshold_hit")
        assert event.payload["calibration"] == pytest.approx(1.25, abs=0.01)
        assert event.payload["estimate_error"] == pytest.approx(-0.2, abs=0.01)
        compact_chat_history(run.pk)
        assert CompactionRun.objects.get().status == "succeeded"


def test_a_stream_reports_it_in_a_chunk_of_its_own(session):
    """LiteLLM puts Anthropic's blocks on the delta."""
    block = {"compaction_blocks": [{"type": "compaction", "content": SECRET}]}
    tip = grow(session, None, "u")[-1]
    with ScriptedOpenAIServer([stream_of("Noted.", {"provider_specific_fields": block})]) as server:
        list(chat.stream(tip, client=client_of(server)))
    [event] = of_kind(session, "double_ran")
    assert event.payload == {"compactions": 1}
