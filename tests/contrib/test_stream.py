"""The stream for pages, over HTTP: live servers of both kinds, and a scripted model."""

from __future__ import annotations

import json
import os
import re
import sys

import httpx2
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

from compaction_app import chat
from compaction_app.testing import steps
from tests.conftest import REPOSITORY, CeleryWorker, live_database_url

pytestmark = pytest.mark.django_db(transaction=True)


class Page:
    """A browser's tab: a client that is signed in, and the list of messages that it shows."""

    def __init__(self, url, user, session):
        signed_in = Client()
        signed_in.force_login(user)
        cookies = {
            settings.SESSION_COOKIE_NAME: signed_in.cookies[settings.SESSION_COOKIE_NAME].value,
            "csrftoken": "x" * 32,
        }
        headers = {"X-CSRFToken": "x" * 32, "Origin": url}
        self.http = httpx2.Client(
            base_url=f"{url}/api/v1/sessions/{session.pk}/", cookies=cookies, headers=headers, timeout=20
        )
        self.messages = []

    def send(self, text, key, **body):
        self.messages.append({"id": key, "role": "user", "parts": [{"type": "text", "text": text}]})
        return self.ask(**body)

    def ask(self, **body):
        with self.http.stream(
            "POST", "stream", json={"trigger": "submit-message", "messages": self.messages, **body}
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                return answer
            assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
            return list(events(answer))

    def show(self, seen):
        """Add what was streamed, as the SDK does."""
        told = [one["messageMetadata"] for one in seen if one["type"] == "finish"]
        self.messages.append(
            {"id": seen[0]["messageId"], "role": "assistant", "parts": [], "metadata": told[-1] if told else None}
        )
        return told[-1]


def events(answer):
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield {"type": "done"} if line == "data: [DONE]" else json.loads(line.removeprefix("data: "))


def text_of(seen):
    return "".join(one.get("delta", "") for one in seen if one["type"] == "text-delta")


@pytest.fixture
def owner():
    return get_user_model().objects.create_user("ann")


@pytest.fixture
def session(owner):
    return chat.start_session(owner=owner)


@pytest.fixture
def serve(server, tmp_path, request):
    started = []

    def start(kind, cache=""):
        environment = os.environ | {
            "DATABASE_URL": live_database_url(),
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
        }
        environment |= {"STREAM_CACHE": cache, "PYTHONUNBUFFERED": "1"}
        environment.pop("TEST_SQLITE_FILE", None)
        command = [sys.executable, "-m", "tests.contrib.stream_site", kind]
        process = CeleryWorker(command, log=tmp_path / f"{len(started)}.log", cwd=REPOSITORY, env=environment)
        started.append(process)
        process.wait_until(lambda: "unning on" in process.said or not process.is_running())
        found = re.search(r"unning on (http://\S+)", process.said)
        assert found, process.said
        return found[1]

    yield start
    for process in started:
        process.stop()
        if request.session.testsfailed:
            print(process.said)


@pytest.fixture(params=["asgi", "wsgi"])
def page(request, serve, owner, session):
    return Page(serve(request.param), owner, session)


def texts(session):
    return [[one.content for one in chat.get_branch(tip)] for tip in chat.tips(session)]


def test_submit_edit_and_regenerate(page, server, session):
    replies = ("Hi there.", "Two.", "Three.", "Four.", "Five.", "Six.")
    server.script(steps.reply(one) for one in replies)
    seen = page.send("Hello", "u1")
    assert text_of(seen) == "Hi there."
    told = page.show(seen)
    assert told["id"] == str(chat.tips(session)[0].pk)
    page.show(page.send("Again", "u2"))
    assert texts(session) == [["Hello", "Hi there.", "Again", "Two."]]
    # regenerate, as useChat does: without the reply.
    page.messages.pop()
    page.show(page.ask(trigger="regenerate-message", messageId="whatever the page calls it"))
    assert texts(session) == [["Hello", "Hi there.", "Again", "Two."], ["Hello", "Hi there.", "Again", "Three."]]
    # edit in useChat: the same id.
    page.messages = page.messages[:2]
    page.show(page.send("Once more", "u2", messageId="u2"))
    assert texts(session)[2] == ["Hello", "Hi there.", "Once more", "Four."]
    page.messages.pop()
    page.show(page.ask(trigger="regenerate-message"))
    assert texts(session)[3] == ["Hello", "Hi there.", "Once more", "Five."]
    # edit in assistant-ui: a new message after the same parent.
    page.messages = []
    page.show(page.send("Good evening", "u3"))
    assert texts(session)[4] == ["Good evening", "Six."]
    loaded = page.http.get("repository").json()
    assert loaded["headId"] == str(chat.tips(session)[4].pk)
    print(json.dumps(loaded, indent=1))
