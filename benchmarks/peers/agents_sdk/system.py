"""OpenAI Agents SDK: ``AdvancedSQLiteSession``, which has branches, and ``SQLAlchemySession``.

Run as ``python -m benchmarks.peers.agents_sdk.system sqlalchemy <database URL>``.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession

from benchmarks.peers.on_sqlalchemy import OnEngine, OnLoop
from benchmarks.speed.serving import System, message, serve

#: How many of the newest messages a context of the app has.
NEWEST = 64
_PACKAGES = ("openai-agents", "sqlalchemy", "aiosqlite", "asyncpg")


class Durable(AdvancedSQLiteSession):
    """The SDK's session turns WAL on; every system here waits for the same at a commit."""

    @staticmethod
    def _configure_connection(conn: sqlite3.Connection) -> None:
        AdvancedSQLiteSession._configure_connection(conn)
        conn.execute("PRAGMA synchronous = NORMAL")


class Advanced(OnLoop):
    """``get_items`` reads the whole current branch; an edit is a branch made from a turn, which copies what is above.

    The session reads and decodes in a thread, as the SDK does. A fork leaves the session on its new branch, so it is
    switched back: three calls in all, with the message that is stored.
    """

    packages = ("openai-agents",)

    def __init__(self, url: str) -> None:
        super().__init__()
        self.path = url.removeprefix("sqlite:///")
        self.sessions: dict[str, Durable] = {}

    def about(self) -> dict[str, Any]:
        session = self._session("about")
        with session._locked_connection() as connection:
            read = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
            }
        durability = ", ".join(f"{name} {value}" for name, value in read.items())
        return {"versions": self.versions() | {"database": sqlite3.sqlite_version}, "durability": durability}

    def grow(self, size: int, branches: int) -> None:
        for use in ("read", "written", "forked"):
            session = self._session(f"{use} {size} {branches}")
            self.run(session.add_items([message(at) for at in range(size)]))
        session = self._session(f"read {size} {branches}")
        turns = size // 2
        for branch in range(1, branches):
            self.run(session.switch_to_branch("main"))
            self.run(session.create_branch_from_turn(max(1, turns * branch // branches), f"branch {branch}"))
            self.run(session.add_items([message(at) for at in range(max(1, size // 50))]))
        self.run(session.switch_to_branch("main"))

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        read, written, forked = (self._session(f"{use} {size} {branches}") for use in ("read", "written", "forked"))
        numbers = count()

        async def fork() -> None:
            await forked.create_branch_from_turn(size // 4 + 1, f"edit {next(numbers)}")
            await forked.add_items([message(0)])
            await forked.switch_to_branch("main")

        return _calls(self, read, written) | {"fork": lambda: self.run(fork())}

    def _session(self, name: str) -> Durable:
        if name not in self.sessions:
            self.sessions[name] = Durable(session_id=name, db_path=self.path, create_tables=True)
        return self.sessions[name]


class OnSQLAlchemy(OnEngine):
    """``get_items`` reads the whole session. It has no branches: an edit copies what is above into a new session."""

    packages = _PACKAGES

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.run(self._session("first").get_items())

    def grow(self, size: int, branches: int) -> None:
        for use in ("read", "written"):
            self.run(self._session(f"{use} {size}").add_items([message(at) for at in range(size)]))

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        read, written = (self._session(f"{use} {size}") for use in ("read", "written"))
        numbers = count()

        async def fork() -> None:
            items = await written.get_items()
            await self._session(f"edit {size} {next(numbers)}").add_items([*items[: size // 2], message(0)])

        return _calls(self, read, written) | {"fork": lambda: self.run(fork())}

    def _session(self, name: str) -> SQLAlchemySession:
        return SQLAlchemySession(name, engine=self.engine, create_tables=True)


def _calls(system: OnLoop, read: Any, written: Any) -> dict[str, Callable[[], Any]]:
    async def turn(limit: int | None) -> None:
        await written.add_items([message(0)])
        await written.get_items(limit)
        await written.add_items([message(1)])

    return {
        "read": lambda: system.run(read.get_items()),
        "read_recent": lambda: system.run(read.get_items(NEWEST)),
        "append": lambda: system.run(written.add_items([message(0)])),
        "turn": lambda: system.run(turn(None)),
        "turn_recent": lambda: system.run(turn(NEWEST)),
    }


SYSTEMS: dict[str, Callable[[str], System]] = {"advanced": Advanced, "sqlalchemy": OnSQLAlchemy}

if __name__ == "__main__":
    serve(SYSTEMS[sys.argv[1]](sys.argv[2]))
