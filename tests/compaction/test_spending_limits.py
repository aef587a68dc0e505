"""What compactions may use is bounded by the host, whoever or whatever asks for them."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.spending import find_overspending
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.admin.pages import page_of
from tests.api.asking import Asker, problem
from tests.builders import grow
from tests.compaction.world import suppressed
from tests.conversation.asking import completed
from tests.fake_summarizer import FakeSummarizer
from tests.models.test_concurrent_writes import at_once
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 8


@pytest.fixture(autouse=True)
def worker(own_cache, monkeypatch):
    """Whatever is enqueued is carried out at once."""

    def enqueue(run, *, countdown=0.0):
        tasks.compact_branch(run.pk)
        return True

    def enqueue_session(session, message_id=None):
        tasks.compact_session(str(session.pk), "default", message_id)
        return True

    monkeypatch.setattr(tasks, "enqueue", enqueue)
    monkeypatch.setattr(tasks, "enqueue_session", enqueue_session)


@pytest.fixture
def ann():
    return get_user_model().objects.create_user("ann")


@pytest.fixture
def session(ann):
    return chat.start_session(owner=ann)


def limit(settings: Any, **limits: list[str]) -> None:
    settings.COMPACTION = small(SPENDING_LIMITS=limits)


def attack(session: ChatSession, tip: ChatMessage, times: int = TIMES) -> ChatMessage:
    """Retire the summary, append one letter, and again."""
    for _ in range(times):
        if summary := chat.find_summary(tip):
            chat.retire_summary(summary)
        tip = chat.append_message(session, tip, role="user", content="x")
        chat.request_compaction(tip)
    return tip


@pytest.mark.twice
def test_the_attack_ends_at_the_limit_and_reading_goes_on(session, branch, settings, caplog):
    limit(settings, session=["5 runs/h"])
    tip = attack(session, branch[-1])
    assert len(FakeSummarizer.requests) == CompactionRun.objects.count() == 5
    context = chat.get_context(tip)
    assert context.summary_id is None
    assert 0 < context.tokens <= context.available_tokens
    told = suppressed(session=session, payload__reason="spend")
    assert told
    numbers = {"limit": 5, "unit": "runs", "period": "hour", "of": "session", "used": 5}
    assert {name: told[-1][name] for name in numbers} == numbers
    assert "reason=spend" in caplog.text


@pytest.mark.twice
def test_a_user_is_limited_over_all_sessions_and_deleting_one_lifts_nothing(ann, session, branch, settings):
    limit(settings, user=["3 runs/d"])
    attack(session, branch[-1], 2)
    made = len(FakeSummarizer.requests)
    assert made == 2
    chat.delete_session(session)
    for _ in range(4):
        other = chat.start_session(owner=ann)
        chat.request_compaction(grow(other, None, "u a " * 35)[-1])
        chat.delete_session(other)
    assert len(FakeSummarizer.requests) == 3
    stranger = chat.start_session(owner=get_user_model().objects.create_user("bob"))
    chat.request_compaction(grow(stranger, None, "u a " * 35)[-1])
    assert len(FakeSummarizer.requests) == 4


def test_a_cache_that_is_down_stops_no_deletion(session, branch, settings, monkeypatch, caplog):
    def gone(*arguments, **options):
        raise ConnectionError("no cache")

    limit(settings, user=["3 runs/d"])
    chat.request_compaction(branch[-1])
    for name in ("add", "get_many"):
        monkeypatch.setattr(type(cache._connections[cache._alias]), name, gone)
    chat.delete_session(session)
    assert not ChatSession.objects.exists()
    assert find_overspending(chat.start_session(owner=session.owner)) is None
    assert "step=spending" in caplog.text


def test_tokens_are_counted_as_the_provider_reports_them(session, branch, settings, monkeypatch):
    monkeypatch.setattr("compaction_app.context.overflow._SMALLEST_CUT", 10**9)
    usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
    with ScriptedOpenAIServer(default=steps.reply("## Recap\n\n" + "All is on the board. " * 4, usage=usage)) as server:
        models = [{"model": "m", "base_url": server.url}]
        limits = {"session": ["2500 tokens/h"]}
        settings.COMPACTION = small(asked={"MODELS": models}, SPENDING_LIMITS=limits)
        attack(session, branch[-1])
        assert server.count("m") == 3
    assert suppressed(session=session, payload__reason="spend")[-1]["used"] == 3000


def test_runs_that_wait_count_with_what_they_will_read(session, settings, monkeypatch):
    """Or a conversation with a hundred branches would open a hundred runs before the first reports anything."""
    monkeypatch.setattr(tasks, "enqueue", lambda run: True)
    limit(settings, session=["10000 tokens/h"])
    for _ in range(5):
        chat.request_compaction(grow(session, None, "u a " * 35)[-1])
    assert CompactionRun.objects.open().count() == 2


def test_a_run_that_was_paid_for_and_skipped_counts(session, branch, settings):
    limit(settings, session=["1000 tokens/h"])
    run = CompactionRun.objects.create(session=session, status="skipped", skip_reason="base_changed", trigger="manual")
    assert find_overspending(session) is None
    CompactionRun.objects.filter(pk=run.pk).update(input_tokens=900, output_tokens=100)
    assert find_overspending(session)["used"] == 1000


@pytest.mark.parametrize(("ago", "over"), [(timedelta(minutes=59), True), (timedelta(minutes=61), False)])
def test_what_is_older_than_the_period_does_not_count(session, settings, ago, over):
    limit(settings, session=["1 runs/h", "2 runs/d"])
    run = CompactionRun.objects.create(session=session, status="failed", trigger="manual")
    CompactionRun.objects.filter(pk=run.pk).update(created_at=timezone.now() - ago)
    found = find_overspending(session)
    assert (found is not None) == over
    assert found is None or 0 < found["seconds"] <= 61


def test_a_session_of_nobody_has_no_user_to_count(settings):
    session = chat.start_session()
    CompactionRun.objects.create(session=session, status="failed", trigger="manual")
    limit(settings, user=["1 runs/h"])
    assert find_overspending(session) is None


def test_every_trigger_is_refused(session, branch, settings, server):
    """Manual, overflow and threshold; the first says why, and the turn of the second goes on without it."""
    limit(settings, session=["1 runs/h"])
    CompactionRun.objects.create(session=session, status="failed", trigger="manual")
    tip = branch[-1]
    said = "In the last hour compactions of this session used 1 run; SPENDING_LIMITS allows 1"
    with pytest.raises(CompactionRefused, match=said) as refused:
        chat.compact(tip)
    assert (refused.value.reason, refused.value.numbers["used"]) == ("spend", 1)
    server.script([steps.context_overflow()])
    question = chat.append_message(session, tip, role="user", content="and now?")
    completed(question, server, model="any")
    assert chat.request_compaction(question) is None
    assert len(suppressed(session=session, payload__reason="spend")) == 4
    assert FakeSummarizer.requests == []


class TestSeen:
    """By a client of the API and by staff."""

    @pytest.fixture(autouse=True)
    def spent(self, session, branch, settings):
        limit(settings, session=["1 runs/h"])
        CompactionRun.objects.create(session=session, status="failed", trigger="manual")

    @pytest.mark.parametrize("wait", [True, False])
    def test_the_api_answers_429_and_when_to_come_again(self, ann, session, wait):
        response = Asker(ann).post(f"sessions/{session.pk}/compact", {"wait": wait})
        assert "In the last hour compactions of this session used 1 run;" in problem(response, 429, "spend")
        assert 3500 < int(response["Retry-After"]) <= 3600

    def test_the_sessions_page_warns_and_the_event_is_listed(self, session, branch, admin_client):
        chat.request_compaction(branch[-1])
        page = admin_client.get(page_of(session)).text
        assert "SPENDING_LIMITS: 1 (runs per hour, of this session); used: 1." in page
        events = admin_client.get("/admin/compaction_app/compactionevent/").text
        assert "reason spend" in events

    def test_compacting_from_the_admin_says_why_nothing_started(self, session, branch, admin_client):
        address = f"/admin/compaction_app/chatmessage/{branch[-1].pk}/compact/"
        for given in ({}, {"instructions": "Keep the times."}):
            page = admin_client.post(address, given, follow=True).text
            assert "nothing was started" in page
            assert "SPENDING_LIMITS: 1 (runs per hour, of this session); used: 1." in page


def test_sessions_of_one_user_that_ask_at_once_do_not_pass_the_limit_together(settings, ann, monkeypatch):
    monkeypatch.setattr(tasks, "enqueue", lambda run, *, countdown=0.0: True)
    tips = [grow(chat.start_session(owner=ann), None, "u a " * 35)[-1] for _ in range(8)]
    limit(settings, user=["2 runs/h"])
    assert at_once([partial(chat.request_compaction, tip) for tip in tips]) == []
    assert CompactionRun.objects.count() == 2
