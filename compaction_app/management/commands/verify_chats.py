"""``manage.py verify_chats``: check that the stored values of sessions are consistent."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from compaction_app.management.arguments import FAILED, NOT_FOUND, add_database, add_json
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.verify import Problem, Report, verify_session


class Command(BaseCommand):
    help = (
        "Derive depths, token sums, sibling order, open calls, and every summary's cutoff, anchor, pin and base again, "
        "and report every difference from what is stored. Writes nothing. Exit code 0: no problems; 1: problems found. "
        "Messages counted before TOKEN_COUNTER was changed are not a problem; their number is reported."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sessions", nargs="*", type=UUID, metavar="session", help="all of them, if none is named")
        add_database(parser)
        add_json(parser)

    def handle(self, *, sessions: Sequence[UUID], database: str, as_json: bool, **options: Any) -> None:
        chosen = ChatSession.objects.using(database).order_by("created_at", "pk").only("pk")
        if sessions:
            chosen = chosen.filter(pk__in=sessions)
            if missing := set(sessions) - {session.pk for session in chosen}:
                names = ", ".join(sorted(map(str, missing)))
                raise CommandError(f"There is no session {names}.", returncode=NOT_FOUND)
        messages = ChatMessage.objects.using(database)
        total = messages.filter(session__in=sessions).count() if sessions else messages.count()
        # disable=None: shown on a terminal only.
        with tqdm(total=total, unit=" messages", disable=None, leave=False) as bar:
            reports = [verify_session(session, using=database, on_rows=bar.update) for session in chosen.iterator()]
        self._report(reports, as_json)
        if any(report.problems for report in reports):
            raise SystemExit(FAILED)

    def _report(self, reports: Sequence[Report], as_json: bool) -> None:
        found = [one for report in reports for one in report.problems]
        messages, runs = sum(report.messages for report in reports), sum(report.runs for report in reports)
        if as_json:
            problems = [asdict(one) | {"session_id": str(one.session_id)} for one in found]
            numbers = {
                "sessions": len(reports),
                "messages": messages,
                "runs": runs,
                "counted_otherwise": sum(report.counted_otherwise for report in reports),
                "disagreements": problems,
            }
            self.stdout.write(json.dumps(numbers, indent=2))
            return
        self._list(found)
        if otherwise := [report.counted_otherwise for report in reports if report.counted_otherwise]:
            counted = (
                f"{sum(otherwise):,} messages in {len(otherwise):,} sessions were counted by another TOKEN_COUNTER"
            )
            self.stdout.write(f"{counted}, and their sums match those counts.")
        result = f"{len(found):,} problems found" if found else "No problems found"
        checked = f"{len(reports):,} sessions, {messages:,} messages and {runs:,} compaction runs checked"
        self.stdout.write(f"{result}: {checked}.")

    def _list(self, found: Iterable[Problem]) -> None:
        for one in found:
            where = [f"session {one.session_id}"]
            where += [f"message #{one.message_id}"] if one.message_id else []
            where += [f"run {one.run_id}"] if one.run_id else []
            self.stdout.write(f"{one.finding}: {' '.join(where)}: {one.detail}")
