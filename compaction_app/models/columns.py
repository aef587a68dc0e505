"""What each column is: its field says it, and every list of columns is made of that.

A column that is said to be one thing is erased, copied, exported, checked and left out of lists as such, without
another line. One that says nothing stops the import; ``tests/models/test_columns.py`` tells what else to write by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from django.db import models
from django.utils import timezone

from compaction_app.messages.validation import Columns
from compaction_app.values import Role

AnyField = TypeVar("AnyField", bound="models.Field[Any, Any]")
Rows = TypeVar("Rows", bound="models.QuerySet[Any]")

#: In place of a text that was erased.
REDACTED = "[redacted]"
#: Of which the names in a usage report are made.
_USAGE_WORDS = frozenset(
    "prompt completion total input output cache cached creation read write reasoning thoughts audio image text video "
    "accepted rejected prediction tool use server web search requests ephemeral 1h 5m iterations tokens token details "
    "count cost upstream inference completions duration time queue".split()
)


def everything(value: Any) -> Any:
    """Nothing of it is anybody's words."""
    return value


def nothing(value: Any) -> Any:
    """The column becomes empty: its default."""
    return None


def calls_without_arguments(calls: Any) -> list[dict[str, Any]] | None:
    """What a tool result and a provider need of a call; anything else may quote the conversation."""
    return [
        {"id": call["id"], "type": "function", "function": {"name": call["function"]["name"], "arguments": "{}"}}
        for call in calls or ()
    ] or None


def numbers_in(usage: Any) -> Any:
    """The numbers of a provider's usage report, which were paid for, without its texts and unknown names."""
    if isinstance(usage, Mapping):
        known = (key for key in usage if _USAGE_WORDS.issuperset(key.split("_")))
        kept = {key: numbers_in(usage[key]) for key in known}
        return {key: value for key, value in kept.items() if value is not None}
    return usage if isinstance(usage, int | float) else None


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column is. What is not given it is not."""

    #: People or models wrote it, or it quotes them: a conversation's words are looked for in it.
    said: bool = False
    #: What a redaction leaves of a value.
    leaves: Callable[[Any], Any] = everything
    #: A copy of a branch has it.
    copied: bool = False
    #: A host gives it with a message or a session: an export has it, and an import reads it.
    exported: bool = False
    #: The API shows it.
    client: bool = False
    #: Lists read it, of the admin and of the API. None: unless it is a text of any length or JSON.
    listed: bool | None = None

    def __call__(self, field: AnyField) -> AnyField:
        """The field, which says that its column is this: ``OURS(models.UUIDField())``. Migrations do not see it."""
        is_short = not isinstance(field, models.TextField | models.JSONField)
        vars(field)["is_"] = self if self.listed is not None else replace(self, listed=is_short)
        return field


#: Ids, codes, figures and dates of this app; and those that the API shows.
OURS, SHOWN = Column(), Column(client=True)
#: What is said in a conversation, and what is made of that in a summary.
SAID = Column(said=True, leaves=nothing, copied=True, exported=True, client=True)
QUOTED = Column(said=True, leaves=nothing, copied=True)
#: What somebody wrote about a conversation, for the admin alone; what a host keeps beside a message, for clients too.
NOTED = Column(said=True, leaves=nothing)
BESIDE = Column(said=True, leaves=nothing, exported=True, client=True)
#: Names and dates that a host gives, and its own ids and settings.
GIVEN = Column(copied=True, exported=True, client=True)
OF_HOST = Column(exported=True, client=True)


def said_of(field: models.Field[Any, Any]) -> Column:
    found: Column | None = OURS if field.auto_created else vars(field).get("is_")
    if found is None:
        raise TypeError(f"{field} does not say what it is. Wrap it: SAID(models.TextField()). {__name__} has more.")
    return found


def names(model: type[models.Model], **wanted: Any) -> tuple[str, ...]:
    """The columns that are all of this, in the order of the fields: ``names(ChatMessage, copied=True)``."""
    fields = model._meta.concrete_fields
    return tuple(one.attname for one in fields if wanted.items() <= vars(said_of(one)).items())


def lean(rows: Rows, **joined: type[models.Model]) -> Rows:
    """Without the long columns, which lists do not read; nor those of models that are ``joined``, by their place."""
    others = (f"{place}__{name}" for place, model in joined.items() for name in names(model, listed=False))
    return rows.defer(*names(rows.model, listed=False), *others)


def erased(model: type[models.Model], **wanted: bool) -> tuple[str, ...]:
    """The columns of which a redaction leaves less than all."""
    kept = names(model, leaves=everything)
    return tuple(name for name in names(model, **wanted) if name not in kept)


def left_of(row: models.Model, name: str) -> Any:
    """What a redaction leaves of a row's column. A tool result keeps the name of its function, as the call does."""
    if name == "name" and row.role == Role.TOOL:  # type: ignore[attr-defined]  # messages alone have a name
        return row.name  # type: ignore[attr-defined]
    field: Any = row._meta.get_field(name)
    leaves = said_of(field).leaves
    return field.get_default() if leaves is nothing else leaves(getattr(row, name))


def blank(message: Any, content: str = REDACTED) -> None:
    """Leave in a message what a redaction leaves, and ``content``."""
    for name in erased(type(message)):
        setattr(message, name, left_of(message, name))
    message.content, message.redacted_at = content, timezone.now()


def blanked(model: type[models.Model], **wanted: bool) -> dict[str, Any]:
    """What an erasure leaves of a row of which it leaves nothing, for ``update``."""
    row = model()
    return {name: left_of(row, name) for name in erased(model, **wanted)}


@cache
def checks_of(model: type[models.Model]) -> Columns:
    """What is checked of a row before it is stored."""
    fields = model._meta.concrete_fields
    texts = [one for one in fields if isinstance(one, models.CharField | models.TextField) and not one.choices]
    json = [one.name for one in fields if isinstance(one, models.JSONField)]
    large = [one.name for one in texts if one.max_length is None and said_of(one).exported]
    return Columns(texts={one.name: one.max_length for one in texts}, json=json, large=[*large, *json])
