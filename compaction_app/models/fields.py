"""The field behind ``ChatMessage.parent``."""

from __future__ import annotations

from django.db import models


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent`` with the attribute and column ``parent_message_id``; queries may use both names."""

    def get_attname(self) -> str:
        return f"{self.name}_message_id"
