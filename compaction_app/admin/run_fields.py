"""A run as columns and fields: what became of it and why, where on the branch, what it took and what it saved."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html

from compaction_app.admin import display
from compaction_app.admin.dated import DatedAdmin
from compaction_app.admin.health import due_since, is_late
from compaction_app.compaction.runs import MAX_ATTEMPTS
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.values import EventKind, RunStatus

COLUMNS = (
    "run",
    "outcome",
    "in_session",
    "tokens",
    "how",
    "summarizer",
    "opened",
    "summary_link",
)

FIELDSETS: Any = (
    (None, {"fields": ("outcome", "why", "error_text", "in_session")}),
    (
        "On the branch",
        {"fields": (("tip_link", "anchor_link", "cutoff_link"), ("base_link", "summary_link"), "runs_around")},
    ),
    (
        "What it did",
        {
            "fields": (
                ("trigger", "strategy", "generation"),
                ("compacted", "tokens", "saved"),
                ("retained_before", "retained_after"),
                "shortened",
            )
        },
    ),
    (
        "What it asked for",
        {
            "fields": (
                ("summarizer", "prompt_version"),
                "instructions_text",
                "policy_text",
                ("input_tokens_shown", "cached_tokens_shown"),
                ("output_tokens_shown", "price"),
            )
        },
    ),
    (
        "How it went",
        {
            "fields": (
                ("waited", "worked", "attempts_shown"),
                ("opened", "enqueued"),
                ("begun", "ended"),
                ("next_attempt", "lease"),
                "task_id",
            )
        },
    ),
    (
        "Settings then",
        {
            "classes": ("collapse",),
            "fields": (
                ("reserved", "erasures_seen", "nonce"),
                "budget_block",
                "request_block",
                "settings_block",
            ),
        },
    ),
)

#: Rows of a page that are left out where the column behind them holds nothing: most runs have none of these.
RARE = {
    "error_text": "error_detail",
    "shortened": "shortened_inputs",
    "instructions_text": "instructions",
    "policy_text": "policy_line",
    "task_id": "task_id",
}
#: Fields that may quote a conversation; budget, request and settings hold numbers, ids and the host's own words.
QUOTING = {"error_text", "instructions_text", "policy_text"}
#: Characters of a model's name; the whole of a longer one stands in a title.
SHORT_NAME = 40
#: Follow-ups that a page names; a run has one, unless somebody wrote more.
_MOST_FOLLOW_UPS = 5
_STATUS_WORDS = {
    RunStatus.READY: "It waits for a worker.",
    RunStatus.RUNNING: "A worker is at it.",
    RunStatus.SUCCEEDED: "A summary was stored.",
    RunStatus.SKIPPED: "It ended without a summary and without a fault.",
    RunStatus.FAILED: "It ended without a summary, for good.",
}


def fieldsets_of(run: CompactionRun | None, *, with_texts: bool = True) -> Any:
    """The groups of a run's page, without what this run has nothing of, or what may quote a conversation."""
    if run is None:
        return FIELDSETS
    empty = {field for field, column in RARE.items() if not getattr(run, column)}
    if not with_texts:
        empty |= QUOTING
    return [
        (title, group | {"fields": [row for row in group["fields"] if row not in empty]}) for title, group in FIELDSETS
    ]


def events_of(run: CompactionRun) -> list[CompactionEvent]:
    """Its events, oldest first, read once for a page."""
    if not hasattr(run, "shown_events"):
        run.shown_events = list(run.events.order_by("id"))  # type: ignore[attr-defined]  # kept for this page only
    found: list[CompactionEvent] = run.shown_events  # type: ignore[attr-defined]  # as above
    return found


class RunFields(DatedAdmin):
    compacted = display.figure("messages_compacted")
    reserved = display.figure("reserved_tokens")
    opened = display.time_of("created_at")
    enqueued = display.time_of("enqueued_at")
    #: The claim of the last attempt.
    begun = display.time_of("started_at")
    ended = display.time_of("finished_at")
    next_attempt = display.time_of("next_attempt_at")

    # -- what became of it --------------------------------------------------------------------------------

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

    @admin.display(description="why")
    def why(self, obj: CompactionRun) -> str:
        now = timezone.now()
        said = [_STATUS_WORDS[RunStatus(obj.status)]]
        if obj.status == RunStatus.READY:
            due = due_since(obj)
            again = format_html("It is tried again at {}.", display.exact_moment(due))
            said.append(again if due > now else _overdue(obj, due, now))
        elif obj.status == RunStatus.RUNNING and is_late(obj, now):
            said.append("Its worker is gone: the lease ran out, and no sweep has given it to another.")
        if obj.skip_reason:
            said.append(f"Reason: {display.words(obj.skip_reason)}.")
        if obj.error_code:
            last = "" if obj.status == RunStatus.FAILED else "The attempt before: "
            said.append(
                f"{last}{display.words(obj.error_code)}." if last else f"Code: {display.words(obj.error_code)}."
            )
        return display.joined(said, " ")

    @admin.display(description="error detail")
    def error_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.error_detail)

    # -- on the branch ------------------------------------------------------------------------------------

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
        """The partial generation that it went on from, and the runs that went on from it."""
        before = self.link_to_run(obj.previous_run_id) if obj.previous_run_id else "No run before"
        ids = list(obj.follow_ups.order_by("pk").values_list("pk", flat=True)[: _MOST_FOLLOW_UPS + 1])
        after = [self.link_to_run(pk) for pk in ids[:_MOST_FOLLOW_UPS]] or ["No run after"]
        if len(ids) > _MOST_FOLLOW_UPS:
            after.append(display.link(self.url("compactionrun_changelist", previous_run=obj.pk), "and more"))
        return display.joined((before, display.here(f"Run {obj.pk}"), *after), " → ")

    # -- what it did --------------------------------------------------------------------------------------

    @admin.display(description="history tokens")
    def tokens(self, obj: CompactionRun) -> str:
        before, after = display.number(obj.tokens_before), display.number(obj.tokens_after)
        return f"{before} → {after}"

    @admin.display(description="saved")
    def saved(self, obj: CompactionRun) -> str:
        if obj.tokens_before is None or obj.tokens_after is None:
            return display.EMPTY
        saved = obj.tokens_before - obj.tokens_after
        share = f" ({saved / obj.tokens_before:.0%})" if obj.tokens_before else ""
        return f"{saved:,}{share}"

    @admin.display(description="retention before")
    def retained_before(self, obj: CompactionRun) -> str:
        return _share(obj.retention_before)

    @admin.display(description="retention after")
    def retained_after(self, obj: CompactionRun) -> str:
        return _share(obj.retention_after)

    @admin.display(description="inputs shown shortened")
    def shortened(self, obj: CompactionRun) -> str:
        """Messages that the summarizer was shown head-and-tail, for it could not have read them whole."""
        return display.joined((self.link_to_message(pk) for pk in obj.shortened_inputs), ", ")

    # -- what it asked for --------------------------------------------------------------------------------

    @admin.display(description="strategy")
    def how(self, obj: CompactionRun) -> str:
        """In lists, with what asked for it."""
        return format_html(
            '{} <span class="compaction-note">{}</span>', obj.get_strategy_display(), obj.get_trigger_display()
        )

    @admin.display(description="model")
    def summarizer(self, obj: CompactionRun) -> str:
        return display.titled(obj.summarizer_model, SHORT_NAME)

    @admin.display(description="instructions")
    def instructions_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.instructions)

    @admin.display(description="policy's line")
    def policy_text(self, obj: CompactionRun) -> str:
        return display.text_block(obj.policy_line)

    @admin.display(description="input tokens")
    def input_tokens_shown(self, obj: CompactionRun) -> str:
        return display.number(obj.input_tokens)

    @admin.display(description="of them cached")
    def cached_tokens_shown(self, obj: CompactionRun) -> str:
        return display.number(obj.cached_tokens)

    @admin.display(description="output tokens")
    def output_tokens_shown(self, obj: CompactionRun) -> str:
        return display.number(obj.output_tokens)

    @admin.display(description="cost")
    def price(self, obj: CompactionRun) -> str:
        """In the currency of ``PRICES``; all calls of all attempts."""
        if obj.cost is not None:
            return display.money(obj.cost)
        return display.EMPTY if obj.input_tokens is None else "Not known: PRICES does not have the model"

    # -- how it went --------------------------------------------------------------------------------------

    @admin.display(description="waited")
    def waited(self, obj: CompactionRun) -> str:
        """From its opening to the first attempt."""
        begun = next((e.created_at for e in events_of(obj) if e.kind == EventKind.STARTED), None)
        if obj.attempts <= 1 and obj.started_at is not None:
            begun = obj.started_at
        if begun is not None:
            return display.lasted(begun - obj.created_at)
        return (
            f"{display.lasted(timezone.now() - obj.created_at)} so far"
            if obj.status == RunStatus.READY
            else display.EMPTY
        )

    @admin.display(description="worked")
    def worked(self, obj: CompactionRun) -> str:
        """The last attempt, from its claim to the end."""
        if obj.started_at is None:
            return display.EMPTY
        if obj.finished_at is not None:
            return display.lasted(obj.finished_at - obj.started_at)
        return (
            f"{display.lasted(timezone.now() - obj.started_at)} so far"
            if obj.status == RunStatus.RUNNING
            else display.EMPTY
        )

    @admin.display(description="attempts")
    def attempts_shown(self, obj: CompactionRun) -> str:
        return f"{obj.attempts} of {MAX_ATTEMPTS} at most"

    @admin.display(description="lease")
    def lease(self, obj: CompactionRun) -> str:
        if obj.lease_expires_at is None:
            return display.EMPTY
        over = obj.lease_expires_at < timezone.now()
        said = format_html("ran out at {}" if over else "until {}", display.exact_moment(obj.lease_expires_at))
        return display.badge("failed", said) if over else said

    # -- settings then ------------------------------------------------------------------------------------

    @admin.display(description="budget")
    def budget_block(self, obj: CompactionRun) -> str:
        return display.json_block(obj.budget)

    @admin.display(description="request")
    def request_block(self, obj: CompactionRun) -> str:
        """What its prompt was made of beside the messages; ``export_compactions`` builds the prompt again."""
        return display.json_block(obj.request)

    @admin.display(description="settings")
    def settings_block(self, obj: CompactionRun) -> str:
        return display.json_block(obj.settings)


def _overdue(run: CompactionRun, due: datetime, now: datetime) -> str:
    waits = f"It has been due for {display.lasted(now - due)}"
    if not is_late(run, now):
        return f"{waits}."
    return f"{waits}, and no worker took it." if run.enqueued_at else f"{waits}, and no broker took it."


def _share(value: float | None) -> str:
    return display.EMPTY if value is None else f"{value:.0%}"
