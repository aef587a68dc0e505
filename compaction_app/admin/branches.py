"""The branches of a session's page: a list, indented as they fork; how long, how full and how summarized each is.

Four queries, whatever the number of messages: the lanes of a page, the histories at their tips, how the branches begin
with the summaries in use, and what the newest events say of them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import CharField, F, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce, Left
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app.admin.display import bar, number, percent, shortened
from compaction_app.admin.links import Links
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.words import words
from compaction_app.tree.branches import TipHistory, histories_at
from compaction_app.tree.lanes import Lane, read_lanes
from compaction_app.values import Budget, EventKind, Suppression

#: Lanes of one page.
LANES = 60
#: Characters by which people recognize a branch, and those that are read for them: white space is collapsed.
TEXT = 120
_TEXT_READ = 4 * TEXT
#: The deepest indentation: beyond it a phone has no room for words.
DEEPEST = 6
#: What says why a branch over its threshold was not compacted; a run that completed ends what was said before it, also
#: where its summary has been retired since.
_REASONS = (
    *(EventKind.SUPPRESSED, EventKind.FAILED, EventKind.NO_PROGRESS),
    *(EventKind.THRESHOLD_HIT, EventKind.STARTED, EventKind.COMPLETED),
)
#: The newest of these that a page reads.
_EVENTS_READ = 500
_REASON_WORDS: dict[str, Any] = {
    **dict.fromkeys((EventKind.THRESHOLD_HIT, EventKind.STARTED), gettext_lazy("A run was opened.")),
    Suppression.OPEN_RUN: gettext_lazy("A run of this branch was open already."),
    Suppression.COOLDOWN: gettext_lazy("It was compacted a moment before (COOLDOWN_SECONDS)."),
    Suppression.BREAKER: gettext_lazy("Its last runs failed; it is tried again after five minutes."),
    Suppression.POLICY: gettext_lazy("POLICY deferred it."),
    Suppression.IRREDUCIBLE: gettext_lazy("What must stay verbatim is over the threshold alone."),
    Suppression.SPEND: gettext_lazy("One of SPENDING_LIMITS was reached."),
    Suppression.MANUAL_MODE: gettext_lazy("In the mode manual nobody had asked for it."),
}


def percent_of(tip: TipHistory, budget: Budget) -> str:
    return percent(tip.tokens / budget.available)


class BranchList:
    """One page of a session's lanes, newest first, each below the one that it leaves."""

    def __init__(self, links: Links, session: ChatSession, budget: Budget | None, before: int | None) -> None:
        """The lanes that begin before that message, or the newest. No text is read for people who may not."""
        self.links, self.session, self.budget = links, session, budget
        self.quotes = links.may_view("chatmessage")
        page = read_lanes(session, limit=LANES + 1, before=before)
        self.lanes = page[:LANES]
        self.is_older_page = before is not None
        #: Where the next page begins; None on the last.
        self.older_before = self.lanes[-1].start_id if len(page) > LANES else None
        self.histories = histories_at([lane.end_id for lane in self.lanes if lane.is_tip], session)
        self._rows = self._read()
        #: What says why nothing was compacted, newest first, each with its place; for people who may view events.
        self._events: list[Any] = []
        if links.may_view("compactionevent"):
            events = CompactionEvent.objects.in_database_of(session).filter(session=session, message__isnull=False)
            # The first message of a lane has none.
            placed = events.annotate(lane=Coalesce("message__lane", "message")).filter(kind__in=_REASONS)
            self._events = list(placed.order_by("-id")[:_EVENTS_READ])

    def _read(self) -> dict[int, Any]:
        """The ends of the lanes, the messages that they leave and the summaries in use."""
        made_by = CompactionRun.objects.filter(summary=OuterRef("pk")).order_by("id")
        ids = {pk for lane in self.lanes for pk in (lane.start_id, lane.end_id, lane.parent_id)}
        ids |= {tip.summary_id for tip in self.histories.values()}
        annotated = (
            ChatMessage.objects.in_database_of(self.session)
            .filter(session=self.session, pk__in=ids - {None})
            .annotate(
                beginning=Left("content", _TEXT_READ) if self.quotes else Value("", CharField()),
                cutoff_depth=F("last_summarized_message__depth"),
                generation=Subquery(made_by.values("generation")[:1]),
            )
        )
        names = ("pk", "beginning", "created_at", "depth", "cutoff_depth", "generation")
        return {row.pk: row for row in annotated.values_list(*names, named=True)}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Forks below the branch that they leave, if that is on the page; the newest first."""
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
            is_newest = lane.end_id == newest and not self.is_older_page
            yield {"level": min(level, DEEPEST), "is_newest": is_newest, **self._branch(lane, longest)}

    def _branch(self, lane: Lane, longest: int) -> dict[str, Any]:
        """A lane as the template shows it."""
        first, budget = self._rows.get(lane.start_id), self.budget
        # None where its end is no tip: only forks continue.
        history = self.histories.get(lane.end_id)
        summary = self._rows.get(history.summary_id) if history and history.summary_id else None
        is_over = bool(history and budget and history.tokens > budget.threshold)
        covered = summary.cutoff_depth if summary else 0
        # A summary is one level below its anchor.
        marks = [(_("cutoff"), covered), (_("anchor"), summary.depth - 1)] if summary else []
        after = ("verbatim", _("after them"), lane.end_depth - covered)
        text = shortened(first.beginning, TEXT) if first else ""
        return {
            "lane": lane,
            "text": text or _("Message {id} (#{depth})").format(id=lane.start_id, depth=number(lane.start_depth)),
            "messages": lane.end_depth - lane.start_depth + 1,
            "last": self._rows.get(lane.end_id),
            "history": history,
            "is_over": is_over,
            "percent": percent_of(history, budget) if history and budget else "",
            "bar": bar(
                _("Messages from the root"), [("summary", _("Messages summarized"), covered), after], marks, longest
            ),
            "summary": summary,
            "reason": self._reason(lane, summary) if is_over else {},
        }

    def _reason(self, lane: Lane, summary: Any) -> dict[str, Any]:
        """Why it was not compacted: the newest event on its lane since its summary, if any; {} where that is hidden."""
        event = next((one for one in self._events if one.lane == lane.start_id), None)
        if not self.links.may_view("compactionevent") or (event is None and len(self._events) == _EVENTS_READ):
            return {}
        is_before = event and summary and event.created_at < summary.created_at
        if event is None or is_before or event.kind == EventKind.COMPLETED:
            return {"event": None}
        code = str(event.payload.get("reason") or event.payload.get("code") or "")
        said = _REASON_WORDS.get(code or event.kind)
        said = said or ": ".join(filter(None, (event.get_kind_display(), words(code))))
        return {"event": event, "said": said, "is_breaker": code == Suppression.BREAKER}
