"""The Agents SDK's own runner, over Chat Completions and Responses, and the operations of its session."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("agents", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from agents import (  # noqa: E402
    Agent,
    MultiProvider,
    OpenAIResponsesModel,
    Runner,
    SessionSettings,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI  # noqa: E402

from compaction_app.contrib.openai_agents import TreeSession  # noqa: E402

set_tracing_disabled(True)

QUESTION = {"role": "user", "content": "q"}
CALLS = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in (1, 2)]
RESULTS = [{"type": "function_call_output", "call_id": f"c{n}", "output": str(n)} for n in (1, 2)]


@function_tool
def weather(city: str) -> str:
    return f"Rain in {city}."


@pytest.fixture
def agent():
    return Agent("house", tools=[weather])


@pytest.fixture(autouse=True)
def _model_of_this_server(server, monkeypatch):
    """A client's connections belong to an event loop, so each run has its own."""

    def model_for(provider, name):
        client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        return OpenAIResponsesModel("house-model", client)

    monkeypatch.setattr(MultiProvider, "get_model", model_for)


@pytest.fixture
def kept(session):
    return TreeSession(session, None)


def run(agent, kept, text, **options):
    return async_to_sync(Runner.run)(agent, text, session=kept, run_config=kept.run_config(**options))


def added(kept, *items):
    async_to_sync(kept.add_items)(list(items))


def items(kept, limit=None):
    return async_to_sync(kept.get_items)(limit)


def test_a_run_whose_session_has_no_input_filter(agent, kept, server):
    """What the SDK does by itself: the session is read once."""
    server.script([calls(("c1", "weather", {"city": "Oslo"})), steps.reply("Wet."), steps.reply("Yes.")])
    async_to_sync(Runner.run)(agent, "Weather?", session=kept)
    async_to_sync(Runner.run)(agent, "Sure?", session=kept)
    assert len(server.requests[-1]["input"]) == 5
    assert len(chat.get_branch(kept.tip)) == 6


def test_a_handoff(agent, kept, server):
    other = Agent("other")
    agent.handoffs = [other]
    server.script([calls(("c1", "transfer_to_other", {})), steps.reply("Here."), steps.reply("Still here.")])
    result = run(agent, kept, "Pass me on.")
    assert result.last_agent is other
    run(other, kept, "Go on.")
    kinds = [one.get("type", "message") for one in server.requests[-1]["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message"]


def test_the_newest_items_with_a_limit(agent, session, server):
    kept = TreeSession(session, None, session_settings=SessionSettings(limit=2))
    for number in range(3):
        server.script([steps.reply(f"r{number}")])
        run(agent, kept, f"q{number}")
    assert [one["content"] for one in items(kept, 3) if one["role"] == "user"] == ["q2"]
    assert len(server.requests[-1]["input"]) == 3
    assert items(kept, 0) == []


def test_calls_that_are_added_one_by_one(kept):
    for item in (QUESTION, *CALLS, *RESULTS):
        added(kept, item)
    assert items(kept) == [QUESTION, *CALLS, *RESULTS]
    sent = chat.get_context(kept.tip).to_openai()
    assert [len(one.get("tool_calls", ())) for one in sent] == [0, 2, 0, 0]


def test_an_item_is_popped(kept, session):
    added(kept, QUESTION, *CALLS)
    assert async_to_sync(kept.pop_item)() == CALLS[1]
    added(kept, RESULTS[0])
    assert items(kept) == [QUESTION, CALLS[0], RESULTS[0]]
    assert session.messages.count() == 3
    for _ in range(4):
        popped = async_to_sync(kept.pop_item)()
    assert (popped, kept.tip, session.messages.count()) == (None, None, 0)


def test_nothing_is_taken_from_another_branch(kept, session):
    added(kept, QUESTION, {"role": "assistant", "content": "a"})
    other = TreeSession(session, kept.tip)
    added(other, {"role": "user", "content": "other"})
    async_to_sync(kept.pop_item)()
    assert len(items(kept)) == 1
    added(kept, {"role": "user", "content": "mine"}, {"role": "assistant", "content": "own"})
    async_to_sync(kept.clear_session)()
    assert (items(kept), kept.tip) == ([], None)
    assert [one["content"] for one in items(other)] == ["q", "a", "other"]
    assert session.messages.count() == 3
    async_to_sync(other.clear_session)()
    assert session.messages.count() == 0


def test_a_compaction_may_be_waited_for(kept, session):
    session.settings = {"CONTEXT_WINDOW": 16_000, "SUMMARIZER": "extractive"}
    session.save()
    told = [{"role": "user", "content": f"The Ada lies at berth {number}. " * 50} for number in range(18)]
    added(kept, *told)
    async_to_sync(kept.run_compaction)({"force": True})
    shown = items(kept)
    assert "<conversation-summary>" in shown[0]["content"]
    assert len(shown) < len(told)
