"""``manage.py import_chats FILE …``: import conversations of other programs; a bad one does not stop the others."""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import reset_queries

from compaction_app.contrib import histories
from compaction_app.exceptions import CompactionError
from compaction_app.management.console import (
    FAILED,
    WrongCall,
    add_database,
    add_json,
    count,
    printable,
    progress,
    user_named,
    write_some,
)
from compaction_app.transfer import importing
from compaction_app.transfer.importing import Imported, Refused

#: A product has dozens; a file that is something else any number.
_MOST_KEYS = 200


class Command(BaseCommand):
    help = (
        "Import conversations with all their branches: exports of ChatGPT, Claude, DeepSeek, Qwen, Open WebUI and "
        "LibreChat, sessions of Claude Code and Codex CLI, Open-Assistant trees and the OpenAI chat format, as JSON, "
        "as JSON lines, in a zip or in a folder. Each is imported completely or not at all; exit code 1 tells that one "
        "was not. A second import stores nothing again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="or folder; several are one archive")
        parser.add_argument("--owner", metavar="USERNAME", help="the user who owns the conversations")
        add_database(parser)
        add_json(parser)

    def handle(self, *, files: list[Path], database: str, **options: Any) -> None:
        for file in files:
            if not file.exists():
                raise WrongCall(f"There is no file or folder {file}.")
        owner = user_named(options["owner"], database)
        outcomes: list[Imported | Refused] = []
        try:
            with progress(histories.read(*files), label="conversations") as found:
                for outcome in importing.store(found, owner=owner, using=database):
                    outcomes.append(outcome)
                    # With DEBUG Django keeps the last 9,000 statements, and each has all texts of a chain.
                    reset_queries()
        except CompactionError as error:
            if not outcomes:
                raise CommandError(printable(f"{', '.join(map(str, files))}: {error}")) from error
            # An archive that breaks off: what came before is stored.
            outcomes.append(Refused(place="the rest", reason=str(error)))
        imported = [one for one in outcomes if isinstance(one, Imported)]
        refused = [one for one in outcomes if isinstance(one, Refused) and not one.is_empty]
        notes = Counter({"conversations without a message, left out": len(outcomes) - len(imported) - len(refused)})
        for one in imported:
            notes.update(one.notes)
        if options["as_json"]:
            self.stdout.write(json.dumps(_told(imported, refused, +notes), indent=2))
        else:
            self._write_text(imported, refused, +notes)
            if owner is None and imported:
                self.stdout.write("They have no owner, since no --owner was given.")
        if refused:
            raise SystemExit(FAILED)

    def _write_text(self, imported: Sequence[Imported], refused: Sequence[Refused], notes: Counter[str]) -> None:
        new = [one for one in imported if not one.already_there]
        if new:
            messages = count(sum(one.messages for one in new), "message")
            self.stdout.write(f"Imported {count(len(new), 'conversation')} with {messages}.")
        if known := len(imported) - len(new):
            self.stdout.write(f"Already imported: {count(known, 'conversation')}.")
        lines = [
            f"{one.session.pk}  {count(one.messages, 'message')}, {count(one.tips, 'branch', 'branches')}"
            f"{', already imported' if one.already_there else ''}  {printable(one.session.title)}"
            for one in imported
        ]
        write_some(self.stdout.write, lines, "; --json lists all of them.")
        keys = []
        for note, number in sorted(notes.items()):
            if note.startswith("not stored: "):
                keys.append(f"{printable(note.removeprefix('not stored: '))} {number:,}")
            else:
                self.stdout.write(f"{note[:1].upper()}{printable(note[1:])}: {number:,}")
        if keys:
            more = f" and {len(keys) - _MOST_KEYS:,} more" if len(keys) > _MOST_KEYS else ""
            self.stdout.write(f"Not stored, by key: {', '.join(keys[:_MOST_KEYS])}{more}")
        if refused:
            self.stdout.write(f"Refused: {count(len(refused), 'conversation')}.")
            write_some(self.stdout.write, [printable(str(one)) for one in refused], "; --json lists all of them.")


def _told(imported: Sequence[Imported], refused: Sequence[Refused], notes: Counter[str]) -> dict[str, Any]:
    sessions = [
        {
            "id": str(one.session.pk),
            "title": one.session.title,
            "external_id": one.session.external_id,
            "messages": one.messages,
            "branches": one.tips,
            "already_there": one.already_there,
        }
        for one in imported
    ]
    failed = [{"place": one.place, "title": one.title, "reason": one.reason} for one in refused]
    return {"sessions": sessions, "refused": failed, "notes": notes}
