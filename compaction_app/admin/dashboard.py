"""What the list of sessions says of each: how long its newest branch is, and how its newest run went.

Five queries for a page of sessions, whatever their sizes. The text of a conversation is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import BigIntegerField, Count, OuterRef, Q, Subquery, Value
from django.db.models.functions import Left
from django.utils.html import format_html, format_html_join

from compaction_app.admin import display
from compaction_app.admin.branches import percent_of
from compaction_app.conf import Mode
from compaction_app.context.reading import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree import lanes
from compaction_app.tree.branches import TipHistory
from compaction_app.values import OPEN_RUN_STATUSES, Budget, Kind, RunStatus

#: Characters of a system prompt that are counted: a list of fifty may have megabytes of them.
MOST_PROMPT = 20_000


@dataclass(frozen=True, slots=True)
class State:
    """Of one session: its newest message with the history there, its newest run, and the runs to look at."""

    session: ChatSession
    depth: int | None = None
    history: TipHistory | None = None
    run: CompactionRun | None = None
    #: Runs that wait or are at work, and those that failed.
    open_runs: int = 0
    failed_runs: int = 0
    #: Address of the newest run's page; "" for people who may not open it.
    run_url: str = ""

    @property
    def branch(self) -> str:
        """How long the newest branch is, in percent of the available tokens as on the session's page."""
        if self.depth is None or self.history is None:
            return format_html('<span class="compaction-note">{}</span>', "no messages")
        numbers = display.plural(self.depth, "message"), display.plural(self.history.tokens, "token")
        size = format_html_join(" ", '<span class="compaction-note compaction-below">{}</span>', zip(numbers))
        try:
            resolved = resolve_request(self.session)
        except CompactionError:
            return format_html("{} {}", "wrong settings", size)
        budget = shown_budget(resolved)
        over = display.badge("failed", "over threshold") if self.history.tokens > budget.threshold else ""
        return format_html("{} {} {}", f"{percent_of(self.history, budget):,} %", over, size)

    @property
    def compaction(self) -> str:
        """The outcome of the newest run, when it was, and how many are open or failed."""
        run = self.run
        if run is None:
            return display.EMPTY
        parts = [display.moment(run.finished_at or run.created_at)]
        if run.status == RunStatus.SUCCEEDED:
            parts = [display.link(self.run_url, parts[0])]
        if run.status != RunStatus.SUCCEEDED:
            label = display.link(self.run_url, display.run_badge(run))
            reason = display.words(run.error_code) if run.status == RunStatus.FAILED else ""
            when = format_html('<span class="compaction-note compaction-below">{}</span>', parts[0])
            parts = [part for part in (label, reason, when) if part]
        # A badge says it already where the newest run is the only one.
        is_open, is_failed = run.is_open, run.status == RunStatus.FAILED
        counts = [("open", self.open_runs, is_open), ("failed", self.failed_runs, is_failed)]
        if counted := " · ".join(f"{count:,} {state}" for state, count, is_newest in counts if count > is_newest):
            parts.append(format_html('<span class="compaction-note compaction-below">{}</span>', counted))
        return display.joined(parts, " ")


def shown_budget(resolved: ResolvedRequest) -> Budget:
    """Without compaction there is no threshold: pages compare with what is available instead."""
    budget = resolved.budget
    return replace(budget, threshold=budget.available) if resolved.settings.mode == Mode.OFF else budget


def states_of(sessions: Sequence[ChatSession], using: str, *, with_runs: bool) -> dict[object, State]:
    """The state of each of these sessions, by its primary key; ``with_runs`` for people who may view runs."""
    keys = [session.pk for session in sessions]
    # Both bounds and this order, as in ``in_session``: PostgreSQL may otherwise walk the primary key.
    messages = ChatMessage.objects.filter(session__gte=OuterRef("pk"), session__lte=OuterRef("pk"), kind=Kind.MESSAGE)
    runs = CompactionRun.objects.filter(session=OuterRef("pk")).order_by("-id")
    rows = list(
        ChatSession.objects.using(using)
        .filter(pk__in=keys)
        .defer("system_prompt", "metadata")
        .annotate(
            prompt=Left("system_prompt", MOST_PROMPT),
            newest=Subquery(messages.order_by("-session_id", "-id").values("pk")[:1]),
            newest_run=Subquery(runs.values("pk")[:1]) if with_runs else Value(None, BigIntegerField()),
        )
    )
    for row in rows:
        row.system_prompt = row.prompt
    tips = [row.newest for row in rows if row.newest is not None]
    depths = dict(ChatMessage.objects.using(using).filter(pk__in=tips).values_list("pk", "depth"))
    histories = lanes.histories_at(tips, using)
    found = CompactionRun.objects.using(using).only("status", "error_code", "created_at", "finished_at")
    by_key = found.in_bulk([row.newest_run for row in rows if row.newest_run is not None])
    counted = CompactionRun.objects.using(using).filter(session__in=keys if with_runs else []).values_list("session")
    is_open, is_failed = Q(status__in=OPEN_RUN_STATUSES), Q(status=RunStatus.FAILED)
    by_state = counted.annotate(open=Count("pk", filter=is_open), failed=Count("pk", filter=is_failed))
    counts = {key: (waiting, failed) for key, waiting, failed in by_state}
    return {
        row.pk: State(
            row,
            depths.get(row.newest),
            histories.get(row.newest),
            by_key.get(row.newest_run),
            *counts.get(row.pk, (0, 0)),
        )
        for row in rows
    }
