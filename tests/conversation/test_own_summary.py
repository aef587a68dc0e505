"""A provider's own summary in a reply: the model that made it is sent nothing from above; any other is, and not it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.conversation.chat_model import endpoint_of_client
from compaction_app.exceptions import ContextOverflow, InvalidMessage
from compaction_app.models import ChatMessage, CompactionRun, MessagePin
from compaction_app.testing import steps
from compaction_app.testing.exchange import Step
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tree.verify import verify_session
from tests.builders import grow, words
from tests.conversation.asking import EACH, client_of, completed
from tests.small import small
from tests.trees import summarize

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

TOLD = "The provider kept fox0815."
BLOCK = {"type": "compaction", "content": TOLD}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z0FBQUFB" * 9}


def noted(text: str = "Noted.", block: dict[str, Any] = BLOCK) -> Step:
    """As LiteLLM answers with Anthropic's block, which it is sent back in the same place."""
    message = {"content": text, "provider_specific_fields": {"compaction_blocks": [block]}}
    return lambda exchange: exchange.send_message(message, finish_reason="stop")


@pytest.fixture
def session():
    return chat.start_session(model="house-model", system_prompt="You are terse.")


@pytest.fixture
def reply(session, server):
    """To twenty messages, with the provider's summary of these."""
    server.script([noted()])
    return completed(grow(session, None, "u a " * 10 + "u")[-1], server)


def asked(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> list[dict[str, Any]]:
    """The messages of the request for one more turn, without the system prompt."""
    question = chat.append_message(tip.session, tip, role="user", content="And now?")
    completed(question, server, **options)
    return server.requests[-1]["messages"][1:]


def test_where_it_was_made_nothing_from_above_is_sent(reply, server):
    sent = asked(reply, server)
    assert [one["role"] for one in sent] == ["assistant", "user"]
    assert sent[0]["provider_specific_fields"]["compaction_blocks"] == [BLOCK]
    kept = chat.tips(reply.session)[0].sent_context
    assert (kept["own_summary_id"], kept["first_shown_depth"], kept["dropped"]) == (reply.pk, reply.depth, 0)
    assert kept["summary_id"] is None


@pytest.mark.few
@pytest.mark.parametrize("block", [BLOCK, ITEM], ids=["Anthropic's", "OpenAI's"])
@pytest.mark.parametrize("other", ["model", "address", "unknown"])
def test_for_any_other_the_messages_stand_without_it(session, server, block, other):
    server.script([noted(block=block)])
    reply = completed(grow(session, None, "u a " * 10 + "u")[-1], server)
    if other == "model":
        sent = asked(reply, server, model="other-model")
    elif other == "address":
        with ScriptedOpenAIServer(default=steps.reply("Aye.")) as elsewhere:
            sent = asked(reply, elsewhere)
    else:
        sent = chat.get_context(reply).to_openai()[1:]
    assert [one["content"] for one in sent[:22]] == [words(100)] * 21 + ["Noted."]
    assert "compaction" not in json.dumps(sent)
    assert TOLD not in json.dumps(sent)


@EACH
def test_by_every_door(session, server, ask):
    server.script([steps.reply_with(lambda _: "Noted.")])
    reply = ask(grow(session, None, "u a " * 10 + "u")[-1], server)
    data = {"role": "assistant", "content": [{"type": "text", "text": "Noted."}, BLOCK]}
    original = {"format": "openai", "endpoint": reply_endpoint(server), "model": "house-model", "data": data}
    kept = chat.append_message(session, reply.parent, role="assistant", content="Noted.", original=original)
    ask(chat.append_message(session, kept, role="user", content="And now?"), server)
    assert [one["role"] for one in server.requests[-1]["messages"]] == ["system", "assistant", "user"]


def reply_endpoint(server: ScriptedOpenAIServer) -> str:
    with client_of(server) as client:
        return endpoint_of_client(client)


def test_a_fork_above_it_has_none(session, reply, server):
    above = chat.get_branch(reply)[-3]
    sent = asked(above, server)
    assert [one["content"] for one in sent] == [words(100)] * 20 + ["And now?"]


def test_what_is_erased_above_takes_it_along(session, reply, server):
    first = chat.get_branch(reply)[4]
    chat.redact_message(first, replacement="[gone]")
    sent = asked(ChatMessage.objects.get(pk=reply.pk), server)
    assert [one["content"] for one in sent][:6] == [words(100)] * 4 + ["[gone]", words(100)]
    assert "fox0815" not in json.dumps([sent, list(ChatMessage.objects.values("content", "original", "metadata"))])


def test_of_a_pinned_reply_that_loses_it_the_pin_counts_less(session, reply):
    chat.pin_message(reply)
    pinned = MessagePin.objects.get()
    chat.redact_message(chat.get_branch(reply)[4])
    left = MessagePin.objects.get()
    assert left.tokens == ChatMessage.objects.get(pk=reply.pk).token_count < pinned.tokens
    assert verify_session(session).problems == []


def test_what_is_erased_below_leaves_it(session, reply, server):
    below = chat.append_message(session, reply, role="user", content="A secret.")
    answer = chat.append_message(session, below, role="assistant", content="Aye.")
    chat.redact_message(below)
    sent = asked(answer, server)
    assert [one["content"] for one in sent] == ["Noted.", "[redacted]", "Aye.", "And now?"]


def test_the_newest_one_counts_and_another_models_is_left_out(session, reply, server):
    server.script([noted("Second.", {**BLOCK, "content": "Another one's."})])
    question = chat.append_message(session, reply, role="user", content="And then?")
    second = completed(question, server, model="other-model")
    sent = asked(second, server)
    assert [one["content"] for one in sent] == ["Noted.", "And then?", "Second.", "And now?"]
    assert "Another one's." not in json.dumps(sent)
    sent = asked(second, server, model="other-model")
    assert [one["content"] for one in sent] == ["Second.", "And now?"]


def test_our_summary_stands_once_it_covers_the_reply(session, reply, server):
    tip = grow(session, reply, "u a u a")[-1]
    summarize(tip, reply, content="ours")
    sent = asked(tip, server)
    assert "ours" in sent[0]["content"]
    assert [one["content"] for one in sent[1:]] == [words(100)] * 4 + ["And now?"]


def test_it_stands_for_our_summary_where_it_is_newer(session, server):
    path = grow(session, None, "u a " * 10 + "u")
    summarize(path[-1], path[9], content="ours")
    server.script([noted()])
    reply = completed(path[-1], server)
    assert [one["role"] for one in asked(reply, server)] == ["assistant", "user"]
    [ours, *rest] = asked(reply, server, model="other-model")
    assert "ours" in ours["content"]
    assert len(rest) == 11 + 2


def test_pins_stay_and_so_does_the_question_it_answers(session, reply, server):
    path = chat.get_branch(reply)
    chat.pin_message(path[2])
    sent = [one["content"] for one in chat_context(reply, server)]
    assert sent == [words(100), words(100), "Noted."]
    context = ChatMessage.objects.get(pk=reply.pk)
    assert context.content == "Noted."


def test_a_pinned_reply_is_sent_without_it(session, reply, server):
    """Above our summary, where it would stand for nothing; to another model it is not sent in any case."""
    tip = grow(session, reply, "u a u a")[-1]
    summarize(tip, reply, content="ours")
    chat.pin_message(reply)
    for model in ("house-model", "other-model"):
        sent = asked(tip, server, model=model)
        assert [one["content"] for one in sent[1:]] == ["Noted."] + [words(100)] * 4 + ["And now?"]
        assert TOLD not in json.dumps(sent)


def chat_context(tip: ChatMessage, server: ScriptedOpenAIServer) -> list[dict[str, Any]]:
    """What is sent at the reply itself, in the middle of a turn."""
    with client_of(server) as client:
        chat.complete(tip, client=client)
    return server.requests[-1]["messages"][1:]


def redact_fox(text: str) -> str:
    return text.replace("fox0815", "[name]")


def test_a_redactor_that_changes_it_leaves_the_messages(session, reply, server, settings):
    settings.COMPACTION = small(REDACTOR="tests.conversation.test_own_summary.redact_fox")
    sent = asked(reply, server)
    assert len(sent) == 23
    assert "fox0815" not in json.dumps(sent)


def test_where_it_no_longer_fits_the_messages_do_as_far_as_they_can(session, reply, server):
    """It is the oldest of what follows it; without it nothing would stand for what is above."""
    tip = grow(session, reply, "u a " * 45)[-1]
    sent = asked(tip, server)
    assert "compaction" not in json.dumps(sent)
    kept = chat.tips(session)[0].sent_context
    assert (kept["own_summary_id"], kept["strategy"]) == (None, "truncated")


def test_without_room_for_the_question_too_the_messages_do(session, server):
    """No prompt lacks the newest user message: here it is above the summary, and larger than what is left."""
    tip = grow(session, None, "u a " * 5)[-1]
    question = chat.append_message(session, tip, role="user", content=words(4_000))
    server.script([noted()])
    reply = completed(question, server)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": words(3_000)}}
    work = chat.append_message(session, reply, role="assistant", content=words(1_500), tool_calls=[call])
    result = chat.append_message(session, work, role="tool", tool_call_id="c", content="Found.")
    with pytest.raises(ContextOverflow):
        chat.get_context(result, sends="openai", endpoint=reply.original["endpoint"], model=reply.original["model"])


def test_a_compaction_is_due_by_what_is_sent(session, server):
    """To the model that has its own summary; another one needs ours."""
    tip = grow(session, None, "u a " * 34 + "u")[-1]
    server.script([noted()])
    with client_of(server) as client:
        reply = chat.complete(tip, client=client)
        assert not CompactionRun.objects.exists()
        question = chat.append_message(session, reply, role="user", content="And now?")
        chat.complete(question, client=client, model="other-model")
    assert CompactionRun.objects.get().trigger == "threshold"


def test_reading_it_takes_no_query_more(session, reply, server):
    counts = []
    for model in ("house-model", "other-model"):
        question = chat.append_message(session, reply, role="user", content="And now?")
        with client_of(server) as client, CaptureQueriesContext(connection) as queries:
            chat.complete(question, client=client, model=model)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_handing_over_takes_our_summary(session, reply, server):
    path = chat.get_branch(reply)
    tip = grow(session, reply, "u a")[-1]
    summarize(path[-2], path[9], content="ours")
    new = chat.hand_over(tip)
    assert "ours" in chat.get_context(chat.tips(new)[0]).messages[1].content


def test_a_client_of_the_hosts_own_names_what_it_sends(session):
    """Items of the Responses API and Anthropic's blocks: their originals go out as they came."""
    path = grow(session, None, "u a " * 10 + "u")
    shown = {}
    for form, data in {"openai-responses": [ITEM], "anthropic": [BLOCK, {"type": "text", "text": "Noted."}]}.items():
        original = {"format": form, "endpoint": "", "model": "house-model", "data": data}
        reply = chat.append_message(session, path[-1], role="assistant", content="Noted.", original=original)
        tip = chat.append_message(session, reply, role="user", content="And now?")
        context = chat.get_context(tip, sends=form)
        shown[form] = [one.message_id for one in context.messages if one.message_id]
        assert (context.own_summary_id, shown[form]) == (reply.pk, [reply.pk, tip.pk])
        assert context.messages[1].original["data"] == data
        for options in ({"sends": form, "model": "other-model"}, {"sends": form, "endpoint": "https://example.org"}):
            other = chat.get_context(tip, **options)
            assert (other.own_summary_id, len(other.messages)) == (None, 1 + 23)
            assert "compaction" not in json.dumps([one.original for one in other.messages])
        assert chat.get_context(tip).own_summary_id is None
    with pytest.raises(InvalidMessage, match="sends must be one of openai, "):
        chat.get_context(path[-1], sends="gemini")
