"""When a summary is asked for, and making it: claim, plan, draft, commit; what is refused or too large at once."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.testing.builders import grow, words
from compaction_app.testing.summarizers import FakeSummarizer
from tests.compaction.world import kinds
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class TestTrigger:
    def test_under_the_threshold_nothing_is_wanted(self, session):
        tip = grow(session, None, "u a " * 30)[-1]
        assert not chat.should_compact(tip)
        assert chat.request_compaction(tip) is None
        assert kinds(session) == []

    def test_over_the_threshold_a_run_is_opened_and_noted(self, session, branch):
        assert chat.should_compact(branch[-1])
        run = chat.request_compaction(branch[-1])
        assert (run.status, run.trigger) == ("ready", "threshold")
        event = CompactionEvent.objects.get(session=session)
        assert event.kind == "threshold_hit"
        assert event.payload == {"history_tokens": 7_000, "threshold": 6_000, "window": 10_000}

    def test_old_tool_results_that_pruning_shortens_need_no_summary(self, session, settings):
        settings.COMPACTION = small(PRUNE_TOOL_RESULT_BYTES=500)
        tip = grow(session, None, "u c t(6000) a u a u a u a")[-1]
        assert not chat.should_compact(tip)
        context = chat.get_context(tip)
        assert (context.strategy, context.pruned, context.dropped) == ("tool_result_budget", 1, 0)

    def test_a_shared_anchor_is_compacted_by_one_of_two_tips(self, session):
        trunk = grow(session, None, "u a " * 40)
        left = grow(session, trunk[-1], "u a")[-1]
        right = grow(session, trunk[-1], "u a")[-1]
        assert chat.request_compaction(left) is not None
        assert chat.request_compaction(right) is None

    def test_branches_that_share_nothing_uncompacted_run_side_by_side(self, session):
        trunk = grow(session, None, "u a")
        left = grow(session, trunk[-1], "u a " * 40)[-1]
        right = grow(session, trunk[-1], "u a " * 40)[-1]
        first, second = chat.request_compaction(left), chat.request_compaction(right)
        for run in (second, first):
            compact_chat_history(run.pk)
        assert CompactionRun.objects.filter(status="succeeded").count() == 2
        assert chat.find_summary(left) != chat.find_summary(right)

    def test_many_open_runs_of_a_session_take_no_more_queries(self, session):
        """They are read under the session's lock."""
        trunk = grow(session, None, "u a")
        tips = [grow(session, trunk[-1], "u a " * 40)[-1] for _ in range(6)]
        counts = []
        for tip in tips:
            with CaptureQueriesContext(connection) as captured:
                assert chat.request_compaction(tip) is not None
            counts.append(len(captured))
        assert counts[1:] == counts[1:2] * 5


class TestOneSummary:
    def test_a_compaction_writes_one_node_that_the_next_context_uses(self, session, branch):
        run = chat.compact(branch[-1])
        summary = run.summary
        assert (run.status, run.generation, run.trigger) == ("succeeded", 1, "manual")
        assert summary.kind == "summary"
        assert summary.parent_message_id == run.anchor_id
        assert summary.last_summarized_message_id == run.cutoff_id
        context = chat.get_context(branch[-1])
        assert context.summary_id == summary.pk
        assert context.strategy == "auto_compact"
        assert context.history_tokens == run.tokens_after < run.tokens_before == 7_000
        assert context.history_tokens <= context.target

    def test_the_originals_are_untouched(self, session, branch):
        before = list(ChatMessage.objects.filter(session=session).order_by("id").values())
        chat.compact(branch[-1])
        assert list(ChatMessage.objects.filter(session=session).messages().order_by("id").values()) == before

    def test_compacting_twice_is_compacting_once(self, session, branch):
        chat.compact(branch[-1])
        calls = len(FakeSummarizer.requests)
        again = chat.compact(branch[-1])
        assert (again.status, again.skip_reason) == ("skipped", "nothing_to_compact")
        assert len(FakeSummarizer.requests) == calls
        assert ChatMessage.objects.filter(session=session).summaries().count() == 1

    def test_five_generations_rise_and_stay_readable(self, session):
        FakeSummarizer.text = words(400)
        tip, cutoffs = None, []
        for _ in range(5):
            tip = grow(session, tip, "u a " * 35)[-1]
            cutoffs.append(chat.compact(tip).cutoff.depth)
        generations = CompactionRun.objects.filter(session=session, status="succeeded").order_by("-generation")
        assert [run.generation for run in generations] == [5, 4, 3, 2, 1]
        assert cutoffs == sorted(set(cutoffs))
        assert generations.last().summary.content
        assert [run.base_id for run in generations][:-1] == [run.summary_id for run in generations][1:]

    def test_instructions_reach_the_prompt_and_move_the_anchor_to_the_tip(self, session, branch):
        run = chat.compact(branch[-1], instructions="Dwell on the harbour.")
        assert "Dwell on the harbour." in FakeSummarizer.requests[0].user
        assert run.anchor_id == branch[-1].pk


class TestRefusals:
    def test_one_open_run_a_branch(self, session, branch):
        assert chat.request_compaction(branch[-1]).status == "ready"
        assert chat.request_compaction(branch[-1]) is None
        with pytest.raises(CompactionRefused) as caught:
            chat.compact(branch[-1])
        assert caught.value.reason == "open_run"
