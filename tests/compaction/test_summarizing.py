"""When a summary is asked for, making it (claim, plan, draft, commit), and everything that may happen meanwhile."""

from datetime import UTC, datetime

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.compaction import execute
from compaction_app.compaction.execute import compact_chat_history, wait_for_end
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.runs import CompactionRunQuerySet
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, without_waiting
from tests.builders import grow
from tests.compaction.world import Interfering
from tests.fake_summarizer import FakeSummarizer
from tests.models.test_concurrent_writes import at_once
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class TestTrigger:
    @pytest.mark.parametrize(("last", "wanted"), [(100, False), (101, True)])
    def test_compaction_is_wanted_strictly_over_the_threshold(self, session, last, wanted):
        tip = grow(session, None, "u a " * 29 + f"u a({last})")[-1]
        assert chat.should_compact(tip) is wanted
        assert (chat.request_compaction(tip) is not None) is wanted

    def test_over_the_threshold_a_run_is_opened_and_noted(self, session, branch):
        assert chat.should_compact(branch[-1])
        run = chat.request_compaction(branch[-1])
        assert (run.status, run.trigger) == ("ready", "threshold")
        event = CompactionEvent.objects.get(session=session)
        assert event.kind == "threshold_hit"
        assert event.payload == {"history_tokens": 7_000, "threshold": 6_000, "window": 10_000}

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

    def test_instructions_reach_the_prompt_and_move_the_anchor_to_the_tip(self, session, branch):
        run = chat.compact(branch[-1], instructions="Dwell on the harbour.")
        assert "Dwell on the harbour." in FakeSummarizer.requests[0].user
        assert run.anchor_id == branch[-1].pk


@pytest.fixture
def meanwhile(settings):
    settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": "tests.compaction.world.Interfering"}})

    def do(action):
        Interfering.action = staticmethod(action)

    yield do
    Interfering.action = None


class TestMeanwhile:
    def test_what_is_written_of_the_task_meanwhile_stays(self, session, branch, meanwhile):
        """A worker can be done before whoever enqueued the run has noted which task it is."""
        noted = {"task_id": "a-task", "enqueued_at": datetime(2026, 3, 2, tzinfo=UTC)}
        meanwhile(lambda: CompactionRun.objects.filter(session=session).update(**noted))
        run = chat.compact(branch[-1])
        assert run.status == "succeeded"
        assert CompactionRun.objects.values(*noted).get() == noted

    @pytest.mark.parametrize("erase", [chat.delete_message, lambda tip: chat.delete_session(tip.session)])
    @pytest.mark.parametrize("is_read", [False, True])
    def test_a_branch_deleted_before_the_start_is_recorded_is_no_error(
        self, branch, meanwhile, monkeypatch, caplog, erase, is_read
    ):
        """Before the branch is read, or between that and writing the event: no error with a traceback in the log."""
        read = execute._load

        def read_and_erase(*arguments):
            work = read(*arguments) if is_read else None
            erase(branch[-1])
            return work or read(*arguments)

        run = chat.request_compaction(branch[-1])
        monkeypatch.setattr(execute, "_load", read_and_erase)
        outcome = compact_chat_history(run.pk)
        assert outcome.is_gone or (outcome.run.status, outcome.run.skip_reason) == ("skipped", "branch_gone")
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
        assert FakeSummarizer.requests == []

    @pytest.mark.parametrize("compact", [chat.compact, async_to_sync(chat.acompact)], ids=["compact", "acompact"])
    @pytest.mark.parametrize("is_asked", [False, True])
    def test_who_waits_is_told_that_the_session_is_gone(
        self, session, branch, meanwhile, compact, monkeypatch, is_asked
    ):
        """While the model is asked, or before the run is claimed. It was "Another worker took this run"."""
        claim = CompactionRunQuerySet.claim
        if is_asked:
            meanwhile(lambda: chat.delete_session(session))
        else:
            monkeypatch.setattr(
                CompactionRunQuerySet, "claim", lambda *given: chat.delete_session(session) or claim(*given)
            )
        with pytest.raises(CompactionFailed, match="The session was deleted") as caught:
            compact(branch[-1])
        assert (caught.value.error_code, caught.value.error_detail) == ("session_gone", "")
        assert caught.value.run_id is not None
        assert not any(model.objects.exists() for model in (ChatSession, ChatMessage, CompactionRun))

    @pytest.mark.parametrize("compact", [chat.compact, async_to_sync(chat.acompact)], ids=["compact", "acompact"])
    def test_who_waits_is_told_that_another_worker_took_the_run(self, session, branch, meanwhile, compact, monkeypatch):
        """An erasure gives the run back, and a second worker takes it at once. It was "(running)"."""
        release = CompactionRun.release
        monkeypatch.setattr(
            CompactionRun, "release", lambda run: release(run) and CompactionRun.objects.claim(run.pk, 60)
        )
        meanwhile(lambda: chat.redact_message(branch[1]))
        with pytest.raises(CompactionFailed, match="Another worker took this run") as caught:
            compact(branch[-1])
        assert caught.value.error_code == "claimed"
        assert CompactionRun.objects.get(pk=caught.value.run_id).status == "running"

    @pytest.mark.parametrize("way", [BLOCKING, AWAITED], ids=["blocking", "awaited"])
    def test_where_the_last_generation_finds_nothing_the_one_before_is_what_was_asked_for(self, session, branch, way):
        made = chat.compact(branch[-1], until=branch[-3])
        row = {
            field.attname: getattr(made, field.attname) for field in made._meta.concrete_fields if field.name != "id"
        }
        row |= {"status": "ready", "generation": None, "summary_id": None, "finished_at": None, "is_cut_given": False}
        following = CompactionRun.objects.create(**row | {"base_id": made.summary_id, "previous_run_id": made.pk})
        wait = async_to_sync(wait_for_end) if way.is_awaited else lambda *args: without_waiting(wait_for_end(*args))
        found = wait(following, way)
        assert (found, found.summary.text) == (made, made.summary.text)
        following.refresh_from_db()
        assert (following.status, following.skip_reason) == ("skipped", "nothing_to_compact")

    def test_no_connection_and_no_transaction_are_held_during_the_call(self, branch, meanwhile):
        seen = []
        meanwhile(lambda: seen.append((connection.in_atomic_block, connection.connection)))
        chat.compact(branch[-1])
        assert seen == [(False, None)]


def test_claims_are_won_by_exactly_one_of_many_threads(session, branch):
    run = chat.request_compaction(branch[-1])
    won = []
    claimed = at_once([lambda: won.append(CompactionRun.objects.claim(run.pk, 60))] * 8)
    assert (claimed, sum(found is not None for found in won)) == ([], 1)
