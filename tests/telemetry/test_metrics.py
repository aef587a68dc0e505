"""Metrics as a real SDK collects them."""

import pytest
from django.db import transaction

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.testing import steps
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.telemetry.world import SECRET, USAGE, over_threshold

pytestmark = pytest.mark.django_db(transaction=True)


class TestMetrics:
    def one(self, found, name):
        [(attributes, point)] = found[name]
        return attributes, point

    def test_a_run_is_counted_by_layer_trigger_and_outcome(self, collected, cascade):
        chat.compact(over_threshold()[-1])
        chat.compact(grow(chat.start_session(), None, "u")[0])
        found = collected.metrics()
        layer = {"compaction.layer": "auto_compact", "compaction.trigger": "manual"}
        assert {(a["compaction.outcome"], point.value) for a, point in found["compaction.runs"]} == {
            ("succeeded", 1),
            ("skipped", 1),
        }
        assert all(attributes.items() >= layer.items() for attributes, _ in found["compaction.runs"])

    def test_tokens_are_counted_by_model_refused_drafts_included(self, collected, cascade, server):
        server.script([steps.reply("", usage={**USAGE, "completion_tokens": 7})], model="small-model")
        run = chat.compact(over_threshold()[-1])
        found, layer = collected.metrics(), {"compaction.layer": "auto_compact"}
        for name, figures in (
            ("compaction.input_tokens", {"small-model": 3_000, "large-model": 3_000}),
            ("compaction.output_tokens", {"small-model": 7, "large-model": 50}),
        ):
            assert {a["gen_ai.request.model"]: point.value for a, point in found[name]} == figures
            assert all(a.items() >= {**layer, "compaction.trigger": "manual"}.items() for a, _ in found[name])
        attributes, messages = self.one(found, "compaction.messages_compacted")
        assert attributes == layer
        assert (messages.count, messages.sum) == (1, run.messages_compacted)
        assert SECRET not in str([attributes for points in found.values() for attributes, _ in points])

    def test_a_failure_is_counted_with_its_code_once_it_is_not_tried_again(self, collected, small_window):
        FakeSummarizer.error = SummarizerError("slow", error_code="timeout", transient=True)
        compact_chat_history(chat.request_compaction(over_threshold()[-1]).pk)
        assert "compaction.runs" not in collected.metrics()
        FakeSummarizer.error = SummarizerError("away", error_code="quota")
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        attributes, point = self.one(collected.metrics(), "compaction.runs")
        assert (attributes["compaction.outcome"], attributes["error.type"], point.value) == ("failed", "quota", 1)

    def test_suppressions_are_counted_by_reason(self, collected, small_window):
        tip = over_threshold()[-1]
        chat.request_compaction(tip)
        chat.request_compaction(tip)
        chat.request_compaction(grow(chat.start_session(), None, "u a(6500)")[-1])
        found = collected.metrics()["compaction.suppressions"]
        assert {a["compaction.reason"]: point.value for a, point in found} == {"open_run": 1, "irreducible": 1}
        around = {"compaction.layer": "auto_compact", "compaction.trigger": "threshold"}
        assert all(a.items() >= around.items() for a, _ in found)
        assert all(type(value) is str for a, _ in found for value in a.values())

    def test_prompts_are_counted_by_the_layer_they_needed(self, collected, small_window):
        session = chat.start_session()
        short = grow(session, None, "u")[-1]
        long = grow(session, None, "u a " * 60 + "u")[-1]
        for tip in (short, long):
            context = chat.get_context(tip)
            chat.append_message(session, tip, role="assistant", content="x", context=context)
        found = collected.metrics()["compaction.prompts"]
        assert {a["compaction.layer"]: point.value for a, point in found} == {"none": 1, "truncated": 1}

    def test_what_is_rolled_back_is_not_counted(self, collected, small_window):
        session = chat.start_session()
        tip = grow(session, None, "u")[-1]
        with transaction.atomic():
            chat.append_message(session, tip, role="assistant", content="x", context=chat.get_context(tip))
            transaction.set_rollback(True)
        assert collected.metrics() == {}
