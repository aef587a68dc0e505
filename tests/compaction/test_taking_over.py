"""Whoever asks for a compaction goes on with a run that nobody else is at work on."""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.compaction.runs import claim
from compaction_app.exceptions import CompactionFailed, CompactionRefused
from compaction_app.models import CompactionRun

pytestmark = pytest.mark.django_db(transaction=True)

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


def test_a_claim_that_was_abandoned_too(tip, waiting):
    claim(waiting.pk, "default", lease=-1.0)
    assert chat.compact(tip).pk == waiting.pk


@pytest.mark.parametrize(
    "fields",
    [{}, {"created_at": -LONG_AGO, "enqueued_at": LONG_AGO}, {"created_at": -LONG_AGO, "next_attempt_at": LONG_AGO}],
    ids=["opened a moment ago", "enqueued", "put off"],
)
def test_a_run_that_others_go_on_with_is_left_to_them(tip, waiting, fields):
    change(waiting, **{name: timezone.now() + away for name, away in fields.items()})
    assert refused(tip) == ("open_run", waiting.pk)


def test_one_that_is_at_work_too(tip, waiting):
    claim(waiting.pk, "default", lease=60.0)
    assert refused(tip) == ("open_run", waiting.pk)


def test_instructions_are_for_a_summary_made_with_them(tip, waiting):
    change(waiting, created_at=timezone.now() - LONG_AGO)
    assert refused(tip, instructions="Keep the prices.") == ("open_run", waiting.pk)
    change(waiting, instructions="Keep the prices.")
    assert chat.compact(tip, instructions="Keep the prices.").pk == waiting.pk


def test_whoever_loses_the_race_for_it_is_told_so(tip, waiting, monkeypatch):
    change(waiting, created_at=timezone.now() - LONG_AGO)
    monkeypatch.setattr("compaction_app.compaction.runs.claim", lambda *_: None)
    with pytest.raises(CompactionFailed) as caught:
        chat.compact(tip)
    assert caught.value.error_code == "claimed"
