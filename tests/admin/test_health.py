"""The admin says what is wrong with the background work and the broker, since when and what to do."""

import html
import re
import socket
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from compaction_app.admin import health
from compaction_app.models import CompactionRun
from compaction_app.tasks import recover_compactions
from project.celery import app as celery_app
from tests.admin.pages import APP_INDEX, alerts, page_url, queries_of, url
from tests.admin.records import run_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


def ago(**span):
    return timezone.now() - timedelta(**span)


def ready(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "ready", "created_at": ago(minutes=20)} | fields)


def running(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "running", "lease_expires_at": ago(minutes=-5)} | fields)


# -- open runs ----------------------------------------------------------------------------------------------


def test_where_nothing_is_wrong_nothing_is_said(viewer, tips):
    """A run that is put off does not wait."""
    ready(tips[0], created_at=ago(seconds=5))
    ready(tips[2], created_at=ago(hours=2), attempts=3, next_attempt_at=ago(seconds=-60))
    ready(tips[4], created_at=ago(hours=2), attempts=3, started_at=ago(seconds=20))
    running(tips[1])
    running(tips[3], lease_expires_at=ago(seconds=30))
    assert alerts(viewer) == []


def test_a_run_that_no_worker_takes_is_told_with_the_command_and_since_when(viewer, tips, settings):
    run = ready(tips[0], enqueued_at=ago(seconds=10))
    [said] = alerts(viewer)
    assert f"{timezone.localtime(run.created_at):%H:%M:%S} UTC : Waiting for too long: 1 run." in said
    assert "and the sweep: celery -A project worker --beat." in said
    assert said.endswith("Show the runs")
    settings.COMPACTION |= {"TASK_QUEUE": "compaction"}
    assert "celery -A project worker -Q compaction --beat" in alerts(viewer)[0]
    settings.COMPACTION |= {"ENQUEUE": "html.escape"}
    assert "and the sweep: manage.py recover_compactions." in alerts(viewer)[0]


def test_a_run_is_late_where_it_waits_far_longer_than_others(viewer, tips, caplog):
    """A queue that stopped was reported only after minutes."""
    for _ in range(3):
        run_at(tips[1], status="failed", attempts=1, created_at=ago(seconds=61), started_at=ago(seconds=60))
    ready(tips[0], created_at=ago(seconds=75))
    assert "Waiting for too long: 1 run." in alerts(viewer)[0]
    recover_compactions()
    assert re.search(r"late database=default runs=1 seconds=\d+", caplog.text)
    CompactionRun.objects.filter(status="failed").update(created_at=ago(seconds=180))
    assert alerts(viewer) == [], "here each waits for minutes"


def test_a_claim_that_died_and_was_not_swept_up_is_told(viewer, tips):
    running(tips[0], lease_expires_at=ago(minutes=30))
    [said] = alerts(viewer)
    assert "Left by a worker that is gone, and no sweep came: 1 run." in said
    assert said.startswith("Since ")


# -- where it is shown, and to whom -------------------------------------------------------------------------


def block(client):
    """The block on the app's page without markup; "" where there is none."""
    page = client.get(page_url(APP_INDEX)).text
    found = re.search(r'<section class="module compaction-health".*?</section>', page, re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", found[0]).split()) if found else ""


def runs_of(status, client):
    """What each link of the app's page to runs of this status shows."""
    addresses = re.findall(f'href="([^"]*{status}[^"]*)"', client.get(page_url(APP_INDEX)).text)
    lists = [client.get(html.unescape(address)).context["cl"].result_list for address in addresses]
    return [[row.pk for row in rows] for rows in lists]


def test_where_nothing_is_wrong_it_says_so_and_counts_failures_apart(viewer, tips):
    assert block(viewer) == "Background work No problems."
    ready(tips[0], created_at=ago(seconds=5))
    late, later, _ = (run_at(tips[2], created_at=ago(days=days)) for days in (1, 2, 8))
    assert block(viewer) == "Background work No problems. 2 runs failed in the last 7 days."
    # A list that is narrowed to the newest is in the order of the index of the date.
    assert runs_of("failed", viewer) == [[late.pk, later.pk]]


def test_a_model_that_writes_no_summary_is_a_problem_though_no_run_fails(viewer, tips):
    extract = {"status": "succeeded", "error_code": "authentication"}
    stored = [run_at(tips[n], generation=n, created_at=ago(hours=9 - n), **extract) for n in (1, 2)]
    run_at(tips[0], status="skipped")
    [said] = alerts(viewer)
    assert "so an extract was stored: the API key is missing or was not accepted." in said
    assert block(viewer).endswith("Show the runs 2 runs stored an extract in the last 7 days.")
    assert runs_of("succeeded", viewer) == [[run.pk for run in reversed(stored)]] * 2
    run_at(tips[0], status="succeeded", generation=3)
    assert block(viewer) == "Background work No problems. 2 runs stored an extract in the last 7 days."


def test_those_who_may_not_see_runs_are_told_nothing_and_cost_nothing(login, tips):
    client = login("view_chatsession")
    ready(tips[0])
    assert block(client) == ""
    assert not [sql for sql in queries_of(client, page_url(APP_INDEX)) if "compactionrun" in sql]


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


# -- the broker ------------------------------------------------------------------------------------------------


#: Before a fixture replaces it.
PRISTINE_KNOCK = health.knock


def refused():
    raise ConnectionRefusedError("redis://user:secret@host")


def test_a_broker_that_does_not_answer_is_told_without_its_address(viewer, monkeypatch):
    monkeypatch.setattr(health, "knock", refused)
    [said] = alerts(viewer)
    assert "The message broker does not answer (ConnectionRefusedError)." in said
    assert "secret" not in said


def test_where_nothing_is_enqueued_no_broker_is_missed(viewer, monkeypatch, settings):
    monkeypatch.setattr(health, "knock", refused)
    for mode in ("off", "deterministic"):
        settings.COMPACTION |= {"MODE": mode}
        assert alerts(viewer) == []
    settings.COMPACTION |= {"MODE": "standard"}
    monkeypatch.setitem(celery_app.conf, "task_always_eager", True)
    assert alerts(viewer) == []


@pytest.mark.pure
def test_a_port_that_accepts_and_says_nothing_is_no_broker(monkeypatch):
    """A page waits for it as long as an enqueueing does, and not for the server's patience."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(celery_app.conf, "broker_url", f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        begun = time.monotonic()
        with pytest.raises(Exception, match=r"(?i)time"):
            PRISTINE_KNOCK()
    assert time.monotonic() - begun < 10


def test_a_port_where_nobody_listens_is_no_broker_and_one_that_is_there_answers(monkeypatch, request):
    with monkeypatch.context() as nobody:
        nobody.setitem(celery_app.conf, "broker_url", "redis://127.0.0.1:1/0")
        with pytest.raises(Exception, match="refused"):
            PRISTINE_KNOCK()
    request.getfixturevalue("broker")
    PRISTINE_KNOCK()
