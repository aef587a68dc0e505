"""Runs one command for an owner process and ends it when the owner is gone, however the owner ended.

``GuardedProcess`` is the owner's side, ``main`` the guard's. The guard is run by its path, in its own session, so that
it needs only the standard library and a Ctrl-C at the owner's terminal does not reach it. The owner sends the order
through the guard's standard input, since arguments are visible to every user of the machine. When that pipe closes,
because the owner stopped the command or died, even by SIGKILL, the guard asks the command to stop, kills the rest of
its process group and removes its folder.

``PR_SET_PDEATHSIG`` would be shorter, but it watches the thread that started the command instead of the process, is
lost when the user id changes, exists on Linux only and leaves the folder behind.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GRACE_SECONDS = 10.0
LOG_TAIL_LINES = 25


class CommandNotStartedError(RuntimeError):
    """The command of a guarded process could not be run at all."""


class GuardedProcess:
    """A command that ends when :meth:`stop` is called or when this process is gone, SIGKILL included.

    It runs in its own session and process group, so a Ctrl-C at this process's terminal does not reach it and
    :meth:`kill` reaches its children too. A child that this process forks without exec keeps it alive as well.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        identity: Mapping[str, Any] | None = None,
        stop_signal: int = signal.SIGTERM,
        grace_seconds: float = GRACE_SECONDS,
        remove: Path | None = None,
    ) -> None:
        self.log = log
        self.env = dict(os.environ if env is None else env)
        self.grace_seconds = grace_seconds
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            # Unbuffered: what is in a buffer would be invisible to the select of is_running.
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        order = {
            "command": [str(part) for part in command],
            "log": str(log),
            "cwd": str(cwd),
            "env": self.env,
            "identity": dict(identity or {}),
            "stop_signal": int(stop_signal),
            "grace_seconds": grace_seconds,
            "remove": str(remove) if remove else None,
        }
        self._send(order)
        first = self._next_report()
        if "pid" not in first:
            self.stop()
            raise CommandNotStartedError(f"{command[0]} cannot be started: {first.get('error', 'its guard ended')}")
        self.pid = int(first["pid"])

    def is_running(self) -> bool:
        assert self._guard.stdout is not None
        if self._guard.stdout.closed:
            return False
        # After the pid, the guard writes only once: when the command has ended.
        readable, _, _ = select.select([self._guard.stdout], [], [], 0)
        return not readable

    def stop(self) -> None:
        """Stop it in order, and kill what is left of it. Idempotent."""
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.close()
        try:
            self._guard.wait(self.grace_seconds + GRACE_SECONDS)
        finally:
            self._guard.stdout.close()

    def kill(self) -> None:
        """SIGKILL to it and its children, as the kernel does when memory runs out."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _send(self, order: dict[str, Any]) -> None:
        assert self._guard.stdin is not None
        with open(self._guard.stdin.fileno(), "wb", closefd=False) as pipe:
            pipe.write(json.dumps(order).encode() + b"\n")

    def _next_report(self) -> dict[str, Any]:
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        return dict(json.loads(line)) if line else {}


class Guarded:
    """The command and how to end it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.ending = threading.Lock()
        with open(order["log"], "ab") as log:
            self.process = subprocess.Popen(
                order["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=order["cwd"],
                env=order["env"],
                start_new_session=True,
                **order["identity"],
            )

    def end(self) -> None:
        with self.ending:
            if self.process.poll() is None:
                self.process.send_signal(self.order["stop_signal"])
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(self.order["grace_seconds"])
            self.kill_group()

    def kill_group(self) -> None:
        # Also if the command has ended by itself: a killed Celery worker leaves its pool processes behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    try:
        guarded = Guarded(order)
    except OSError as error:
        report({"error": str(error)})
    else:
        report({"pid": guarded.process.pid})
        watch(guarded)
    sys.stdin.buffer.read()
    if order["remove"]:
        shutil.rmtree(order["remove"], ignore_errors=True)


def watch(guarded: Guarded) -> None:
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, lambda *_: threading.Thread(target=guarded.end).start())
    owner = threading.Thread(target=end_without_owner, args=[guarded], daemon=True)
    owner.start()
    status = guarded.process.wait()
    guarded.kill_group()
    report({"status": status})
    owner.join()


def end_without_owner(guarded: Guarded) -> None:
    sys.stdin.buffer.read()
    guarded.end()


def report(message: dict[str, Any]) -> None:
    # The owner may be gone already.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
