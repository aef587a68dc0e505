"""What only pydantic-ai has: late approvals, the same question again, and its adapter for front ends."""

import json

import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("pydantic_ai", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from pydantic_ai.ui.vercel_ai import VercelAIAdapter  # noqa: E402

from compaction_app.contrib.pydantic_ai import TreeHistory  # noqa: E402
from tests.steps import stream_of  # noqa: E402


def run(server, history, prompt, given=None, **options):
    async def answered():
        model = OpenAIChatModel("house-model", provider=OpenAIProvider(base_url=server.url, api_key="none"))
        also = given or ({"message_history": await history.history()} if prompt is None else {})
        return await Agent(model, **options).run(prompt, capabilities=[history], **also)

    return async_to_sync(answered)()


def said(history):
    return [one.content for one in chat.get_branch(history.tip)]


def test_an_approval_after_another_turn_goes_on_below_the_call(server, session):
    def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid."

    asked = calls(("c1", "pay", {"amount": 5}))
    server.script([asked, steps.reply("Wet."), steps.reply("Done."), steps.reply("Yes.")])
    history = TreeHistory(session, None)
    how = {"tools": [Tool(pay, requires_approval=True)], "output_type": [str, DeferredToolRequests]}
    waiting = run(server, history, "Pay.", **how).all_messages()
    run(server, history, "Weather?", **how)
    approved = {"message_history": waiting, "deferred_tool_results": DeferredToolResults(approvals={"c1": True})}
    run(server, history, None, approved, **how)
    run(server, history, "Sure?", **how)
    assert said(history) == ["Pay.", "", "5 paid.", "Done.", "Sure?", "Yes."]
    assert [one["role"] for one in server.requests[-1]["messages"]] == "user assistant tool assistant user".split()
    assert len(chat.tips(session)) == 2


def test_the_same_question_again(server, session):
    server.script([steps.reply("one"), steps.reply("two")])
    history = TreeHistory(session, None)
    run(server, history, "q", system_prompt="Be brief.")
    again = TreeHistory(session, history.tip.parent)
    run(server, again, None)
    assert [one.content for one in chat.variants(again.tip)] == ["one", "two"]
    assert again.tip.usage["prompt_tokens"] > 0
    assert session.messages.count() == 3


def test_a_front_end_that_sends_all_of_its_messages(server, session):
    server.script([stream_of("Ay", "e."), stream_of("Still.")])
    history = TreeHistory(session, None)
    told = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Ready?"}]}]

    async def sent():
        body = json.dumps({"trigger": "submit-message", "id": "chat-1", "messages": told}).encode()
        model = OpenAIChatModel("house-model", provider=OpenAIProvider(base_url=server.url, api_key="none"))
        adapter = VercelAIAdapter(Agent(model), run_input=VercelAIAdapter.build_run_input(body))
        return [one async for one in adapter.encode_stream(adapter.run_stream(capabilities=[history]))]

    async_to_sync(sent)()
    told += [
        {"id": "m2", "role": "assistant", "parts": [{"type": "text", "text": "Aye."}]},
        {"id": "m3", "role": "user", "parts": [{"type": "text", "text": "And now?"}]},
    ]
    assert any("text-delta" in one for one in async_to_sync(sent)())
    assert said(history) == ["Ready?", "Aye.", "And now?", "Still."]
