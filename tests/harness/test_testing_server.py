"""The scripted server and the fake summarizer that ship for users' tests."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from compaction_app.summarizers.base import run_summarizer
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import SummaryDraft
from tests.fake_summarizer import FakeSummarizer
from tests.summarizers.summarizing import ACCEPT, request

pytestmark = pytest.mark.pure


@pytest.fixture
def server():
    with ScriptedOpenAIServer() as server:
        yield server


def client_of(server: ScriptedOpenAIServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(api_key="x", base_url=server.url, **{"max_retries": 0, "timeout": 5, **options})


def chat(client: openai.OpenAI, model: str = "small", **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": "What is new?"}]
    return client.chat.completions.create(model=model, messages=messages, **options)


class TestScripts:
    def test_steps_are_taken_in_order_and_then_the_default(self, server):
        server.script([steps.reply("one"), steps.reply("two")], default=steps.reply("rest"))
        said = [chat(client_of(server)).choices[0].message.content for _ in range(4)]
        assert said == ["one", "two", "rest", "rest"]

    def test_a_model_may_have_a_script_of_its_own(self, server):
        server.script([steps.reply("any")])
        server.script(model="large", steps=[steps.reply("large only")])
        said = [chat(client_of(server), model).choices[0].message.content for model in ("large", "small")]
        assert said == ["large only", "any"]
        assert (server.count("large"), server.count("small")) == (1, 1)

    def test_each_step_is_taken_once_however_many_ask_at_once(self, server):
        server.script([steps.reply(str(n)) for n in range(40)])
        client = client_of(server)
        with ThreadPoolExecutor(20) as pool:
            said = list(pool.map(lambda _: chat(client).choices[0].message.content, range(40)))
        assert sorted(said, key=int) == [str(n) for n in range(40)]
        assert len(server.requests) == 40

    def test_wait_for_says_what_came_instead(self, server):
        threading.Timer(0.1, chat, [client_of(server)]).start()
        assert len(server.wait_for(1)) == 1
        with pytest.raises(TimeoutError, match=r"no 2 requests within 0\.05 s, only 1 requests"):
            server.wait_for(2, timeout=0.05)


def test_usage_is_counted_exactly(server):
    server.script([steps.reply("Nothing much.")])
    usage = chat(client_of(server)).usage
    count = ExactTokenCounter()
    assert usage.prompt_tokens == count(["What is new?"])[0] + 4
    assert usage.completion_tokens == count(["Nothing much."])[0]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    server.script([steps.reply_with(lambda body: body["messages"][0]["content"].upper())])
    assert chat(client_of(server)).choices[0].message.content == "WHAT IS NEW?", "written from the request"


def test_stopping_releases_what_hangs():
    with ThreadPoolExecutor(1) as pool:
        with ScriptedOpenAIServer([steps.hang()]) as server:
            asked = pool.submit(chat, client_of(server, timeout=60))
            server.wait_for(1)
            started = time.monotonic()
        with pytest.raises(openai.APIConnectionError):
            asked.result(timeout=5)
    assert time.monotonic() - started < 5


def test_it_takes_the_port_that_it_is_given():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ScriptedOpenAIServer(port=port) as server:
        assert server.url == f"http://127.0.0.1:{port}/v1"


def test_the_fake_writes_an_acceptable_draft_and_the_same_each_time():
    asked = request()
    drafts = [run_summarizer(FakeSummarizer(), asked, ACCEPT) for _ in range(2)]
    assert drafts[0] == drafts[1]
    assert FakeSummarizer.requests == [asked] * 2
    assert ACCEPT(SummaryDraft(text=steps.DEFAULT_TEXT)) is None, "the server's default text"
    assert "2 messages, beginning with: the launch code" in drafts[0].text
