"""``manage.py export_chats``: write conversations in a form that other products, or this one, can import."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from errno import EEXIST
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand

from compaction_app.contrib.histories import WRITERS, exported
from compaction_app.management.console import WrongCall, add_database, sessions_named, user_named
from compaction_app.transfer.bundles import private


@contextmanager
def _new_file(path: Path) -> Iterator[Any]:
    """A file that has its name when it is whole: half of one imports without an error. Never over one that is there."""
    if path.exists():
        raise FileExistsError(EEXIST, os.strerror(EEXIST))
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        with open(Path(folder, path.name), "x", encoding="utf-8", opener=private) as file:
            yield file
        Path(folder, path.name).rename(path)


class Command(BaseCommand):
    help = (
        "Write conversations with all their branches: what is stored, without summaries. The form openai is one "
        "conversation a line, as import_chats reads it back; chatgpt is a list of conversations."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--owner", metavar="USERNAME", help="the conversations of this user only")
        parser.add_argument(
            "--session", type=UUID, action="append", metavar="ID", help="only this one; may be repeated"
        )
        parser.add_argument("--format", choices=sorted(WRITERS), default="openai", help="default: %(default)s")
        parser.add_argument("--out", type=Path, metavar="FILE", help="a new file (default: the standard output)")
        add_database(parser)

    def handle(self, *, database: str, **options: Any) -> None:
        among = {"owner": user_named(options["owner"], database)} if options["owner"] else {}
        sessions = sessions_named(options["session"] or (), database, **among)
        form, out = options["format"], options["out"]
        begin, between, end = ("[\n", ",\n", "\n]\n") if form == "chatgpt" else ("", "\n", "\n")
        try:
            with _new_file(out) if out else nullcontext(self.stdout) as file:
                self.stdout.ending = ""
                file.write(begin)
                for number, session in enumerate(sessions.iterator(chunk_size=100)):
                    file.write(between if number else "")
                    file.write(exported(session, form))
                file.write(end)
        except BrokenPipeError:
            # As with ``head``. Python flushes once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            raise WrongCall(f"{out} cannot be written: {error.strerror}.") from error
