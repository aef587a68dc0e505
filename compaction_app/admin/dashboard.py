"""What the list of sessions says of each: how long its fullest branch is, and how its newest run went.

Four queries for a page of sessions, whatever their sizes. The text of a conversation is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import connections
from django.db.models import BigIntegerField, OuterRef, Q, Subquery, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Left
from django.utils.html import format_html, format_html_join

from compaction_app.admin import display
from compaction_app.admin.branches import percent_of
from compaction_app.admin.records import RecordAdmin
from compaction_app.conf import Mode
from compaction_app.context.reading import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.tree import lanes
from compaction_app.tree.branches import TipHistory
from compaction_app.values import Budget, Kind, RunStatus

#: Characters of a system prompt that are counted: a list of fifty may have megabytes of them.
MOST_PROMPT = 20_000
#: The newest lanes of a session, of which the list shows the fullest branch.
LANES_COMPARED = 20


@dataclass(frozen=True, slots=True)
class State:
    """Of one session: its fullest branch, and its newest run."""

    session: ChatSession
    depth: int | None = None
    history: TipHistory | None = None
    run: CompactionRun | None = None

    @property
    def branch(self) -> str:
        """How long that branch is, in percent of the available tokens as on the session's page."""
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

    def compaction(self, admin: RecordAdmin) -> str:
        """The outcome of the newest run, and when it was."""
        run = self.run
        if run is None:
            return display.EMPTY
        reason = display.words(run.error_code) if run.status == RunStatus.FAILED else ""
        when = format_html('<span class="compaction-note compaction-below">{}</span>', display.moment(run.finished_at))
        label = admin.link_to("compactionrun", run.pk, display.run_badge(run))
        return display.joined(filter(None, (label, reason, when if run.finished_at else "")), " ")


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
    # The newest branch, and the ends of the newest lanes. SQLite stores a UUID as text.
    nodes, field = ChatMessage.objects.using(using), ChatMessage._meta.get_field("session")
    bounds = [one for key in keys for one in (field.get_db_prep_value(key, connections[using]), LANES_COMPARED)]
    statement = " UNION ALL ".join([sql.TIPS] * len(keys))
    newest = Q(pk__in=[row.newest for row in rows if row.newest is not None])
    tips = nodes.filter(newest | Q(pk__in=RawSQL(statement, bounds)))  # noqa: S611  # names of tables, never a value
    places = {pk: (session, depth) for pk, session, depth in tips.values_list("pk", "session", "depth")}
    fullest: dict[object, tuple[int, TipHistory]] = {}
    for history in lanes.histories_at(list(places), using).values():
        session, depth = places[history.tip_id]
        if session not in fullest or history.tokens > fullest[session][1].tokens:
            fullest[session] = depth, history
    found = CompactionRun.objects.using(using).only("status", "error_code", "created_at", "finished_at")
    newest_runs = found.in_bulk([row.newest_run for row in rows if row.newest_run is not None])
    states: dict[object, State] = {}
    for row in rows:
        longest_at, longest = fullest.get(row.pk, (None, None))
        states[row.pk] = State(row, longest_at, longest, newest_runs.get(row.newest_run))
    return states
