"""``manage.py import_chats FILE``: import conversations of another program, all of a file or none of it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from compaction_app.exceptions import CompactionError
from compaction_app.management.console import WrongCall, add_database, add_json, count, printable, progress, write_some
from compaction_app.transfer import importing
from compaction_app.transfer.importing import Imported


class Command(BaseCommand):
    help = (
        "Import conversations: Open-Assistant trees (one per line) or the OpenAI chat format. A file is imported "
        "completely or not at all. A second import of a file finds the first one and stores nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--owner", metavar="USERNAME", help="the user who owns the conversations")
        add_database(parser)
        add_json(parser)

    def handle(self, *, file: Path, database: str, **options: Any) -> None:
        if not file.is_file():
            raise WrongCall(f"There is no file {file}.")
        owner = None
        if username := options["owner"]:
            users = get_user_model()
            try:
                owner = users._default_manager.db_manager(database).get_by_natural_key(username)
            except users.DoesNotExist as error:
                raise WrongCall(f"There is no user {username}.") from error
        try:
            conversations = importing.read(file)
            total = sum(len(conversation.messages) for conversation in conversations)
            with progress(length=total, label="messages") as bar:
                imported = importing.store(conversations, owner=owner, using=database, on_stored=bar.update)
        except CompactionError as error:
            raise CommandError(printable(f"{file}: {error}")) from error
        if options["as_json"]:
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
            self.stdout.write(json.dumps({"sessions": sessions}, indent=2))
        else:
            self._write_text(imported)

    def _write_text(self, imported: Sequence[Imported]) -> None:
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
