"""Who lives keeps its run, who hangs loses it at the time limit for good; whoever asks goes on with one that waits."""

import threading
import time
import uuid
from contextvars import ContextVar, copy_context
from copy import copy
from datetime import timedelta

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connections
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.compaction import leases
from compaction_app.compaction.execute import compact_chat_history, write_if_claimed
from compaction_app.conf import get_settings
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing import steps
from tests.fake_summarizer import FakeSummarizer
from tests.steps import late
from tests.summarizers.summarizing import KEY, KEY_VARIABLE, entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def short_lease(monkeypatch):
    monkeypatch.setattr("compaction_app.models.runs.LEASE_SECONDS", 0.4)


def during_the_call(monkeypatch, happens):
    """Run ``happens`` while the summarizer works."""
    summarize = FakeSummarizer.summarize

    def late(self, request):
        happens()
        return summarize(self, request)

    monkeypatch.setattr(FakeSummarizer, "summarize", late)


def carried_out(branch):
    run = chat.request_compaction(branch[-1])
    compact_chat_history(run.pk)
    run.refresh_from_db()
    return run


@pytest.mark.twice
def test_a_run_that_is_still_at_work_is_never_taken_by_another(branch, short_lease, monkeypatch):
    run = chat.request_compaction(branch[-1])
    others = []

    def work_on():
        for _ in range(3):
            threading.Event().wait(0.25)
            others.append(compact_chat_history(run.pk))

    during_the_call(monkeypatch, work_on)
    compact_chat_history(run.pk)
    run.refresh_from_db()
    assert others == [None] * 3
    assert (run.status, run.attempts) == ("succeeded", 1)


def test_the_lease_is_renewed_in_the_schema_of_the_tenant(branch, short_lease, monkeypatch):
    """Its thread's connection saw another schema than the run's: maciej-gol/tenant-schemas-celery#18."""
    set_by = {}
    kind = type(connections["default"])
    monkeypatch.setattr(kind, "set_tenant", lambda self, tenant: set_by.update({tenant: self}), raising=False)
    monkeypatch.setattr(connections["default"], "tenant", "acme", raising=False)
    during_the_call(monkeypatch, lambda: threading.Event().wait(0.3))
    carried_out(branch)
    assert list(set_by) == ["acme"]
    assert set_by["acme"] is not connections["default"]


@pytest.mark.twice
def test_a_run_that_hangs_fails_for_good_at_its_limit(branch, short_lease, settings, monkeypatch):
    settings.COMPACTION = {**settings.COMPACTION, "RUN_TIME_LIMIT": 0.5}
    during_the_call(monkeypatch, lambda: threading.Event().wait(0.9))
    run = carried_out(branch)
    assert (run.status, run.error_code, run.attempts) == ("failed", "time_limit", 1)
    assert run.error_detail == "Not finished after 0.5 s."
    assert not ChatMessage.objects.summaries().exists()
    assert list(run.events.order_by("id").values_list("kind", flat=True)) == ["threshold_hit", "started", "failed"]
    assert compact_chat_history(run.pk) is None


def cascade(server, *models, **options):
    asked = [entry(server, model, **options) for model in models]
    return {"SUMMARIZERS": {"default": {"MODELS": asked}}}


@pytest.mark.twice
def test_no_model_is_asked_beyond_the_limit(branch, settings, server, monkeypatch):
    """One that hangs is cancelled then; those after it get nothing of the conversation."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    # On a busy machine the first model is asked, and what was spent is written, in time.
    monkeypatch.setattr(leases, "_GRACE_SHARE", 2.0)
    settings.COMPACTION = {**settings.COMPACTION, **cascade(server, "m1", "m2", "m3", timeout=30), "RUN_TIME_LIMIT": 5}
    spent = {"prompt_tokens": 700, "completion_tokens": 5, "total_tokens": 705}
    server.script([steps.reply("No.", usage=spent), steps.hang(60)])
    started = time.monotonic()
    run = carried_out(branch)
    assert time.monotonic() - started < 30
    assert [body["model"] for body in server.requests] == ["m1", "m2"]
    assert (run.status, run.error_code, run.attempts) == ("failed", "time_limit", 1)
    assert run.events.get(kind="failed").payload["input_tokens"] == run.input_tokens == 700


def test_a_worker_that_lost_its_run_asks_no_other_model(branch, short_lease, settings, server, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    settings.COMPACTION = {**settings.COMPACTION, **cascade(server, "m1", "m2")}
    run = chat.request_compaction(branch[-1])

    def lose(exchange):
        CompactionRun.objects.filter(pk=run.pk).update(claim_token=uuid.uuid4())
        late(0.5, steps.server_error())(exchange)

    server.script([lose])
    compact_chat_history(run.pk)
    assert [body["model"] for body in server.requests] == ["m1"]


def test_the_limit_is_the_models_time_and_ten_minutes(settings):
    """Each has its time-out, and once more for the tighter retry."""
    models = ["gpt-4o", {"model": "gpt-4.1", "timeout": 12}]
    settings.COMPACTION = {"SUMMARIZERS": {"default": {"MODELS": models, "TIMEOUT": 30}}}
    assert get_settings().time_limit == 2 * (30 + 12) + 600
    # Of the chat models a session has one at most.
    settings.COMPACTION["SUMMARIZERS"]["default"]["CHAT_MODELS"] = ["gpt-4", {"model": "slow", "timeout": 45}]
    assert get_settings().time_limit == 2 * (30 + 12 + 45) + 600
    settings.COMPACTION = {"RUN_TIME_LIMIT": 90}
    assert get_settings().time_limit == 90


def test_a_task_ends_after_its_run(branch, settings, monkeypatch):
    """The run's own limit comes first, so that it fails with its code; then the soft limit, then the hard one."""
    sent = []
    monkeypatch.setattr(tasks, "_publish", lambda name, arguments, options, **_: sent.append((name, options)))
    settings.COMPACTION = {**settings.COMPACTION, "RUN_TIME_LIMIT": 100}
    run = chat.request_compaction(branch[-1])
    tasks.enqueue_session(run.session)
    limits = {name: (options["soft_time_limit"], options["time_limit"]) for name, options in sent}
    assert limits == {"compact_branch": (130, 160), "compact_session": (1930, 1960)}


def test_a_session_with_many_branches_goes_on_in_another_task(session, branch, monkeypatch):
    """Between two runs, so that no task's limit ends one in the middle."""
    monkeypatch.setattr(tasks, "SESSION_SECONDS", -1)
    assert tasks.compact_session(str(session.pk)) == {"tips": 1, "runs": 0, "waiting": 1}


@pytest.mark.parametrize(
    "at_work", ["execute.plan_compaction", "execute.ask_summarizer", "execute.ledger.Remembered.kept"]
)
def test_the_soft_limit_fails_the_run_with_its_code(branch, monkeypatch, at_work):
    """Celery raises it in whatever code is at work."""

    def ended(*_, **__):
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(f"compaction_app.compaction.{at_work}", ended)
    run = carried_out(branch)
    assert (run.status, run.error_code, run.attempts) == ("failed", "time_limit", 1)


@pytest.mark.parametrize(("workers", "given_up"), [(2, False), (3, True)])
def test_a_run_that_lost_its_worker_is_taken_over_but_not_for_ever(branch, monkeypatch, workers, given_up):
    """A message that makes a worker hang without a breath, or kills it, is not given eight of them."""
    run = chat.request_compaction(branch[-1])
    past = timezone.now() - timedelta(seconds=1)
    lost = {"status": "running", "lease_expires_at": past, "claim_token": uuid.uuid4()}
    CompactionRun.objects.update(attempts=workers, **lost)
    monkeypatch.setattr(tasks, "enqueue", lambda _: True)
    assert tasks.recover_compactions().items() >= {"enqueued": not given_up, "given_up": given_up}.items()
    run.refresh_from_db()
    told = ("failed", "time_limit", "Abandoned after 3 attempts.") if given_up else ("running", "", "")
    assert (run.status, run.error_code, run.error_detail) == told


def test_the_time_limit_does_not_fail_a_run_that_is_being_committed(branch):
    """One run had both a failed and a completed event, and sent both signals."""
    run = CompactionRun.objects.claim(chat.request_compaction(branch[-1]).pk, 60)
    failed = []

    def fail():
        failed.append(copy(run).fail("time_limit", ""))
        connections.close_all()

    thread = threading.Thread(target=fail)

    def commit():
        thread.start()
        threading.Event().wait(0.3)
        CompactionRun.objects.filter(pk=run.pk).update(status="skipped", claim_token=None)

    write_if_claimed(run, commit)
    thread.join()
    assert failed == [False]


def test_a_run_is_ended_and_told_of_in_one_transaction(branch, monkeypatch):
    """Else the session could be deleted in between, and the run would have failed without an event."""
    run = CompactionRun.objects.claim(chat.request_compaction(branch[-1]).pk, 60)

    def away(*_, **__):
        raise OperationalError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(CompactionRun, "record", away)
        with pytest.raises(OperationalError):
            run.fail("time_limit", "")
    assert CompactionRun.objects.get(pk=run.pk).status == "running"


class TestOneThreadForAll:
    """It keeps the leases of a process: what happens to one of them is nothing to the others."""

    @pytest.fixture
    def other(self):
        renewed = []
        with leases.Held(ChatSession(), lease=0.1, seconds=60, renew=lambda: not renewed.append(1), expire=list):
            yield renewed

    def test_what_ends_one_is_not_waited_for(self, other):
        """A receiver of the host may take its time, or never come back."""
        come_back = threading.Event()
        with leases.Held(ChatSession(), lease=0.1, seconds=0.05, renew=lambda: True, expire=come_back.wait):
            time.sleep(0.5)
            come_back.set()
        assert len(other) >= 5

    @pytest.mark.filterwarnings("error")
    def test_one_that_is_told_of_twice_ends_once(self):
        """As one that is abandoned before the thread has seen it: a second thread ran into the first."""
        ended = []
        held = leases.Held(
            ChatSession(), lease=3, seconds=60, renew=list, expire=lambda: (ended.append(1), time.sleep(0.3))
        )
        held.abandon()
        held.abandon()
        time.sleep(0.6)
        assert (ended, held.is_ended) == ([1], True)

    def test_each_is_renewed_in_the_context_that_it_was_taken_in(self):
        """Packages for tenants that keep the schema in a context variable: the thread that renews saw none."""
        tenant, seen = ContextVar("tenant", default=""), []

        def take(name):
            tenant.set(name)
            return leases.Held(
                ChatSession(), lease=0.3, seconds=60, renew=lambda: not seen.append(tenant.get()), expire=list
            )

        with copy_context().run(take, "acme"), copy_context().run(take, "globex"):
            time.sleep(0.5)
        assert set(seen) == {"acme", "globex"}


LONG_AGO = timedelta(minutes=5)


@pytest.fixture
def tip(branch):
    return branch[-1]


@pytest.fixture
def waiting(tip, monkeypatch):
    """A run opened in the background, which no broker took."""
    monkeypatch.setattr("compaction_app.tasks.enqueue", lambda run: False)
    run = chat.request_compaction(tip)
    assert run.status == "ready"
    return run


def change(run, **fields):
    CompactionRun.objects.filter(pk=run.pk).update(**fields)


def refused(tip, **options):
    with pytest.raises(CompactionRefused) as caught:
        chat.compact(tip, **options)
    return caught.value.reason, caught.value.run_id


@pytest.mark.parametrize("fields", [{}, {"enqueued_at": -LONG_AGO}], ids=["no broker took it", "a broker lost it"])
def test_a_run_that_no_worker_came_to_is_carried_out(tip, waiting, fields):
    moments = {"created_at": -LONG_AGO, **fields}
    change(waiting, **{name: timezone.now() + away for name, away in moments.items()})
    done = chat.compact(tip)
    assert (done.pk, done.status, done.trigger) == (waiting.pk, "succeeded", "threshold")
    assert CompactionRun.objects.count() == 1


@pytest.mark.parametrize(
    "fields",
    [{}, {"created_at": -LONG_AGO, "enqueued_at": LONG_AGO}, {"created_at": -LONG_AGO, "next_attempt_at": LONG_AGO}],
    ids=["opened a moment ago", "enqueued", "put off"],
)
def test_a_run_that_others_go_on_with_is_left_to_them(tip, waiting, fields):
    change(waiting, **{name: timezone.now() + away for name, away in fields.items()})
    assert refused(tip) == ("open_run", waiting.pk)


def test_instructions_are_for_a_summary_made_with_them(tip, waiting):
    change(waiting, created_at=timezone.now() - LONG_AGO)
    assert refused(tip, instructions="Keep the prices.") == ("open_run", waiting.pk)
    change(waiting, instructions="Keep the prices.")
    assert chat.compact(tip, instructions="Keep the prices.").pk == waiting.pk
