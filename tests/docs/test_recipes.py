"""docs/recipes.md and docs/data.md: every example runs, clients and view against a server that follows a script."""

import asyncio
import json
import re
import sys
import time
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import openai
import pytest
from celery import current_app
from celery.signals import worker_process_init
from django.contrib.auth import get_user_model
from django.db.models import F
from django.test import AsyncClient
from django.urls import path

from compaction_app import chat
from compaction_app.contrib import histories
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.transfer import importing
from tests.builders import grow
from tests.conftest import REPOSITORY
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.steps import stream_of

pytestmark = pytest.mark.django_db(transaction=True)

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"town": "Bergen"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / page).read_text(), re.DOTALL)


@pytest.fixture
def known(monkeypatch):
    """What the recipes define; lines at the top of an example that ask a model are run by the tests that need them."""
    if find_spec("httpx") is None:
        monkeypatch.setitem(sys.modules, "httpx", import_module("httpx2"))  # the newest openai brings it
    with ScriptedOpenAIServer(default=steps.reply("Rain.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("LITELLM_URL", server.url)
        monkeypatch.setenv("LITELLM_KEY", "none")
        session = chat.start_session(model="m")
        names: dict[str, Any] = {"__name__": "mysite.views", "server": server}
        pushed = list(worker_process_init.receivers)
        for example in examples("recipes.md"):
            if re.search(r"django.tasks", example):
                continue  # tests/docs/test_django_tasks.py runs it, on the newest Django
            names["question"] = chat.append_message(session, role="user", content="Will it rain?")
            exec(example, names)
        worker_process_init.receivers = pushed
        yield names
        current_app.tasks.pop("mysite.views.compact_quiet_chats", None)


@pytest.fixture
def provider():
    """A server of other APIs: answers in order, and what it was asked."""
    asked: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = answers.pop(0)
            body = json.dumps(answer).encode()
            self.send_response(answer.get("http_status", 200))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # a client that gives up
                for _ in range(answer.get("drips", 0)):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}", answers, asked
        httpd.shutdown()


def after(reply: ChatMessage, result: str) -> ChatMessage:
    [call] = reply.tool_calls
    return chat.append_message(reply.session, reply, role="tool", tool_call_id=call["id"], content=result)


class Said(SimpleNamespace):
    """An answer as Anthropic's client gives it."""

    def model_dump(self, **options: Any) -> Any:
        return json.loads(json.dumps(self, default=vars))


def claude(is_real: bool, url: str, answers: list[Any], asked: list[Any]) -> Any:
    """Anthropic's own client, which takes seconds to import, or a stand-in."""
    if is_real:
        import anthropic

        return anthropic.Anthropic(base_url=url, api_key="none")

    def create(**body: Any) -> Any:
        asked.append(body)
        return json.loads(json.dumps(answers.pop(0)), object_hook=lambda found: Said(**found))

    return SimpleNamespace(messages=SimpleNamespace(create=create))


@pytest.mark.parametrize("is_real", [False, pytest.param(True, marks=pytest.mark.long)])
def test_anthropics_blocks_go_back_as_they_came(known, provider, is_real):
    _, answers, asked = provider
    usage = {"input_tokens": 30, "output_tokens": 9}
    common = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "usage": usage}
    blocks = [THINKING, {"type": "text", "text": "I look."}, CALL]
    answers += [
        {**common, "content": blocks, "stop_reason": "tool_use"},
        {**common, "content": [{"type": "text", "text": "No."}], "stop_reason": "end_turn"},
    ]
    client = claude(is_real, *provider)
    session = chat.start_session(system_prompt="Be brief.", model="claude")
    question = chat.append_message(session, role="user", content="Rain?")
    reply = known["ask_claude"](client, question, model="claude")
    assert (reply.content, [call["function"]["name"] for call in reply.tool_calls]) == ("I look.", ["weather"])
    last = known["ask_claude"](client, after(reply, "dry"), model="claude")
    assert last.content == "No."
    assert asked[1]["system"] == [{"type": "text", "text": "Be brief."}]
    assert asked[1]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Rain?"}]},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "dry"}]},
    ]


def test_calls_of_another_model_go_along(known, provider):
    """They were left out of a Responses request, which refuses their results, or ended the loop at Anthropic's."""
    url, answers, asked = provider
    function = {"name": "weather", "arguments": '{"town": "Bergen",}'}
    question = chat.append_message(chat.start_session(model="gpt-5"), role="user", content="Rain?")
    calls = [{"id": "call_1", "type": "function", "function": function}]
    tip = after(chat.append_message(question.session, question, role="assistant", tool_calls=calls), "dry")
    answers.append({"id": "resp_1", "object": "response", "created_at": 0, "output": []})
    with pytest.raises(AttributeError):  # the answer has no usage: what was asked is enough here
        known["ask_responses"](openai.OpenAI(base_url=url, api_key="none"), tip, model="gpt-5")
    assert asked[0]["input"] == [
        {"role": "user", "content": "Rain?"},
        {"type": "function_call", "call_id": "call_1", **function},
        {"type": "function_call_output", "call_id": "call_1", "output": "dry"},
    ]
    assert known["as_input"](function["arguments"]) == {"invalid_arguments": function["arguments"]}
    assert [known["as_input"](text) for text in ("", '{"a": 1}', "[1]")] == [{}, {"a": 1}, {"invalid_arguments": "[1]"}]


def test_items_of_the_responses_api_go_back_as_they_came(known, provider):
    url, answers, asked = provider
    usage = {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    common = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "gpt-5"}
    common |= {"usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    text = {"type": "output_text", "text": "No.", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    answers += [{**common, "output": [REASONING, FUNCTION]}, {**common, "output": [said]}]
    client = openai.OpenAI(base_url=url, api_key="none")
    question = chat.append_message(chat.start_session(model="gpt-5"), role="user", content="Rain?")
    reply = known["ask_responses"](client, question, model="gpt-5")
    last = known["ask_responses"](client, after(reply, "dry"), model="gpt-5")
    assert last.content == "No."
    assert asked[1]["input"] == [
        {"role": "user", "content": "Rain?"},
        REASONING,
        FUNCTION,
        {"type": "function_call_output", "call_id": "call_1", "output": "dry"},
    ]


class TestASummarizerAtAnthropic:
    @pytest.fixture
    def compact(self, known, provider, settings, monkeypatch):
        url, answers, _ = provider
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
        monkeypatch.setattr(known["ClaudeSummarizer"], "url", url)
        module = ModuleType("recipe")
        vars(module)["ClaudeSummarizer"] = known["ClaudeSummarizer"]
        monkeypatch.setitem(sys.modules, "recipe", module)
        entry = {"BACKEND": "recipe.ClaudeSummarizer", "TIMEOUT": 1}
        settings.COMPACTION = small(SUMMARIZERS={"default": entry})

        def compact(**answer: Any) -> CompactionRun:
            answers[:] = [answer] * 20
            try:
                return chat.compact(grow(chat.start_session(), None, "u a " * 40)[-1])
            except CompactionFailed as failed:
                return CompactionRun.objects.get(pk=failed.run_id)

        return compact

    def said(self, **parts: Any) -> dict[str, Any]:
        text = "## Recap\n\nAll that was asked was answered, and nothing of it is open."
        usage = {"input_tokens": 900, "output_tokens": 20, "service_tier": "standard"}
        return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage} | parts

    def test_a_summary_is_stored_with_what_it_used(self, compact, provider):
        run = compact(**self.said())
        assert (run.status, run.summarizer_model) == ("succeeded", "claude-haiku-4-5")
        assert (run.input_tokens, run.output_tokens) == (900, 20)
        assert run.cost is not None
        assert provider[2][0]["max_tokens"] == 8_000, "no more than the class takes"

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("status", "kind", "message", "code"),
        [
            (401, "authentication_error", "invalid x-api-key", "authentication"),
            (402, "billing_error", "No credit.", "quota"),
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", "input_too_large"),
            (413, "request_too_large", "Request exceeds the maximum size", "input_too_large"),
            (404, "not_found_error", "model: claude", "bad_request"),
            (529, "overloaded_error", "Overloaded", "provider_error"),
        ],
    )
    def test_its_errors_have_our_codes(self, compact, status, kind, message, code):
        run = compact(http_status=status, error={"type": kind, "message": message})
        assert (run.error_code, run.error_detail[:8]) == (code, f"HTTP {status}")

    @pytest.mark.long
    def test_a_server_that_drips_is_given_up_in_time(self, compact):
        began = time.monotonic()
        assert compact(**self.said(drips=50)).error_code == "timeout"
        assert time.monotonic() - began < 4


class TestQuietChats:
    @pytest.fixture
    def tip(self, known, settings):
        settings.COMPACTION = small(CONTEXT_WINDOW=100_000)
        FakeSummarizer.reset()
        return grow(chat.start_session(), None, "u a " * 150)[-1]

    def wait(self, minutes: int) -> None:
        """As if everything had been written so much earlier."""
        past = timedelta(minutes=minutes)
        ChatSession.objects.update(updated_at=F("updated_at") - past)
        ChatMessage.objects.update(created_at=F("created_at") - past)
        CompactionRun.objects.update(created_at=F("created_at") - past, finished_at=F("finished_at") - past)

    def test_once_in_each_pause(self, known, tip):
        ask, runs = known["compact_quiet_chats"], CompactionRun.objects
        self.wait(9)
        ask()
        assert runs.count() == 0
        self.wait(2)
        ask()
        ask()
        assert runs.get().trigger == "manual"
        compact_branch(runs.get().pk)
        assert runs.get().status == "succeeded"
        self.wait(11)
        ask()
        assert runs.count() == 1, "nobody has written since"

    def test_not_while_runs_fail(self, known, tip):
        ask, runs = known["compact_quiet_chats"], CompactionRun.objects
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FakeSummarizer, "error", ValueError("broken"))
            for _ in range(3):
                with pytest.raises(CompactionFailed):
                    chat.compact(tip)
        tip = chat.append_message(tip.session, tip, role="user", content="Hello?")
        past = timedelta(minutes=11)
        ChatSession.objects.update(updated_at=F("updated_at") - past)
        ChatMessage.objects.update(created_at=F("created_at") - past)
        runs.update(created_at=F("created_at") - 2 * past)
        ask()
        assert runs.count() == 3, "the breaker is open"
        runs.update(finished_at=F("finished_at") - past)
        ask()
        assert runs.count() == 4


def test_litellm_and_a_cache_key(known):
    asked = [(body["model"], body.get("prompt_cache_key")) for body in known["server"].requests]
    assert asked == [("anthropic/claude-sonnet-4-5", None), ("m", str(known["question"].session_id))]
    assert known["reply"].content == "Rain."


class TestTheView:
    @pytest.fixture
    def ask(self, known, settings):
        user = get_user_model().objects.create_user("marit")
        session = chat.start_session(owner=user, model="m")
        view = known["say"]
        urls = [path("say/<uuid:session_id>/", view), path("say/<uuid:session_id>/<int:parent_id>/", view)]
        settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": urls})
        settings.ALLOWED_HOSTS, settings.LOGIN_URL = ["testserver"], "/accounts/login/"

        async def run_tool(name: str, arguments: str) -> dict[str, bool]:
            return {"rain": False}

        known["run_tool"] = run_tool

        async def post(body: Any, parent: int | None = None, read: int = 99) -> tuple[int, list[Any]]:
            client = AsyncClient()
            await client.aforce_login(user)
            url = f"/say/{session.pk}/" + (f"{parent}/" if parent else "")
            response = await client.post(url, body, content_type="application/json")
            if not response.streaming:
                return response.status_code, [response.json()]
            events: list[Any] = []
            enough = asyncio.Event()

            async def receive() -> None:
                async for part in response.streaming_content:
                    events.append(json.loads(part.decode().removeprefix("data: ")))  # as they come
                    if len(events) == read:
                        enough.set()
                enough.set()

            reading = asyncio.create_task(receive())
            await enough.wait()
            reading.cancel()  # as a browser that leaves: Django cancels the response
            await asyncio.gather(reading, return_exceptions=True)
            return response.status_code, events

        return lambda *args, **kwargs: asyncio.run(post(*args, **kwargs))

    def test_tools_edits_and_asking_again(self, ask, known):
        known["server"].script([steps.tool_call("weather", "{}"), steps.reply("Dry.")])
        status, events = ask({"content": "Rain?"})
        assert (status, "".join(event.get("text", "") for event in events)) == (200, "Dry.")
        question = ChatMessage.objects.get(pk=events[0]["question"])
        reply = ChatMessage.objects.get(pk=events[-1]["reply"])
        assert [message.role for message in chat.get_branch(reply)] == ["user", "assistant", "tool", "assistant"]
        _, edited = ask({"content": "Snow?", "edit": True}, question.pk)
        assert [message.content for message in chat.variants(question)] == ["Rain?", "Snow?"]
        _, again = ask({}, edited[0]["question"])
        assert len(chat.variants(ChatMessage.objects.get(pk=again[-1]["reply"]))) == 2

    def test_a_double_click_is_one_message_and_strangers_log_in(self, ask, known, client):
        known["server"].reset()
        first, second = (ask({"content": "Rain?", "key": "k1"})[1] for _ in range(2))
        assert [first[0], first[-1]] == [second[0], second[-1]]
        assert len(known["server"].requests) == 1
        session = ChatSession.objects.get(owner__username="marit")
        answer = client.post(f"/say/{session.pk}/", {"content": "Rain?"}, content_type="application/json")
        assert (answer.status_code, answer.url[:16]) == (302, "/accounts/login/")

    def test_stop_keeps_what_was_written(self, ask, known):
        known["server"].script([stream_of("It will ", "rain ", then=steps.hang())])
        _, events = ask({"content": "Rain?"}, read=3)
        kept = chat.newest_tip(ChatMessage.objects.get(pk=events[0]["question"]))
        assert (kept.role, kept.finish_reason) == ("assistant", "stopped")
        assert kept.content == "It will rain "

    def test_what_is_not_there_or_says_nothing(self, ask):
        assert ask({"content": "x"}, 10**9)[0] == 404
        assert ask({})[0] == 400
        assert ask({"content": "\x00"})[0] == 422
        for body in ("[1]", "{"):
            assert ask(body)[0] == 400


def test_the_data_of_one_person(tmp_path):
    names: dict[str, Any] = {}
    for example in examples("data.md"):
        exec(example, names)
    marit, other = (get_user_model().objects.create_user(name) for name in ("marit", "other"))
    session = chat.start_session(owner=marit, title="Roof", system_prompt="Be brief.")
    first = chat.append_message(session, role="user", content="How old?")
    kept = {"format": "openai", "endpoint": "https://a", "model": "m", "data": {"content": "Forty.", "note": 1}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    reply = chat.append_message(session, first, role="assistant", tool_calls=[call])
    chat.append_message(session, reply, role="tool", tool_call_id="c1", content="old")
    usage = {"prompt_tokens": 9, "details": {"cached": 1}}
    about: dict[str, Any] = {"original": kept, "usage": usage, "finish_reason": "length"}
    chat.append_message(session, first, role="assistant", content="Forty.", **about)
    chat.append_message(session, role="user", content="Another beginning")
    theirs = chat.start_session(owner=other)
    file = tmp_path / "marit.json"
    [conversation] = names["export_of"](marit)
    file.write_text(json.dumps(conversation))
    [stored] = importing.store(histories.read(file))

    def tree(of: ChatSession) -> list[tuple[Any, ...]]:
        parents = {row.pk: row.content or "call" for row in of.messages.all()}
        rows = of.messages.order_by("depth", "created_at")
        names = ("role", "content", "tool_calls", "created_at", *about)
        return [(parents.get(row.parent_message_id), *(getattr(row, name) for name in names)) for row in rows]

    assert tree(stored.session) == tree(session)
    assert (stored.session.title, stored.session.system_prompt) == ("Roof", "Be brief.")
    names["erase"](marit)
    assert set(ChatSession.objects.values_list("pk", flat=True)) == {theirs.pk, stored.session.pk}
    ChatSession.objects.filter(pk=theirs.pk).update(updated_at="2020-01-01T00:00Z")
    names["forget_old_conversations"]()
    assert list(ChatSession.objects.values_list("pk", flat=True)) == [stored.session.pk]
