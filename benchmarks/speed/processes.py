"""The processes that are measured: each on a database of its own, a peer in an environment of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from project.embedded import EmbeddedPostgres

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ENVIRONMENTS = REPOSITORY / "var" / "peers"
SQLITE, POSTGRES, PREPARED = "SQLite", "PostgreSQL", "PostgreSQL, prepared"
#: A commit does not wait for the disk, as in SQLite with WAL and ``synchronous`` NORMAL: a power cut may lose the
#: newest commits. Beside these, :class:`EmbeddedPostgres` turns ``full_page_writes`` off.
DURABILITY = {"fsync": "on", "synchronous_commit": "off"}


class NotInstalled(Exception):
    """A peer's packages could not be installed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A system that is measured. ``module`` is run with ``arguments``; a peer has a folder with its requirements."""

    name: str
    module: str
    arguments: tuple[str, ...]
    databases: tuple[str, ...] = (SQLITE, POSTGRES)
    branches: bool = True
    #: Its calls, with the largest conversation that each is timed on.
    calls: Mapping[str, int]
    peer: Path | None = None
    #: The one size that it is measured at.
    only_size: int | None = None
    #: How often a call is timed that takes longer than its share of the time.
    fewest_rounds: int = 15

    @property
    def first_read(self) -> str | None:
        return next((call for call in self.calls if "read" in call), None)


@dataclass
class Running:
    """A measured system's process."""

    system: Measured
    process: subprocess.Popen[str]
    #: ``versions`` and ``durability``, as texts.
    about: dict[str, str] = field(default_factory=dict)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Raises :class:`RuntimeError` with what the system says of its error."""
        self.tell(**request)
        return self.hear()

    def tell(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"ended with {self.process.wait()}"}
        if "error" in answer:
            raise RuntimeError(f"{self.system.name}: {answer['error']}")
        return answer


@contextmanager
def running(systems: list[Measured], database: str) -> Iterator[list[Running]]:
    """The systems as processes, each with an empty database of this kind."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedPostgres(options=DURABILITY)) if database != SQLITE else None
        processes = []
        for at, system in enumerate(systems):
            url = server.create_database(f"measured{at}") if server else f"sqlite:///{folder}/{at}.sqlite3"
            log = stack.enter_context((folder / f"{at}.log").open("w+"))
            process = stack.enter_context(started(system, url, database, log))
            processes.append(Running(system, process))
        try:
            yield processes
        except BaseException:
            for at, one in enumerate(processes):
                print(f"-- {one.system.name}", (folder / f"{at}.log").read_text()[-2_000:], file=sys.stderr)
            raise


@contextmanager
def started(system: Measured, url: str, database: str, log: Any) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"DATABASE_URL": url}
    if database == PREPARED:
        environment["DATABASE_URL"] += "?server_side_binding=true&prepare_threshold=2"
    python = _environment_of(system.peer) / "bin" / "python" if system.peer else Path(sys.executable)
    command = [str(python), "-m", system.module, *system.arguments, *([url] if system.peer else [])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            # Before the server it talks to, which would wait for its connections.
            process.kill()


def install(peer: Path) -> None:
    """Install a peer's pinned packages into an environment of its own, once for each state of its requirements."""
    requirements = peer / "requirements.txt"
    environment, digest = _environment_of(peer), hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = environment / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return
    print(f"Installing {peer.name} into {environment.relative_to(REPOSITORY)}.", flush=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", environment], [*pip, "-r", requirements]):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalled(
                f"{peer.name}: {done.stderr.strip().splitlines()[-1] if done.stderr else 'no reason given'}"
            )
    stamp.write_text(digest)


def _environment_of(peer: Path) -> Path:
    return ENVIRONMENTS / peer.name
