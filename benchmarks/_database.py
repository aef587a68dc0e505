"""Runs a benchmark on both databases: each in a process of its own, on servers and files of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from project.embedded import EmbeddedPostgres  # noqa: E402  # the path above makes it importable


def on_both_databases(script: str, measure: Callable[[], int]) -> int:
    """Call ``measure`` with Django set up on SQLite, then on PostgreSQL; returns the worst exit status."""
    if os.environ.get("BENCHMARK_DATABASE"):
        return _measure(measure)
    with tempfile.TemporaryDirectory() as folder:
        status = _run(script, "SQLite", f"sqlite:///{folder}/benchmark.sqlite3")
    with EmbeddedPostgres() as server:
        return max(status, _run(script, "PostgreSQL", server.database_url()))


def _run(script: str, name: str, url: str) -> int:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": url,
        "BENCHMARK_DATABASE": name,
        "DEBUG": "false",
        "SECRET_KEY": "benchmark",
    }
    print(f"-- {name}", flush=True)
    return subprocess.run([sys.executable, script], cwd=REPOSITORY, env=environment, check=False).returncode


def _measure(measure: Callable[[], int]) -> int:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    return measure()
