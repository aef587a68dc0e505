"""``python -m tests.transfer.replay_process <messages> [<folder>]``: digests of replays, as one process makes them.

A process of its own has a hash seed of its own and may use another database: ``DATABASE_URL`` says which, an empty
one. Prints a JSON object of file names, each with its generations and its digest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent

Digests = dict[str, tuple[int, str]]


def main(messages: str, folder: str = "") -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    settings.COMPACTION = {}
    call_command("migrate", verbosity=0)
    digests = digests_here(int(messages) or None, Path(folder) if folder else None)
    sys.stdout.write(json.dumps(digests) + "\n")


def digests_here(messages: int | None, folder: Path | None) -> Digests:
    """Digests of all lines, each as far as its first ``messages`` messages, made by this process."""
    from tests.transfer.replaying import digest, lines

    return {line.name: digest(line.first(messages)) for line in lines(folder)}


@contextmanager
def elsewhere(
    messages: int | None, folder: Path | None, *, seed: int, database_url: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Another process at the same work; without ``database_url`` on a SQLite file of its own."""
    with tempfile.TemporaryDirectory(prefix="replay-") as temporary:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_URL": database_url or f"sqlite:///{temporary}/replay.sqlite3",
            "PYTHONHASHSEED": str(seed),
            "SECRET_KEY": "replay",
        }
        command = [
            sys.executable,
            "-m",
            "tests.transfer.replay_process",
            str(messages or 0),
            *([str(folder)] if folder else []),
        ]
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def result_of(process: subprocess.Popen[str]) -> Digests:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, f"the replay ended with {process.returncode}"
    return {name: (generations, digest) for name, (generations, digest) in json.loads(output.splitlines()[-1]).items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
