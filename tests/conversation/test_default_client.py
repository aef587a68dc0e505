"""Without ``client=`` one client of the environment is kept: a turn opens no new connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import openai
import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.conversation import chat_model
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


class Counted:
    """A server that counts the connections to it."""

    def __init__(self, server: ScriptedOpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.connections = 0
        accept = server._httpd.get_request

        def get_request() -> object:
            self.connections += 1
            return accept()

        monkeypatch.setattr(server._httpd, "get_request", get_request)


@pytest.fixture
def counted(server, monkeypatch) -> Iterator[Counted]:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield Counted(server, monkeypatch)
    chat_model._client_for.cache_clear()


def test_every_turn_goes_over_one_connection(tip, counted):
    for _ in range(3):
        chat.complete(tip, regenerate=True)
    # The server closes a connection after a stream.
    list(chat.stream(tip, regenerate=True))
    assert len(counted.server.requests) == 4
    assert counted.connections == 1


def test_so_does_every_turn_of_an_event_loop(tip, counted):
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
    assert len(counted.server.requests) == 8
    assert counted.connections == 2


def test_another_environment_is_another_client(tip, counted, monkeypatch):
    chat.complete(tip)
    with ScriptedOpenAIServer(default=steps.reply("Nay.")) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        assert chat.complete(tip, regenerate=True).content == "Nay."
        assert [call.headers["authorization"] for call in other.calls] == ["Bearer none"]
        monkeypatch.setenv("OPENAI_API_KEY", "another")
        chat.complete(tip, regenerate=True)
        assert [call.headers["authorization"] for call in other.calls][1:] == ["Bearer another"]
    assert len(counted.server.requests) == 1


def test_a_missing_key_is_reported_every_time(tip, counted, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    for _ in range(2):
        with pytest.raises(openai.OpenAIError, match="OPENAI_API_KEY"):
            chat.complete(tip)
