"""The guide, the quickstart and the README: every example runs, in order, with a real server."""

import contextlib
import io
import itertools
import re
import sys
import unittest
from types import ModuleType
from typing import Any

import openai
import pytest
from celery import current_app
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import include, path

from compaction_app import chat, tasks
from compaction_app.conf import find_problems
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.conftest import REPOSITORY

GUIDE = REPOSITORY / "docs" / "guide.md"
QUICKSTART = REPOSITORY / "docs" / "quickstart.md"
#: The files of the quickstart, and a line that only this one has.
FILES = {
    "settings": "INSTALLED_APPS += ",
    "rooms": "def long_chat",
    "first": "chat.compact(",
    "second": "chat.request_compaction(",
    "third": "chat.complete(",
    "model": "SUMMARIZERS",
}
README = REPOSITORY / "README.md"

pytestmark = pytest.mark.django_db(transaction=True)


def examples(page: Any) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def urls_of_the_readme() -> Any:
    known: dict[str, Any] = {"__name__": "mysite.views"}
    view, routes = (text for text in examples(README) if "post_message" in text)
    exec(view, known)
    exec(routes, known)
    return type("urls", (), {"urlpatterns": [*known["urlpatterns"], path("", include("project.urls"))]})


def test_every_example_of_the_guide_runs(monkeypatch, settings):
    settings.ROOT_URLCONF = urls_of_the_readme()
    # Celery has read its settings: this is what it makes of the guide's CELERY_BROKER_URL.
    monkeypatch.setattr(current_app.conf, "broker_url", "memory://")
    century = "A slate roof lasts 100 years if its battens were replaced in 1987, and costs 240 euros a square metre. "
    answers = [steps.reply(century * 3), steps.reply("Forty years."), steps.reply("24,000 euros.")]
    answers += [steps.tool_call("weather", "{}"), steps.reply("No rain.")]
    with ScriptedOpenAIServer(answers, default=steps.reply("Moss, I think.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        known: dict[str, Any] = {
            "user": get_user_model().objects.create_user("marit"),
            "my_client": openai.OpenAI(),
            "run_tool": lambda name, arguments: {"rain": False},
        }
        for example in examples(GUIDE):
            exec(example, known)
        assert "".join(known["stream_reply"](chat.append_message(known["session"], role="user", content="x"))) == (
            "Moss, I think."
        )
    assert known["session"].title == "Roof repair"
    settings.ALLOWED_HOSTS = ["testserver"]
    load = unittest.TestLoader().loadTestsFromTestCase
    result = unittest.TextTestRunner().run(unittest.TestSuite(map(load, (known["LongChats"], known["ChatView"]))))
    assert result.wasSuccessful()
    assert result.testsRun == 2
    assert ChatMessage.objects.filter(role="tool", session=known["session"]).count() == 1


def test_the_quickstart_prints_what_it_says(settings, monkeypatch):
    """Its files, with its settings and without a worker; the commands around them were tried by hand."""
    text = QUICKSTART.read_text()
    files = {name: code for code in examples(QUICKSTART) for name in FILES if FILES[name] in code}
    assert files.keys() == FILES.keys()
    site: dict[str, Any] = {"INSTALLED_APPS": [], "DATABASES": {"default": {}}}
    exec(files["settings"], site)
    settings.COMPACTION = site["COMPACTION"]
    assert site["CELERY_BEAT_SCHEDULE"]["recover-compactions"]["task"] in current_app.tasks
    rooms = ModuleType("rooms")
    exec(files["rooms"], vars(rooms))
    monkeypatch.setitem(sys.modules, "rooms", rooms)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(files["first"], {})
    assert f"$ python manage.py shell -v 0 < first.py\n{printed.getvalue()}```" in text
    monkeypatch.setattr(tasks, "enqueue", lambda run: tasks.compact_branch(run.pk))
    with contextlib.redirect_stdout(printed):
        exec(files["second"], {})
    assert printed.getvalue().endswith("The run has succeeded\n")
    monkeypatch.setattr(tasks, "enqueue", lambda run: False)
    monkeypatch.setattr("time.monotonic", itertools.count(step=30).__next__)
    with contextlib.redirect_stdout(printed):
        exec(files["second"], {})
    assert printed.getvalue().endswith("No worker has taken the run: is the broker running?\n")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "rooms", rooms)
    assert find_problems(site["COMPACTION"]) == []
    exec(files["model"], site)
    assert find_problems(site["COMPACTION"]) == []
    del settings.COMPACTION
    with ScriptedOpenAIServer([steps.reply("Room 1.")]) as server, contextlib.redirect_stdout(printed):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        exec(files["third"], {})
    assert printed.getvalue().endswith("Room 1.\n")


class TestTheChatView:
    @pytest.fixture
    def urls(self, settings):
        settings.ROOT_URLCONF = urls_of_the_readme()
        settings.ALLOWED_HOSTS = ["testserver"]

    @pytest.fixture
    def client(self):
        client = Client()
        client.force_login(get_user_model().objects.create_user("marit"))
        return client

    @pytest.fixture
    def server(self, monkeypatch):
        with ScriptedOpenAIServer(default=steps.reply("Aye.")) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            yield server

    def test_it_starts_a_conversation_and_goes_on_with_it(self, urls, client, server):
        server.script([steps.reply("Aye."), steps.reply("Aye, aye.")])
        first = client.post("/chat/", {"content": "Ready?"})
        assert first.status_code == 200, first.content
        where = first.json()
        again = client.post(f"/chat/{where['session']}/{where['id']}/", {"content": "Sure?"}).json()
        branch = chat.get_branch(ChatMessage.objects.get(pk=again["id"]))
        assert [message.content for message in branch] == ["Ready?", "Aye.", "Sure?", "Aye, aye."]

    def test_after_an_error_the_question_can_be_asked_again(self, urls, client, server, monkeypatch):
        server.script([steps.rate_limited()] * 3)
        monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
        failed = client.post("/chat/", {"content": "Ready?"})
        assert failed.status_code == 502
        where = failed.json()
        assert ChatMessage.objects.get(pk=where["question"]).content == "Ready?"
        again = client.post(f"/chat/{where['session']}/{where['question']}/")
        assert again.json()["content"] == "Aye."
        assert ChatMessage.objects.count() == 2

    def test_text_for_a_question_is_an_edit_even_of_the_first_one(self, urls, client, server):
        first = client.post("/chat/", {"content": "Ready?"}).json()
        question = ChatMessage.objects.get(content="Ready?")
        assert first["question"] == question.pk
        unstored = client.post(f"/chat/{first['session']}/{question.pk}/", {"content": "\x00"})
        assert "question" not in unstored.json(), "it would be asked again with its old text"
        edited = client.post(f"/chat/{first['session']}/{question.pk}/", {"content": "All ready?"}).json()
        assert server.requests[-1]["messages"] == [{"role": "user", "content": "All ready?"}]
        assert edited["session"] == first["session"]
        assert [message.content for message in chat.variants(question)] == ["Ready?", "All ready?"]

    @pytest.mark.parametrize(
        ("content", "status", "code"), [(" \n ", 400, "empty"), ("\x00", 422, "invalid_message")], ids=["empty", "NUL"]
    )
    def test_what_says_nothing_or_cannot_be_stored_leaves_no_session(self, urls, client, content, status, code):
        refused = client.post("/chat/", {"content": content})
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert not ChatSession.objects.exists()

    def test_a_question_that_is_too_long_can_be_shortened(self, urls, client, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 2_000}
        refused = client.post("/chat/", {"content": "Ready? " * 3_000})
        assert (refused.status_code, refused.json()["code"]) == (422, "context_overflow")
        where = refused.json()
        shorter = client.post(f"/chat/{where['session']}/{where['question']}/", {"content": "Ready?"})
        assert len(server.requests) == 1
        assert shorter.json()["content"] == "Aye."

    def test_nobody_writes_into_what_is_not_theirs(self, urls, client):
        other = chat.start_session(owner=get_user_model().objects.create_user("other"))
        theirs = chat.append_message(other, role="user", content="Mine.")
        assert client.post(f"/chat/{other.pk}/{theirs.pk}/", {"content": "Hello"}).status_code == 404
        assert ChatMessage.objects.count() == 1
