"""Runs: every attempt to compact a branch, what became of it and why. Failed ones can be retried."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern

from compaction_app.admin import display
from compaction_app.admin.compacting import at_most, retry
from compaction_app.admin.filters import ErrorCodeFilter, SkipReasonFilter, related_filters
from compaction_app.admin.records import RecordAdmin, Tool
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus


@admin.register(CompactionRun)
class CompactionRunAdmin(RecordAdmin):
    texts = (
        "error_detail",
        "instructions",
        "policy_line",
        "settings",
        "budget",
        "shortened_inputs",
        "session__system_prompt",
        "session__settings",
        "session__token_calibration",
        "session__metadata",
    )
    change_form_template = "admin/compaction_app/compactionrun/change_form.html"
    title, list_title = "Run", "Runs"
    list_display = (
        "run",
        "outcome",
        "trigger",
        "generation",
        "tokens",
        "summary_link",
        "attempts",
        "created_at",
        "in_session",
        "strategy",
    )
    list_filter = (
        "status",
        "trigger",
        "strategy",
        SkipReasonFilter,
        ErrorCodeFilter,
        # Not date_hierarchy, which computes the day of every row to list the days.
        ("created_at", admin.DateFieldListFilter),
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
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "outcome",
                    "in_session",
                    ("trigger", "strategy", "generation"),
                    ("skip_reason_words", "error_code_words"),
                    "error_text",
                )
            },
        ),
        (
            "On the branch",
            {"fields": (("tip_link", "anchor_link", "cutoff_link"), ("base_link", "summary_link"), "runs_around")},
        ),
        (
            "What it did",
            {"fields": (("messages_compacted", "tokens"), ("retention_before", "retention_after"), "shortened")},
        ),
        (
            "What it asked for",
            {
                "fields": (
                    ("summarizer_model", "prompt_version"),
                    "instructions_text",
                    "policy_text",
                    ("input_tokens", "output_tokens", "cached_tokens", "cost"),
                )
            },
        ),
        (
            "How it went",
            {
                "fields": (
                    ("created_at", "enqueued_at"),
                    ("started_at", "finished_at"),
                    ("attempts", "next_attempt_at", "lease_expires_at"),
                    "task_id",
                )
            },
        ),
        (
            "Settings then",
            {
                "classes": ("collapse",),
                "fields": (("reserved_tokens", "erasures_seen"), "budget_block", "settings_block"),
            },
        ),
    )

    # -- columns and fields -------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[CompactionRun]:
        return super().get_queryset(request).select_related("session")

    @admin.display(description="run")
    def run(self, obj: CompactionRun) -> str:
        return f"Run {obj.pk}"

    @admin.display(description="session")
    def in_session(self, obj: CompactionRun) -> str:
        return self.link_to_session(obj.session)

    @admin.display(description="status")
    def outcome(self, obj: CompactionRun) -> str:
        """The status with the code that explains it."""
        reason = obj.skip_reason or (obj.error_code if obj.status == RunStatus.FAILED else "")
        label = display.badge(obj.status, obj.get_status_display())
        return display.joined((label, display.words(reason)), " ") if reason else label

    @admin.display(description="history tokens")
    def tokens(self, obj: CompactionRun) -> str:
        before, after = display.number(obj.tokens_before), display.number(obj.tokens_after)
        return f"{before} → {after}"

    @admin.display(description="skip reason")
    def skip_reason_words(self, obj: CompactionRun) -> str:
        return display.words(obj.skip_reason) or display.EMPTY

    @admin.display(description="error code")
    def error_code_words(self, obj: CompactionRun) -> str:
        return display.words(obj.error_code) or display.EMPTY

    @admin.display(description="error detail")
    def error_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.error_detail)

    @admin.display(description="tip")
    def tip_link(self, obj: CompactionRun) -> str:
        return self.link_to_message(obj.tip_id)

    @admin.display(description="anchor")
    def anchor_link(self, obj: CompactionRun) -> str:
        return self.link_to_message(obj.anchor_id)

    @admin.display(description="cutoff")
    def cutoff_link(self, obj: CompactionRun) -> str:
        return self.link_to_message(obj.cutoff_id)

    @admin.display(description="base")
    def base_link(self, obj: CompactionRun) -> str:
        return self.link_to_message(obj.base_id, "Summary")

    @admin.display(description="summary")
    def summary_link(self, obj: CompactionRun) -> str:
        return self.link_to_message(obj.summary_id, "Summary")

    @admin.display(description="before and after")
    def runs_around(self, obj: CompactionRun) -> str:
        before = self.link_to_run(obj.previous_run_id) if obj.previous_run_id else "No run before"
        follow_ups = self.url("compactionrun_changelist", previous_run=obj.pk)
        return display.joined((before, display.link(follow_ups, "Runs that went on from it")))

    @admin.display(description="instructions")
    def instructions_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.instructions)

    @admin.display(description="policy's line")
    def policy_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.policy_line)

    @admin.display(description="inputs shown shortened")
    def shortened(self, obj: CompactionRun) -> str:
        return display.json_block(obj.shortened_inputs)

    @admin.display(description="budget")
    def budget_block(self, obj: CompactionRun) -> str:
        return display.json_block(obj.budget)

    @admin.display(description="settings")
    def settings_block(self, obj: CompactionRun) -> str:
        return display.json_block(obj.settings)

    # -- its page -----------------------------------------------------------------------------------------

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: CompactionRun | None = None,
    ) -> HttpResponse:
        if obj is not None:
            context["events"] = self.with_urls(obj.events.order_by("id"))
        return super().render_change_form(request, context, add, change, form_url, obj)

    # -- retrying -----------------------------------------------------------------------------------------

    def tools(self, request: HttpRequest, obj: CompactionRun) -> list[Tool]:
        if obj.status != RunStatus.FAILED or not self.has_compact_permission(request):
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
        return self.confirm(
            request,
            obj=run,
            title="Retry",
            question="A new run is opened for the branch that ends at this run's tip, with the same instructions.",
            button="Retry",
            back=here,
        )
