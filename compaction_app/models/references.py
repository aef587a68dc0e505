"""What points at messages that are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q
from django.db.models.deletion import Collector
from django.db.models.expressions import RawSQL

from compaction_app.models import sql

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage


class ReferencesIntoSubtree(Collector):
    """Rows that point at a node or below it follow their ``on_delete``: one statement a relation at any size.

    Django's own rules, but where its collector would go down level by level and name every deleted row, this
    names them all by one recursive subquery. The nodes themselves are left to the caller: no signals are sent
    for them.
    """

    def __init__(self, top: ChatMessage, using: str) -> None:
        super().__init__(using=using)
        self.top = top
        self.node_ids = RawSQL(sql.NODE_AND_BELOW, [top.pk])

    def settle(self) -> None:
        self.collect([self.top])
        self.data[type(self.top)].clear()
        self.delete()

    def related_objects(
        self, related_model: type[models.Model], related_fields: Iterable[Any], objs: Any
    ) -> models.QuerySet[Any]:
        if not isinstance(objs[0], type(self.top)):
            others: models.QuerySet[Any] = super().related_objects(related_model, related_fields, objs)
            return others
        if related_model is type(self.top):
            nothing: models.QuerySet[Any] = related_model._base_manager.none()
            return nothing
        conditions: list[Any] = [(f"{field.name}__in", self.node_ids) for field in related_fields]
        rows: Any = related_model._base_manager.using(self.using)
        pointing: models.QuerySet[Any] = rows.filter(Q.create(conditions, connector=Q.OR))
        return pointing
