"""Sessions of the OpenAI Agents SDK, with branches (SQLite only) and through SQLAlchemy.

``python -m benchmarks.peers.agents_sdk.system advanced|sqlalchemy <database>``
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from itertools import count
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
    Statements,
    durability,
    messages,
    one_branch,
    run,
    versions,
)
from benchmarks.peers.engine import Engine
from benchmarks.speed.serving import System

Calls = dict[str, Callable[[], Any]]


class Sessions(System):
    """Common to both: reading, appending and a turn, by the methods that every session of the SDK has."""

    def __init__(self) -> None:
        self.loop = Loop()

    def grow(self, size: int, branches: int) -> None:
        for use in ("read", "written", "forked"):
            self.fill(self.session(f"{use}-{size}-{branches}"), size, branches if use == "read" else 1)
        self.settle()

    def calls(self, size: int, branches: int) -> Calls:
        wait = self.loop.wait
        read, written, forked = (self.session(f"{use}-{size}-{branches}") for use in ("read", "written", "forked"))

        async def turn(limit: int | None) -> None:
            await written.add_items([EDITED])
            await written.get_items(limit)
            await written.add_items([ANSWER])

        return {
            "read": lambda: wait(read.get_items()),
            "read_recent": lambda: wait(read.get_items(limit=RECENT)),
            "append": lambda: wait(written.add_items([EDITED])),
            "turn": lambda: wait(turn(None)),
            "turn_recent": lambda: wait(turn(RECENT)),
            "fork": lambda: wait(self.fork(forked, size)),
        }

    def session(self, name: str) -> Any:
        raise NotImplementedError

    def fill(self, session: Any, size: int, branches: int) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        raise NotImplementedError

    async def fork(self, session: Any, size: int) -> None:
        raise NotImplementedError


class _Branching(AdvancedSQLiteSession):
    """The library's session, with the same durability as the others, counted, and back to its first branch at once."""

    statements: Statements

    @staticmethod
    def _configure_connection(conn: sqlite3.Connection) -> None:
        for pragma in PRAGMAS:
            conn.execute(pragma)
        conn.set_trace_callback(_Branching.statements.add)

    def leave_branch(self) -> None:
        # switch_to_branch() would count all rows of the branch, and an edit does not go back.
        self._branch_state = ("main", self._generation)

    def ask(self, statement: str) -> Any:
        with self._locked_connection() as connection:
            return connection.execute(statement).fetchone()[0]


class Advanced(Sessions):
    """``AdvancedSQLiteSession``: items in a row each, and a second row for each item of each branch.

    A fork is ``create_branch_from_turn``, which copies the second kind of row, and then the edited message.
    The conversation is filled by one ``add_items``.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        if database.is_postgresql:
            raise ValueError("AdvancedSQLiteSession has no PostgreSQL.")
        self._path = database.address
        _Branching.statements = self._statements = Statements()

    def about(self) -> dict[str, Any]:
        return {
            "versions": versions("openai-agents") | {"sqlite": sqlite3.sqlite_version},
            "durability": durability(PRAGMAS_READ_BACK, self.session("about").ask),
        }

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return self._statements.of(call)

    def session(self, name: str) -> Any:
        return _Branching(session_id=name, db_path=self._path, create_tables=True)

    def fill(self, session: Any, size: int, branches: int) -> None:
        self.loop.wait(session.add_items(messages(size)))
        for _ in range(branches - 1):
            self.loop.wait(self.fork(session, size))

    def settle(self) -> None:
        with sqlite3.connect(self._path) as connection:
            connection.execute("ANALYZE")
        connection.close()

    async def fork(self, session: Any, size: int) -> None:
        await session.create_branch_from_turn(size // 4 + 1)
        await session.add_items([EDITED])
        session.leave_branch()


class Plain(Sessions):
    """``SQLAlchemySession``: items in a row each, in order of their time.

    It has no branches, so a fork is what its user has to do: read all items, and add the first half and the edited
    message to a new session, in one call. The conversation is filled by one ``add_items``; its times are then set a
    second apart, as in a chat, since the library sorts what has the same time.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._engine = Engine(create_async_engine(database.async_url()), self.loop)
        self._forks = count()
        self.count = self._engine.count

    def about(self) -> dict[str, Any]:
        packages = versions("openai-agents", "sqlalchemy", "aiosqlite", "asyncpg")
        return {"versions": packages, "durability": self._engine.durability()}

    def session(self, name: str) -> Any:
        return SQLAlchemySession(name, engine=self._engine.engine, create_tables=True)

    def fill(self, session: Any, size: int, branches: int) -> None:
        one_branch(branches)
        self.loop.wait(session.add_items(messages(size)))
        time = "datetime('2025-01-01', '+' || id || ' seconds')"
        if self._engine.is_postgresql:
            time = "TIMESTAMP '2025-01-01' + id * INTERVAL '1 second'"
        statement = f"UPDATE agent_messages SET created_at = {time} WHERE session_id = :name"
        self._engine.execute(statement, {"name": session.session_id})

    def settle(self) -> None:
        self._engine.settle()

    async def fork(self, session: Any, size: int) -> None:
        items = await session.get_items()
        copy = SQLAlchemySession(f"{session.session_id}-{next(self._forks)}", engine=self._engine.engine)
        await copy.add_items([*items[: size // 2], EDITED])


if __name__ == "__main__":
    run({"advanced": Advanced, "sqlalchemy": Plain})
