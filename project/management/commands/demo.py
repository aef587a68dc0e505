"""``manage.py demo``: see it work, on real components. ``manage.py`` has set its environment."""

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
    # From Django 6.1 on the checks of JSON fields connect to the database, which the demo has yet to make.
    requires_system_checks: list[str] = []

    help = (
        "Import a conversation with forks, let a real Celery worker compact every branch of it, and show what came "
        "of it; then serve the chat page and the admin until Ctrl-C. Needs nothing but what `make setup` installs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="end when all is shown, instead of going on serving")
        parser.add_argument("--reset", action="store_true", help="start fresh: what earlier demos left is deleted")
        parser.add_argument("--file", type=Path, metavar="PATH", help="another conversation, as import_chats reads it")
        parser.add_argument("--join", action="store_true", help="make one conversation of all trees in the file")
        parser.add_argument("--all", action="store_true", dest="show_all", help="show every branch of a large file")
        parser.add_argument("--port", type=int, default=FIRST_PORT, help="the first port to try (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("once", "reset", "join", "show_all", "file", "port")
        with Stops() as stops:
            try:
                well = Demo(Options(**{name: options[name] for name in names})).run(stops)
            except Stopped as stopped:
                self.stderr.write(f"\nStopped by {stopped} before it was done; nothing is left running.")
                sys.exit(128 + stopped.number)
            except DemoFailed as error:
                raise CommandError(str(error)) from error
            except BrokenPipeError:
                # Whoever read the output has seen enough: `make demo | head`.
                sys.stderr.close()
                sys.exit(128 + signal.SIGPIPE)
        if not well:
            sys.exit(1)
