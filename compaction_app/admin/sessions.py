"""Sessions: the branches and the numbers of each, with links to what they count. Title and settings can be edited.

Nothing is counted that grows with the conversation: messages and tokens follow from the lanes where all of them are
shown, and everything else stops at a bound and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin import display, records
from compaction_app.admin.branches import BranchList
from compaction_app.admin.compacting import TOLD_OF_COMPACTING, CompactForm, Report, is_off
from compaction_app.admin.dashboard import State, shown_budget, states_of
from compaction_app.admin.display import number
from compaction_app.admin.filters import of_kind
from compaction_app.admin.open_runs import being_compacted
from compaction_app.admin.unseen import held_back
from compaction_app.admin.verifying import VerifyingAdmin
from compaction_app.conf import DEFAULTS, Mode
from compaction_app.context.budget import calibration_of
from compaction_app.context.reading import resolve_request
from compaction_app.exceptions import CompactionError, InvalidMessage
from compaction_app.messages.validation import validate_session
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.spending import Spending, session_spending
from compaction_app.tree.branches import database_of
from compaction_app.tree.lanes import histories_at
from compaction_app.values import OPEN_RUN_STATUSES, Kind, RunStatus

#: In an address: the lane before which the list of branches continues.
OLDER_THAN = "before"
#: Branches compacted with instructions at once: without a broker each waits for its timeout.
MOST_WITH_INSTRUCTIONS = 20
#: Messages that are counted one by one.
BOUND = records.BoundedPaginator.limit
#: The newest branches: each tip is looked up separately.
BRANCHES = 1000
#: The newest runs and summaries, counted by status: each row is read.
RUNS = SUMMARIES = 1000
#: The newest sessions, which are searched by title and filtered by their last compaction one by one.
TITLES = 10_000
#: The newest lanes of a session of which the list shows the fullest branch.
LANES_COMPARED = 20
#: SQLite unites at most 500 queries; a page has 50 sessions unless a host says otherwise.
_MOST_COMPARED = 400


# -- the form -----------------------------------------------------------------------------------------------


class ChatSessionForm(forms.ModelForm):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    class Meta:
        model = ChatSession
        fields = ("title", "settings")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # In a right-to-left admin JSON still runs from left to right, and a title as its language does.
        for name, direction in (("title", "auto"), ("settings", "ltr")):
            if name in self.fields:
                self.fields[name].widget.attrs["dir"] = direction

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


# -- the numbers below the branches --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """What a session's page counts. The template calls these methods."""

    admin: records.RecordAdmin
    session: ChatSession
    branch_list: BranchList

    def branches(self) -> str:
        if self.branch_list.is_whole:
            return number(sum(lane.is_tip for lane in self.branch_list.lanes))
        nodes = ChatMessage.objects.using(database_of(self.session))
        tips = nodes.tips_of(self.session.pk, newest=BRANCHES).count()
        lanes = records.count_up_to(nodes.in_session(self.session.pk).filter(lane__isnull=True), BRANCHES)
        return f"at least {tips:,}" if lanes > BRANCHES else number(tips)

    def messages_and_tokens(self) -> tuple[str, str]:
        if self.branch_list.is_whole:
            return number(self.branch_list.messages), number(self.branch_list.tokens)
        nodes = ChatMessage.objects.using(database_of(self.session)).in_session(self.session.pk)
        first = nodes.filter(kind=Kind.MESSAGE)[: BOUND + 1]
        found = first.aggregate(messages=Count("pk"), tokens=Sum("token_count"))
        if found["messages"] > BOUND:
            return f"more than {BOUND:,}", f"at least {found['tokens']:,}"
        return number(found["messages"]), number(found["tokens"] or 0)

    def summaries(self) -> str:
        newest = of_kind(self.session.messages.all(), Kind.SUMMARY).order_by("-id")[:SUMMARIES]
        is_live = Q(retired_at__isnull=True)
        counts = newest.aggregate(live=Count("pk", filter=is_live), retired=Count("pk", filter=~is_live))
        links = [
            self._list("chatmessage", f"{count:,} {state}", kind=str(Kind.SUMMARY), state=state)
            for state, count in counts.items()
        ]
        return _of_newest(links, sum(counts.values()), SUMMARIES)

    def runs(self) -> str:
        by_status = {str(status): Count("pk", filter=Q(status=status)) for status in RunStatus}
        counts = self.session.runs.order_by("-id")[:RUNS].aggregate(**by_status)
        links = [
            self._list("compactionrun", f"{count:,} {RunStatus(status).words}", status__exact=status)
            for status, count in counts.items()
            if count
        ]
        return _of_newest(links, sum(counts.values()), RUNS) if links else "None yet"

    def events(self) -> str:
        return records.bounded_count(self.session.events.all())

    def spending(self) -> Spending:
        return session_spending(self.session)

    def _list(self, page: str, label: str, **query: Any) -> str:
        return self.admin.link_to_list(page, label, session=self.session.pk, **query)


def _of_newest(links: list[str], count: int, bound: int) -> str:
    shown = display.joined(links)
    return format_html("{} of the newest {}", shown, f"{bound:,}") if count >= bound else shown


# -- the list -----------------------------------------------------------------------------------------------


def with_fullest(states: Mapping[object, State], using: str) -> dict[object, State]:
    """Each with the longest history among its newest branch and those of its newest lanes. Two queries."""
    nodes, field = ChatMessage.objects.using(using), ChatMessage._meta.get_field("session")
    # SQLite stores a UUID as text.
    keys = [field.get_db_prep_value(key, connections[using]) for key in list(states)[:_MOST_COMPARED]]
    statement = " UNION ALL ".join([sql.TIPS] * len(keys))
    bounded = [parameter for key in keys for parameter in (key, LANES_COMPARED)]
    tips = nodes.filter(pk__in=RawSQL(statement, bounded))  # noqa: S611  # names of tables, never a value
    places = {pk: (session, depth) for pk, session, depth in tips.values_list("pk", "session", "depth")}
    found = dict(states)
    for history in histories_at(list(places), using).values():
        session, depth = places[history.tip_id]
        known = found[session].history
        if known is None or history.tokens > known.tokens:
            found[session] = replace(found[session], depth=depth, history=history)
    return found


class LastCompactionFilter(admin.SimpleListFilter):
    """By the outcome of the newest run, among the newest sessions only: no index has it."""

    title, parameter_name = "last compaction", "compaction"
    statuses: ClassVar[dict[str, tuple[str, ...]]] = {"failed": (RunStatus.FAILED,), "open": OPEN_RUN_STATUSES}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("failed", "Failed"), ("open", "Waiting or running"), ("none", "None")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
        if self.value() not in ("none", *self.statuses):
            return queryset
        newest = ChatSession.objects.order_by("-updated_at", "-id").values("pk")[:TITLES]
        runs = CompactionRun.objects.filter(session=OuterRef("pk")).order_by("-id")
        found = queryset.filter(pk__in=newest).annotate(last_status=Subquery(runs.values("status")[:1]))
        statuses = self.statuses.get(str(self.value()))
        return found.filter(last_status__in=statuses) if statuses else found.filter(last_status=None)


# -- the admin ----------------------------------------------------------------------------------------------


@admin.register(ChatSession)
class ChatSessionAdmin(VerifyingAdmin):
    form = ChatSessionForm
    #: Of the sessions of this list; the copy that answers one request has them.
    states: Mapping[object, State] = {}
    editable = ("title", "settings")
    texts = ("system_prompt", "settings", "token_calibration", "metadata")
    title, list_title = "Session", "Sessions"
    list_display = ("session", "branch", "compaction", "short_owner", "updated")
    list_select_related = ("owner",)
    ordering = ("-updated_at", "-id")
    list_filter = (LastCompactionFilter, ("updated_at", admin.DateFieldListFilter))
    search_help_text = (
        f"Part of a title, among the newest {TITLES:,} sessions; whole session ids, external ids or names of owners."
    )
    actions = ("compact_every_branch", "verify")
    fieldsets = records.fieldsets(
        (
            (None, ["title", "settings"]),
            ("Owner and prompt", ["owner_shown model", "system_prompt_text"]),
            ("Record", ["id", "external_id", "calibration", "erased", "metadata_block", "created updated"]),
        )
    )

    class Media:
        css = {"all": ["compaction_app/session.css"]}

    # -- columns and fields -------------------------------------------------------------------------------

    session = display.column("session", lambda self, session: display.titled(self.name_of(session), 48))
    short_owner = display.column("owner", lambda _, session: display.titled(str(session.owner or ""), 20))
    branch = display.column("fullest branch", lambda self, session: self.state_of(session).branch)
    compaction = display.column("last compaction", lambda self, session: self.state_of(session).compaction)
    system_prompt_text = display.shown("system_prompt", display.text_block)
    calibration = display.shown("token_calibration", display.json_block, "token counts corrected by")
    erased = display.column("redactions and deletions", lambda _, session: _erasures(session))
    metadata_block = display.shown("metadata", display.json_block)
    created = display.shown("created_at", display.moment)
    updated = display.shown("updated_at", display.moment)

    @admin.display(description="owner")
    def owner_shown(self, obj: ChatSession) -> str:
        """With a link for people who may view users."""
        owner: Any = obj.owner
        if owner is None:
            return display.EMPTY
        options = owner._meta
        if not self.may_view(options.model_name, options.app_label):
            return str(owner)
        page = f"{self.admin_site.name}:{options.app_label}_{options.model_name}_change"
        return display.link(reverse(page, args=[owner.pk]), owner)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        hidden = set() if self.may_view("compactionrun") else {"compaction"}
        return tuple(name for name in self.list_display if name not in hidden)

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        hidden = () if self.may_view("compactionrun") else (LastCompactionFilter,)
        return tuple(one for one in self.list_filter if one not in hidden)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        rows = found.result_list = list(found.result_list)
        with_runs = self.may_view("compactionrun")
        if rows:
            using = database_of(rows[0])
            self.states = with_fullest(states_of(rows, using, with_runs=with_runs), using)
        return found

    def state_of(self, session: ChatSession) -> State:
        # Deleted since the list was read.
        state = self.states.get(session.pk, State(session))
        return replace(state, run_url=self.url("compactionrun_change", state.run.pk)) if state.run else state

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
            "figures": Figures(self, obj, found),
            "resolved": resolved,
            "calibration": calibration_of(obj.token_calibration, resolved.model) if resolved else None,
            "settings_problem": problem,
            "being_compacted": being_compacted(self, [obj]),
            "held_back": held_back(obj) if resolved and not is_off else "",
            "compact_form": _form_elsewhere() if may_compact and found.lanes else None,
            "search_url": self.url("chatmessage_changelist") if found.lanes else "",
            "compact_url": self.url("chatsession_compact", obj.pk),
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
        verify = {"Verify": self.url("chatsession_verify", obj.pk)}
        if not self.has_compact_permission(request) or is_off(obj):
            return verify
        return {"Compact every branch": self.url("chatsession_compact", obj.pk), **verify}

    @admin.action(description="Compact every branch in the background", permissions=["compact"])
    def compact_every_branch(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> None:
        self._compact(request, self.selected(request, queryset))

    def _compact(self, request: HttpRequest, sessions: list[ChatSession]) -> None:
        report = Report(self, request)
        report.compact_sessions(sessions)
        report.send()

    def _compact_with(self, request: HttpRequest, session: ChatSession, instructions: str) -> None:
        """A run for each of the newest branches: instructions apply to one summary each."""
        report = Report(self, request)
        if report.refuses(session):
            report.send()
            return
        tips = ChatMessage.objects.using(database_of(session)).tips_of(session.pk).defer("reasoning", "original")
        newest = list(tips.select_related("session").order_by("-id")[: MOST_WITH_INSTRUCTIONS + 1])
        for tip in sorted(newest[:MOST_WITH_INSTRUCTIONS], key=lambda tip: (tip.depth, tip.pk)):
            if run := report.compact(tip, instructions):
                self.log_change(request, session, f"Compaction requested: run {run.pk}.")
        report.send()
        if len(newest) > MOST_WITH_INSTRUCTIONS:
            only = f"Only the newest {MOST_WITH_INSTRUCTIONS} branches were requested."
            self.message_user(request, only, messages.WARNING)

    @records.page("<uuid:pk>/compact/", "compact")
    def compact_view(self, request: HttpRequest, session: ChatSession) -> HttpResponse:
        def act(given: dict[str, Any]) -> None:
            if instructions := given["instructions"]:
                self._compact_with(request, session, instructions)
            else:
                self._compact(request, [session])

        return self.confirm(
            request,
            act,
            obj=session,
            title="Compact every branch",
            question=(
                "Every branch over its threshold is compacted in the background, shallow branches first. "
                f"With instructions the newest {MOST_WITH_INSTRUCTIONS} branches are compacted, whatever their size."
            ),
            tell=lambda: TOLD_OF_COMPACTING,
            form=CompactForm,
            back=self.page_of(session),
        )


def _erasures(session: ChatSession) -> str:
    after = ". A summary that was begun before the last of them is not stored." if session.erasures else ""
    return f"{session.erasures:,}{after}"


def _form_elsewhere() -> CompactForm:
    """The form below the page's own form. Its field is inside that one, and names it by the attribute ``form``."""
    form = CompactForm(auto_id="compact_%s")
    form.fields["instructions"].widget.attrs["form"] = "compaction-now"
    return form
