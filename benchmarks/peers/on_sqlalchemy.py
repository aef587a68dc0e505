"""What the systems on SQLAlchemy's async engine have in common: one loop, one engine, counted statements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.speed.serving import System


class OnLoop(System):
    """A system with async functions: every call runs on one loop, which is kept, as are the connections."""

    packages: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # What a library sends to a thread finds the same thread, and so the same connection, each time.
        self.loop.set_default_executor(ThreadPoolExecutor(1))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in self.packages}


class OnEngine(OnLoop):
    """A system on an engine of its own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.engine = make_engine(url)

    def about(self) -> dict[str, Any]:
        return {"versions": self.versions(), "durability": self.run(_durability(self.engine))}

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        call()
        statements = []

        def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
            statements.append(statement)

        event.listen(self.engine.sync_engine, "before_cursor_execute", note)
        try:
            call()
        finally:
            event.remove(self.engine.sync_engine, "before_cursor_execute", note)
        return {"statements": len(statements)}


def make_engine(url: str) -> AsyncEngine:
    """With the durability that every system here has."""
    if url.startswith("postgresql"):
        return create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    engine = create_async_engine(url.replace("sqlite:///", "sqlite+aiosqlite:///"))

    @event.listens_for(engine.sync_engine, "connect")
    def as_durable_as_the_others(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


async def _durability(engine: AsyncEngine) -> str:
    asked = {"journal_mode": "PRAGMA journal_mode", "synchronous": "PRAGMA synchronous"}
    if engine.dialect.name == "postgresql":
        asked = {"fsync": "SHOW fsync", "synchronous_commit": "SHOW synchronous_commit"}
    async with engine.connect() as connection:
        return ", ".join(
            [f"{name} {(await connection.execute(text(statement))).scalar()}" for name, statement in asked.items()]
        )
