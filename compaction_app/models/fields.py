"""The fields that several tables have, the one behind ``ChatMessage.parent``, and what becomes of a title whose message
is deleted, and of hosts' rows that refer to a session's contents."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.deletion import CASCADE, DO_NOTHING, Collector, get_candidate_relations_to_delete

from compaction_app.models.columns import Column
from compaction_app.models.words import lazy_words

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage, ChatSession


class ParentMessageField(models.ForeignKey):  # type: ignore[type-arg]  # not generic at run time
    """treebeard's ``parent`` with the attribute and column ``parent_message_id``; queries may use both names."""

    def get_attname(self) -> str:
        return f"{self.name}_message_id"


def display_words(enum: type[StrEnum]) -> list[tuple[str, Any]]:
    """A field's choices: the stored value and the displayed one."""
    return [(member.value, lazy_words(member.value)) for member in enum]


def to_message(
    is_: Column, verbose_name: Any, related_name: str, **options: Any
) -> models.ForeignKey[ChatMessage | None, ChatMessage | None]:
    """To a message that may be deleted without what refers to it."""
    options = {"on_delete": models.SET_NULL, "verbose_name": verbose_name, "related_name": related_name, **options}
    return is_(models.ForeignKey("ChatMessage", null=True, blank=True, **options))


def of_session(is_: Column, related_name: str, **options: Any) -> models.ForeignKey[ChatSession, ChatSession]:
    """``delete_contents`` deletes these with their session, by whatever that is deleted, and under its lock. Django
    collects none of them, in memory or on the admin's page before a user is deleted."""
    return is_(models.ForeignKey("ChatSession", on_delete=collect_referring, related_name=related_name, **options))


def json_field(
    is_: Column, verbose_name: Any, help_text: Any = "", default: Callable[[], Any] = dict
) -> models.JSONField[Any, Any]:
    return is_(models.JSONField(verbose_name, default=default, blank=True, help_text=help_text))


def text_field(is_: Column, verbose_name: Any, help_text: Any = "", **options: Any) -> models.TextField[str, str]:
    return is_(models.TextField(verbose_name, blank=True, default="", help_text=help_text, **options))


def clear_title(collector: Collector, field: Any, sessions: Any, using: str) -> None:
    """``on_delete`` of the message that a title was made of: the words go with it."""
    collector.add_field_update(field, None, sessions)
    collector.add_field_update(field.model._meta.get_field("title"), "", sessions)


def collect_referring(collector: Collector, field: Any, contents: Any, using: str) -> None:
    """``on_delete`` of what is in a session: whatever refers to it follows its own rule, in the one collection with all
    that is deleted. The contents themselves are left to ``delete_contents``."""
    # Deleted before the session is, after which its contents are.
    collector.add_dependency(field.remote_field.model, field.model)
    related: Any
    for related in get_candidate_relations_to_delete(field.model._meta):
        model, on_delete = related.related_model, related.field.remote_field.on_delete
        is_ours = model.__module__.startswith("compaction_app.")
        if on_delete == DO_NOTHING or (is_ours and hasattr(model, "session")):
            continue
        found = collector.related_objects(model, [related.field], contents)
        if on_delete is CASCADE and is_ours:
            # Of any number, and nobody's but ours: the admin's page does not list them.
            collector.fast_deletes.append(found)
        elif on_delete is CASCADE:
            # Without the attribute, by which the admin would ask for the message of each row.
            collector.collect(found, source=field.model, nullable=related.field.null, fail_on_restricted=False)
        elif getattr(on_delete, "lazy_sub_objs", False) or found:
            on_delete(collector, related.field, found, using)


collect_referring.lazy_sub_objs = True  # type: ignore[attr-defined]  # Django's own: no message is read
