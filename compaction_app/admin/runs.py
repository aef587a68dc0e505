"""Runs: every attempt to compact a branch, what became of it and why. Failed ones can be retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils import timezone

from compaction_app.admin import run_fields
from compaction_app.admin.charts import Chart, chart_of
from compaction_app.admin.compacting import at_most, retry, why_no_retry
from compaction_app.admin.dated import DateFilter, chosen_period
from compaction_app.admin.days import Period, last_days, parts_of
from compaction_app.admin.filters import ErrorCodeFilter, ModelFilter, SkipReasonFilter, related_filters
from compaction_app.admin.records import Tool, as_uuid
from compaction_app.admin.run_fields import RunFields
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus

#: Days of the chart where no date is chosen.
CHART_DAYS = 30
_OPEN = (RunStatus.READY, RunStatus.RUNNING)


@admin.register(CompactionRun)
class CompactionRunAdmin(RunFields):
    texts = (
        "error_detail",
        "instructions",
        "policy_line",
        "settings",
        "budget",
        "shortened_inputs",
        "request",
        "session__system_prompt",
        "session__settings",
        "session__token_calibration",
        "session__metadata",
    )
    change_form_template = "admin/compaction_app/compactionrun/change_form.html"
    change_list_template = "admin/compaction_app/compactionrun/change_list.html"
    title, list_title = "Run", "Runs"
    empty_text = "No run yet. One is opened when a branch grows over its threshold, or when somebody compacts it."
    list_display = run_fields.COLUMNS
    list_filter = (
        DateFilter,
        "status",
        "trigger",
        "strategy",
        SkipReasonFilter,
        ErrorCodeFilter,
        ModelFilter,
        *related_filters(
            session="session",
            tip="tip",
            anchor="anchor",
            cutoff="cutoff",
            base="base",
            summary="summary",
            previous_run="run before",
        ),
    )
    list_select_related = ("session",)
    raw_id_fields = ("session", "tip", "anchor", "cutoff", "base", "summary", "previous_run")
    search_help_text = "Ids of runs or sessions."
    actions = ("retry",)

    # -- the list -----------------------------------------------------------------------------------------

    def for_list(self, request: HttpRequest, queryset: QuerySet[CompactionRun]) -> QuerySet[CompactionRun]:
        lean: Any = super().for_list(request, queryset)
        # Said again in the words of the partial index, so that a run that waits for long is found among millions.
        found: QuerySet[CompactionRun] = lean.open() if self._asks_for_open(request) else lean
        return found

    def looks_for_something(self, request: HttpRequest) -> bool:
        return not self._asks_for_open(request) and super().looks_for_something(request)

    def _asks_for_open(self, request: HttpRequest) -> bool:
        return request.GET.get("status__exact") in _OPEN

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"compaction_chart": self.chart(request)} if self.has_view_permission(request) else {}
        return super().changelist_view(request, context | (extra_context or {}))

    def chart(self, request: HttpRequest) -> Callable[[], Chart | None]:
        """Asked for by the template, so that an address which makes no sense is refused before anything is counted."""

        def chart() -> Chart | None:
            narrowed = set(request.GET) - {"p", "date", "session"}
            # Of a list narrowed by anything else it would show another number than the list.
            return None if narrowed else self._chart(request)

        return chart

    def _chart(self, request: HttpRequest) -> Chart:
        runs, session = self.get_queryset(request).select_related(None), as_uuid(request.GET.get("session", ""))
        if session:
            runs = runs.filter(session=session)
        zone, period = timezone.get_current_timezone(), chosen_period(request)
        if period is None:
            today = timezone.localdate()
            title, stretches = f"The last {CHART_DAYS} days", last_days(today, CHART_DAYS, zone)
        else:
            title, stretches = period.label, parts_of(period, zone)
        return chart_of(title, runs, stretches, lambda part: self._url_of(part, request))

    def _url_of(self, period: Period, request: HttpRequest) -> str:
        narrowed = {"session": request.GET["session"]} if "session" in request.GET else {}
        return self.url("compactionrun_changelist", **narrowed, date=period.code)

    # -- a run's page -------------------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: CompactionRun | None = None) -> Any:
        # Written by whoever asked, or by a provider about what it was sent: read by those who may read messages.
        return run_fields.fieldsets_of(obj, with_texts=self.may_view("chatmessage"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[CompactionRun]:
        return super().get_queryset(request).select_related("session")

    def page_context(self, request: HttpRequest, obj: CompactionRun) -> dict[str, Any]:
        return {"events": self.with_urls(run_fields.events_of(obj))}

    # -- retrying -----------------------------------------------------------------------------------------

    def tools(self, request: HttpRequest, obj: CompactionRun) -> list[Tool]:
        if why_no_retry(obj) or not self.has_compact_permission(request):
            return []
        return [Tool("Retry", self.url("compactionrun_retry", obj.pk))]

    def get_urls(self) -> list[URLPattern]:
        return [self.page("<int:run_id>/retry/", self.retry_view, "compactionrun_retry"), *super().get_urls()]

    @admin.action(description="Retry failed", permissions=["compact"])
    def retry(self, request: HttpRequest, queryset: QuerySet[CompactionRun]) -> None:
        with_tips = queryset.select_related("session", "tip").defer(None).defer("tip__content")
        retry(self, request, at_most(self, request, with_tips)).tell(self, request)

    def retry_view(self, request: HttpRequest, run_id: int) -> HttpResponse:
        self.require(request, self.has_compact_permission(request))
        run = self.get_or_404(request, run_id)
        here = self.url("compactionrun_change", run.pk)
        if request.method == "POST":
            retry(self, request, [run]).tell(self, request)
            return HttpResponseRedirect(here)
        if problem := why_no_retry(run):
            self.message_user(request, f"{run}: {problem}", messages.WARNING)
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            obj=run,
            title="Retry",
            question="A new run is opened for the branch that ends at this run's tip, with the same instructions.",
            is_work=True,
            button="Retry",
            back=here,
        )
