"""Sessions of Google's Agent Development Kit, in a database.

``python -m benchmarks.peers.adk.system database <database>``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent, StorageSession
from google.genai.types import Content, Part
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.peers.common import ANSWER, EDITED, RECENT, Database, Loop, Peer, messages, run, versions
from benchmarks.peers.engine import Engine

APP, USER, AGENT = "benchmark", "user", "assistant"
NEWEST, NO_EVENTS = GetSessionConfig(num_recent_events=RECENT), GetSessionConfig(num_recent_events=0)


class Sessions(Peer):
    """``DatabaseSessionService``: an event is a row, in order of its time.

    An event can only be appended with the session object that was read last, so one is kept between the calls. There is
    no method to append many events: a session is filled with rows of the library's own tables, a second apart.

    A fork is what the library does when a user edits: ``rewind_async``, which reads the whole session and appends an
    event that says what to leave out, and then the edited message. What is left out stays stored, but can be neither
    read as a branch nor continued. The connection is not tested before each use, as the library does by default.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.loop = Loop()
        self._service = DatabaseSessionService(database.async_url(), pool_pre_ping=False)
        self._engine = Engine(self._service.db_engine, self.loop)
        self._runner = Runner(app_name=APP, agent=BaseAgent(name=AGENT), session_service=self._service)
        self._held: dict[str, Session] = {}

    def about(self) -> dict[str, Any]:
        packages = versions("google-adk", "sqlalchemy", "aiosqlite", "asyncpg")
        return {"versions": packages, "durability": self._engine.durability()}

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return self._engine.count(call)

    def fill(self, name: str, size: int) -> None:
        self.loop.wait(self._fill(name, size))

    def settle(self) -> None:
        self._engine.settle()

    def calls_on(self, read: str, written: str, forked: str, size: int) -> dict[str, Callable[[], Any]]:
        wait = self.loop.wait
        self._held[written] = wait(self._session(written, NO_EVENTS))
        return {
            "read": lambda: wait(self._session(read)),
            "read_recent": lambda: wait(self._session(read, NEWEST)),
            "append": lambda: wait(self._append(written)),
            "turn": lambda: wait(self._turn(written)),
            "turn_recent": lambda: wait(self._turn(written, NEWEST)),
            "fork": lambda: wait(self._fork(forked, size)),
        }

    async def _session(self, name: str, config: GetSessionConfig | None = None) -> Session:
        found = await self._service.get_session(app_name=APP, user_id=USER, session_id=name, config=config)
        assert found is not None
        return found

    async def _append(self, name: str) -> None:
        await self._service.append_event(self._held[name], _event(EDITED, "turn"))

    async def _turn(self, name: str, config: GetSessionConfig | None = None) -> None:
        await self._append(name)
        self._held[name] = await self._session(name, config)
        await self._service.append_event(self._held[name], _event(ANSWER, "turn"))

    async def _fork(self, name: str, size: int) -> None:
        await self._runner.rewind_async(user_id=USER, session_id=name, rewind_before_invocation_id=_turn_of(size // 2))
        await self._service.append_event(await self._session(name, NO_EVENTS), _event(EDITED, "turn"))

    async def _fill(self, name: str, size: int) -> None:
        session = await self._service.create_session(app_name=APP, user_id=USER, session_id=name)
        began = int(time.time()) - size
        events = [_event(item, _turn_of(n), began + n) for n, item in enumerate(messages(size))]
        last = datetime.fromtimestamp(events[-1].timestamp, UTC).replace(tzinfo=None)
        async with AsyncSession(self._service.db_engine) as rows, rows.begin():
            rows.add_all(StorageEvent.from_event(session, event) for event in events)
            await rows.execute(update(StorageSession).where(StorageSession.id == name).values(update_time=last))


def _event(item: dict[str, str], turn: str, at: float | None = None) -> Event:
    asked = item["role"] == "user"
    content = Content(role="user" if asked else "model", parts=[Part(text=item["content"])])
    when = {} if at is None else {"timestamp": float(at)}
    return Event(invocation_id=turn, author=USER if asked else AGENT, content=content, **when)


def _turn_of(number: int) -> str:
    """The invocation that the message with this number belongs to."""
    return f"turn-{number // 2}"


if __name__ == "__main__":
    run({"database": Sessions})
