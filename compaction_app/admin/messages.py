"""Messages and summaries: two lists of one table, and a page for each that shows what the model sees."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.contrib import messages as notes
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern

from compaction_app import chat
from compaction_app.admin import long_texts, message_fields, summaries, summary_page
from compaction_app.admin.compacting import CompactForm, Report, at_most, is_off
from compaction_app.admin.contexts import context_here
from compaction_app.admin.erasing import ErasingAdmin
from compaction_app.admin.filters import (
    KIND_WORDS,
    KindFilter,
    LiveFilter,
    SessionOfMessagesFilter,
    TipFilter,
    shown_kind,
)
from compaction_app.admin.message_fields import SHOWN_IN_LISTS, MessageFields
from compaction_app.admin.narrowing import FromDepthFilter, LaneFilter, MessageList, ToDepthFilter
from compaction_app.admin.records import Tool, is_id
from compaction_app.admin.retiring import RetiringAdmin
from compaction_app.admin.sent import context_then
from compaction_app.admin.summaries import SummaryFields
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage
from compaction_app.values import Kind


@admin.register(ChatMessage)
class ChatMessageAdmin(MessageFields, SummaryFields, RetiringAdmin, ErasingAdmin):
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
    actions = ("compact_now", "retire")

    class Media:
        css = {"all": ["compaction_app/message.css"]}

    # -- lists --------------------------------------------------------------------------------------------

    def kind(self, request: HttpRequest) -> Kind:
        return shown_kind(request.GET.get("kind"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[MessageList]:
        return MessageList

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        columns = summaries.COLUMNS if self.kind(request) == Kind.SUMMARY else message_fields.COLUMNS
        # Within one session all rows would name it.
        return tuple(name for name in columns if name != "in_session" or "session" not in request.GET)

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        if self.kind(request) == Kind.SUMMARY:
            return (KindFilter, LiveFilter, SessionOfMessagesFilter)
        # No index knows roles or tips: they are looked for within one session, not in the whole table.
        own = ("role", TipFilter) if "session" in request.GET else ()
        depths = (FromDepthFilter, ToDepthFilter) if own else ()
        return (KindFilter, *own, SessionOfMessagesFilter, LaneFilter, *depths)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-session_id", "-id") if "session" in request.GET else self.ordering

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        actions = super().get_actions(request, action_location)
        actions.pop("compact_now" if self.kind(request) == Kind.SUMMARY else "retire", None)
        return actions

    def for_list(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
        lean = super().for_list(request, queryset)
        if self.kind(request) == Kind.SUMMARY:
            return lean.prefetch_related(summaries.RUNS)
        with_beginnings: QuerySet[ChatMessage] = lean.annotate(beginning=Left("content", SHOWN_IN_LISTS))
        return with_beginnings

    def search_help(self, request: HttpRequest) -> str:
        if "session" in request.GET:
            return "What a text of this session holds, ids of messages, or external ids, whole."
        return "Ids of messages. Texts are searched in the list of one session, to which its page leads."

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ChatMessage], search_term: str
    ) -> tuple[QuerySet[ChatMessage], bool]:
        """Within one session also by text, as it stands: the whole table's texts are never read for a search."""
        found, has_duplicates = super().get_search_results(request, queryset, search_term)
        words = search_term.strip()
        if "session" not in request.GET or not words:
            return found, has_duplicates
        named = [self.search_for(request, term) for term in words.replace(",", " ").split()]
        conditions = [Q(content__icontains=words), *filter(None, named)]
        return queryset.filter(Q(*conditions, _connector=Q.OR)), has_duplicates

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        """Messages by id; and by external id where the session is given, together with which it is indexed."""
        found = Q(pk=int(term)) if is_id(term) else None
        if "session" in request.GET:
            external = Q(external_id=term)
            return external if found is None else found | external
        return found

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        kind = self.kind(request)
        session = {"session": request.GET["session"]} if "session" in request.GET else {}
        tabs = [
            (title, self.url("chatmessage_changelist", kind=str(of_kind), **session), of_kind == kind)
            for of_kind, title in KIND_WORDS.items()
        ]
        whole_list = self.url("chatmessage_changelist", kind=str(kind))
        context = {"title": KIND_WORDS[kind], "compaction_tabs": tabs, "compaction_whole_list": whole_list}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    # -- a message's page ---------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatMessage]:
        return super().get_queryset(request).select_related("session")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ChatMessage | None:
        found: ChatMessage | None = super().get_object(request, object_id, from_field)
        if found is not None and found.is_summary:
            prefetch_related_objects([found], *summaries.OF_PAGE)
        return found

    def get_fieldsets(self, request: HttpRequest, obj: ChatMessage | None = None) -> Any:
        if obj is not None and obj.is_summary:
            return summaries.FIELDSETS
        return message_fields.fieldsets_of(obj)

    def title_of(self, obj: ChatMessage) -> str:
        return "Summary" if obj.is_summary else "Message"

    def list_query(self, obj: ChatMessage | None) -> dict[str, Any]:
        return {"kind": str(Kind.SUMMARY)} if obj is not None and obj.is_summary else {}

    def list_name(self, obj: ChatMessage | None) -> str:
        return KIND_WORDS[Kind.SUMMARY if obj is not None and obj.is_summary else Kind.MESSAGE]

    def tools(self, request: HttpRequest, obj: ChatMessage) -> list[Tool]:
        if obj.is_summary:
            may_retire = obj.retired_at is None and self.has_retire_permission(request)
            return [Tool("Retire", self.url("chatmessage_retire", ids=obj.pk))] if may_retire else []
        tools = []
        if self.has_compact_permission(request) and not is_off(obj.session):
            tools.append(Tool("Compact now", self.url("chatmessage_compact", obj.pk)))
        if self.has_redact_permission(request):
            tools.append(Tool("Redact", self.url("chatmessage_redact", obj.pk)))
        return tools

    def page_context(self, request: HttpRequest, obj: ChatMessage) -> dict[str, Any]:
        if obj.is_summary:
            return {
                "events": self.with_urls(summaries.events_of(obj)),
                "summary": summary_page.page_of(obj, self._message_url),
            }
        prompt_url = self.url("chatsession_change", obj.session_id)
        return {
            "then": context_then(obj, self._message_url, prompt_url),
            "here": context_here(obj, self._message_url, prompt_url),
        }

    def _message_url(self, pk: int) -> str:
        return self.url("chatmessage_change", pk)

    # -- texts for themselves -----------------------------------------------------------------------------

    def text_view(self, request: HttpRequest, message_id: int, part: str) -> HttpResponse:
        """All of one of a message's texts."""
        self.require(request, True)
        return long_texts.plain(self.get_or_404(request, message_id), part)

    def context_view(self, request: HttpRequest, message_id: int) -> HttpResponse:
        """The list that the ``openai`` client would take, as JSON; or why there is none."""
        self.require(request, True)
        message = self.get_or_404(request, message_id)
        try:
            sent = chat.get_context(message).to_openai()
        except CompactionError as error:
            return long_texts.as_plain_text(str(error), status=409)
        return long_texts.as_plain_text(json.dumps(sent, indent=2, ensure_ascii=False))

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

    # -- compacting --------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        return [
            self.page("<int:message_id>/compact/", self.compact_view, "chatmessage_compact"),
            self.page("<int:message_id>/context/", self.context_view, "chatmessage_context"),
            self.page("<int:message_id>/text/<str:part>/", self.text_view, "chatmessage_text"),
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
        tip = self.get_or_404(request, message_id)
        here, report = self.url("chatmessage_change", tip.pk), Report()
        form = CompactForm(request.POST if request.method == "POST" else None)
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
            is_work=True,
            button="Compact now",
            back=here,
        )
