"""A field and a lookup for the tables."""

from __future__ import annotations

from typing import Any

from django.db import models


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent`` with the attribute and column ``parent_message_id``.

    Queries may use both names: ``filter(parent=…)`` and ``filter(parent_message_id=…)``.
    """

    def get_attname(self) -> str:
        return f"{self.name}_message_id"


class IsOpen(models.Lookup):
    """Whether a run is ready or running, in the words of the partial index: ``IsOpen(F("status"), True)``.

    With parameters instead of literals SQLite does not use the partial index, and reads the whole table.
    """

    lookup_name = "is_open"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        status, parameters = self.process_lhs(compiler, connection)
        return f"{status} IN ('ready', 'running')", parameters
