"""Asking the chat model: what is sent, replies that are none, tips that are refused, the async twins."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.exceptions import EmptyReply, InvalidMessage, InvalidReply
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing import steps
from tests.builders import WordTokenCounter, grow, words
from tests.conversation.asking import EACH, aclient_of, acompleted, astreamed, completed, streamed
from tests.small import small, tool_call
from tests.steps import cut_off, llama_overflow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def session():
    return chat.start_session(model="house-model")


def blocks(tokens: int, word: str = "tide") -> list[dict[str, str]]:
    """Reasoning whose JSON is that many words."""
    made = [{"type": "thinking", "thinking": " ".join([word] * (tokens - 3))}]
    assert WordTokenCounter()([json.dumps(made, sort_keys=True)]) == [tokens]
    return made


def thinkers(session: ChatSession, *sizes: int) -> list[ChatMessage]:
    """A question and a reply of 100 tokens for each size, with that much reasoning; a question at the end."""
    messages: list[dict[str, Any]] = []
    for size in sizes:
        messages.append({"role": "user", "content": words(100)})
        messages.append({"role": "assistant", "content": words(100), "reasoning": blocks(size)})
    return chat.append_messages(session, None, [*messages, {"role": "user", "content": words(100)}])


class TestBadInput:
    def test_instructions_have_a_limit(self, session):
        tip = grow(session, None, "u")[0]
        with pytest.raises(InvalidMessage, match="2000"):
            chat.compact(tip, instructions="x" * 2_001)


class TestComplete:
    def test_the_reply_is_appended_and_the_next_compaction_requested(self, client, server):
        session = chat.start_session(model="house-model", system_prompt="You are terse.")
        tip = grow(session, None, "u a " * 34 + "u")[-1]
        reply = chat.complete(tip, client=client)
        assert (reply.role, reply.content, reply.parent_message_id) == ("assistant", "Aye.", tip.pk)
        assert server.requests[0]["messages"][0] == {"role": "system", "content": "You are terse."}
        assert CompactionRun.objects.get(session=session).trigger == "threshold"

    @pytest.mark.parametrize(
        ("ask", "overflow"),
        [
            (completed, steps.context_overflow()),
            (acompleted, llama_overflow()),
            (streamed, llama_overflow()),
            (astreamed, steps.context_overflow()),
        ],
    )
    def test_a_prompt_too_long_for_the_provider_is_compacted_and_sent_once_more(self, session, server, ask, overflow):
        server.script([overflow])
        tip = grow(session, None, "u a " * 20 + "u")[-1]
        reply = ask(tip, server)
        assert reply.content == "Aye."
        run = CompactionRun.objects.get(session=session)
        assert (run.trigger, run.status) == ("overflow", "succeeded")
        assert len(server.requests) == 2
        assert len(server.requests[1]["messages"]) < len(server.requests[0]["messages"])

    def test_a_provider_that_compacts_too_is_noted_once(self, session, client, settings):
        settings.COMPACTION = small(PROVIDER_CONTEXT_MANAGEMENT=True)
        tip = grow(session, None, "u")[0]
        for _ in range(2):
            chat.complete(tip, client=client)
        event = CompactionEvent.objects.get(kind="double_compaction_configured")
        assert event.payload == {"parameters": [], "declared": True}

    def test_a_provider_asked_to_compact_too_is_noted(self, session, client, server):
        """And asked: it edits a request on its way. What is stored, and what the next context holds, stays ours."""
        reply = chat.complete(grow(session, None, "u a u")[-1], client=client, extra_body={"truncation": "auto"})
        assert server.requests[0]["truncation"] == "auto"
        shown = [message.message_id for message in chat.get_context(reply).messages]
        assert shown == [message.pk for message in chat.get_branch(reply)]
        event = CompactionEvent.objects.get(kind="double_compaction_configured")
        assert event.payload == {"parameters": ["truncation"], "declared": False}


def test_the_awaited_twins_do_the_same(server, settings):
    settings.COMPACTION = small(LOOKAHEAD="none")

    async def talk():
        session = await chat.astart_session(model="m")
        tip = await chat.aappend_message(session, None, role="user", content=words(100))
        for number in range(70):
            role = "user" if number % 2 else "assistant"
            tip = await chat.aappend_message(session, tip, role=role, content=words(100))
        assert await chat.ashould_compact(tip)
        run = await chat.acompact(tip)
        context = await chat.aget_context(tip)
        assert context.summary_id == run.summary_id == (await chat.afind_summary(tip)).pk
        reply = await chat.acomplete(tip, client=aclient_of(server))
        assert await chat.arequest_compaction(reply) is None
        assert len(await chat.aget_branch(reply)) == 72
        assert [m.pk for m in await chat.atips(session)] == [reply.pk]
        assert await chat.aretire_summary(run.summary)
        await chat.adelete_session(session)

    async_to_sync(talk)()
    assert not ChatSession.objects.exists()


class TestReasoning:
    @EACH
    def test_it_is_sent_back_where_it_is_asked_for(self, session, server, ask):
        tip = thinkers(session, 10, 20)[-1]
        ask(tip, server)
        ask(tip, server, include_reasoning=True, regenerate=True)
        plain, full = ([m.get("reasoning") for m in sent["messages"]] for sent in server.requests)
        assert plain == [None] * 5
        assert full == [None, blocks(10), None, blocks(20), None]

    def test_only_what_there_is_room_for_is_sent_the_newest_first(self, session, client, server):
        """500 tokens of history, 8,000 available: 7,500 are left for reasoning."""
        tip = thinkers(session, 10, 7_000, 500)[-1]
        chat.complete(tip, client=client, include_reasoning=True)
        [sent] = server.requests
        assert [m.get("reasoning") is not None for m in sent["messages"]] == [False] * 5 + [True, False]
        assert chat.get_context(tip).history_tokens == 700

    def test_after_an_overflow_it_is_fitted_anew(self, session, client, server):
        server.script([steps.context_overflow()])
        tip = thinkers(session, *[20] * 25)[-1]
        reply = chat.complete(tip, client=client, include_reasoning=True)
        first, second = (sum("reasoning" in m for m in sent["messages"]) for sent in server.requests)
        assert 0 < second < first == 25
        assert reply.sent_context["tokens"] == chat.get_context(tip).tokens + 20 * second


def test_the_compaction_after_a_reply_is_measured_with_its_contributions(session, client):
    tip = grow(session, None, "u a " * 24 + "u")[-1]
    chat.complete(tip, client=client)
    assert not CompactionRun.objects.exists()
    retrieved = [{"role": "system", "content": words(2_000)}]
    chat.complete(tip, client=client, contributions=retrieved, regenerate=True)
    run = CompactionRun.objects.get()
    assert (run.trigger, run.reserved_tokens) == ("threshold", 4_000)


@pytest.mark.parametrize(("step", "finish_reason"), [(steps.reply(" \n\t"), "stop"), (cut_off(""), "length")])
def test_an_empty_reply_is_an_error_and_nothing_is_written(session, client, server, step, finish_reason):
    """A message without content and calls would be an empty message in every later prompt."""
    tip = grow(session, None, "u a " * 34 + "u")[-1]
    before = ChatMessage.objects.count()
    server.script([step])
    with pytest.raises(EmptyReply, match=f"neither content nor a tool call .finish_reason {finish_reason}") as caught:
        chat.complete(tip, client=client)
    assert (caught.value.code, caught.value.finish_reason) == ("empty_reply", finish_reason)
    assert caught.value.usage["prompt_tokens"] > 0
    assert ChatMessage.objects.count() == before
    assert not CompactionRun.objects.exists()


def test_a_reply_that_is_too_large_is_there_to_be_mended(session, client, server, settings):
    settings.COMPACTION = small(MAX_MESSAGE_BYTES=1_000)
    tip = grow(session, None, "u")[0]
    server.script([steps.reply("a" * 2_000)])
    with pytest.raises(InvalidReply, match="cannot be stored: The message has 2,") as caught:
        chat.complete(tip, client=client)
    error = caught.value
    assert (error.code, error.completion.object) == ("invalid_reply", "chat.completion")
    assert error.reply["usage"]["prompt_tokens"] > 0
    assert ChatMessage.objects.count() == 1
    mended = {**error.reply, "content": "Mended."}
    assert chat.append_message(session, tip, role="assistant", **mended).content == "Mended."


def test_a_turn_takes_the_same_queries_whole_and_streamed_whatever_the_length(session, client):
    """And so does a reply that is stored, which is looked for and read."""
    counts = []
    tip = grow(session, None, "u")[0]
    for _ in range(2):
        for ask in (
            lambda tip: chat.complete(tip, client=client),
            lambda tip: list(chat.stream(tip, client=client, regenerate=True)),
            lambda tip: chat.complete(tip, client=client),
        ):
            with CaptureQueriesContext(connection) as queries:
                ask(tip)
            counts.append(len(queries))
        tip = grow(session, tip, "a u " * 15)[-1]
    assert counts[:3] == counts[3:]
    assert counts[0] == counts[1] > counts[2]


@pytest.mark.parametrize("streams", [False, True])
def test_a_compaction_that_cannot_be_requested_costs_no_reply(session, client, monkeypatch, caplog, streams):
    def away(*_):
        raise OperationalError("database is locked")

    monkeypatch.setattr("compaction_app.conversation.complete.open_and_enqueue", away)
    tip = grow(session, None, "u")[0]
    if streams:
        stream = chat.stream(tip, client=client)
        assert len(list(stream)) > 1
        stored = stream.message
    else:
        stored = chat.complete(tip, client=client)
    assert stored.parent_message_id == tip.pk
    assert "step=request" in caplog.text


class TestFallback:
    """A caller sees while it happens that a prompt was cut to fit."""

    @pytest.mark.parametrize("turns", [2, 45], ids=["fits", "late"])
    def test_on_a_stream_from_its_first_chunk(self, session, client, turns):
        """500 tokens, or 9,100 where 8,000 are available and no worker has compacted them."""
        late = turns == 45
        tip = grow(session, None, "u a " * turns + "u")[-1]
        with chat.stream(tip, client=client) as stream:
            assert stream.fallback_used is late
            next(stream)
        assert stream.context is not None
        assert (stream.context.dropped > 0) is late
        reply = chat.complete(tip, client=client)
        assert reply.fallback_used is chat.get_context(tip).fallback_used is late
        assert ChatMessage.objects.get(pk=reply.pk).fallback_used is late
        assert CompactionEvent.objects.filter(kind="fallback_used").exists() is late
        assert not tip.fallback_used

    def test_also_where_it_only_shortened_tool_results(self, session, client):
        """No message is left out, but the model does not see all of the newest result: the event says so too."""
        [question] = grow(session, None, "u")
        asked = chat.append_message(session, question, role="assistant", tool_calls=[tool_call()])
        result = chat.append_message(session, asked, role="tool", tool_call_id="c1", content="reef " * 9_000)
        tip = chat.append_message(session, result, role="user", content="And?")
        reply = chat.complete(tip, client=client)
        assert reply.sent_context["dropped"] == 0
        assert reply.sent_context["pruned"] == 1
        assert reply.fallback_used
        assert CompactionEvent.objects.filter(kind="fallback_used").exists()


def result(parent: ChatMessage, number: int) -> ChatMessage:
    return chat.append_message(parent.session, parent, role="tool", content="reef", tool_call_id=f"c{number}")


class TestOpenCalls:
    """A tip with open tool calls is refused: the prompt would contain "[no result]" for each of them."""

    @pytest.fixture
    def asked(self, session) -> ChatMessage:
        """A reply with two calls."""
        [question] = grow(session, None, "u")
        return chat.append_message(session, question, role="assistant", tool_calls=[tool_call("c1"), tool_call("c2")])

    @EACH
    def test_every_door_refuses_until_each_call_has_its_result(self, ask, asked, server):
        with pytest.raises(InvalidMessage, match="c1, c2 have no result yet") as caught:
            ask(asked, server)
        assert caught.value.field == "tip"
        first = result(asked, 2)
        with pytest.raises(InvalidMessage, match="The tool calls c1 have no result yet"):
            ask(first, server)
        assert server.requests == []
        last = result(first, 1)
        ask(last, server)
        assert len(server.requests) == 1
        assert ChatMessage.objects.get(parent=last).content == "Aye."

    def test_calls_that_a_user_message_closed_wait_for_nothing(self, asked, client, server):
        tip = chat.append_message(asked.session, asked, role="user", content="Never mind the reef.")
        chat.complete(tip, client=client)
        assert [m["content"] for m in server.requests[0]["messages"] if m["role"] == "tool"] == ["[no result]"] * 2

    def test_an_id_that_an_earlier_call_had_too_is_not_taken_for_answered(self, asked, client):
        """Providers number the calls of a request, so ids repeat along a branch."""
        answered = result(result(asked, 1), 2)
        again = chat.append_message(asked.session, answered, role="assistant", tool_calls=[tool_call()])
        with pytest.raises(InvalidMessage, match="c1 have no result yet"):
            chat.complete(again, client=client)
