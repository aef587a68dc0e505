"""The branches of a session's page: a list, indented as they fork; how long, how full and how summarized each is.

Three queries, whatever the number of messages: the lanes of a page, the histories at their tips, and how the branches
begin, with the summaries in use. One more where there are several pages: for the lane that
most lanes of a page leave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import mode
from typing import Any

from django.db.models import CharField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Left

from compaction_app.admin.display import bar, number, place, shortened
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.branches import TipHistory, database_of
from compaction_app.tree.lanes import Lane, histories_at, read_lanes
from compaction_app.values import Budget

#: Lanes of one page.
LANES = 60
#: Characters by which people recognize a branch, and those that are read for them: white space is collapsed.
TEXT = 120
_TEXT_READ = 4 * TEXT
#: The deepest indentation: beyond it a phone has no room for words.
DEEPEST = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A lane, with links where there is a page to lead to."""

    lane: Lane
    #: How far it is indented.
    level: int
    #: How its own first message begins; its id for people who may not read it.
    text: str
    #: When its last message was stored.
    used: datetime | None
    #: The branch with the newest message of the session.
    is_newest: bool
    #: None where its end is no tip: only forks continue.
    history: TipHistory | None
    budget: Budget | None
    #: Its messages from the root, those that its summary covers first.
    bar: str
    tip: str
    forks_from: str
    summary: str
    transcript_url: str
    compact_url: str

    @property
    def messages(self) -> int:
        return self.lane.end_depth - self.lane.start_depth + 1

    @property
    def is_over(self) -> bool:
        return bool(self.history and self.budget and self.history.tokens > self.budget.threshold)

    @property
    def percent(self) -> int:
        return percent_of(self.history, self.budget) if self.history and self.budget else 0

    @property
    def fullness(self) -> str:
        """The history at the tip, of what is available for it."""
        tip, budget = self.history, self.budget
        if tip is None:
            return "no tip: only forks continue"
        if budget is None:
            return f"{number(tip.tokens)} tokens"
        share = f"{self.percent:,} %: {number(tip.tokens)} of {number(budget.available)} available tokens"
        # Without compaction the available tokens are the only limit.
        if budget.threshold >= budget.available:
            return f"{share}, over what fits" if self.is_over else share
        limit = f"the threshold of {number(budget.threshold)}"
        return f"{share}, {'over' if self.is_over else 'below'} {limit}"


def percent_of(tip: TipHistory, budget: Budget) -> int:
    return tip.tokens * 100 // budget.available


class BranchList:
    """One page of a session's lanes, newest first, each below the one that it leaves."""

    def __init__(
        self,
        admin: RecordAdmin,
        session: ChatSession,
        budget: Budget | None,
        before: int | None,
        *,
        quotes: bool,
        may_compact: bool,
    ) -> None:
        """The lanes that begin before that message, or the newest; without ``quotes`` no text is read."""
        self.admin, self.session, self.budget, self.quotes = admin, session, budget, quotes
        self.may_compact = may_compact and quotes
        page = read_lanes(session, limit=LANES + 1, before=before)
        #: The lanes of the page, and at the end the one of another page that most of them leave.
        self.lanes = page[:LANES]
        self.is_older_page = before is not None
        #: Where the next page begins; None on the last.
        self.older_before = self.lanes[-1].start_id if len(page) > LANES else None
        if self.older_before or before:
            self.lanes += self._trunk()
        using = database_of(session)
        self.histories = histories_at([lane.end_id for lane in self.lanes if lane.is_tip], using)
        self._rows = self._read(quotes=quotes)

    # -- reading ------------------------------------------------------------------------------------------

    def _messages(self) -> QuerySet[ChatMessage]:
        return ChatMessage.objects.using(database_of(self.session)).filter(session=self.session)

    def _trunk(self) -> tuple[Lane, ...]:
        """The lane that most of these leave, where it is older than they are."""
        shown = {lane.start_id for lane in self.lanes}
        left = [lane.parent_lane_id for lane in self.lanes if lane.parent_lane_id and lane.parent_lane_id not in shown]
        return read_lanes(self.session, limit=1, before=mode(left) + 1) if left else ()

    def _read(self, *, quotes: bool) -> dict[int, Any]:
        """The ends of the lanes, the messages that they leave and the summaries in use; without ``quotes`` no text."""
        made_by = CompactionRun.objects.filter(summary=OuterRef("pk")).order_by("id")
        ids = {pk for lane in self.lanes for pk in (lane.start_id, lane.end_id, lane.parent_id)}
        ids |= {tip.summary_id for tip in self.histories.values()}
        rows = self._messages().filter(pk__in=ids - {None})
        annotated = rows.annotate(
            beginning=Left("content", _TEXT_READ) if quotes else Value("", CharField()),
            cutoff_depth=F("last_summarized_message__depth"),
            generation=Subquery(made_by.values("generation")[:1]),
        )
        names = ("pk", "beginning", "created_at", "depth", "path_tokens", "cutoff_depth", "generation")
        return {row.pk: row for row in annotated.values_list(*names, named=True)}

    # -- the branches -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Branch]:
        """Forks below the branch that they leave, the newest first."""
        shown = {lane.start_id for lane in self.lanes}
        below: dict[int | None, list[Lane]] = defaultdict(list)
        for lane in self.lanes:
            below[lane.parent_lane_id if lane.parent_lane_id in shown else None].append(lane)
        newest = max((lane.end_id for lane in self.lanes), default=0)
        longest = max((lane.end_depth for lane in self.lanes), default=1)
        left = [(0, lane) for lane in reversed(below[None])]
        while left:
            level, lane = left.pop()
            left += [(level + 1, fork) for fork in reversed(below[lane.start_id])]
            yield self._branch(lane, min(level, DEEPEST), longest, is_newest=lane.end_id == newest)

    def _branch(self, lane: Lane, level: int, longest: int, *, is_newest: bool) -> Branch:
        first, last = self._rows.get(lane.start_id), self._rows.get(lane.end_id)
        history = self.histories.get(lane.end_id)
        summary = self._rows.get(history.summary_id) if history and history.summary_id else None
        covered, marks = 0, []
        if summary is not None:
            # A summary is one level below its anchor.
            covered, marks = summary.cutoff_depth, [("cutoff", summary.cutoff_depth), ("anchor", summary.depth - 1)]
        parts = [("summary", "Messages summarized", covered), ("verbatim", "after them", lane.end_depth - covered)]
        name = f"Summary {summary.pk}" if summary else ""
        if summary and summary.generation:
            name += f", compaction {summary.generation}"
        link, depth = self.admin.link_to_message, lane.start_depth - 1
        text = shortened(first.beginning, TEXT) if first else ""
        return Branch(
            lane=lane,
            level=level,
            text=text or f"Message {lane.start_id} ({place(lane.start_depth)})",
            used=last.created_at if last else None,
            is_newest=is_newest and not self.is_older_page,
            history=history,
            budget=self.budget,
            bar=bar("Messages from the root", parts, marks, longest),
            tip=link(lane.end_id, "Message", lane.end_depth),
            forks_from=link(lane.parent_id, "message", depth) if lane.parent_id else "the start",
            summary=self.admin.link_to("chatmessage", summary.pk, name) if summary else "none",
            transcript_url=self.admin.url("chatmessage_transcript", lane.end_id) if self.quotes else "",
            compact_url=self.admin.url("chatmessage_compact", lane.end_id) if self.may_compact and history else "",
        )
