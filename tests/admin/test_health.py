"""The admin says what is wrong with the background work, since when and what to do."""

import html
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from compaction_app.models import CompactionRun
from compaction_app.tasks import recover_compactions
from tests.admin.pages import queries_of, url
from tests.admin.records import run_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]


def ago(**span):
    return timezone.now() - timedelta(**span)


def ready(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "ready", "created_at": ago(minutes=20)} | fields)


def running(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "running", "lease_expires_at": ago(minutes=-5)} | fields)


INDEX = reverse("admin:app_list", args=["compaction_app"])


def health_on(client):
    """What the page of the app is given to say, with the kinds of its problems."""
    found = client.get(INDEX).context.get("health")
    return found and SimpleNamespace(**found, kinds=[one["kind"] for one in found["problems"]])


def block(client):
    """The same as it is shown, without markup; "" where nothing is."""
    found = re.search(r'<section class="module compaction-health".*?</section>', client.get(INDEX).text, re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", found[0]).split()) if found else ""


def runs_of(status, client):
    """What each link of the app's page to runs of this status shows."""
    addresses = re.findall(f'href="([^"]*{status}[^"]*)"', client.get(INDEX).text)
    lists = [client.get(html.unescape(address)).context["cl"].result_list for address in addresses]
    return [[row.pk for row in rows] for rows in lists]


def test_where_nothing_is_wrong_nothing_is_said(viewer, tips):
    """A run that is put off does not wait."""
    ready(tips[0], created_at=ago(seconds=5))
    ready(tips[2], created_at=ago(hours=2), attempts=3, next_attempt_at=ago(seconds=-60))
    ready(tips[4], created_at=ago(hours=2), attempts=3, started_at=ago(seconds=20))
    running(tips[1])
    running(tips[3], lease_expires_at=ago(seconds=30))
    assert health_on(viewer).problems == []


def test_a_run_that_no_worker_takes_is_told_with_the_command_and_since_when(viewer, tips, settings):
    run = ready(tips[0], enqueued_at=ago(seconds=10))
    [said] = health_on(viewer).problems
    assert (said["kind"], said["count"], said["is_more"], said["since"]) == ("ready", 1, False, run.created_at)
    assert runs_of("ready", viewer) == [[run.pk]]
    for more, start in (
        ({}, "celery -A project worker --beat"),
        ({"TASK_QUEUE": "compaction"}, "celery -A project worker -Q compaction --beat"),
        ({"ENQUEUE": "html.escape"}, "manage.py recover_compactions"),
    ):
        settings.COMPACTION |= more
        assert f"the sweep: {start}." in block(viewer)


def test_a_run_is_late_where_it_waits_far_longer_than_others(viewer, tips, caplog):
    """A queue that stopped was reported only after minutes."""
    for _ in range(3):
        run_at(tips[1], status="failed", attempts=1, created_at=ago(seconds=61), started_at=ago(seconds=60))
    ready(tips[0], created_at=ago(seconds=75))
    assert health_on(viewer).kinds == ["ready"]
    recover_compactions()
    assert re.search(r"late database=default runs=1 seconds=\d+", caplog.text)
    CompactionRun.objects.filter(status="failed").update(created_at=ago(seconds=180))
    assert health_on(viewer).kinds == [], "here each waits for minutes"


def test_a_claim_that_died_and_was_not_swept_up_is_told(viewer, tips):
    run = running(tips[0], lease_expires_at=ago(minutes=30))
    [said] = health_on(viewer).problems
    assert (said["kind"], said["count"], said["since"]) == ("running", 1, run.lease_expires_at)


def test_a_model_that_writes_no_summary_is_a_problem_though_no_run_fails(viewer, tips):
    extract = {"status": "succeeded", "error_code": "authentication"}
    stored = [run_at(tips[n], generation=n, created_at=ago(hours=9 - n), **extract) for n in (1, 2)]
    run_at(tips[0], status="skipped")
    found = health_on(viewer)
    assert found.kinds == ["succeeded"]
    assert runs_of("succeeded", viewer) == [[run.pk for run in reversed(stored)]]
    failed = run_at(tips[0], status="failed", error_code="time_limit")
    assert health_on(viewer).kinds == ["failed"]
    assert "The newest run failed: " in block(viewer)
    assert runs_of("failed", viewer) == [[failed.pk]]
    run_at(tips[0], status="succeeded", generation=3)
    assert health_on(viewer).kinds == []


def test_those_who_may_not_see_runs_are_told_nothing_and_cost_nothing(login, tips):
    client = login("view_chatsession")
    ready(tips[0])
    assert (block(client), health_on(client)) == ("", None)
    assert not [sql for sql in queries_of(client, INDEX) if "compactionrun" in sql]


def test_open_runs_are_found_by_their_own_index(viewer, tips):
    """Of a million runs that are over none is read."""
    session = tips[0].session
    CompactionRun.objects.bulk_create(
        CompactionRun(session=session, trigger="manual", status="skipped") for _ in range(3000)
    )
    ready(tips[0])
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {CompactionRun._meta.db_table}")
    # With parameters, as the page asks: SQLite compares those with an index's words in some places only.
    for status in ("ready", "running"):
        assert "compaction_open_runs" in CompactionRun.objects.open().filter(status=status)[:10].explain()
    listed = viewer.get(url("compactionrun_changelist", status__exact="ready")).context["cl"].queryset
    assert "compaction_open_runs" in listed.order_by()[:10].explain()
