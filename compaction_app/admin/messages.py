"""Messages and summaries: two lists of one table, and a page for each that shows what the model sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib import messages as notes
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin import display, summaries
from compaction_app.admin.compacting import CompactForm, Report, at_most
from compaction_app.admin.contexts import context_here
from compaction_app.admin.filters import KindFilter, LiveFilter, TipFilter, related_filters, shown_kind
from compaction_app.admin.records import ID_DIGITS, MOST_AT_ONCE, Tool
from compaction_app.admin.retiring import Retirement, RetireForm, plan_retirement
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

    def for_list(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
        lean = super().for_list(request, queryset)
        if self.kind(request) == Kind.SUMMARY:
            return lean.prefetch_related(summaries.RUNS)
        return lean.annotate(beginning=Left("content", _SHOWN_IN_LISTS))

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
        beginning: str = obj.beginning  # type: ignore[attr-defined]  # annotated by for_list
        return display.line(beginning, is_cut=len(beginning) == _SHOWN_IN_LISTS)

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
        """This message and its siblings, numbered as people see them."""
        siblings = ChatMessage.objects.get_siblings(obj).filter(kind=Kind.MESSAGE)
        found = list(siblings.values_list("pk", flat=True)[: _MOST_NEIGHBOURS + 1])
        ranked = enumerate(found[:_MOST_NEIGHBOURS], start=1)
        links = [
            display.here(rank) if pk == obj.pk else self.link_to("chatmessage", pk, str(rank)) for rank, pk in ranked
        ]
        return display.joined(links + _more(found))

    @admin.display(description="followed by")
    def following(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.MESSAGE)
        found = list(children.only("id", "kind", "role")[: _MOST_NEIGHBOURS + 1])
        links = [self.link_to("chatmessage", node.pk, str(node)) for node in found[:_MOST_NEIGHBOURS]]
        return display.joined(links + _more(found)) if found else "Nothing: this is a tip"

    @admin.display(description="summaries anchored here")
    def summaries_here(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.SUMMARY)
        found = list(children.only("id", "kind", "last_summarized_message", "retired_at")[: _MOST_NEIGHBOURS + 1])
        links = [
            display.joined((self.link_to("chatmessage", node.pk, str(node)), self.state(node)), " ")
            for node in found[:_MOST_NEIGHBOURS]
        ]
        return display.joined(links + _more(found))

    @admin.display(description="runs from here")
    def runs_here(self, obj: ChatMessage) -> str:
        return display.joined(
            (
                display.link(self.url("compactionrun_changelist", tip=obj.pk), "Runs with this tip"),
                display.link(self.url("compactionrun_changelist", anchor=obj.pk), "with this anchor"),
                display.link(self.url("compactionevent_changelist", message=obj.pk), "Events"),
            )
        )

    # -- a message's page ---------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatMessage]:
        return super().get_queryset(request).select_related("session")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ChatMessage | None:
        found: ChatMessage | None = super().get_object(request, object_id, from_field)
        if found is not None and found.is_summary:
            prefetch_related_objects([found], summaries.RUNS)
        return found

    def get_fieldsets(self, request: HttpRequest, obj: ChatMessage | None = None) -> Any:
        if obj is not None and obj.is_summary:
            return summaries.FIELDSETS
        return [
            (title, {**options, "fields": [name for name in options["fields"] if _is_shown(name, obj)]})
            for title, options in MESSAGE_FIELDSETS
        ]

    def tools(self, request: HttpRequest, obj: ChatMessage) -> list[Tool]:
        if obj.is_summary:
            may_retire = obj.retired_at is None and self.has_retire_permission(request)
            return [Tool("Retire", self.url("chatmessage_retire", ids=obj.pk))] if may_retire else []
        if not self.has_compact_permission(request):
            return []
        return [Tool("Compact now", self.url("chatmessage_compact", obj.pk))]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: ChatMessage | None = None,
    ) -> HttpResponse:
        if obj is not None and obj.is_summary:
            context["events"] = self.with_urls(summaries.events_of(obj))
        elif obj is not None:
            context["here"] = context_here(obj, lambda pk: self.url("chatmessage_change", pk))
        return super().render_change_form(request, context, add, change, form_url, obj)

    # -- deleting -----------------------------------------------------------------------------------------

    def may_delete(self, obj: ChatMessage) -> bool:
        return not obj.is_summary

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is not None and obj.is_summary and self.has_view_permission(request, obj):
            self.message_user(request, "A summary is not deleted: retire it, and the record stays.", notes.WARNING)
            return HttpResponseRedirect(self.url("chatmessage_change", obj.pk))
        return super().delete_view(request, object_id, extra_context)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        """In numbers: Django's collector would load everything below to list it."""
        below = ChatMessage.objects.get_descendant_count(objs[0])
        named = [str(objs[0]), [f"{below:,} messages and summaries below it"]]
        return named, {"messages and summaries": below + 1}, set(), []

    def delete_model(self, request: HttpRequest, obj: ChatMessage) -> None:
        chat.delete_message(obj)

    # -- compacting and retiring --------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        return [
            self.page("<int:message_id>/compact/", self.compact_view, "chatmessage_compact"),
            self.page("retire/", self.retire_view, "chatmessage_retire"),
            *super().get_urls(),
        ]

    @admin.action(description="Compact now, in the background", permissions=["compact"])
    def compact_now(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> None:
        report = Report()
        for tip in at_most(self, request, queryset):
            self._ask(request, report, tip)
        report.tell(self, request)

    def _ask(self, request: HttpRequest, report: Report, tip: ChatMessage, instructions: str = "") -> None:
        if run := report.ask(tip, instructions):
            self.log_change(request, tip, f"Compaction requested: run {run.pk}.")

    def compact_view(self, request: HttpRequest, message_id: int) -> HttpResponse:
        self.require(request, self.has_compact_permission(request))
        tip = self.get_object(request, str(message_id))
        if tip is None:
            return self.gone(request, message_id)
        here, report = self.url("chatmessage_change", tip.pk), Report()
        form = CompactForm(request.POST or None)
        if form.is_valid():
            self._ask(request, report, tip, form.cleaned_data["instructions"])
            report.tell(self, request)
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            obj=tip,
            title="Compact now",
            question="The older part of the branch that ends here is summarized in the background.",
            form=form,
            button="Compact now",
            back=here,
        )

    @admin.action(description="Retire", permissions=["retire"])
    def retire(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> HttpResponse | None:
        selected = at_most(self, request, queryset)
        if not selected:
            return None
        ids = ",".join(str(summary.pk) for summary in selected)
        return HttpResponseRedirect(self.url("chatmessage_retire", ids=ids))

    def retire_view(self, request: HttpRequest) -> HttpResponse:
        """The selected summaries and what is built on them; a reason; and by POST the deed."""
        self.require(request, self.has_retire_permission(request))
        the_list = self.url("chatmessage_changelist", kind=str(Kind.SUMMARY))
        retirement = plan_retirement(self._summaries(request, request.GET.get("ids", "")))
        if not retirement.leaving:
            self.message_user(request, "Nothing to retire: no live summary was selected.", notes.WARNING)
            return HttpResponseRedirect(the_list)
        form = RetireForm(request.POST or None)
        if form.is_valid():
            self._carry_out(request, retirement, form.cleaned_data["reason"])
            return HttpResponseRedirect(the_list)
        rows = [
            (
                self.link_to("chatmessage", summary.pk, str(summary)),
                self.in_session(summary),
                "selected" if summary.pk in retirement.selected_ids else "built on a selected one",
            )
            for summary in retirement.leaving
        ]
        return self.confirm(
            request,
            title="Retire summaries",
            question="These are taken out of use. The messages that they stand for are back in the context on the "
            "next read, and the branch is compacted anew when it has to be.",
            rows=rows,
            form=form,
            button="Retire",
            back=the_list,
        )

    def _summaries(self, request: HttpRequest, ids: str) -> list[ChatMessage]:
        wanted = [int(pk) for pk in ids.split(",") if pk.isdecimal() and len(pk) <= ID_DIGITS]
        found = self.get_queryset(request).filter(kind=Kind.SUMMARY, pk__in=wanted[:MOST_AT_ONCE])
        return list(found.defer(*self.texts).order_by("id"))

    def _carry_out(self, request: HttpRequest, retirement: Retirement, reason: str) -> None:
        retired = retirement.carry_out(reason)
        for summary in retirement.leaving:
            if summary.pk in retired:
                self.log_change(request, summary, f"Retired: {reason}")
        links = display.joined((self.link_to_message(pk, "Summary") for pk in retired), ", ")
        self.message_user(request, format_html("Retired {}: {}.", len(retired), links), notes.SUCCESS)


def _is_shown(name: str, obj: ChatMessage | None) -> bool:
    column = _SHOWN_IF_SET.get(name)
    return column is None or bool(getattr(obj, column, None))


def _more(found: Sequence[Any]) -> list[str]:
    """A word about neighbours beyond those that are linked to."""
    return ["and more"] if len(found) > _MOST_NEIGHBOURS else []
