"""Streams: the provider's chunks as they are, the reply stored whole or not at all."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from compaction_app import chat
from compaction_app.conversation import chat_model
from compaction_app.exceptions import (
    ContextOverflow,
    DurableTransactionRequired,
    InvalidMessage,
    InvalidReply,
    StreamInterrupted,
)
from compaction_app.models import ChatMessage, CompactionRun, ReplyClaim
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.conversation.asking import BOTH_STREAMS, aclient_of, client_of, closing, text_of
from tests.steps import error_event, event, late, malformed, stream_of, unauthorized

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def server():
    with ScriptedOpenAIServer(default=steps.reply("Aye, aye, Sir.")) as running:
        yield running


def replies() -> list[ChatMessage]:
    return list(ChatMessage.objects.filter(role="assistant").order_by("id"))


@BOTH_STREAMS
class TestWhole:
    def test_the_chunks_are_the_providers_and_the_reply_is_appended(self, tip, server, drain):
        chunks, stream = drain(tip, server)
        assert text_of(chunks) == "Aye, aye, Sir."
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-1].usage.prompt_tokens > 0
        [reply] = replies()
        assert stream.message == reply
        assert (reply.content, reply.parent_message_id, reply.model) == ("Aye, aye, Sir.", tip.pk, "house-model")
        assert reply.usage == chunks[-1].usage.model_dump(mode="json", exclude_none=True)

    def test_a_streamed_reply_is_stored_as_a_whole_one_is(self, tip, server, drain):
        server.script([steps.tool_call("look", '{"at": "the tide"}')] * 2)
        # In a session of its own, for the first reply calibrates what the next is compared with.
        elsewhere = chat.start_session(model="house-model", system_prompt="You are terse.")
        whole = chat.complete(grow(elsewhere, None, "u")[0], client=client_of(server))
        _, stream = drain(tip, server)
        assert stream.message is not None
        for field in ("content", "tool_calls", "reasoning", "usage", "model", "sent_context", "token_count"):
            assert getattr(stream.message, field) == getattr(whole, field), field
        sent, streamed = (dict(request) for request in server.requests)
        assert (streamed.pop("stream"), streamed.pop("stream_options")) == (True, {"include_usage": True})
        assert streamed == sent

    @pytest.mark.parametrize("options", [{"include_usage": False}, None])
    def test_the_caller_may_say_what_is_asked_for(self, tip, server, drain, options):
        chunks, _ = drain(tip, server, stream_options=options)
        assert server.requests[0].get("stream_options") == options
        assert not any(chunk.usage for chunk in chunks)
        assert [reply.usage for reply in replies()] == [{}]

    def test_a_connection_that_breaks_after_the_finish_loses_the_usage_only(self, tip, server, drain):
        def finish_and_break(exchange: Any) -> None:
            exchange.send_delta({}, finish_reason="stop")
            exchange.hang_up()

        server.script([stream_of("Aye.", then=finish_and_break)])
        chunks, _ = drain(tip, server)
        assert text_of(chunks) == "Aye."
        assert [(reply.content, reply.usage) for reply in replies()] == [("Aye.", {})]


def of_call(arguments: str, **begins: Any) -> dict[str, Any]:
    named = {"name": "look"} if begins else {}
    return {"tool_calls": [{"index": 0, **begins, "function": {**named, "arguments": arguments}}]}


#: The pieces of a reply, and its texts, of each kind that is in its chunks.
CUT: dict[str, tuple[list[Any], dict[str, str]]] = {
    "in two": (["a\ud83d", "", "\ude00b"], {"content": "a😀b"}),
    "twice": (["a\ud83d", "\ude00\ud83d", "\ude01b"], {"content": "a😀😁b"}),
    "alone at the end": (["a\ud83d"], {"content": "a\ufffd"}),
    "alone in the middle": (["a\ud83d", "b", "\ude00"], {"content": "a\ufffdb\ufffd"}),
    "in two texts at once": (
        ["a\ud83d", {"reasoning": "\ude00b\ud83d"}, "\ude00c", {"reasoning": "\ude01"}],
        {"content": "a😀c", "reasoning": "\ufffdb😁"},
    ),
    "in blocks": (
        [{"reasoning_details": [{"type": "reasoning.text", "text": text}]} for text in ("a\ud83d", "\ude00")] + ["b"],
        {"content": "b", "reasoning_details": "a😀"},
    ),
    "in a refusal": ([{"refusal": "No \ud83d"}, {"refusal": "\ude00"}], {"refusal": "No 😀"}),
    "in arguments": (
        [of_call('{"a": "\ud83d', id="c1\ud83d"), of_call('\ude00"}')],
        {"arguments": '{"a": "😀"}'},
    ),
    "alone in arguments": ([of_call('{"a": "', id="c1"), of_call("\ud83d")], {"arguments": '{"a": "\ufffd'}),
}


def texts_of(delta: Any) -> dict[str, str]:
    """Texts in a chunk or a stored message, by the last key that leads to each."""
    found = {name: delta.get(name) or "" for name in ("content", "refusal", "reasoning")}
    found["reasoning_details"] = "".join(one["text"] for one in delta.get("reasoning_details") or ())
    found["arguments"] = "".join(one["function"]["arguments"] for one in delta.get("tool_calls") or ())
    return {name: text for name, text in found.items() if text}


@BOTH_STREAMS
@pytest.mark.parametrize("case", CUT)
def test_a_character_that_is_cut_between_two_chunks_is_whole(tip, server, drain, case):
    """It became two question marks, and chunks that no program can write. infiniflow/ragflow#9246"""
    pieces, texts = CUT[case]
    server.script([stream_of(*pieces)])
    chunks, stream = drain(tip, server)
    shown = [texts_of(chunk.choices[0].delta.model_dump(exclude_unset=True)) for chunk in chunks if chunk.choices]
    assert {name: "".join(one.get(name, "") for one in shown) for name in texts} == texts
    assert all(chunk.model_dump_json() for chunk in chunks)
    kept = {"content": texts.get("content") or texts.get("refusal", ""), "tool_calls": stream.message.tool_calls}
    assert texts_of(vars(stream.message) | {"reasoning": ""}) == texts_of(kept)
    if thoughts := texts.get("reasoning") or texts.get("reasoning_details"):
        assert thoughts in str(stream.message.reasoning)


@BOTH_STREAMS
def test_each_choice_and_what_is_beside_its_text_is_whole(tip, server, drain):
    def of_two(exchange: Exchange) -> None:
        for texts, ending in ((("a\ud83d", "\ude01\ud83d"), None), (("\ude00", "\ude02"), None), (("", ""), "stop")):
            choices = [
                {
                    "index": at,
                    "delta": {"content": text},
                    "finish_reason": ending,
                    "logprobs": {"content": [{"token": text}]},
                }
                for at, text in enumerate(texts)
            ]
            exchange.send_event({"id": "x", "object": "chat.completion.chunk", "created": 0, "choices": choices})
        exchange.end_stream(None)

    server.script([of_two])
    chunks, stream = drain(tip, server)
    each = ["".join(chunk.choices[at].delta.content for chunk in chunks) for at in (0, 1)]
    assert (each, stream.message.content) == (["a😀", "\ufffd😂"], "a😀")
    assert all(chunk.model_dump_json() for chunk in chunks)


@BOTH_STREAMS
class TestTooLong:
    def test_what_stays_too_long_is_an_overflow(self, session, server, drain):
        """Also where it is an event of the stream that says so."""
        server.script(default=error_event("x", code="context_length_exceeded"))
        tip = grow(session, None, "u a " * 20 + "u")[-1]
        with pytest.raises(ContextOverflow):
            drain(tip, server)
        sent = [len(request["messages"]) for request in server.requests]
        assert sent == sorted(sent, reverse=True)
        assert len(sent) <= 4
        assert sent[-1] == 2, "the newest turn alone"
        assert len(replies()) == 20

    def test_too_late_to_say_so(self, session, server, drain):
        """After the first chunk nothing is sent again: the consumer has seen the beginning of this reply."""
        late = error_event("x", code="context_length_exceeded")
        server.script([stream_of("Aye,", then=late)])
        with pytest.raises(StreamInterrupted):
            drain(grow(session, None, "u a " * 20 + "u")[-1], server)
        assert len(server.requests) == 1
        assert not CompactionRun.objects.exists()


BROKEN: list[Any] = [
    pytest.param(stream_of("Aye,", " aye", then=steps.hang(0)), "Aye, aye", True, id="connection"),
    pytest.param(stream_of("Aye,", then=error_event("Overloaded.")), "Aye,", True, id="error event"),
    pytest.param(stream_of("Aye,", then=steps.hang(60)), "Aye,", True, id="silence"),
    pytest.param(stream_of("Aye,", finish_reason=None), "Aye,", False, id="no finish_reason"),
    pytest.param(event({"nonsense": 1}), "", False, id="no chunk"),
    pytest.param(malformed(b'{"id": "x", "choices": []}'), "", False, id="not a stream"),
]


@BOTH_STREAMS
class TestAborted:
    @pytest.mark.few
    @pytest.mark.parametrize(("step", "partial", "has_cause"), BROKEN)
    def test_a_stream_that_breaks_off_leaves_the_tip_as_it_was(self, tip, server, drain, step, partial, has_cause):
        server.script([step])
        with pytest.raises(StreamInterrupted) as caught:
            drain(tip, server, timeout=0.3)
        assert caught.value.partial == caught.value.reply["content"] == partial
        assert (caught.value.__cause__ is not None) is has_cause
        assert partial not in str(caught.value) or not partial
        assert ChatMessage.objects.count() == 1
        assert not CompactionRun.objects.exists()
        assert not ReplyClaim.objects.exists()
        drain(tip, server)
        assert len(replies()) == 1


class TestLeft:
    def test_a_consumer_that_stops_early_leaves_nothing(self, tip, server):
        """The provider sees the connection close, which is what ends the generation there."""
        server.script([stream_of("Aye,", " aye", then=steps.hang())])
        with chat.stream(tip, client=client_of(server)) as stream:
            for chunk in stream:
                if chunk.choices[0].delta.content == " aye":
                    break
        server.wait_for_disconnects(1)
        assert (stream.message, stream.text) == (None, "Aye, aye")
        assert ChatMessage.objects.count() == 1
        assert list(stream) == []

    def test_whoever_sees_the_finish_finds_the_reply_stored(self, tip, server):
        for chunk in chat.stream(tip, client=client_of(server)):
            assert len(replies()) == bool(chunk.choices[0].finish_reason)
            if chunk.choices[0].finish_reason:
                break
        assert [bool(reply.usage) for reply in replies()] == [True]

    @pytest.mark.parametrize(("on_stop", "stored"), [("discard", []), ("keep", [("Aye,", "stopped")])])
    def test_a_cancelled_task(self, tip, server, on_stop, stored):
        server.script([stream_of("Aye,", then=steps.hang())])

        async def main() -> str:
            got = asyncio.Event()
            stream = chat.astream(tip, client=aclient_of(server), on_stop=on_stop)

            async def consume() -> None:
                async for _ in stream:
                    got.set()

            task = asyncio.create_task(consume())
            await asyncio.wait_for(got.wait(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(server.wait_for_disconnects, 1)
            return stream.text

        assert async_to_sync(main)() == "Aye,"
        assert [(reply.content, reply.finish_reason) for reply in replies()] == stored

    def test_one_that_is_kept_is_stored_as_far_as_it_came(self, tip, server):
        """suitenumerique/conversations#743: what a person stopped was gone when the page was loaded again."""
        call = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"at'}}]}
        server.script([stream_of({"reasoning": "Hm."}, "Aye,", " aye", call, then=steps.hang())] * 2)
        with chat.stream(tip, client=client_of(server), on_stop="keep") as stream:
            for chunk in stream:
                if chunk.choices[0].delta.tool_calls:
                    break
        server.wait_for_disconnects(1)

        async def main() -> ChatMessage:
            client = aclient_of(server)
            async with chat.astream(tip, client=client, on_stop="keep", regenerate=True) as stream:
                async for chunk in stream:
                    if chunk.choices[0].delta.tool_calls:
                        break
            return stream.message

        for reply in (stream.message, async_to_sync(main)()):
            assert (reply.content, reply.tool_calls, reply.reasoning) == ("Aye, aye", None, "Hm.")
            assert reply.finish_reason == ChatMessage.objects.get(pk=reply.pk).finish_reason == "stopped"
            assert reply.sent_context["tokens"] == stream.context.tokens
        assert len(replies()) == 2
        assert chat.complete(tip, client=client_of(server)) == reply
        assert not ReplyClaim.objects.exists()

    @pytest.mark.parametrize(
        "deltas",
        [[], [" \n"], [{"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{"}}]}]],
        ids=["nothing", "blanks", "half a call"],
    )
    def test_nothing_is_kept_of_one_without_text(self, tip, server, deltas):
        server.script([stream_of({"role": "assistant"}, *deltas, then=steps.hang())])
        with chat.stream(tip, client=client_of(server), on_stop="keep") as stream:
            for _ in range(1 + len(deltas)):
                next(stream)
        assert (stream.message, replies()) == (None, [])

    def test_one_that_broke_off_is_not_kept_nor_one_with_an_error_in_a_chunk(self, tip, server):
        """Its reader did not stop it: asking again is safe. BerriAI/litellm#21755."""

        def failing(exchange: Exchange) -> None:
            exchange.send_delta({"content": "Half a"})
            choice = {"index": 0, "delta": {"content": " reply"}, "error": {"message": "Overloaded"}}
            exchange.send_event({"id": "x", "object": "chat.completion.chunk", "choices": [choice]})
            steps.hang()(exchange)

        server.script([stream_of("Aye,", then=steps.hang(0)), failing])
        stream = chat.stream(tip, client=client_of(server), on_stop="keep")
        with stream, pytest.raises(StreamInterrupted, match=r"broke off|ended"):
            list(stream)
        assert replies() == []
        with chat.stream(tip, client=client_of(server), on_stop="keep") as stream:
            for _ in range(2):
                next(stream)
        assert (stream.text, stream.message, replies()) == ("Half a reply", None, [])
        assert chat.complete(tip, client=client_of(server)).content == "Aye, aye, Sir."

    def test_an_error_in_between_has_all_that_came(self, tip, server):
        """A call may be half of one."""

        def answer(exchange: Exchange) -> None:
            exchange.send_delta({"content": "Half a"})
            call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at'}}
            exchange.send_delta({"tool_calls": [call]})
            exchange.send_event({"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage})
            exchange.hang_up()

        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}

        server.script([answer] * 2)
        stream = chat.stream(tip, client=client_of(server))
        with pytest.raises(StreamInterrupted) as caught:
            list(stream)
        came = caught.value.reply
        assert [one["function"]["arguments"] for one in came["tool_calls"]] == ['{"at']
        assert (came["content"], came["usage"]) == ("Half a", usage)
        stream = chat.stream(tip, client=client_of(server))
        next(stream)
        with transaction.atomic(), pytest.raises(DurableTransactionRequired) as refused:
            next(stream)
        assert refused.value.reply["content"] == "Half a"
        assert not ReplyClaim.objects.exists()

    def test_on_stop_has_two_values(self, tip, server):
        for door in (chat.stream, chat.astream):
            with pytest.raises(InvalidMessage, match="on_stop"):
                door(tip, on_stop="kep")

    def test_errors_before_the_first_chunk_are_raised_where_it_is_opened(self, tip, server):
        """So a view can answer with a status: nothing of its response has gone out yet."""
        server.script([unauthorized(), error_event("Overloaded."), unauthorized()])
        with pytest.raises(openai.AuthenticationError):
            chat.stream(tip, client=client_of(server))
        with pytest.raises(openai.APIError, match="Overloaded"):
            chat.stream(tip, client=client_of(server))

        async def opening() -> None:
            await chat.astream(tip, client=aclient_of(server))

        with pytest.raises(openai.AuthenticationError):
            async_to_sync(opening)()


def waits(*, after_the_end: bool) -> Step:
    """Two words, and a pause before the next, or between the end and the usage."""

    def answer(exchange: Exchange) -> None:
        exchange.send_delta({"content": "Aye, aye"})
        if after_the_end:
            exchange.send_delta({}, finish_reason="stop")
        exchange.wait(20)
        exchange.send_delta({"content": ", Sir"})
        exchange.end_stream(None if after_the_end else "stop", {"prompt_tokens": 1, "total_tokens": 1})

    return answer


def pauses(is_due: Callable[[], object]) -> Iterator[float]:
    give_up = time.monotonic() + 20
    while not is_due():
        assert time.monotonic() < give_up
        yield 0.01


def closed_elsewhere(tip: ChatMessage, server: ScriptedOpenAIServer, on_stop: Any, is_due: Any) -> list[Any]:
    """What its reader got of a stream that another thread closes."""
    stream = chat.stream(tip, client=client_of(server), on_stop=on_stop)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(closing(lambda: list(stream)))
        for seconds in pauses(is_due):
            time.sleep(seconds)
        stream.close()
        return reader.result()


def aclosed_elsewhere(tip: ChatMessage, server: ScriptedOpenAIServer, on_stop: Any, is_due: Any) -> list[Any]:
    async def race() -> list[Any]:
        async with aclient_of(server) as client:
            stream = chat.astream(tip, client=client, on_stop=on_stop)

            async def read() -> list[Any]:
                return [chunk async for chunk in stream]

            reader = asyncio.create_task(read())
            for seconds in pauses(is_due):
                await asyncio.sleep(seconds)
            await stream.aclose()
            chunks = await reader
            assert not await ReplyClaim.objects.aexists()
            return chunks

    return async_to_sync(race)()


class TestClosedElsewhere:
    """By another thread or task than the one that reads: its reader is at the end, and nothing is stored twice."""

    @pytest.fixture
    def reads(self, monkeypatch):
        """One for each chunk that was asked for. The last one is waited for."""
        made, read = [], chat_model.OpenedStream.read
        monkeypatch.setattr(chat_model.OpenedStream, "read", lambda opened: made.append(1) or read(opened))
        return made

    @pytest.mark.parametrize("close", [closed_elsewhere, aclosed_elsewhere])
    @pytest.mark.parametrize(
        ("after_the_end", "on_stop", "stored"),
        [(False, "discard", []), (False, "keep", [("Aye, aye", "stopped")]), (True, "keep", [("Aye, aye", "stop")])],
    )
    def test_its_reader_is_at_the_end(self, tip, server, close, reads, after_the_end, on_stop, stored):
        server.script([waits(after_the_end=after_the_end)])
        assert text_of(close(tip, server, on_stop, lambda: len(reads) == 3 + after_the_end)) == "Aye, aye"
        assert [(reply.content, reply.finish_reason) for reply in replies()] == stored
        assert not ReplyClaim.objects.exists()

    @pytest.mark.parametrize("close", [closed_elsewhere, aclosed_elsewhere])
    def test_neither_its_reader_nor_its_provider_waits(self, tip, server, close, reads):
        """The provider is silent, and the client would wait for thirty seconds."""
        server.script([stream_of("Aye", then=steps.hang())])
        began = time.monotonic()
        assert text_of(close(tip, server, "discard", lambda: len(reads) == 3)) == "Aye"
        server.wait_for_disconnects(1)
        assert time.monotonic() - began < 15

    def test_while_it_is_being_opened(self, tip, server):
        server.script([late(1, stream_of("Aye"))])
        assert aclosed_elsewhere(tip, server, "keep", lambda: server.requests) == []
        assert replies() == []


@BOTH_STREAMS
def test_a_reply_has_bounds_whatever_client_reads_it(tip, server, drain, monkeypatch):
    """The default client bounds what it reads; one that the host passes may not."""
    monkeypatch.setattr(chat_model, "MOST_BYTES", 10_000)
    server.script([stream_of(*["word " * 100] * 40)])
    with pytest.raises(InvalidReply, match="more than 10000 characters"):
        drain(tip, server)
    assert (replies(), ReplyClaim.objects.count()) == ([], 0)


class TestNothingIsHeld:
    def test_no_database_connection_while_chunks_come(self, tip, server):
        stream = chat.stream(tip, client=client_of(server))
        held = []
        for chunk in stream:
            if not chunk.choices or chunk.choices[0].finish_reason:
                break
            held.append(connection.connection)
        assert len(held) > 2
        assert set(held) == {None}

    def test_no_transaction_may_wait_for_the_model(self, tip, server):
        with pytest.raises(DurableTransactionRequired), transaction.atomic():
            chat.stream(tip, client=client_of(server))
        assert server.requests == []
        stream = chat.stream(tip, client=client_of(server))
        with pytest.raises(DurableTransactionRequired), transaction.atomic():
            next(stream)
        assert ChatMessage.objects.count() == 1

    def test_a_whole_reply_is_not_streamed(self, tip, server):
        with pytest.raises(InvalidMessage, match=r"stream\(\)"):
            chat.complete(tip, client=client_of(server), stream=True)
        assert server.requests == []
