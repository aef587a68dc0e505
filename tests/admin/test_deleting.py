"""Deleting and retiring in the admin: permissions, what is deleted as well, and that the app's functions do it."""

import pytest
from django.contrib.admin.models import LogEntry

from compaction_app import chat
from compaction_app.admin.display import link
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind
from tests.admin.pages import page_of, told, url
from tests.admin.records import compacted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.parametrize("more", [(), ("view_chatsession",)])
def test_a_message_is_deleted_through_the_app_with_all_below_it(login, more):
    """The erasure is counted, so that a run which saw the text can not commit."""
    session, nodes, *_ = compacted()
    answer = login("view_chatmessage", "delete_chatmessage", *more).post(
        url("chatmessage_delete", nodes[1].pk), {"post": "yes"}
    )
    # Not to a session that the user may not see.
    assert answer.headers["Location"] == (page_of(session) if more else url("chatmessage_changelist"))
    assert "deleted successfully" in told(answer)
    session.refresh_from_db()
    assert session.erasures == 1
    assert list(session.messages.values_list("pk", flat=True)) == [nodes[0].pk]
    assert CompactionEvent.objects.filter(kind=EventKind.INVALIDATED).count() == 1


@pytest.mark.parametrize("model", ["chatsession", "chatmessage"])
def test_a_second_click_on_delete_is_no_error(superuser, monkeypatch, model):
    session, nodes, *_ = compacted()
    record, name = (session, "delete_session") if model == "chatsession" else (nodes[1], "delete_message")
    delete = getattr(chat, name)
    monkeypatch.setattr(chat, name, lambda row: (delete(type(row).objects.get(pk=row.pk)), delete(row)))
    assert superuser.post(url(f"{model}_delete", record.pk), {"post": "yes"}).status_code == 302
    assert not type(record).objects.filter(pk=record.pk).exists()


def test_a_session_is_deleted_through_the_app(login, monkeypatch):
    session, *_ = compacted()
    deleted = []
    delete_session = chat.delete_session
    monkeypatch.setattr(chat, "delete_session", lambda row: (deleted.append(row.pk), delete_session(row)))
    client = login("view_chatsession", "delete_chatsession")
    page = client.get(url("chatsession_delete", session.pk))
    counts = {"Messages": "4", "Summaries": "1", "Runs": "1", "Open runs": "0", "Failed runs": "0", "Events": "1"}
    assert page.context["counts"] == counts
    assert all(page.text.count(f"<li>{name}: {count}</li>") == 1 for name, count in counts.items())
    client.post(url("chatsession_delete", session.pk), {"post": "yes"})
    assert deleted == [session.pk]
    assert not ChatSession.objects.filter(pk=session.pk).exists()
    assert not CompactionRun.objects.exists()


# -- retiring --------------------------------------------------------------------------------------------------


def test_retiring_says_first_which_summaries_go(operator, three):
    _, (_, second, third) = three
    page = operator.get(url("chatmessage_retire", second.pk))
    assert list(page.context["live"]) == [second, third]
    assert all(f"<li>{link(page_of(summary), summary)}</li>" in page.text for summary in (second, third))
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()


def test_retiring_takes_a_reason_and_goes_through_the_app(operator, three):
    messages, (first, second, third) = three
    response = operator.post(url("chatmessage_retire", second.pk), {"reason": "It was wrong."})
    retired = ChatMessage.objects.filter(retired_at__isnull=False).values_list("pk", "retired_reason")
    assert set(retired) == {(second.pk, "It was wrong."), (third.pk, "It was wrong.")}
    said = f"Retired 2: Summary {second.pk}, Summary {third.pk}. At {messages[-1]} the model reads Summary {first.pk}"
    assert told(response).startswith(said)
    assert response.headers["Location"] == page_of(second)
    assert CompactionEvent.objects.filter(kind=EventKind.RETIRED).count() == 1
    logged = {entry.change_message for entry in LogEntry.objects.all()}
    assert logged == {"Retired."}, "this log outlives an erasure: the reason stands with the summary"
