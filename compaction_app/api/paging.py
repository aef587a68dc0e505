"""Lists by key: a page begins after the last row of the one before.

A cursor names that row, so the thousandth page costs what the first one does, and rows that come or go meanwhile
neither repeat nor hide others. An offset would read and throw away all that stands before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ninja import Query

from compaction_app.api.fields import MAX_ID, InQuery
from compaction_app.api.problems import Code, Problem

MAX_LIMIT = 200
_MOST_DIGITS = 19

Limit = Annotated[int, InQuery, Query(50, ge=1, le=MAX_LIMIT, description="Items on a page.")]
#: Of every list, whatever its cursors look like.
CURSOR: dict[str, Any] = {
    "max_length": 100,
    "description": "`next_cursor` of the page before; left out: the first page.",
}
Cursor = Annotated[str | None, Query(None, examples=["120"], **CURSOR)]


def page(rows: Any, limit: int, cursor_of: Callable[[Any], Any]) -> tuple[list[Any], str | None]:
    """The first rows of a query and the cursor of what follows; one row more is read to see if anything does."""
    read = list(rows[: limit + 1])
    shown = read[:limit]
    return shown, str(cursor_of(shown[-1])) if len(read) > limit else None


def number_in(cursor: str) -> int:
    """The id or generation that a cursor names."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MOST_DIGITS and int(cursor) <= MAX_ID):
        raise wrong_cursor()
    return int(cursor)


def wrong_cursor() -> Problem:
    return Problem(Code.INVALID, "query.cursor: Use the next_cursor of the page before as it is.")
