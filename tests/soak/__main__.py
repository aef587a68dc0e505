"""A soak run: servers, workers and clients are started, faults injected, and in the end every row is checked.

The order: PostgreSQL, Valkey and the scripted model; workers and beat; clients and faults for the given seconds; then
rest, which is waited for; then the check (``check.py``), which knows only the rows and the clients' journals.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis

from project.embedded import EmbeddedPostgres, EmbeddedValkey
from project.guard import GuardedProcess
from tests.soak import check, journal, report
from tests.soak.faults import Injector, schedule
from tests.soak.model import Model

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WORKERS, CLIENTS = 3, 4
#: A run that is still open so long after the last fault is stuck.
REST_SECONDS = 120.0
START_SECONDS = 60.0


@dataclass
class Site:
    """The servers and processes of a run, ended in reverse order."""

    folder: Path
    stack: contextlib.ExitStack
    database: str = ""
    broker: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    workers: list[Any] = field(default_factory=list)
    started: int = 0

    def start_servers(self, model: Model) -> None:
        postgres = self.stack.enter_context(EmbeddedPostgres(options={"max_connections": "200"}))
        self.database = postgres.create_database("soak")
        self.broker = self.stack.enter_context(EmbeddedValkey()).url
        cleared = ("CELERY_", "CHAT_", "COMPACTION_", "OPENAI_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(cleared)} | {
            "DJANGO_SETTINGS_MODULE": "tests.soak.settings",
            "SECRET_KEY": "of a soak run, which serves no pages",
            "DEBUG": "false",
            "DATABASE_URL": self.database,
            "CELERY_BROKER_URL": self.broker,
            "OPENAI_BASE_URL": model.server.url,
            "SOAK_MODEL_URL": model.server.url,
            "SOAK_MODEL_KEY": "none",
            "COMPACTION_SWEEP_SECONDS": "3",
            "COMPACTION_REDELIVERY_SECONDS": "30",
            "PYTHONUNBUFFERED": "1",
        }
        self.manage("migrate", "--verbosity", "0")

    def manage(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "manage.py", *command], cwd=REPOSITORY, env=self.environment, check=check
        )

    def start(self, name: str, *module: str, **environment: str) -> GuardedProcess:
        """A child that ends with this process, however that ends."""
        process = GuardedProcess(
            [sys.executable, "-m", *module],
            log=self.folder / f"{name}.log",
            cwd=REPOSITORY,
            env=self.environment | environment,
        )
        self.stack.callback(process.stop)
        return process

    def start_worker(self) -> GuardedProcess:
        self.started += 1
        name = f"worker-{self.started}"
        options = ["--hostname", f"{name}@%h", "--concurrency", "2", "--loglevel", "info"]
        return self.start(name, "celery", "-A", "project", "worker", *options, "--without-gossip", "--without-mingle")

    def replace_worker(self, dead: Any) -> None:
        dead.stop()
        self.workers[self.workers.index(dead)] = self.start_worker()

    def start_workers(self) -> None:
        self.workers += [self.start_worker() for _ in range(WORKERS)]
        schedule_file = str(self.folder / "beat-schedule")
        self.start("beat", "celery", "-A", "project", "beat", "--schedule", schedule_file, "--loglevel", "info")
        wait_until(
            lambda: all(" ready." in worker.log_tail(200) for worker in self.workers), f"the workers; see {self.folder}"
        )

    def start_clients(self, seed: int, seconds: float) -> list[GuardedProcess]:
        common = [str(seed), str(seconds), str(self.folder)]
        clients = [
            self.start(f"client-{n}", "tests.soak.clients", str(n), *common, SOAK_LOG_LEVEL="ERROR")
            for n in range(CLIENTS)
        ]
        wait_until(lambda: len(list(self.folder.glob("client-*.jsonl"))) == CLIENTS, f"the clients; see {self.folder}")
        return clients

    def wait_for_rest(self) -> float | None:
        """Seconds until no run is open and the broker is empty; None if that does not come."""
        started, quiet = time.monotonic(), 0
        broker = redis.Redis.from_url(self.broker)
        with psycopg.connect(self.database, autocommit=True) as database:
            while time.monotonic() - started < REST_SECONDS:
                open_runs = database.execute(
                    "SELECT count(*) FROM compaction_app_compactionrun WHERE status IN ('ready', 'running')"
                ).fetchone()
                waiting = broker.llen("celery") + broker.hlen("unacked")
                quiet = 0 if waiting or (open_runs and open_runs[0]) else quiet + 1
                if quiet >= 4:
                    return time.monotonic() - started
                time.sleep(0.25)
        return None


def wait_until(ready: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {START_SECONDS:g} seconds in vain for {what}")
        time.sleep(0.1)


def soak(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """One run; its result, with everything that the report shows."""
    with contextlib.ExitStack() as stack:
        model = Model(seed)
        stack.enter_context(model.server)
        site = Site(folder, stack)
        site.start_servers(model)
        site.start_workers()
        clients = site.start_clients(seed, seconds)
        injector = Injector(site.database, site.broker, site.workers, site.replace_worker)
        stack.callback(injector.close)
        began = time.monotonic()
        injector.run(schedule(seed, seconds), began, seconds)
        while any(client.is_running() for client in clients) and time.monotonic() < began + seconds + 30:
            time.sleep(0.1)
        lasted = time.monotonic() - began
        model.is_calm = True
        rest = site.wait_for_rest()
        with psycopg.connect(site.database) as database:
            rows = check.read_rows(database)
        verified = site.manage("verify_chats", check=False).returncode == 0
        journals = [list(journal.read(path)) for path in sorted(folder.glob("client-*.jsonl"))]
        result = check.judge(rows, journals, clients=CLIENTS)
        logs = "".join(log.read_text(errors="replace") for log in folder.glob("worker-*.log"))
        return {
            "seed": seed,
            "seconds": round(lasted, 1),
            "rest_seconds": None if rest is None else round(rest, 1),
            "faults": dict(injector.done),
            "model": dict(model.answers),
            "lost_claims": logs.count("reason=claim_lost"),
            **result,
            "verified": verified,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="a random one if not given")
    parser.add_argument("--json", type=Path, help="write the result here too")
    parser.add_argument("--keep", type=Path, help="keep logs and journals in this folder")
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"soak of {options.seconds:g} seconds with seed {seed}", flush=True)
    # A terminated run ends like an interrupted one: everything that it started is ended first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compaction-soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        result = soak(options.seconds, seed, folder)
    print(report.table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 1 if report.failed(result) else 0


if __name__ == "__main__":
    sys.exit(main())
