"""Sessions: the branches of each, and links to what belongs to it. Title and settings can be edited.

Every count stops at a bound and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import display, records
from compaction_app.admin.branches import BranchList
from compaction_app.admin.compacting import TOLD_OF_COMPACTING, Report, being_compacted, is_off
from compaction_app.admin.dashboard import State, shown_budget, states_of
from compaction_app.admin.filters import of_kind
from compaction_app.admin.unseen import held_back
from compaction_app.conf import DEFAULTS, Mode
from compaction_app.context.budget import calibration_of
from compaction_app.context.reading import resolve_request
from compaction_app.exceptions import CompactionError, InvalidMessage
from compaction_app.messages.validation import validate_session
from compaction_app.models import ChatSession
from compaction_app.spending import session_spending
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind, RunStatus

#: In an address: the lane before which the list of branches continues.
OLDER_THAN = "before"
#: The newest sessions, which are searched by title.
TITLES = 10_000


# -- the form -----------------------------------------------------------------------------------------------


class ChatSessionForm(forms.ModelForm):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    class Meta:
        model = ChatSession
        fields = ("title", "settings")
        # In a right-to-left admin JSON still runs from left to right, and a title as its language does.
        widgets: ClassVar[dict[str, Any]] = {
            "title": AdminTextInputWidget({"dir": "auto"}),
            "settings": AdminTextareaWidget({"dir": "ltr"}),
        }

    def clean_settings(self) -> Any:
        overrides = self.cleaned_data["settings"]
        if isinstance(overrides, dict) and (unknown := sorted(key for key in overrides if key not in DEFAULTS)):
            raise ValidationError(_unknown_keys(unknown))
        # An empty field means "no overrides"; the column takes no NULL.
        return {} if overrides is None else overrides

    def clean(self) -> dict[str, Any]:
        """Refuse what the database cannot store, here where the user can correct it."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            validate_session(cleaned)
        except InvalidMessage as error:
            self.add_error(error.field, str(error))
        return cleaned


def _unknown_keys(unknown: list[str]) -> str:
    """The model's own error lists every key; this one names the most similar."""
    problem = f"Unknown settings: {', '.join(unknown)}."
    near = dict.fromkeys(name for key in unknown for name in get_close_matches(key.upper(), DEFAULTS, 2))
    hint = f"Did you mean {' or '.join(near)}?" if near else "The documentation lists all settings."
    return f"{problem} {hint}"


# -- the admin ----------------------------------------------------------------------------------------------


@admin.register(ChatSession)
class ChatSessionAdmin(records.RecordAdmin):
    form = ChatSessionForm
    #: Of the sessions of this list; the copy that answers one request has them.
    states: Mapping[object, State] = {}
    editable = ("title", "settings")
    texts = ("system_prompt", "settings", "token_calibration", "metadata")
    title, list_title = "Session", "Sessions"
    list_display = ("session", "branch", "compaction", "short_owner", "updated")
    list_select_related = ("owner",)
    ordering = ("-updated_at", "-id")
    list_filter = (("updated_at", admin.DateFieldListFilter),)
    search_help_text = (
        f"Part of a title, among the newest {TITLES:,} sessions; whole session ids, external ids or names of owners."
    )
    actions = ("compact_every_branch",)
    sections = (
        (None, ["title", "settings"]),
        ("Owner and prompt", ["short_owner model", "system_prompt_text"]),
        ("Record", ["id", "external_id", "calibration", "erased", "metadata_block", "created updated"]),
    )

    class Media:
        css = {"all": ["compaction_app/session.css"]}

    # -- columns and fields -------------------------------------------------------------------------------

    session = display.column("session", lambda self, session: display.titled(self.name_of(session), 48))
    short_owner = display.column("owner", lambda _, session: display.titled(str(session.owner or ""), 20))
    branch = display.column("fullest branch", lambda self, session: self.state_of(session).branch)
    compaction = display.column("last compaction", lambda self, session: self.state_of(session).compaction(self))
    system_prompt_text = display.shown("system_prompt", display.text_block)
    calibration = display.shown("token_calibration", display.json_block, "token counts corrected by")
    erased = display.column("redactions and deletions", lambda _, session: _erasures(session))
    metadata_block = display.shown("metadata", display.json_block)
    created = display.shown("created_at", display.moment)
    updated = display.shown("updated_at", display.moment)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        hidden = set() if self.may_view("compactionrun") else {"compaction"}
        return tuple(name for name in self.list_display if name not in hidden)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        if rows := found.result_list:
            self.states = states_of(rows, database_of(rows[0]), with_runs=self.may_view("compactionrun"))
        return found

    def state_of(self, session: ChatSession) -> State:
        # One that is missing was deleted since the list was read.
        return self.states.get(session.pk, State(session))

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """Also by title, among the newest sessions only: a search never reads the whole table."""
        newest = ChatSession.objects.order_by(*self.ordering).values("pk")[:TITLES]
        titled = [Q(pk__in=newest, title__icontains=text)] if text else []
        return [*super().search_conditions(request, text), *titled]

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        session_id = records.as_uuid(term)
        if session_id:
            return Q(pk=session_id)
        # The second condition is the one that the partial index on external ids has.
        found = Q(external_id=term) & ~Q(external_id="")
        user_model: Any = get_user_model()
        # Queried first: joined, owners and external ids would be compared row by row.
        owner = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: term}).values_list("pk", flat=True)
        return found | Q(owner__in=list(owner[:1]))

    # -- a session's page ---------------------------------------------------------------------------------

    def page_context(self, request: HttpRequest, obj: ChatSession) -> dict[str, Any]:
        """The branches and the numbers below them, in a constant number of queries."""
        resolved, budget, problem = None, None, ""
        try:
            resolved = resolve_request(obj)
        except CompactionError as error:
            problem = str(error)
        is_off = resolved is not None and resolved.settings.mode == Mode.OFF
        if resolved:
            budget = shown_budget(resolved)
        before = request.GET.get(OLDER_THAN, "")
        quotes = self.may_view("chatmessage")
        may_compact, newer = self.has_compact_permission(request) and not is_off, records.is_id(before)
        found = BranchList(self, obj, budget, int(before) if newer else None, quotes=quotes, may_compact=may_compact)
        here = self.page_of(obj)
        return {
            "branches": found,
            "is_off": is_off,
            "older_url": f"{here}?{OLDER_THAN}={found.older_before}#compaction-branches" if found.older_before else "",
            "newest_url": f"{here}#compaction-branches" if found.is_older_page else "",
            "counts": self._counts(obj),
            "spending": session_spending(obj),
            "resolved": resolved,
            "calibration": calibration_of(obj.token_calibration, resolved.model) if resolved else None,
            "settings_problem": problem,
            "being_compacted": being_compacted(self, [obj]),
            "held_back": held_back(obj) if resolved and not is_off else "",
            "search_url": self.url("chatmessage_changelist") if found.lanes else "",
        }

    def _counts(self, obj: ChatSession) -> dict[str, str]:
        """Links to what belongs to a session, with how many there are."""
        lists = {
            "Messages": ("chatmessage", of_kind(obj.messages.all(), Kind.MESSAGE), {}),
            "Summaries": ("chatmessage", of_kind(obj.messages.all(), Kind.SUMMARY), {"kind": str(Kind.SUMMARY)}),
            "Runs": ("compactionrun", obj.runs.all(), {}),
            "Failed runs": ("compactionrun", obj.runs.filter(status=RunStatus.FAILED), {"status__exact": "failed"}),
            "Events": ("compactionevent", obj.events.all(), {}),
        }
        return {
            name: self.link_to_list(page, records.bounded_count(rows), session=obj.pk, **query)
            for name, (page, rows, query) in lists.items()
        }

    def save_model(self, request: HttpRequest, obj: ChatSession, form: Any, change: bool) -> None:
        """Only what can be edited: saving the whole row would overwrite counters that workers update."""
        obj.updated_at = timezone.now()
        obj.save(update_fields=[*self.editable, "updated_at"])

    # -- deleting -----------------------------------------------------------------------------------------

    def may_delete(self, obj: ChatSession) -> bool:
        return True

    def deletion(self, request: HttpRequest, obj: ChatSession) -> dict[str, Any]:
        related = {
            ("message", "messages"): of_kind(obj.messages.all(), Kind.MESSAGE),
            ("summary", "summaries"): of_kind(obj.messages.all(), Kind.SUMMARY),
            ("run", "runs"): obj.runs.all(),
            ("event", "events"): obj.events.all(),
        }
        counts = {words: records.bounded_count(rows) for words, rows in related.items()}
        below = [f"{count} {words[count != '1']}" for words, count in counts.items() if count != "0"]
        question = "The session is deleted with everything in it. This cannot be undone."
        return {"question": question, "told": {records.CHANGES: [self.name_of(obj), below] if below else []}}

    def delete_model(self, request: HttpRequest, obj: ChatSession) -> None:
        chat.delete_session(obj)

    # -- compacting ---------------------------------------------------------------------------------------

    def tools(self, request: HttpRequest, obj: ChatSession) -> dict[str, str]:
        may_compact = self.has_compact_permission(request) and not is_off(obj)
        return {"Compact every branch": self.url("chatsession_compact", obj.pk)} if may_compact else {}

    @admin.action(description="Compact every branch in the background", permissions=["compact"])
    def compact_every_branch(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> None:
        self._compact(request, self.selected(request, queryset))

    def _compact(self, request: HttpRequest, sessions: list[ChatSession]) -> None:
        report = Report(self, request)
        report.compact_sessions(sessions)
        report.send()

    @records.page("<uuid:pk>/compact/", "compact")
    def compact_view(self, request: HttpRequest, session: ChatSession) -> HttpResponse:
        return self.confirm(
            request,
            lambda _: self._compact(request, [session]),
            obj=session,
            title="Compact every branch",
            question="Every branch over its threshold is compacted in the background, shallow branches first.",
            tell=lambda: TOLD_OF_COMPACTING,
            back=self.page_of(session),
        )


def _erasures(session: ChatSession) -> str:
    after = ". A summary that was begun before the last of them is not stored." if session.erasures else ""
    return f"{session.erasures:,}{after}"
