"""What the commands share: options, exit codes and output.

Exit codes: 0 for success; 1 if something failed or problems were found; 2 for a wrong call, such as an unknown option
or an id that does not exist.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Sequence
from io import StringIO
from typing import Any
from uuid import UUID

import click
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet

from compaction_app.models import ChatSession

FAILED = 1

_MAX_LINES = 20


class WrongCall(CommandError):
    """The command was called with something that does not exist or cannot be used."""

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason), returncode=2)


def add_database(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        default=DEFAULT_DB_ALIAS,
        choices=tuple(connections),
        help="the alias of the database (default: %(default)s)",
    )


def user_named(username: str | None, database: str) -> Any:
    """The user with this name; None where none is named."""
    users = get_user_model()
    try:
        return users._default_manager.db_manager(database).get_by_natural_key(username) if username else None
    except users.DoesNotExist as error:
        raise WrongCall(f"There is no user {username}.") from error


def sessions_named(ids: Collection[UUID], database: str, **among: Any) -> QuerySet[ChatSession]:
    """The sessions with these ids, oldest first; all of them where none is named."""
    sessions = ChatSession.objects.using(database).filter(**among).order_by("created_at", "pk")
    if ids:
        sessions = sessions.filter(pk__in=ids)
        if missing := set(ids) - set(sessions.values_list("pk", flat=True)):
            raise WrongCall(f"There is no session {', '.join(sorted(map(str, missing)))}.")
    return sessions


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON, for scripts")


def progress(items: Iterable[Any] | None = None, **options: Any) -> Any:
    """Return a progress bar, shown on a terminal only."""
    return click.progressbar(items, show_pos=True, file=sys.stderr if sys.stderr.isatty() else StringIO(), **options)


def write_some(write: Callable[[str], object], lines: Sequence[str], note: str = "") -> None:
    """Write the first lines, indented, and how many more there are."""
    for line in lines[:_MAX_LINES]:
        write(f"  {line}")
    if len(lines) > _MAX_LINES:
        write(f"  … and {len(lines) - _MAX_LINES:,} more{note}")


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """Replace control characters: a text from a file or a model must not control the terminal."""
    return "".join(character if character.isprintable() or character == "\t" else "�" for character in text)
