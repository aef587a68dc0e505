"""Live servers of a host that streams to pages, and tabs of a browser that read them over HTTP."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.test import Client

from compaction_app import chat
from compaction_app.models import ChatSession, ReplyClaim
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.conftest import REPOSITORY, WORKERS, CeleryWorker, live_database_url

Event = dict[str, Any]
ADDRESS = re.compile(r"unning on (\S+) ")


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedOpenAIServer]:
    with ScriptedOpenAIServer(default=steps.reply("Aye.")) as running:
        yield running


@pytest.fixture(name="server")
def reset_provider(provider: ScriptedOpenAIServer) -> ScriptedOpenAIServer:
    provider.reset()
    return provider


@pytest.fixture(scope="module")
def processes(
    provider: ScriptedOpenAIServer, tmp_path_factory: pytest.TempPathFactory, django_db_setup: None
) -> Iterator[Callable[[str], CeleryWorker]]:
    """The live server of a kind, started when it is first asked for. They share a cache."""
    folder = tmp_path_factory.mktemp("servers")

    @cache
    def started(kind: str) -> CeleryWorker:
        environment = {name: text for name, text in os.environ.items() if name != "TEST_SQLITE_FILE"}
        environment |= {"DATABASE_URL": live_database_url(), "STREAM_CACHE": str(folder), "PYTHONUNBUFFERED": "1"}
        environment |= {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "tests.contrib.stream_site", kind]
        process = CeleryWorker(command, log=folder / f"{kind}.log", cwd=REPOSITORY, env=environment)
        stack.callback(process.stop)
        process.wait_until(lambda: ADDRESS.search(process.said) or not process.is_running(), 60)
        return process

    with ExitStack() as stack:
        yield started


@pytest.fixture(name="serve")
def addresses(
    processes: Callable[[str], CeleryWorker], transactional_db: None, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], str]]:
    """``serve("asgi")`` returns the address of that server."""
    used = request.node.stash[WORKERS] = []

    def serve(kind: str) -> str:
        used.append(process := processes(kind))
        found = ADDRESS.search(process.said)
        assert found, process.said
        return found[1]

    yield serve
    # A reply that goes on would be written among the rows of the next test.
    soon(lambda: not ReplyClaim.objects.exists())


def branches(session: ChatSession) -> list[list[str]]:
    return [[one.content for one in chat.get_branch(tip)] for tip in chat.tips(session)]


def soon(found: Callable[[], Any]) -> Any:
    until_when = time.monotonic() + 30
    while not (answer := found()):
        assert time.monotonic() < until_when
        time.sleep(0.05)
    return answer


class Page:
    """A tab with its list of messages, as ``useChat`` keeps and sends it."""

    def __init__(self, url: str, user: Any, session: Any) -> None:
        signed_in = Client()
        signed_in.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        cookies = {name: signed_in.cookies[name].value, "csrftoken": "x" * 32}
        address = f"{url}/api/v1/sessions/{session.pk}/"
        self.http = httpx2.Client(base_url=address, cookies=cookies, headers={"X-CSRFToken": "x" * 32}, timeout=30)
        self.messages: list[dict[str, Any]] = []

    def send(self, text: str, key: str, **body: Any) -> list[Event]:
        self.messages.append({"id": key, "role": "user", "parts": [{"type": "text", "text": text}]})
        return self.ask(**body)

    def ask(self, **body: Any) -> list[Event]:
        with self.asked(**body) as events:
            return self.shown(list(events))

    @contextmanager
    def asked(self, **body: Any) -> Iterator[Iterator[Event]]:
        given = {"id": "chat", "trigger": "submit-message", "messages": self.messages, **body}
        with self.http.stream("POST", "stream", json=given) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
            yield events_of(answer)

    def shown(self, events: list[Event]) -> list[Event]:
        """What the SDK does: the message in the list gets the metadata of the stream's end."""
        told = [event["messageMetadata"] for event in events if event["type"] == "finish"]
        kept = {"id": events[0]["messageId"], "role": "assistant", "parts": [], "metadata": told[0] if told else None}
        self.messages = [one for one in self.messages if one["id"] != kept["id"]] + [kept]
        return events

    def problem(self, **body: Any) -> tuple[int, dict[str, Any]]:
        answer = self.http.post("stream", json={"messages": self.messages, **body})
        return answer.status_code, answer.json()

    @contextmanager
    def coming_back(self) -> Iterator[Iterator[Event]]:
        with self.http.stream("GET", "stream") as answer:
            assert answer.status_code == 200
            yield events_of(answer)


def events_of(answer: Any) -> Iterator[Event]:
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def text_of(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "text-delta")


def until(events: Iterator[Event], text: str) -> list[Event]:
    """Read until that much of the reply has come."""
    seen = []
    for event in events:
        seen.append(event)
        if text in text_of(seen):
            return seen
    raise AssertionError(f"{text!r} never came: {seen}")
