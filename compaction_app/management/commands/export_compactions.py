"""``manage.py export_compactions --out DIR``: every compaction that really ran, as a folder to look into and replay."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, DatabaseError, OperationalError, ProgrammingError
from tqdm import tqdm

from compaction_app.exceptions import BundleError, ConfigurationError
from compaction_app.management.arguments import FAILED, NOT_FOUND, add_json, number_from, tell_left
from compaction_app.models import ChatSession
from compaction_app.transfer.bundles import EXPORT, INDEX, as_json, new_folder, write_texts
from compaction_app.transfer.export import Entry, chosen_sessions, database_alias, export_sessions, index_of
from compaction_app.transfer.rebuild import Proof, succeeded_runs

_SHOWN = 20


class Command(BaseCommand):
    help = (
        "Write every summary as a replay bundle: the prompt that its model was sent, built again from what is stored, "
        "and what the model answered. Writes nothing to the database. Exit code 0: every prompt is proved to be the "
        "one that was sent, or was erased on purpose; 1: a prompt could not be rebuilt or proved; 2: called wrongly."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or empty folder")
        parser.add_argument(
            "--database",
            default=DEFAULT_DB_ALIAS,
            metavar="ALIAS|FILE",
            help="the alias of a database, or a SQLite file, which is opened for reading only (default: %(default)s)",
        )
        parser.add_argument("--session", type=UUID, metavar="ID", help="one conversation only")
        parser.add_argument(
            "--min-messages",
            type=number_from(0),
            default=0,
            metavar="N",
            help="only conversations of at least so many messages, all branches counted",
        )
        parser.add_argument(
            "--force", action="store_true", help="replace an earlier export in DIR, and nothing else there"
        )
        add_json(parser)

    def handle(self, *, out: Path, database: str, as_json: bool, **options: Any) -> None:
        try:
            with (
                database_alias(database) as using,
                new_folder(out, EXPORT, force=options["force"], on_left=partial(tell_left, self.stderr)) as folder,
            ):
                entries = self._export(folder, using, options["session"], options["min_messages"])
                write_texts(folder, {INDEX: _index(entries)})
        except (BundleError, ConfigurationError) as error:
            raise CommandError(str(error), returncode=NOT_FOUND) from error
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(f"{database} can not be read: {_first_line(error)}", returncode=NOT_FOUND) from error
        self._tell(entries, out, as_json)
        if not all(entry.is_sound for entry in entries):
            raise SystemExit(FAILED)

    def _export(self, folder: Path, using: str, session: UUID | None, min_messages: int) -> list[Entry]:
        if session is not None and not ChatSession.objects.using(using).filter(pk=session).exists():
            raise CommandError(f"There is no session {session}.", returncode=NOT_FOUND)
        chosen = chosen_sessions(using, min_messages=min_messages, session_id=session)
        total = succeeded_runs(using).filter(session__in=chosen.order_by().values("pk")).count()
        # disable=None: shown on a terminal only.
        with tqdm(total=total, unit=" summaries", disable=None, leave=False) as bar:
            return export_sessions(chosen, folder, bar.update)

    def _tell(self, entries: Sequence[Entry], out: Path, as_json: bool) -> None:
        if as_json:
            self.stdout.write(_index(entries).rstrip("\n"))
            return
        for entry in [entry for entry in entries if entry.folder is not None][:_SHOWN]:
            self.stdout.write(f"  {entry.folder}  {_words(entry)}")
        written = sum(entry.folder is not None for entry in entries)
        if written > _SHOWN:
            self.stdout.write(f"  … and {written - _SHOWN:,} more; {INDEX} lists all of them.")
        for entry in entries:
            if entry.folder is None:
                self.stdout.write(f"  not rebuilt: summary {_number(entry)} of session {entry.session}: {entry.reason}")
        proved = sum(entry.proof == Proof.PROVED for entry in entries)
        self.stdout.write(f"{written:,} of {len(entries):,} summaries written to {out}, {proved:,} prompts proved.")


def _index(entries: Sequence[Entry]) -> str:
    return as_json(index_of(entries))


def _words(entry: Entry) -> str:
    proof = "proved" if entry.proof == Proof.PROVED else f"not proved: {entry.proof}"
    return f"{proof}, leaks" if entry.leaks else proof


def _number(entry: Entry) -> str:
    return str(entry.summary or f"of generation {entry.generation}")


def _first_line(error: DatabaseError) -> str:
    return str(error).strip().partition("\n")[0]
