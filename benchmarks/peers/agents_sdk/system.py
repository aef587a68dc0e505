"""Sessions of the OpenAI Agents SDK, in a database.

``python -m benchmarks.peers.agents_sdk.system sqlalchemy <database>``
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count as numbers
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.peers import common


class Sessions(common.Peer):
    """``SQLAlchemySession``: items in a row each, in order of their time.

    It has no branches, so a fork is what its user has to do: read all items, and add the first half and the edited
    message to a new session, in one call. The conversation is filled by one ``add_items``; its times are then set a
    second apart, as in a chat, since the library sorts what has the same time.
    """

    def __init__(self, database: common.Database) -> None:
        super().__init__()
        self.loop = common.Loop()
        self._engine = create_async_engine(database.async_url())
        self._is_postgresql = database.is_postgresql
        if not self._is_postgresql:
            event.listen(self._engine.sync_engine, "connect", _set_pragmas)
        self._forks = numbers()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        target, name, watching = self._engine.sync_engine, "before_cursor_execute", []

        def report(_: Any, __: Any, statement: str, parameters: Any, ___: Any, executemany: bool) -> None:
            watching[0].add(statement, len(parameters) if executemany else 1)

        def watch(statements: common.Statements) -> None:
            watching.append(statements)
            event.listen(target, name, report)

        return common.count_statements(call, watch, lambda: event.remove(target, name, report))

    def about(self) -> dict[str, Any]:
        packages = common.versions("openai-agents", "sqlalchemy", "aiosqlite", "asyncpg")
        names = common.SETTINGS_READ_BACK if self._is_postgresql else common.PRAGMAS_READ_BACK
        settings = common.durability(names, lambda name: self.loop.wait(self._scalar(name)))
        return {"versions": packages, "durability": settings}

    def calls_on(self, read: str, written: str, forked: str, size: int) -> dict[str, Callable[[], Any]]:
        wait = self.loop.wait
        to_read, to_write, to_fork = self.session(read), self.session(written), self.session(forked)

        async def turn(limit: int | None) -> None:
            await to_write.add_items([common.EDITED])
            await to_write.get_items(limit)
            await to_write.add_items([common.ANSWER])

        return {
            "read": lambda: wait(to_read.get_items()),
            "read_recent": lambda: wait(to_read.get_items(limit=common.RECENT)),
            "append": lambda: wait(to_write.add_items([common.EDITED])),
            "turn": lambda: wait(turn(None)),
            "turn_recent": lambda: wait(turn(common.RECENT)),
            "fork": lambda: wait(self.fork(to_fork, size)),
        }

    def session(self, name: str) -> Any:
        return SQLAlchemySession(name, engine=self._engine, create_tables=True)

    def fill(self, name: str, size: int) -> None:
        self.loop.wait(self.session(name).add_items(common.messages(size)))
        time = "datetime('2025-01-01', '+' || id || ' seconds')"
        if self._is_postgresql:
            time = "TIMESTAMP '2025-01-01' + id * INTERVAL '1 second'"
        statement = f"UPDATE agent_messages SET created_at = {time} WHERE session_id = :name"
        self.loop.wait(self._execute(statement, {"name": name}))

    def settle(self) -> None:
        self.loop.wait(self._settle())

    async def fork(self, session: Any, size: int) -> None:
        items = await session.get_items()
        copy = SQLAlchemySession(f"{session.session_id}-{next(self._forks)}", engine=self._engine)
        await copy.add_items([*items[: size // 2], common.EDITED])

    async def _scalar(self, statement: str) -> Any:
        async with self._engine.connect() as connection:
            return (await connection.execute(text(statement))).scalar_one()

    async def _execute(self, statement: str, parameters: Mapping[str, Any]) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(text(statement), parameters)

    async def _settle(self) -> None:
        async with self._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.execute(text("VACUUM ANALYZE" if self._is_postgresql else "ANALYZE"))


def _set_pragmas(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in common.PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


if __name__ == "__main__":
    common.run({"sqlalchemy": Sessions})
