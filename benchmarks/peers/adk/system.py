"""Google ADK: ``DatabaseSessionService``.

Run as ``python -m benchmarks.peers.adk.system database <database URL>``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from sqlalchemy import insert

from benchmarks.peers.on_sqlalchemy import OnEngine
from benchmarks.speed.serving import message, serve

NEWEST = 64
_OWNER = {"app_name": "chat", "user_id": "user"}


class Adk(OnEngine):
    """``get_session`` reads the session with all its events, or with the newest.

    A reply is appended to the session object that was read, as the runner does it. It has no branches: an edit copies
    what is above into a new session. A conversation is made by storing its events in one transaction, with the rows
    that ``append_event`` would write.
    """

    packages = ("google-adk", "sqlalchemy", "aiosqlite", "asyncpg")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.service = DatabaseSessionService(db_engine=self.engine)
        self.numbers = count()

    def grow(self, size: int, branches: int) -> None:
        for use in ("read", "written"):
            self.run(self._store(f"{use} {size}", [_event(message(at)) for at in range(size)]))

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        newest = GetSessionConfig(num_recent_events=NEWEST)

        async def append() -> None:
            session = await self._get(f"written {size}", GetSessionConfig(num_recent_events=0))
            await self.service.append_event(session, _event(message(0)))

        async def turn(config: GetSessionConfig | None) -> None:
            session = await self._get(f"written {size}", config)
            await self.service.append_event(session, _event(message(0)))
            await self.service.append_event(session, _event(message(1)))

        async def fork() -> None:
            session = await self._get(f"written {size}", None)
            await self._store(f"edit {size} {next(self.numbers)}", [*session.events[: size // 2], _event(message(0))])

        return {
            "read": lambda: self.run(self._get(f"read {size}", None)),
            "read_recent": lambda: self.run(self._get(f"read {size}", newest)),
            "append": lambda: self.run(append()),
            "turn": lambda: self.run(turn(None)),
            "turn_recent": lambda: self.run(turn(newest)),
            "fork": lambda: self.run(fork()),
        }

    async def _get(self, name: str, config: GetSessionConfig | None) -> Any:
        return await self.service.get_session(**_OWNER, session_id=name, config=config)

    async def _store(self, name: str, events: list[Event]) -> None:
        session = await self.service.create_session(**_OWNER, session_id=name)
        table = self.service._get_schema_classes().StorageEvent
        rows = []
        for event in events:
            stored = table.from_event(session, event.model_copy(update={"id": Event.new_id()}))
            columns = table.__table__.columns.keys()
            rows.append({column: getattr(stored, column) for column in columns})
        async with self.engine.begin() as connection:
            await connection.execute(insert(table), rows)


def _event(stored: dict[str, str]) -> Event:
    role = "user" if stored["role"] == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=stored["content"])])
    return Event(author=role, content=content, invocation_id="turn")


if __name__ == "__main__":
    serve(Adk(sys.argv[2]))
