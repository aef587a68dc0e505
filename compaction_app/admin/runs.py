"""Runs: every attempt to compact a branch, what became of it and why; and events. A failed run can be retried."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app.admin import display, records
from compaction_app.admin.compacting import COMPACT, request_branch_compaction
from compaction_app.admin.display import column
from compaction_app.admin.links import Links
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.models.runs import MAX_ATTEMPTS
from compaction_app.models.words import why_it_failed, words
from compaction_app.values import OPEN_RUN_STATUSES, PERSON, ErrorCode, RunStatus, Trigger

#: Runs that a total counts: the newest ones.
MOST_RUNS = 10_000
#: Characters of a model's name in a list.
SHORT_NAME = 40
_STATUS_WORDS = {
    RunStatus.READY: gettext_lazy("Waiting for a worker."),
    RunStatus.RUNNING: gettext_lazy("A worker is processing it."),
    RunStatus.SUCCEEDED: gettext_lazy("A summary was stored."),
    RunStatus.SKIPPED: gettext_lazy("Ended without a summary. Nothing failed."),
    RunStatus.FAILED: gettext_lazy("Failed. It is not repeated by itself."),
}
#: Error codes with which a provider refuses a retry, too.
_LASTING = (ErrorCode.QUOTA, ErrorCode.AUTHENTICATION, ErrorCode.BAD_REQUEST)
_FAILS_AGAIN = gettext_lazy("A retry fails again until the cause is mended.")


class RunList(records.RecordList):
    @cached_property
    def days(self) -> list[Any]:
        """What each day's runs used, newest first: of the newest :data:`MOST_RUNS` that are listed, on all pages
        together. One query."""
        newest = self.queryset.select_related(None).values("pk")[:MOST_RUNS]
        rows = CompactionRun.objects.filter(pk__in=newest).values(day=TruncDate("created_at")).order_by("-day")
        return list(
            rows.annotate(
                runs=Count("pk"),
                failed=Count("pk", filter=Q(status=RunStatus.FAILED)),
                read=Sum("input_tokens", default=0),
                written=Sum("output_tokens", default=0),
                # The count first: named "cost" the sum would shadow the column.
                unpriced=Count("pk", filter=Q(cost__isnull=True, input_tokens__isnull=False)),
                spent=Sum("cost"),
            )
        )

    def totals(self) -> dict[str, Any]:
        counts = ("runs", "failed", "read", "written", "unpriced")
        costs = [day["spent"] for day in self.days if day["spent"] is not None]
        return {name: sum(day[name] for day in self.days) for name in counts} | {"spent": sum(costs) if costs else None}


@admin.register(CompactionRun)
class CompactionRunAdmin(records.RecordAdmin):
    list_class = RunList
    date_hierarchy = "created_at"
    list_filter = ("status", "trigger", ("error_code", admin.EmptyFieldListFilter), "created_at")
    narrowed_by = ("session", "tip", "anchor", "cutoff", "base", "summary", "previous_run")
    search_help_text = gettext_lazy("Run or session ids.")

    def columns(self, links: Links) -> Sequence[Any]:
        def made(run: CompactionRun) -> str:
            tokens = display.labelled(display.history_tokens(run), _("history tokens"))
            return _with_notes(tokens, links.summary(run.summary_id))

        def asked(run: CompactionRun) -> str:
            model = [display.line(display.model_name(run.summarizer_model), SHORT_NAME)] if run.summarizer_model else []
            cost = []
            if run.cost is not None:
                # Else a phone breaks it within the number.
                said = _("cost {}").format(display.money(run.cost))
                cost = [format_html('<span class="compaction-when">{}</span>', said)]
            return _with_notes(run.get_trigger_display(), *model, *cost)

        return (
            column("run", _("run"), lambda run: _("Run {id}").format(id=run.pk)),
            column("outcome", _("status"), _outcome),
            *links.columns(CompactionRun, "session"),
            column("made", _("history tokens"), made),
            column("asked", _("trigger, model, cost"), asked),
            *links.columns(CompactionRun, "created_at"),
        )

    def for_list(self, request: HttpRequest, queryset: QuerySet[CompactionRun]) -> QuerySet[CompactionRun]:
        lean: Any = super().for_list(request, queryset)
        # The condition of the partial index, so that a run that waits for long is found among millions.
        found: QuerySet[CompactionRun] = lean.open() if request.GET.get("status__exact") in OPEN_RUN_STATUSES else lean
        return found

    def sections(self, links: Links, obj: CompactionRun) -> records.Sections:
        facts: Any = partial(links.facts, obj)

        def texts(*names: str) -> Sequence[str]:
            """These may quote a conversation; budget, request and settings have numbers, ids and the host's words."""
            return names if links.may_view("chatmessage") else ()

        # What was too much for one summary is compacted by several runs, one after the other.
        following = display.joined(map(links.run, obj.follow_ups.values_list("pk", flat=True)[:5]), ", ")
        history = (_("history tokens"), display.history_tokens(obj))
        # Any other is not tried again by itself.
        most = MAX_ATTEMPTS if obj.trigger == Trigger.THRESHOLD else 1
        attempts = _("{} of at most {}").format(obj.attempts, max(most, obj.attempts))
        times = ("created_at", "enqueued_at", "started_at", "finished_at", "next_attempt_at", "lease_expires_at")
        # Messages that the summarizer was sent as head and tail only: they were too long for it.
        shortened = (_("shortened inputs"), display.joined(map(links.message, obj.shortened_inputs), ", "))
        found_again = (display.FOUND_AGAIN, display.found_again(obj))
        tokens = ("input_tokens", "cached_tokens", "output_tokens")
        technical = ("reserved_tokens", "erasures_seen", "nonce", "task_id", "budget", "request", "settings")
        why = (_("why"), self._why(links, obj))
        branch = ("tip", "anchor", "cutoff", "base", "summary", "previous_run", (_("continued by"), following))
        result = ("trigger", "author", "generation", "messages_compacted", history, found_again)
        model = (
            (_("model"), display.model_name(obj.summarizer_model)),
            "prompt_version",
            *texts("instructions", "written"),
            "is_cut_given",
            *tokens,
            "cost",
        )
        return [
            ("", facts((_("status"), _outcome(obj)), why, *texts("error_detail"), "session")),
            (_("On the branch"), facts(*branch)),
            (_("Result"), facts(*result)),
            (_("Model"), facts(*model)),
            (_("Timing"), facts((_("attempts"), attempts), *times)),
            (_("Technical"), facts("strategy", *texts("policy_line"), shortened, *technical)),
        ]

    def _why(self, links: Links, obj: CompactionRun) -> str:
        now = timezone.now()
        reasons: list[Any] = [_STATUS_WORDS[RunStatus(obj.status)]]
        if obj.status == RunStatus.READY:
            due = obj.next_attempt_at or obj.started_at or obj.created_at
            again = format_html(_("The next attempt is at {}."), display.moment(due))
            reasons.append(again if due > now else _("It has been due for {}.").format(timesince(due, now)))
        elif (
            obj.status == RunStatus.RUNNING
            and (obj.lease_expires_at or now) < now - CompactionRun.objects.in_database_of(obj).late_after()
        ):
            reasons.append(_("Its worker is gone: the lease expired, and no sweep has reassigned the run."))
        elif obj.status == RunStatus.SUCCEEDED and obj.error_code:
            reasons = [_("No model wrote a summary, so an extract was stored.")]
        if obj.skip_reason:
            reasons.append(_("Reason: {}.").format(words(obj.skip_reason)))
        if obj.error_code:
            ended = obj.status in (RunStatus.FAILED, RunStatus.SUCCEEDED)
            said = _("Error code: {}.") if ended else _("Previous attempt: {}.")
            code, meaning = words(obj.error_code), why_it_failed(obj.error_code)
            reasons.append(said.format(f"{code} ({meaning})" if meaning else code))
        if obj.status == RunStatus.FAILED and obj.error_code in _LASTING:
            reasons.append(_FAILS_AGAIN)
        return display.joined(reasons, " ")

    def page_context(self, links: Links, obj: CompactionRun) -> dict[str, Any]:
        return {"events": obj.events.order_by("id")}

    def get_urls(self) -> list[Any]:
        return [self.page("<int:pk>/retry/", self.retry_view, COMPACT), *super().get_urls()]

    def tools(self, links: Links, obj: CompactionRun) -> dict[str, str]:
        is_left = (obj.written or obj.summarizer_model != PERSON) and not obj.is_for_another_branch
        may_retry = obj.status == RunStatus.FAILED and obj.tip_id and is_left and links.may(COMPACT)
        return {_("Retry"): links.url("compactionrun_retry", obj.pk)} if may_retry else {}

    def retry_view(self, request: HttpRequest, links: Links, obj: CompactionRun) -> HttpResponse:
        tip = obj.tip
        until = obj.cutoff_id if obj.is_cut_given else None
        again: dict[str, Any] = {"instructions": obj.instructions, "text": obj.written, "until": until}
        if obj.status != RunStatus.FAILED or tip is None or obj.is_for_another_branch:
            raise Http404("There is no such failed run whose tip is still there.")

        def act(_given: dict[str, Any]) -> None:
            if started := request_branch_compaction(self, links, tip, **again):
                self.log_change(request, obj, _("Retried as run {}.").format(started.pk))

        return self.confirm(links, obj, act, title=_("Retry"), is_lasting=obj.error_code in _LASTING)


@admin.register(CompactionEvent)
class CompactionEventAdmin(records.RecordAdmin):
    """What compaction did or noticed, in numbers and codes."""

    date_hierarchy = "created_at"
    list_filter = ("kind",)
    narrowed_by = ("session", "run", "message")
    search_help_text = gettext_lazy("Event ids or session ids.")

    def columns(self, links: Links) -> Sequence[Any]:
        kind, run, session, message = links.columns(CompactionEvent, "kind", "run", "session", "message")
        return (
            column("event", _("event"), lambda event: _("Event {id}").format(id=event.pk)),
            column("kind", _("kind, run"), lambda event: _with_notes(kind(event), run(event))),
            column("session", _("session, message"), lambda event: _with_notes(session(event), message(event))),
            column("numbers", _("numbers"), lambda event: display.shortened(display.figures(event.payload))),
            *links.columns(CompactionEvent, "created_at"),
        )

    def sections(self, links: Links, obj: CompactionEvent) -> records.Sections:
        numbers = (_("numbers"), display.figures(obj.payload))
        return [("", links.facts(obj, "kind", "created_at", "session", "run", "message", numbers, "payload"))]


def _outcome(run: CompactionRun) -> str:
    """The status with the code that explains it."""
    return _with_notes(display.run_badge(run), display.run_reason(run))


def _with_notes(text: str, *notes: str) -> str:
    """Several values in one column of the list, below each other: with a column for each, some were cut off."""
    shown = ((note,) for note in notes if note not in ("", display.EMPTY))
    return format_html("{}{}", text, format_html_join("", ' <span class="compaction-stacked">{}</span>', shown))
