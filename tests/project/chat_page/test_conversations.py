"""The list of one's conversations, and how a new one is begun."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatSession
from tests.project.chat_page.pages import text_of, url

pytestmark = pytest.mark.django_db


class TestConversations:
    def test_a_new_conversation_belongs_to_whoever_began_it(self, browser, marit):
        assert "You have no conversations yet." in text_of(browser.get(reverse("chat:sessions")))
        response = browser.post(reverse("chat:new"), {"title": "Roof", "system_prompt": "Answer in prose."})
        session = ChatSession.objects.get()
        assert (session.owner, session.title, session.system_prompt) == (marit, "Roof", "Answer in prose.")
        assert response.url == url("session", session)
        assert "No messages yet." in text_of(browser.get(response.url))

    def test_the_list_shows_ones_own_conversations_newest_first(self, browser, marit, stranger):
        for title in ("First", "Second"):
            chat.start_session(owner=marit, title=title)
        chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="Secret")
        chat.start_session(title="Nobody's")
        page = text_of(browser.get(reverse("chat:sessions")))
        assert re.findall(r"<bdi>(\w+)</bdi>", page) == ["Second", "First"]
