"""What the database is asked in its own words."""

from __future__ import annotations

from typing import Any

from django.db import models


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent``, whose attribute and column are called ``parent_message_id``.

    Queries take both names: ``filter(parent=…)`` and ``filter(parent_message_id=…)``.
    """

    def get_attname(self) -> str:
        return f"{self.name}_message_id"


class IsOpen(models.Lookup):
    """Whether a run is ready or running, as the partial index on open runs says it: ``IsOpen(F("status"), True)``.

    Word for word: SQLite does not see that a list of parameters is the index's own list, and reads the whole table.
    """

    lookup_name = "is_open"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        status, parameters = self.process_lhs(compiler, connection)
        return f"{status} IN ('ready', 'running')", parameters
