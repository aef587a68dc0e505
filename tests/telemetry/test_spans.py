"""Spans as a real SDK collects them: one a run, one a call of a model, and no word of a conversation."""

import asyncio

import openai
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from opentelemetry.trace import SpanKind, StatusCode

from compaction_app import chat, telemetry
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.builders import grow
from tests.small import anchored_summary, small
from tests.steps import echoing_validation_error
from tests.telemetry.world import GOOD, SECRET, USAGE, over_threshold

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.usefixtures("cascade")
class TestSpans:
    def spans(self, collected):
        """By start, so that a run stands before its calls."""
        return sorted(collected.spans.get_finished_spans(), key=lambda span: span.start_time)

    def test_a_run_is_a_span_and_each_call_of_a_model_one_below_it(self, collected, server):
        server.script([steps.reply("", usage={**USAGE, "completion_tokens": 0})], model="small-model")
        run = chat.compact(over_threshold()[-1])
        whole, first, second = self.spans(collected)
        assert [span.name for span in (first, second)] == ["chat small-model", "chat large-model"]
        assert whole.name == "compaction.run"
        assert first.parent.span_id == second.parent.span_id == whole.context.span_id
        assert (whole.kind, first.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
        assert dict(whole.attributes) == {
            "compaction.run.id": run.pk,
            "compaction.layer": "auto_compact",
            "compaction.trigger": "manual",
            "compaction.attempt": 1,
            "gen_ai.conversation.id": str(run.session_id),
            "compaction.outcome": "succeeded",
            "compaction.generation": 1,
            "compaction.messages_compacted": run.messages_compacted,
            "compaction.tokens_before": run.tokens_before,
            "compaction.tokens_after": run.tokens_after,
        }
        port = int(server.url.split(":")[2].split("/")[0])
        assert dict(second.attributes) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "large-model",
            "gen_ai.request.max_tokens": 20_000,
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 3_000,
            "gen_ai.usage.output_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 1_000,
            "server.address": "127.0.0.1",
            "server.port": port,
        }
        assert whole.status.status_code is StatusCode.UNSET

    def test_awaited_and_from_a_running_loop_the_calls_stand_below_their_run(self, collected):
        """Synchronously from a loop the call is made in another thread, which is given the context."""

        def compact(tip):
            try:
                chat.compact(tip)
            finally:
                connections.close_all()

        async def both(first, second):
            await chat.acompact(first[-1])
            await asyncio.to_thread(compact, second[-1])
            # Each thread has a connection of its own, which nobody else could close.
            await sync_to_async(connections.close_all)()

        asyncio.run(both(over_threshold(), over_threshold()))
        first, _, second, _ = spans = self.spans(collected)
        for run, call in (spans[:2], spans[2:]):
            assert call.parent.span_id == run.context.span_id
        assert first.context.trace_id != second.context.trace_id

    def test_a_call_that_fails_and_the_run_that_fails_with_it_carry_the_code(self, collected, server):
        server.script([steps.insufficient_quota()] * 2)
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        whole, *calls = self.spans(collected)
        assert [span.attributes["error.type"] for span in (whole, *calls)] == ["quota"] * 3
        assert {type(span.attributes["error.type"]) for span in (whole, *calls)} == {str}
        assert {span.status.status_code for span in (whole, *calls)} == {StatusCode.ERROR}
        assert whole.attributes["compaction.outcome"] == "failed"

    def test_an_attempt_that_waits_and_one_without_a_call_are_spans(self, collected, server):
        server.script([steps.server_error()] * 2)
        branch = over_threshold()
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        whole = self.spans(collected)[0]
        assert (whole.attributes["compaction.outcome"], whole.attributes["error.type"]) == ("ready", "provider_error")
        collected.clear()
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        anchored_summary(branch[60], branch[40])
        compact_chat_history(run.pk)
        [whole] = self.spans(collected)
        assert whole.attributes["compaction.skip_reason"] == "base_changed"

    @pytest.mark.parametrize(
        "step", [steps.reply(GOOD), echoing_validation_error(), steps.unauthorized(), steps.drop(), steps.refusal()]
    )
    def test_no_word_of_the_conversation_is_in_a_span_or_a_metric(self, collected, server, step):
        server.script([step], model="small-model")
        chat.compact(over_threshold()[-1], instructions=f"Dwell on the {SECRET}.")
        told = [
            (span.name, dict(span.attributes), events_of(span), span.status.description)
            for span in self.spans(collected)
        ]
        points = [attributes for points in collected.metrics().values() for attributes, _ in points]
        assert told
        assert points
        assert SECRET not in str(told) + str(points)

    def test_what_a_host_s_code_raises_is_named_and_not_quoted(self, collected, settings):
        settings.COMPACTION = small(REDACTOR="tests.telemetry.world.telling_redactor")
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        [whole] = self.spans(collected)
        assert whole.attributes["error.type"] == "provider_error"
        with pytest.raises(KeyError), telemetry.run_span(CompactionRun.objects.get()):
            raise KeyError(SECRET)
        cut_short = self.spans(collected)[-1]
        assert cut_short.attributes["error.type"] == "KeyError"
        assert SECRET not in str(
            [(dict(s.attributes), events_of(s), s.status.description) for s in self.spans(collected)]
        )


def events_of(span):
    """With their attributes, which an event does not show by itself."""
    return [(event.name, dict(event.attributes)) for event in span.events]


def test_a_chat_turn_is_not_traced(collected, server, small_window):
    """The app traces its own calls alone; the host's client is the host's to trace."""
    tip = grow(chat.start_session(model="m"), None, "u")[-1]
    client = openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)
    assert chat.complete(tip, client=client).content == GOOD
    assert collected.spans.get_finished_spans() == ()
