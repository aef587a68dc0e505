"""The admin says what is wrong with the background work, since when and what to do; and verifies sessions."""

import re
import socket
import threading
import time
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compaction_app.admin import broker as watching
from compaction_app.admin import health, verification
from compaction_app.allowances import allowances_for
from compaction_app.branches import load_structure
from compaction_app.guard import held_back
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import Suppression
from project.celery import app as celery_app
from tests.small import anchored_summary, small
from tests.trees import chain, start_session

pytestmark = pytest.mark.django_db

MODELS = ("chatsession", "chatmessage", "compactionrun", "compactionevent")


@pytest.fixture(autouse=True)
def answering_broker(monkeypatch, settings):
    """What this module says of the broker it says where it is asked for; no other test's look is believed."""
    settings.COMPACTION = small()
    monkeypatch.setattr(watching, "watch", watching.Watch(lambda: None))


@pytest.fixture
def login(client):
    def log_in(*codenames):
        user = get_user_model().objects.create_user("staff", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(login):
    return login(*(f"view_{model}" for model in MODELS))


@pytest.fixture
def tips():
    """Five messages of one session."""
    return chain(start_session(title="Harbour"), 5)


def url(page, *arguments, **query):
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


APP_INDEX = ("app_index",)


def page_url(page):
    return reverse("admin:app_list", args=["compaction_app"]) if page == APP_INDEX else url(*page)


def ago(**span):
    return timezone.now() - timedelta(**span)


def run_at(tip, **fields):
    return CompactionRun.objects.create(**{"session_id": tip.session_id, "tip": tip, "trigger": "threshold"} | fields)


def ready(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "ready", "created_at": ago(minutes=20)} | fields)


def running(tip, **fields):
    return run_at(tip, **{"anchor": tip, "status": "running", "lease_expires_at": ago(minutes=-5)} | fields)


def failed(tip, **fields):
    given = {"anchor": tip, "status": "failed", "error_code": "timeout", "finished_at": ago(seconds=5)}
    return run_at(tip, **given | fields)


def alerts(client, page=("compactionrun_changelist",)):
    """What a page warns of: sentences without markup."""
    text = client.get(page_url(page)).text
    found = re.findall(r'<div class="compaction-warning.*?</div>', text, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", one).split()) for one in found]


# -- open runs ----------------------------------------------------------------------------------------------


def test_where_nothing_is_wrong_nothing_is_said(viewer, tips):
    ready(tips[0], created_at=ago(seconds=5))
    running(tips[1])
    run_at(tips[2], status="succeeded", generation=1)
    assert alerts(viewer) == []


def test_a_run_that_no_worker_takes_is_told_with_the_command_and_since_when(viewer, tips):
    run = ready(tips[0], enqueued_at=ago(seconds=10))
    [said] = alerts(viewer)
    assert "1 run waits longer than it should: no worker takes it." in said
    assert f"since {run.created_at:%Y-%m-%d %H:%M}" in said
    assert said.endswith("Start one that reads their queue: celery -A project worker Show them")


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
    assert "while 1 are worked on: there are too few workers, or too slow ones." in said


def test_a_run_that_is_put_off_does_not_wait(viewer, tips):
    ready(tips[0], created_at=ago(hours=2), attempts=3, next_attempt_at=ago(seconds=-60), enqueued_at=ago(seconds=-60))
    ready(tips[1], created_at=ago(hours=2), attempts=3, started_at=ago(seconds=20))
    assert alerts(viewer) == []


def test_a_run_whose_time_has_come_and_gone_waits(viewer, tips):
    ready(tips[0], next_attempt_at=ago(minutes=10), enqueued_at=ago(minutes=10))
    assert f"since {ago(minutes=10):%Y-%m-%d %H:%M}" in alerts(viewer)[0]


def test_a_claim_that_died_and_was_not_swept_up_is_told(viewer, tips):
    running(tips[0], lease_expires_at=ago(minutes=30))
    [said] = alerts(viewer)
    assert "1 run was claimed by a worker that is gone, and no sweep has given it to another." in said
    assert f"since {ago(minutes=30):%Y-%m-%d %H:%M}" in said


def test_a_lease_that_has_just_run_out_is_the_next_sweep_s_business(viewer, tips):
    running(tips[0], lease_expires_at=ago(seconds=30))
    assert alerts(viewer) == []


def test_very_many_are_not_counted_to_the_end(viewer, tips, monkeypatch):
    monkeypatch.setattr(health, "MOST_OPEN", 3)
    for tip in tips:
        ready(tip)
    assert "More than 3 runs wait longer" in alerts(viewer)[0]


# -- breakers -----------------------------------------------------------------------------------------------


def breaker_says(client):
    return [said for said in alerts(client) if "breaker" in said]


def test_an_open_breaker_is_told_with_its_session_and_when_it_closes(viewer, tips):
    for tip in tips[:3]:
        failed(tip)
    [said] = breaker_says(viewer)
    closes = timezone.localtime(CompactionRun.objects.last().finished_at + timedelta(seconds=300))
    assert "The breaker is open in 1 session, after up to 3 failures in a row." in said
    assert f"the last at {closes:%H:%M}" in said
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
    allowances = allowances_for(tips[0].session)
    branch = load_structure(tips[-1].pk, "default")
    held = held_back(branch, allowances.budget, allowances.settings, "default")
    assert (held is not None and held[0] == Suppression.BREAKER) == is_open
    assert bool(breaker_says(viewer)) == is_open


def test_a_success_closes_the_breaker(viewer, tips):
    for tip in tips[:3]:
        failed(tip)
    run_at(tips[3], status="succeeded", generation=1, finished_at=timezone.now())
    assert breaker_says(viewer) == []


def test_a_success_on_another_base_leaves_it_open(viewer, tips):
    """A run that went on from another summary says nothing of this branch."""
    for tip in tips[:3]:
        failed(tip)
    base = anchored_summary(tips[1], tips[0])
    run_at(tips[3], status="succeeded", generation=1, base=base, finished_at=timezone.now())
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


# -- the broker ---------------------------------------------------------------------------------------------


def watch_with(knock, monkeypatch):
    watch = watching.Watch(knock)
    monkeypatch.setattr(watching, "watch", watch)
    return watch


def refused():
    raise ConnectionRefusedError("redis://user:secret@host")


def test_a_broker_that_does_not_answer_is_told_without_its_address(viewer, monkeypatch):
    watch_with(refused, monkeypatch)
    [said] = alerts(viewer)
    assert "The message broker does not answer (ConnectionRefusedError)." in said
    assert "secret" not in said


@pytest.mark.parametrize("mode", ["off", "deterministic"])
def test_where_nothing_is_enqueued_no_broker_is_missed(viewer, monkeypatch, settings, mode):
    settings.COMPACTION |= {"MODE": mode}
    watch_with(refused, monkeypatch)
    assert alerts(viewer) == []


def test_an_eager_celery_needs_no_broker(viewer, monkeypatch):
    watch_with(refused, monkeypatch)
    monkeypatch.setitem(celery_app.conf, "task_always_eager", True)
    assert alerts(viewer) == []


@pytest.mark.pure
class TestWatch:
    def test_it_asks_once_in_a_while_and_remembers_since_when(self, monkeypatch):
        asked = []
        monkeypatch.setattr(watching, "FRESH_SECONDS", 3600)
        watch = watching.Watch(lambda: (asked.append(1), refused()))
        first = watch.silence()
        assert watch.silence() is first
        assert len(asked) == 1
        watch._next_look = 0.0
        assert watch.silence().since == first.since
        assert len(asked) == 2

    def test_it_is_over_when_the_broker_answers_again(self):
        answers = iter([refused, lambda: None])
        watch = watching.Watch(lambda: next(answers)())  # noqa: PLW0108 - another one at each look
        assert watch.silence() is not None
        watch._next_look = 0.0
        assert watch.silence() is None

    def test_a_page_does_not_wait_for_one_that_hangs(self):
        """Nor does the next page start another look; what the look finds is told later."""
        hang = threading.Event()
        watch = watching.Watch(lambda: (hang.wait(30), refused()))
        begun = time.monotonic()
        assert watch.silence() is None
        assert watch.silence() is None
        assert time.monotonic() - begun < 10 * watching.PAGE_WAITS_SECONDS
        hang.set()
        deadline = time.monotonic() + 10
        while watch.silence() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.silence().error == "ConnectionRefusedError"

    def test_a_port_where_nobody_listens_is_no_broker(self, monkeypatch):
        monkeypatch.setitem(celery_app.conf, "broker_url", "redis://127.0.0.1:1/0")
        with pytest.raises(Exception, match="refused"):
            watching.knock()

    def test_a_port_that_accepts_and_says_nothing_is_no_broker(self, monkeypatch):
        """The look ends by the time-out of an enqueueing, not by the server's patience."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url_ = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            monkeypatch.setitem(celery_app.conf, "broker_url", url_)
            begun = time.monotonic()
            with pytest.raises(Exception, match=r"(?i)time"):
                watching.knock()
        assert time.monotonic() - begun < 10


def test_a_broker_that_is_there_answers(broker):
    watching.knock()


# -- where it is shown, and to whom -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [("compactionrun_changelist",), ("chatsession_changelist",), APP_INDEX], ids=lambda page: page[0]
)
def test_lists_and_the_index_of_the_app_warn(viewer, tips, page):
    ready(tips[0])
    assert len(alerts(viewer, page)) == 1


def test_the_page_of_a_session_warns_and_so_does_that_of_a_run_that_waits(viewer, tips):
    run = ready(tips[0])
    done = run_at(tips[1], status="skipped")
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
    for number in range(200):
        session = start_session(title=str(number))
        run_at(chain(session, 1)[0], status="failed", finished_at=ago(seconds=1), error_code="timeout")
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


# -- verifying ----------------------------------------------------------------------------------------------


def test_a_session_that_agrees_with_itself_is_said_to(viewer, tips):
    page = viewer.post(url("chatsession_verify", tips[0].session_id))
    ChatMessage.objects.update(token_count=0)
    assert page.status_code == 200
    assert page.context["found"] == len(page.context["rows"])


def test_what_does_not_agree_is_listed_with_where_and_how(viewer, tips):
    chosen = tips[0].session_id
    before = viewer.post(url("chatsession_verify", chosen)).context["found"]
    ChatMessage.objects.filter(pk=tips[3].pk).update(depth=9)
    page = viewer.post(url("chatsession_verify", chosen))
    assert page.context["found"] == before + 1
    text = " ".join(re.sub("<[^>]*>", " ", page.text).split())
    assert f"depth Message {tips[3].pk} it is 9, derived 4" in text
    assert f'href="{url("chatmessage_change", tips[3].pk)}"' in page.text


def test_verifying_is_asked_for_by_post_and_writes_nothing(viewer, tips):
    asked = viewer.get(url("chatsession_verify", tips[0].session_id))
    assert "Nothing is written." in asked.text
    with CaptureQueriesContext(connection) as queries:
        viewer.post(url("chatsession_verify", tips[0].session_id))
    assert not [q["sql"] for q in queries if q["sql"].split()[0] in ("INSERT", "UPDATE", "DELETE")]


def test_whoever_may_view_sessions_may_verify_them_and_nobody_else(login, tips):
    client = login("view_chatmessage", "compact_chatsession")
    assert client.post(url("chatsession_verify", tips[0].session_id)).status_code == 403
    user = get_user_model().objects.get()
    user.user_permissions.add(Permission.objects.get(codename="view_chatsession"))
    assert client.post(url("chatsession_verify", tips[0].session_id)).status_code == 200


def test_a_session_that_is_not_there_is_not_found(viewer):
    assert viewer.post(url("chatsession_verify", "00000000-0000-4000-8000-000000000000")).status_code == 404


def test_selected_sessions_are_verified_together(viewer, tips):
    other = chain(start_session(), 2)
    ChatMessage.objects.filter(pk__in=[tips[1].pk, other[1].pk]).update(depth=9)
    chosen = {"action": "verify", "_selected_action": [tips[0].session_id, other[0].session_id], "index": 0}
    page = viewer.post(url("chatsession_changelist"), chosen)
    wheres = [(str(row["where"]), str(row["session"])) for row in page.context["rows"] if row["finding"] == "depth"]
    assert len(wheres) == 2
    assert "2 sessions, 7 messages and 0 runs read" in page.text
    for tip, session in ((tips[1], tips[0].session_id), (other[1], other[0].session_id)):
        assert any(f"Message {tip.pk}" in where and str(session) in named for where, named in wheres)


def test_more_messages_than_a_request_may_take_are_the_command_s(viewer, tips, monkeypatch):
    monkeypatch.setattr(verification, "MOST_MESSAGES", 4)
    page = viewer.post(url("chatsession_verify", tips[0].session_id), follow=True)
    assert f"Run: python manage.py verify_chats {tips[0].session_id}" in page.text


def test_a_page_shows_so_many_findings_and_counts_the_rest(viewer, tips, monkeypatch):
    monkeypatch.setattr(verification, "MOST_FINDINGS", 1)
    ChatMessage.objects.filter(session=tips[0].session_id).update(token_count=7)
    page = viewer.post(url("chatsession_verify", tips[0].session_id))
    assert len(page.context["rows"]) == 1
    assert page.context["found"] > 1
    assert "The first 1 are shown." in page.text


def test_verifying_takes_the_same_queries_at_ten_messages_and_at_five_hundred(viewer):
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)

    def taken(session):
        with CaptureQueriesContext(connection) as queries:
            viewer.post(url("chatsession_verify", session.pk))
        return len(queries)

    few, many = start_session(), start_session()
    chain(few, 10)
    chain(many, 400)
    assert taken(few) == taken(many)
