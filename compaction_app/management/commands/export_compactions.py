"""``manage.py export_compactions --out DIR``: write every compaction as a folder to inspect and replay."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, DatabaseError

from compaction_app.exceptions import BundleError, ConfigurationError
from compaction_app.management.console import FAILED, WrongCall, add_json, progress, sessions_named, write_some
from compaction_app.transfer import bundles
from compaction_app.transfer.export import Entry, chosen_sessions, database_alias, export_sessions, index_of
from compaction_app.transfer.rebuild import succeeded_runs


class Command(BaseCommand):
    help = (
        "Write every summary as a replay bundle: the prompt that the model was sent, rebuilt from what is stored, and "
        "the model's output. Writes nothing to the database. Exit code 0: every prompt was rebuilt, or was erased on "
        "purpose; 1: a prompt could not be rebuilt; 2: wrong call."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or empty folder")
        parser.add_argument(
            "--database",
            default=DEFAULT_DB_ALIAS,
            metavar="ALIAS|FILE",
            help="the alias of a database, or a SQLite file, which is opened read-only (default: %(default)s)",
        )
        parser.add_argument("--session", type=UUID, metavar="ID", help="one conversation only")
        parser.add_argument(
            "--min-messages",
            type=int,
            default=0,
            metavar="N",
            help="only conversations with at least N messages, on all branches together",
        )
        add_json(parser)

    def handle(self, *, out: Path, database: str, as_json: bool, **options: Any) -> None:
        session = options["session"]
        try:
            with database_alias(database) as alias, bundles.new_folder(out) as folder:
                sessions = sessions_named([session] if session else [], alias)
                chosen = chosen_sessions(sessions, min_messages=options["min_messages"])
                total = succeeded_runs(sessions).filter(session__in=chosen.order_by().values("pk")).count()
                with progress(export_sessions(chosen, folder), length=total, label="summaries") as bar:
                    entries = list(bar)
                index = bundles.as_json(index_of(entries))
                bundles.write_texts(folder, {bundles.INDEX: index})
        except (BundleError, ConfigurationError) as error:
            raise WrongCall(error) from error
        except DatabaseError as error:
            reason = str(error).strip().partition("\n")[0]
            raise WrongCall(f"{database} cannot be read: {reason}") from error
        if as_json:
            self.stdout.write(index.rstrip("\n"))
        else:
            self._write_text(entries, out)
        if not all(entry.is_sound for entry in entries):
            raise SystemExit(FAILED)

    def _write_text(self, entries: Sequence[Entry], out: Path) -> None:
        written = [entry for entry in entries if entry.folder is not None]
        lines = [f"{entry.folder}{'  leaks' if entry.leaks else ''}" for entry in written]
        write_some(self.stdout.write, lines, f"; {bundles.INDEX} lists all of them.")
        for entry in entries:
            if entry.folder is None:
                name = f"compaction {entry.generation} of session {entry.session}"
                self.stdout.write(f"  not rebuilt: {name}: {entry.reason}")
        self.stdout.write(f"{len(written):,} of {len(entries):,} summaries written to {out}.")
