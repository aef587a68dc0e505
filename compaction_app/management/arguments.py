"""What the commands share: options of one name and meaning, and exit codes that a script can tell apart.

0: done. 1: it could not be done, or what was looked for was found. 2: called wrongly, or named what is not there.
"""

from __future__ import annotations

from argparse import ArgumentParser

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
