"""A key in every field of a stored conversation, sent through every door of ``contrib`` with every option of it.

The bodies that the provider received are searched. A door is named in ``DOORS``; a module of ``contrib`` that is not
named there fails the first test.
"""

import json
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from pydantic import BaseModel

from compaction_app import chat, contrib
from compaction_app.contrib.branch import redacted
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "sk-proj-" + "Ab3dE5fG7hJ9" * 4
#: Another one, of what is new in a run.
NEW_KEY = "sk-proj-" + "Zx9cV8bN7mK6" * 4


def original(form: str, data: Any) -> dict[str, Any]:
    return {"format": form, "endpoint": "", "data": data}


def of_responses() -> list[dict[str, Any]]:
    call = {"call_id": "c2", "name": "look", "arguments": "{}", "provider_data": {"note": KEY}}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "ok", "logprobs": [KEY]}],
    }
    return [
        {"type": "reasoning", "id": KEY, "summary": [{"type": "summary_text", "text": KEY}]},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "c2", "output": KEY, "provider_data": {"note": KEY}},
        {**said, "id": KEY, "provider_data": {"note": KEY}},
    ]


def of_langchain() -> list[dict[str, Any]]:
    call = {"type": "tool_call", "id": KEY, "name": "look", "args": {"of": KEY, KEY: 1}}
    beside = {"additional_kwargs": {"note": KEY}, "response_metadata": {"note": KEY}, "name": KEY}
    return [
        {"type": "human", "data": {"content": "h", "type": "human", "id": KEY, "additional_kwargs": {"note": KEY}}},
        {"type": "ai", "data": {"content": "", "type": "ai", "tool_calls": [call], "id": "a1", **beside}},
        {"type": "tool", "data": {"content": "t", "type": "tool", "tool_call_id": KEY, "artifact": KEY}},
        {"type": "ai", "data": {"content": "ok", "type": "ai", "id": "a2", **beside}},
    ]


def of_pydantic_ai() -> list[dict[str, Any]]:
    asked = {"part_kind": "user-prompt", "content": ["p", KEY], "timestamp": "2026-01-01T00:00:00Z"}
    call = {"part_kind": "tool-call", "tool_name": "look", "args": {"of": KEY}, "tool_call_id": "c3", "id": KEY}
    result = {"part_kind": "tool-return", "tool_name": "look", "content": KEY, "tool_call_id": "c3", "metadata": KEY}
    thought = {"part_kind": "thinking", "content": KEY, "signature": KEY, "provider_name": "openai", "id": KEY}
    return [
        {"kind": "request", "parts": [asked]},
        {"kind": "response", "parts": [thought, call], "provider_details": {"note": KEY}, "model_name": "house-model"},
        {"kind": "request", "parts": [{**result, "timestamp": "2026-01-01T00:00:00Z"}]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": f"ok {KEY}"}], "model_name": "house-model"},
    ]


def of_fields() -> list[dict[str, Any]]:
    call = {"id": KEY, "type": "function", "function": {"name": "look", "arguments": json.dumps({KEY: [KEY]})}}
    image = {"type": "image", "name": KEY, "url": f"https://example.org/?key={KEY}", "mime_type": "image/png"}
    beside = {"metadata": {KEY: KEY}, "name": KEY}
    odd = {"role": "assistant", "content": "o", "audio": {"id": KEY}, "provider_note": KEY}
    return [
        {"role": "user", "content": f"My key is {KEY}", "attachments": [image], "external_id": KEY, **beside},
        {"role": "assistant", "content": KEY, "tool_calls": [call], "reasoning": KEY, "model": KEY},
        {"role": "tool", "tool_call_id": KEY, "content": KEY, **beside},
        {"role": "assistant", "content": "", "original": original("openai", odd)},
        {"role": "system", "content": KEY},
        {"role": "user", "content": "anthropic", "original": original("anthropic", [{"type": "text", "text": KEY}])},
        {"role": "assistant", "content": "Yes."},
    ]


FORMS = {"fields": of_fields, "responses": of_responses, "langchain": of_langchain, "pydantic_ai": of_pydantic_ai}


@pytest.fixture
def said(session: ChatSession, settings: Any) -> ChatSession:
    """A conversation with the key wherever a field may have it, the older part of it summarized."""
    settings.COMPACTION = {"SUMMARIZER": "extractive", "CONTEXT_WINDOW": 60_000}
    session.title = session.system_prompt = session.external_id = KEY
    session.metadata = {KEY: KEY}
    session.save()
    tip = None
    for number in range(12):
        tip = chat.append_message(
            session, tip, role=("user", "assistant")[number % 2], content=f"Key {KEY} of the Ada. " * 40
        )
    chat.compact(tip)
    for made in FORMS.values():
        tip = chat.append_messages(session, tip, made())[-1]
    settings.COMPACTION |= {"REDACTOR": "compaction_app.redaction.redact_secrets"}
    return session


# -- the doors -------------------------------------------------------------------------------------------


async def agents(url: str, session: ChatSession, option: str, form: str) -> None:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        RunConfig,
        Runner,
        SessionSettings,
        handoff,
        set_tracing_disabled,
    )
    from agents.extensions import handoff_filters
    from openai import AsyncOpenAI

    from compaction_app.contrib.openai_agents import TreeSession

    set_tracing_disabled(True)
    made = OpenAIResponsesModel if form.startswith("responses") else OpenAIChatCompletionsModel
    model = made("house-model", AsyncOpenAI(base_url=url, api_key="none", max_retries=0))
    limit = SessionSettings(limit=15)
    kept = TreeSession(session, session_settings=limit if option == "limit" else None)
    config: dict[str, Any] = {
        "limit of the run": {"session_settings": limit},
        "callback": {"session_input_callback": lambda history, new: history[-12:] + new},
        "callback that changes nothing": {"session_input_callback": lambda history, new: history + new},
        "handoff as a text": {"nest_handoff_history": True},
    }.get(option, {})
    keep = handoff_filters.remove_all_tools if option == "handoff filter" else None
    other = Agent("other", handoff_description="Other.", model=model, instructions=NEW_KEY)
    agent = Agent("house", instructions=f"Be brief. {NEW_KEY}", model=model)
    if option.startswith("handoff"):
        agent.handoffs = [handoff(other, input_filter=keep)]
    given = [] if option == "the stored question" else f"My other key is {NEW_KEY}"
    run_config = kept.run_config(**config)
    if option.startswith("without run_config"):
        given, agent.instructions, run_config = (
            "Go on.",
            None,
            RunConfig(session_settings=limit if "limit" in option else None),
        )
    if form.endswith("streamed"):
        async for _ in Runner.run_streamed(agent, given, session=kept, run_config=run_config).stream_events():
            pass
    else:
        await Runner.run(agent, given, session=kept, run_config=run_config)


async def pydantic_ai(url: str, session: ChatSession, option: str, form: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from compaction_app.contrib.pydantic_ai import ModelMessagesTypeAdapter, TreeHistory

    is_responses = form.startswith("responses")
    made: Any = OpenAIResponsesModel if is_responses else OpenAIChatModel
    # It sends reasoning back only to models of which it knows that they reason.
    name = "gpt-5-mini" if is_responses else "house-model"
    model = made(name, provider=OpenAIProvider(base_url=url, api_key="none"))

    def look(of: str) -> str:
        return NEW_KEY

    look.__doc__ = f"Look with {NEW_KEY}."
    history = TreeHistory(session)
    given: str | None = f"My other key is {NEW_KEY}"
    how: dict[str, Any] = {}
    if option == "the stored question":
        given, how = None, {"message_history": await history.history()}
    elif option == "a list of the host's":
        how = {"message_history": ModelMessagesTypeAdapter.validate_python(of_pydantic_ai())}
    capabilities: list[Any] = [history]
    if option == "history processor":
        others = ModelMessagesTypeAdapter.validate_python(of_pydantic_ai())
        capabilities.append(ProcessHistory(lambda messages: [*others, *messages]))
    settings: Any = {"user": NEW_KEY} if option == "settings" else None
    said = {"instructions": f"Be brief. {NEW_KEY}", "system_prompt": NEW_KEY}
    agent = Agent(model, tools=[look], model_settings=settings, **said)
    if form.endswith("streamed"):
        async with agent.run_stream(given, capabilities=capabilities, **how) as run:
            await run.get_output()
    else:
        await agent.run(given, capabilities=capabilities, **how)


async def langchain(url: str, session: ChatSession, option: str, form: str) -> None:
    import httpx
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelRetryMiddleware, wrap_model_call
    from langchain_core.messages import messages_from_dict
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from compaction_app.contrib.langchain import TreeMiddleware

    @tool(description=f"Look with {NEW_KEY}.")
    def look(of: str) -> str:
        return NEW_KEY

    tree = TreeMiddleware(session)

    @wrap_model_call
    async def with_settings(request: Any, handler: Any) -> Any:
        return await handler(request.override(model_settings={"user": NEW_KEY}))

    outside = {"retry outside": [ModelRetryMiddleware(max_retries=1)], "settings": [with_settings]}.get(option, [])
    middleware = [*outside, tree]
    saver = InMemorySaver() if option == "checkpointer" else None
    thread: Any = {"configurable": {"thread_id": "1"}}
    messages: list[Any] = [{"role": "user", "content": f"My other key is {NEW_KEY}"}]
    if option == "a list with replies":
        messages = [*messages_from_dict(of_langchain()), *messages]
    if option == "the stored question":
        messages = []
    async with httpx.AsyncClient() as client:
        model = ChatOpenAI(
            model="house-model",
            base_url=url,
            api_key="none",
            max_retries=0,
            http_async_client=client,
            use_responses_api=form.startswith("responses"),
        )
        agent = create_agent(model, [look], system_prompt=NEW_KEY, middleware=middleware, checkpointer=saver)
        for asked in (messages, [{"role": "user", "content": NEW_KEY}]):
            if form.endswith("streamed"):
                async for _ in agent.astream({"messages": asked}, thread, stream_mode="messages"):
                    pass
            else:
                await agent.ainvoke({"messages": asked}, thread)


async def stream(url: str, session: ChatSession, option: str, form: str) -> None:
    from openai import OpenAI

    from compaction_app.contrib.stream.asked import Asking, find_or_append
    from compaction_app.contrib.stream.replies import Reply

    def asked() -> None:
        file = {"type": "file", "filename": NEW_KEY, "mediaType": "text/plain", "url": f"data:,{NEW_KEY}"}
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": NEW_KEY}, file]}
        trigger = "regenerate-message" if option == "again" else "submit-message"
        question = find_or_append(session, Asking.model_validate({"messages": [message], "trigger": trigger}))
        look = {"name": "look", "description": NEW_KEY, "parameters": {}}
        turn = {
            "client": OpenAI(base_url=url, api_key="none", max_retries=0),
            "model": "house-model",
            "tools": [{"type": "function", "function": look}],
            "contributions": [{"role": "system", "content": NEW_KEY}],
            "run_tool": lambda call: NEW_KEY,
            "user": NEW_KEY,
        }
        reply = Reply(question, turn)
        reply.start(regenerate=option == "again")
        assert reply.over.wait(30)
        assert "error" not in [part["type"] for part in reply.parts], reply.parts

    await sync_to_async(asked)()


Door = Callable[[str, ChatSession, str, str], Any]
SENT = ("chat", "chat streamed", "responses", "responses streamed")
#: Of a module of contrib: how it is run, the forms of its requests, and its options.
DOORS: dict[str, tuple[Door, Sequence[str], Sequence[str]]] = {
    "openai_agents": (
        agents,
        SENT,
        [
            "usual",
            "the stored question",
            "limit",
            "limit of the run",
            "callback",
            "callback that changes nothing",
            "handoff",
            "handoff filter",
            "handoff as a text",
            "without run_config",
            "without run_config, with a limit",
        ],
    ),
    "pydantic_ai": (
        pydantic_ai,
        SENT,
        ["usual", "the stored question", "a list of the host's", "history processor", "settings"],
    ),
    "langchain": (
        langchain,
        SENT,
        ["usual", "the stored question", "a list with replies", "checkpointer", "retry outside", "settings"],
    ),
    "stream": (stream, SENT[1:2], ["usual", "again"]),
}
#: Its own test searches all that a client may say: test_all_that_a_client_says_passes_the_redactor.
ELSEWHERE = {"gateway"}
SENDS_NOTHING = {"branch", "histories", "sse"}


def test_every_door_is_named():
    found = {module.name for module in pkgutil.iter_modules(contrib.__path__)}
    assert found == DOORS.keys() | ELSEWHERE | SENDS_NOTHING


@dataclass
class Row:
    key: str


class Port(BaseModel):
    key: str


def test_what_a_framework_holds_as_objects_is_redacted_at_any_depth(settings):
    """As a history processor may pass on what a tool returned. A dict within was taken for JSON."""
    settings.COMPACTION = {"REDACTOR": "compaction_app.redaction.redact_secrets"}
    assert KEY not in repr(redacted([Row(KEY), {"rows": [Row(KEY), Port(key=KEY)], KEY: 1}]))
    assert redacted([Port(key="Brest")]) == [Port(key="Brest")]
    assert redacted({7: "tides"}) == {7: "tides"}


def answer(exchange: Any) -> None:
    """Each tool is called once in a run, and then there is an answer."""
    tools = [one.get("function", one) for one in exchange.body.get("tools") or ()]
    named = next((one["name"] for one in tools if one["name"] in ("look", "transfer_to_other")), "")
    if named and exchange.number % 2:
        calls((f"call_{exchange.number}", named, {"of": NEW_KEY} if named == "look" else {}))(exchange)
    else:
        steps.reply("Aye.")(exchange)


@pytest.mark.parametrize(
    ("door", "option"),
    [
        pytest.param(door, one, marks=[pytest.mark.long] * (at > 0))
        for door, (*_, options) in DOORS.items()
        for at, one in enumerate(options)
    ],
)
def test_no_key_is_sent(door, option, server, said):
    """In Chat Completions and Responses, whole and streamed."""
    run, forms, _ = DOORS[door]
    if door != "stream":
        pytest.importorskip({"openai_agents": "agents"}.get(door, door), reason=NO_FRAMEWORKS)
    for form in forms:
        server.reset()
        if option in ("the stored question", "again"):
            chat.append_message(
                said, chat.tips(said)[-1], role="user", content=KEY, external_id="m1" * (door == "stream")
            )
        server.script([steps.server_error()] if option == "retry outside" else (), default=answer)
        async_to_sync(run)(server.url, said, option, form)
        bodies = json.dumps(server.requests)
        assert "secret removed" in bodies, "the conversation was sent"
        assert (KEY in bodies, NEW_KEY in bodies) == (False, False), form
    assert said.messages.filter(content__contains=KEY).count() > 10, "what is stored stays as it is"
