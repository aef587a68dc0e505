"""Live servers of a host that streams to pages, and tabs of a browser that read them over HTTP."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.test import Client

from tests.conftest import REPOSITORY, WORKERS, CeleryWorker, live_database_url

Event = dict[str, Any]


@pytest.fixture
def serve(server: Any, tmp_path: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Start a process: ``serve("asgi", STREAM_CACHE=folder)`` returns its address."""
    stack = ExitStack()
    started = request.node.stash[WORKERS] = []

    def start(kind: str, **more: str) -> str:
        environment = {name: text for name, text in os.environ.items() if name != "TEST_SQLITE_FILE"}
        environment |= {"DATABASE_URL": live_database_url(), "PYTHONUNBUFFERED": "1", **more}
        environment |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "tests.contrib.stream_site", kind]
        process = CeleryWorker(command, log=tmp_path / f"server-{len(started)}.log", cwd=REPOSITORY, env=environment)
        stack.callback(process.stop)
        started.append(process)
        process.wait_until(lambda: re.search(r"unning on \S+ ", process.said) or not process.is_running(), 60)
        found = re.search(r"unning on (\S+) ", process.said)
        assert found, process.said
        return found[1]

    with stack:
        yield start


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
