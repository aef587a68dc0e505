"""Sessions: how full each is and how its newest run went; the branches of one. Title and settings can be edited.

Every count stops at a bound and says so. The list takes two more queries for what it says of a page of sessions,
whatever their sizes, and reads no text of a conversation.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import BigIntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app import chat
from compaction_app.admin import display, records
from compaction_app.admin.branches import BranchList, percent_of
from compaction_app.admin.compacting import held_back, is_off
from compaction_app.admin.display import column, number
from compaction_app.admin.links import Links
from compaction_app.admin.messages import of_kind
from compaction_app.admin.records import SEARCH
from compaction_app.conf import Mode
from compaction_app.context.reading import ResolvedRequest, resolve_request
from compaction_app.contrib import histories
from compaction_app.conversation.erase import carried_from, continued_in
from compaction_app.conversation.search import sessions_with
from compaction_app.exceptions import CompactionError, MessageNotFound
from compaction_app.messages.validation import as_id
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.database import erasures_of, lock_session
from compaction_app.spending import session_spending
from compaction_app.tree.branches import histories_at
from compaction_app.values import OPEN_RUN_STATUSES, Budget, Kind, RunStatus, Trigger

#: In an address: the lane before which the list of branches continues.
OLDER_THAN = "before"
#: The newest sessions, which are searched by title.
TITLES = 10_000
#: Words of a search; more are left out.
_MOST_TERMS = 8
#: Characters of a system prompt that are counted: a list of fifty may have megabytes of them.
MOST_PROMPT = 20_000


def shown_budget(resolved: ResolvedRequest) -> Budget:
    """Without compaction there is no threshold: pages compare with what is available instead."""
    budget = resolved.budget
    return replace(budget, threshold=budget.available) if resolved.settings.mode == Mode.OFF else budget


class SessionList(records.RecordList):
    def get_results(self, request: HttpRequest) -> None:
        """Each session with the ``history`` of its newest branch, and its newest ``run``."""
        super().get_results(request)
        sessions: list[Any] = self.result_list
        if not sessions:
            return
        histories = histories_at([row.tip for row in sessions if row.tip is not None], sessions[0])
        lean = CompactionRun.objects.in_database_of(sessions[0]).only(
            "status", "skip_reason", "error_code", "created_at", "finished_at"
        )
        found = lean.in_bulk([row.run_id for row in sessions if row.run_id is not None])
        for row in sessions:
            row.system_prompt, row.history, row.run = row.prompt, histories.get(row.tip), found.get(row.run_id)


def _newest_branch(session: Any) -> str:
    """How long it is, in percent of the available tokens as on the session's page."""
    if session.history is None:
        return format_html('<span class="compaction-note">{}</span>', _("no messages"))
    numbers = display.messages(session.depth), display.tokens(session.history.tokens)
    size = format_html_join(" ", '<span class="compaction-note compaction-below">{}</span>', zip(numbers))
    try:
        resolved = resolve_request(session)
        budget = shown_budget(resolved)
    except CompactionError:
        return format_html("{} {}", _("wrong settings"), size)
    over = _("Over what fits") if resolved.settings.mode == Mode.OFF else _("Over threshold")
    over = display.badge("failed", over) if session.history.tokens > budget.threshold else ""
    return display.labelled(
        format_html("{} {} {}", percent_of(session.history, budget), over, size), _("newest branch")
    )


def _last_compaction(links: Links, run: CompactionRun | None) -> str:
    """The outcome of the newest run, and when it was."""
    if run is None:
        return display.EMPTY
    reason = display.run_reason(run)
    when = format_html('<span class="compaction-note compaction-below">{}</span>', display.moment(run.finished_at))
    label = links.to("compactionrun", run.pk, display.run_badge(run))
    told = display.joined(filter(None, (label, reason, when if run.finished_at else "")), " ")
    return display.labelled(told, _("last compaction"))


def _owner(links: Links, session: ChatSession) -> str:
    """With the way to the owner's sessions alone."""
    name = display.line(str(session.owner or ""), 20)
    return links.to_list("chatsession", name, owner=session.owner_id) if session.owner_id else name


class ChatSessionForm(forms.ModelForm):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    class Meta:
        model = ChatSession
        fields = ("title", "settings")
        # In a right-to-left admin JSON still runs from left to right, and a title as its language does.
        widgets: ClassVar[dict[str, Any]] = {
            "title": AdminTextInputWidget({"dir": "auto"}),
            "settings": AdminTextareaWidget({"dir": "ltr"}),
        }

    #: How often something had been erased when the page was made.
    erased = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["erased"] = self.instance.erasures

    def clean_settings(self) -> Any:
        """An empty field means "no overrides"; the column takes no NULL."""
        return self.cleaned_data["settings"] or {}

    def clean(self) -> None:
        """An older page may still have the words of an erased title. A redaction takes the same lock."""
        if "title" in self.changed_data:
            lock_session(self.instance)
            if erasures_of(self.instance) != (self.cleaned_data.get("erased") or 0):
                raise forms.ValidationError(
                    _("Something of this conversation was erased since this page was opened: open it again.")
                )


@admin.register(ChatSession)
class ChatSessionAdmin(records.RecordAdmin):
    form, list_class = ChatSessionForm, SessionList
    editable = ("title", "settings")
    list_select_related = ("owner",)
    ordering = ("-updated_at", "-id")
    list_filter = (("updated_at", admin.DateFieldListFilter),)
    narrowed_by = ("owner",)
    search_help_text = gettext_lazy(
        "All words, each in the title, the first message, the owner's name or a message of the newest conversations; "
        "or whole ids of sessions."
    )

    class Media:
        css = {"all": ["compaction_app/session.css"]}

    def columns(self, links: Links) -> Sequence[Any]:
        last = column("compaction", _("last compaction"), lambda session: _last_compaction(links, session.run))
        return (
            column("session", _("session"), lambda session: display.line(links.name(session), 48)),
            column("branch", _("newest branch"), _newest_branch),
            *([last] if links.may_view("compactionrun") else []),
            column("owner", _("owner"), lambda session: _owner(links, session)),
            *links.columns(ChatSession, "updated_at"),
        )

    def for_list(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
        # Both bounds and this order, as in ``in_session``: PostgreSQL may otherwise walk the primary key.
        messages = ChatMessage.objects.filter(session__gte=OuterRef("pk"), session__lte=OuterRef("pk"))
        # The newest message of a session is always a tip.
        newest = messages.filter(kind=Kind.MESSAGE).order_by("-session_id", "-id")[:1]
        # One that is made for another branch says nothing of this one.
        made = CompactionRun.objects.filter(session=OuterRef("pk")).exclude(trigger=Trigger.CARRY_OVER)
        runs = Subquery(made.order_by("-id").values("pk")[:1])
        may_view_runs = self.links(request).may_view("compactionrun")
        return queryset.defer("system_prompt", "metadata").annotate(
            prompt=Left("system_prompt", MOST_PROMPT),
            tip=Subquery(newest.values("pk")),
            depth=Subquery(newest.values("depth")),
            run_id=runs if may_view_runs else Value(None, BigIntegerField()),
        )

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """Any of some ids; of other words all, each in the title, the first message, the owner's name or, for those who
        may view messages, in what is searched of them. A search never reads the whole table."""
        terms = list(dict.fromkeys(records.terms_in(text)))[:_MOST_TERMS]
        if all(map(records.as_uuid, terms)):
            return [Q(pk__in=terms)] if terms else []
        may_read = self.links(request).may_view("chatmessage")
        said = sessions_with(terms) if may_read else [set[Any]() for _ in terms]
        matching = [self._named(term, may_read) | session_ids for term, session_ids in zip(terms, said, strict=True)]
        return [Q(pk__in=set.intersection(*matching))]

    def _named(self, term: str, may_read: bool) -> set[Any]:
        """The newest sessions with a word in title or owner, or how they begin; and any with such an id or owner."""
        newest = ChatSession.objects.order_by(*self.ordering).values("pk")[:TITLES]
        user_model: Any = get_user_model()
        owner = user_model.USERNAME_FIELD
        # Queried first: joined, owners would be compared row by row.
        own = user_model._default_manager.filter(**{owner: term}).values_list("pk", flat=True)[:1]
        # The second condition is the one that the partial index on external ids has.
        given = Q(external_id=term) & ~Q(external_id="") | Q(owner__in=list(own))
        if session_id := records.as_uuid(term):
            given |= Q(pk=session_id)
        begun = Q(title__icontains=term) | Q(**{f"owner__{owner}__icontains": term})
        if may_read:
            first = ChatMessage.objects.filter(parent=None, session__in=newest, content__icontains=term)
            begun |= Q(pk__in=first.values("session"))
        ids = [
            rows.values_list("pk", flat=True)[:TITLES]
            for rows in (ChatSession.objects.filter(given), ChatSession.objects.filter(begun, pk__in=newest))
        ]
        return {pk for some in ids for pk in some}

    def tools(self, links: Links, obj: ChatSession) -> dict[str, str]:
        forms = {"openai": _("Export"), "chatgpt": _("Export in ChatGPT's form")}
        may_read = links.may_view("chatmessage")
        return {name: links.url("chatsession_export", obj.pk, form) for form, name in forms.items() if may_read}

    def get_urls(self) -> list[Any]:
        return [self.page("<uuid:pk>/export/<str:form>/", self.export_view), *super().get_urls()]

    def export_view(self, request: HttpRequest, links: Links, obj: ChatSession, form: str) -> HttpResponse:
        if not links.may_view("chatmessage"):
            raise PermissionDenied
        if form not in histories.WRITERS:
            raise Http404("There is no such form.")
        headers = {"Content-Disposition": f'attachment; filename="{obj.pk}.json"', "Cache-Control": "private, no-store"}
        return HttpResponse(histories.exported(obj, form), content_type="application/json", headers=headers)

    def sections(self, links: Links, obj: ChatSession) -> records.Sections:
        erased, facts = (_("redactions and deletions"), number(obj.erasures)), partial(links.facts, obj)
        record = ("id", "external_id", "copied_from", "continues", "created_at", "updated_at", erased)
        return [
            (_("Owner and prompt"), facts("owner", "model", "system_prompt")),
            (_("Record"), facts(*record, "token_calibration", "metadata")),
        ]

    def page_context(self, links: Links, obj: ChatSession) -> dict[str, Any]:
        """The branches and the numbers beside them, in a constant number of queries."""
        resolved, budget, problem = None, None, ""
        try:
            resolved = resolve_request(obj)
            budget = shown_budget(resolved)
        except CompactionError as error:
            problem = str(error)
        before = as_id(links.request.GET.get(OLDER_THAN, ""))
        off, here = is_off(obj), links.page_of(obj)
        found = BranchList(links, obj, budget, before)
        branches = list(found)
        return {
            "branches": branches,
            "budget": budget,
            "over": [branch for branch in branches if branch["is_over"]],
            "is_off": off,
            "may_compact": links.may("compact_chatsession") and not off,
            "older_url": f"{here}?{OLDER_THAN}={found.older_before}#compaction-branches" if found.older_before else "",
            "newest_url": f"{here}#compaction-branches" if found.is_older_page else "",
            "counts": {
                name: links.to_list(model, records.bounded_count(rows), session=obj.pk, **query)
                for name, (model, rows, query) in self._lists(obj).items()
            },
            "spending": session_spending(obj),
            "resolved": resolved,
            "settings_problem": problem,
            "held_back": held_back(obj) if resolved and not off else "",
            "search_url": links.url("chatmessage_changelist") if branches else "",
            # A search of sessions led here: its words are looked for in this one next.
            "searched": QueryDict(links.request.GET.get(SEARCH, "")).get("q", ""),
            "owner_url": links.url("chatmessage_changelist", owner=obj.owner_id) if obj.owner_id else "",
        }

    def _lists(self, obj: ChatSession) -> dict[str, tuple[str, Any, dict[str, str]]]:
        """What belongs to a session: name → model, rows, and how the address of their list goes on."""
        opened, failed = (obj.runs.filter(status__in=these) for these in (OPEN_RUN_STATUSES, [RunStatus.FAILED]))
        summaries = of_kind(obj.messages.all(), Kind.SUMMARY)
        return {
            _("Messages"): ("chatmessage", of_kind(obj.messages.all(), Kind.MESSAGE), {}),
            _("Summaries"): ("chatmessage", summaries, {"kind": str(Kind.SUMMARY)}),
            _("Runs"): ("compactionrun", obj.runs.all(), {}),
            _("Open runs"): ("compactionrun", opened, {"status__in": ",".join(OPEN_RUN_STATUSES)}),
            _("Failed runs"): ("compactionrun", failed, {"status__exact": "failed"}),
            _("Events"): ("compactionevent", obj.events.all(), {}),
        }

    def save_model(self, request: HttpRequest, obj: ChatSession, form: Any, change: bool) -> None:
        """Only what can be edited: saving the whole row would overwrite counters that workers update. And a title that
        stays may have been erased since the row was read."""
        changed = ["settings"]
        if "title" in form.changed_data:
            obj.title_of = None
            changed += ["title", "title_of"]
        obj.save(update_fields=changed)

    def may_delete(self, obj: ChatSession) -> bool:
        return True

    def deletion(self, links: Links, obj: ChatSession) -> dict[str, Any]:
        counts = {name: records.bounded_count(rows) for name, (_, rows, _) in self._lists(obj).items()}
        carried = carried_from(obj.messages.all()).exclude(session=obj.pk)
        return {"counts": counts, "continued": len(continued_in(obj, [obj.pk])), "carried": carried.count()}

    def delete_model(self, request: HttpRequest, obj: ChatSession) -> None:
        with suppress(MessageNotFound):  # deleted since it was read, as by a second click
            chat.delete_session(obj)
