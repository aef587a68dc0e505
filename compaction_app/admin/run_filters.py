"""Filters of the list of runs. They offer what occurs among the newest runs: all codes there are would be a long list
of which most lead nowhere, and to list those in use Django's own filter would read the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from compaction_app.admin import display
from compaction_app.models.tables import display_words
from compaction_app.values import RunStatus

#: The newest runs, whose codes and models are offered.
NEWEST_RUNS = 1000
#: The labels of the column's choices, which only a migration could change, and what is shown.
_STATUSES = {label: RunStatus(status).words.capitalize() for status, label in display_words(RunStatus)}


class StatusFilter(admin.ChoicesFieldListFilter):
    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": _STATUSES.get(str(choice["display"]), choice["display"])}


class OccurringFilter(admin.SimpleListFilter):
    """The values of one column among the newest runs, and the one in the address, so that people can see it."""

    column: str

    def words(self, value: str) -> str:
        return display.words(value).capitalize()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        runs = model_admin.get_queryset(request).order_by("-pk")
        newest = runs.filter(pk__in=runs.values("pk")[:NEWEST_RUNS]).order_by()
        found = {*newest.values_list(self.column, flat=True).distinct(), self.value()}
        return [(value, self.words(value)) for value in sorted(filter(None, found))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class SkipReasonFilter(OccurringFilter):
    title, parameter_name, column = "skip reason", "skip_reason", "skip_reason"


class ErrorCodeFilter(OccurringFilter):
    title, parameter_name, column = "error code", "error_code", "error_code"


class ModelFilter(OccurringFilter):
    title, parameter_name, column = "model", "model", "summarizer_model"

    def words(self, value: str) -> str:
        return value
