"""Filters of the list of messages. Their choices need no query: they are fixed, or given in the address."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app.admin.records import RecordList, as_uuid
from compaction_app.values import Kind

KIND_WORDS = {Kind.MESSAGE: "Messages", Kind.SUMMARY: "Summaries"}
#: What only one of the lists offers; an address of another with one of these is refused.
_OF_ONE_LIST = ["role__exact", "retired_at__isempty"]


class KindFilter(admin.SimpleListFilter):
    """Messages, or summaries: two lists of one table, never mixed."""

    title = parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(kind), title) for kind, title in KIND_WORDS.items()]

    def choices(self, changelist: ChangeList) -> Any:
        for kind, title in self.lookup_choices:
            yield {
                "selected": kind == shown_kind(self.value()),
                "query_string": changelist.get_query_string({self.parameter_name: kind}, _OF_ONE_LIST),
                "display": title,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return of_kind(queryset, shown_kind(self.value()))


def shown_kind(value: str | None) -> Kind:
    """The kind that an address asks for; messages unless it says summary."""
    return Kind.SUMMARY if value == Kind.SUMMARY else Kind.MESSAGE


def of_kind(queryset: QuerySet[Any], kind: Kind) -> QuerySet[Any]:
    if kind == Kind.MESSAGE:
        return queryset.filter(kind=kind)
    # Only summaries have a cutoff. The second condition is the one that the partial index has.
    return queryset.filter(kind=kind, last_summarized_message__isnull=False)


class RetiredFilter(admin.EmptyFieldListFilter):
    def choices(self, changelist: ChangeList) -> Any:
        for choice, words in zip(super().choices(changelist), ("All", "Live", "Retired"), strict=True):
            yield {**choice, "display": words}


class SessionOfMessagesFilter(admin.SimpleListFilter):
    """One session's messages; ``ChatMessageAdmin`` orders them by session and id, as ``in_session`` needs it."""

    title = parameter_name = "session"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Set by a link from another page, and shown only then, so that people can see it and remove it."""
        return [(str(self.value()), f"session {self.value()}")] if self.value() else []

    def choices(self, changelist: ChangeList) -> Any:
        everything, *others = super().choices(changelist)
        yield {**everything, "query_string": changelist.get_query_string(remove=["session", "role__exact"])}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        session_id = as_uuid(str(self.value()))
        if session_id is None:
            raise IncorrectLookupParameters(f"{self.value()!r} is no id of a session.")
        found: QuerySet[Any] = queryset.in_session(session_id)  # type: ignore[attr-defined]  # our own
        return found


class MessageList(RecordList):
    """A list that says what it is narrowed to."""

    @property
    def whole(self) -> str:
        """Address of the list that is not narrowed."""
        return self.model_admin.url("chatmessage_changelist", kind=str(shown_kind(self.params.get("kind"))))

    @property
    def open_session(self) -> str:
        return self.model_admin.link_to_list("chatsession", "Open a session")

    @property
    def narrowing(self) -> list[str]:
        if "session" not in self.params:
            return []
        # Its title comes with the rows.
        rows = list(self.result_list[:1])
        session = self.model_admin.link_to_session(rows[0].session) if rows else as_uuid(str(self.params["session"]))
        return [format_html("messages of {}", session)]
