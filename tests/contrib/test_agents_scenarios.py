"""The Agents SDK with a ``TreeSession`` stores and sends what it does with its own ``SQLiteSession``.

Each scenario is run with both, after no, one and ten earlier turns, with the same replies of a model.
"""

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from openai import AsyncOpenAI

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from compaction_app.testing.exchange import Step
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("agents", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from agents import (  # noqa: E402
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    OpenAIResponsesModel,
    OutputGuardrail,
    RunConfig,
    Runner,
    RunState,
    SessionSettings,
    SQLiteSession,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.extensions.handoff_filters import remove_all_tools  # noqa: E402

from compaction_app.contrib.openai_agents import TreeSession  # noqa: E402

set_tracing_disabled(True)


@function_tool
def weather(city: str = "Oslo") -> str:
    return f"Rain in {city}."


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"{amount} paid."


@function_tool
def broken() -> str:
    raise ValueError("no weather")


def paid(*amounts: int) -> Step:
    return calls(*((f"pay_{amount}", "pay", {"amount": amount}) for amount in amounts))


def trips(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, tripwire_triggered=True)


WEATHER = calls(("w1", "weather", {"city": "Oslo"}), ("w2", "weather", {"city": "Bergen"}))
DONE = steps.reply("Done.")


class Talk:
    """A conversation with one kind of session: the SDK's own, or that of a tree."""

    def __init__(self, server: Any, session: ChatSession | None) -> None:
        self.server, self.session, self.errors = server, session, list[str]()
        self.kept: Any = TreeSession(session) if session else SQLiteSession("own")
        client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        self.model = OpenAIResponsesModel("house-model", client)

    def agent(self, *script: Step, name: str = "house", **options: Any) -> Agent:
        self.server.script(script)
        return Agent(name, model=self.model, **options)

    def config(self, **options: Any) -> RunConfig:
        return self.kept.run_config(**options) if self.session else RunConfig(**options)

    async def run(self, agent: Agent, given: Any, config: dict[str, Any] | None = None, **options: Any) -> Any:
        with self.noted():
            how = {"session": self.kept, "run_config": self.config(**config or {}), **options}
            return await Runner.run(agent, given, **how)

    async def stream(self, agent: Agent, given: Any, cancelled: Any = None, **config: Any) -> Any:
        with self.noted():
            result = Runner.run_streamed(agent, given, session=self.kept, run_config=self.config(**config))
            async for _ in result.stream_events():
                if cancelled:
                    result.cancel(cancelled)
            return result

    @contextlib.contextmanager
    def noted(self) -> Any:
        try:
            yield
        except Exception as error:
            self.errors.append(type(error).__name__)

    def restart(self) -> None:
        """Another process goes on with what is stored."""
        if self.session:
            self.kept = TreeSession(self.session)

    async def approve(self, agent: Agent, result: Any, runs: Any = None, verdict: str = "approve", **how: Any) -> Any:
        state = result.to_state()
        if how.get("restarted"):
            state = await RunState.from_json(agent, json.loads(json.dumps(state.to_json())))
            self.restart()
        for item in state.get_interruptions()[: how.get("most")]:
            getattr(state, verdict)(item)
        return await (runs or self.run)(agent, state)

    async def stored(self) -> list[Any]:
        items = await (TreeSession(self.session) if self.session else self.kept).get_items()
        return [plain(item) for item in items]


def plain(item: Any) -> Any:
    """Without the ids of the server, which differ from one request to the next, and the order of stored keys."""
    given = {key: value for key, value in item.items() if key not in ("id", "status")}
    text = re.sub(r"(fc|msg)_\d+_\d+", "", json.dumps({"type": "message", **given}, sort_keys=True))
    return sorted(text) if "<CONVERSATION HISTORY>" in text else json.loads(text)


SCENARIOS: dict[str, Callable[[Talk], Any]] = {}


def scenario(run: Callable[[Talk], Any]) -> Callable[[Talk], Any]:
    SCENARIOS[run.__name__] = run
    return run


@scenario
async def streamed_tools(talk: Talk) -> None:
    await talk.stream(talk.agent(WEATHER, DONE, tools=[weather]), "Weather?")


@scenario
async def a_call_with_the_id_of_another(talk: Talk) -> None:
    once = calls(("w1", "weather", {}))
    await talk.run(talk.agent(once, once, DONE, tools=[weather]), "Weather?")


@scenario
async def a_tool_that_raises(talk: Talk) -> None:
    await talk.run(talk.agent(calls(("b1", "broken", {})), DONE, tools=[broken]), "Weather?")


@scenario
async def an_approval_in_another_process(talk: Talk) -> None:
    both = calls(("w8", "weather", {}), ("pay_5", "pay", {"amount": 5}), ("w9", "weather", {}))
    agent = talk.agent(both, DONE, tools=[pay, weather])
    await talk.approve(agent, await talk.run(agent, "Pay."), restarted=True)


@scenario
async def a_streamed_approval_in_another_process(talk: Talk) -> None:
    agent = talk.agent(WEATHER, paid(5), WEATHER, DONE, tools=[pay, weather])
    await talk.approve(agent, await talk.stream(agent, "Pay."), talk.stream, restarted=True)


@scenario
async def a_rejection(talk: Talk) -> None:
    agent = talk.agent(paid(5), DONE, tools=[pay])
    await talk.approve(agent, await talk.run(agent, "Pay."), verdict="reject", restarted=True)


@scenario
async def approvals_one_after_the_other(talk: Talk) -> None:
    agent = talk.agent(paid(5, 6, 7), paid(8), DONE, tools=[pay])
    result = await talk.run(agent, "Pay.")
    result = await talk.approve(agent, result, most=1)
    result = await talk.approve(agent, result, talk.stream, most=1, restarted=True)
    result = await talk.approve(agent, result)
    await talk.approve(agent, result, restarted=True)


@scenario
async def an_approval_of_an_agent_that_was_handed_to(talk: Talk) -> None:
    clerk = talk.agent(name="clerk", tools=[pay])
    agent = talk.agent(calls(("h1", "transfer_to_clerk", {})), paid(5), DONE, handoffs=[clerk])
    await talk.approve(agent, await talk.run(agent, "Pay."), restarted=True)


@scenario
async def an_approval_of_an_agent_that_is_a_tool(talk: Talk) -> None:
    clerk = talk.agent(name="clerk", tools=[pay]).as_tool("clerk", "Pays.")
    asks = calls(("k1", "clerk", {"input": "Pay 5."}))
    agent = talk.agent(asks, paid(5), steps.reply("Paid."), DONE, tools=[clerk])
    await talk.approve(agent, await talk.run(agent, "Pay."), restarted=True)


@scenario
async def an_approval_that_nobody_gave(talk: Talk) -> None:
    await talk.run(talk.agent(paid(5), tools=[pay]), "Pay.")
    await talk.run(talk.agent(WEATHER, DONE, tools=[weather]), "Never mind.")


@scenario
async def an_approval_after_another_question(talk: Talk) -> None:
    agent = talk.agent(paid(5), tools=[pay])
    result = await talk.run(agent, "Pay.")
    await talk.run(talk.agent(DONE), "And the weather?")
    talk.server.script([DONE])
    await talk.approve(agent, result)


@scenario
async def an_approval_before_a_guardrail(talk: Talk) -> None:
    guard = OutputGuardrail(lambda *_: GuardrailFunctionOutput(None, tripwire_triggered=False))
    options = {"tools": [pay], "output_guardrails": [guard], "tool_use_behavior": "stop_on_first_tool"}
    agent = talk.agent(paid(5), **options)
    await talk.approve(agent, await talk.run(agent, "Pay."), restarted=True)


@scenario
async def too_many_turns(talk: Talk) -> None:
    await talk.run(talk.agent(WEATHER, paid(5), tools=[weather, pay]), "Weather?", max_turns=1)


@scenario
async def a_guardrail_of_the_question(talk: Talk) -> None:
    for runs in (talk.run, talk.stream):
        for beside in (True, False):
            guard = InputGuardrail(trips, run_in_parallel=beside)
            agent = talk.agent(*([DONE] if beside else []), input_guardrails=[guard])
            await runs(agent, "Weather?")
            talk.server.reset()


@scenario
async def guardrails_after_tools(talk: Talk) -> None:
    for runs in (talk.run, talk.stream):
        await runs(talk.agent(WEATHER, DONE, tools=[weather], output_guardrails=[OutputGuardrail(trips)]), "Weather?")


@scenario
async def a_handoff(talk: Talk) -> None:
    for options in ({}, {"input_filter": remove_all_tools}):
        other = talk.agent(name="other")
        script = WEATHER, calls(("h1", "transfer_to_other", {})), DONE
        await talk.run(talk.agent(*script, tools=[weather], handoffs=[handoff(other, **options)]), "Pass me on.")


@scenario
async def a_handoff_with_words_of_its_filter(talk: Talk) -> None:
    def with_note(handed: Any) -> Any:
        note = {"role": "user", "content": "He is in a hurry."}
        return handed.clone(input_history=(*handed.input_history, note))

    other = talk.agent(name="other", tools=[weather])
    script = calls(("h1", "transfer_to_other", {})), WEATHER, DONE
    await talk.run(talk.agent(*script, handoffs=[handoff(other, input_filter=with_note)]), [ask("Pass me on.")])


@scenario
async def a_handoff_of_a_history_in_one_message(talk: Talk) -> None:
    agent = talk.agent(calls(("h1", "transfer_to_other", {})), DONE, handoffs=[talk.agent(name="other")])
    await talk.run(agent, "Pass me on.", {"nest_handoff_history": True})


@scenario
async def a_callback_that_leaves_out(talk: Talk) -> None:
    await talk.run(talk.agent(DONE), "One?", {"session_input_callback": lambda known, new: known[-2:] + new})


@scenario
async def a_callback_that_adds(talk: Talk) -> None:
    await talk.run(
        talk.agent(WEATHER, DONE, tools=[weather]),
        "One?",
        {"session_input_callback": lambda known, new: [*known, ask("Be brief."), *new]},
    )


@scenario
async def a_callback_that_repeats(talk: Talk) -> None:
    callback = {"session_input_callback": lambda known, new: [*known, *known[:1], *new]}
    await talk.run(talk.agent(DONE), "One?", callback)
    await talk.stream(talk.agent(WEATHER, DONE, tools=[weather]), "Two?", **callback)


@scenario
async def the_newest_items(talk: Talk) -> None:
    await talk.run(talk.agent(WEATHER, DONE, tools=[weather]), "One?", {"session_settings": SessionSettings(limit=3)})
    talk.kept.session_settings = SessionSettings(limit=1)
    agent = talk.agent(paid(5), DONE, tools=[pay])
    await talk.approve(agent, await talk.run(agent, "Pay."), talk.stream)
    talk.kept.session_settings = None


@scenario
async def a_question_that_is_asked_anew(talk: Talk) -> None:
    await talk.run(talk.agent(DONE), "Whether?")
    await talk.kept.pop_item()
    await talk.kept.pop_item()
    await talk.run(talk.agent(DONE), "Weather?")


@scenario
async def a_conversation_that_is_begun_anew(talk: Talk) -> None:
    await talk.kept.clear_session()
    await talk.run(talk.agent(WEATHER, DONE, tools=[weather]), "Weather?")


@scenario
async def items_in_pieces(talk: Talk) -> None:
    call = {"type": "function_call", "call_id": "w1", "name": "weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "w1", "output": "Rain."}
    for item in (ask("Weather?"), call, result, {"role": "assistant", "content": "Rain."}, ask("")):
        await talk.kept.add_items([item])


@scenario
async def a_result_without_its_call(talk: Talk) -> None:
    await talk.kept.add_items([ask("Weather?"), {"type": "function_call_output", "call_id": "x", "output": "Rain."}])


@scenario
async def a_server_that_fails(talk: Talk) -> None:
    agent = talk.agent(WEATHER, steps.server_error(), tools=[weather])
    await talk.run(agent, "Weather?")
    talk.server.script([DONE])
    await talk.run(agent, "Weather?")


@scenario
async def a_stream_that_is_cancelled(talk: Talk) -> None:
    await talk.stream(talk.agent(WEATHER, DONE, tools=[weather]), "Weather?", cancelled="after_turn")


@scenario
async def a_result_that_is_the_answer(talk: Talk) -> None:
    await talk.run(talk.agent(WEATHER, tools=[weather], tool_use_behavior="stop_on_first_tool"), "Weather?")


@scenario
async def an_agent_that_is_a_tool_on_the_same_session(talk: Talk) -> None:
    inner = talk.agent(name="inner").as_tool("inner", "Knows.", session=talk.kept)
    await talk.run(talk.agent(calls(("i1", "inner", {"input": "q"})), DONE, DONE, tools=[inner]), "Ask it.")


@scenario
async def several_messages_at_once(talk: Talk) -> None:
    given = [{"role": "developer", "content": "Be brief."}, ask("One"), {"role": "assistant", "content": "1"}, ask("?")]
    await talk.stream(talk.agent(DONE), given)


@scenario
async def without_a_run_config(talk: Talk) -> None:
    agent = talk.agent(paid(5), DONE, tools=[pay])
    result = await Runner.run(agent, "Pay.", session=talk.kept)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=talk.kept)


def ask(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def both_turns(talk: Talk, run: Callable[[Talk], Any], earlier: int) -> Any:
    talk.server.reset()
    turns: list[Any] = []
    for number in range(1, earlier):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "weather", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": f"c{number}", "output": "Rain."}
        reply = {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
        turns += ask("The same question."), call, result, reply
    if earlier:
        await talk.kept.add_items(turns)
        await talk.run(talk.agent(WEATHER, DONE, tools=[weather]), "The same question.")
    await run(talk)
    await talk.run(talk.agent(DONE), "And now?")
    sent = [[plain(item) for item in request["input"]] for request in talk.server.requests]
    return talk.errors, sent, await talk.stored()


@pytest.mark.parametrize("earlier", [0, 1, 10])
@pytest.mark.parametrize("run", SCENARIOS.values(), ids=SCENARIOS)
def test_it_stores_and_sends_what_the_framework_does(server, session, run, earlier):
    own = async_to_sync(both_turns)(Talk(server, None), run, earlier)
    ours = async_to_sync(both_turns)(Talk(server, session), run, earlier)
    for is_stored, theirs in zip(ours, own, strict=True):
        assert is_stored == theirs
    assert len(chat.tips(session)) == 1
