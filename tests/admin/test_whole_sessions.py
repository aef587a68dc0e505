"""Compacting whole sessions: what is told of each, and that only what is handed over is said to be."""

import pytest
from django.contrib.admin.models import LogEntry

from compaction_app import chat
from compaction_app.models import ChatSession, CompactionRun
from tests.admin.pages import page_of, told, url
from tests.admin.records import conversation
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.fixture
def handed_over(monkeypatch):
    """Sessions that a broker took, which is always there."""
    taken = []
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda session: taken.append(session.pk) or True)
    return taken


def invalid(title):
    session, _ = conversation(turns=1)
    ChatSession.objects.filter(pk=session.pk).update(settings={"TRIGGER_RATIO": 7}, title=title)
    return session


def asked_for(client, session):
    return told(client.post(url("chatsession_compact", session.pk)))


def test_a_session_is_told_what_becomes_of_it(operator, handed_over):
    over, _ = conversation()
    off, _ = conversation(settings={"MODE": "off"})
    assert asked_for(operator, over) == "Every branch over its threshold is compacted in the background: Harbour."
    assert asked_for(operator, off).endswith("Compaction is off (MODE): Harbour.")
    assert handed_over == [over.pk]
    assert [entry.object_id for entry in LogEntry.objects.all()] == [str(over.pk)]


def test_an_empty_session_says_so(operator, handed_over):
    empty = start_session(title="Empty")
    answer = operator.post(url("chatsession_compact", empty.pk))
    assert told(answer) == "Nothing to compact: Empty."
    assert handed_over == []


def test_wrong_settings_are_told_once_and_not_for_each_branch(operator, handed_over):
    session = invalid("Wrong")
    chain(session, 1)
    said = told(operator.post(url("chatsession_compact", session.pk)))
    assert said.count("its settings are invalid") == 1
    assert not CompactionRun.objects.exists()


def test_a_broker_that_is_away_is_told(operator, monkeypatch):
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda session: False)
    assert "nothing was started: Harbour. Try again later." in asked_for(operator, conversation()[0])


@pytest.mark.django_db(transaction=True)
def test_a_run_is_no_link_for_those_who_may_not_see_runs(login, broker):
    _, tip = conversation()
    answer = login("view_chatmessage", "compact_chatsession").post(url("chatmessage_compact", tip.pk), follow=True)
    run = CompactionRun.objects.get()
    assert f"Opened: Run {run.pk} (waiting)." in answer.text
    assert page_of(run) not in answer.text


def test_a_compaction_that_is_open_already_is_named_with_its_run(operator):
    session, tip = conversation()
    chat.request_compaction(tip, trigger="manual")
    run = session.runs.get()
    answer = operator.post(url("chatmessage_compact", tip.pk), follow=True).text
    assert f'already open: <a href="{page_of(run)}">Run {run.pk}</a>' in answer
    assert f"Message {tip.pk}" in answer
