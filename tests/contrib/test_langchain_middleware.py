"""Beside every middleware that LangChain ships: a question is stored, sent, and answered once."""

import json

import pytest

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("langchain", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from langchain.agents import create_agent, middleware  # noqa: E402
from langchain.agents.middleware import AgentMiddleware, after_model, before_model, hook_config  # noqa: E402
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy  # noqa: E402
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.graph.message import REMOVE_ALL_MESSAGES  # noqa: E402
from langgraph.types import Command  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from compaction_app.contrib.langchain import TreeMiddleware  # noqa: E402

THREAD = {"configurable": {"thread_id": "1"}}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


class Decides(BaseDecisionModel):
    """Nothing is a risk, and the first choice is taken."""

    model: str = "none"

    @property
    def _provider(self):
        return "none"

    def _classify(self, state, questions):
        made = {
            "noul": {"type": "noul", "noul": 0.0},
            "choice": {"type": "choice", "choice": "house", "probabilities": {"house": 1.0}, "confidence": 1.0},
        }
        return ClassifierResponse(model="none", answers={key: made[one.type] for key, one in questions.items()})


def a_model(server, name="house-model", **options):
    return ChatOpenAI(model=name, base_url=server.url, api_key="none", max_retries=0, **options)


def answer(exchange):
    """A tool is called for each question, and then there is an answer. Another model helps a middleware."""
    given = exchange.body["messages"]
    if exchange.model != "house-model":
        text = json.dumps({"tools": ["weather"]}) if "response_format" in exchange.body else "SUMMARY"
        exchange.send_message({"content": text}, finish_reason="stop")
    elif given[-1]["role"] == "user" and any(one["function"]["name"] == "weather" for one in exchange.body["tools"]):
        calls((f"call_{exchange.number}", "weather", {"city": "Oslo"}))(exchange)
    else:
        exchange.send_message({"content": f"Answer {exchange.number}"}, finish_reason="stop")


def ask(text, **more):
    return {"messages": [{"role": "user", "content": text, **more}]}


@before_model
def trim_messages(state, runtime):
    messages = state["messages"]
    kept = [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[0], *messages[-3:]]
    return {"messages": kept} if len(messages) > 3 else None


@after_model
def delete_old_messages(state, runtime):
    messages = state["messages"]
    return {"messages": [RemoveMessage(id=one.id) for one in messages[:2]]} if len(messages) > 2 else None


@before_model
def keep_the_last_and_a_summary(state, runtime):
    *others, last = state["messages"]
    kept = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("So far: …"), last]
    return {"messages": kept} if others and last.type == "human" else None


@after_model
def note_after(state, runtime):
    return None if state["messages"][-1].tool_calls else {"messages": [AIMessage("(checked)")]}


SHIPPED = {
    "AutoModeMiddleware": lambda of, house, helper: of(tools=[pay], classifier=Decides()),
    "ContextEditingMiddleware": lambda of, house, helper: of(edits=[middleware.ClearToolUsesEdit(trigger=20, keep=0)]),
    "FilesystemFileSearchMiddleware": lambda of, house, helper: of(root_path="."),
    "HumanInTheLoopMiddleware": lambda of, house, helper: of(interrupt_on={"pay": True}),
    "LLMToolEmulator": lambda of, house, helper: of(model=helper),
    "LLMToolSelectorMiddleware": lambda of, house, helper: of(model=helper),
    "ModelCallLimitMiddleware": lambda of, house, helper: of(run_limit=1),
    "ModelFallbackMiddleware": lambda of, house, helper: of(helper),
    "ModelRouterMiddleware": lambda of, house, helper: of(
        choices={"house": middleware.ModelChoice(model=house, criteria="All.")},
        instructions="Any.",
        classifier=Decides(),
    ),
    "ModelRefusalMiddleware": lambda of, house, helper: of(),
    "ModelRetryMiddleware": lambda of, house, helper: of(),
    "PIIMiddleware": lambda of, house, helper: of("email", apply_to_output=True),
    "ProviderToolSearchMiddleware": lambda of, house, helper: of(),
    "ShellToolMiddleware": lambda of, house, helper: of(),
    "SummarizationMiddleware": lambda of, house, helper: of(helper, trigger=("messages", 4), keep=("messages", 1)),
    "TodoListMiddleware": lambda of, house, helper: of(),
    "ToolCallLimitMiddleware": lambda of, house, helper: of(thread_limit=1, exit_behavior="end"),
    "ToolErrorMiddleware": lambda of, house, helper: of(str),
    "ToolRetryMiddleware": lambda of, house, helper: of(),
}
HOOKS = (trim_messages, delete_old_messages, keep_the_last_and_a_summary, note_after)
#: What these leave in the state is less than was said.
SHORTEN = {"SummarizationMiddleware", *(one.name for one in HOOKS[:3])}


def test_every_middleware_is_tried():
    shipped = {name for name in middleware.__all__ if isinstance(getattr(middleware, name), type)}
    shipped = {name for name in shipped if issubclass(getattr(middleware, name), AgentMiddleware)}
    assert shipped - SHIPPED.keys() == {"AgentMiddleware"}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", [*SHIPPED, *(one.name for one in HOOKS)])
def test_the_newest_question_is_sent_and_stored(name, is_first, server, session):
    """After 1 and more turns: 10 where the state is shortened."""
    server.script(default=answer)
    made = {one.name: one for one in HOOKS}.get(name)
    other = made or SHIPPED[name](getattr(middleware, name), a_model(server), a_model(server, "helper"))
    saver = InMemorySaver()
    turns = 11 if name in SHORTEN else 3
    for number in range(turns):
        # As in another process.
        tree = TreeMiddleware(type(session).objects.get(pk=session.pk))
        both = [tree, other] if is_first else [other, tree]
        agent = create_agent(a_model(server), [weather, pay], middleware=both, checkpointer=saver)
        agent.invoke(ask(f"Question {number}"), THREAD)
        if number in (1, turns - 1):
            sent = [one for one in server.requests if one["model"] == "house-model"][-1]["messages"]
            asked = [one["content"] for one in sent if one["role"] == "user"]
            assert asked == [f"Question {one}" for one in range(number + 1)]
    branch = chat.get_branch(tree.tip)
    assert [one.content for one in branch if one.role == "user"] == asked
    if name not in SHORTEN:
        state = agent.get_state(THREAD).values["messages"]
        assert [one.content for one in branch] == [one.text for one in state]
        assert session.messages.count() == len(branch)


def turns(server, session, *scripted, extra=(), tools=(weather, pay), **options):
    """An agent of a thread that remembers, and its middleware; each process has its own."""
    server.script(scripted)
    tree = TreeMiddleware(session)
    agent = create_agent(a_model(server), list(tools), middleware=[tree, *extra], **options)
    return agent, tree


def said(tree):
    return [one.content for one in chat.get_branch(tree.tip)]


def texts(agent):
    return [one.text for one in agent.get_state(THREAD).values["messages"]]


DECISIONS = {
    "approve": ({"type": "approve"}, "Paid 5."),
    "edit": ({"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 7}}}, "Paid 7."),
    "reject": ({"type": "reject", "message": "Too much."}, "Too much."),
    "respond": ({"type": "respond", "message": "By cheque."}, "By cheque."),
}


@pytest.mark.parametrize("before", [0, 1, 10])
@pytest.mark.parametrize("kind", DECISIONS)
def test_an_approval_goes_on_where_it_was_interrupted(kind, before, server, session):
    """Another process answers it, and the branch is what the state has."""
    decision, result = DECISIONS[kind]
    saver, gate = InMemorySaver(), middleware.HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    both = calls(("c1", "weather", {"city": "Oslo"}), ("c2", "pay", {"amount": 5}))
    agent, _ = turns(server, session, *map(steps.reply, "x" * before), both, extra=[gate], checkpointer=saver)
    for number in range(before + 1):
        agent.invoke(ask(f"q{number}"), THREAD)
    agent, tree = turns(server, session, steps.reply("Done."), steps.reply("Yes."), extra=[gate], checkpointer=saver)
    agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    agent.invoke(ask("Sure?"), THREAD)
    assert said(tree) == texts(agent)
    assert session.messages.count() == len(said(tree)) == 2 * before + 7
    [paid] = [one for one in server.requests[-1]["messages"] if one.get("tool_call_id") == "c2"]
    assert result in paid["content"]


def test_approvals_of_each_call(server, session):
    saver = InMemorySaver()
    gate = middleware.HumanInTheLoopMiddleware(interrupt_on={"pay": True}, interrupt_mode="per_call")
    asked = calls(("c1", "pay", {"amount": 5}), ("c2", "pay", {"amount": 7}))
    agent, _ = turns(server, session, asked, extra=[gate], checkpointer=saver)
    waiting = agent.invoke(ask("Pay both"), THREAD)["__interrupt__"]
    agent, tree = turns(server, session, steps.reply("Done."), extra=[gate], checkpointer=saver)
    agent.invoke(Command(resume={one.id: {"type": "approve"} for one in waiting}), THREAD)
    assert said(tree) == texts(agent) == ["Pay both", "", "Paid 5.", "Paid 7.", "Done."]


def test_an_approval_that_nobody_gives(server, session):
    gate = middleware.HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    asked = calls(("c1", "pay", {"amount": 5}))
    agent, tree = turns(server, session, asked, steps.reply("Fine."), extra=[gate], checkpointer=InMemorySaver())
    agent.invoke(ask("Pay"), THREAD)
    agent.invoke(ask("Never mind"), THREAD)
    assert said(tree) == ["Pay", "", "Never mind", "Fine."]
    assert server.requests[-1]["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "[no result]"}


def test_what_is_taken_off_the_end_or_changed_makes_a_branch(server, session):
    agent, tree = turns(
        server, session, *map(steps.reply, ("one", "two", "three", "four")), checkpointer=InMemorySaver()
    )
    agent.invoke(ask("a"), THREAD)
    agent.invoke(ask("b"), THREAD)
    last = agent.get_state(THREAD).values["messages"][-2:]
    agent.update_state(THREAD, {"messages": [RemoveMessage(id=one.id) for one in last]})
    agent.invoke(ask("c"), THREAD)
    assert said(tree) == texts(agent) == ["a", "one", "c", "three"]
    first = agent.get_state(THREAD).values["messages"][0]
    agent.invoke(ask("A", id=first.id), THREAD)
    assert said(tree) == texts(agent) == ["A", "one", "c", "three", "four"]
    assert [one["content"] for one in server.requests[-1]["messages"]] == ["A", "one", "c", "three"]
    assert [len(chat.get_branch(tip)) for tip in chat.tips(session)] == [4, 4, 5]


def test_a_reply_that_a_hook_takes_back_is_asked_for_again(server, session):
    class Refuse(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def after_model(self, state, runtime):
            last = state["messages"][-1]
            return {"messages": [RemoveMessage(id=last.id)], "jump_to": "model"} if last.text == "No" else None

    agent, tree = turns(
        server, session, steps.reply("No"), steps.reply("Yes"), extra=[Refuse()], checkpointer=InMemorySaver()
    )
    agent.invoke(ask("Well?"), THREAD)
    assert said(tree) == texts(agent) == ["Well?", "Yes"]


def test_a_secret_that_a_middleware_takes_out_is_not_stored(server, session):
    hide = middleware.PIIMiddleware("email", apply_to_output=True)
    agent, tree = turns(server, session, steps.reply("To ann@example.org."), extra=[hide], checkpointer=InMemorySaver())
    agent.invoke(ask("Mail bob@example.org"), THREAD)
    assert said(tree) == texts(agent)
    assert not session.messages.filter(content__contains="bob@").exists()
    assert "ann@" not in said(tree)[-1]


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_structured_output(strategy, server, session):
    class Tide(BaseModel):
        hour: int

    asked = calls(("c1", "Tide", {"hour": 9})) if strategy is ToolStrategy else steps.reply('{"hour": 9}')
    agent, tree = turns(server, session, asked, asked, response_format=strategy(Tide), checkpointer=InMemorySaver())
    agent.invoke(ask("When?"), THREAD)
    assert agent.invoke(ask("Sure?"), THREAD)["structured_response"] == Tide(hour=9)
    assert said(tree) == texts(agent)


def test_a_tool_that_commands(server, session):
    @tool
    def note(city: str) -> Command:
        """Note it."""
        return Command(update={"messages": [ToolMessage("Noted.", tool_call_id="c1"), HumanMessage("(from the tool)")]})

    replies = [calls(("c1", "note", {"city": "Oslo"}), ("c2", "weather", {"city": "Kiel"})), steps.reply("Aye.")]
    agent, tree = turns(
        server, session, *replies, steps.reply("Yes."), tools=[note, weather], checkpointer=InMemorySaver()
    )
    agent.invoke(ask("Go"), THREAD)
    agent.invoke(ask("Sure?"), THREAD)
    # Nothing is between a call and its results, which providers refuse.
    assert said(tree) == ["Go", "", "Noted.", "Rain in Kiel.", "(from the tool)", "Aye.", "Sure?", "Yes."]
    assert sorted(said(tree)) == sorted(texts(agent))


def test_a_list_that_is_given_whole(server, session):
    """Its messages are known by the ids that LangChain gave them; without ids they are refused."""
    agent, tree = turns(server, session, *map(steps.reply, ("one", "two", "three")))
    messages = []
    for text in ("a", "b"):
        messages = agent.invoke({"messages": [*messages, HumanMessage(text)]})["messages"]
    assert said(tree) == ["a", "one", "b", "two"]
    assert session.messages.count() == 4
    without = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "one"}, *ask("c")["messages"]]
    with pytest.raises(InvalidMessage, match="known by its id"):
        agent.invoke({"messages": without})
    assert session.messages.count() == 4


@pytest.mark.parametrize("is_redacted", [False, True])
def test_a_run_that_failed_is_gone_on_with_in_another_process(is_redacted, server, session, settings):
    """Also after a change of ``SECRET_KEY``, and where what it stored was redacted."""
    saver = InMemorySaver()
    agent, _ = turns(server, session, steps.server_error(), checkpointer=saver)
    with pytest.raises(Exception, match="server had an error"):
        agent.invoke(ask("a"), THREAD)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key"
    if is_redacted:
        chat.redact_message(session.messages.get())
    agent, tree = turns(server, session, steps.reply("one"), checkpointer=saver)
    agent.invoke(ask("b"), THREAD)
    assert said(tree) == ["[redacted]" if is_redacted else "a", "b", "one"]
    assert texts(agent) == ["a", "b", "one"]
    assert session.messages.count() == 3


@pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message])
def test_what_was_erased_is_not_stored_again(erase, server, session):
    saver = InMemorySaver()
    agent, tree = turns(server, session, *map(steps.reply, ("one", "two", "three")), checkpointer=saver)
    agent.invoke(ask("a"), THREAD)
    agent.invoke(ask("My name is Ottoline"), THREAD)
    erase(chat.get_branch(tree.tip)[2])
    agent.invoke(ask("c"), THREAD)
    assert said(tree)[-2:] == ["c", "three"]
    assert "Ottoline" not in json.dumps(server.requests[-1])
    assert not session.messages.filter(content__contains="Ottoline").exists()
