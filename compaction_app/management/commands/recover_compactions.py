"""``manage.py recover_compactions``: run the sweep once that beat runs on a schedule."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from compaction_app import tasks
from compaction_app.management.console import add_json, count


class Command(BaseCommand):
    help = (
        "Requeue compactions that are stalled, delayed and due, or never reached the broker, and abandon those that "
        "failed too often. Exit code 1: some could not be requeued, because the broker does not respond."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_json(parser)

    def handle(self, *, as_json: bool, **options: Any) -> None:
        found = tasks.recover_compactions()
        # What the broker has not accepted.
        found["left"] = found["runs"] - found["enqueued"] - found["given_up"]
        if as_json:
            self.stdout.write(json.dumps(found))
        else:
            where = f"{count(found['databases'], 'database')}" + (f" ({found['schemas']})" if found["schemas"] else "")
            self.stdout.write(f"{found['enqueued']} requeued, {found['given_up']} abandoned in {where}.")
        if found["left"]:
            raise CommandError(f"{found['left']} could not be requeued: the broker does not respond.")
