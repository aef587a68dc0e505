"""OpenAI clients in their own tool loops, as programs use them: each asks some questions and returns the answers."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib.util
import json
import operator
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.plugin import NO_FRAMEWORKS

MODEL = "house-model"
#: What the tool answers, whatever its arguments are.
PAGE = "The Ada lies at berth seven and her dues are paid. " * 30
ANYTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
TOOL = {"type": "function", "function": {"name": "look", "description": "Read the book.", "parameters": ANYTHING}}


@dataclass(frozen=True, kw_only=True)
class Talk:
    url: str
    key: str
    questions: Sequence[str]
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False


def looked(calls: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": one["id"], "content": PAGE} for one in calls]


def plain(talk: Talk, rewrite: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list) -> list[str]:
    """Sends back what it got, byte for byte; ``rewrite`` makes what is sent of what it has."""
    headers = {"Authorization": f"Bearer {talk.key}", **talk.headers}
    messages: list[dict[str, Any]] = []
    answers = []
    with httpx2.Client(base_url=talk.url, headers=headers, timeout=30) as http:
        for question in talk.questions:
            messages.append({"role": "user", "content": question})
            while True:
                sent = rewrite(copy.deepcopy(messages))
                answer = http.post("chat/completions", json={"model": MODEL, "messages": sent, "tools": [TOOL]})
                assert answer.status_code == 200, answer.text
                messages.append(answer.json()["choices"][0]["message"])
                if not (calls := messages[-1].get("tool_calls")):
                    break
                messages += looked(calls)
            answers.append(messages[-1]["content"])
    return answers


def in_chat(talk: Talk, ask: Callable[[list[Any]], Any]) -> list[str]:
    """Asks with a list of chat messages, and puts behind it what ``ask`` returns and the results of its calls."""
    messages: list[Any] = []
    answers = []
    for question in talk.questions:
        messages.append({"role": "user", "content": question})
        while True:
            messages.append(said := ask(messages))
            if not said.tool_calls:
                break
            messages += looked([{"id": one.id} for one in said.tool_calls])
        answers.append(said.content)
    return answers


def openai_python(talk: Talk) -> list[str]:
    client = openai.OpenAI(base_url=talk.url, api_key=talk.key, default_headers=talk.headers, max_retries=0)

    def ask(messages: list[Any]) -> Any:
        asked: Any = {"model": MODEL, "messages": messages, "tools": [TOOL]}
        if not talk.stream:
            return client.chat.completions.create(**asked).choices[0].message
        with client.chat.completions.stream(**asked) as events:
            return events.get_final_completion().choices[0].message

    return in_chat(talk, ask)


def openai_responses(talk: Talk) -> list[str]:
    client = openai.OpenAI(base_url=talk.url, api_key=talk.key, default_headers=talk.headers, max_retries=0)
    asked: Any = {"model": MODEL, "tools": [{"type": "function", "strict": False, **TOOL["function"]}]}
    items: list[Any] = []
    answers = []
    for question in talk.questions:
        items.append({"role": "user", "content": question})
        while True:
            if not talk.stream:
                said: Any = client.responses.create(**asked, input=items)
            else:
                with client.responses.stream(**asked, input=items) as events:
                    said = events.get_final_response()
            items += said.output
            calls = [one.call_id for one in said.output if one.type == "function_call"]
            items += [{"type": "function_call_output", "call_id": one, "output": PAGE} for one in calls]
            if not calls:
                break
        answers.append(said.output_text)
    return answers


def agents(talk: Talk, *, by_id: bool = False) -> list[str]:
    """OpenAI's Agents SDK with its default model; ``by_id``: it sends what is new, and the id of the last response."""
    from agents import Agent, FunctionTool, OpenAIResponsesModel, Runner, set_tracing_disabled

    set_tracing_disabled(True)

    async def look(*_: Any) -> str:
        return PAGE

    async def asked() -> list[str]:
        client = openai.AsyncOpenAI(base_url=talk.url, api_key=talk.key, default_headers=talk.headers, max_retries=0)
        tool = FunctionTool("look", "Read the book.", ANYTHING, look, strict_json_schema=False)
        agent = Agent("house", instructions="Be brief.", model=OpenAIResponsesModel(MODEL, client), tools=[tool])
        items: Any = []
        last, answers = None, []
        for question in talk.questions:
            items = question if by_id else [*items, {"role": "user", "content": question}]
            how: Any = {"max_turns": 100, "previous_response_id": last, "auto_previous_response_id": by_id}
            if talk.stream:
                run: Any = Runner.run_streamed(agent, items, **how)
                async for _ in run.stream_events():
                    pass
            else:
                run = await Runner.run(agent, items, **how)
            items, last = run.to_input_list(), run.last_response_id if by_id else None
            answers.append(run.final_output)
        return answers

    return asyncio.run(asked())


def litellm(talk: Talk) -> list[str]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    address = {"base_url": talk.url, "api_key": talk.key, "extra_headers": dict(talk.headers)}

    def ask(messages: list[Any]) -> Any:
        asked: Any = {"model": f"openai/{MODEL}", "messages": messages, "tools": [TOOL], **address}
        made: Any = litellm.completion(**asked, stream=talk.stream, max_retries=0)
        if talk.stream:
            made = litellm.stream_chunk_builder(list(made), messages)
        return made.choices[0].message

    return in_chat(talk, ask)


def langchain_openai(talk: Talk) -> list[str]:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    address = {"base_url": talk.url, "api_key": talk.key, "default_headers": talk.headers}
    model: Any = ChatOpenAI(model=MODEL, max_retries=0, use_responses_api=False, **address).bind_tools([TOOL])
    messages: list[Any] = []
    answers = []
    for question in talk.questions:
        messages.append(HumanMessage(question))
        while True:
            said = functools.reduce(operator.add, model.stream(messages)) if talk.stream else model.invoke(messages)
            messages.append(said)
            if not (calls := [*said.tool_calls, *said.invalid_tool_calls]):
                break
            messages += [ToolMessage(PAGE, tool_call_id=one["id"]) for one in calls]
        answers.append(said.content)
    return answers


def _look(**anything: Any) -> str:
    """Read the book."""
    return PAGE


def pydantic_ai(talk: Talk, model: str = "OpenAIChatModel", **settings: Any) -> list[str]:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models import openai as models
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    async def asked() -> list[str]:
        client = AsyncOpenAI(base_url=talk.url, api_key=talk.key, default_headers=talk.headers, max_retries=0)
        # It tells the model about arguments that are no JSON, and asks again.
        look = Tool(_look, name="look", max_retries=1_000)
        made = getattr(models, model)(MODEL, provider=OpenAIProvider(openai_client=client), settings=settings)
        agent: Any = Agent(made, tools=[look])
        history: Any = []
        answers = []
        for question in talk.questions:
            how: Any = {"message_history": history, "usage_limits": UsageLimits(request_limit=None)}
            if talk.stream:
                async with agent.run_stream(question, **how) as run:
                    answers.append(await run.get_output())
            else:
                run = await agent.run(question, **how)
                answers.append(run.output)
            history = run.all_messages()
        return answers

    return asyncio.run(asked())


def llm(talk: Talk) -> list[str]:
    import llm
    from llm.default_plugins.openai_models import Chat

    model = Chat(MODEL, key=talk.key, api_base=talk.url, headers=dict(talk.headers), supports_tools=True)
    look = llm.Tool("look", "Read the book.", ANYTHING, implementation=lambda **_: PAGE)
    conversation = model.conversation(tools=[look])
    return [
        conversation.chain(question, stream=talk.stream, chain_limit=0, key=talk.key).text()
        for question in talk.questions
    ]


def of_node(name: str, talk: Talk) -> list[str]:
    folder = Path(os.environ["FRONT_ENDS"])
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    asked = {**vars(talk), "client": name, "model": MODEL, "page": PAGE, "parameters": ANYTHING}
    made = subprocess.run(
        ["node", SCRIPT.name, json.dumps(asked)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert made.returncode == 0, made.stderr
    answers: list[str] = json.loads(made.stdout)
    return answers


SCRIPT = Path(__file__).parents[1] / "front_ends" / "gateway_clients.mjs"
IN_PYTHON: dict[str, Callable[[Talk], list[str]]] = {
    "openai": openai_python,
    "litellm": litellm,
    "langchain_openai": langchain_openai,
    "pydantic_ai": pydantic_ai,
    "llm": llm,
    "openai, responses": openai_responses,
    "agents, responses": agents,
    "agents, responses by id": functools.partial(agents, by_id=True),
    "pydantic_ai, responses": functools.partial(pydantic_ai, model="OpenAIResponsesModel"),
    "pydantic_ai, responses by id": functools.partial(
        pydantic_ai, model="OpenAIResponsesModel", openai_previous_response_id="auto"
    ),
}
IN_NODE = {
    "openai (npm)": "openai",
    "ai (npm)": "ai",
    "openai (npm), responses": "openaiResponses",
    "ai (npm), responses": "aiResponses",
}
CLIENTS = [*IN_PYTHON, *IN_NODE]


def client_named(name: str) -> Callable[[Talk], list[str]]:
    """The client, or the test is skipped."""
    if name in IN_NODE:
        if "FRONT_ENDS" not in os.environ:
            pytest.skip(NO_FRAMEWORKS)
        return functools.partial(of_node, IN_NODE[name])
    if not importlib.util.find_spec(name.partition(",")[0]):
        pytest.skip(NO_FRAMEWORKS)
    return IN_PYTHON[name]
