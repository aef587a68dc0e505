"""The chat page: what a person can do there, what they see, and what stays closed to others."""

import contextlib
import re
import socket
import time
import uuid

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import ErrorCode, Role, RunStatus, Strategy
from project import offline_assistant
from project.celery import app as celery_app
from project.chat import commands, reading, turns, words
from project.chat.forms import MAX_CHARACTERS
from project.chat.pages import CONTENT_SECURITY_POLICY
from project.chat.shown import PAGE_SIZE

#: Small enough that a handful of messages fills it.
WINDOW = {"CONTEXT_WINDOW": 2000, "RESERVED_TOKENS": 200}

pytestmark = pytest.mark.django_db


@pytest.fixture
def marit():
    return get_user_model().objects.create_user("marit", password="wet-gloves-1")


@pytest.fixture
def browser(marit):
    client = Client()
    client.force_login(marit)
    return client


@pytest.fixture
def stranger():
    client = Client()
    client.force_login(get_user_model().objects.create_user("stranger"))
    return client


@pytest.fixture
def session(marit):
    return chat.start_session(owner=marit, title="The lighthouse", settings=WINDOW)


@pytest.fixture
def endpoint(settings):
    """A real server in the place of the model's endpoint."""
    with ScriptedOpenAIServer(default=steps.reply("Ahoy from the model.")) as server:
        settings.OPENAI_BASE_URL = server.url
        settings.OPENAI_API_KEY = "a-key-that-nobody-may-see"
        settings.CHAT_MODEL = "scripted"
        settings.CHAT_TIMEOUT_SECONDS = 5
        yield server


def grow(session, messages, parent=None, content="Word " * 20):
    """Turns of a user and an assistant, ``messages`` messages in all; the last one."""
    roles = [Role.USER, Role.ASSISTANT]
    chain = [{"role": roles[n % 2], "content": f"{content}{n}"} for n in range(messages)]
    return chat.append_messages(session, parent, chain)[-1]


def url(name, session, *message):
    return reverse(f"chat:{name}", args=[session.pk, *(m.pk for m in message)])


def send(browser, session, content, parent=None, name="post"):
    data = {"content": content, "parent": parent.pk if parent else ""}
    return browser.post(url(name, session), data)


def text_of(response):
    return response.content.decode()


def stored(session):
    return ChatMessage.objects.messages().filter(session=session).count()


def newest(session):
    return ChatMessage.objects.messages().filter(session=session).latest("id")


@contextlib.contextmanager
def counted_queries():
    with CaptureQueriesContext(connection) as captured:
        yield captured


# -- conversations ----------------------------------------------------------------------------------------


class TestConversations:
    def test_without_a_conversation_the_list_says_how_to_begin_one(self, browser):
        page = text_of(browser.get(reverse("chat:sessions")))
        assert "You have no conversation yet." in page

    def test_a_new_conversation_belongs_to_whoever_began_it(self, browser, marit):
        response = browser.post(reverse("chat:new"), {"title": "Roof", "system_prompt": "Answer in prose."})
        session = ChatSession.objects.get()
        assert (session.owner, session.title, session.system_prompt) == (marit, "Roof", "Answer in prose.")
        assert response.url == url("session", session)
        assert "Nothing has been said here yet." in text_of(browser.get(response.url))

    def test_the_list_shows_ones_own_conversations_newest_first(self, browser, marit, stranger):
        for title in ("First", "Second"):
            chat.start_session(owner=marit, title=title)
        chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="Secret")
        chat.start_session(title="Nobody's")
        page = text_of(browser.get(reverse("chat:sessions")))
        assert re.findall(r"<bdi>(\w+)</bdi>", page) == ["Second", "First"]

    def test_the_list_is_paged(self, browser, marit):
        for number in range(reading.SESSIONS_PAGE_SIZE + 1):
            chat.start_session(owner=marit, title=f"Talk {number}.")
        first, second = (text_of(browser.get(reverse("chat:sessions"), {"page": page})) for page in (1, 2))
        assert "Talk 0." not in first
        assert "?page=2" in first
        assert "Talk 0." in second
        assert "?page=1" in second
        assert browser.get(reverse("chat:sessions"), {"page": "x"}).status_code == 404

    def test_a_title_that_is_too_long_comes_back_with_the_reason(self, browser):
        response = browser.post(reverse("chat:new"), {"title": "x" * 256})
        assert response.status_code == 422
        assert "at most 255 characters" in text_of(response)
        assert not ChatSession.objects.exists()

    def test_the_list_takes_the_same_queries_for_one_conversation_and_for_many(self, browser, marit):
        chat.start_session(owner=marit)
        with counted_queries() as one:
            browser.get(reverse("chat:sessions"))
        for _ in range(20):
            grow(chat.start_session(owner=marit), 3)
        with counted_queries() as many:
            browser.get(reverse("chat:sessions"))
        assert len(one) == len(many) == 3


# -- who may do what --------------------------------------------------------------------------------------


def addresses(session, message):
    """Every address of the chat, and whether it is posted to."""
    return [
        (url("session", session), False),
        (url("branch", session, message), False),
        (url("panel", session, message), False),
        (url("text", session, message), False),
        (url("post", session), True),
        (url("post_async", session), True),
        (url("edit", session, message), True),
        (url("regenerate", session, message), True),
    ]


class TestPermissions:
    def test_whoever_is_not_signed_in_is_sent_to_the_sign_in_page(self, session):
        message = grow(session, 1)
        own_pages = [(reverse("chat:sessions"), False), (reverse("chat:new"), True)]
        for address, posted in [*own_pages, *addresses(session, message)]:
            response = Client().post(address, {"content": "x"}) if posted else Client().get(address)
            assert response.status_code == 302, address
            assert response.url == f"{reverse('login')}?next={address}"
        assert stored(session) == 1

    def test_another_user_finds_nothing_and_changes_nothing(self, stranger, session):
        """404 and not 403: whether the conversation exists is nobody's business."""
        message = grow(session, 1)
        for address, posted in addresses(session, message):
            response = stranger.post(address, {"content": "x"}) if posted else stranger.get(address)
            assert response.status_code == 404, address
        assert stored(session) == 1

    def test_a_message_of_another_conversation_is_not_found_through_ones_own(self, stranger, session):
        """The ids of messages count up, so that anyone can guess one."""
        secret = grow(session, 1, content="A secret ")
        own = chat.start_session(owner=get_user_model().objects.get(username="stranger"))
        for address, posted in addresses(own, secret)[1:]:
            data = {"content": "x", "parent": secret.pk}
            response = stranger.post(address, data) if posted else stranger.get(address)
            assert response.status_code == 404, address
        editing = stranger.get(url("branch", own, grow(own, 1)), {"edit": secret.pk})
        assert editing.status_code == 404
        assert stored(session) == 1

    def test_a_conversation_without_an_owner_is_nobodys(self, browser):
        assert browser.get(url("session", chat.start_session())).status_code == 404

    @pytest.mark.parametrize("name", ["new", "post", "post_async", "edit", "regenerate"])
    def test_a_post_without_the_csrf_token_is_refused(self, marit, session, name):
        client = Client(enforce_csrf_checks=True)
        client.force_login(marit)
        message = grow(session, 1)
        arguments = {"new": [], "edit": [session.pk, message.pk], "regenerate": [session.pk, message.pk]}
        address = reverse(f"chat:{name}", args=arguments.get(name, [session.pk]))
        assert client.post(address, {"content": "x"}).status_code == 403
        assert stored(session) == 1

    def test_what_changes_something_is_not_done_by_a_get(self, browser, session):
        message = grow(session, 1)
        for address, posted in addresses(session, message):
            assert browser.get(address).status_code == (405 if posted else 200), address

    def test_staff_sees_the_way_to_the_admin(self, browser, marit, session):
        assert "/admin/" not in text_of(browser.get(reverse("chat:sessions")))
        marit.is_staff = True
        marit.save()
        assert 'href="/admin/"' in text_of(browser.get(reverse("chat:sessions")))
        in_admin = reverse("admin:compaction_app_chatsession_change", args=[session.pk])
        assert f'href="{in_admin}"' in text_of(browser.get(url("session", session)))

    def test_one_signs_in_and_is_led_back(self, marit, session):
        client = Client()
        wanted = url("session", session)
        page = client.get(reverse("login"), {"next": wanted})
        assert page["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        wrong = client.post(reverse("login"), {"username": "marit", "password": "x", "next": wanted})
        assert "Please enter a correct username and password" in text_of(wrong)
        right = {"username": "marit", "password": "wet-gloves-1", "next": wanted}
        assert client.post(reverse("login"), right).url == wanted
        assert client.post(reverse("logout")).url == reverse("login")

    def test_an_unknown_address_is_not_found(self, browser, session):
        nowhere = chat.start_session()
        assert browser.get(reverse("chat:session", args=[uuid.uuid4()])).status_code == 404
        assert browser.get(url("session", nowhere)).status_code == 404
        for number in (10**9, 2**63, 10**40):
            assert browser.get(reverse("chat:branch", args=[session.pk, number])).status_code == 404
        for parent in ("x", "-1", "1.5", "²", str(2**63), "9" * 5000):
            assert browser.post(url("post", session), {"content": "x", "parent": parent}).status_code == 404
        message = grow(session, 1)
        for query in ({"end": "x"}, {"edit": "x"}, {"edit": 10**9}):
            assert browser.get(url("branch", session, message), query).status_code == 404


# -- posting ----------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
class TestPosting:
    def test_a_message_and_its_reply_are_stored_and_shown(self, browser, session, endpoint):
        response = send(browser, session, "Is anybody there?")
        message, reply = ChatMessage.objects.order_by("id")
        assert (message.role, message.content, message.parent) == (Role.USER, "Is anybody there?", None)
        assert (reply.role, reply.content, reply.parent) == (Role.ASSISTANT, "Ahoy from the model.", message)
        assert response.url == f"{url('branch', session, reply)}#m{reply.pk}"
        page = text_of(browser.get(response.url))
        assert page.index("Is anybody there?") < page.index("Ahoy from the model.")

    def test_a_reply_keeps_what_was_sent_to_get_it(self, browser, session, endpoint):
        send(browser, session, "Is anybody there?")
        reply = newest(session)
        assert reply.model == "scripted"
        assert reply.usage["prompt_tokens"] > 0
        assert reply.sent_context["strategy"] == Strategy.NONE
        assert endpoint.requests[0]["model"] == "scripted"
        assert endpoint.requests[0]["messages"] == [{"role": "user", "content": "Is anybody there?"}]

    def test_a_message_goes_below_the_one_that_was_answered(self, browser, session, endpoint):
        first = grow(session, 2)
        grow(session, 4, parent=first)
        send(browser, session, "Back to the fork", parent=first)
        asked = newest(session).parent
        assert asked.parent == first
        assert [m["content"] for m in endpoint.requests[0]["messages"]][-1] == "Back to the fork"
        assert len(endpoint.requests[0]["messages"]) == 3

    def test_the_first_message_names_a_conversation_without_a_title(self, browser, marit):
        session = chat.start_session(owner=marit)
        send(browser, session, "  The roof\n leaks, " + "and leaks " * 20)
        session.refresh_from_db()
        assert session.title.startswith("The roof leaks, and leaks")
        assert len(session.title) <= 60
        assert session.title.endswith("…")

    def test_a_title_that_was_given_stays(self, browser, session):
        send(browser, session, "Hello")
        session.refresh_from_db()
        assert session.title == "The lighthouse"

    def test_line_breaks_of_the_form_are_stored_as_they_were_typed(self, browser, session):
        """Browsers send CRLF, and PostgreSQL and SQLite would both keep it."""
        send(browser, session, "one\r\ntwo\n\r\n  three ")
        assert newest(session).parent.content == "one\ntwo\n\n  three "

    @pytest.mark.parametrize("name", ["post", "post_async"])
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("", "Type a message first."),
            (" \n\t ", "Type a message first."),
            ("x" * (MAX_CHARACTERS + 1), "This message has 200001 characters; 200000 are allowed."),
            ("a\x00b", "Null characters are not allowed."),
        ],
        ids=["empty", "blank", "too-long", "nul"],
    )
    def test_what_can_not_be_stored_comes_back_with_the_reason(self, browser, session, name, content, reason):
        tip = grow(session, 2)
        response = send(browser, session, content, parent=tip, name=name)
        assert response.status_code == 422
        assert reason in text_of(response)
        assert stored(session) == 2

    @pytest.mark.parametrize("name", ["post", "post_async"])
    def test_what_the_app_refuses_comes_back_with_what_was_typed(self, browser, session, settings, name):
        settings.COMPACTION = {**settings.COMPACTION, "MAX_MESSAGE_BYTES": 10}
        response = send(browser, session, "More than ten bytes", name=name)
        assert response.status_code == 422
        page = text_of(response)
        assert "MAX_MESSAGE_BYTES allows 10." in page
        assert "More than ten bytes</textarea>" in page
        assert stored(session) == 0

    def test_neither_connection_nor_transaction_is_held_while_the_model_is_called(self, browser, session, endpoint):
        database = connections["default"]
        seen = []

        def look(exchange):
            seen.append((database.connection, database.in_atomic_block))
            steps.reply()(exchange)

        endpoint.script([look])
        send(browser, session, "Hello")
        assert seen == [(None, False)]
        assert stored(session) == 2

    def test_a_full_branch_is_compacted_in_the_background(self, browser, session, endpoint, broker):
        tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
        send(browser, session, "Hello", parent=tip)
        run = CompactionRun.objects.get()
        assert (run.trigger, run.status, run.tip) == ("threshold", RunStatus.READY, newest(session))
        assert run.task_id


@pytest.mark.django_db(transaction=True)
class TestAsyncPosting:
    """The async view holds no thread while the model writes; what it does is the same."""

    @pytest.fixture
    def abrowser(self, marit):
        client = AsyncClient()
        client.force_login(marit)
        return client

    def test_a_message_and_its_reply_are_stored(self, abrowser, session, endpoint):
        response = async_to_sync(abrowser.post)(url("post_async", session), {"content": "Is anybody there?"})
        message, reply = ChatMessage.objects.order_by("id")
        assert response.url == f"{url('branch', session, reply)}#m{reply.pk}"
        assert (message.content, reply.content) == ("Is anybody there?", "Ahoy from the model.")
        assert reply.sent_context["tokens"] > 0

    def test_without_an_endpoint_the_offline_assistant_answers(self, abrowser, session):
        async_to_sync(abrowser.post)(url("post_async", session), {"content": "Is anybody there?"})
        assert newest(session).model == offline_assistant.NAME

    def test_a_failure_is_told_and_the_message_kept(self, abrowser, session, endpoint):
        endpoint.script([steps.server_error()])
        response = async_to_sync(abrowser.post)(url("post_async", session), {"content": "Hello"})
        page = async_to_sync(abrowser.get)(response.url)
        assert "The model&#x27;s endpoint had an error." in text_of(page)
        assert stored(session) == 1

    def test_slash_commands_work(self, abrowser, session):
        tip = grow(session, 2)
        data = {"content": "/compactions", "parent": tip.pk}
        response = async_to_sync(abrowser.post)(url("post_async", session), data)
        assert response.url == f"{url('branch', session, tip)}?compactions#compactions"
        assert stored(session) == 2

    def test_a_page_that_came_through_asgi_posts_to_the_async_view(self, abrowser, browser, session):
        asynchronous = text_of(async_to_sync(abrowser.get)(url("session", session)))
        assert f'action="{url("post_async", session)}"' in asynchronous
        assert f'action="{url("post", session)}"' in text_of(browser.get(url("session", session)))


@pytest.mark.django_db(transaction=True)
class TestFailures:
    """Whatever an endpoint does, the person's message is kept and can be answered later."""

    @pytest.mark.parametrize("name", ["post", "post_async"])
    @pytest.mark.parametrize(
        ("step", "told"),
        [
            (steps.server_error(), words.REPLY_ERRORS[ErrorCode.PROVIDER_ERROR]),
            (steps.rate_limited(), words.REPLY_ERRORS[ErrorCode.PROVIDER_ERROR]),
            (steps.insufficient_quota(), words.REPLY_ERRORS[ErrorCode.QUOTA]),
            (steps.unauthorized(), words.REPLY_ERRORS[ErrorCode.AUTHENTICATION]),
            (steps.bad_request(), words.REPLY_ERRORS[ErrorCode.BAD_REQUEST]),
            (steps.drop(), words.REPLY_ERRORS[ErrorCode.PROVIDER_ERROR]),
            (steps.hang(), words.REPLY_ERRORS[ErrorCode.TIMEOUT]),
            (steps.malformed(), "is no chat completion"),
            (steps.malformed(b"<html>Bad gateway</html>", "text/html"), "is no chat completion"),
        ],
        ids=["500", "429", "quota", "401", "400", "drop", "hang", "malformed", "html"],
    )
    def test_a_failure_is_told_and_the_message_kept(self, browser, session, endpoint, settings, name, step, told):
        settings.CHAT_TIMEOUT_SECONDS = 0.3
        endpoint.script([step])
        response = send(browser, session, "Hello", name=name)
        assert [m.content for m in ChatMessage.objects.all()] == ["Hello"]
        page = text_of(browser.get(response.url))
        assert told.replace("'", "&#x27;") in page
        assert "Your message is kept" in page
        assert "a-key-that-nobody-may-see" not in page
        assert "There is no reply to this message yet." in page

    def test_the_reply_can_be_asked_for_again(self, browser, session, endpoint):
        endpoint.script([steps.server_error()])
        send(browser, session, "Hello")
        message = newest(session)
        response = browser.post(url("regenerate", session, message))
        reply = newest(session)
        assert (reply.content, reply.parent) == ("Ahoy from the model.", message)
        assert "There is no reply" not in text_of(browser.get(response.url))

    def test_a_message_too_long_for_the_window_is_kept_and_explained(self, browser, session, endpoint):
        response = send(browser, session, "word " * 3000)
        assert stored(session) == 1
        assert endpoint.requests == []
        page = text_of(browser.get(response.url))
        assert "The newest message is too long for the model" in page

    def test_a_system_prompt_that_fills_the_window_is_explained_on_the_page(self, browser, marit):
        session = chat.start_session(owner=marit, system_prompt="word " * 3000, settings=WINDOW)
        send(browser, session, "Hello")
        page = text_of(browser.get(url("session", session)))
        assert "Nothing is left for the conversation" in page

    @pytest.mark.parametrize("name", ["post", "post_async"])
    def test_a_prompt_that_the_provider_finds_too_long_is_compacted_and_sent_again(
        self, browser, session, endpoint, name
    ):
        tip = grow(session, 10, content="Tell me about the roof and the boat. " * 6)
        endpoint.script([steps.context_overflow()])
        send(browser, session, "Hello", parent=tip, name=name)
        assert newest(session).content == "Ahoy from the model."
        assert CompactionRun.objects.get().trigger == "overflow"

    @pytest.mark.parametrize("name", ["post", "post_async"])
    def test_a_broker_that_is_away_neither_fails_nor_delays_a_turn(self, browser, session, endpoint, name):
        tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
        began = time.monotonic()
        response = send(browser, session, "Hello", parent=tip, name=name)
        assert time.monotonic() - began < 5
        assert response.status_code == 302
        run = CompactionRun.objects.get()
        assert (run.status, run.enqueued_at) == (RunStatus.READY, None)
        assert "A compaction is open on this branch: waiting for a worker." in text_of(browser.get(response.url))

    def test_a_broker_that_says_nothing_delays_a_turn_by_seconds_only(self, browser, session, endpoint, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            monkeypatch.setattr(celery_app.conf, "broker_url", f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
            tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
            began = time.monotonic()
            assert send(browser, session, "Hello", parent=tip).status_code == 302
            assert time.monotonic() - began < 10
        assert stored(session) == 22


# -- branches ---------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
class TestBranches:
    def test_an_edit_makes_a_sibling_with_a_reply_of_its_own(self, browser, session, endpoint):
        send(browser, session, "First wording")
        original = ChatMessage.objects.get(content="First wording")
        response = browser.post(url("edit", session, original), {"content": "Second wording"})
        reply = newest(session)
        edited = reply.parent
        assert (edited.content, edited.parent, edited.role) == ("Second wording", None, Role.USER)
        assert response.url == f"{url('branch', session, reply)}#m{reply.pk}"
        assert ChatMessage.objects.filter(content="First wording").exists()
        page = text_of(browser.get(response.url))
        assert "Second wording" in page
        assert "First wording" not in page
        assert "variant 2 of 2" in page

    def test_an_edit_keeps_name_and_attachments(self, browser, session):
        image = {"type": "image", "name": "roof.png", "url": "https://example.com/roof.png", "tokens": 50}
        original = chat.append_message(session, role=Role.USER, content="Look", name="Birk", attachments=[image])
        browser.post(url("edit", session, original), {"content": "Look again"})
        edited = ChatMessage.objects.get(content="Look again")
        assert (edited.name, edited.attachments) == ("Birk", [image])

    def test_the_box_of_an_edit_holds_the_whole_text(self, browser, session):
        long = "word " * reading.SHOWN_CHARACTERS
        message = chat.append_message(session, role=Role.USER, content=long)
        page = text_of(browser.get(url("branch", session, message), {"edit": message.pk}))
        assert long.strip() in page

    @pytest.mark.parametrize("content", ["", "a\x00b"])
    def test_an_edit_that_can_not_be_stored_comes_back(self, browser, session, content):
        message = grow(session, 1)
        grow(session, 1, parent=message)
        response = browser.post(url("edit", session, message), {"content": content})
        assert response.status_code == 422
        assert f'action="{url("edit", session, message)}"' in text_of(response)
        assert stored(session) == 2

    def test_an_edit_that_the_app_refuses_comes_back(self, browser, session, settings):
        message = grow(session, 1)
        settings.COMPACTION = {**settings.COMPACTION, "MAX_MESSAGE_BYTES": 10}
        response = browser.post(url("edit", session, message), {"content": "More than ten bytes"})
        assert response.status_code == 422
        assert "MAX_MESSAGE_BYTES allows 10." in text_of(response)

    def test_only_messages_of_the_user_can_be_edited(self, browser, session):
        reply = grow(session, 2)
        assert browser.post(url("edit", session, reply), {"content": "x"}).status_code == 404
        chat.redact_message(reply.parent)
        assert browser.post(url("edit", session, reply.parent), {"content": "x"}).status_code == 404
        page = text_of(browser.get(url("branch", session, reply)))
        assert ">Edit<" not in page
        assert "redacted" in page

    def test_regenerating_makes_a_sibling_of_the_reply(self, browser, session, endpoint):
        send(browser, session, "Hello")
        first = newest(session)
        endpoint.script([steps.reply("Another answer.")])
        browser.post(url("regenerate", session, first))
        second = newest(session)
        assert (second.content, second.parent) == ("Another answer.", first.parent)
        assert endpoint.requests[0]["messages"] == endpoint.requests[1]["messages"]
        assert [m.content for m in chat.variants(first)] == ["Ahoy from the model.", "Another answer."]

    def test_a_message_that_answers_nothing_has_no_other_answer(self, browser, session):
        greeting = chat.append_message(session, role=Role.ASSISTANT, content="Welcome!")
        response = browser.post(url("regenerate", session, greeting))
        assert "This message answers nothing" in text_of(browser.get(response.url))
        assert stored(session) == 1

    def test_the_switch_leads_to_the_variant_before_and_after(self, browser, session):
        question = grow(session, 1)
        replies = [
            chat.append_message(session, question, role=Role.ASSISTANT, content=f"Answer {n}.") for n in range(3)
        ]
        page = text_of(browser.get(url("branch", session, replies[1])))
        assert "2/3" in page
        assert f'href="{url("branch", session, replies[0])}#m{replies[0].pk}"' in page
        assert f'href="{url("branch", session, replies[2])}#m{replies[2].pk}"' in page
        assert "Answer 1." in page
        assert "Answer 0." not in page

    def test_roots_are_variants_of_each_other(self, browser, session):
        for content in ("Beginning one", "Beginning two"):
            tip = chat.append_message(session, role=Role.USER, content=content)
        chat.append_message(chat.start_session(owner=session.owner), role=Role.USER, content="Elsewhere")
        assert "2/2" in text_of(browser.get(url("branch", session, tip)))

    def test_a_message_leads_to_the_newest_tip_below_it(self, browser, session):
        fork = grow(session, 2)
        grow(session, 4, parent=fork, content="Older branch ")
        tip = grow(session, 2, parent=fork, content="Newer branch ")
        page = text_of(browser.get(url("branch", session, fork)))
        assert "Newer branch 1" in page
        assert "Older branch" not in page
        assert f'name="parent" value="{tip.pk}"' in page

    def test_a_tip_shows_its_own_branch(self, browser, session):
        fork = grow(session, 2)
        old = grow(session, 4, parent=fork, content="Older branch ")
        grow(session, 2, parent=fork, content="Newer branch ")
        page = text_of(browser.get(url("branch", session, old)))
        assert "Older branch 3" in page
        assert "Newer branch" not in page
        assert "Newer branch 1" in text_of(browser.get(url("session", session)))

    def test_a_summary_is_neither_a_variant_nor_a_tip(self, browser, session):
        tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
        chat.compact(tip)
        summary = chat.find_summary(tip)
        assert browser.get(url("branch", session, summary)).status_code == 404
        page = text_of(browser.get(url("session", session)))
        assert f'name="parent" value="{tip.pk}"' in page
        assert "variant" not in page


class TestPages:
    """A branch of any length is shown a page at a time."""

    def test_the_newest_messages_are_shown_first_and_the_earlier_ones_on_demand(self, browser, session):
        tip = grow(session, 2 * PAGE_SIZE + 10, content="Message ")
        page = text_of(browser.get(url("session", session)))
        shown = [int(n) for n in re.findall(r">Message (\d+)<", page)]
        assert shown == list(range(PAGE_SIZE + 10, 2 * PAGE_SIZE + 10))
        earlier = PAGE_SIZE + 10
        assert f"?end={earlier}#latest" in page
        page = text_of(browser.get(url("branch", session, tip), {"end": earlier}))
        shown = [int(n) for n in re.findall(r">Message (\d+)<", page)]
        assert shown == list(range(10, PAGE_SIZE + 10))
        assert "?end=10#latest" in page
        assert f"?end={2 * PAGE_SIZE + 10}#latest" in page
        page = text_of(browser.get(url("branch", session, tip), {"end": 10}))
        assert [int(n) for n in re.findall(r">Message (\d+)<", page)] == list(range(10))
        assert "Show earlier" not in page

    def test_what_is_sent_from_an_earlier_page_goes_to_the_tip(self, browser, session):
        tip = grow(session, 2 * PAGE_SIZE)
        page = text_of(browser.get(url("branch", session, tip), {"end": 5}))
        assert f'name="parent" value="{tip.pk}"' in page

    def test_a_variant_far_above_the_tip_is_on_the_page_that_it_leads_to(self, browser, session):
        root = grow(session, 2)
        grow(session, 1, parent=root, content="One way ")
        other = chat.append_message(session, root, role=Role.USER, content="Another way")
        grow(session, 3 * PAGE_SIZE, parent=other)
        page = text_of(browser.get(url("branch", session, other)))
        assert f'id="m{other.pk}"' in page
        assert "2/2" in page

    def test_an_end_beyond_the_branch_is_its_end(self, browser, session):
        tip = grow(session, 3, content="Message ")
        assert ">Message 2<" in text_of(browser.get(url("branch", session, tip), {"end": 2**62}))

    def test_a_long_text_is_cut_and_shown_whole_on_demand(self, browser, session):
        long = "word " * reading.SHOWN_CHARACTERS
        message = chat.append_message(session, role=Role.USER, content=long)
        page = text_of(browser.get(url("session", session)))
        assert f"{len(long) - reading.SHOWN_CHARACTERS} more characters" in page
        assert len(page) < len(long)
        whole = browser.get(url("text", session, message))
        assert whole["Content-Type"] == "text/plain; charset=utf-8"
        assert text_of(whole) == long


def queries_of(browser, address):
    with counted_queries() as captured:
        assert browser.get(address).status_code == 200
    return len(captured)


@pytest.mark.django_db(transaction=True)
class TestQueries:
    """The number of queries depends on nothing: not on length, forks or what was compacted."""

    #: Sign-in 2, session, tip, context 2, runs, messages, variants.
    PLAIN = 9
    #: One more for the generation in use.
    COMPACTED = 10

    @pytest.fixture(autouse=True)
    def wide_window(self, session):
        session.settings = {"CONTEXT_WINDOW": 100_000}
        session.save()

    @pytest.mark.parametrize("messages", [10, 200])
    def test_they_are_the_same_for_ten_messages_and_for_two_hundred(self, browser, session, messages):
        tip = grow(session, messages)
        assert queries_of(browser, url("session", session)) == self.PLAIN
        # The message, and the newest tip below it.
        assert queries_of(browser, url("branch", session, tip)) == self.PLAIN + 1
        root = ChatMessage.objects.get(parent=None)
        assert queries_of(browser, url("branch", session, root)) == self.PLAIN + 2

    @pytest.mark.parametrize("messages", [10, 200])
    def test_they_are_the_same_with_many_variants(self, browser, session, messages):
        tip = grow(session, messages)
        for message in list(ChatMessage.objects.order_by("-id")[:8]):
            for _ in range(3):
                chat.append_message(session, message.parent, role=message.role, content="Variant")
        assert queries_of(browser, url("branch", session, tip)) == self.PLAIN + 1

    @pytest.mark.parametrize("messages", [30, 200])
    def test_a_summary_takes_one_more_however_long_the_branch_is(self, browser, session, messages):
        tip = grow(session, messages, content="Tell me about the roof and the boat. " * 8)
        chat.compact(tip, instructions="The boat.")
        session.settings = WINDOW
        session.save()
        assert queries_of(browser, url("session", session)) == self.COMPACTED
        for _ in range(2):
            tip = grow(session, 20, parent=tip, content="And about the harbour. " * 8)
            chat.compact(tip)
        assert queries_of(browser, url("session", session)) == self.COMPACTED
        # The list, and the ids that say which of them are on this branch.
        assert queries_of(browser, url("session", session) + "?compactions") == self.COMPACTED + 2

    def test_an_empty_conversation_takes_four(self, browser, session):
        assert queries_of(browser, url("session", session)) == 4

    def test_the_page_reads_the_text_of_its_own_messages_only(self, browser, session):
        """50,000 messages must not be loaded to show forty."""
        grow(session, 200, content="Message ")
        with counted_queries() as captured:
            browser.get(url("session", session))
        (window,) = [q["sql"] for q in captured if "substr(m.content" in q["sql"]]
        assert len(list(ChatMessage.objects.raw(window.replace("%", "%%")))) == PAGE_SIZE


# -- commands ---------------------------------------------------------------------------------------------


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/compact", commands.Command("compact")),
        ("/compact  keep the names\nand dates ", commands.Command("compact", "keep the names\nand dates")),
        ("/Compactions", commands.Command("compactions")),
        ("/compakt", commands.Command("compakt")),
        (" /compact", None),
        ("/etc/passwd holds what?", None),
        ("/", None),
        ("// a comment", None),
        ("/2 of it", None),
        ("either/or", None),
    ],
)
def test_a_command_is_a_slash_and_a_word_at_the_very_beginning(text, command):
    assert commands.parse(text) == command


@pytest.mark.django_db(transaction=True)
class TestCommands:
    @pytest.fixture
    def full(self, session):
        return grow(session, 20, content="Tell me about the roof and the boat. " * 8)

    def told(self, browser, response):
        page = text_of(browser.get(response.url))
        return re.findall(r'<p class="notice [a-z]+">(.*?)</p>', page)

    def test_compact_starts_a_compaction_and_stores_no_message(self, browser, session, full, broker):
        response = send(browser, session, "/compact keep the boat's name", parent=full)
        run = CompactionRun.objects.get()
        assert (run.trigger, run.instructions, run.status) == ("manual", "keep the boat's name", RunStatus.READY)
        assert self.told(browser, response) == [
            "A compaction was started in the background; this page shows how it goes."
        ]
        assert stored(session) == 20

    def test_compact_says_that_one_is_open_already(self, browser, session, full):
        send(browser, session, "/compact", parent=full)
        told = self.told(browser, send(browser, session, "/compact", parent=full))
        assert told[-1].startswith("A compaction of this branch is open already")
        assert CompactionRun.objects.count() == 1

    def test_compact_says_that_there_is_nothing_to_compact(self, browser, session):
        nothing = "There is nothing to compact: everything older is summarized, or there is too little."
        tip = grow(session, 2)
        assert self.told(browser, send(browser, session, "/compact", parent=tip)) == [nothing]
        empty = chat.start_session(owner=session.owner)
        assert self.told(browser, send(browser, empty, "/compact")) == ["There is nothing to compact yet."]

    def test_compact_says_that_compaction_is_off(self, browser, session):
        session.settings = {"MODE": "off"}
        session.save()
        told = self.told(browser, send(browser, session, "/compact", parent=grow(session, 4)))
        assert told == ["Compaction is off for this conversation."]

    def test_compact_says_what_came_of_it_where_it_runs_inline(self, browser, session, full):
        session.settings = {**WINDOW, "MODE": "deterministic"}
        session.save()
        (told,) = self.told(browser, send(browser, session, "/compact", parent=full))
        assert re.fullmatch(r"Compacted: generation 1, [\d,]+ → [\d,]+ tokens\.", told)

    def test_instructions_that_are_too_long_come_back(self, browser, session, full):
        response = send(browser, session, "/compact " + "x" * 2001, parent=full)
        assert response.status_code == 422
        assert "instructions have 2001 characters; 2000 are allowed." in text_of(response)
        assert not CompactionRun.objects.exists()

    def test_compactions_lists_the_generations_newest_first(self, browser, session, full):
        chat.compact(full)
        tip = grow(session, 20, parent=full, content="And what about the harbour wall? " * 8)
        chat.compact(tip)
        response = send(browser, session, "/compactions", parent=tip)
        page = text_of(browser.get(response.url))
        assert re.findall(r'<th scope="row">(\d+)</th>', page) == ["2", "1"]
        for run in CompactionRun.objects.filter(generation__isnull=False):
            assert f"{run.tokens_before:,} → {run.tokens_after:,}" in page
            assert f"#{run.summary.last_summarized_message.depth}<" in page
            assert f"#{run.anchor.depth}<" in page
        assert page.count("in use here") == 1
        assert "this one, superseded" in page
        assert stored(session) == 40

    def test_compactions_tells_another_branchs_generation_and_a_retired_one(self, browser, session, full):
        run = chat.compact(full)
        elsewhere = grow(session, 2, content="Another beginning ")
        page = text_of(browser.get(url("branch", session, elsewhere), {"compactions": ""}))
        assert "<td>another</td>" in page
        chat.retire_summary(run.summary)
        page = text_of(browser.get(url("branch", session, full), {"compactions": ""}))
        assert "<td>retired</td>" in page

    def test_compactions_says_that_there_are_none(self, browser, session):
        response = send(browser, session, "/compactions")
        assert "No part of this conversation has been summarized yet." in text_of(browser.get(response.url))

    def test_an_unknown_command_is_explained_and_not_stored(self, browser, session):
        response = send(browser, session, "/compakt <b>now</b>", parent=grow(session, 2))
        assert response.status_code == 422
        page = text_of(response)
        assert "There is no command /compakt. Known are /compact" in page
        assert "/compakt &lt;b&gt;now&lt;/b&gt;</textarea>" in page
        assert stored(session) == 2

    def test_a_space_before_the_slash_makes_it_a_message(self, browser, session):
        send(browser, session, " /compakt is a slip")
        assert ChatMessage.objects.filter(content=" /compakt is a slip").exists()


# -- what the page tells ----------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
class TestState:
    @pytest.fixture
    def full(self, session):
        return grow(session, 20, content="Tell me about the roof and the boat. " * 8)

    def test_the_cutoff_is_marked_with_the_summary_and_its_figures(self, browser, session, full):
        run = chat.compact(full)
        page = text_of(browser.get(url("session", session)))
        figures = f"{run.tokens_before:,} → {run.tokens_after:,} tokens"
        assert f'generation 1: <span class="nowrap">{figures}</span>' in page
        assert run.summary.content.splitlines()[-1][:40] in page
        cutoff = run.summary.last_summarized_message
        after = ChatMessage.objects.messages().get(parent=cutoff)
        assert page.index(f'id="m{cutoff.pk}"') < page.index('id="cutoff"') < page.index(f'id="m{after.pk}"')
        covered = len(re.findall(r'class="message \w+ covered"', page))
        assert covered == cutoff.depth

    def test_the_figures_are_those_of_the_context(self, browser, session, full):
        chat.compact(full)
        context = chat.get_context(full)
        page = text_of(browser.get(url("session", session)))
        used, available, threshold = context.history_tokens, context.available_tokens, context.threshold
        assert f"{used:,} of {available:,} tokens used; compacted above {threshold:,}" in page
        for figure in (context.window, context.reserved_tokens, context.target, context.tokens):
            assert f"<dd>{figure:,}</dd>" in page

    def test_the_pinned_message_is_marked(self, browser, session):
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        work = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "name": "look", "content": "The roof leaks. " * 30},
        ]
        asked = {"role": "user", "content": "Mend the roof"}
        tip = chat.append_messages(session, None, [asked, *(work * 15)])[-1]
        chat.compact(tip)
        page = text_of(browser.get(url("session", session)))
        assert chat.get_context(tip).pinned_id == ChatMessage.objects.get(parent=None).pk
        assert page.count(">pinned</span>") == 1
        assert "Message 1 is pinned." in page

    def test_an_open_compaction_is_shown_until_it_is_over(self, browser, session, full):
        run = chat.request_compaction(full, trigger="manual")
        panel = url("panel", session, full)
        assert "A compaction is open on this branch: waiting for a worker." in text_of(browser.get(panel))
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING)
        assert "A compaction is open on this branch: being written." in text_of(browser.get(panel))
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.READY, error_code=ErrorCode.TIMEOUT)
        assert "to be tried again because the summarizer took too long" in text_of(browser.get(panel))
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.FAILED, error_code=ErrorCode.QUOTA)
        page = text_of(browser.get(panel))
        assert "is open" not in page
        assert "The last compaction failed because the provider&#x27;s quota is used up." in page

    def test_what_happens_on_another_branch_is_not_shown(self, browser, session, full):
        chat.request_compaction(full, trigger="manual")
        elsewhere = grow(session, 2, content="Another beginning ")
        assert "is open" not in text_of(browser.get(url("branch", session, elsewhere)))

    def test_a_failure_is_forgotten_once_a_summary_stands(self, browser, session, full):
        run = chat.request_compaction(full, trigger="manual")
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.FAILED, error_code=ErrorCode.QUOTA)
        chat.compact(full)
        assert "failed" not in text_of(browser.get(url("panel", session, full)))

    def test_the_fallback_is_shown_and_where_it_begins(self, browser, session, full):
        full = grow(session, 10, parent=full, content="Tell me about the roof and the boat. " * 8)
        context = chat.get_context(full)
        assert context.strategy == Strategy.TRUNCATED
        page = text_of(browser.get(url("session", session)))
        assert f"Fallback in use: the oldest {context.dropped} messages are left out" in page
        assert f"Left out above: {context.dropped} messages" in page
        assert len(re.findall(r'class="message \w+ left-out"', page)) == context.dropped

    def test_a_summary_in_use_where_the_cutoff_is_on_an_earlier_page(self, browser, session, full):
        chat.compact(full)
        session.settings = {"CONTEXT_WINDOW": 100_000}
        session.save()
        tip = grow(session, 2 * PAGE_SIZE, parent=full)
        cutoff = chat.find_summary(tip).last_summarized_message
        page = text_of(browser.get(url("session", session)))
        assert 'id="cutoff"' not in page
        address = f"{url('branch', session, tip)}?end={cutoff.depth + PAGE_SIZE // 2}"
        assert f'href="{address}#cutoff"' in page
        assert 'id="cutoff"' in text_of(browser.get(address))


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
        assert "Replies come from the <strong>offline assistant</strong>" in page
        assert '<span class="speaker" dir="auto">Offline assistant</span>' in page

    def test_it_finds_a_fact_that_stands_in_the_summary_only(self, browser, session):
        """So that one sees without a key what a summary has kept."""
        fact = {"role": "user", "content": "Decision: the boat is called Alma Svartnakken."}
        tip = chat.append_messages(session, None, [fact, {"role": "assistant", "content": "Noted."}])[-1]
        tip = grow(session, 20, parent=tip, content="And tell me about the leaking roof. " * 8)
        chat.compact(tip)
        shown = [m for m in chat.get_context(tip).messages if "Alma" in m.content]
        assert [m.origin for m in shown] == ["summary"]
        send(browser, session, "What is the boat called?", parent=tip)
        content = newest(session).content
        assert "Alma Svartnakken" in content
        assert "— the summary" in content

    def test_its_replies_are_compacted_like_any_other(self, browser, session):
        tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
        send(browser, session, "What about the roof?", parent=tip)
        assert CompactionRun.objects.get().tip == newest(session)


# -- the page itself --------------------------------------------------------------------------------------

MARKUP = '<script>alert("x")</script><img src=x onerror=alert(1)>&amp;{{ 7|add:7 }}'


class TestEscaping:
    """What people, models and tools wrote is text, wherever it stands."""

    def test_markup_is_shown_as_text_wherever_it_stands(self, browser, marit):
        session = chat.start_session(owner=marit, title=MARKUP)
        call = {"id": "c", "type": "function", "function": {"name": MARKUP, "arguments": ""}}
        file = {"type": "file", "name": MARKUP}
        chain = [
            {"role": "user", "content": MARKUP, "name": MARKUP, "attachments": [file]},
            {"role": "assistant", "content": MARKUP, "tool_calls": [call], "model": MARKUP},
            {"role": "tool", "tool_call_id": "c", "content": MARKUP, "name": MARKUP},
        ]
        tip = chat.append_messages(session, None, chain)[-1]
        root = ChatMessage.objects.get(parent=None)
        for address in (
            url("session", session),
            url("panel", session, tip),
            url("branch", session, tip) + f"?edit={root.pk}",
            reverse("chat:sessions"),
        ):
            page = text_of(browser.get(address))
            assert "<script>alert" not in page
            assert "<img" not in page
            assert "14" not in re.findall(r"&amp;amp;(.{0,4})", page)
        page = text_of(browser.get(url("session", session)))
        assert page.count("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;") >= 9

    @pytest.mark.django_db(transaction=True)
    def test_markup_in_a_summary_is_shown_as_text(self, browser, session):
        tip = grow(session, 20, content=f"Decision: the sign says {MARKUP} and nothing else. " * 4)
        run = chat.compact(tip)
        assert "<script>" in run.summary.content
        for address in (url("session", session), url("session", session) + "?compactions"):
            page = text_of(browser.get(address))
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert" in page.partition('id="cutoff"')[2].partition("</details>")[0]

    def test_a_refused_message_comes_back_escaped(self, browser, session):
        page = text_of(send(browser, session, MARKUP + "\x00"))
        assert "<script>alert" not in page

    def test_the_whole_text_of_a_message_is_no_html(self, browser, session):
        message = chat.append_message(session, role=Role.USER, content=MARKUP)
        whole = browser.get(url("text", session, message))
        assert whole["Content-Type"].startswith("text/plain")
        assert whole["X-Content-Type-Options"] == "nosniff"

    def test_the_pages_work_under_a_strict_content_security_policy(self, browser, session):
        """No script or style stands in the page: a text that got through the escaping could still do nothing."""
        grow(session, 3)
        for address in (reverse("chat:sessions"), url("session", session)):
            response = browser.get(address)
            page = text_of(response)
            assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert "no-store" in response["Cache-Control"]
            assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
            assert re.findall(r"<script[^>]*>", page) == ['<script src="/static/chat/chat.js" defer>']
            assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)


class TestText:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize(
        "content",
        [
            "שלום, איפה המגדלור?",
            "مرحبا، أين المنارة؟",
            "灯台はどこですか",
            "👩‍👩‍👧‍👦 🇳🇴 e\u0301 ﷽ \u202egnp.exe",
            "x" * 5000,
        ],
        ids=["hebrew", "arabic", "japanese", "joined", "one-long-word"],
    )
    def test_any_text_is_stored_and_shown_as_it_is_in_its_own_direction(self, browser, session, content):
        send(browser, session, content)
        assert newest(session).parent.content == content
        assert f'dir="auto">{content}</div>' in text_of(browser.get(url("session", session)))

    def test_the_page_has_its_landmarks_and_labels(self, browser, session):
        """A screen reader needs them, and so does whoever uses the keyboard."""
        tip = grow(session, 3)
        page = text_of(browser.get(url("branch", session, tip)))
        assert '<html lang="en">' in page
        assert len(re.findall(r"<main[ >]", page)) == len(re.findall(r"<h1[ >]", page)) == 1
        assert re.search(r'class="skip" href="#(?:message-content)"', page)
        assert '<label class="hidden" for="message-content">Your message</label>' in page
        assert 'id="message-content"' in page
        assert 'role="status" aria-live="polite"' in page
        assert page.count("<article") == 3
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        for name in re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', page):
            assert set(name.split()) <= set(ids)


@pytest.mark.pure
class TestWords:
    def test_every_code_has_its_words(self):
        assert set(words.STRATEGIES) == set(Strategy)
        assert set(words.RUN_STATUSES) == set(RunStatus)
        assert set(words.COMPACTION_ERRORS) == set(ErrorCode)

    def test_every_failure_of_a_reply_has_its_words(self):
        drafts_only = {c for c in ErrorCode if list(ErrorCode).index(c) >= list(ErrorCode).index(ErrorCode.EMPTY)}
        assert set(words.REPLY_ERRORS) == set(ErrorCode) - drafts_only


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
