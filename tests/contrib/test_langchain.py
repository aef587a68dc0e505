"""What only LangChain has: checkpoints, and tools whose result is the answer."""

import pytest

from compaction_app import chat
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("langchain", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from langchain.agents import create_agent  # noqa: E402
from langchain.agents.middleware import ModelRetryMiddleware  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402

from compaction_app.contrib.langchain import TreeMiddleware  # noqa: E402


@pytest.fixture
def model(server):
    return ChatOpenAI(model="house-model", base_url=server.url, api_key="none", max_retries=0)


def ask(text):
    return {"messages": [{"role": "user", "content": text}]}


def test_time_travel_makes_a_branch(model, server, session):
    server.script([steps.reply("one"), steps.reply("two"), steps.reply("three")])
    tree, config = TreeMiddleware(session, None), {"configurable": {"thread_id": "1"}}
    agent = create_agent(model, [], middleware=[tree], checkpointer=InMemorySaver())
    agent.invoke(ask("q1"), config)
    agent.invoke(ask("q2"), config)
    fork = next(one for one in agent.get_state_history(config) if len(one.values.get("messages", ())) == 2)
    agent.invoke(ask("q2, edited"), fork.config)
    assert [one["content"] for one in server.requests[-1]["messages"]] == ["q1", "one", "q2, edited"]
    assert [[one.content for one in chat.get_branch(tip)] for tip in chat.tips(session)] == [
        ["q1", "one", "q2", "two"],
        ["q1", "one", "q2, edited", "three"],
    ]
    assert tree.tip.content == "three"


def test_a_tool_whose_result_is_the_answer(model, server, session):
    @tool(return_direct=True)
    def lookup(name: str) -> str:
        """A number."""
        return "42"

    server.script([calls(("c1", "lookup", {"name": "x"})), steps.reply("Yes.")])
    tree = TreeMiddleware(session, None)
    agent = create_agent(model, [lookup], middleware=[tree])
    agent.invoke(ask("Which?"))
    assert [one.role for one in chat.get_branch(tree.tip)] == ["user", "assistant", "tool"]
    agent.invoke(ask("Sure?"))
    assert [one["role"] for one in server.requests[-1]["messages"]] == ["user", "assistant", "tool", "user"]


def test_both_system_prompts_are_sent(model, server, session):
    session.system_prompt = "You are the house."
    session.save()
    create_agent(model, [], system_prompt="Be brief.", middleware=[TreeMiddleware(session, None)]).invoke(ask("q"))
    assert server.requests[-1]["messages"][0] == {"role": "system", "content": "You are the house.\n\nBe brief."}


def test_a_middleware_around_it_that_asks_again_stores_the_question_once(model, server, session):
    server.script([steps.server_error(), steps.reply("Aye.")])
    tree = TreeMiddleware(session, None)
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0)
    create_agent(model, [], middleware=[retry, tree]).invoke(ask("Ready?"))
    assert [one.content for one in chat.get_branch(tree.tip)] == ["Ready?", "Aye."]
    assert session.messages.count() == 2
