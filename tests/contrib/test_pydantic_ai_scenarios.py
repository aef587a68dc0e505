"""pydantic-ai with a ``TreeHistory`` stores and sends what a host has that passes ``all_messages()`` on.

Each scenario is run both ways, after no, one and ten earlier turns, with the same replies of a model.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from openai import AsyncOpenAI
from pydantic import BaseModel

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from compaction_app.testing.exchange import Step
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("pydantic_ai", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

import httpx  # noqa: E402
from pydantic_ai import (  # noqa: E402
    Agent,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ImageUrl,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    ToolDenied,
    ToolOutput,
    ToolReturn,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.capabilities import ProcessHistory  # noqa: E402
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

from compaction_app.contrib.pydantic_ai import TreeHistory  # noqa: E402


class City(BaseModel):
    name: str


def weather(city: str = "Oslo") -> str:
    """The weather."""
    if city == "Nowhere":
        raise ModelRetry("Another city.")
    return f"Rain in {city}."


def order(number: int) -> str:
    """Order it."""
    raise CallDeferred


def picture() -> Any:
    """A map."""
    return ToolReturn("A map.", content=["Look:", ImageUrl("https://example.org/map.png")], metadata={"scale": 2})


async def broken() -> str:
    """Never."""
    # What runs beside it has returned by then: else the framework has no result of it.
    await asyncio.sleep(0.5)
    raise ValueError("broken")


WEATHER = calls(("w1", "weather", {"city": "Oslo"}), ("w2", "weather", {"city": "Bergen"}))
CITY = calls(("f1", "final_result", {"name": "Oslo"}))
DONE = steps.reply("Done.")


def paid(*amounts: int, also: bool = True) -> Step:
    named = [(f"pay_{amount}", "pay", {"amount": amount}) for amount in amounts]
    return calls(*([("w3", "weather", {"city": "Rome"})] if also else []), *named)


class Talk:
    """A conversation whose messages are the host's to pass on, or are in a tree."""

    def __init__(self, server: Any, session: ChatSession | None, client: httpx.AsyncClient) -> None:
        self.server, self.session, self.messages, self.result = server, session, list[ModelMessage](), None
        openai = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, http_client=client)
        self.model = OpenAIChatModel("house-model", provider=OpenAIProvider(openai_client=openai))
        self.history = TreeHistory(session, None) if session else None

    def agent(self, *script: Step, **options: Any) -> Agent[Any, Any]:
        self.server.script(script)
        agent = Agent(self.model, **{"instructions": "Be brief.", "tools": [weather, order, picture], **options})

        @agent.tool_plain(requires_approval=True)
        def pay(amount: int) -> str:
            return f"{amount} paid."

        return agent

    def given(self, options: dict[str, Any]) -> dict[str, Any]:
        if self.session:
            return {**options, "capabilities": [self.history, *options.get("capabilities", ())]}
        return {"message_history": self.messages, **options}

    async def run(self, agent: Agent[Any, Any], text: Any, **options: Any) -> Any:
        result = await agent.run(text, **self.given(options))
        self.messages = result.all_messages()
        return result.output

    async def iterate(self, agent: Agent[Any, Any], text: Any, **options: Any) -> Any:
        async with agent.iter(text, **self.given(options)) as run:
            async for _ in run:
                pass
        self.messages = run.result.all_messages()

    async def stream(self, agent: Agent[Any, Any], text: Any, **options: Any) -> Any:
        async with agent.run_stream(text, **self.given(options)) as run:
            output = await run.get_output()
        self.messages = run.all_messages()
        return output

    async def events(self, agent: Agent[Any, Any], text: Any, **options: Any) -> None:
        async with agent.run_stream_events(text, **self.given(options)) as events:
            async for event in events:
                if result := getattr(event, "result", None):
                    self.messages = result.all_messages()

    async def fail(self, runs: Any, agent: Agent[Any, Any], **options: Any) -> None:
        """A run that ends with an error, whose messages a host catches."""
        with capture_run_messages() as messages, pytest.raises(BaseException):  # noqa: B017, PT011
            await runs(agent, "Weather?", **options)
        self.messages = list(messages)

    async def resume(self, agent: Agent[Any, Any], runs: Any, way: str, text: str | None = None, **results: Any) -> Any:
        """``way``: with the messages of the run before, as they are or from JSON, or with those of the tree."""
        given = self.messages
        if way == "json":
            given = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(given))
        if self.session:
            if way != "same":
                self.history = TreeHistory(self.session)
            if way == "tree":
                given = await self.history.history()
        await runs(agent, text, message_history=given, deferred_tool_results=DeferredToolResults(**results))


SCENARIOS: dict[str, Callable[[Talk], Any]] = {}


def scenario(run: Callable[[Talk], Any]) -> Callable[[Talk], Any]:
    SCENARIOS[run.__name__] = run
    return run


@scenario
async def tools(talk: Talk) -> None:
    for runs in (talk.run, talk.iterate, talk.stream, talk.events):
        await runs(talk.agent(WEATHER, DONE), "Weather?")


@scenario
async def a_tool_that_asks_to_be_called_again(talk: Talk) -> None:
    for runs in (talk.run, talk.stream):
        await runs(talk.agent(calls(("n1", "weather", {"city": "Nowhere"})), WEATHER, DONE), "Weather?")


@scenario
async def a_tool_that_says_more(talk: Talk) -> None:
    await talk.run(talk.agent(calls(("p1", "picture", {}), ("w9", "weather", {})), DONE), "A map?")


@scenario
async def output_tools(talk: Talk) -> None:
    for runs in (talk.run, talk.iterate, talk.stream, talk.events):
        await runs(talk.agent(WEATHER, CITY, output_type=City), "Where?")
        await runs(talk.agent(steps.reply("Nowhere."), output_type=[City, str]), "Where?")


@scenario
async def an_output_tool_beside_others(talk: Talk) -> None:
    both = (("w8", "weather", {}), ("f1", "final_result", {"name": "Oslo"}), ("f2", "final_result", {"name": "Rome"}))
    for strategy in ("early", "graceful", "exhaustive"):
        for runs in (talk.run, talk.stream):
            more = ("p9", "picture", {})
            await runs(talk.agent(calls(*both, more), output_type=City, end_strategy=strategy), "Where?")


@scenario
async def a_limit_of_requests(talk: Talk) -> None:
    for runs in (talk.run, talk.iterate, talk.stream):
        await talk.fail(runs, talk.agent(WEATHER), usage_limits=UsageLimits(request_limit=1))
    await talk.fail(talk.run, talk.agent(), usage_limits=UsageLimits(request_limit=0))


@scenario
async def a_tool_that_raises_beside_others(talk: Talk) -> None:
    both = calls(("w1", "weather", {}), ("b1", "broken", {}))
    await talk.fail(talk.run, talk.agent(both, tools=[weather, broken]))


@scenario
async def a_run_that_is_cancelled_in_a_tool(talk: Talk) -> None:
    async def slow() -> str:
        """Slow."""
        asyncio.get_running_loop().call_later(0.5, task.cancel)
        await asyncio.sleep(60)
        return ""

    agent = talk.agent(calls(("w1", "weather", {}), ("s1", "slow", {})), tools=[weather, slow])
    task = asyncio.create_task(talk.fail(talk.run, agent))
    await asyncio.wait([task])


@scenario
async def text_beside_a_call(talk: Talk) -> None:
    asked = {"id": "w7", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    beside = [
        lambda exchange: exchange.send_message({"content": "Wait.", "tool_calls": [asked]}, finish_reason="tool_calls")
    ]
    await talk.stream(talk.agent(*beside), "Weather?")
    await talk.run(talk.agent(*beside, DONE), "Weather?")


@scenario
async def outputs_of_all_kinds(talk: Talk) -> None:
    said = steps.reply('{"name": "Oslo"}')
    await talk.run(talk.agent(said, output_type=NativeOutput(City)), "Where?")
    await talk.stream(talk.agent(said, output_type=PromptedOutput(City)), "Where?")
    named = calls(("c1", "city", {"name": "Oslo"}))
    await talk.stream(talk.agent(named, output_type=ToolOutput(City, name="city")), "Where?")


@scenario
async def an_output_that_is_refused(talk: Talk) -> None:
    for runs, wrong in ((talk.run, calls(("f0", "final_result", {}))), (talk.iterate, steps.reply("Oslo."))):
        await runs(talk.agent(wrong, CITY, output_type=City), "Where?")


@scenario
async def approvals(talk: Talk) -> None:
    for way in ("same", "json", "tree"):
        for runs in (talk.run, talk.iterate, talk.stream, talk.events):
            agent = talk.agent(paid(5), WEATHER, DONE, output_type=[str, DeferredToolRequests])
            await runs(agent, "Pay.")
            await talk.resume(agent, runs, way, approvals={"pay_5": True})


@scenario
async def approvals_of_several(talk: Talk) -> None:
    agent = talk.agent(paid(5, 6), paid(7, also=False), DONE, output_type=[str, DeferredToolRequests])
    await talk.run(agent, "Pay.")
    await talk.resume(agent, talk.run, "json", approvals={"pay_5": True, "pay_6": ToolDenied("Too much.")})
    await talk.resume(agent, talk.run, "same", approvals={"pay_7": True})


@scenario
async def an_approval_before_an_output(talk: Talk) -> None:
    for runs in (talk.run, talk.stream):
        both = calls(("pay_5", "pay", {"amount": 5}), ("f1", "final_result", {"name": "Oslo"}))
        await runs(talk.agent(both, output_type=[City, DeferredToolRequests]), "Pay.")


@scenario
async def an_approval_with_another_question(talk: Talk) -> None:
    agent = talk.agent(paid(5), DONE, output_type=[str, DeferredToolRequests])
    await talk.run(agent, "Pay.")
    await talk.resume(agent, talk.run, "same", "And the weather?", approvals={"pay_5": True})


@scenario
async def a_call_that_another_system_answers(talk: Talk) -> None:
    for way in ("json", "tree"):
        ordered = calls(("w9", "weather", {}), ("o1", "order", {"number": 1}))
        agent = talk.agent(ordered, DONE, output_type=[str, DeferredToolRequests])
        await talk.run(agent, "Order.")
        await talk.resume(agent, talk.run, way, calls={"o1": ToolReturn("Ordered.", content="By ship.")})


@scenario
async def messages_of_the_run_before(talk: Talk) -> None:
    """A host that passes them on though there is a tree."""
    for runs in (talk.run, talk.stream):
        await runs(talk.agent(WEATHER, DONE), "Weather?", message_history=talk.messages)


@scenario
async def a_question_among_the_messages(talk: Talk) -> None:
    await talk.run(talk.agent(DONE), "Weather?")
    asked = [replace(talk.messages[-2], run_id=None)]
    await talk.run(talk.agent(WEATHER, DONE), None, message_history=[*talk.messages, *asked])


@scenario
async def a_processor_of_the_history(talk: Talk) -> None:
    seen: list[int] = []
    processor = ProcessHistory(lambda messages: seen.append(len(messages)) or messages)
    for runs in (talk.run, talk.stream):
        await runs(talk.agent(WEATHER, DONE, capabilities=[processor]), "Weather?")


@scenario
async def pictures(talk: Talk) -> None:
    asked = ["What?", BinaryContent(b"\x89PNG", media_type="image/png"), ImageUrl("https://example.org/roof.png")]
    await talk.stream(talk.agent(WEATHER, DONE), asked)


@scenario
async def the_same_words(talk: Talk) -> None:
    for runs in (talk.run, talk.run, talk.stream, talk.stream):
        await runs(talk.agent(DONE), "yes")


async def both_ways(server: Any, session: ChatSession | None, run: Callable[[Talk], Any], earlier: int) -> Any:
    server.reset()
    async with httpx.AsyncClient() as client:
        talk = Talk(server, session, client)
        if earlier:
            await talk.run(talk.agent(WEATHER, DONE), "The same question.")
            # Each turn of them is the same.
            turns = talk.messages * (earlier - 1)
            talk.messages += turns
            if session:
                await sync_to_async(talk.history._store)(*turns)
        await run(talk)
        await talk.run(talk.agent(DONE), "And now?")
        stored = talk.messages
        if session:
            stored = await TreeHistory(session).history()
            assert len(await sync_to_async(chat.tips)(session)) == 1
    return [request["messages"] for request in server.requests], parts_of(stored)


def parts_of(messages: list[ModelMessage]) -> list[Any]:
    """Each result of a tool is a message of its own in the tree."""
    dumped = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    parts = [part for message in dumped for part in message["parts"]]
    # The framework answers a call that was not, in each run that it is given to.
    parts = [one for one in parts if one.get("outcome") != "interrupted"]
    return [{key: value for key, value in part.items() if key != "timestamp"} for part in parts]


@pytest.mark.parametrize("earlier", [0, 1, 10])
@pytest.mark.parametrize("run", SCENARIOS.values(), ids=SCENARIOS)
def test_it_stores_and_sends_what_the_framework_does(server, session, run, earlier):
    sent, stored = async_to_sync(both_ways)(server, None, run, earlier)
    sent_by_us, stored_by_us = async_to_sync(both_ways)(server, session, run, earlier)
    for ours, own in zip(sent_by_us, sent, strict=True):
        assert in_order(ours) == in_order(own)
    assert stored_by_us == stored


def in_order(messages: list[Any]) -> list[Any]:
    """The results of one reply by their calls: both orders are the same to a model."""

    def place(at: int) -> tuple[int, str]:
        reply = max((n for n in range(at + 1) if messages[n]["role"] != "tool"), default=0)
        return reply, messages[at].get("tool_call_id", "")

    return [plain(messages[at]) for at in sorted(range(len(messages)), key=place)]


def plain(message: Any) -> Any:
    """Without the order of keys, which is not stored."""
    content = message.get("content")
    return {**message, "content": sorted(content) if isinstance(content, str) and content[:1] == "{" else content}
