"""The admin says what is wrong with the background work, since when and what to do."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.formats import date_format

from compaction_app.admin import health
from compaction_app.compaction.trigger import find_suppression
from compaction_app.context.reading import resolve_request
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.tree.branches import load_structure
from compaction_app.values import Suppression
from tests.admin.pages import APP_INDEX, alerts, page_url, queries_of, url
from tests.admin.records import run_of
from tests.small import anchored_summary
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


def ago(**span):
    return timezone.now() - timedelta(**span)


def moment(when):
    return date_format(timezone.localtime(when), "DATETIME_FORMAT")


def ready(tip, **fields):
    return run_of(tip, **{"anchor": tip, "status": "ready", "created_at": ago(minutes=20)} | fields)


def running(tip, **fields):
    return run_of(tip, **{"anchor": tip, "status": "running", "lease_expires_at": ago(minutes=-5)} | fields)


def failed(tip, **fields):
    given = {"anchor": tip, "status": "failed", "error_code": "timeout", "finished_at": ago(seconds=5)}
    return run_of(tip, **given | fields)


# -- open runs ----------------------------------------------------------------------------------------------


def test_where_nothing_is_wrong_nothing_is_said(viewer, tips):
    ready(tips[0], created_at=ago(seconds=5))
    running(tips[1])
    run_of(tips[2], status="succeeded", generation=1)
    assert alerts(viewer) == []


def test_a_run_that_no_worker_takes_is_told_with_the_command_and_since_when(viewer, tips):
    run = ready(tips[0], enqueued_at=ago(seconds=10))
    [said] = alerts(viewer)
    assert "1 run waits longer than it should: no worker takes it." in said
    assert said.startswith(f"Since {moment(run.created_at)} : 1 run waits")
    assert said.endswith("Start one that reads their queue: celery -A project worker Show it")


def test_the_queue_of_the_settings_is_in_the_command(viewer, tips, settings):
    settings.COMPACTION |= {"TASK_QUEUE": "compaction"}
    ready(tips[0], enqueued_at=ago(seconds=10))
    assert "celery -A project worker -Q compaction" in alerts(viewer)[0]


def test_where_no_sweep_hands_runs_over_again_beat_is_missing_too(viewer, tips):
    """The sweep enqueues a run anew when it is lost for a minute; here nobody has for a quarter of an hour."""
    for tip in tips[:2]:
        ready(tip, enqueued_at=ago(minutes=15))
    [said] = alerts(viewer)
    assert "2 runs wait longer than they should: no worker takes them." in said
    assert "celery -A project worker --beat" in said


def test_runs_that_no_broker_has_taken_are_told_apart(viewer, tips):
    ready(tips[0])
    [said] = alerts(viewer)
    assert "no broker has taken it." in said
    assert "python manage.py recover_compactions" in said


def test_where_workers_are_busy_there_are_too_few_of_them(viewer, tips):
    ready(tips[0], enqueued_at=ago(seconds=10))
    running(tips[1])
    [said] = alerts(viewer)
    assert "while 1 run is in progress: there are too few workers, or they are too slow." in said


def test_a_run_that_is_put_off_does_not_wait(viewer, tips):
    ready(tips[0], created_at=ago(hours=2), attempts=3, next_attempt_at=ago(seconds=-60), enqueued_at=ago(seconds=-60))
    ready(tips[1], created_at=ago(hours=2), attempts=3, started_at=ago(seconds=20))
    assert alerts(viewer) == []


def test_a_run_whose_time_has_come_and_gone_waits(viewer, tips):
    ready(tips[0], next_attempt_at=ago(minutes=10), enqueued_at=ago(minutes=10))
    assert f"Since {moment(ago(minutes=10))}" in alerts(viewer)[0]


def test_a_claim_that_died_and_was_not_swept_up_is_told(viewer, tips):
    running(tips[0], lease_expires_at=ago(minutes=30))
    [said] = alerts(viewer)
    assert "1 run was claimed by a worker that is gone, and no sweep has reassigned it." in said
    assert f"Since {moment(ago(minutes=30))}" in said


def test_a_lease_that_has_just_run_out_is_the_next_sweep_s_business(viewer, tips):
    running(tips[0], lease_expires_at=ago(seconds=30))
    assert alerts(viewer) == []


def test_very_many_are_not_counted_to_the_end(viewer, tips, monkeypatch):
    monkeypatch.setattr(health, "MOST_OPEN", 3)
    for tip in tips:
        ready(tip)
    assert "more than 3 runs wait longer" in alerts(viewer)[0]


# -- breakers -----------------------------------------------------------------------------------------------


def breaker_says(client):
    return [said for said in alerts(client) if "breaker" in said]


def test_an_open_breaker_is_told_with_its_session_and_when_it_closes(viewer, tips):
    for tip in tips[:3]:
        failed(tip)
    [said] = breaker_says(viewer)
    closes = timezone.localtime(CompactionRun.objects.last().finished_at + timedelta(seconds=300))
    assert "the breaker is open in 1 session, after up to 3 failures in a row." in said
    assert f"the last one at {closes:%H:%M}" in said
    assert "Harbour" in said


@pytest.mark.parametrize(
    ("codes", "is_open"),
    [
        (["timeout"] * 2, False),
        (["timeout"] * 3, True),
        (["no_progress"] * 2, True),
        (["no_progress", "timeout"], False),
        (["timeout", "no_progress", "no_progress"], True),
    ],
)
def test_what_is_said_is_what_the_guard_does(viewer, tips, codes, is_open):
    for tip, code in zip(tips, codes, strict=False):
        failed(tip, error_code=code)
    resolved = resolve_request(tips[0].session)
    branch = load_structure(tips[-1].pk, "default")
    found = find_suppression(branch, resolved.budget, resolved.settings, "default")
    assert (found is not None and found[0] == Suppression.BREAKER) == is_open
    assert bool(breaker_says(viewer)) == is_open


def test_a_success_closes_the_breaker(viewer, tips):
    for tip in tips[:3]:
        failed(tip)
    run_of(tips[3], status="succeeded", generation=1, finished_at=timezone.now())
    assert breaker_says(viewer) == []


def test_a_success_on_another_base_leaves_it_open(viewer, tips):
    """A run that went on from another summary says nothing of this branch."""
    for tip in tips[:3]:
        failed(tip)
    base = anchored_summary(tips[1], tips[0])
    run_of(tips[3], status="succeeded", generation=1, base=base, finished_at=timezone.now())
    assert len(breaker_says(viewer)) == 1


def test_a_breaker_closes_with_time_by_the_session_s_own_settings(viewer, tips):
    for tip in tips[:3]:
        failed(tip, finished_at=ago(minutes=6))
    assert breaker_says(viewer) == []
    ChatSession.objects.update(settings={"BREAKER_SECONDS": 3600})
    assert len(breaker_says(viewer)) == 1
    ChatSession.objects.update(settings={"BREAKER_SECONDS": 3600, "BREAKER_FAILURES": 4})
    assert breaker_says(viewer) == []
    ChatSession.objects.update(settings={"BREAKER_SECONDS": 3600, "MODE": "deterministic"})
    assert breaker_says(viewer) == []


def test_a_session_whose_settings_are_wrong_does_not_break_the_page(viewer, tips):
    for tip in tips[:3]:
        failed(tip)
    ChatSession.objects.update(settings={"NO_SUCH_KEY": 1})
    assert breaker_says(viewer) == []


def test_many_sessions_are_counted_and_some_of_them_named(viewer):
    for number in range(7):
        for tip in chain(start_session(title=f"Berth {number}"), 3):
            failed(tip)
    [said] = breaker_says(viewer)
    assert "in 7 sessions" in said
    assert len(re.findall(r"Berth \d", said)) == health.NAMED


# -- where it is shown, and to whom -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [("compactionrun_changelist",), ("chatsession_changelist",), APP_INDEX], ids=lambda page: page[0]
)
def test_lists_and_the_index_of_the_app_warn(viewer, tips, page):
    ready(tips[0])
    assert len(alerts(viewer, page)) == 1


def index_text(client):
    return " ".join(re.sub("<[^>]*>", " ", client.get(page_url(APP_INDEX)).text).split())


def test_the_index_of_the_app_says_that_all_is_well_and_counts_beside_its_links(viewer, tips):
    ready(tips[0], created_at=ago(seconds=5))
    running(tips[1])
    for days in (1, 2, 8):
        failed(tips[2], created_at=ago(days=days), finished_at=ago(days=days))
    text = index_text(viewer)
    assert "No problems now: the broker answers, 1 waiting, 2 failed in the last 7 days." in text
    assert "Running runs 1 Waiting runs 1 Failed runs 2 in the last 7 days" in text


def test_where_something_is_wrong_the_index_does_not_say_that_all_is_well(viewer, tips):
    ready(tips[0])
    text = index_text(viewer)
    assert "No problems now" not in text
    assert "Tell whoever runs the workers; chats go on meanwhile." in text


def test_the_index_counts_up_to_a_bound_and_in_the_same_queries(viewer, tips, monkeypatch):
    few = len(queries_of(viewer, page_url(APP_INDEX)))
    monkeypatch.setattr(health, "MOST_OPEN", 3)
    monkeypatch.setattr(health, "MOST_RECENT", 3)
    for tip in tips:
        ready(tip, created_at=ago(seconds=5))
        failed(tip)
    assert len(queries_of(viewer, page_url(APP_INDEX))) == few
    assert "Waiting runs at least 4 Failed runs at least" in index_text(viewer)


def test_who_may_not_view_runs_gets_no_counts(login, tips):
    text = index_text(login("view_chatsession"))
    assert "No problems now" not in text
    assert "Waiting runs" not in text


def test_the_page_of_a_session_warns_and_so_does_that_of_a_run_that_waits(viewer, tips):
    run = ready(tips[0])
    done = run_of(tips[1], status="skipped")
    assert len(alerts(viewer, ("chatsession_change", tips[0].session_id))) == 1
    assert len(alerts(viewer, ("compactionrun_change", run.pk))) == 1
    assert alerts(viewer, ("compactionrun_change", done.pk)) == []


def test_those_who_may_not_see_runs_are_told_nothing_and_cost_nothing(login, tips):
    client = login("view_chatsession")
    ready(tips[0])
    assert alerts(client, ("chatsession_changelist",)) == []
    with CaptureQueriesContext(connection) as queries:
        client.get(url("chatsession_changelist"))
    assert not [query["sql"] for query in queries if "compactionrun" in query["sql"]]


def test_a_title_in_a_warning_is_text_and_no_markup(viewer):
    for tip in chain(start_session(title="<script>alert(1)</script>"), 3):
        failed(tip)
    page = viewer.get(url("compactionrun_changelist")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_warnings_take_three_queries_whatever_there_is(rf, viewer, tips):
    request = rf.get("/")
    request.user = get_user_model().objects.get()
    assert health.may_see(request)

    def taken():
        with CaptureQueriesContext(connection) as queries:
            health.warnings(request)
        return len(queries)

    assert taken() == 3
    for number in range(50):
        session = start_session(title=str(number))
        run_of(chain(session, 1)[0], status="failed", finished_at=ago(seconds=1), error_code="timeout")
        CompactionRun.objects.create(session=session, trigger="manual", status="ready", created_at=ago(days=1))
    assert len(health.warnings(request)) == 1
    assert taken() == 3


def test_open_runs_are_found_by_their_own_index(viewer, tips):
    """Of a million runs that are over none is read."""
    session = tips[0].session
    CompactionRun.objects.bulk_create(
        CompactionRun(session=session, trigger="manual", status="skipped") for _ in range(3000)
    )
    ready(tips[0])
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {CompactionRun._meta.db_table}")
    # Asked as the page asks, with parameters: SQLite compares those with an index's words in some places only.
    for status in ("ready", "running"):
        assert "compaction_open_runs" in health._open(status).order_by("next_attempt_at")[:10].explain()
    listed = viewer.get(url("compactionrun_changelist", status__exact="ready")).context["cl"].queryset
    assert "compaction_open_runs" in listed.order_by()[:10].explain()
