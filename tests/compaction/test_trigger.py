"""When a compaction is asked for, and who has a say in it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.testing.builders import grow
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
