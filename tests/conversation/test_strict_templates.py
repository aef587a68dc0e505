"""Chat templates in which roles must alternate: a summary and the question after it have one role.

The rule is that of Llama 2, Mistral and Gemma: after an optional system message user and assistant take turns, and the
user begins. Tool results and the calls that ask for them are not counted (Mistral).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import openai
import pytest

from compaction_app import chat
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

REFUSAL = "Conversation roles must alternate user/assistant/user/assistant/..."


def alternates(messages: Sequence[Mapping[str, Any]]) -> bool:
    turns = [m["role"] for m in messages if m["role"] != "tool" and not m.get("tool_calls")]
    turns = turns[1:] if turns[:1] == ["system"] else turns
    return turns == [("user", "assistant")[place % 2] for place in range(len(turns))]


def strict(exchange: Exchange) -> None:
    """Answers as vLLM does where a template raises."""
    refuse = steps.bad_request(message=REFUSAL)
    (steps.reply("Aye.") if alternates(exchange.body["messages"]) else refuse)(exchange)


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with ScriptedOpenAIServer(default=strict) as server:
        yield openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)


@pytest.fixture
def question(session, small_window):
    """After a compaction: the summary, the kept turns, the question."""
    tip = grow(session, None, "u a " * 35)[-1]
    chat.compact(tip)
    return chat.append_message(session, tip, role="user", content="Where were we?")


@pytest.mark.long
def test_alternate_roles_joins_what_is_refused_by_default(settings, question, client):
    with pytest.raises(openai.BadRequestError, match="roles must alternate"):
        chat.complete(question, client=client)
    settings.COMPACTION = small(ALTERNATE_ROLES=True)
    assert chat.complete(question, client=client).content == "Aye."
    context = chat.get_context(question)
    sent = context.to_openai()
    assert len(sent) == len(context.messages) - 1
    summary, kept = context.messages[1].content, context.messages[2].content
    assert sent[1] == {"role": "user", "content": f"{summary}\n\n{kept}"}


def test_so_does_a_session_of_its_own_with_a_question_that_had_no_reply_and_a_contribution(session, settings, client):
    settings.COMPACTION = small()
    session.settings = {"ALTERNATE_ROLES": True}
    session.save()
    first = chat.append_message(session, role="user", content="Anyone there?")
    question = chat.append_message(session, first, role="user", content="Hello?", name="Ann")
    found = [{"role": "user", "content": "The harbour opens at six."}]
    assert chat.complete(question, client=client, contributions=found).content == "Aye."
    [_, sent] = chat.get_context(question, contributions=found).to_openai()
    assert sent == {"role": "user", "content": "The harbour opens at six.\n\nAnyone there?\n\nHello?"}


def test_a_turn_of_an_agent_that_a_cutoff_divides_is_accepted(settings, session, client):
    """The summary and the pinned question are one message; calls and results stay as they are."""
    settings.COMPACTION = small(ALTERNATE_ROLES=True)
    tip = grow(session, None, "u " + "c t " * 40)[-1]
    chat.compact(tip)
    context = chat.get_context(tip)
    assert context.pinned_id is not None
    assert chat.complete(tip, client=client).content == "Aye."
    sent = context.to_openai()
    assert [m["role"] for m in sent][:3] == ["system", "user", "assistant"]
    assert sum(m["role"] == "tool" for m in sent) == sum(len(m.get("tool_calls", ())) for m in sent) > 0


def test_images_of_joined_messages_are_kept(session, settings):
    settings.COMPACTION = small(ALTERNATE_ROLES=True)
    picture = {"type": "image_url", "image_url": {"url": "https://boats.example/1.png"}}
    first = chat.append_message(session, role="user", content=[picture, {"type": "text", "text": "This one."}])
    second = chat.append_message(session, first, role="user", content="Which boat is it?")
    third = chat.append_message(session, second, role="user", content=[picture])
    [_, sent] = chat.get_context(third).to_openai()
    texts = [{"type": "text", "text": text} for text in ("This one.", "Which boat is it?")]
    assert sent["content"] == [texts[0], picture, texts[1], picture]
