"""The faults of a run: what is killed, stopped or emptied, and when, by the seed.

A worker is killed or stopped, where possible, at a moment when it has a run: its own log says so.
"""

import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import redis

#: Of a run in a soak (see :mod:`tests.soak.breaker`): shorter than usual, so that more of them are taken over.
LEASE_SECONDS = 14.0
#: Longer than the lease and two sweeps, so that another worker takes the run of a stopped one.
STOPPED_SECONDS = LEASE_SECONDS + 7
#: How long a fault waits for a worker that has a run, or for a connection.
PATIENCE_SECONDS = 3.0

#: How often each kind occurs in ten minutes; in a shorter run in proportion, but at least once.
IN_TEN_MINUTES = {
    "worker killed": 40,
    "pool process killed": 20,
    "worker stopped": 10,
    "broker emptied": 8,
    "backend killed": 120,
    "all backends killed": 6,
}
_STEP = re.compile(r"compaction_app\.\w+: (start|done|skip|retry|failed) .*?\brun=(\d+)")


@dataclass(frozen=True, order=True)
class Fault:
    #: Seconds from the start of the run.
    at: float
    kind: str
    #: Which worker or backend, 0 to 1.
    place: float


def schedule(seed: int, seconds: float) -> list[Fault]:
    """The faults of a run of this length, in order: the same for the same seed."""
    chance = random.Random(f"faults {seed}")
    faults = []
    for kind, number in IN_TEN_MINUTES.items():
        # A stopped worker goes on before the end.
        latest = seconds - STOPPED_SECONDS - PATIENCE_SECONDS if kind == "worker stopped" else seconds
        times = range(max(1, round(number * seconds / 600)))
        faults += [Fault(chance.uniform(0, max(latest, 1)), kind, chance.random()) for _ in times]
    return sorted(faults)


class Injector:
    """Carries out the faults. ``workers`` are the running ones; ``replace`` starts another in place of a dead one."""

    def __init__(self, database: str, broker: str, workers: list[Any], replace: Callable[[Any], None]) -> None:
        self.workers, self.replace = workers, replace
        self.done: Counter[str] = Counter()
        #: Workers that are stopped, and when they go on.
        self.stopped: dict[int, float] = {}
        self._database = psycopg.connect(database, autocommit=True, application_name="soak-faults")
        self._broker = redis.Redis.from_url(broker)

    def run(self, faults: list[Fault], started: float, seconds: float) -> None:
        for fault in faults:
            self._sleep_until(started + fault.at)
            self._carry_out(fault)
        self._sleep_until(started + seconds)
        for pid in list(self.stopped):
            self._go_on(pid)

    def close(self) -> None:
        self._database.close()
        self._broker.close()

    def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            for pid in [pid for pid, until in self.stopped.items() if time.monotonic() >= until]:
                self._go_on(pid)

    def _carry_out(self, fault: Fault) -> None:
        """Wait for something to hit; after a while any worker will do."""
        until = time.monotonic() + PATIENCE_SECONDS
        is_late = False
        while not self._hit(fault, any_worker=is_late):
            if is_late:
                return
            time.sleep(0.02)
            is_late = time.monotonic() > until
        self.done[fault.kind] += 1

    def _hit(self, fault: Fault, *, any_worker: bool) -> bool:
        if fault.kind == "broker emptied":
            self._broker.flushall()
            return True
        if "backend" in fault.kind:
            return self._kill_backends(fault)
        running = [worker for worker in self.workers if worker.pid not in self.stopped]
        busy = [worker for worker in running if holds_a_run(worker)]
        among = busy or (running if any_worker else [])
        # One worker at least goes on.
        if len(running) < 2 or not among:
            return False
        worker = among[int(fault.place * len(among))]
        if fault.kind == "worker stopped":
            os.killpg(worker.pid, signal.SIGSTOP)
            self.stopped[worker.pid] = time.monotonic() + STOPPED_SECONDS
        elif fault.kind == "worker killed":
            worker.kill()
            self.replace(worker)
        elif not kill_pool_process(worker, fault.place):
            return False
        if busy:
            self.done[f"{fault.kind}, in the middle of a run"] += 1
        return True

    def _kill_backends(self, fault: Fault) -> bool:
        rows = self._database.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' ORDER BY pid"
        ).fetchall()
        pids = [row[0] for row in rows]
        if fault.kind == "backend killed" and pids:
            pids = [pids[int(fault.place * len(pids))]]
        for pid in pids:
            self._database.execute("SELECT pg_terminate_backend(%s)", [pid])
        return bool(pids)

    def _go_on(self, pid: int) -> None:
        del self.stopped[pid]
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGCONT)


def holds_a_run(worker: Any) -> bool:
    """Whether the newest lines of its log begin a run that they do not end."""
    held = set()
    for step, run in _STEP.findall(worker.log_tail(40)):
        (held.add if step == "start" else held.discard)(run)
    return bool(held)


def kill_pool_process(worker: Any, place: float) -> bool:
    found = subprocess.run(["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=False)
    pids = [int(pid) for pid in found.stdout.split()]
    if not pids:
        return False
    with suppress(ProcessLookupError):
        os.kill(pids[int(place * len(pids))], signal.SIGKILL)
    return True
