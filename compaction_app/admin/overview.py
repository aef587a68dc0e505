"""What a session holds, in numbers: each with a link to what it counts.

Nothing is counted that grows with the conversation: messages and tokens follow from the lanes where all of them are
shown, and everything else stops at a bound and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils.html import format_html

from compaction_app.admin import display
from compaction_app.admin.context_words import calibration_words, reserved_words
from compaction_app.admin.maps import SUMMARIES, SessionShape, counted_as, fullness
from compaction_app.admin.pagers import BoundedPaginator, count_up_to, counted
from compaction_app.admin.records import RecordAdmin
from compaction_app.conf import Mode
from compaction_app.context.budget import calibration_of
from compaction_app.context.request import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.spending import Spending, session_spending
from compaction_app.tree.branches import database_of
from compaction_app.values import Budget, Kind, RunStatus

#: Messages, tips and events that are counted one by one.
BOUND = BoundedPaginator.limit
#: The newest branches: each is looked for by itself.
BRANCHES = 1000
#: The newest runs, by outcome: each row is read for it.
RUNS = 1000


@dataclass(frozen=True, slots=True)
class InForce:
    """What the session's settings come to, or why they come to nothing."""

    resolved: ResolvedRequest | None
    problem: str = ""

    @property
    def is_off(self) -> bool:
        return self.resolved is not None and self.resolved.settings.mode == Mode.OFF


def in_force(session: ChatSession) -> InForce:
    try:
        return InForce(resolve_request(session))
    except CompactionError as error:
        return InForce(None, str(error))


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a session's page, in groups of (name, value as HTML)."""

    admin: RecordAdmin
    session: ChatSession
    shape: SessionShape
    resolved: ResolvedRequest | None
    #: What branches are measured against.
    budget: Budget | None

    def groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        return [
            ("Conversation", list(self._conversation())),
            ("Compaction", list(self._compaction())),
            ("In force", list(self._in_force())),
        ]

    # -- the conversation ---------------------------------------------------------------------------------

    def _conversation(self) -> Iterator[tuple[str, str]]:
        messages, tokens = self._messages_and_tokens()
        yield "Messages", self._list("chatmessage", messages)
        yield "Branches", self._list("chatmessage", self._branches(), place="tip")
        yield "Tokens stored", tokens
        fullest = self.shape.fullest
        if fullest is not None:
            said = fullness(fullest, self.budget)
            yield (
                "Fullest of the branches shown" if not self.shape.is_whole else "Fullest branch",
                self._message(fullest.tip_id, said),
            )

    def _branches(self) -> str:
        if self.shape.is_whole:
            return display.number(sum(lane.is_tip for lane in self.shape.lanes))
        nodes = ChatMessage.objects.using(database_of(self.session))
        tips = nodes.tips_of(self.session.pk, newest=BRANCHES).count()
        lanes = count_up_to(nodes.in_session(self.session.pk).filter(lane__isnull=True), BRANCHES)
        return f"at least {tips:,}" if lanes > BRANCHES else display.number(tips)

    def _messages_and_tokens(self) -> tuple[str, str]:
        if self.shape.is_whole:
            return display.number(self.shape.messages), display.number(self.shape.tokens)
        nodes = ChatMessage.objects.using(database_of(self.session)).in_session(self.session.pk)
        first = nodes.filter(kind=Kind.MESSAGE)[: BOUND + 1]
        found = first.aggregate(messages=Count("pk"), tokens=Sum("token_count"))
        if found["messages"] > BOUND:
            return f"more than {BOUND:,}", f"at least {found['tokens']:,}"
        return f"{found['messages']:,}", f"{found['tokens'] or 0:,}"

    # -- compaction ---------------------------------------------------------------------------------------

    def _compaction(self) -> Iterator[tuple[str, str]]:
        yield "Summaries", self._summaries()
        yield "Runs", self._runs()
        yield "Events", self._list("compactionevent", counted(self.session.events.all()))
        spending = session_spending(self.session)
        yield "Tokens spent", _tokens_spent(spending)
        yield "Cost", _cost(spending)

    def _summaries(self) -> str:
        # Counted among those that the map was drawn from, which are read anyway.
        live = sum(span.is_live for span in self.shape.spans)
        found = {"live": live, "retired": len(self.shape.spans) - live}
        query = {"kind": str(Kind.SUMMARY), "session": self.session.pk}
        links = (
            display.link(self.admin.url("chatmessage_changelist", **query, state=state), f"{count:,} {state}")
            for state, count in found.items()
        )
        return _with_bound(display.joined(links), len(self.shape.spans), SUMMARIES)

    def _runs(self) -> str:
        by_status = {str(status): Count("pk", filter=Q(status=status)) for status in RunStatus}
        counts = self.session.runs.order_by("-id")[:RUNS].aggregate(**by_status)
        found = [(status, counts[status]) for status in RunStatus if counts[status]]
        if not found:
            return "None yet"
        links = (
            self._list("compactionrun", f"{count:,} {status}", status__exact=str(status)) for status, count in found
        )
        return _with_bound(display.joined(links), sum(counts.values()), RUNS)

    # -- settings -----------------------------------------------------------------------------------------

    def _in_force(self) -> Iterator[tuple[str, str]]:
        yield "Model", self.session.model or "none named"
        if self.resolved is None:
            return
        budget, mode = self.resolved.budget, self.resolved.settings.mode
        yield "Mode", "off: nothing is compacted, pruned or left out" if mode == Mode.OFF else str(mode)
        yield "Window", display.number(budget.window)
        yield "Reserved", reserved_words(budget.reserved, self.resolved.reserved_parts.system_tokens)
        yield "Available", display.number(budget.available)
        if mode != Mode.OFF:
            yield "Threshold", display.number(budget.threshold)
            yield "Target", display.number(budget.target)
        yield "Calibration", calibration_words(calibration_of(self.session.token_calibration, self.resolved.model))

    # -- links --------------------------------------------------------------------------------------------

    def _list(self, page: str, label: str, **query: Any) -> str:
        return display.link(self.admin.url(f"{page}_changelist", session=self.session.pk, **query), label)

    def _message(self, message_id: int, label: str) -> str:
        return self.admin.link_to("chatmessage", message_id, label)


def _with_bound(shown: str, count: int, bound: int) -> str:
    return format_html("{} of the newest {}", shown, f"{bound:,}") if count >= bound else shown


def _tokens_spent(spending: Spending) -> str:
    if not spending.runs:
        return "None yet"
    cached = f", {spending.cached_tokens:,} of them cached" if spending.cached_tokens else ""
    runs = counted_as(spending.runs, "run", "runs")
    return f"{spending.input_tokens:,} in{cached}, {spending.output_tokens:,} out, by {runs}"


def _cost(spending: Spending) -> str:
    if spending.cost is None:
        return "Not known: no price is set" if spending.runs else "None yet"
    unpriced = f", without {counted_as(spending.unpriced_runs, 'run', 'runs')}" if spending.unpriced_runs else ""
    return f"{display.money(spending.cost)}{unpriced}"
