"""The list of one's conversations: begun, found, renamed, deleted."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.values import Role
from tests.project.chat_page.pages import grow, text_of, url

pytestmark = pytest.mark.django_db


def listed(browser, **query):
    return re.findall(r'session-title" dir="auto">([^<]+)<', text_of(browser.get(reverse("chat:sessions"), query)))


class TestConversations:
    @pytest.mark.django_db(transaction=True)
    def test_a_first_message_begins_one_that_belongs_to_whoever_wrote_it(self, browser, marit, endpoint):
        assert "Your conversations will be listed here." in text_of(browser.get(reverse("chat:sessions")))
        words = {"content": "How old may a roof become?", "system_prompt": "Answer in prose.", "model": "unknown"}
        response = browser.post(reverse("chat:new"), words)
        session = ChatSession.objects.get()
        assert (session.owner, session.title, session.model) == (marit, words["content"], "scripted")
        assert [m["content"] for m in endpoint.requests[0]["messages"]] == ["Answer in prose.", words["content"]]
        assert "Ahoy from the model." in text_of(browser.get(response.url))

    def test_the_list_shows_ones_own_newest_first(self, browser, marit, stranger):
        for title in ("First", "Second"):
            chat.start_session(owner=marit, title=title)
        chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="Secret")
        chat.start_session(title="Nobody's")
        assert listed(browser) == ["Second", "First"]

    def test_titles_and_texts_are_searched(self, browser, session, stranger):
        chat.start_session(owner=session.owner, title="The cellar")
        hidden = chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="LAMP")
        grow(hidden, 2, content="A secret lamp ")
        tip = grow(session, 2, content="The keeper <b>oils</b> the lamp ")
        chat.append_message(session, tip, role=Role.USER, content="Thanks")
        assert listed(browser, q="cellar") == ["The cellar"]
        page = text_of(browser.get(reverse("chat:sessions"), {"q": " the LAMP"}))
        assert f'href="{url("branch", session, tip)}#m{tip.pk}"' in page
        # What was searched for is within the two lines that are shown, and no word is cut before it.
        assert ">…keeper &lt;b&gt;oils&lt;/b&gt; the lamp 1" in page
        assert "secret" not in page
        assert "Nothing found." in text_of(browser.get(reverse("chat:sessions"), {"q": "engine"}))
