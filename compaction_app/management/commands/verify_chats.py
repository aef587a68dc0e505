"""``manage.py verify_chats``: check that the stored values of sessions are consistent."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand

from compaction_app.management.console import FAILED, add_database, add_json, count, progress, sessions_named
from compaction_app.models import ChatMessage
from compaction_app.tree.verify import verify_session


class Command(BaseCommand):
    help = (
        "Derive depths, token sums, sibling order, open calls, pins, and every summary's cutoff, anchor, request and "
        "base again, and report every difference from what is stored. Writes nothing. Exit code 0: no problems; 1: "
        "problems found. "
        "Messages counted before TOKEN_COUNTER was changed are not a problem; their number is reported."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sessions", nargs="*", type=UUID, metavar="session", help="session ids (default: all)")
        add_database(parser)
        add_json(parser)

    def handle(self, *, sessions: Sequence[UUID], database: str, as_json: bool, **options: Any) -> None:
        chosen = sessions_named(sessions, database).only("pk")
        messages = ChatMessage.objects.using(database)
        total = messages.filter(session__in=sessions).count() if sessions else messages.count()
        with progress(length=total, label="messages") as bar:
            reports = [verify_session(session, on_rows=bar.update) for session in chosen.iterator()]
        found = [one for report in reports for one in report.problems]
        numbers = {
            "sessions": len(reports),
            "messages": sum(report.messages for report in reports),
            "runs": sum(report.runs for report in reports),
            "counted_otherwise": sum(report.counted_otherwise for report in reports),
        }
        if as_json:
            disagreements = [asdict(one) | {"session_id": str(one.session_id)} for one in found]
            self.stdout.write(json.dumps({**numbers, "disagreements": disagreements}, indent=2))
        else:
            for one in found:
                where = [f"session {one.session_id}"]
                where += [f"message #{one.message_id}"] if one.message_id else []
                where += [f"run {one.run_id}"] if one.run_id else []
                self.stdout.write(f"{one.finding}: {' '.join(where)}: {one.detail}")
            if otherwise := numbers["counted_otherwise"]:
                inside = count(sum(report.counted_otherwise > 0 for report in reports), "session")
                counted = f"{count(otherwise, 'message')} in {inside}"
                self.stdout.write(f"Counted with another TOKEN_COUNTER, with consistent sums: {counted}.")
            sessions_checked, messages_checked = count(len(reports), "session"), count(numbers["messages"], "message")
            runs_checked = count(numbers["runs"], "compaction run")
            result = f"{count(len(found), 'problem')} found" if found else "No problems found"
            self.stdout.write(f"{result}: {sessions_checked}, {messages_checked} and {runs_checked} checked.")
        if found:
            raise SystemExit(FAILED)
