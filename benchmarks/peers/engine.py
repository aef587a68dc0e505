"""One asynchronous engine of SQLAlchemy, for the libraries that are built on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.peers.common import (
    PRAGMAS,
    PRAGMAS_READ_BACK,
    SETTINGS_READ_BACK,
    Loop,
    Statements,
    count_statements,
    durability,
)


class Engine:
    """Sets up the engine of a library, counts its statements, and runs those of the adapter."""

    def __init__(self, engine: AsyncEngine, loop: Loop) -> None:
        self.engine = engine
        self._loop = loop
        self.is_postgresql = engine.dialect.name == "postgresql"
        if not self.is_postgresql:
            event.listen(engine.sync_engine, "connect", _set_pragmas)

    def durability(self) -> str:
        names = SETTINGS_READ_BACK if self.is_postgresql else PRAGMAS_READ_BACK
        return durability(names, lambda name: self._loop.wait(self._scalar(name)))

    def execute(self, statement: str, parameters: Mapping[str, Any]) -> None:
        self._loop.wait(self._execute(statement, parameters))

    def settle(self) -> None:
        self._loop.wait(self._settle())

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        target, name, watching = self.engine.sync_engine, "before_cursor_execute", []

        def report(_: Any, __: Any, statement: str, parameters: Any, ___: Any, executemany: bool) -> None:
            watching[0].add(statement, len(parameters) if executemany else 1)

        def watch(statements: Statements) -> None:
            watching.append(statements)
            event.listen(target, name, report)

        return count_statements(call, watch, lambda: event.remove(target, name, report))

    async def _scalar(self, statement: str) -> Any:
        async with self.engine.connect() as connection:
            return (await connection.execute(text(statement))).scalar_one()

    async def _execute(self, statement: str, parameters: Mapping[str, Any]) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(text(statement), parameters)

    async def _settle(self) -> None:
        async with self.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.execute(text("VACUUM ANALYZE" if self.is_postgresql else "ANALYZE"))


def _set_pragmas(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
