"""Runs: every attempt to compact a branch, what became of it and why. Failed runs can be retried.

The filters offer what occurs among the newest runs: Django's own would read the whole table for what is in use, and
all codes there are would be a long list of which most lead nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count, Q, QuerySet, Sum, prefetch_related_objects
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html

from compaction_app.admin import display, records
from compaction_app.admin.compacting import TOLD_OF_COMPACTING, Report
from compaction_app.admin.health import due_since, is_late
from compaction_app.compaction.runs import MAX_ATTEMPTS
from compaction_app.models import CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import OPEN_RUN_STATUSES, ErrorCode, EventKind, RunStatus

#: Runs that a total counts, and among which error details are searched: the newest ones.
MOST_RUNS = 10_000
#: The newest runs, whose codes and models the filters offer.
NEWEST_RUNS = 1000
#: Characters of a model's name in a list; a longer one has a title.
SHORT_NAME = 40
_STATUS_WORDS = {
    RunStatus.READY: "Waiting for a worker.",
    RunStatus.RUNNING: "A worker is processing it.",
    RunStatus.SUCCEEDED: "A summary was stored.",
    RunStatus.SKIPPED: "Ended without a summary. Nothing failed.",
    RunStatus.FAILED: "Failed. It is not repeated by itself.",
}
#: Error codes that do not say enough.
_ERROR_WORDS: dict[str, str] = {
    ErrorCode.TIME_LIMIT: "it was not finished within RUN_TIME_LIMIT, or its workers were lost",
    ErrorCode.LEAKED_WRAPPER: "the model repeated its prompt",
    ErrorCode.NO_PROGRESS: "the summary would have saved too little",
    ErrorCode.ERROR_TEXT: "the model answered with an error message or a refusal instead of a summary",
}
SECTIONS: records.Sections = (
    (None, ["outcome", "why", "error_text", "in_session"]),
    ("On the branch", ["tip_link anchor_link cutoff_link", "base_link summary_link", "continues continued_by"]),
    (
        "Result",
        ["trigger compaction", "compacted tokens saved", "found_again"],
    ),
    (
        "Model",
        [
            "summarizer_name prompt_version",
            "instructions_text",
            "input_tokens_shown cached_tokens_shown",
            "output_tokens_shown price",
        ],
    ),
    (
        "Timing",
        ["waited worked attempts_shown", "opened enqueued", "begun ended", "next_attempt lease"],
    ),
    (
        "Technical",
        [
            *("how", "policy_text", "shortened", "reserved erasures_seen nonce", "task_id"),
            *("budget_block", "request_block", "settings_block"),
        ],
    ),
)
#: Fields that may quote a conversation; budget, request and settings have numbers, ids and the host's own words.
_QUOTING = {"error_text", "instructions_text", "policy_text"}


class StatusFilter(admin.ChoicesFieldListFilter):
    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """A run that is ready waits for a worker."""
        for choice in super().choices(changelist):
            yield {**choice, "display": "Waiting" if choice["display"] == "Ready" else choice["display"]}


class OccurringFilter(admin.SimpleListFilter):
    """The values of one column among the newest runs, and the one in the address."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        runs = model_admin.get_queryset(request).order_by("-pk")
        newest = runs.filter(pk__in=runs.values("pk")[:NEWEST_RUNS]).order_by()
        found = {*newest.values_list(self.parameter_name, flat=True).distinct(), self.value()}
        is_code = self.parameter_name != "summarizer_model"
        return [(one, display.words(one).capitalize() if is_code else one) for one in sorted(filter(None, found))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() else queryset


class ErrorCodeFilter(OccurringFilter):
    title, parameter_name = "error code", "error_code"


class ModelFilter(OccurringFilter):
    title, parameter_name = "model", "summarizer_model"


class RunList(records.RecordList):
    def totals(self) -> Any:
        """Of the newest :data:`MOST_RUNS` runs that are listed, on all pages together. One query."""
        newest = self.queryset.select_related(None).values("status", "input_tokens", "output_tokens", "cost")
        return newest[:MOST_RUNS].aggregate(
            runs=Count("status"),
            failed=Count("status", filter=Q(status=RunStatus.FAILED)),
            read=Sum("input_tokens", default=0),
            written=Sum("output_tokens", default=0),
            # Named "cost" it would shadow the column.
            spent=Sum("cost"),
            unpriced=Count("status", filter=Q(cost__isnull=True, input_tokens__isnull=False)),
        )


@admin.register(CompactionRun)
class CompactionRunAdmin(records.RecordAdmin):
    #: Of the failed run that this copy shows: the newest run for the same tip.
    retried_by: CompactionRun | None = None
    title, list_title = "Run", "Runs"
    texts = (*records.RUN_TEXTS, *records.SESSION_TEXTS)
    list_display = ("run", "outcome", "in_session", "made", "asked", "opened")
    date_hierarchy = "created_at"
    list_filter = (("status", StatusFilter), "trigger", ErrorCodeFilter, ModelFilter)
    narrowed_by = ("session", "tip", "anchor", "cutoff", "base", "summary", "previous_run")
    search_help_text = f"Run ids, session ids, or a part of the error details among the newest {MOST_RUNS:,} runs."
    actions = ("retry",)
    sections, collapsed = SECTIONS, "Technical"

    # -- columns and fields -------------------------------------------------------------------------------

    run = display.column("run", lambda _, run: f"Run {run.pk}")
    in_session = records.session_column
    error_text = display.shown("error_detail", display.text_block)
    tip_link = records.message_column("tip_id", "tip")
    anchor_link = records.message_column("anchor_id", "anchor")
    cutoff_link = records.message_column("cutoff_id", "cutoff")
    base_link = records.message_column("base_id", "base", "Summary")
    summary_link = records.message_column("summary_id", "summary", "Summary")
    continues = display.column("continues", lambda self, run: self.link_to_run(run.previous_run_id), "previous_run_id")
    #: What was too much for one summary is compacted by several runs, one after the other.
    continued_by = display.column(
        "continued by",
        lambda self, run: display.joined(map(self.link_to_run, run.follow_ups.values_list("pk", flat=True)[:5]), ", "),
    )
    #: The number that the API and the database call its generation.
    compaction = display.shown("generation", display.number, "compaction")
    compacted = display.shown("messages_compacted", display.number)
    tokens = display.column("history tokens", lambda _, run: _tokens(run))
    found_again = display.column(display.FOUND_AGAIN, lambda _, run: display.found_again(run), "retention_after")
    how = display.column("strategy", lambda _, run: display.strategy_of(run))
    #: Messages that the summarizer was sent as head and tail only, because they were too long for it.
    shortened = display.column(
        "shortened inputs",
        lambda self, run: display.joined((self.link_to_message(pk) for pk in run.shortened_inputs), ", "),
        "shortened_inputs",
    )
    made = display.column("history tokens", lambda self, run: _with_note(_tokens(run), self.summary_link(run)))
    asked = display.column(
        "trigger, model",
        lambda _, run: _with_note(run.get_trigger_display(), display.titled(run.summarizer_model, SHORT_NAME)),
    )
    summarizer_name = display.shown("summarizer_model", display.line, "model")
    instructions_text = display.shown("instructions", display.text_block)
    policy_text = display.shown("policy_line", display.text_block)
    input_tokens_shown = display.shown("input_tokens", display.number)
    cached_tokens_shown = display.shown("cached_tokens", display.number, "cached input tokens")
    output_tokens_shown = display.shown("output_tokens", display.number)
    attempts_shown = display.column("attempts", lambda _, run: f"{run.attempts} of at most {MAX_ATTEMPTS}")
    opened = display.shown("created_at", display.exact_moment)
    enqueued = display.shown("enqueued_at", display.exact_moment)
    #: The claim of the last attempt.
    begun = display.shown("started_at", display.exact_moment)
    ended = display.shown("finished_at", display.exact_moment)
    next_attempt = display.shown("next_attempt_at", display.exact_moment)
    reserved = display.shown("reserved_tokens", display.number)
    budget_block = display.shown("budget", display.json_block)
    #: What its prompt was made of beside the messages; ``export_compactions`` rebuilds the prompt.
    request_block = display.shown("request", display.json_block)
    settings_block = display.shown("settings", display.json_block)

    @admin.display(description="status")
    def outcome(self, obj: CompactionRun) -> str:
        """The status with the code that explains it."""
        reason = obj.skip_reason or (obj.error_code if obj.status == RunStatus.FAILED else "")
        label = display.run_badge(obj)
        return display.joined((label, display.words(reason)), " ") if reason else label

    @admin.display(description="why")
    def why(self, obj: CompactionRun) -> str:
        now = timezone.now()
        reasons = [_STATUS_WORDS[RunStatus(obj.status)]]
        if obj.status == RunStatus.READY:
            due = due_since(obj)
            again = format_html("The next attempt is at {}.", display.exact_moment(due))
            reasons.append(again if due > now else _overdue(obj, due, now))
        elif obj.status == RunStatus.RUNNING and is_late(obj, now):
            reasons.append("Its worker is gone: the lease expired, and no sweep has reassigned the run.")
        elif self.retried_by:
            reasons = ["Failed. Retried by:", format_html("{}.", self.link_to_run_with_status(self.retried_by))]
        elif self._may_retry(obj):
            reasons = ["Failed. It is not repeated by itself; Retry opens a new run."]
        if obj.skip_reason:
            reasons.append(f"Reason: {display.words(obj.skip_reason)}.")
        if obj.error_code:
            name = "Error code" if obj.status == RunStatus.FAILED else "Previous attempt"
            meaning = _ERROR_WORDS.get(obj.error_code)
            reasons.append(f"{name}: {display.words(obj.error_code)}" + (f" ({meaning})." if meaning else "."))
        return display.joined(reasons, " ")

    def _saved(self, obj: CompactionRun) -> str:
        if obj.tokens_before is None or obj.tokens_after is None:
            return display.EMPTY
        saved = obj.tokens_before - obj.tokens_after
        share = f" ({saved / obj.tokens_before:.0%})" if obj.tokens_before else ""
        return f"{saved:,}{share}"

    saved = display.column("saved", _saved, "tokens_after")

    @admin.display(description="cost")
    def price(self, obj: CompactionRun) -> str:
        """In the currency of the prices in ``MODELS``; all calls of all attempts."""
        if obj.cost is not None:
            return display.money(obj.cost)
        return display.EMPTY if obj.input_tokens is None else "Unknown: MODELS has no price for the model"

    @admin.display(description="waited")
    def waited(self, obj: CompactionRun) -> str:
        """Until the first attempt."""
        begun = next((e.created_at for e in obj.events.all() if e.kind == EventKind.STARTED), None)
        if obj.attempts <= 1 and obj.started_at is not None:
            begun = obj.started_at
        return _duration(obj.created_at, begun, is_going_on=obj.status == RunStatus.READY)

    @admin.display(description="worked")
    def worked(self, obj: CompactionRun) -> str:
        """The last attempt, from its claim to the end."""
        return _duration(obj.started_at, obj.finished_at, is_going_on=obj.status == RunStatus.RUNNING)

    def _lease(self, obj: CompactionRun) -> str:
        is_over = bool(obj.lease_expires_at and obj.lease_expires_at < timezone.now())
        until = format_html("expired at {}" if is_over else "until {}", display.exact_moment(obj.lease_expires_at))
        return display.badge("failed", until) if is_over else until

    lease = display.column("lease", _lease, "lease_expires_at")

    # -- the list -----------------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RunList]:
        return RunList

    def for_list(self, request: HttpRequest, queryset: QuerySet[CompactionRun]) -> QuerySet[CompactionRun]:
        lean: Any = super().for_list(request, queryset)
        # The condition of the partial index, so that a run that waits for long is found among millions.
        found: QuerySet[CompactionRun] = lean.open() if request.GET.get("status__exact") in OPEN_RUN_STATUSES else lean
        return found

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """Also by error details, for people who may read what these quote."""
        newest = CompactionRun.objects.order_by("-pk").values("pk")[:MOST_RUNS]
        detailed = [Q(pk__in=newest, error_detail__icontains=text)] if text and self.may_view("chatmessage") else []
        return [*super().search_conditions(request, text), *detailed]

    # -- a run's page -------------------------------------------------------------------------------------

    def hidden(self, obj: Any) -> set[str]:
        return super().hidden(obj) | (set() if self.may_view("chatmessage") else _QUOTING)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> CompactionRun | None:
        run = super().get_object(request, object_id, from_field)
        self.retried_by = _retry_of(run) if run else None
        return run

    def page_context(self, request: HttpRequest, obj: CompactionRun) -> dict[str, Any]:
        # Before the fields are rendered, which read them too.
        prefetch_related_objects([obj], records.EVENTS)
        return {"events": obj.events.all()}

    # -- retrying -----------------------------------------------------------------------------------------

    def tools(self, request: HttpRequest, obj: CompactionRun) -> dict[str, str]:
        return {"Retry": self.url("compactionrun_retry", obj.pk)} if self._may_retry(obj) else {}

    def _may_retry(self, run: CompactionRun) -> bool:
        is_allowed = self.request is not None and self.has_compact_permission(self.request)
        return is_allowed and not _why_no_retry(run, self.retried_by)

    @admin.action(description="Retry failed runs", permissions=["compact"])
    def retry(self, request: HttpRequest, queryset: QuerySet[CompactionRun]) -> None:
        with_tips = queryset.select_related("session", "tip").defer(None).defer("tip__content")
        self._retry(request, self.selected(request, with_tips))

    def _retry(self, request: HttpRequest, runs: list[CompactionRun]) -> None:
        """Open a new run for the tip of each of these failed ones, with the same instructions."""
        report = Report(self, request)
        for run in runs:
            problem = _why_no_retry(run, _retry_of(run))
            if problem or run.tip is None:
                report.problems.append((str(run), problem))
            elif started := report.compact(run.tip, run.instructions):
                self.log_change(request, run, f"Retried as run {started.pk}.")
        report.send()

    @records.page("<int:pk>/retry/", "compact")
    def retry_view(self, request: HttpRequest, run: CompactionRun) -> HttpResponse:
        here, problem = self.page_of(run), _why_no_retry(run, self.retried_by)
        if problem and request.method != "POST":
            self.message_user(request, f"{run}: {problem}", messages.WARNING)
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            lambda _: self._retry(request, [run]),
            obj=run,
            title="Retry",
            question="A new run is opened for the branch that ends at this run's tip, with the same instructions.",
            tell=lambda: TOLD_OF_COMPACTING,
            back=here,
        )


def _retry_of(run: CompactionRun) -> CompactionRun | None:
    """The newest run that was opened for the tip of a failed one afterwards."""
    if run.status != RunStatus.FAILED or run.tip_id is None:
        return None
    later = CompactionRun.objects.using(database_of(run)).filter(tip=run.tip_id, pk__gt=run.pk)
    return later.only("status").order_by("-pk").first()


def _why_no_retry(run: CompactionRun, retried_by: CompactionRun | None) -> str:
    """Why a run cannot be retried; "" where it can."""
    if run.status != RunStatus.FAILED:
        return "Only a failed run can be retried."
    if run.tip_id is None:
        return "Its tip has been deleted."
    return f"Retried by {retried_by} already." if retried_by else ""


def _with_note(text: str, note: str) -> str:
    """Two values in one column of the list: with a column for each, some were cut off."""
    return text if note == display.EMPTY else format_html('{} <span class="compaction-stacked">{}</span>', text, note)


def _tokens(run: CompactionRun) -> str:
    if run.tokens_before is None and run.tokens_after is None:
        return display.EMPTY
    return f"{display.number(run.tokens_before)} → {display.number(run.tokens_after)}"


def _overdue(run: CompactionRun, due: datetime, now: datetime) -> str:
    waits = f"It has been due for {display.lasted(now - due)}"
    if not is_late(run, now):
        return f"{waits}."
    return f"{waits}, and no worker took it." if run.enqueued_at else f"{waits}, and no broker took it."


def _duration(start: datetime | None, end: datetime | None, *, is_going_on: bool) -> str:
    if start is None:
        return display.EMPTY
    if end is not None:
        return display.lasted(end - start)
    return f"{display.lasted(timezone.now() - start)} so far" if is_going_on else display.EMPTY
