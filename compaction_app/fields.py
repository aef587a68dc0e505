"""What the database is asked in its own words."""

from __future__ import annotations

from django.db import models


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent``, whose attribute and column are called ``parent_message_id``.

    Queries take both names: ``filter(parent=…)`` and ``filter(parent_message_id=…)``.
    """

    def get_attname(self) -> str:
        return f"{self.name}_message_id"


class IsOpen(models.Func):
    """Whether a run is ready or running, as the partial index on open runs says it: ``IsOpen("status")``.

    Word for word: SQLite does not see that a list of parameters is the index's own list, and reads the whole table.
    """

    template = "%(expressions)s IN ('ready', 'running')"
    output_field = models.BooleanField()
