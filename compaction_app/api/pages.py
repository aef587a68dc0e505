"""Pages of a list.

A page starts after the last row of the page before, which its cursor names. The thousandth page costs what the first
does, and rows that are added or deleted meanwhile neither repeat nor hide others. An offset, as in django-ninja's
paginators, would read and skip every earlier row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from ninja import Query, Schema
from pydantic import Field

from compaction_app.api.errors import Code, Problem
from compaction_app.api.schemas import MAX_ID, InQuery

Item = TypeVar("Item")


class Page(Schema, Generic[Item]):
    """One page of a list. There is no total: on a large table counting would cost more than the page."""

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` to get the next page. Null: this is the last one.")


Limit = Annotated[int, InQuery, Query(50, ge=1, le=200, description="Items per page.")]
#: Shared by every list, whatever its cursors look like.
CURSOR: dict[str, Any] = {
    "max_length": 100,
    "description": "`next_cursor` of the previous page. Leave it out for the first page.",
}
Cursor = Annotated[str | None, Query(None, examples=["120"], **CURSOR)]


def page(rows: Any, limit: int, cursor_of: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the first rows of a query as a :class:`Page`. One more row shows whether there is a next page."""
    found = list(rows[: limit + 1])
    return {"items": found[:limit], "next_cursor": str(cursor_of(found[limit - 1])) if len(found) > limit else None}


def parse_cursor(cursor: str) -> int:
    """Return the id, depth or generation that a cursor names."""
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) <= MAX_ID):
        raise invalid_cursor()
    return int(cursor)


def invalid_cursor() -> Problem:
    return Problem(Code.INVALID, "query.cursor: Use the next_cursor of the previous page unchanged.")
