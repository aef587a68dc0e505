"""The list of messages narrowed to a stretch: of one session, one lane, from one depth to another.

The branch map folds stretches and links here; the address takes ``session``, ``lane`` (the id of the lane's first
message), ``from_depth`` and ``to_depth``. Above the list stands in words what it is narrowed to.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app.admin.filters import RelatedFilter
from compaction_app.admin.records import RecordList, as_uuid

#: As many digits as the largest depth may have.
_DEPTH_DIGITS = 9
#: Parameters of an address, with the words that the list says them in.
_WORDS = {
    "session": "messages of {}",
    "lane": "the lane that begins with message {}",
    "from_depth": "from depth {}",
    "to_depth": "to depth {}",
}


class LaneFilter(RelatedFilter):
    """One lane's messages, by its first one: what the branch map draws as one line."""

    title = parameter_name = "lane"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.value()
        return [(str(value), f"from message {value}")] if value else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() and "session" not in request.GET:
            raise IncorrectLookupParameters("A lane is looked for within its session.")
        return super().queryset(request, queryset)

    def of(self, queryset: QuerySet[Any], related: Any) -> QuerySet[Any]:
        # Its first message is on no lane but its own.
        return queryset.filter(Q(lane=related) | Q(pk=related))


class DepthFilter(admin.SimpleListFilter):
    """From a depth on, or up to one, within a session: no index knows depths alone."""

    #: ``gte`` or ``lte``.
    how = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.value()
        return [(str(value), str(value))] if value else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        depth = self.value()
        if not depth:
            return queryset
        if not (depth.isascii() and depth.isdecimal() and len(depth) <= _DEPTH_DIGITS):
            raise IncorrectLookupParameters(f"{depth!r} is no depth")
        return queryset.filter(**{f"depth__{self.how}": int(depth)})


class FromDepthFilter(DepthFilter):
    title, parameter_name, how = "from depth", "from_depth", "gte"


class ToDepthFilter(DepthFilter):
    title, parameter_name, how = "to depth", "to_depth", "lte"


class MessageList(RecordList):
    """A list that says to what it is narrowed."""

    @property
    def narrowing(self) -> list[str]:
        """In words; the session by its title, which the rows have brought along."""
        return [format_html(words, self._name(key)) for key, words in _WORDS.items() if self.params.get(key)]

    def _name(self, key: str) -> str:
        value = str(self.params[key])
        if key == "session":
            rows = list(self.result_list[:1])
            return self.model_admin.link_to_session(rows[0].session) if rows else f"session {as_uuid(value)}"
        return self.model_admin.link_to("chatmessage", value, value) if key == "lane" else value
