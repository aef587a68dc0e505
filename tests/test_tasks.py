"""Real workers on a real broker: delivery twice, delivery never, a killed worker, a broker that is gone."""

import socket
import time
import uuid
from datetime import timedelta

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun, ReplyClaim
from compaction_app.testing import steps
from project.celery import app as celery_app
from tests import small
from tests.hanging import WORD

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def window_of_4000(settings):
    settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "SUMMARIZER": "extractive", "COOLDOWN_SECONDS": 0}


def talk(session, parent=None, turns=60):
    return small.talk(session, parent, turns)[-1]


def summaries():
    return ChatMessage.objects.summaries().count()


def has_succeeded(run):
    return CompactionRun.objects.filter(session=run.session_id, status="succeeded").exists()


class TestWorkers:
    @pytest.mark.twice
    def test_workers_carry_out_what_was_requested_missed_and_left_by_a_killed_one(
        self, celery_worker, server, settings
    ):
        """The killed one was inside the model call: its lease runs out by itself, and the sweep finds the run."""
        server.script([steps.hang(60)])
        keys = {"SCRIPTED_KEY": "none", "COMPACTION_SWEEP_SECONDS": "1"}
        model = {"model": "m", "base_url": server.url, "api_key_env": "SCRIPTED_KEY"}
        settings.COMPACTION |= {"SUMMARIZER": "default", **small.asks(TIMEOUT=1.5, MODELS=[model])}
        first = celery_worker(env=keys)
        left = chat.request_compaction(talk(chat.start_session()))
        first.wait_until(lambda: len(server.requests) == 1)
        first.kill()
        tip, other = (talk(chat.start_session()) for _ in range(2))
        requested = chat.request_compaction(tip)
        celery_app.conf.broker_url, url = "redis://127.0.0.1:1/0", celery_app.conf.broker_url
        missed = chat.request_compaction(other)
        celery_app.conf.broker_url = url
        missed.refresh_from_db()
        assert (missed.status, missed.enqueued_at) == ("ready", None)
        assert tasks.recover_compactions().items() >= {"enqueued": 1, "given_up": 0}.items()
        left.refresh_from_db()
        assert left.status == "running"
        # All but one of its seconds are up.
        left.lease_expires_at -= timedelta(seconds=59)
        left.save(update_fields=["lease_expires_at"])
        runs = (left, requested, missed)
        celery_worker(env=keys, beat=True).wait_until(lambda: all(map(has_succeeded, runs)), seconds=60)
        for run in runs:
            run.refresh_from_db()
        assert left.attempts >= 2
        assert requested.task_id
        assert chat.get_context(tip).summary_id == requested.summary_id
        assert (CompactionRun.objects.count(), summaries()) == (3, 3)

    @pytest.mark.long
    def test_a_message_that_makes_a_worker_hang_occupies_it_once(self, celery_worker, settings, monkeypatch):
        """The run fails for good at its limit, and the task's own limit frees the worker."""
        monkeypatch.setattr(tasks, "TASK_MARGIN_SECONDS", 2)
        settings.COMPACTION |= {
            "SUMMARIZER": "default",
            "SUMMARIZERS": {"default": {"BACKEND": "tests.hanging.HangingSummarizer"}},
            "RUN_TIME_LIMIT": 5,
        }
        session = chat.start_session()
        stuck = talk(session, chat.append_message(session, None, role="user", content=WORD * 2))
        fine = talk(chat.start_session())
        worker = celery_worker(env={"COMPACTION_SWEEP_SECONDS": "1"}, beat=True)
        runs = [chat.request_compaction(tip) for tip in (stuck, fine)]
        worker.wait_until(lambda: has_succeeded(runs[1]), seconds=60)
        for run in runs:
            run.refresh_from_db()
        assert (runs[0].status, runs[0].error_code, runs[0].attempts) == ("failed", "time_limit", 1)
        assert summaries() == 1


class TestSweep:
    def test_what_was_just_enqueued_or_is_not_due_is_left_alone(self, broker):
        with transaction.atomic():
            run = chat.request_compaction(talk(chat.start_session()))
            run.refresh_from_db()
            assert run.enqueued_at is None, "after the commit"
        assert tasks.recover_compactions()["enqueued"] == 0
        later = timezone.now() + timedelta(hours=1)
        CompactionRun.objects.filter(pk=run.pk).update(enqueued_at=None, next_attempt_at=later)
        assert tasks.recover_compactions()["enqueued"] == 0

    @pytest.mark.few
    @pytest.mark.parametrize(
        "columns", [{"enqueued_at"}, {"enqueued_at", "next_attempt_at"}, {"status", "lease_expires_at"}]
    )
    def test_what_a_clock_that_was_wrong_wrote_holds_nothing_back(self, settings, columns):
        settings.COMPACTION |= {"ENQUEUE": "builtins.print"}
        tip = talk(chat.start_session())
        run = chat.request_compaction(tip)
        future = timezone.now() + timedelta(days=300)
        ReplyClaim.objects.create(message=tip, token=uuid.uuid4(), lease_expires_at=future)
        wrong = {name: "running" if name == "status" else future for name in columns}
        CompactionRun.objects.filter(pk=run.pk).update(**wrong)
        assert tasks.recover_compactions()["runs"] == 1
        assert not ReplyClaim.objects.exists()
        assert tasks.compact_branch(run.pk) == "succeeded"

    def test_it_says_how_much_it_looked_at(self, broker, caplog):
        """maciej-gol/tenant-schemas-celery#18: where each tenant has a schema, a sweep sees one of them."""
        caplog.set_level("INFO", "compaction_app.tasks")
        schemas = "public" if connection.vendor == "postgresql" else ""
        talk(chat.start_session())
        found = {"databases": 1, "schemas": schemas, "runs": 0, "enqueued": 0, "given_up": 0, "events": 0}
        assert tasks.recover_compactions() == found
        shown = "schemas=public " if schemas else ""
        assert caplog.messages == [f"sweep databases=1 {shown}runs=0 enqueued=0 given_up=0 events=0"]

    def test_old_events_are_deleted_a_few_at_a_time(self, settings, monkeypatch):
        monkeypatch.setattr(tasks, "_MOST_EVENTS", 4)
        session, now = chat.start_session(), timezone.now()
        for days in (40, 29, 31, 32, 33, 34, 1):
            event = CompactionEvent(session=session, kind="retired", created_at=now - timedelta(days=days))
            event.save()
        assert tasks.recover_compactions()["events"] == 0
        settings.COMPACTION = {**settings.COMPACTION, "EVENTS_KEPT_DAYS": 30}
        assert [tasks.recover_compactions()["events"] for _ in range(3)] == [4, 1, 0]
        kept = [(now - event.created_at).days for event in CompactionEvent.objects.order_by("pk")]
        assert kept == [29, 1]


class TestRetriesOfASession:
    """``compact_session`` has no row that the sweep could find, so it must not give up by itself."""

    @pytest.fixture
    def answers(self, monkeypatch):
        """What each look at the one tip gives: the runs made and whether it waits, or an error."""
        answers = []

        def answer(*_):
            found = answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(tasks, "_compact_tip", answer)
        return answers

    @pytest.mark.twice
    @pytest.mark.few
    @pytest.mark.parametrize("before", [(0, True), OperationalError("terminated"), InterfaceError("closed")])
    def test_it_waits_for_another_workers_run_or_the_database_as_long_as_that_takes(self, answers, before):
        """It was given up after Celery's default of three retries, fifteen seconds."""
        tip = talk(chat.start_session(), turns=2)
        answers += [before] * 20 + [(1, False)]
        assert tasks.compact_session.apply([str(tip.session_id)]).get()["runs"] == 1


class TestEagerTasks:
    """``CELERY_TASK_ALWAYS_EAGER``: a task runs inside the call that enqueues it."""

    @pytest.fixture(autouse=True)
    def _eager(self, monkeypatch):
        monkeypatch.setitem(celery_app.conf, "task_always_eager", True)

    @pytest.mark.twice
    def test_the_sweep_carries_out_all_that_it_finds(self, monkeypatch):
        monkeypatch.setattr(tasks, "_SWEEP_BATCH", 2)
        tips = [talk(chat.start_session(), turns=40) for _ in range(5)]
        with monkeypatch.context() as away:
            away.setitem(celery_app.conf, "task_always_eager", False)
            away.setitem(celery_app.conf, "broker_url", "redis://127.0.0.1:1/0")
            runs = [chat.request_compaction(tip) for tip in tips]
        assert [run.status for run in runs] == ["ready"] * 5
        assert tasks.recover_compactions().items() >= {"enqueued": 5, "given_up": 0}.items()
        assert {run.status for run in CompactionRun.objects.all()} == {"succeeded"}
        assert summaries() >= 5
        assert tasks.recover_compactions().items() >= {"enqueued": 0, "given_up": 0}.items()


class TestBrokerGone:
    def turn(self, session, tip):
        reply = chat.append_message(session, tip, role="user", content="and then?")
        started = time.monotonic()
        run = chat.request_compaction(reply)
        return run, time.monotonic() - started

    def test_a_refused_connection_costs_a_turn_nothing(self, caplog):
        session = chat.start_session()
        run, seconds = self.turn(session, talk(session))
        # docs/troubleshooting.md has it: with its module, it does not look like an error of the database.
        line = f"failed step=enqueue run={run.pk} type=kombu.exceptions.OperationalError"
        assert line in [record.getMessage() for record in caplog.records]
        assert run.status == "ready"
        assert seconds < 5
        assert chat.get_context(run.tip).strategy == "truncated"

    def test_so_does_a_hook_that_fails(self, settings, broker):
        """A broker is there, and is not asked."""
        settings.COMPACTION |= {"ENQUEUE": "operator.truediv"}
        session = chat.start_session()
        run, _ = self.turn(session, talk(session))
        run.refresh_from_db()
        assert (run.status, run.enqueued_at) == ("ready", None)
        assert tasks.recover_compactions().items() >= {"runs": 1, "enqueued": 0}.items()

    @pytest.mark.twice
    def test_a_silent_broker_does_not_hang_a_turn(self):
        """It takes the connection and never says a word: without a time-out of our own this hangs for ever."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            before = celery_app.conf.broker_url
            celery_app.conf.broker_url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            try:
                session = chat.start_session()
                run, seconds = self.turn(session, talk(session))
            finally:
                celery_app.conf.broker_url = before
        run.refresh_from_db()
        assert (run.status, run.enqueued_at) == ("ready", None)
        assert seconds < 10
