"""Sessions are verified from the admin: what does not agree is listed, and nothing is written."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app.admin import verifying
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.admin.pages import url
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


def test_what_does_not_agree_is_listed_with_where_and_how(viewer, tips):
    chosen = tips[0].session_id
    before = viewer.post(url("chatsession_verify", chosen)).context["found"]
    ChatMessage.objects.filter(pk=tips[3].pk).update(depth=9)
    page = viewer.post(url("chatsession_verify", chosen))
    assert page.context["found"] == before + 1
    text = " ".join(re.sub("<[^>]*>", " ", page.text).split())
    assert f"depth Message {tips[3].pk} stored 9, derived 4" in text
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


def test_selected_sessions_are_verified_together(viewer, tips):
    other = chain(start_session(), 2)
    ChatMessage.objects.filter(pk__in=[tips[1].pk, other[1].pk]).update(depth=9)
    chosen = {"action": "verify", "_selected_action": [tips[0].session_id, other[0].session_id], "index": 0}
    page = viewer.post(url("chatsession_changelist"), chosen)
    wheres = [(str(row["where"]), str(row["session"])) for row in page.context["rows"] if row["finding"] == "depth"]
    assert len(wheres) == 2
    assert "2 sessions, 7 messages and 0 runs checked" in page.text
    for tip, session in ((tips[1], tips[0].session_id), (other[1], other[0].session_id)):
        assert any(f"Message {tip.pk}" in where and str(session) in named for where, named in wheres)


def test_more_messages_than_a_request_may_take_are_the_command_s(viewer, tips, monkeypatch):
    monkeypatch.setattr(verifying, "MOST_MESSAGES", 4)
    page = viewer.post(url("chatsession_verify", tips[0].session_id), follow=True)
    assert f"Run: python manage.py verify_chats {tips[0].session_id}" in page.text


def test_a_page_shows_so_many_findings_and_counts_the_rest(viewer, tips, monkeypatch):
    monkeypatch.setattr(verifying, "MOST_FINDINGS", 1)
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
