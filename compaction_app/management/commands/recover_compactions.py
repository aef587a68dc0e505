"""``manage.py recover_compactions``: one sweep, as beat makes it all the time."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import router
from django.utils import timezone

from compaction_app import tasks
from compaction_app.management.arguments import add_json
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus


class Command(BaseCommand):
    help = (
        "Hand over again the compactions that are stalled, delayed and due, or never reached the broker, and give up "
        "those that failed too often. Exit code 1: some could not be handed over, since the broker does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_json(parser)

    def handle(self, *, as_json: bool, **options: Any) -> None:
        found = tasks.recover_compactions()
        found["left"] = sum(_left(database) for database in settings.DATABASES)
        if as_json:
            self.stdout.write(json.dumps(found))
        else:
            self.stdout.write(f"{found['enqueued']} handed over, {found['given_up']} given up.")
        if found["left"]:
            raise CommandError(f"{found['left']} could not be handed over: the broker does not answer.")


def _left(database: str) -> int:
    """Runs that are due and that no broker has taken."""
    if not router.allow_migrate_model(database, CompactionRun):
        return 0
    due = CompactionRun.objects.using(database).claimable(timezone.now())
    return due.filter(status=RunStatus.READY, enqueued_at__isnull=True).count()
