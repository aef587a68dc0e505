"""Sessions of the OpenAI Agents SDK, in a database.

``python -m benchmarks.peers.agents_sdk.system sqlalchemy <database>``
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count as numbers
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.peers.common import ANSWER, EDITED, RECENT, Database, Loop, Peer, messages, run, versions
from benchmarks.peers.engine import Engine


class Sessions(Peer):
    """``SQLAlchemySession``: items in a row each, in order of their time.

    It has no branches, so a fork is what its user has to do: read all items, and add the first half and the edited
    message to a new session, in one call. The conversation is filled by one ``add_items``; its times are then set a
    second apart, as in a chat, since the library sorts what has the same time.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.loop = Loop()
        self._engine = Engine(create_async_engine(database.async_url()), self.loop)
        self._forks = numbers()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return self._engine.count(call)

    def about(self) -> dict[str, Any]:
        packages = versions("openai-agents", "sqlalchemy", "aiosqlite", "asyncpg")
        return {"versions": packages, "durability": self._engine.durability()}

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
    run({"sqlalchemy": Sessions})
