"""What holds for every framework alike, by its own runner over HTTP."""

import asyncio
import base64
import functools
import importlib
import json
import random
import sys
from contextlib import suppress

import pytest
from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import transaction

from compaction_app import chat
from compaction_app.context import windows
from compaction_app.contrib.branch import NEWEST
from compaction_app.exceptions import DurableTransactionRequired
from compaction_app.models import CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from tests.builders import grow
from tests.contrib.drivers import AgentsSDK, LangChain, PydanticAI, Turn, calls, framework
from tests.responses import ResponsesExchange
from tests.steps import stream_of

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["framework"]

SECRET = "sk-proj-" + "a1" * 30


def _of_agents(url):
    return importlib.import_module("agents").ToolOutputImage(image_url=url)


def _of_pydantic_ai(url):
    return importlib.import_module("pydantic_ai").BinaryContent.from_data_uri(url)


#: A picture, as a tool of each framework returns it.
PICTURES = {
    AgentsSDK: _of_agents,
    PydanticAI: _of_pydantic_ai,
    LangChain: lambda url: [{"type": "image", "base64": url.partition(",")[2], "mime_type": "image/png"}],
}


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def turn(framework, session, tip, text, **how):
    return async_to_sync(framework.turn)(Turn(session, tip, text, **how))


def sent(server, number=-1):
    return [(one["role"], one.get("content")) for one in server.requests[number]["messages"]]


def test_two_turns_and_an_edit(framework, server, session):
    """The second goes on at the branch that was used last."""
    server.script([steps.reply("Aye."), steps.reply("Still aye."), steps.reply("Edited.")])
    first = turn(framework, session, None, "Ready?")
    tip = turn(framework, session, NEWEST, "And now?")
    wanted = [("system", "Be brief."), ("user", "Ready?"), ("assistant", "Aye."), ("user", "And now?")]
    assert sent(server) == wanted
    stored = [(one.role, one.content) for one in chat.get_branch(tip)]
    assert stored == [*wanted[1:], ("assistant", "Still aye.")]
    # As the scripted server counts them, and not what a framework notes beside them.
    assert sum(one.token_count for one in chat.get_branch(tip)) in range(27, 33)
    # "What did the model see?" has an answer in the admin.
    assert tip.sent_context["strategy"] == "none"
    assert tip.sent_context["tokens"] > 20
    turn(framework, session, first, "And then?")
    assert [text for _, text in sent(server)] == ["Be brief.", "Ready?", "Aye.", "And then?"]
    assert len(chat.tips(session)) == 2


def test_a_picture_comes_back_as_it_was_sent(framework, server, session):
    server.script([steps.reply("A roof."), steps.reply("Yes.")])
    tip = turn(framework, session, None, "What is it?", picture="https://example.org/roof.jpg")
    turn(framework, session, tip, "Sure?")
    first, second = (one["messages"][1]["content"] for one in server.requests)
    assert first == second
    assert chat.get_branch(tip)[0].attachments[0]["url"] == "https://example.org/roof.jpg"


def test_a_tool_that_returns_a_picture(framework, server, session):
    """Of 200 KB, in a window of 32,000 tokens."""
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG" + random.Random(1).randbytes(200_000)).decode()

    def shot(city: str):
        """A picture of a city."""
        return PICTURES[type(framework)](url)

    session.settings = {"CONTEXT_WINDOW": 32_000}
    session.save()
    server.script([calls(("c1", "shot", {"city": "Oslo"})), steps.reply("A roof."), steps.reply("Yes.")])
    # In Chat Completions the SDK leaves it out.
    how = {"tools": [shot], "responses": isinstance(framework, AgentsSDK)}
    tip = turn(framework, session, None, "What is it?", **how)
    turn(framework, session, tip, "Sure?", **how)
    seen = chat.get_branch(tip)[2]
    assert (seen.role, len(seen.attachments)) == ("tool", 1)
    assert 1_000 <= seen.token_count <= 1_200
    first, second = map(json.dumps, server.requests[1:])
    assert url in first
    assert url in second


def test_a_redaction_between_two_runs(framework, server, session):
    server.script([steps.reply("Noted."), steps.reply("I do not know.")])
    tip = turn(framework, session, None, "My name is Ottoline.")
    chat.redact_message(chat.get_branch(tip)[0])
    turn(framework, session, tip, "What is my name?")
    assert "Ottoline" not in json.dumps(server.requests[-1])


def test_a_long_run_stays_within_the_window(framework, server, session, settings):
    """Eight results in one run, each of a quarter of the window."""
    settings.COMPACTION = {"CONTEXT_WINDOW": 6_000, "RESERVED_TOKENS": 500}

    def page(number: int) -> str:
        """A page of the book."""
        return f"page {number} " * 600

    server.script([*(calls((f"call_{n}", "page", {"number": n})) for n in range(8)), steps.reply("Read.")])
    turn(framework, session, None, "Read eight pages.", tools=[page])
    assert len(server.requests) == 9
    sizes = [sum(len(str(one.get("content"))) for one in request["messages"]) for request in server.requests]
    assert max(sizes) < 6_000 * 4


def test_compaction(framework, server, session, settings, broker):
    settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "RESERVED_TOKENS": 500, "SUMMARIZER": "extractive"}
    told = "Noted: the cargo and the dues of the day are in the book. " * 12
    server.script(default=steps.reply(told))
    tip = None
    for day in range(12):
        tip = turn(framework, session, tip, f"Day {day}: the Ada lies at berth {day % 9}. Note it please. " * 6)
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    last = server.requests[-1]["messages"]
    assert last[1]["role"] == "user"
    assert "<conversation-summary>" in last[1]["content"]
    assert len(last) < len(chat.get_branch(tip))


def test_two_runs_at_once_make_two_branches(framework, server, session):
    tip = grow(session, None, "u a")[-1]

    async def both():
        return await asyncio.gather(
            framework.turn(Turn(session, tip, "Left?")),
            framework.turn(Turn(session, tip, "Right?")),
        )

    ends = async_to_sync(both)()
    assert [len(chat.get_branch(one)) for one in ends] == [4, 4]
    assert len(chat.tips(session)) == 2


def test_what_was_stored_without_the_framework_is_read(framework, server, session):
    attached = [{"type": "image", "url": "https://example.org/map.png"}]
    messages = [
        {"role": "user", "content": "Weather?", "attachments": attached},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "Rain."},
        {"role": "assistant", "content": "Wet."},
    ]
    tip = chat.append_messages(session, None, messages)[-1]
    turn(framework, session, tip, "Sure?", tools=[weather])
    shown = server.requests[-1]["messages"]
    assert [one["role"] for one in shown] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert shown[1]["content"][1]["image_url"]["url"] == "https://example.org/map.png"
    assert shown[2]["tool_calls"][0]["id"] == shown[3]["tool_call_id"] == "call_1"


def test_nothing_is_held_while_a_model_is_asked(framework, server, session):
    with transaction.atomic(), pytest.raises(DurableTransactionRequired):
        turn(framework, session, None, "Ready?")
    assert server.requests == []


def test_an_event_loop_in_the_thread_of_a_view_is_refused(framework, server, session):
    """As ``run_sync`` makes one: under ASGI it waited for the thread that it blocks."""

    async def request():
        async with ThreadSensitiveContext():
            await sync_to_async(lambda: asyncio.run(framework.turn(Turn(session, None, "Ready?"))))()

    with pytest.raises(RuntimeError, match="run_sync"):
        asyncio.run(request())


@pytest.mark.parametrize(
    ("door", "package"), [("openai_agents", "agents"), ("pydantic_ai", "pydantic_ai"), ("langchain", "langchain")]
)
def test_a_door_names_the_extra_that_is_missing(door, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"compaction_app.contrib.{door}", raising=False)
    with pytest.raises(ImportError, match=rf"\[{door.replace('_', '-')}\]"):
        importlib.import_module(f"compaction_app.contrib.{door}")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_reasoning_and_hosted_tools_of_responses_come_back_unchanged(framework, server, session, is_streamed):
    hidden = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    action = {"type": "search", "query": "x"}
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}
    asked = {"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    message = {"items": [hidden, search], "tool_calls": [asked]}
    ask = functools.partial(ResponsesExchange.send_message, message=message, finish_reason="tool_calls")
    server.script([ask, steps.reply("Wet."), steps.reply("Yes.")])
    how = {"tools": [weather], "responses": True, "stream": is_streamed}
    tip = turn(framework, session, None, "Weather?", **how)
    tip = turn(framework, session, tip, "Sure?", **how)
    sent = {one.get("type", "message"): one for one in server.requests[-1]["input"]}
    assert sent["reasoning"]["encrypted_content"] == "gAAAA"
    assert sent["web_search_call"]["action"].items() >= action.items()
    assert sent["function_call"]["call_id"] == sent["function_call_output"]["call_id"] == "c1"
    assert [one.role for one in chat.get_branch(tip)] == "user assistant tool assistant user assistant".split()


def test_a_tool_that_raises_leaves_a_branch_that_can_go_on(framework, server, session):
    def broken(city: str) -> str:
        """The weather."""
        raise RuntimeError("no weather")

    server.script([calls(("call_1", "broken", {"city": "Oslo"})), steps.reply("Sorry."), steps.reply("Aye.")])
    with suppress(RuntimeError):
        turn(framework, session, None, "Weather?", tools=[broken])
    turn(framework, session, NEWEST, "Go on.")
    [asked] = [one for one in server.requests[-1]["messages"] if one.get("tool_calls")]
    answered = [one["tool_call_id"] for one in server.requests[-1]["messages"] if one["role"] == "tool"]
    assert answered == [call["id"] for call in asked["tool_calls"]]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_prompt_that_the_provider_finds_too_long_is_sent_once_more(
    framework, server, session, own_cache, is_streamed
):
    """Fitted to the window that it names, which the next run knows too."""
    tip = grow(session, None, "u a " * 40)[-1]
    refused = steps.context_overflow(n_prompt_tokens=9_000, n_ctx=4_000)
    server.script([refused, stream_of("Aye.") if is_streamed else steps.reply("Aye.")])
    tip = turn(framework, session, tip, "Ready?", stream=is_streamed)
    first, second = (len(one["messages"]) for one in server.requests)
    assert second < first
    assert [one.content for one in chat.get_branch(tip)[-2:]] == ["Ready?", "Aye."]
    assert windows.learned_at(windows.endpoint_of(server.url), "house-model")[1].window == 4_000
    assert chat.get_context(tip, model="house-model").window > 4_000, "the default endpoint said nothing"
    server.script([steps.reply("Aye.")])
    tip = turn(framework, session, tip, "And?")
    assert len(server.requests[-1]["messages"]) < first
    server.script([refused, refused])
    with pytest.raises(Exception, match="maximum context length"):
        turn(framework, session, tip, "Again?")
    assert chat.tips(session)[0].content == "Again?"


def test_a_run_that_is_cancelled_keeps_the_question(framework, server, session):
    server.script([steps.hang(), steps.reply("Aye.")])

    async def cancelled():
        task = asyncio.create_task(framework.turn(Turn(session, None, "Ready?")))
        await asyncio.to_thread(server.wait_for, 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async_to_sync(cancelled)()
    [tip] = chat.tips(session)
    turn(framework, session, tip, "And now?")
    assert [text for _, text in sent(server)] == ["Be brief.", "Ready?", "And now?"]


def test_a_guardrail_that_trips_keeps_the_question(framework, server, session):
    with pytest.raises(Exception, match=r"(?i)tripped|tripwire"):
        turn(framework, session, None, "Ready?", guarded=True)
    [tip] = chat.tips(session)
    server.script([steps.reply("Aye.")])
    turn(framework, session, tip, "And now?")
    assert [text for role, text in sent(server) if role == "user"] == ["Ready?", "And now?"]


def test_usage_and_model_of_a_reply(framework, server, session):
    """That of its own request, in a run of several."""
    used = {"prompt_tokens": 1_000, "completion_tokens": 7, "total_tokens": 1_007}
    server.script([steps.tool_call("weather", '{"city": "Oslo"}'), steps.reply("Wet.", usage=used)])
    tip = turn(framework, session, None, "Weather?", tools=[weather])
    replies = [one for one in chat.get_branch(tip) if one.role == "assistant"]
    assert [one.model for one in replies] == ["house-model"] * 2
    assert replies[0].usage["prompt_tokens"] == replies[0].sent_context["provider_tokens"] < 1_000
    assert {**replies[1].usage}.items() >= {"prompt_tokens": 1_000, "completion_tokens": 7}.items()
