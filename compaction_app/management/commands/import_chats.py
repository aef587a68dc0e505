"""``manage.py import_chats FILE``: conversations of another program, stored whole or not at all."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from compaction_app.exceptions import CompactionError
from compaction_app.management.arguments import NOT_FOUND, add_database, add_json
from compaction_app.transfer import importing
from compaction_app.transfer.importing import Imported

_SHOWN = 20


class Command(BaseCommand):
    help = (
        "Import conversations: Open-Assistant trees (one a line) or the OpenAI chat format. All of a file is "
        "stored, or nothing of it. Importing a file twice finds the first import."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--join",
            action="store_true",
            help="make one conversation of all trees in the file: each goes under the best leaf of the one before",
        )
        parser.add_argument("--owner", metavar="USERNAME", help="the user whom the conversations belong to")
        parser.add_argument("--title", default="", help="instead of the file's own title")
        parser.add_argument(
            "--again", action="store_true", help="import once more what an earlier import has stored already"
        )
        add_database(parser)
        add_json(parser)

    def handle(self, *, file: Path, database: str, **options: Any) -> None:
        if not file.is_file():
            raise CommandError(f"There is no file {file}.", returncode=NOT_FOUND)
        owner = _user(options["owner"], database)
        try:
            conversations = importing.read(file, join=options["join"])
            total = sum(len(conversation.messages) for conversation in conversations)
            # disable=None: shown on a terminal only.
            with tqdm(total=total, unit=" messages", disable=None, leave=False) as bar:
                imported = importing.store(
                    conversations,
                    owner=owner,
                    title=options["title"],
                    using=database,
                    again=options["again"],
                    on_stored=bar.update,
                )
        except CompactionError as error:
            raise CommandError(f"{file}: {error}") from error
        if options["as_json"]:
            self.stdout.write(json.dumps({"sessions": [_as_json(one) for one in imported]}, indent=2))
        else:
            self._tell(imported)

    def _tell(self, imported: Sequence[Imported]) -> None:
        new = [one for one in imported if not one.already_there]
        if new:
            messages = sum(one.messages for one in new)
            self.stdout.write(f"Imported {_count(len(new), 'conversation')} with {_count(messages, 'message')}.")
        if there := len(imported) - len(new):
            known = _count(there, "conversation")
            self.stdout.write(f"{known} of this file had been imported before (--again to repeat).")
        for one in imported[:_SHOWN]:
            note = ", was there already" if one.already_there else ""
            numbers = f"{_count(one.messages, 'message')}, {_count(one.tips, 'branch', 'branches')}"
            self.stdout.write(f"  {one.session.pk}  {numbers}{note}  {_plain(one.session.title)}")
        if len(imported) > _SHOWN:
            self.stdout.write(f"  … and {len(imported) - _SHOWN:,} more; --json lists all of them.")


def _user(username: str | None, database: str) -> Any:
    if username is None:
        return None
    users = get_user_model()
    try:
        return users._default_manager.db_manager(database).get_by_natural_key(username)
    except users.DoesNotExist as error:
        raise CommandError(f"There is no user {username}.", returncode=NOT_FOUND) from error


def _as_json(one: Imported) -> dict[str, Any]:
    return {
        "id": str(one.session.pk),
        "title": one.session.title,
        "external_id": one.session.external_id,
        "messages": one.messages,
        "branches": one.tips,
        "already_there": one.already_there,
    }


def _plain(title: str) -> str:
    """A title comes from a file: what steers a terminal stays out of it."""
    return "".join(character if character.isprintable() else " " for character in title)


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number:,} {word if number == 1 else words or word + 's'}"
