"""A message is posted and answered, also where the answer is awaited; whatever fails, the message is kept."""

import pytest
from django.db import connections
from django.test import Client

from compaction_app import chat
from compaction_app.api.codes import SENTENCES, Code
from compaction_app.models import ChatMessage, ChatSession, ReplyClaim
from compaction_app.testing import steps
from compaction_app.values import ErrorCode, Role, Strategy
from project import offline_assistant
from project.chat import turns
from project.chat.forms import MAX_CHARACTERS
from project.chat.words import FAILURES
from tests.project.chat_page.pages import WINDOW, grow, newest, send, stored, text_of, url
from tests.steps import unauthorized

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
class TestPosting:
    def test_a_message_and_its_reply_are_stored_with_what_was_sent_and_shown(self, browser, session, endpoint):
        response = send(browser, session, "Is anybody there?")
        message, reply = ChatMessage.objects.order_by("id")
        assert (message.role, message.content, message.parent) == (Role.USER, "Is anybody there?", None)
        assert (reply.role, reply.content, reply.parent) == (Role.ASSISTANT, "Ahoy from the model.", message)
        assert response.url == f"{url('branch', session, reply)}#m{reply.pk}"
        assert reply.model == "scripted"
        assert reply.usage["prompt_tokens"] > 0
        assert reply.sent_context["strategy"] == Strategy.NONE
        assert endpoint.requests[0]["model"] == "scripted"
        assert endpoint.requests[0]["messages"] == [{"role": "user", "content": "Is anybody there?"}]

    def test_what_can_not_be_stored_comes_back_with_the_reason(self, browser, session, settings):
        settings.COMPACTION = {**settings.COMPACTION, "MAX_MESSAGE_BYTES": 100_000}
        tip = grow(session, 2)
        for content, reason in (
            ("", "Type a message first."),
            (" \n\t ", "Type a message first."),
            ("x" * (MAX_CHARACTERS + 1), "This message has 200,001 characters; 200,000 are allowed."),
            ("a\x00b", "Null characters are not allowed."),
            # A browser sends each line break as two characters; they count as one.
            ("x\r\n" * 75_000, "This message is too large to be stored."),
            ("x" * 150_000, "This message is too large to be stored."),
        ):
            response = send(browser, session, content, parent=tip)
            assert response.status_code == 422
            assert reason in text_of(response)
        assert f"{content}</textarea>" in text_of(response), "what was typed is not lost"
        assert stored(session) == 2


@pytest.mark.django_db(transaction=True)
class TestFailures:
    """Whatever an endpoint does, the person's message is kept and can be answered later."""

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("step", "told"),
        [
            (steps.server_error(), FAILURES[Code.MODEL]),
            (unauthorized(), FAILURES[SENTENCES[ErrorCode.AUTHENTICATION]]),
        ],
        ids=["500", "401"],
    )
    def test_a_failure_is_told_and_the_message_kept(self, browser, session, endpoint, settings, step, told):
        settings.CHAT_TIMEOUT_SECONDS = 0.3
        endpoint.script(default=step)
        response = send(browser, session, "Hello")
        assert [m.content for m in ChatMessage.objects.all()] == ["Hello"]
        page = text_of(browser.get(response.url))
        assert told.replace("'", "&#x27;") in page
        assert "There is no reply to this message yet." in page
        assert "a-key-that-nobody-may-see" not in page

    def test_a_window_that_is_filled_is_explained_and_nothing_is_sent(self, browser, session, endpoint, marit):
        page = text_of(browser.get(send(browser, session, "word " * 3000).url))
        assert page.count(">This message is too long for the model. Shorten it, or attach less.<") == 1
        assert stored(session) == 1
        filled = chat.start_session(owner=marit, system_prompt="word " * 3000, settings=WINDOW)
        send(browser, filled, "Hello")
        assert "There is no room for the conversation beside the instructions for the model." in text_of(
            browser.get(url("session", filled))
        )
        assert endpoint.requests == []

    def test_a_second_tab_does_not_pay_for_the_same_reply(self, browser, session, endpoint, marit):
        """While the reply is awaited, another page of the conversation offers to wait, not to ask again."""
        other = Client()
        other.force_login(marit)
        seen = []

        def while_it_waits(exchange):
            message = newest(session)
            seen.append(text_of(other.get(url("session", session))))
            seen.append(text_of(other.post(url("regenerate", session, message), follow=True)))
            # This runs in the server's thread.
            connections.close_all()
            steps.reply("Ahoy from the model.")(exchange)

        endpoint.script([while_it_waits])
        send(browser, session, "Hello")
        page, told = seen
        assert "The reply to this message is on its way." in page
        assert "Retry" not in page
        assert "A reply to this message is already on its way." in told
        assert [message.role for message in ChatMessage.objects.order_by("id")] == ["user", "assistant"]
        assert len(endpoint.requests) == 1
        assert not ReplyClaim.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestOfflineAssistant:
    def test_without_key_and_address_it_answers_and_says_so(self, browser, session):
        chat.append_messages(session, None, [{"role": "user", "content": "The boat is called Alma."}])
        send(browser, session, "What is the boat called?", parent=newest(session))
        reply = newest(session)
        assert reply.model == offline_assistant.NAME
        assert reply.content.endswith("in a message of yours:\n\n> The boat is called Alma.")
        assert reply.sent_context["tokens"] > 0


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
