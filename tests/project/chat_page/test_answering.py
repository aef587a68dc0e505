"""Which model answers on the chat page, and the offline assistant where there is none."""

import pytest

from compaction_app import chat
from compaction_app.models import ChatSession
from project import offline_assistant
from project.chat import turns
from tests.project.chat_page.pages import newest, send, text_of, url

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
class TestOfflineAssistant:
    def test_without_key_and_address_it_answers_and_says_so(self, browser, session):
        chat.append_messages(session, None, [{"role": "user", "content": "The boat is called Alma."}])
        send(browser, session, "What is the boat called?", parent=newest(session))
        reply = newest(session)
        assert reply.model == offline_assistant.NAME
        assert reply.content.endswith("in a message of yours:\n\n> The boat is called Alma.")
        assert reply.sent_context["tokens"] > 0
        page = text_of(browser.get(url("session", session)))
        assert '<p dir="auto">The boat is called Alma.</p>\n</blockquote>' in page
        assert '<span class="speaker" dir="auto">Offline assistant</span>' in page


@pytest.mark.pure
class TestModels:
    """Which model answers: the conversation's where the site offers it or names none, else the first that it names."""

    @pytest.mark.parametrize(
        ("offered", "own", "model"),
        [
            (["one", "two"], "own", "one"),
            (["one", "two"], "two", "two"),
            ([], "own", "own"),
            ([], "", turns.DEFAULT_MODEL),
        ],
    )
    def test_the_model_that_answers(self, settings, offered, own, model):
        settings.CHAT_MODELS = offered
        assert turns.model_for(ChatSession(model=own)) == model
