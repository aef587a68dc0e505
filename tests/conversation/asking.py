"""The four doors to a chat model, asked alike, each with a client that the caller need not keep."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.some import some


def client_of(server: ScriptedOpenAIServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=30)


def aclient_of(server: ScriptedOpenAIServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=30)


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def closing(call: Callable[[], Any]) -> Callable[[], Any]:
    """For another thread, whose connection nobody else would close."""

    def closed() -> Any:
        try:
            return call()
        finally:
            connections["default"].close()

    return closed


def drained_whole(tip: ChatMessage, **options: Any) -> ChatMessage | None:
    stream = chat.stream(tip, **options)
    list(stream)
    return stream.message


def completed(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> ChatMessage:
    with client_of(server) as client:
        return chat.complete(tip, client=client, **options)


def acompleted(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> ChatMessage:
    async def ask() -> ChatMessage:
        async with aclient_of(server) as client:
            return await chat.acomplete(tip, client=client, **options)

    return async_to_sync(ask)()


def drained(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> tuple[list[Any], chat.ReplyStream]:
    with client_of(server) as client:
        stream = chat.stream(tip, client=client, **options)
        return list(stream), stream


def adrained(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> tuple[list[Any], chat.AsyncReplyStream]:
    async def drain() -> tuple[list[Any], chat.AsyncReplyStream]:
        async with aclient_of(server) as client:
            stream = chat.astream(tip, client=client, **options)
            return [chunk async for chunk in stream], stream

    return async_to_sync(drain)()


def streamed(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> ChatMessage:
    chunks, stream = drained(tip, server, **options)
    assert text_of(chunks) == stream.text == stream.message.content
    return stream.message


def astreamed(tip: ChatMessage, server: ScriptedOpenAIServer, **options: Any) -> ChatMessage:
    chunks, stream = adrained(tip, server, **options)
    assert text_of(chunks) == stream.text == stream.message.content
    return stream.message


EACH = pytest.mark.parametrize("ask", some([completed, acompleted, streamed, astreamed], completed, astreamed))
BOTH_STREAMS = pytest.mark.parametrize("drain", [drained, adrained], ids=["stream", "astream"])


def say(session: ChatSession, tip: ChatMessage | None, *texts: str) -> list[ChatMessage]:
    roles = ["user", "assistant"] * len(texts)
    return chat.append_messages(
        session, tip, [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    )
