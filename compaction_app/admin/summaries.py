"""A summary as columns and fields: what it covers, where it applies, what it saved and how it was made."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Prefetch
from django.utils.html import format_html

from compaction_app.admin import display
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun

COLUMNS = ("summary", "state", "generation", "tokens", "cutoff", "anchor", "created_at", "in_session")

FIELDSETS = (
    (None, {"fields": ("state", "in_session", "text")}),
    (
        "What it stands for",
        {"fields": (("cutoff", "anchor", "pin"), ("messages_compacted", "tokens", "token_count"))},
    ),
    (
        "How it was made",
        {
            "fields": (
                ("run", "generation"),
                ("base", "built_on_it"),
                ("trigger", "strategy"),
                ("summarizer", "prompt"),
            )
        },
    ),
    ("Record", {"fields": (("created_at", "redacted_at"), "retired", "metadata_block")}),
)

#: The runs that made the summaries of a list, in one query and without their texts.
RUNS = Prefetch(
    "made_by",
    CompactionRun.objects.defer(
        "error_detail", "instructions", "policy_line", "settings", "budget", "shortened_inputs"
    ).order_by("-id"),
)


def run_of(summary: ChatMessage) -> CompactionRun | None:
    """The run that made it; None where it was brought along and not made here."""
    return next(iter(summary.made_by.all()), None)


def events_of(summary: ChatMessage) -> list[CompactionEvent]:
    run = run_of(summary)
    return list(run.events.order_by("id")) if run else []


def state_of(summary: ChatMessage) -> str:
    return display.badge("retired", "Retired") if summary.retired_at else display.badge("live", "Live")


class SummaryFields(RecordAdmin):
    @admin.display(description="summary")
    def summary(self, obj: ChatMessage) -> str:
        return f"Summary {obj.pk}"

    @admin.display(description="state")
    def state(self, obj: ChatMessage) -> str:
        return state_of(obj)

    @admin.display(description="cutoff")
    def cutoff(self, obj: ChatMessage) -> str:
        return self.link_to_message(obj.last_summarized_message_id)

    @admin.display(description="anchor")
    def anchor(self, obj: ChatMessage) -> str:
        return self.link_to_message(obj.parent_message_id)

    @admin.display(description="pinned message")
    def pin(self, obj: ChatMessage) -> str:
        return self.link_to_message(obj.pinned_message_id)

    @admin.display(description="generation")
    def generation(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return display.number(run.generation if run else None)

    @admin.display(description="history tokens")
    def tokens(self, obj: ChatMessage) -> str:
        """What the history of its branch was before, and after."""
        run = run_of(obj)
        if run is None or run.tokens_before is None or run.tokens_after is None:
            return display.EMPTY
        return format_html("{} → {}", display.number(run.tokens_before), display.number(run.tokens_after))

    @admin.display(description="messages compacted")
    def messages_compacted(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return display.number(run.messages_compacted if run else None)

    @admin.display(description="run")
    def run(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return self.link_to_run(run.pk if run else None)

    @admin.display(description="base")
    def base(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return self.link_to_message(run.base_id if run else None, "Summary")

    @admin.display(description="built on it")
    def built_on_it(self, obj: ChatMessage) -> str:
        return display.link(self.url("compactionrun_changelist", base=obj.pk), "Runs with this base")

    @admin.display(description="trigger")
    def trigger(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return run.get_trigger_display() if run else display.EMPTY

    @admin.display(description="strategy")
    def strategy(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return run.get_strategy_display() if run else display.EMPTY

    @admin.display(description="model")
    def summarizer(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return (run.summarizer_model if run else obj.model) or display.EMPTY

    @admin.display(description="prompt version")
    def prompt(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return (run.prompt_version if run else "") or display.EMPTY

    @admin.display(description="retired")
    def retired(self, obj: ChatMessage) -> str:
        if obj.retired_at is None:
            return display.EMPTY
        reason = format_html('<span dir="auto">{}</span>', obj.retired_reason or "no reason given")
        return display.joined((display.moment(obj.retired_at), reason))
