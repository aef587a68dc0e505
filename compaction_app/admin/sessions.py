"""Sessions: what each holds, with links to it. Title and settings may be changed."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, reverse
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.compacting import CompactForm, Report, at_most, is_off
from compaction_app.admin.map_parts import GAUGE_WIDTH
from compaction_app.admin.maps import BranchMap, read_shape
from compaction_app.admin.overview import Figures, in_force
from compaction_app.admin.pagers import counted
from compaction_app.admin.records import Tool, as_uuid, is_id
from compaction_app.admin.verification import VerifyingAdmin
from compaction_app.admin.whole_sessions import SessionsReport, enqueue_sessions
from compaction_app.conf import DEFAULTS
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.validation import validate_session
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind

#: Names the lane before which the branch map goes on.
OLDER_THAN = "before"
#: What a session has of each, where it is one.
ONE = {"messages": "message", "summaries": "summary", "runs": "run", "events": "event"}
#: Branches compacted with instructions at once: where the broker is away each waits for its time-out.
MOST_WITH_INSTRUCTIONS = 20


def summaries_of(session: ChatSession) -> QuerySet[ChatMessage]:
    """Said twice, the second time as the partial index on cutoffs knows it."""
    found: QuerySet[ChatMessage] = session.messages.filter(kind=Kind.SUMMARY, last_summarized_message__isnull=False)
    return found


def _untitled(session: ChatSession) -> ChatSession:
    """A copy that is named by its id."""
    named = copy(session)
    named.title = ""
    return named


def _form_elsewhere() -> CompactForm:
    """Its field stands within the page's own form and belongs to another."""
    form = CompactForm(auto_id="compact_%s")
    form.fields["instructions"].widget.attrs["form"] = "compaction-now"
    return form


def _unknown_keys(unknown: list[str]) -> str:
    """The model's own error lists every key that there is; here the nearest ones are named."""
    told = f"There are no such keys: {', '.join(unknown)}."
    near = dict.fromkeys(name for key in unknown for name in get_close_matches(key.upper(), DEFAULTS, 2))
    return f"{told} Did you mean {' or '.join(near)}?" if near else f"{told} The README says which there are."


class ChatSessionForm(forms.ModelForm):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    class Meta:
        model = ChatSession
        fields = ("title", "settings")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # In an admin that runs from right to left JSON does not; a title runs as its language does.
        for name, direction in (("title", "auto"), ("settings", "ltr")):
            if name in self.fields:
                self.fields[name].widget.attrs["dir"] = direction

    def clean_settings(self) -> Any:
        # A field left empty means "no overrides"; the column takes no NULL.
        overrides = self.cleaned_data["settings"]
        if isinstance(overrides, dict) and (unknown := sorted(key for key in overrides if key not in DEFAULTS)):
            raise ValidationError(_unknown_keys(unknown))
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
class ChatSessionAdmin(VerifyingAdmin):
    form = ChatSessionForm
    change_form_template = "admin/compaction_app/chatsession/change_form.html"
    editable = ("title", "settings")
    texts = ("system_prompt", "settings", "token_calibration", "metadata")
    title, list_title = "Session", "Sessions"
    list_display = ("session", "short_owner", "short_model", "short_external_id", "updated", "created")
    list_select_related = ("owner",)
    ordering = ("-updated_at", "-id")
    raw_id_fields = ("owner",)
    list_filter = (("updated_at", admin.DateFieldListFilter),)
    search_help_text = "Session ids, external ids or names of owners, whole."
    actions = ("compact_every_branch", "verify")
    fieldsets = (
        (None, {"fields": ("title", "settings")}),
        ("Conversation", {"fields": (("owner_shown", "model"), "system_prompt_text")}),
        (
            "Record",
            {
                "fields": (
                    "id",
                    "external_id",
                    "calibration",
                    "erasures",
                    "metadata_block",
                    ("created", "updated"),
                )
            },
        ),
    )

    # -- columns and fields -------------------------------------------------------------------------------

    created = display.time_of("created_at", exact=False)
    updated = display.time_of("updated_at", exact=False)

    @admin.display(description="session")
    def session(self, obj: ChatSession) -> str:
        return display.titled(str(obj), 60)

    @admin.display(description="owner")
    def short_owner(self, obj: ChatSession) -> str:
        return display.titled(str(obj.owner or ""), 40)

    @admin.display(description="model")
    def short_model(self, obj: ChatSession) -> str:
        return display.titled(obj.model, 40)

    @admin.display(description="external id")
    def short_external_id(self, obj: ChatSession) -> str:
        return display.titled(obj.external_id, 40)

    @admin.display(description="owner")
    def owner_shown(self, obj: ChatSession) -> str:
        """With a link for those who may see people."""
        owner: Any = obj.owner
        if owner is None:
            return display.EMPTY
        site, options = self.admin_site, owner._meta
        if self.request is None or not site.is_registered(type(owner)):
            return str(owner)
        may_view = site.get_model_admin(type(owner)).has_view_permission(self.request)
        page = f"{site.name}:{options.app_label}_{options.model_name}_change"
        return display.link(reverse(page, args=[owner.pk]), owner) if may_view else str(owner)

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
        if session_id:
            return Q(pk=session_id)
        # Said twice, so that the partial index on external ids can answer.
        found = Q(external_id=term) & ~Q(external_id="")
        user_model: Any = get_user_model()
        # Asked for first: joined, owners and external ids would be compared row by row.
        owner = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: term}).values_list("pk", flat=True)
        return found | Q(owner__in=list(owner[:1]))

    # -- a session's page ---------------------------------------------------------------------------------

    class Media:
        css = {"all": ["compaction_app/map.css"]}
        js = ["compaction_app/map.js"]

    def page_context(self, request: HttpRequest, obj: ChatSession) -> dict[str, Any]:
        return self.overview(request, obj)

    def overview(self, request: HttpRequest, session: ChatSession) -> dict[str, Any]:
        """The branch map and the numbers beside it, in a constant number of queries."""
        settings = in_force(session)
        budget = settings.resolved.budget if settings.resolved else None
        if budget and settings.is_off:
            # No threshold holds there: what is drawn as one is the room itself.
            budget = replace(budget, threshold=budget.available)
        before = request.GET.get(OLDER_THAN, "")
        quotes = self.may_view("chatmessage")
        shape = read_shape(session, budget, int(before) if is_id(before) else None, quotes=quotes)
        summaries_url = self.url("chatmessage_changelist", kind=str(Kind.SUMMARY), session=session.pk, state="live")
        map_ = BranchMap(
            shape, lambda pk: self.url("chatmessage_change", pk), summaries_url, partial(self._stretch_url, session)
        )
        here = self.url("chatsession_change", session.pk)
        may_compact = self.has_compact_permission(request) and not settings.is_off
        return {
            "map": map_,
            "is_off": settings.is_off,
            "gauge_width": GAUGE_WIDTH,
            "older_url": f"{here}?{OLDER_THAN}={map_.older_before}#compaction-map" if map_.older_before else "",
            "newest_url": f"{here}#compaction-map" if shape.is_older_page else "",
            "figure_groups": Figures(self, session, shape, settings.resolved, budget).groups(),
            "settings_problem": settings.problem,
            "compact_form": _form_elsewhere() if may_compact and shape.lanes else None,
            "compact_url": self.url("chatsession_compact", session.pk),
        }

    def _stretch_url(self, session: ChatSession, lane: int, first: int, last: int) -> str:
        """The list of a lane's messages from one depth to another; the list's own filters have these names."""
        narrowed: dict[str, Any] = {"session": session.pk, "lane": lane, "from_depth": first, "to_depth": last}
        return self.url("chatmessage_changelist", **narrowed)

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
        # "1 summary", "2 summaries", "more than 10,000 summaries".
        told = [f"{count} {ONE[part] if count == '1' else part}" for part, count in parts.items()]
        return [str(session), told], parts, set(), []

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
        verify = [self.verify_tool(obj)]
        if not self.has_compact_permission(request) or is_off(obj):
            return verify
        return [Tool("Compact every branch", self.url("chatsession_compact", obj.pk)), *verify]

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
        form = CompactForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            instructions = form.cleaned_data["instructions"]
            if instructions:
                self._compact_with(request, session, instructions)
            else:
                enqueue_sessions(self, request, [session])
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            obj=session,
            title="Compact every branch",
            question=(
                "Every branch over its threshold is compacted in the background, from shallow to deep. "
                f"With instructions the newest {MOST_WITH_INSTRUCTIONS} branches are, whatever their size."
            ),
            form=form,
            is_work=True,
            button="Compact every branch",
            back=here,
        )

    def _compact_with(self, request: HttpRequest, session: ChatSession, instructions: str) -> None:
        """A run for each branch: what is asked for goes into a summary of its own."""
        whole, report = SessionsReport(), Report()
        if whole.refuses(session):
            whole.tell(self, request)
            return
        tips = ChatMessage.objects.using(database_of(session)).tips_of(session.pk).defer("reasoning")
        newest = list(tips.select_related("session").order_by("-id")[: MOST_WITH_INSTRUCTIONS + 1])
        for tip in sorted(newest[:MOST_WITH_INSTRUCTIONS], key=lambda tip: (tip.depth, tip.pk)):
            if run := report.ask(tip, instructions):
                self.log_change(request, session, f"Compaction requested: run {run.pk}.")
        report.tell(self, request)
        if len(newest) > MOST_WITH_INSTRUCTIONS:
            told = f"Only the newest {MOST_WITH_INSTRUCTIONS} branches were asked for."
            self.message_user(request, told, messages.WARNING)
