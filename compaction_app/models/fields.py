"""The field behind ``ChatMessage.parent``, and what becomes of a title whose message is deleted."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.deletion import Collector


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent`` with the attribute and column ``parent_message_id``; queries may use both names."""

    def get_attname(self) -> str:
        return f"{self.name}_message_id"


def clear_title(collector: Collector, field: Any, sessions: Any, using: str) -> None:
    """``on_delete`` of the message that a title was made of: the words go with it."""
    collector.add_field_update(field, None, sessions)
    collector.add_field_update(field.model._meta.get_field("title"), "", sessions)
