"""Rows of the statements of ``sql``, straight from the cursor.

A model instance costs five times as much as its row, and the code that decides what a model is sent only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import connections

from compaction_app.models import ChatMessage


class Row(NamedTuple):
    """The columns of ``sql.VALUES``, in their order; named as those of :class:`ChatMessage`."""

    id: int
    #: As the driver returns it.
    session_id: Any
    parent_message_id: int | None
    kind: str
    role: str
    content: str
    tool_calls: Any
    tool_call_id: str
    name: str
    reasoning: Any
    original: Any
    attachments: Any
    token_count: int
    path_tokens: int
    depth: int
    created_at: datetime | None
    #: Of summaries.
    ledger: str
    is_extract: bool
    #: What the row is for: "tail", "summary", "pinned" or "cutoff".
    part: str = "tail"


#: Whose values are not those of the driver on every database.
_CONVERTED = ("tool_calls", "reasoning", "original", "attachments", "created_at")


def read_rows(statement: str, parameters: Mapping[str, Any], using: str) -> list[Row]:
    """The rows of a statement that selects ``sql.VALUES``, and a part if there are several."""
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        found = cursor.fetchall()
    converters = [(Row._fields.index(name), _converter(name, connection)) for name in _CONVERTED]
    rows = []
    for values in map(list, found):
        for at, convert in converters:
            if values[at] is not None:
                values[at] = convert(values[at])
        rows.append(Row(*values))
    return rows


def _converter(name: str, connection: Any) -> Callable[[Any], Any]:
    """As a query of the field would do it."""
    column = ChatMessage._meta.get_field(name).get_col(ChatMessage._meta.db_table)
    steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
    calls = [partial(step, expression=column, connection=connection) for step in steps]

    def convert(value: Any) -> Any:
        for call in calls:
            value = call(value)
        return value

    return convert
