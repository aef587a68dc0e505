"""Runs of each framework with the same arguments."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing.exchange import Step
from tests.plugin import NO_FRAMEWORKS

Tool = Callable[..., str]


def calls(*named: tuple[str, str, dict[str, Any]]) -> Step:
    """A reply that calls tools: id, name and arguments of each."""
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in named
    ]
    return lambda exchange: exchange.send_message({"content": None, "tool_calls": made}, finish_reason="tool_calls")


def trip(*_: Any) -> Any:
    raise RuntimeError("The guardrail tripped.")


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked, and how."""

    session: ChatSession
    tip: Any
    text: str
    tools: Sequence[Tool] = ()
    picture: str = ""
    stream: bool = False
    responses: bool = False
    guarded: bool = False


class Driver:
    """A turn by a framework's own runner: returns the tip."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def turn(self, ask: Turn) -> ChatMessage:
        raise NotImplementedError


class AgentsSDK(Driver):
    async def turn(self, ask: Turn) -> ChatMessage:
        from agents import (
            Agent,
            GuardrailFunctionOutput,
            InputGuardrail,
            OpenAIChatCompletionsModel,
            OpenAIResponsesModel,
            Runner,
            function_tool,
            set_tracing_disabled,
        )
        from openai import AsyncOpenAI

        from compaction_app.contrib.openai_agents import TreeSession

        set_tracing_disabled(True)
        made = OpenAIResponsesModel if ask.responses else OpenAIChatCompletionsModel
        model = made("house-model", AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0))
        guards = [InputGuardrail(lambda *_: GuardrailFunctionOutput(None, tripwire_triggered=True))]
        agent = Agent(
            "house",
            instructions="Be brief.",
            model=model,
            tools=[function_tool(one) for one in ask.tools],
            input_guardrails=guards if ask.guarded else [],
        )
        kept = TreeSession(ask.session, ask.tip)
        given: Any = ask.text
        if ask.picture:
            parts = [
                {"type": "input_text", "text": ask.text},
                {"type": "input_image", "image_url": ask.picture, "detail": "auto"},
            ]
            given = [{"role": "user", "content": parts}]
        if ask.stream:
            result = Runner.run_streamed(agent, given, session=kept, run_config=kept.run_config())
            async for _ in result.stream_events():
                pass
        else:
            await Runner.run(agent, given, session=kept, run_config=kept.run_config(), max_turns=30)
        return kept.tip


class PydanticAI(Driver):
    async def turn(self, ask: Turn) -> ChatMessage:
        from pydantic_ai import Agent, ImageUrl
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        from compaction_app.contrib.pydantic_ai import TreeHistory

        made = OpenAIResponsesModel if ask.responses else OpenAIChatModel
        # It sends reasoning back only to models of which it knows that they reason.
        model = made(
            "gpt-5-mini" if ask.responses else "house-model",
            provider=OpenAIProvider(base_url=self.url, api_key="none"),
        )
        agent = Agent(model, instructions="Be brief.", tools=ask.tools)
        if ask.guarded:
            agent.output_validator(trip)
        history = TreeHistory(ask.session, ask.tip)
        given: Any = [ask.text, ImageUrl(ask.picture)] if ask.picture else ask.text
        if ask.stream:
            async with agent.run_stream(given, capabilities=[history]) as run:
                await run.get_output()
        else:
            await agent.run(given, capabilities=[history])
        return history.tip


class LangChain(Driver):
    async def turn(self, ask: Turn) -> ChatMessage:
        import httpx
        from langchain_openai import ChatOpenAI

        # Its own client is kept for the next event loop, where it fails.
        async with httpx.AsyncClient() as client:
            model = ChatOpenAI(
                model="house-model",
                base_url=self.url,
                api_key="none",
                max_retries=0,
                http_async_client=client,
                use_responses_api=ask.responses,
            )
            return await self._turn(model, ask)

    async def _turn(self, model: Any, ask: Turn) -> ChatMessage:
        from langchain.agents import create_agent
        from langchain.agents.middleware import after_model

        from compaction_app.contrib.langchain import TreeMiddleware

        tree = TreeMiddleware(ask.session, ask.tip)
        guards = [after_model(lambda *_: trip())] if ask.guarded else []
        agent = create_agent(model, list(ask.tools), system_prompt="Be brief.", middleware=[tree, *guards])
        content: Any = ask.text
        if ask.picture:
            content = [{"type": "text", "text": ask.text}, {"type": "image_url", "image_url": {"url": ask.picture}}]
        given = {"messages": [{"role": "user", "content": content}]}
        if ask.stream:
            async for _ in agent.astream(given, stream_mode="messages"):
                pass
        else:
            await agent.ainvoke(given, {"recursion_limit": 60})
        return await sync_to_async(lambda: tree.tip)()


DRIVERS = {"agents": AgentsSDK, "pydantic_ai": PydanticAI, "langchain": LangChain}


@pytest.fixture(params=DRIVERS)
def framework(request: pytest.FixtureRequest, server: Any) -> Driver:
    pytest.importorskip(request.param, reason=NO_FRAMEWORKS)
    driver: Driver = DRIVERS[request.param](server.url)
    return driver
