"""Whoever keeps an id outside the database goes on at the nearest message that is still there, or is told in words."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.api.errors import Problem
from compaction_app.contrib.branch import NEWEST, FrameworkBranch, nearest
from compaction_app.contrib.gateway.placing import Place, place_beside
from compaction_app.contrib.stream.asked import Asking, find_or_append
from compaction_app.exceptions import InvalidParent, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing import steps
from tests.builders import grow
from tests.plugin import NO_FRAMEWORKS

pytestmark = pytest.mark.django_db(transaction=True)

#: Runs with a text, or with several at once, and gives back the object that holds the tip.
Asks = Callable[..., Any]


def agents(url: str, session: ChatSession, tip: Any = NEWEST) -> Asks:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    from compaction_app.contrib.openai_agents import TreeSession

    set_tracing_disabled(True)
    kept = TreeSession(session, tip)

    async def ask(text: str) -> Any:
        model = OpenAIChatCompletionsModel("house-model", AsyncOpenAI(base_url=url, api_key="none", max_retries=0))
        await Runner.run(Agent("house", model=model), text, session=kept, run_config=kept.run_config())
        return kept

    return ask


def pydantic_ai(url: str, session: ChatSession, tip: Any = NEWEST) -> Asks:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from compaction_app.contrib.pydantic_ai import TreeHistory

    history = TreeHistory(session, tip)

    async def ask(text: str) -> Any:
        model = OpenAIChatModel("house-model", provider=OpenAIProvider(base_url=url, api_key="none"))
        await Agent(model).run(text, capabilities=[history])
        return history

    return ask


def langchain(url: str, session: ChatSession, tip: Any = NEWEST, saver: Any = None) -> Asks:
    import httpx
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from compaction_app.contrib.langchain import TreeMiddleware

    tree = TreeMiddleware(session, tip)

    async def ask(text: str, **more: Any) -> Any:
        async with httpx.AsyncClient() as client:
            named: Any = {"base_url": url, "api_key": "none", "max_retries": 0, "http_async_client": client}
            agent = create_agent(ChatOpenAI(model="house-model", **named), [], middleware=[tree], checkpointer=saver)
            thread: Any = {"configurable": {"thread_id": "1"}}
            await agent.ainvoke({"messages": [{"role": "user", "content": text, **more}]}, thread)
        return tree

    return ask


def langchain_thread(url: str, session: ChatSession, tip: Any = NEWEST) -> Asks:
    """The state holds the ids: each run is one of another process."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()

    async def ask(text: str, **more: Any) -> Any:
        return await langchain(url, session, tip, saver)(text, **more)

    return ask


HOLDERS = {"agents": agents, "pydantic_ai": pydantic_ai, "langchain": langchain, "thread": langchain_thread}


@pytest.fixture(params=HOLDERS)
def holder(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip({"thread": "langchain"}.get(request.param, request.param), reason=NO_FRAMEWORKS)
    return HOLDERS[request.param]


def said(tip: Any) -> list[str]:
    return [one.content for one in chat.get_branch(tip)]


def asked(server: Any) -> list[str]:
    return [one["content"] for one in server.requests[-1]["messages"]]


@pytest.mark.few
@pytest.mark.parametrize("deleted", ["a2", "q2", "a1", "q1"])
def test_what_was_deleted_between_two_runs(deleted, holder, server, session):
    """A branch beside it has newer messages, and is another one."""
    ask = holder(server.url, session)
    server.script(map(steps.reply, ("a1", "a2", "a3")))
    for text in ("q1", "q2"):
        kept = async_to_sync(ask)(text)
    rows = {one.content: one for one in chat.get_branch(kept.tip)}
    chat.append_message(session, rows["a1"], role="user", content="beside it")
    chat.delete_message(rows[deleted])
    left = ["q1", "a1", "q2", "a2"][: ["q1", "a1", "q2", "a2"].index(deleted)]
    kept = async_to_sync(ask)("q3")
    assert asked(server) == [*left, "q3"]
    assert said(kept.tip) == [*left, "q3", "a3"]


def test_what_was_deleted_above_a_tip_that_a_host_keeps(holder, server, session):
    """A new object knows the tip and the message above it."""
    rows = grow(session, None, "u a u a")
    chat.delete_message(rows[3])
    kept = async_to_sync(holder(server.url, session, rows[3]))("And?")
    assert len(said(kept.tip)) == 5
    chat.delete_message(rows[1])
    with pytest.raises(MessageNotFound, match="was deleted, and what is known above it: pass the message"):
        async_to_sync(holder(server.url, session, rows[3]))("And?")
    [again] = chat.tips(session)
    assert again == rows[0]
    assert len(server.requests) == 1


def test_a_session_that_was_deleted_and_a_tip_of_another_one(holder, server, session, owner):
    ask = holder(server.url, session)
    kept = async_to_sync(ask)("q1")
    other = chat.start_session(owner=owner)
    with pytest.raises(InvalidParent, match="another session"):
        async_to_sync(holder(server.url, other, kept.tip))("q2")
    chat.delete_session(session)
    with pytest.raises(MessageNotFound, match="does not exist any more"):
        async_to_sync(ask)("q2")
    assert len(server.requests) == 1


def test_six_runs_at_once_from_one_tip_make_branches(holder, server, session):
    """Of one object, and also where one begins while a model answers another. The SDK's session is for one run."""
    tip = grow(session, None, "u a")[-1]

    def when_all_have_asked(exchange: Any) -> None:
        while len(server.requests) < 6 and exchange.wait(0.02):
            pass
        steps.reply("Aye.")(exchange)

    async def later(ask: Asks, number: int) -> Any:
        if number > 2:
            await asyncio.to_thread(server.wait_for, 3, 30)
        return await ask(f"q{number}")

    server.script(default=when_all_have_asked)

    async def at_once() -> None:
        ask = holder(server.url, session, tip)
        asks = [holder(server.url, session, tip) if holder in (agents, langchain_thread) else ask for _ in range(6)]
        await asyncio.gather(*(later(one, number) for number, one in enumerate(asks)))

    async_to_sync(at_once)()
    assert sorted(said(one)[2] for one in chat.tips(session)) == [f"q{number}" for number in range(6)]
    assert {len(said(one)) for one in chat.tips(session)} == {4}


def test_an_edit_by_the_same_id_makes_a_branch_also_where_its_message_is_gone(server, session):
    pytest.importorskip("langchain", reason=NO_FRAMEWORKS)
    ask = langchain_thread(server.url, session)
    for text in ("q1", "q2"):
        kept = async_to_sync(ask)(text, id=text)
    async_to_sync(ask)("q2, edited", id="q2")
    assert [said(tip)[2] for tip in chat.tips(session)] == ["q2", "q2, edited"]
    kept = async_to_sync(ask)("q3", id="q3")
    chat.delete_message(chat.get_branch(kept.tip)[2])
    kept = async_to_sync(ask)("q2, edited again", id="q2")
    assert said(kept.tip)[2] == "q2, edited again"


@pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message])
def test_a_question_that_is_erased_before_it_is_asked_again_is_not_stored_again(erase, server, session):
    """A middleware around this one asks again, and so does a host that gives the whole list."""
    pytest.importorskip("langchain", reason=NO_FRAMEWORKS)
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelRetryMiddleware
    from langchain_openai import ChatOpenAI

    from compaction_app.contrib.langchain import TreeMiddleware

    def fail(exchange: Any) -> None:
        for one in chat.tips(session):
            erase(one)
        steps.server_error()(exchange)

    named: Any = {"base_url": server.url, "api_key": "none", "max_retries": 0}
    tree = TreeMiddleware(session)
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0)
    agent = create_agent(ChatOpenAI(model="house-model", **named), [], middleware=[retry, tree])
    server.script([fail, steps.reply("Aye.")])
    with suppress(MessageNotFound):
        agent.invoke({"messages": [{"role": "user", "content": "My name is Ottoline"}]})
    assert len(server.requests) == (2 if erase is chat.redact_message else 1)
    assert "Ottoline" not in str(server.requests[1:])
    assert not session.messages.filter(content__contains="Ottoline").exists()


@pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message])
def test_a_list_that_still_has_what_was_erased(erase, server, session):
    pytest.importorskip("langchain", reason=NO_FRAMEWORKS)
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from compaction_app.contrib.langchain import TreeMiddleware

    named: Any = {"base_url": server.url, "api_key": "none", "max_retries": 0}
    tree = TreeMiddleware(session)
    agent = create_agent(ChatOpenAI(model="house-model", **named), [], middleware=[tree])
    server.script(map(steps.reply, ("Hello.", "You are Ottoline.", "I forgot.")))
    messages: list[Any] = []
    for text in ("Hi", "Who am I?"):
        messages = agent.invoke({"messages": [*messages, {"role": "user", "content": text}]})["messages"]
    erase(tree.tip)
    agent.invoke({"messages": [*messages, {"role": "user", "content": "And now?"}]})
    assert said(tree.tip)[:3] == ["Hi", "Hello.", "Who am I?"]
    assert said(tree.tip)[-2:] == ["And now?", "I forgot."]
    assert "Ottoline" not in str(list(session.messages.values())) + str(server.requests[-1])


def test_the_nearest_of_a_branch(session):
    rows = grow(session, None, "u a u a")
    ids = [0, *(one.pk for one in rows)]
    assert nearest(session, ids) == rows[3]
    chat.delete_message(rows[1])
    assert nearest(session, ids) == rows[0]
    with pytest.raises(MessageNotFound):
        nearest(session, ids[2:])
    branch = FrameworkBranch(session, rows[3])
    branch.path = tuple(ids)
    branch.begin()
    assert (branch.tip, branch.path) == (rows[0], (0, rows[0].pk))
    chat.delete_message(rows[0])
    branch.begin()
    assert (branch.tip, branch.path) == (None, (0,))


@pytest.mark.parametrize(("deleted", "parent"), [("q2", "a1"), ("a1", "q1"), ("q1", None)])
def test_a_page_that_has_messages_which_were_deleted(deleted, parent, session):
    """Its list is the place: of its ids the nearest that is there, else it is told so."""
    tip, listed = None, []
    for number, text in enumerate(("q1", "a1", "q2", "a2")):
        role = ("user", "assistant")[number % 2]
        tip = chat.append_message(session, tip, role=role, content=text)
        listed.append({"id": str(tip.pk), "role": role, "parts": [{"type": "text", "text": text}]})
    other = chat.append_message(session, role="user", content="another branch")
    chat.delete_message(session.messages.get(content=deleted))
    asking = Asking.model_validate({"messages": [*listed, {**listed[0], "id": "q3"}]})
    if parent is None:
        with pytest.raises(Problem, match="None of those before the new one is in this session"):
            find_or_append(session, asking)
        assert chat.tips(session) == [other]
    else:
        assert find_or_append(session, asking).parent.content == parent
    edit = Asking.model_validate({"messages": [{**listed[3], "role": "user"}], "messageId": listed[3]["id"]})
    with pytest.raises(Problem, match="There is no such message"):
        find_or_append(session, edit)


def test_a_place_of_the_gateway_that_was_deleted_meanwhile(session):
    """Two models were asked at once, and the conversation is deleted before the second one has its place."""
    tip = grow(session, None, "u a u")[-1]
    found = Place(session=session, tip=ChatMessage.objects.get(pk=tip.pk), digest="d", has_reply=True)
    chat.delete_message(tip.parent)
    with pytest.raises(MessageNotFound, match=f"Message {tip.pk} does not exist any more"):
        place_beside(found)
