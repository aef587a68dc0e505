"""What only pydantic-ai has: structured output, retries, the same question again, and its adapter for front ends."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from pydantic import BaseModel

from compaction_app import chat
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("pydantic_ai", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from pydantic_ai import Agent, ModelRetry  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from pydantic_ai.ui.vercel_ai import VercelAIAdapter  # noqa: E402

from compaction_app.contrib.pydantic_ai import TreeHistory  # noqa: E402


def run(server, history, prompt, **options):
    async def answered():
        model = OpenAIChatModel("house-model", provider=OpenAIProvider(base_url=server.url, api_key="none"))
        given = {"message_history": await history.history()} if prompt is None else {}
        return await Agent(model, **options).run(prompt, capabilities=[history], **given)

    return async_to_sync(answered)()


def roles(request):
    return [one["role"] for one in request["messages"]]


def test_structured_output(server, session):
    class City(BaseModel):
        name: str

    server.script([calls(("c1", "final_result", {"name": "Oslo"})), steps.reply("Yes.")])
    history = TreeHistory(session, None)
    assert run(server, history, "Which city?", output_type=City).output == City(name="Oslo")
    # The last result is in no request of the run.
    assert [one.role for one in chat.get_branch(history.tip)] == ["user", "assistant", "tool"]
    run(server, history, "Sure?")
    assert roles(server.requests[-1]) == ["user", "assistant", "tool", "user"]


def test_a_tool_that_asks_to_be_called_again(server, session):
    def fussy(city: str) -> str:
        """The weather."""
        if city == "Oslo":
            raise ModelRetry("Another city.")
        return "Dry."

    wanted = [calls((f"c{number}", "fussy", {"city": city})) for number, city in enumerate(("Oslo", "Rome"))]
    server.script([*wanted, steps.reply("Dry."), steps.reply("Yes.")])
    history = TreeHistory(session, None)
    run(server, history, "Weather?", tools=[fussy])
    run(server, history, "Sure?")
    assert roles(server.requests[-1]) == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]


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
    server.script([steps.stream_of("Ay", "e."), steps.stream_of("Still.")])
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
    assert [one.content for one in chat.get_branch(history.tip)] == ["Ready?", "Aye.", "And now?", "Still."]
