"""What the adapters share: their arguments, one event loop, and the same durability in SQLite for all of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, TypeVar

from benchmarks.speed.serving import System, message, serve

#: Set on every connection to SQLite.
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL")
PRAGMAS_READ_BACK = ("PRAGMA journal_mode", "PRAGMA synchronous")
#: Shown to the one who reads a result.
SETTINGS_READ_BACK = ("SHOW fsync", "SHOW synchronous_commit", "SHOW full_page_writes")
RECENT = 64
USES = ("read", "written", "forked")
#: What the fixed "model" answers, and what a user who edits a message writes instead.
ANSWER, EDITED = message(1), message(0)
#: Not the app's work, and not counted by every driver.
_TRANSACTION_WORDS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA")

T = TypeVar("T")


class Database:
    """A file of SQLite or a PostgreSQL server, by its path or URL."""

    def __init__(self, address: str) -> None:
        self.is_postgresql = address.startswith(("postgresql:", "postgres:"))
        self.address = address if self.is_postgresql else address.removeprefix("sqlite:///")

    def async_url(self) -> str:
        """As SQLAlchemy's asynchronous engine takes it."""
        if self.is_postgresql:
            return "postgresql+asyncpg://" + self.address.partition("://")[2]
        return f"sqlite+aiosqlite:///{self.address}"


class Loop:
    """One event loop for all calls, and one thread, so that a library with a connection per thread keeps one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(max_workers=1))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)


class Statements:
    """Counts the statements that a driver or SQLAlchemy reports; a row of an executemany counts as one."""

    def __init__(self) -> None:
        self.number = 0

    def add(self, statement: Any, times: int = 1) -> None:
        if not str(statement).lstrip().upper().startswith(_TRANSACTION_WORDS):
            self.number += times


def count_statements(
    call: Callable[[], Any], watch: Callable[[Statements], Any], leave: Callable[[], Any]
) -> dict[str, int]:
    """``watch`` has the statements reported and ``leave`` ends that, since a watched call is slower."""
    statements = Statements()
    watch(statements)
    try:
        call()
    finally:
        leave()
    return {"statements": statements.number}


class Peer(System):
    """Keeps three conversations of each size: one to read, one to write to, and one to fork.

    A library's own has ``fill(name, size)``, which stores one conversation; ``settle()`` for statistics, and no rows
    left over from the filling, as in a database that has been running for long; and ``calls_on(read, written, forked,
    size)``: the calls by name, on the conversations of these names.
    """

    def __init__(self) -> None:
        self._grown: set[int] = set()

    def grow(self, size: int, branches: int) -> None:
        if branches != 1:
            raise ValueError("Other libraries are measured with one branch only.")
        for use in USES:
            self.fill(_name(use, size), size)
        self.settle()
        self._grown.add(size)

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        if branches != 1 or size not in self._grown:
            raise ValueError(f"There is no conversation of {size} messages and {branches} branches.")
        return self.calls_on(*(_name(use, size) for use in USES), size)


def _name(use: str, size: int) -> str:
    return f"{use}-{size}"


def messages(size: int) -> list[dict[str, str]]:
    return [message(number) for number in range(size)]


def versions(*packages: str) -> dict[str, str]:
    return {package: version(package) for package in packages}


def durability(read_back: Iterable[str], ask: Callable[[str], Any]) -> str:
    """What the connection itself answers about its settings."""
    return ", ".join(f"{name.split()[1]}={ask(name)}" for name in read_back)


def run(variants: Mapping[str, Callable[[Database], System]]) -> None:
    """Serve the variant and the database that the command line names."""
    names = " | ".join(variants)
    if len(sys.argv) != 3 or sys.argv[1] not in variants:
        sys.exit(f"usage: python -m ….system {names}  <path of an SQLite file, or postgresql://…>")
    serve(variants[sys.argv[1]](Database(sys.argv[2])))
