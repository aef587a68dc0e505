"""Runs one command for an owner process and ends it when the owner is gone, however the owner ended.

Run by its path, in a session of its own, so that it needs nothing but the standard library and a Ctrl-C at the
owner's terminal does not reach it. The owner holds the other end of the guard's standard input and sends the order
through it, since arguments can be read by every user of the machine. When that end closes, because the owner stopped the command or died, SIGKILL included, the guard asks the command to stop, kills what is
left of its process group and removes its folder. So stopping in order and being forsaken are one path.

``PR_SET_PDEATHSIG`` would be shorter, but it watches the thread that started the command instead of the process,
is lost when the user id changes, exists on Linux only and leaves the folder behind.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any


class Guarded:
    """The command, and how to end it."""

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
        # Also when the command has ended by itself: a killed Celery worker leaves its pool processes behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    try:
        guarded = Guarded(order)
    except OSError as error:
        tell({"error": str(error)})
    else:
        tell({"pid": guarded.process.pid})
        watch(guarded)
    sys.stdin.buffer.read()
    if order["remove"]:
        shutil.rmtree(order["remove"], ignore_errors=True)


def watch(guarded: Guarded) -> None:
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, lambda *_: threading.Thread(target=guarded.end).start())
    owner = threading.Thread(target=end_when_forsaken, args=[guarded], daemon=True)
    owner.start()
    status = guarded.process.wait()
    guarded.kill_group()
    tell({"status": status})
    owner.join()


def end_when_forsaken(guarded: Guarded) -> None:
    sys.stdin.buffer.read()
    guarded.end()


def tell(news: dict[str, Any]) -> None:
    # The owner that would read it may be gone already.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    main()
