"""Samples that store several things: the database fails at any write, they run again, and have the rows of one run."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import AsyncClient, Client
from django.urls import path

from compaction_app import chat
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.conftest import REPOSITORY
from tests.contrib.drivers import calls
from tests.databases import failing
from tests.docs.test_adopting import COPY, conversation

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = re.compile(r'\s*INSERT INTO "?compaction_app_(chatsession|chatmessage|replyclaim)\b')
Run = Callable[[], object]


def sample(page: str, text: str) -> str:
    [found] = [
        one for one in re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.DOTALL) if text in one
    ]
    return found


@contextmanager
def failing_at(number: int) -> Iterator[list[str]]:
    """The database is away for one write, which the list has then."""
    failed: list[str] = []
    count = itertools.count(1)

    def fails(statement: str) -> bool:
        if WRITE.match(statement) and next(count) == number:
            failed.append(statement)
            return True
        return False

    with failing(fails):
        yield failed


def rows() -> list[Any]:
    def told(session: ChatSession) -> list[Any]:
        branches = [
            [(one.role, one.content, one.tool_call_id, bool(one.tool_calls)) for one in chat.get_branch(tip)]
            for tip in chat.tips(session)
        ]
        return [session.title, session.system_prompt, session.model, session.external_id, branches]

    return sorted(told(session) for session in ChatSession.objects.all())


def answer(exchange: Exchange) -> None:
    """By what is asked, however often."""
    asked = exchange.body["messages"][-1]
    wants = asked["role"] == "user" and "tools" in exchange.body
    (calls(("c1", "weather", {}), ("c2", "weather", {"town": "Bergen"})) if wants else steps.reply("Dry."))(exchange)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedOpenAIServer]:
    with ScriptedOpenAIServer(default=answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.fixture
def user():
    return get_user_model().objects.create_user("marit")


def again(run: Callable[[], Any]) -> Any:
    """What it returns in the end. A claim that could not be deleted is, a second later."""
    until = time.monotonic() + 20
    while True:
        with suppress(OperationalError, CompactionError):
            if value := run():
                return value
        assert time.monotonic() < until
        time.sleep(0.1)


def readme(user: Any, settings: Any) -> Run:
    known: dict[str, Any] = {"__name__": "mysite.views"}
    exec(sample("README.md", "def post_message(request, session_id"), known)
    routes = [
        path("chat/", known["post_message"]),
        path("chat/<uuid:session_id>/<int:parent_id>/", known["post_message"]),
    ]
    settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": routes})
    client = Client(raise_request_exception=False)
    client.force_login(user)

    def run() -> None:
        at, data = "/chat/", {"content": "Rain?"}

        def ask() -> bool:
            nonlocal at, data
            said = client.post(at, data)
            if said.status_code != 200 and "question" in (told := said.json()):
                at, data = f"/chat/{told['session']}/{told['question']}/", {}
            return said.status_code == 200

        again(ask)

    return run


def adopting(user: Any, settings: Any) -> Run:
    known: dict[str, Any] = {}
    exec(COPY, known)
    known["BATCH"] = 3
    return lambda: again(lambda: known["adopt"](user, {"id": 7, "title": "Roof"}, conversation()))


def tools_of_the_guide(user: Any, settings: Any) -> Run:
    """The loop, from the stored question on."""
    setting, _, asking = sample("docs/guide.md", "while tip.role").partition("question = ")
    loop = asking.partition("\n")[2]

    def run() -> None:
        session = again(lambda: chat.start_session(model="m"))
        question = again(lambda: chat.append_message(session, role="user", content="Rain?"))
        known = {"chat": chat, "question": question, "session": session, "run_tool": lambda *_: "wet"}
        exec(setting, known)
        again(lambda: exec(loop, known) or known["reply"])

    return run


def recipe(user: Any, settings: Any) -> Run:
    """The view of docs/recipes.md: its last event is the reply, or that it has to be asked again."""
    known: dict[str, Any] = {"__name__": "mysite.views"}
    exec(sample("docs/recipes.md", "async def say"), known)

    async def run_tool(*_: Any) -> str:
        return "wet"

    known["run_tool"] = run_tool
    settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": [path("say/<uuid:session_id>/", known["say"])]})

    async def post(session: ChatSession) -> bool:
        client = AsyncClient(raise_request_exception=False)
        await client.aforce_login(user)
        body = {"content": "Rain?", "key": "k"}
        said = await client.post(f"/say/{session.pk}/", body, content_type="application/json")
        if not said.streaming:
            return False
        events = [json.loads(part.decode().removeprefix("data: ")) async for part in said.streaming_content]
        assert {*events[-1]} & {"reply", "error"}
        return "reply" in events[-1]

    def run() -> None:
        session = again(lambda: chat.start_session(owner=user, model="m"))
        again(lambda: asyncio.run(post(session)))

    return run


def quickstart(user: Any, settings: Any) -> Run:
    known: dict[str, Any] = {}
    exec(sample("docs/quickstart.md", "def long_chat"), known)
    return lambda: again(known["long_chat"])


@pytest.mark.parametrize(
    "made",
    [
        readme,
        quickstart,
        *(pytest.param(one, marks=pytest.mark.long) for one in (adopting, tools_of_the_guide, recipe)),
    ],
    ids=lambda one: one.__name__,
)
def test_a_sample_that_broke_at_any_write_and_runs_again_has_the_rows_of_one_run(made, user, settings):
    settings.ALLOWED_HOSTS = ["testserver"]
    run = made(user, settings)
    run()
    clean = rows()
    assert clean
    for number in itertools.count(1):
        ChatSession.objects.all().delete()
        with failing_at(number) as failed:
            run()
        if not failed:
            break
        assert rows() == clean, (number, failed)
    assert number > 2
