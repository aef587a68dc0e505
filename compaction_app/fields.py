from __future__ import annotations

from django.db import models


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent``, whose attribute and column are called ``parent_message_id``.

    Queries take both names: ``filter(parent=…)`` and ``filter(parent_message_id=…)``.
    """

    def get_attname(self) -> str:
        return f"{self.name}_message_id"
