"""The clients that the app makes: what an endpoint sends back has bounds, and it sends nobody elsewhere.

Without ``client=`` one client of the environment is kept, so a turn opens no new connection.
"""

import asyncio
import json
import time
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.conversation import chat_model
from compaction_app.exceptions import InvalidReply, StreamInterrupted, SummarizerError
from compaction_app.models import ChatMessage
from compaction_app.summarizers import endpoint
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.conversation.asking import drained_whole
from tests.some import some
from tests.summarizers.summarizing import KEY, KEY_VARIABLE, cascade, request

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def here(server, monkeypatch):
    """The server of the client that the environment names, and of the summarizers."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    yield server
    chat_model._client_for.cache_clear()


async def _astreamed(tip: ChatMessage, **options: Any) -> ChatMessage | None:
    async with chat.astream(tip, **options) as stream:
        async for _ in stream:
            pass
    return stream.message


CHATS = {
    "complete": chat.complete,
    "acomplete": async_to_sync(chat.acomplete),
    "stream": drained_whole,
    "astream": async_to_sync(_astreamed),
}


@pytest.fixture(params=some(CHATS, "complete", "astream"))
def ask(request):
    return CHATS[request.param]


def raw(status: int, data: bytes, content_type: str = "application/json", **headers: str) -> Step:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.send(status, data, content_type, names)


def completion(text: str = "Aye.") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    ).encode()


class TestRedirects:
    def test_a_redirect_is_not_followed_and_says_so(self, here, tip, ask):
        """The prompt would go to an address that nobody chose."""
        with ScriptedOpenAIServer() as other:
            here.script(default=raw(307, b"", Location=f"{other.url}/chat/completions"))
            with pytest.raises(openai.APIStatusError, match="307"):
                ask(tip)
            with pytest.raises(SummarizerError, match="HTTP 307"):
                cascade(here, "first").summarize(request())
            assert other.calls == []
        assert ChatMessage.objects.count() == 1

    def test_a_client_that_the_host_passes_is_the_hosts(self, here, tip):
        with ScriptedOpenAIServer(default=steps.reply("Nay.")) as other:
            here.script(default=raw(307, b"", Location=f"{other.url}/chat/completions"))
            client = openai.OpenAI(base_url=here.url, api_key="none")
            assert chat.complete(tip, client=client).content == "Nay."


class TestSize:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(endpoint, "MOST_BYTES", 2**20)

    @pytest.mark.parametrize("status", [200, 400])
    def test_a_reply_is_counted_while_it_arrives(self, here, tip, ask, status):
        here.script(default=raw(status, b" " * 2**22))
        with pytest.raises((InvalidReply, StreamInterrupted), match="more than"):
            ask(tip)

    def test_so_are_a_draft_of_a_summarizer_and_a_stream(self, here, tip):
        here.script([raw(200, b" " * 2**22)], default=raw(200, b" " * 2**22, "text/event-stream"))
        with pytest.raises(SummarizerError) as caught:
            cascade(here, "first").summarize(request())
        assert caught.value.error_code == "provider_error"
        with pytest.raises(InvalidReply, match="more than"):
            drained_whole(tip)

    @pytest.mark.parametrize("encoding", ["br", "gzip"])
    def test_it_is_asked_for_as_it_is_and_a_compressed_one_is_no_reply(self, here, tip, encoding):
        """It could hold a gigabyte in 300 kB."""
        here.script(default=raw(200, completion(), Content_Encoding=encoding))
        with pytest.raises(InvalidReply, match="not asked for"):
            chat.complete(tip)
        assert here.calls[0].headers["accept-encoding"] == "identity"


def dripping(piece: bytes, content_type: str) -> Step:
    def answer(exchange: Exchange) -> None:
        exchange.start(200, content_type, {"Connection": "close"})
        while exchange.wait(0.1) and not exchange.client_left:
            exchange.write(piece)

    return answer


def talking(seconds: float) -> Step:
    """A word every 0.1 s, and the end."""

    def answer(exchange: Exchange) -> None:
        exchange.start_stream()
        for n in range(int(seconds * 10)):
            exchange.send_delta({"content": f"{n} "})
            exchange.wait(0.1)
        exchange.end_stream("stop", {})

    return answer


class TestTime:
    @pytest.mark.long
    @pytest.mark.parametrize("name", ["complete", "astream"])
    def test_a_blank_or_a_comment_now_and_then_is_no_sign_of_life(self, here, tip, name):
        """It would start a client's time-out again and again."""
        drip = (b": still here\n\n", "text/event-stream") if name == "astream" else (b" ", "application/json")
        here.script(default=dripping(*drip))
        began = time.monotonic()
        with pytest.raises(openai.APITimeoutError):
            CHATS[name](tip, timeout=0.5)
        assert time.monotonic() - began < 3

    @pytest.mark.long
    def test_a_stream_may_last_longer_than_its_timeout_while_it_brings_something(self, here, tip):
        here.script(default=talking(1.2))
        reply = drained_whole(tip, timeout=0.5)
        assert reply is not None
        assert reply.content.split() == [str(n) for n in range(12)]

    def test_but_not_longer_than_an_hour(self, here, tip, monkeypatch):
        monkeypatch.setattr(endpoint, "LONGEST_SECONDS", 0.6)
        here.script(default=talking(30))
        with pytest.raises(StreamInterrupted) as caught:
            drained_whole(tip, timeout=0.5)
        assert caught.value.partial.startswith("0 1 2 ")


@pytest.mark.parametrize("name", ["stream", "astream"])
@pytest.mark.parametrize("chunks", [3, 10**9])
def test_text_after_the_end_is_not_of_the_reply_and_usage_is(here, tip, name, chunks):
    """A stream that goes on for ever is left."""

    def answer(exchange: Exchange) -> None:
        exchange.start_stream()
        exchange.send_delta({"content": "Aye."}, finish_reason="stop")
        for n in range(chunks):
            if exchange.client_left:
                return
            exchange.send_delta({"content": f" And {n}."})
        exchange.end_stream(None, {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8})

    here.script(default=answer)
    reply = CHATS[name](tip)
    assert (reply.content, (reply.usage or {}).get("prompt_tokens")) == ("Aye.", 7 if chunks == 3 else None)


class TestKept:
    @pytest.fixture
    def connections(self, here, monkeypatch):
        """One for each connection to the server."""
        made, accept = [], here._httpd.get_request
        monkeypatch.setattr(here._httpd, "get_request", lambda: made.append(1) or accept())
        return made

    def test_every_turn_goes_over_one_connection(self, tip, here, connections):
        for _ in range(3):
            chat.complete(tip, regenerate=True)
        # The server closes a connection after a stream.
        list(chat.stream(tip, regenerate=True))
        assert len(here.requests) == 4
        assert len(connections) == 1

    def test_so_does_every_turn_of_an_event_loop(self, tip, here, connections):
        async def main() -> None:
            for _ in range(3):
                await chat.acomplete(tip, regenerate=True)
            async for _ in chat.astream(tip, regenerate=True):
                pass
            clients.append(chat_model._async_client.client)

        clients: list[openai.AsyncOpenAI] = []
        for run in (async_to_sync(main), lambda: asyncio.run(main())):
            # Another loop: its connections are its own, and closed with it.
            run()
            assert clients[-1].is_closed()
        assert clients[0] is not clients[1]
        assert len(here.requests) == 8
        assert len(connections) == 2
