"""What the commands share: options of one name and meaning, and exit codes that a script can tell apart.

0: done. 1: it could not be done, or what was looked for was found. 2: called wrongly, or named what is not there.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence

from django.core.management.base import OutputWrapper
from django.db import DEFAULT_DB_ALIAS, connections

FAILED = 1
NOT_FOUND = 2


def add_database(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        default=DEFAULT_DB_ALIAS,
        choices=tuple(connections),
        help="the alias of the database (default: %(default)s)",
    )


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON, for scripts")


def number_from(low: int) -> Callable[[str], int]:
    """The type of an argument: a whole number, at least ``low``."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < low:
            raise ArgumentTypeError(f"a number from {low} on is wanted")
        return int(text)

    return number


_SHOWN = 20


def tell_left(stderr: OutputWrapper, left: Sequence[str]) -> None:
    """What ``--force`` did not replace, as it is none of the command's own."""
    stderr.write("Left as they were, for the index did not list them:")
    for path in left[:_SHOWN]:
        stderr.write(f"  {path}")
    if len(left) > _SHOWN:
        stderr.write(f"  … and {len(left) - _SHOWN:,} more")
