"""A summary as columns and fields: what it stands for, what it saved, how it was made and what that cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch
from django.utils.html import format_html

from compaction_app.admin import display
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import EventKind

COLUMNS = ("summary", "state", "in_session", "generation", "tokens", "created", "cutoff", "anchor")

FIELDSETS = (
    (None, {"fields": ("state", "in_session", "text")}),
    (
        "What it stands for",
        {"fields": (("cutoff", "anchor", "pin"), ("messages_compacted", "tokens", "own_tokens"))},
    ),
    (
        "How it was made",
        {
            "fields": (
                ("run", "generation", "base"),
                ("trigger", "strategy"),
                ("summarizer", "prompt"),
                "instructions_text",
                "policy_text",
                ("paid_tokens", "cost", "time_taken"),
                ("retention_before", "retention_after"),
                "asked_for",
                ("shortened", "reasoning_turns"),
                "built_on_it",
            )
        },
    ),
    ("Record", {"fields": (("created", "redacted"), "retired", "metadata_block")}),
)

#: The runs that made the summaries of a list, in one query and without their texts.
RUNS = Prefetch(
    "made_by",
    CompactionRun.objects.defer(
        "error_detail", "instructions", "policy_line", "settings", "budget", "shortened_inputs", "request"
    ).order_by("-id"),
)
_WITHOUT_TEXTS = ChatMessage.objects.defer("content", "tool_calls", "reasoning", "attachments", "usage", "metadata")
#: What a summary's own page needs beside it: its run with all that it stores, and where it stands.
OF_PAGE = (
    Prefetch(
        "made_by",
        CompactionRun.objects.order_by("-id").prefetch_related(
            Prefetch("events", CompactionEvent.objects.order_by("id"))
        ),
    ),
    Prefetch("last_summarized_message", _WITHOUT_TEXTS),
    Prefetch("parent", _WITHOUT_TEXTS),
)
#: A retirement writes its event within this time: an erasure may have many summaries to empty first.
_RETIRING = timedelta(minutes=1)
#: Messages that a field links to.
_MOST_LINKS = 50


def run_of(summary: ChatMessage) -> CompactionRun | None:
    """The run that made it; None where it was brought along and not made here."""
    return next(iter(summary.made_by.all()), None)


def made_with(summary: ChatMessage) -> list[CompactionEvent]:
    """The events of the run that made it."""
    run = run_of(summary)
    return list(run.events.all()) if run else []


def events_of(summary: ChatMessage) -> list[CompactionEvent]:
    """Those of its run, and the one that took it out of use: one more query, for a retired one only."""
    made, retired_at = made_with(summary), summary.retired_at
    if retired_at is None:
        return made
    # It stands at another row where a base of this summary was named, or a message redacted. It is written with the
    # session locked, right after the moment that the summary got, so it is the first one from there.
    moment = {"created_at__gte": retired_at, "created_at__lte": retired_at + _RETIRING}
    out_of_use = CompactionEvent.objects.using(database_of(summary)).filter(
        session_id=summary.session_id, kind__in=(EventKind.RETIRED, EventKind.INVALIDATED), **moment
    )
    return [*made, *out_of_use.order_by("created_at", "id")[:1]]


def state_of(summary: ChatMessage) -> str:
    return display.badge("retired", "Retired") if summary.retired_at else display.badge("live", "Live")


def share(value: float | None) -> str:
    return display.EMPTY if value is None else f"{value:.1%}"


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
        return display.number(self._of_run(obj, "generation"))

    @admin.display(description="history tokens")
    def tokens(self, obj: ChatMessage) -> str:
        """What the history of its branch was before, and after."""
        run = run_of(obj)
        if run is None or run.tokens_before is None or run.tokens_after is None:
            return display.EMPTY
        return format_html("{} → {}", display.number(run.tokens_before), display.number(run.tokens_after))

    @admin.display(description="messages compacted")
    def messages_compacted(self, obj: ChatMessage) -> str:
        return display.number(self._of_run(obj, "messages_compacted"))

    @admin.display(description="run")
    def run(self, obj: ChatMessage) -> str:
        return self.link_to_run(self._of_run(obj, "pk"))

    @admin.display(description="base")
    def base(self, obj: ChatMessage) -> str:
        return self.link_to_message(self._of_run(obj, "base_id"), "Summary")

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
        return self._of_run(obj, "prompt_version") or display.EMPTY

    @admin.display(description="instructions")
    def instructions_text(self, obj: ChatMessage) -> str:
        return display.text_block(self._of_run(obj, "instructions") or "")

    @admin.display(description="policy's line")
    def policy_text(self, obj: ChatMessage) -> str:
        return display.text_block(self._of_run(obj, "policy_line") or "")

    @admin.display(description="tokens paid for")
    def paid_tokens(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        if run is None or run.input_tokens is None:
            return display.EMPTY
        told = f"{display.number(run.input_tokens)} in, {display.number(run.output_tokens)} out"
        return f"{told}, {display.number(run.cached_tokens)} of those in cached" if run.cached_tokens else told

    @admin.display(description="cost")
    def cost(self, obj: ChatMessage) -> str:
        cost = self._of_run(obj, "cost")
        return display.EMPTY if cost is None else f"{cost.normalize():f}"

    @admin.display(description="time taken")
    def time_taken(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        if run is None or run.started_at is None or run.finished_at is None:
            return display.EMPTY
        seconds = (run.finished_at - run.started_at).total_seconds()
        attempts = f" in attempt {run.attempts}" if run.attempts > 1 else ""
        return f"{seconds:,.1f} s{attempts}"

    @admin.display(description="kept by the draft")
    def retention_before(self, obj: ChatMessage) -> str:
        """The share of what had to survive that the summarizer's own text held."""
        return share(self._of_run(obj, "retention_before"))

    @admin.display(description="kept with the ledger")
    def retention_after(self, obj: ChatMessage) -> str:
        return share(self._of_run(obj, "retention_after"))

    @admin.display(description="asked for")
    def asked_for(self, obj: ChatMessage) -> str:
        request = self._of_run(obj, "request") or {}
        return display.joined(self._request_parts(request), "; ")

    def _request_parts(self, request: dict[str, Any]) -> Iterable[str]:
        if request.get("target_tokens"):
            yield f"{request['target_tokens']:,} tokens"
        if request.get("tightened"):
            yield "answered by the one tighter retry"
        if lookahead := request.get("lookahead"):
            ends = dict.fromkeys((lookahead[0], lookahead[-1]))
            yield format_html("look-ahead {}", display.joined((self.link_to_message(pk) for pk in ends), " to "))
        if request.get("shown_bytes"):
            yield f"long messages shown in {request['shown_bytes']:,} bytes"

    @admin.display(description="inputs shown shortened")
    def shortened(self, obj: ChatMessage) -> str:
        ids = self._of_run(obj, "shortened_inputs") or []
        more = [f"and {len(ids) - _MOST_LINKS:,} more"] if len(ids) > _MOST_LINKS else []
        return display.joined([*(self.link_to_message(pk) for pk in ids[:_MOST_LINKS]), *more], ", ")

    @admin.display(description="reasoning, by turns")
    def reasoning_turns(self, obj: ChatMessage) -> str:
        """Which rule the reasoning of each turn went by, as the completed event counts it."""
        done = [event.payload for event in made_with(obj) if event.kind == EventKind.COMPLETED]
        turns = (done[-1].get("reasoning_turns") or {}) if done else {}
        told = [f"{count} {display.words(rule)}" for rule, count in sorted(turns.items()) if count]
        return ", ".join(told) or display.EMPTY

    @admin.display(description="retired")
    def retired(self, obj: ChatMessage) -> str:
        if obj.retired_at is None:
            return display.EMPTY
        reason = format_html('<span dir="auto">{}</span>', obj.retired_reason or "no reason given")
        return display.joined((display.moment(obj.retired_at), reason))

    def _of_run(self, obj: ChatMessage, name: str) -> Any:
        run = run_of(obj)
        return getattr(run, name) if run else None
