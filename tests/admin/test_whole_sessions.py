"""Compacting whole sessions: what is told of each, and that only what is handed over is said to be."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.admin import compacting
from compaction_app.models import ChatSession, CompactionRun
from tests.admin.pages import page_of, queries_of, told, url
from tests.admin.records import conversation, run_at
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


def asked_for(client, *sessions):
    chosen = {"action": "compact_every_branch", "_selected_action": [row.pk for row in sessions], "index": 0}
    return told(client.post(url("chatsession_changelist"), chosen))


def test_each_of_the_selected_sessions_is_told_what_becomes_of_it(operator, handed_over):
    over, _ = conversation()
    off, _ = conversation(settings={"MODE": "off"})
    quiet, _ = conversation(turns=1)
    ChatSession.objects.filter(pk=off.pk).update(title="Off")
    ChatSession.objects.filter(pk=quiet.pk).update(title="Quiet")
    said = asked_for(operator, over, off, quiet, start_session(title="Empty"), invalid("Wrong"))
    assert "Compacting every branch over its threshold in the background, in 1 session: Harbour." in said
    assert "Nothing to compact: no branch is over its threshold in 1 session: Quiet." in said
    assert "Nothing to compact: there are no messages in 1 session: Empty." in said
    assert "Compaction is off (MODE) in 1 session: Off." in said
    assert "Wrong: nothing is compacted, its settings are invalid." in said
    assert "TRIGGER_RATIO" in said
    assert handed_over == [over.pk]
    assert [entry.object_id for entry in LogEntry.objects.all()] == [str(over.pk)]


def test_one_branch_over_its_threshold_is_enough(operator, handed_over):
    session, tip = conversation()
    root = chat.get_branch(tip)[0]
    chat.append_message(session, session.messages.get(pk=root.id), role="assistant", content="short")
    assert "in the background" in asked_for(operator, session)
    assert handed_over == [session.pk]


def test_a_session_of_more_branches_than_are_looked_at_is_handed_over(operator, handed_over, monkeypatch):
    """Nobody knows beforehand that there is nothing to do; the sentence speaks of branches over their threshold."""
    monkeypatch.setattr(compacting, "MOST_LOOKED_AT", 1)
    session = start_session(title="Wide")
    root = chain(session, 1)[0]
    chain(session, 1, root)
    chain(session, 1, root)
    assert "every branch over its threshold" in asked_for(operator, session)


def test_looking_takes_the_same_queries_whatever_a_session_holds(operator, handed_over):
    def queries_for(session):
        with CaptureQueriesContext(connection) as queries:
            assert "in the background" in asked_for(operator, session)
        return len(queries)

    # Kept by Django from the first entry of its log on.
    asked_for(operator, conversation()[0])
    assert queries_for(conversation(turns=40)[0]) == queries_for(conversation()[0])


@pytest.mark.parametrize("instructions", ["", "Keep the prices."])
def test_an_empty_session_says_so_with_instructions_and_without(operator, handed_over, instructions):
    empty = start_session(title="Empty")
    answer = operator.post(url("chatsession_compact", empty.pk), {"instructions": instructions})
    assert told(answer) == "Nothing to compact: there are no messages in 1 session: Empty."
    assert handed_over == []


@pytest.mark.parametrize("instructions", ["", "Keep the prices."])
def test_wrong_settings_are_told_once_and_not_for_each_branch(operator, handed_over, instructions):
    session = invalid("Wrong")
    chain(session, 1)
    said = told(operator.post(url("chatsession_compact", session.pk), {"instructions": instructions}))
    assert said.count("its settings are invalid") == 1
    assert not CompactionRun.objects.exists()


def test_a_broker_that_is_away_is_told_with_the_sessions_that_are_left(operator, monkeypatch):
    tried = []
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda session: bool(tried.append(session)))
    said = asked_for(operator, conversation()[0], conversation()[0])
    assert "nothing was started in 2 sessions: Harbour, Harbour. Try again later." in said
    assert len(tried) == 1


@pytest.mark.django_db(transaction=True)
def test_a_run_that_no_broker_took_is_said_to_wait_for_the_sweep(operator):
    _, tip = conversation()
    said = told(operator.post(url("chatmessage_compact", tip.pk)))
    run = CompactionRun.objects.get()
    assert run.enqueued_at is None
    assert said.startswith(f"The message broker did not answer. Opened: Run {run.pk}.")
    assert "the next sweep enqueues what is waiting" in said
    assert "Started" not in said


@pytest.mark.django_db(transaction=True)
def test_a_run_is_no_link_for_those_who_may_not_see_runs(login, broker):
    _, tip = conversation()
    answer = login("view_chatmessage", "compact_chatsession").post(url("chatmessage_compact", tip.pk), follow=True)
    run = CompactionRun.objects.get()
    assert f"Started in the background: Run {run.pk}." in answer.text
    assert page_of(run) not in answer.text


def test_a_compaction_that_is_open_already_is_named_with_its_run(operator):
    session, tip = conversation()
    chat.request_compaction(tip, trigger="manual")
    run = session.runs.get()
    answer = operator.post(url("chatmessage_compact", tip.pk), follow=True).text
    assert f'already open: <a href="{page_of(run)}">Run {run.pk}</a>' in answer
    assert f"Message {tip.pk}" in answer


def test_of_several_open_runs_the_one_of_the_branch_is_named(operator):
    session, tip = conversation()
    chat.request_compaction(tip, trigger="manual")
    own = session.runs.get()
    other = chain(session, 2)
    run_at(other[-1], status="ready", anchor=other[0])
    said = told(operator.post(url("chatmessage_compact", tip.pk)))
    assert said == f"A compaction of the branch is already open: Run {own.pk} (blocks Message {tip.pk})."


def test_one_thing_has_one_name(operator):
    """Of a session every branch is compacted, of a message its own: the disclosure, the button and the tool agree."""
    session, tip = conversation()
    page = re.sub(r"\s+", " ", operator.get(page_of(session)).text)
    assert "<summary>Compact every branch</summary>" in page
    assert 'value="Compact every branch"' in page
    assert "Compact now" not in page
    assert "Compact every branch" not in operator.get(page_of(tip)).text


def test_the_settings_form_names_the_nearest_keys_and_not_all(login):
    session = start_session()
    client = login("view_chatsession", "change_chatsession")
    page = client.post(page_of(session), {"title": "", "settings": '{"TRIGER_RATIO": 0.5}'}).text
    assert "Unknown settings: TRIGER_RATIO. Did you mean TRIGGER_RATIO" in page
    assert "SUMMARIZER_TIMEOUT" not in page
    page = client.post(page_of(session), {"title": "", "settings": '{"ZZZ": 1}'}).text
    assert "Unknown settings: ZZZ. The documentation lists all settings." in page
    assert queries_of(client, page_of(session))
