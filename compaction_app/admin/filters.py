"""Filters whose choices need no query: they are this app's own words, or stand in the address."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from compaction_app.conf import site_setting
from compaction_app.exceptions import ConfigurationError
from compaction_app.models.tables import display_words
from compaction_app.values import EXTRACTIVE_MODEL, ErrorCode, Kind, SkipReason

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList


KIND_WORDS = {Kind.MESSAGE: "Messages", Kind.SUMMARY: "Summaries"}


class KindFilter(admin.SimpleListFilter):
    """Messages, or summaries: two lists of one table, never mixed."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(kind), title) for kind, title in KIND_WORDS.items()]

    def choices(self, changelist: ChangeList) -> Any:
        for kind, title in self.lookup_choices:
            yield {
                "selected": kind == shown_kind(self.value()),
                "query_string": changelist.get_query_string({self.parameter_name: kind}),
                "display": title,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if shown_kind(self.value()) == Kind.MESSAGE:
            return queryset.filter(kind=Kind.MESSAGE)
        # Both conditions say the same; the second is the one that an index knows.
        return queryset.filter(kind=Kind.SUMMARY, last_summarized_message__isnull=False)


def shown_kind(value: str | None) -> Kind:
    """The kind that an address asks for; messages unless it says summary."""
    return Kind.SUMMARY if value == Kind.SUMMARY else Kind.MESSAGE


class LiveFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("live", "Live"), ("retired", "Retired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("live", "retired"):
            return queryset.filter(retired_at__isnull=self.value() == "live")
        return queryset


class TipFilter(admin.SimpleListFilter):
    """The tips of one session, of its newest branches: each of them is looked for by itself."""

    title = "place"
    parameter_name = "place"
    newest = 1000

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("tip", f"Tips of the newest {self.newest:,} branches")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "tip":
            return queryset
        try:
            session_id = UUID(request.GET.get("session", ""))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error
        tips: QuerySet[Any] = queryset.tips_of(session_id, newest=self.newest)  # type: ignore[attr-defined]  # our own
        return tips


class CodeFilter(admin.SimpleListFilter):
    """By a code of this app: Django's own filter would read the whole table to list the codes in use."""

    codes: type[StrEnum]
    field: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return display_words(self.codes)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class SkipReasonFilter(CodeFilter):
    title = "skip reason"
    parameter_name = field = "skip_reason"
    codes = SkipReason


class ErrorCodeFilter(CodeFilter):
    title = "error code"
    parameter_name = field = "error_code"
    codes = ErrorCode


class ModelFilter(admin.SimpleListFilter):
    """By the model that was asked last. Its choices are those of the site's settings, and the one of the address:
    the names that are in use are known by reading the whole table only."""

    title = "model"
    parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = [*_configured_models(), EXTRACTIVE_MODEL, *filter(None, [self.value()])]
        return [(name, name) for name in dict.fromkeys(names)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(summarizer_model=self.value()) if self.value() else queryset


def _configured_models() -> list[str]:
    try:
        entries = site_setting("SUMMARIZER_MODELS")
    except ConfigurationError:
        # A list is to be looked at also where the settings are wrong; `manage.py check` says so.
        return []
    return [str(entry if isinstance(entry, str) else entry["model"]) for entry in entries]


class RelatedFilter(admin.SimpleListFilter):
    """What belongs to one session, run or message. Set by a link from its page, and shown only then, so that
    one can see it and take it off again."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.value()
        return [(str(value), f"{self.title} {value}")] if value else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        field: Any = queryset.model._meta.get_field(str(self.parameter_name))
        try:
            related = field.target_field.clean(self.value(), None)
        except ValidationError as error:
            raise IncorrectLookupParameters(error) from error
        return self.of(queryset, related)

    def of(self, queryset: QuerySet[Any], related: Any) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): related})


class SessionOfMessagesFilter(RelatedFilter):
    """One session's messages; ``ChatMessageAdmin`` orders them by session and id, as :meth:`in_session` wants it."""

    title = parameter_name = "session"

    def of(self, queryset: QuerySet[Any], related: Any) -> QuerySet[Any]:
        found: QuerySet[Any] = queryset.in_session(related)  # type: ignore[attr-defined]  # our own
        return found


def related_filters(**titles: str) -> Iterable[type[RelatedFilter]]:
    """A filter for each foreign key: ``related_filters(session="session", tip="tip")``."""
    return tuple(
        type(f"{name.title()}Filter", (RelatedFilter,), {"title": title, "parameter_name": name})
        for name, title in titles.items()
    )
