"""Filters of the list of messages. Their choices need no query: they are fixed, or given in the address."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app.admin.records import RecordList, as_uuid, is_id
from compaction_app.values import Kind

KIND_WORDS = {Kind.MESSAGE: "Messages", Kind.SUMMARY: "Summaries"}
#: What only a list of one session's messages offers; an address of another list with one of these is refused.
_WITHIN_SESSION = ["role__exact", "place"]


# -- messages and summaries ---------------------------------------------------------------------------------


class KindFilter(admin.SimpleListFilter):
    """Messages, or summaries: two lists of one table, never mixed."""

    title = parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(kind), title) for kind, title in KIND_WORDS.items()]

    def choices(self, changelist: ChangeList) -> Any:
        for kind, title in self.lookup_choices:
            yield {
                "selected": kind == shown_kind(self.value()),
                "query_string": changelist.get_query_string({self.parameter_name: kind}, [*_WITHIN_SESSION, "state"]),
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


class LiveFilter(admin.SimpleListFilter):
    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("live", "Live"), ("retired", "Retired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("live", "retired"):
            return queryset.filter(retired_at__isnull=self.value() == "live")
        return queryset


class TipFilter(admin.SimpleListFilter):
    """The tips of a session's newest branches. Each of them is looked up separately."""

    title = parameter_name = "place"
    newest = 1000

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("tip", f"Tips of the newest {self.newest:,} branches")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "tip":
            return queryset
        session_id = as_uuid(request.GET.get("session", ""))
        if session_id is None:
            raise IncorrectLookupParameters("Tips are listed within one session.")
        tips: QuerySet[Any] = queryset.tips_of(session_id, newest=self.newest)  # type: ignore[attr-defined]  # our own
        return tips


class SessionOfMessagesFilter(admin.SimpleListFilter):
    """One session's messages; ``ChatMessageAdmin`` orders them by session and id, as ``in_session`` needs it."""

    title = parameter_name = "session"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Set by a link from another page, and shown only then, so that people can see it and remove it."""
        return [(str(self.value()), f"session {self.value()}")] if self.value() else []

    def choices(self, changelist: ChangeList) -> Any:
        everything, *others = super().choices(changelist)
        yield {**everything, "query_string": changelist.get_query_string(remove=["session", *_WITHIN_SESSION])}
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
    """A list with a tab for each kind, that says what it is narrowed to."""

    @property
    def tabs(self) -> list[tuple[str, str, bool]]:
        """(title, address, whether it is this list)."""
        session = {"session": self.params["session"]} if "session" in self.params else {}
        return [(title, self._url(kind, **session), kind == self._kind) for kind, title in KIND_WORDS.items()]

    @property
    def whole(self) -> str:
        """Address of the list that is not narrowed."""
        return self._url(self._kind)

    @property
    def _kind(self) -> Kind:
        return shown_kind(self.params.get("kind"))

    def _url(self, kind: Kind, **query: Any) -> str:
        return self.model_admin.url("chatmessage_changelist", kind=str(kind), **query)

    @property
    def has_unsearched_text(self) -> bool:
        """Whether somebody looks for a text in the list of all messages, which is searched by ids only."""
        return "session" not in self.params and not all(map(is_id, self.query.replace(",", " ").split()))

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
