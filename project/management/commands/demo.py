"""``manage.py demo``: show the app at work with real components. ``manage.py`` has set the environment."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project.demo.processes import DemoFailed, Stopped, Stops
from project.demo.session import FIRST_PORT, Demo, Options


class Command(BaseCommand):
    # Since Django 6.1 the checks of JSON fields connect to the database, which the demo has not created yet.
    requires_system_checks: list[str] = []

    help = (
        "Import a conversation with forks, compact every branch of it with a real Celery worker, and show the result. "
        "Then serve the chat page and the admin until Ctrl-C. Needs only what `make setup` installs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="print the whole report and exit, without serving")
        parser.add_argument("--reset", action="store_true", help="delete the data of earlier demos first")
        parser.add_argument("--file", type=Path, metavar="PATH", help="import this file, as import_chats does")
        parser.add_argument("--join", action="store_true", help="join all trees in the file into one conversation")
        parser.add_argument(
            "--all",
            action="store_true",
            dest="show_all",
            help="print the whole report, all branches of a large file too",
        )
        parser.add_argument("--port", type=int, default=FIRST_PORT, help="the first port to try (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("once", "reset", "join", "show_all", "file", "port")
        with Stops() as stops:
            try:
                ok = Demo(Options(**{name: options[name] for name in names})).run(stops)
            except Stopped as stopped:
                self.stderr.write(f"\nStopped by {stopped} before it was complete; nothing is left running.")
                sys.exit(128 + stopped.number)
            except DemoFailed as error:
                raise CommandError(str(error)) from error
            except BrokenPipeError:
                # The reader of the output has exited, as in `make demo | head`.
                sys.stderr.close()
                sys.exit(128 + signal.SIGPIPE)
        if not ok:
            sys.exit(1)
