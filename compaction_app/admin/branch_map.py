"""The branch map of a session's page: read by lanes, laid out by ``map_layout``, with links and words for each part.

Four queries, whatever the number of messages: the lanes of a page, the summaries, the token counts at the tips, and
the beginnings of the messages that have a mark. Two more where there are several pages: for their count, and for the
lane that most lanes of this page leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, Q, Value
from django.db.models.functions import Left

from compaction_app.admin.display import number, plural, shortened
from compaction_app.admin.map_layout import draw, is_small
from compaction_app.admin.map_parts import Bar, DrawnLane, Mark, MarkKind, Picture, Place, Stretch
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.tree.lanes import Lane, SummarySpan, TipHistory, histories_at, read_lanes, read_summary_spans
from compaction_app.values import Budget, Kind

#: Lanes of one page.
LANES = 60
#: The newest lanes that are counted.
MOST_COUNTED = 10_000
#: The newest summaries, of which the map draws some.
SUMMARIES = 200
#: Characters of a message in the description of its mark.
TEXT = 120
#: Characters that are read for them: white space is collapsed.
_TEXT_READ = 4 * TEXT
# Around a text, so that a right-to-left one does not turn the words about it.
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


# -- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a message or a summary begins."""

    #: None where the user may not read messages.
    words: str | None
    role: str
    path_tokens: int
    depth: int
    lane_id: int
    is_summary: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """Lanes of the whole session, and those newer than the page; ``MOST_COUNTED`` + 1 means more."""

    lanes: int
    newer: int


@dataclass(frozen=True, kw_only=True)
class SessionShape:
    """One page of a session's lanes, newest first, and what was read of them."""

    lanes: tuple[Lane, ...]
    #: There are older lanes than these.
    has_older: bool
    #: These are not the newest.
    is_older_page: bool
    #: None where one page shows all.
    counted: Counted | None
    spans: tuple[SummarySpan, ...]
    histories: Mapping[int, TipHistory]
    picture: Picture
    beginnings: Mapping[int, Beginning]
    budget: Budget | None

    @property
    def is_whole(self) -> bool:
        return not (self.has_older or self.is_older_page)

    @property
    def messages(self) -> int:
        """Messages of these lanes: each message is on one lane."""
        return sum(_messages_of(lane) for lane in self.lanes)

    @property
    def tokens(self) -> int:
        """Tokens of these lanes as stored."""
        forks = (self.beginnings.get(lane.parent_id or 0) for lane in self.lanes)
        above = (fork.path_tokens for fork in forks if fork)
        return sum(lane.end_path_tokens for lane in self.lanes) - sum(above)

    @property
    def fullest(self) -> TipHistory | None:
        return max(self.histories.values(), key=lambda tip: tip.history_tokens, default=None)


def _messages_of(lane: Lane) -> int:
    return lane.end_depth - lane.start_depth + 1


def read_shape(
    session: ChatSession, budget: Budget | None, before: int | None = None, *, quotes: bool = True
) -> SessionShape:
    """One page of a session's lanes; without ``quotes`` no text is read."""
    page = read_lanes(session, limit=LANES + 1, before=before)
    has_older, lanes = len(page) > LANES, page[:LANES]
    counted: Counted | None = None
    guests: tuple[Lane, ...] = ()
    if has_older or before:
        counted, guests = _count(session, before), _trunk(session, lanes)
        lanes += guests
    spans = read_summary_spans(session, limit=SUMMARIES)
    filled = histories_at([lane.end_id for lane in lanes if lane.is_tip], database_of(session))
    places: tuple[Place, ...] = ()
    beginnings: dict[int, Beginning] = {}
    if is_small(lanes):
        # Few enough to read all of them at once, and to mark each.
        starts = [lane.start_id for lane in lanes]
        summaries = [span.summary_id for span in spans if span.cutoff_lane_id in starts]
        on_lanes = Q(lane__in=starts, kind=Kind.MESSAGE) | Q(pk__in=[*starts, *summaries])
        beginnings = _beginnings(session, on_lanes, quotes)
        places = tuple(Place(pk, b.depth, b.lane_id) for pk, b in beginnings.items() if not b.is_summary)
    first = (counted.newer if counted else 0) + 1
    picture = draw(lanes, spans, filled, budget, places, first=first, guests=[lane.start_id for lane in guests])
    if not beginnings:
        beginnings = _beginnings(session, Q(pk__in=picture.ids), quotes)
    return SessionShape(
        lanes=lanes,
        has_older=has_older,
        is_older_page=before is not None,
        counted=counted,
        spans=spans,
        histories=filled,
        picture=picture,
        beginnings=beginnings,
        budget=budget,
    )


def _count(session: ChatSession, before: int | None) -> Counted:
    lanes = ChatMessage.objects.using(database_of(session)).filter(session=session, lane__isnull=True)
    # From the newest on, as their index has them, so that those newer than the page are among the counted.
    newest = lanes.order_by("-id")[: MOST_COUNTED + 1]
    newer = Count("pk", filter=Q(pk__gte=before)) if before else Count("pk", filter=Q(pk__lt=0))
    return Counted(**newest.aggregate(lanes=Count("pk"), newer=newer))


def _trunk(session: ChatSession, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The lane that most of these leave, where it is older than they are."""
    shown = {lane.start_id for lane in lanes}
    left = Counter(lane.parent_lane_id for lane in lanes if lane.parent_lane_id and lane.parent_lane_id not in shown)
    if not left:
        return ()
    [(trunk, _)] = left.most_common(1)
    return read_lanes(session, limit=1, before=trunk + 1)


def _beginnings(session: ChatSession, condition: Q, quotes: bool) -> dict[int, Beginning]:
    beginning = Left("content", _TEXT_READ) if quotes else Value(None, CharField())
    rows = (
        ChatMessage.objects.using(database_of(session))
        .filter(condition, session=session)
        .annotate(beginning=beginning)
        .values_list("pk", "beginning", "role", "path_tokens", "depth", "lane_id", "kind")
    )
    return {
        pk: Beginning(
            None if text is None else shortened(text, TEXT), role, tokens, depth, lane_id or pk, kind == Kind.SUMMARY
        )
        for pk, text, role, tokens, depth, lane_id, kind in rows
    }


# -- links and words ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Linked:
    """A mark, a bar or a stretch with the address it leads to and its description."""

    part: Any
    url: str
    name: str
    is_stretch: bool = False


@dataclass(frozen=True, slots=True)
class LinkedLane:
    lane: DrawnLane
    bars: tuple[Linked, ...]
    #: Marks, and the stretches between them, along the lane.
    marks: tuple[Linked, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """A branch in words; addresses may be ""."""

    name: str
    url: str
    forks_from: str
    forks_from_url: str
    messages: int
    tokens: int
    fullness: str
    is_over: bool
    summary: str
    summary_url: str


@dataclass(frozen=True)
class BranchMap:
    """The picture with links and descriptions, and the same as a table."""

    shape: SessionShape
    admin: RecordAdmin
    session: ChatSession

    @property
    def picture(self) -> Picture:
        return self.shape.picture

    @property
    def is_empty(self) -> bool:
        return not self.shape.lanes

    @property
    def name(self) -> str:
        """What the picture shows, for screen readers."""
        bars = sum(len(bar.summary_ids) for lane in self.picture.lanes for bar in lane.bars)
        found = f"{plural(len(self.shape.lanes), 'branch', 'branches')}, {plural(bars, 'summary', 'summaries')}"
        return f"Branch map: {found}. Messages run from left to right; forks are below the branch that they leave."

    @property
    def range(self) -> str:
        """Which of the session's branches these are; "" where they are all."""
        found = self.shape.counted
        if found is None or self.is_empty:
            return ""
        of = number(found.lanes) if found.lanes <= MOST_COUNTED else f"more than {number(MOST_COUNTED)}"
        if found.newer > MOST_COUNTED:
            return f"Branches beyond the newest {number(MOST_COUNTED)}"
        last = found.newer + len(self.shape.lanes[:LANES])
        return f"Branches {number(found.newer + 1)} to {number(last)} of {of}, newest first"

    @property
    def older_before(self) -> int | None:
        """Where the next page begins; None on the last."""
        newest = self.shape.lanes[:LANES]
        return newest[-1].start_id if self.shape.has_older else None

    @property
    def left_out(self) -> str:
        count = self.picture.left_out
        return f"{plural(count, 'more summary', 'more summaries')} not drawn." if count else ""

    @property
    def lanes(self) -> list[LinkedLane]:
        spans = {span.summary_id: span for span in self.shape.spans}
        return [
            LinkedLane(lane, tuple(self._bar(bar, spans) for bar in lane.bars), tuple(self._along(lane)))
            for lane in self.picture.lanes
        ]

    def _message_url(self, pk: int) -> str:
        return self.admin.url("chatmessage_change", pk)

    def _list_url(self, **query: Any) -> str:
        return self.admin.url("chatmessage_changelist", session=self.session.pk, **query)

    def _along(self, lane: DrawnLane) -> list[Linked]:
        marks = [Linked(mark, self._message_url(mark.message_id), self._mark_words(mark, lane)) for mark in lane.marks]
        for part in lane.stretches:
            # The filters of the list have these names.
            url = self._list_url(lane=lane.lane_id, from_depth=part.first, to_depth=part.last)
            marks.append(Linked(part, url, _stretch_words(part, lane), is_stretch=True))
        return sorted(marks, key=lambda linked: (linked.part.depth, linked.part.x))

    def _mark_words(self, mark: Mark, lane: DrawnLane) -> str:
        if mark.kind in (MarkKind.CUTOFF, MarkKind.ANCHOR):
            whose = ", ".join(map(str, mark.summary_ids))
            of = f"summary {whose}" if len(mark.summary_ids) == 1 else f"summaries {whose}"
            retired = ", retired" if mark.is_retired else ""
            name = f"{mark.kind.capitalize()} of {of}{retired}: message {mark.message_id}"
            return self._quoted(name, mark.message_id)
        words = [self._place_words(mark, lane)]
        if mark.forks:
            words.append(f"{plural(mark.forks, 'branch leaves', 'branches leave')} here")
        if mark.kind == MarkKind.TIP and (tip := self.shape.histories.get(mark.message_id)):
            words.append(fullness(tip, self.shape.budget))
        return self._quoted("; ".join(words), mark.message_id)

    def _place_words(self, mark: Mark, lane: DrawnLane) -> str:
        beginning = self.shape.beginnings.get(mark.message_id)
        message = f"message {mark.message_id}" + (f" ({beginning.role})" if beginning else "")
        branch = _branch(lane)
        if mark.kind == MarkKind.TIP:
            return f"Tip of {branch}: {message}"
        if mark.kind == MarkKind.END:
            return f"End of {branch}, only forks continue: {message}"
        if mark.is_start:
            return f"Start of {branch}: {message}"
        return f"{message.capitalize()} of {branch}"

    def _bar(self, bar: Bar, spans: Mapping[int, SummarySpan]) -> Linked:
        if not bar.summary_id:
            words = f"{len(bar.summary_ids)} older live summaries, covering the first {number(bar.last)} messages."
            return Linked(bar, self._list_url(kind=str(Kind.SUMMARY), state="live"), words)
        span = spans[bar.summary_id]
        name = f"Summary {bar.summary_id}"
        if span.generation:
            name += f", generation {span.generation}"
        state = "in use" if bar.is_in_use else "live" if bar.is_live else "retired"
        covered = f"covers {plural(bar.last, 'message')} up to message {span.cutoff_id}"
        if bar.first > 1:
            covered += f", {number(bar.last - bar.first + 1)} of them new"
        words = self._quoted(f"{name}, {state}: {covered}; {plural(span.tokens, 'token')}", bar.summary_id)
        return Linked(bar, self._message_url(bar.summary_id), words)

    def _quoted(self, words: str, message_id: int) -> str:
        """With the beginning of the message, for people who may read it."""
        beginning = self.shape.beginnings.get(message_id)
        if beginning is None or beginning.words is None:
            return f"{words}."
        quote = f"“{_ISOLATE}{beginning.words}{_END_OF_ISOLATE}”" if beginning.words else "No text."
        return f"{words}. {quote}"

    @property
    def table(self) -> list[TableRow]:
        lanes = {lane.start_id: lane for lane in self.shape.lanes}
        numbers = {lane.lane_id: lane.number for lane in self.picture.lanes}
        return [
            self._row(lanes[drawn.lane_id], drawn, numbers) for drawn in self.picture.lanes if not drawn.is_elsewhere
        ]

    def _row(self, lane: Lane, drawn: DrawnLane, numbers: Mapping[int, int]) -> TableRow:
        tip = self.shape.histories.get(lane.end_id)
        summary_id = tip.summary_id if tip else None
        parent = numbers.get(lane.parent_lane_id or 0)
        fork = f"message {lane.parent_id}" + (f" of branch {parent}" if parent else "")
        return TableRow(
            name=_branch(drawn).capitalize(),
            url=self._message_url(lane.end_id),
            forks_from="the start" if lane.parent_id is None else fork,
            forks_from_url=self._message_url(lane.parent_id) if lane.parent_id else "",
            messages=_messages_of(lane),
            tokens=lane.end_path_tokens,
            fullness=fullness(tip, self.shape.budget) if tip else "no tip: only forks continue",
            is_over=drawn.gauge is not None and drawn.gauge.is_over,
            summary=f"Summary {summary_id}" if summary_id else "none",
            summary_url=self._message_url(summary_id) if summary_id else "",
        )


def _branch(lane: DrawnLane) -> str:
    return f"branch {number(lane.number)}" if lane.number else "an older branch"


def _stretch_words(part: Stretch, lane: DrawnLane) -> str:
    depth = f"depth {number(part.first)}" + (f" to {number(part.last)}" if part.last > part.first else "")
    return f"List {plural(part.messages, 'message')} of {_branch(lane)}, {depth}."


def fullness(tip: TipHistory, budget: Budget | None) -> str:
    """The history at a tip, of what is available for it."""
    history = number(tip.history_tokens)
    if budget is None:
        return f"{history} tokens"
    percent = number(tip.history_tokens * 100 // budget.available)
    # Without compaction the available tokens are the only limit.
    limit = f"the threshold of {number(budget.threshold)}" if budget.threshold < budget.available else "what fits"
    over = f", over {limit}" if tip.history_tokens > budget.threshold else ""
    return f"{history} of {number(budget.available)} available tokens: {percent} % full{over}"
