"""Everything that may happen while a summary is being made."""

import threading
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from compaction_app import chat
from compaction_app.compaction import execute, runs
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing.builders import grow
from compaction_app.testing.summarizers import FakeSummarizer
from tests.compaction.world import Interfering
from tests.models.test_concurrent_writes import at_once
from tests.small import anchored_summary, shown_ids, small

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def meanwhile(settings):
    settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": "tests.compaction.world.Interfering"}})

    def do(action):
        Interfering.action = staticmethod(action)

    yield do
    Interfering.action = None


class TestMeanwhile:
    def test_a_turn_appended_meanwhile_stays_in_the_tail(self, session, branch, meanwhile):
        added = []
        meanwhile(lambda: added.extend(grow(session, branch[-1], "u a")))
        run = chat.compact(branch[-1])
        assert run.status == "succeeded"
        assert shown_ids(added[-1])[-2:] == [message.pk for message in added]

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
    def test_who_waits_is_told_that_the_session_is_gone(self, session, branch, meanwhile, compact):
        meanwhile(lambda: chat.delete_session(session))
        with pytest.raises(CompactionFailed, match="The session was deleted") as caught:
            compact(branch[-1])
        assert (caught.value.error_code, caught.value.error_detail) == ("session_gone", "")
        assert caught.value.run_id is not None
        assert not any(model.objects.exists() for model in (ChatSession, ChatMessage, CompactionRun))

    @pytest.mark.parametrize("compact", [chat.compact, async_to_sync(chat.acompact)], ids=["compact", "acompact"])
    def test_who_waits_is_told_that_another_worker_took_the_run(self, session, branch, meanwhile, compact, monkeypatch):
        """An erasure gives the run back, and a second worker takes it at once. It was "(running)"."""
        release = runs.release
        monkeypatch.setattr(runs, "release", lambda run: release(run) and runs.claim(run.pk, "default", 60))
        meanwhile(lambda: chat.redact_message(branch[1]))
        with pytest.raises(CompactionFailed, match="Another worker took this run") as caught:
            compact(branch[-1])
        assert caught.value.error_code == "claimed"
        assert CompactionRun.objects.get(pk=caught.value.run_id).status == "running"

    def test_another_summary_meanwhile_wins(self, session, branch, meanwhile):
        meanwhile(lambda: anchored_summary(branch[60], branch[40]))
        run = chat.compact(branch[-1])
        assert (run.status, run.skip_reason) == ("skipped", "base_changed")
        assert ChatMessage.objects.summaries().count() == 1

    def test_no_connection_and_no_transaction_are_held_during_the_call(self, branch, meanwhile):
        seen = []
        meanwhile(lambda: seen.append((connection.in_atomic_block, connection.connection)))
        chat.compact(branch[-1])
        assert seen == [(False, None)]

    def test_a_worker_whose_lease_ran_out_can_not_commit(self, session, branch, meanwhile, monkeypatch):
        """The first worker is stopped while it waits for its model, so nothing renews its lease; another takes over."""
        held = nullcontext()
        held.time_left = lambda: 60
        monkeypatch.setattr("compaction_app.compaction.lease.keep", lambda *_: held)
        monkeypatch.setattr("compaction_app.compaction.runs.LEASE_SECONDS", 0.05)
        run = chat.request_compaction(branch[-1])

        def takeover():
            threading.Event().wait(0.1)
            monkeypatch.setattr("compaction_app.compaction.runs.LEASE_SECONDS", 60)
            assert compact_chat_history(run.pk).run.status == "succeeded"

        meanwhile(takeover)
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert (run.status, run.attempts, run.generation) == ("succeeded", 2, 1)
        assert ChatMessage.objects.summaries().count() == 1


def test_claims_are_won_by_exactly_one_of_many_threads(session, branch):
    run = chat.request_compaction(branch[-1])
    won = []
    claimed = at_once([lambda: won.append(runs.claim(run.pk, "default", 60))] * 8)
    assert (claimed, sum(found is not None for found in won)) == ([], 1)
