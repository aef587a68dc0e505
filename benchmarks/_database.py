"""Runs a benchmark on SQLite and on PostgreSQL, each in its own process with its own temporary database."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from project.embedded import EmbeddedPostgres  # noqa: E402  # the path above makes it importable

Process = subprocess.Popen[str]


def on_both_databases(script: str, measure: Callable[[], int]) -> int:
    """Call ``measure`` with Django set up on SQLite, then on PostgreSQL; returns the worst exit status."""
    if os.environ.get("BENCHMARK_DATABASE"):
        return _measure(measure)
    worst = 0
    for name, database in DATABASES.items():
        print(f"-- {name}", flush=True)
        with database() as url:
            process = subprocess.run([sys.executable, script], cwd=REPOSITORY, env=_env(name, url), check=False)
        worst = max(worst, process.returncode)
    return worst


def side_by_side(
    script: str, parts: Sequence[str], serve: Callable[[str], int], compare: Callable[[Mapping[str, Process]], int]
) -> int:
    """Run ``serve(part)`` for each part in its own process and database, on SQLite and then on PostgreSQL.

    ``compare`` talks to the processes over their pipes, so that they are measured at the same time and a slow machine
    affects all of them. Returns its worst exit status.
    """
    if part := os.environ.get("BENCHMARK_PART"):
        return _measure(lambda: serve(part))
    worst = 0
    for name, database in DATABASES.items():
        print(f"-- {name}", flush=True)
        with ExitStack() as stack:
            processes = {}
            for part in parts:
                environment = _env(name, stack.enter_context(database())) | {"BENCHMARK_PART": part}
                processes[part] = stack.enter_context(_piped(script, environment))
            worst = max(worst, compare(processes))
    return worst


@contextmanager
def _piped(script: str, environment: Mapping[str, str]) -> Iterator[Process]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, script], cwd=REPOSITORY, env=environment, **pipes) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/benchmark.sqlite3"


@contextmanager
def _postgresql() -> Iterator[str]:
    with EmbeddedPostgres() as server:
        yield server.database_url()


DATABASES = {"SQLite": _sqlite, "PostgreSQL": _postgresql}


def _env(name: str, url: str) -> dict[str, str]:
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": url,
        "BENCHMARK_DATABASE": name,
        "DEBUG": "false",
        "SECRET_KEY": "benchmark",
    }


def _measure(measure: Callable[[], int]) -> int:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    return measure()
