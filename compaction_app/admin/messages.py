"""Messages and summaries: two lists of one table, and a page for each that shows what the model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib import messages as notes
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern

from compaction_app import chat
from compaction_app.admin import display, summaries
from compaction_app.admin.compacting import CompactForm, Report, at_most
from compaction_app.admin.contexts import context_here
from compaction_app.admin.filters import KindFilter, LiveFilter, TipFilter, related_filters, shown_kind
from compaction_app.admin.records import MOST_AT_ONCE, RecordAdmin, Tool
from compaction_app.admin.retiring import RetireForm, plan_retirement
from compaction_app.models import ChatMessage
from compaction_app.values import Kind

MESSAGE_COLUMNS = ("__str__", "in_session", "role", "begins_with", "depth", "token_count", "path_tokens", "created_at")
_SHOWN_IN_LISTS = 80
#: Neighbours that a page links to; a message edited more often says so.
_MOST_NEIGHBOURS = 50

MESSAGE_FIELDSETS = (
    (None, {"fields": ("in_session", "role", "text", "calls", "tool_call_id", "name", "attached", "reasoned")}),
    ("Place", {"fields": ("parent_link", "variants", "following", "summaries_here", "depth", "runs_here")}),
    ("Tokens", {"fields": ("token_count", "path_tokens")}),
    (
        "Record",
        {
            "fields": (
                "model",
                "usage_block",
                "sent",
                "metadata_block",
                "external_id",
                "idempotency_key",
                "created_at",
                "redacted_at",
            )
        },
    ),
)
#: Fields that most messages do not have → the column that says whether this one does.
_SHOWN_IF_SET = {
    "calls": "tool_calls",
    "tool_call_id": "tool_call_id",
    "name": "name",
    "attached": "attachments",
    "reasoned": "reasoning",
    "model": "model",
    "usage_block": "usage",
    "sent": "sent_context",
    "metadata_block": "metadata",
    "external_id": "external_id",
    "idempotency_key": "idempotency_key",
    "redacted_at": "redacted_at",
}


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nodes around a message: ids and kinds, no texts."""

    variants: tuple[ChatMessage, ...]
    children: tuple[ChatMessage, ...]

    @classmethod
    def of(cls, message: ChatMessage) -> Neighbours:
        manager = ChatMessage.objects
        siblings = manager.get_siblings(message).filter(kind=Kind.MESSAGE)
        return cls(
            variants=tuple(_ids_and_kinds(siblings)),
            children=tuple(_ids_and_kinds(manager.get_children(message))),
        )


def _ids_and_kinds(nodes: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
    return nodes.only("id", "kind", "role", "retired_at", "last_summarized_message")[: _MOST_NEIGHBOURS + 1]


@admin.register(ChatMessage)
class ChatMessageAdmin(summaries.SummaryFields):
    texts = (
        "content",
        "tool_calls",
        "reasoning",
        "attachments",
        "usage",
        "metadata",
        "sent_context",
        "session__system_prompt",
        "session__settings",
        "session__token_calibration",
        "session__metadata",
    )
    change_form_template = "admin/compaction_app/chatmessage/change_form.html"
    change_list_template = "admin/compaction_app/chatmessage/change_list.html"
    list_select_related = ("session",)
    raw_id_fields = ("session", "parent", "last_summarized_message", "pinned_message")
    search_help_text = "Ids of messages or sessions; in the list of one session also external ids, whole."
    actions = ("compact_now", "retire")

    # -- lists --------------------------------------------------------------------------------------------

    def kind(self, request: HttpRequest) -> Kind:
        return shown_kind(request.GET.get("kind"))

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return summaries.COLUMNS if self.kind(request) == Kind.SUMMARY else MESSAGE_COLUMNS

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        own = (LiveFilter,) if self.kind(request) == Kind.SUMMARY else ("role", TipFilter)
        return (KindFilter, *own, *related_filters(session="session"))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("compact_now" if self.kind(request) == Kind.SUMMARY else "retire", None)
        return actions

    def for_list(self, queryset: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
        # The kind is not known here: a summary's run is one query more, and none for a page of messages.
        lean = super().for_list(queryset).annotate(beginning=Left("content", _SHOWN_IN_LISTS * 4))
        return lean.prefetch_related(summaries.RUNS)

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        found = super().search_for(request, term)
        # Indexed together with the session only.
        if "session" in request.GET:
            external = Q(external_id=term)
            return external if found is None else found | external
        return found

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        is_summaries = self.kind(request) == Kind.SUMMARY
        context = {"title": "Summaries" if is_summaries else "Messages", "compaction_kind": self.kind(request)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    # -- columns and fields -------------------------------------------------------------------------------

    @admin.display(description="session")
    def in_session(self, obj: ChatMessage) -> str:
        return self.link_to_session(obj.session)

    @admin.display(description="begins with")
    def begins_with(self, obj: ChatMessage) -> str:
        return display.line(obj.beginning, _SHOWN_IN_LISTS)  # type: ignore[attr-defined]  # annotated by for_list

    @admin.display(description="text")
    def text(self, obj: ChatMessage) -> str:
        return display.text_block(obj.content)

    @admin.display(description="tool calls")
    def calls(self, obj: ChatMessage) -> str:
        return display.tool_calls_block(obj.tool_calls)

    @admin.display(description="attachments")
    def attached(self, obj: ChatMessage) -> str:
        return display.json_block(obj.attachments)

    @admin.display(description="reasoning")
    def reasoned(self, obj: ChatMessage) -> str:
        return display.json_block(obj.reasoning)

    @admin.display(description="usage")
    def usage_block(self, obj: ChatMessage) -> str:
        return display.json_block(obj.usage)

    @admin.display(description="sent context")
    def sent(self, obj: ChatMessage) -> str:
        return display.json_block(obj.sent_context)

    @admin.display(description="metadata")
    def metadata_block(self, obj: ChatMessage) -> str:
        return display.json_block(obj.metadata)

    @admin.display(description="parent")
    def parent_link(self, obj: ChatMessage) -> str:
        return self.link_to_message(obj.parent_message_id)

    @admin.display(description="variants")
    def variants(self, obj: ChatMessage) -> str:
        """This message and its siblings, in the order in which people are shown them."""
        found = self._neighbours(obj).variants
        links = [
            display.current(str(rank)) if node.pk == obj.pk else self.link_to_message_as(node.pk, str(rank))
            for rank, node in enumerate(found[:_MOST_NEIGHBOURS], start=1)
        ]
        return display.joined(links + _more(found))

    @admin.display(description="followed by")
    def following(self, obj: ChatMessage) -> str:
        found = [node for node in self._neighbours(obj).children if not node.is_summary]
        if not found:
            return "Nothing: it is a tip"
        links = [self.link_to_message_as(node.pk, str(node)) for node in found[:_MOST_NEIGHBOURS]]
        return display.joined(links + _more(found))

    @admin.display(description="summaries anchored here")
    def summaries_here(self, obj: ChatMessage) -> str:
        found = [node for node in self._neighbours(obj).children if node.is_summary]
        return display.joined(
            display.joined((self.link_to_message_as(node.pk, str(node)), self.state(node)), " ") for node in found
        )

    @admin.display(description="runs from here")
    def runs_here(self, obj: ChatMessage) -> str:
        return display.joined(
            (
                display.link(self.url("compactionrun_changelist", tip=obj.pk), "Runs with this tip"),
                display.link(self.url("compactionrun_changelist", anchor=obj.pk), "with this anchor"),
                display.link(self.url("compactionevent_changelist", message=obj.pk), "Events"),
            )
        )

    def link_to_message_as(self, pk: int, label: str) -> str:
        return self.link_to("chatmessage", pk, label)

    def _neighbours(self, obj: ChatMessage) -> Neighbours:
        """Read once for a page: the object that the page shows carries it."""
        found: Neighbours | None = getattr(obj, "_admin_neighbours", None)
        if found is None:
            found = obj._admin_neighbours = Neighbours.of(obj)  # type: ignore[attr-defined]  # kept on the instance
        return found

    # -- a message's page ---------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatMessage]:
        return super().get_queryset(request).select_related("session")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ChatMessage | None:
        return super().get_object(request, object_id, from_field)
