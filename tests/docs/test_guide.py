"""docs/guide.md and the README: every example runs, in order, against a real server."""

import re
import unittest
from typing import Any

import openai
import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import include, path

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.conftest import REPOSITORY

GUIDE = REPOSITORY / "docs" / "guide.md"
README = REPOSITORY / "README.md"

pytestmark = pytest.mark.django_db(transaction=True)


def examples(page: Any) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_every_example_of_the_guide_runs(monkeypatch):
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
    suite = unittest.TestLoader().loadTestsFromTestCase(known["LongChats"])
    assert unittest.TextTestRunner().run(suite).wasSuccessful()
    assert ChatMessage.objects.filter(role="tool").count() == 1
    assert [message.external_id for message in chat.get_branch(known["last"])] == ["m-1", "m-2"]


class TestTheChatView:
    @pytest.fixture
    def urls(self, settings, monkeypatch):
        known: dict[str, Any] = {"__name__": "mysite.views"}
        view, routes = (text for text in examples(README) if "post_message" in text)
        exec(view, known)
        exec(routes, known)
        module = type("urls", (), {"urlpatterns": [*known["urlpatterns"], path("", include("project.urls"))]})
        settings.ROOT_URLCONF = module
        settings.ALLOWED_HOSTS = ["testserver"]
        return module

    @pytest.fixture
    def client(self):
        client = Client()
        client.force_login(get_user_model().objects.create_user("marit"))
        return client

    def test_it_starts_a_conversation_and_goes_on_with_it(self, urls, client, monkeypatch):
        with ScriptedOpenAIServer([steps.reply("Aye."), steps.reply("Aye, aye.")]) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            first = client.post("/chat/", {"content": "Ready?"})
            assert first.status_code == 200, first.content
            where = first.json()
            again = client.post(f"/chat/{where['session']}/{where['id']}/", {"content": "Sure?"})
        assert again.json()["content"] == "Aye, aye."
        assert [message.content for message in chat.get_branch(ChatMessage.objects.get(pk=again.json()["id"]))] == [
            "Ready?",
            "Aye.",
            "Sure?",
            "Aye, aye.",
        ]

    def test_after_an_error_the_question_can_be_asked_again(self, urls, client, monkeypatch):
        with ScriptedOpenAIServer([steps.rate_limited()] * 3, default=steps.reply("Aye.")) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
            failed = client.post("/chat/", {"content": "Ready?"})
            assert failed.status_code == 502
            where = failed.json()
            assert ChatMessage.objects.get(pk=where["question"]).content == "Ready?"
            again = client.post(f"/chat/{where['session']}/{where['question']}/")
        assert again.json()["content"] == "Aye."
        assert ChatMessage.objects.count() == 2

    def test_what_cannot_be_stored_is_named(self, urls, client):
        refused = client.post("/chat/", {"content": "\x00"})
        assert refused.status_code == 422
        assert refused.json()["question"] is None
        assert refused.json()["detail"]

    def test_nobody_writes_into_what_is_not_theirs(self, urls, client):
        other = chat.start_session(owner=get_user_model().objects.create_user("other"))
        theirs = chat.append_message(other, role="user", content="Mine.")
        assert client.post(f"/chat/{other.pk}/{theirs.pk}/", {"content": "Hello"}).status_code == 404
        assert ChatMessage.objects.count() == 1
