"""Sessions: what each holds, with links to it. Title and settings may be changed."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.compacting import at_most, enqueue_sessions
from compaction_app.admin.records import RecordAdmin, Tool, as_uuid, counted
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.validation import validate_session
from compaction_app.values import Kind, RunStatus


def summaries_of(session: ChatSession) -> QuerySet[ChatMessage]:
    """Said twice, the second time as the partial index on cutoffs knows it."""
    found: QuerySet[ChatMessage] = session.messages.filter(kind=Kind.SUMMARY, last_summarized_message__isnull=False)
    return found


def _untitled(session: ChatSession) -> ChatSession:
    """A copy that is named by its id."""
    named = copy(session)
    named.title = ""
    return named


class ChatSessionForm(forms.ModelForm):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    class Meta:
        model = ChatSession
        fields = ("title", "settings")

    def clean_settings(self) -> Any:
        # A field left empty means "no overrides"; the column takes no NULL.
        overrides = self.cleaned_data["settings"]
        return {} if overrides is None else overrides

    def clean(self) -> dict[str, Any]:
        """Refuse what the database can not hold here, where the person can mend it."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            validate_session(cleaned)
        except InvalidMessage as error:
            self.add_error(error.field, str(error))
        return cleaned


@admin.register(ChatSession)
class ChatSessionAdmin(RecordAdmin):
    form = ChatSessionForm
    editable = ("title", "settings")
    texts = ("system_prompt", "settings", "token_calibration", "metadata")
    title, list_title = "Session", "Sessions"
    list_display = ("session", "owner", "model", "external_id", "created_at", "updated_at")
    list_select_related = ("owner",)
    ordering = ("-updated_at", "-id")
    raw_id_fields = ("owner",)
    search_help_text = "Session ids or external ids, whole."
    actions = ("compact_every_branch",)
    fieldsets = (
        (None, {"fields": ("title", "settings")}),
        ("What it holds", {"fields": ("message_links", "summary_links", "run_links", "event_links")}),
        ("Conversation", {"fields": (("owner", "model"), "system_prompt_text")}),
        (
            "Record",
            {
                "fields": (
                    "id",
                    "external_id",
                    "calibration",
                    "erasures",
                    "metadata_block",
                    ("created_at", "updated_at"),
                )
            },
        ),
    )

    # -- columns and fields -------------------------------------------------------------------------------

    @admin.display(description="session")
    def session(self, obj: ChatSession) -> str:
        return display.line(display.shortened(str(obj), 60))

    @admin.display(description="messages")
    def message_links(self, obj: ChatSession) -> str:
        found = counted(obj.messages.filter(kind=Kind.MESSAGE))
        all_messages = self.url("chatmessage_changelist", session=obj.pk)
        tips = self.url("chatmessage_changelist", session=obj.pk, place="tip")
        return display.joined((display.link(all_messages, found), display.link(tips, "Tips of branches")))

    @admin.display(description="summaries")
    def summary_links(self, obj: ChatSession) -> str:
        counts = summaries_of(obj).aggregate(live=Count("pk", filter=Q(retired_at__isnull=True)), all=Count("pk"))
        found = {"live": counts["live"], "retired": counts["all"] - counts["live"]}
        query = {"kind": str(Kind.SUMMARY), "session": obj.pk}
        return display.joined(
            display.link(self.url("chatmessage_changelist", **query, state=state), f"{count:,} {state}")
            for state, count in found.items()
        )

    @admin.display(description="runs")
    def run_links(self, obj: ChatSession) -> str:
        counts = dict(obj.runs.order_by().values_list("status").annotate(Count("pk")))
        found = [(status, counts[status]) for status in RunStatus if status in counts]
        if not found:
            return "None yet"
        return display.joined(
            display.link(
                self.url("compactionrun_changelist", session=obj.pk, status__exact=str(status)),
                f"{count:,} {status}",
            )
            for status, count in found
        )

    @admin.display(description="events")
    def event_links(self, obj: ChatSession) -> str:
        return display.link(self.url("compactionevent_changelist", session=obj.pk), counted(obj.events.all()))

    @admin.display(description="system prompt")
    def system_prompt_text(self, obj: ChatSession) -> str:
        return display.text_block(obj.system_prompt)

    @admin.display(description="token calibration")
    def calibration(self, obj: ChatSession) -> str:
        return display.json_block(obj.token_calibration)

    @admin.display(description="metadata")
    def metadata_block(self, obj: ChatSession) -> str:
        return display.json_block(obj.metadata)

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        session_id = as_uuid(term)
        # Said twice, so that the partial index on external ids can answer.
        return Q(pk=session_id) if session_id else Q(external_id=term) & ~Q(external_id="")

    # -- writing ------------------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: ChatSession, form: Any, change: bool) -> None:
        """Only what can be edited: a whole row would set back the counters that workers move meanwhile."""
        obj.updated_at = timezone.now()
        obj.save(update_fields=[*self.editable, "updated_at"])

    def may_delete(self, obj: ChatSession) -> bool:
        return True

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, Any], set[str], list[Any]]:
        """In numbers: Django's collector would load every message to list it."""
        session = objs[0]
        parts = {
            "messages": counted(session.messages.filter(kind=Kind.MESSAGE)),
            "summaries": counted(summaries_of(session)),
            "runs": counted(session.runs.all()),
            "events": counted(session.events.all()),
        }
        named = [str(session), [f"{count} {part}" for part, count in parts.items()]]
        return named, parts, set(), []

    def delete_model(self, request: HttpRequest, obj: ChatSession) -> None:
        chat.delete_session(obj)

    # -- the admin's log: it outlives a session, whose title may be its first words -------------------------

    def log_change(self, request: HttpRequest, obj: ChatSession, message: Any) -> LogEntry:
        return super().log_change(request, _untitled(obj), message)

    def log_deletions(self, request: HttpRequest, queryset: Iterable[ChatSession]) -> list[LogEntry]:
        # A list, as Django itself hands over for one object.
        untitled: Any = [_untitled(session) for session in queryset]
        return super().log_deletions(request, untitled)

    # -- compacting ---------------------------------------------------------------------------------------

    def tools(self, request: HttpRequest, obj: ChatSession) -> list[Tool]:
        if not self.has_compact_permission(request):
            return []
        return [Tool("Compact every branch", self.url("chatsession_compact", obj.pk))]

    def get_urls(self) -> list[URLPattern]:
        page = self.page("<uuid:session_id>/compact/", self.compact_view, "chatsession_compact")
        return [page, *super().get_urls()]

    @admin.action(description="Compact every branch in the background", permissions=["compact"])
    def compact_every_branch(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> None:
        enqueue_sessions(self, request, at_most(self, request, queryset))

    def compact_view(self, request: HttpRequest, session_id: Any) -> HttpResponse:
        self.require(request, self.has_compact_permission(request))
        session = self.get_or_404(request, session_id)
        here = self.url("chatsession_change", session.pk)
        if request.method == "POST":
            enqueue_sessions(self, request, [session])
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            obj=session,
            title="Compact every branch",
            question="Every branch over its threshold is compacted in the background, from shallow to deep.",
            button="Compact every branch",
            back=here,
        )
