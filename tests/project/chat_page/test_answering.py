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
        assert (reply.model, turns.model_for(session)) == (offline_assistant.NAME, None)
        assert "“The boat is called Alma.”\n— an earlier message of yours" in reply.content
        assert reply.sent_context["tokens"] > 0
        page = text_of(browser.get(url("session", session)))
        assert "the <strong>offline assistant</strong> quotes from the current context" in page
        assert '<span class="speaker" dir="auto">Offline assistant</span>' in page


@pytest.mark.pure
class TestModels:
    """Which model answers: the site's, else the conversation's, else the default."""

    @pytest.mark.parametrize(
        ("site", "own", "model"),
        [("site", "own", "site"), ("", "own", "own"), ("", "", turns.DEFAULT_MODEL)],
    )
    def test_the_model_that_answers(self, settings, site, own, model):
        settings.OPENAI_API_KEY = "key"
        settings.CHAT_MODEL = site
        assert turns.model_for(ChatSession(model=own)) == model

    def test_without_an_endpoint_there_is_none(self, settings):
        settings.CHAT_MODEL = "site"
        assert turns.model_for(ChatSession(model="own")) is None
        assert turns.model_of_new_session() == ""
