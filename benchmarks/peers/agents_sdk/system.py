"""Sessions of the OpenAI Agents SDK, with branches (SQLite only) and through SQLAlchemy.

``python -m benchmarks.peers.agents_sdk.system advanced|sqlalchemy <database>``
"""

from __future__ import annotations

import os
import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from itertools import count as numbers
from pathlib import Path
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.peers.common import (
    ANSWER,
    EDITED,
    PRAGMAS,
    PRAGMAS_READ_BACK,
    RECENT,
    Database,
    Loop,
    Peer,
    count_statements,
    durability,
    messages,
    run,
    versions,
)
from benchmarks.peers.engine import Engine


class Sessions(Peer):
    """Common to both: reading, appending and a turn, by the methods that every session of the SDK has."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = Loop()

    def calls_on(self, read: str, written: str, forked: str, size: int) -> dict[str, Callable[[], Any]]:
        wait = self.loop.wait
        to_read, to_write, to_fork = self.session(read), self.session(written), self.session(forked)

        async def turn(limit: int | None) -> None:
            await to_write.add_items([EDITED])
            await to_write.get_items(limit)
            await to_write.add_items([ANSWER])

        return {
            "read": lambda: wait(to_read.get_items()),
            "read_recent": lambda: wait(to_read.get_items(limit=RECENT)),
            "append": lambda: wait(to_write.add_items([EDITED])),
            "turn": lambda: wait(turn(None)),
            "turn_recent": lambda: wait(turn(RECENT)),
            "fork": lambda: wait(self.fork(to_fork, size)),
        }

    @abstractmethod
    def session(self, name: str) -> Any: ...

    @abstractmethod
    async def fork(self, session: Any, size: int) -> None: ...


class _Branching(AdvancedSQLiteSession):
    """The library's session, with the same durability as the others, and back to its first branch at once."""

    @staticmethod
    def _configure_connection(conn: sqlite3.Connection) -> None:
        for pragma in PRAGMAS:
            conn.execute(pragma)

    def leave_branch(self) -> None:
        # switch_to_branch() would count all rows of the branch, and an edit does not go back.
        self._branch_state = ("main", self._generation)

    def ask(self, statement: str) -> Any:
        with self._locked_connection() as connection:
            return connection.execute(statement).fetchone()[0]

    def trace(self, report: Callable[[str], None] | None) -> None:
        for connection in self._connections:
            connection.set_trace_callback(report)


class Advanced(Sessions):
    """``AdvancedSQLiteSession``: an item is a row, and each item of each branch is a row of a second table.

    A fork is ``create_branch_from_turn``, which copies rows of the second table, and then the edited message.
    Reading scans the second table, of all sessions that the file has, so each conversation has a file of its own here,
    beside the given path. It is filled by one ``add_items``.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        if database.is_postgresql:
            raise ValueError("AdvancedSQLiteSession has no PostgreSQL.")
        self._path = Path(database.address)
        self._sessions: dict[str, _Branching] = {}

    def about(self) -> dict[str, Any]:
        return {
            "versions": versions("openai-agents") | {"sqlite": sqlite3.sqlite_version},
            "durability": durability(PRAGMAS_READ_BACK, self.session("about").ask),
        }

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return count_statements(call, lambda statements: self._trace(statements.add), lambda: self._trace(None))

    def session(self, name: str) -> Any:
        if name not in self._sessions:
            self._sessions[name] = _Branching(session_id=name, db_path=self._file(name), create_tables=True)
        return self._sessions[name]

    def fill(self, name: str, size: int) -> None:
        self.loop.wait(self.session(name).add_items(messages(size)))

    def settle(self) -> None:
        for name in self._sessions:
            with closing(sqlite3.connect(self._file(name))) as connection:
                connection.execute("ANALYZE")
                connection.commit()

    async def fork(self, session: Any, size: int) -> None:
        await session.create_branch_from_turn(size // 4 + 1)
        await session.add_items([EDITED])
        session.leave_branch()

    def _file(self, name: str) -> Path:
        return self._path.with_name(f"{self._path.stem}-{name}{self._path.suffix}")

    def _trace(self, report: Callable[[str], None] | None) -> None:
        for session in self._sessions.values():
            session.trace(report)


class Plain(Sessions):
    """``SQLAlchemySession``: items in a row each, in order of their time.

    It has no branches, so a fork is what its user has to do: read all items, and add the first half and the edited
    message to a new session, in one call. The conversation is filled by one ``add_items``; its times are then set a
    second apart, as in a chat, since the library sorts what has the same time.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._engine = Engine(create_async_engine(database.async_url()), self.loop)
        self._forks = numbers()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return self._engine.count(call)

    def about(self) -> dict[str, Any]:
        packages = versions("openai-agents", "sqlalchemy", "aiosqlite", "asyncpg")
        return {"versions": packages, "durability": self._engine.durability()}

    def session(self, name: str) -> Any:
        return SQLAlchemySession(name, engine=self._engine.engine, create_tables=True)

    def fill(self, name: str, size: int) -> None:
        self.loop.wait(self.session(name).add_items(messages(size)))
        time = "datetime('2025-01-01', '+' || id || ' seconds')"
        if self._engine.is_postgresql:
            time = "TIMESTAMP '2025-01-01' + id * INTERVAL '1 second'"
        statement = f"UPDATE agent_messages SET created_at = {time} WHERE session_id = :name"
        self._engine.execute(statement, {"name": name})

    def settle(self) -> None:
        self._engine.settle()

    async def fork(self, session: Any, size: int) -> None:
        items = await session.get_items()
        copy = SQLAlchemySession(f"{session.session_id}-{next(self._forks)}", engine=self._engine.engine)
        await copy.add_items([*items[: size // 2], EDITED])


if __name__ == "__main__":
    run({"advanced": Advanced, "sqlalchemy": Plain})
