"""The examples of docs/frameworks.md run as they are printed."""

import ast
import itertools
import json
import logging
import re
import sys
from pathlib import Path
from types import ModuleType

import openai
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.http import Http404, JsonResponse

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from tests.builders import grow
from tests.databases import failing
from tests.plugin import NO_FRAMEWORKS

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "frameworks.md").read_text()


def agents_sdk(url):
    from agents import Agent, OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    return {"agent": Agent("house", model=OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none")))}


def pydantic_ai(url):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return {"agent": Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none")))}


def langchain(url):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    return {"create_agent": create_agent, "tools": [], "model": ChatOpenAI(model="m", base_url=url, api_key="none")}


@pytest.mark.parametrize(
    ("package", "door", "made"),
    [
        ("agents", "TreeSession", agents_sdk),
        ("pydantic_ai", "TreeHistory", pydantic_ai),
        ("langchain", "TreeMiddleware", langchain),
    ],
)
def test_a_first_run(server, session, package, door, made):
    pytest.importorskip(package, reason=NO_FRAMEWORKS)
    [example] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f"import {door}\n" in block]
    server.script([steps.reply("Aye.")])
    tip = grow(session, None, "u a")[-1]
    names = {**made(server.url), "chat_session": session, "tip": tip}
    code = compile(example, "frameworks.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run():
        await eval(code, names)

    async_to_sync(run)()
    [end] = chat.tips(session)
    assert [one.content for one in chat.get_branch(end)][2:] == ["Hello", "Aye."]


def pay(amount: int) -> str:
    """Pay it."""
    return f"{amount} paid."


def agents_with_approval(url):
    from agents import Runner, RunState, function_tool

    from compaction_app.contrib.openai_agents import TreeSession

    agent = agents_sdk(url)["agent"]
    agent.tools = [function_tool(pay, needs_approval=True)]
    return {"agent": agent, "Runner": Runner, "RunState": RunState, "TreeSession": TreeSession}


def pydantic_ai_with_approval(url):
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool

    from compaction_app.contrib.pydantic_ai import TreeHistory

    model = pydantic_ai(url)["agent"].model
    agent = Agent(model, tools=[Tool(pay, requires_approval=True)], output_type=[str, DeferredToolRequests])
    return {"agent": agent, "DeferredToolResults": DeferredToolResults, "TreeHistory": TreeHistory}


@pytest.mark.parametrize(
    ("package", "made", "title"),
    [
        ("agents", agents_with_approval, "OpenAI's Agents SDK"),
        ("pydantic_ai", pydantic_ai_with_approval, "pydantic-ai"),
    ],
)
def test_both_ways_to_an_approval(server, session, package, made, title):
    pytest.importorskip(package, reason=NO_FRAMEWORKS)
    section = (ROOT / "docs" / "frameworks.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    _, whole, other_way = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    asked = whole[: re.search(r"\n\n|(?<=\n)result = await agent.run\(m", whole).start()]
    names = {**made(server.url), "chat_session": session}

    async def run():
        for ways in ([whole], [asked, other_way]):
            server.script([steps.tool_call("pay", '{"amount": 5}', f"c{len(ways)}"), steps.reply("Paid.")])
            for one in ways:
                block = compile(one, "frameworks.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if (awaited := eval(block, names)) is not None:
                    await awaited

    async_to_sync(run)()
    [end] = chat.tips(session)
    turn = [("user", "Pay 5."), ("assistant", ""), ("tool", "5 paid."), ("assistant", "Paid.")]
    assert [(one.role, one.content) for one in chat.get_branch(end)] == turn * 2


def test_the_gateway_of_the_page(server, live_server, settings, monkeypatch):
    [example] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "(Gateway)" in block]
    urls = ModuleType("gateway_urls")
    users = get_user_model().objects
    vars(urls).update(find_user_by_key=lambda key: users.filter(username=key).first())
    exec(example, vars(urls))  # our own document
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings.ROOT_URLCONF, settings.ALLOWED_HOSTS = urls.__name__, ["*"]
    marit = users.create_user("marit")
    client = openai.OpenAI(base_url=f"{live_server.url}/v1", api_key="marit", max_retries=0)
    question = {"role": "user", "content": "Hello"}
    server.script([steps.reply("Aye.")])
    reply = client.chat.completions.create(model="gpt-4o-mini", messages=[question]).choices[0].message.content
    [end] = chat.tips(ChatSession.objects.get(owner=marit))
    assert [one.content for one in chat.get_branch(end)] == ["Hello", reply] == ["Hello", "Aye."]


def test_the_view_of_the_frameworks_page_goes_on_where_it_broke(server, session, owner, rf):
    pytest.importorskip("pydantic_ai", reason=NO_FRAMEWORKS)
    from compaction_app.contrib.pydantic_ai import TreeHistory

    page = (Path(__file__).parent.parent.parent / "docs" / "frameworks.md").read_text()
    [view] = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def post_message" in one]
    names = {"ChatSession": ChatSession, "TreeHistory": TreeHistory, "JsonResponse": JsonResponse, "logging": logging}
    names |= pydantic_ai(server.url)
    exec(view, names)  # our own document
    server.script([steps.reply("Aye.")] * 2)
    tip = grow(session, None, "u a")[-1]

    def post(parent, **data):
        request = rf.post("/", data)
        request.user = owner
        return json.loads(async_to_sync(names["post_message"])(request, session.pk, parent).content)

    inserts = itertools.count(1)
    with failing(lambda sql: sql.startswith('INSERT INTO "compaction_app_chatmessage') and next(inserts) == 2):
        broken = post(tip.pk, content="Hello")
    assert post(broken["id"])["content"] == "Aye."
    [end] = chat.tips(session)
    assert [one.content for one in chat.get_branch(end)][2:] == ["Hello", "Aye."]
    chat.delete_message(tip)
    with pytest.raises(Http404):
        post(broken["id"], content="Hello")
