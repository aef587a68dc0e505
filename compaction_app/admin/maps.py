"""The branch map of a session's page: read by lanes, drawn by ``branch_map``, and told in words.

Four queries, whatever there is of messages: the lanes of a page, the summaries, what counts at the tips, and the
beginnings of what has a mark; two more where there are several pages, for their count and for the branch that most
lanes of this one leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import CharField, Count, Q, Value
from django.db.models.functions import Left

from compaction_app.admin.branch_map import draw, is_small
from compaction_app.admin.display import number, shortened
from compaction_app.admin.map_parts import Bar, DrawnLane, Mark, MarkKind, Picture, Place, Stretch
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.tree.lanes import Lane, SummarySpan, TipHistory, histories_at, read_lanes, read_summary_spans
from compaction_app.values import Budget, Kind

#: Lanes of one page.
LANES = 60
#: The newest lanes are counted up to so many.
MOST_COUNTED = 10_000
#: The newest summaries, of which the map draws some.
SUMMARIES = 200
#: Characters of a message that a mark tells.
TEXT = 120
#: Read of it, so that white space may be taken out.
_TEXT_READ = 4 * TEXT
# Around a text, so that a right-to-left one does not turn the words about it.
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a message or a summary begins."""

    #: None where the person who looks may not read messages.
    words: str | None
    role: str
    path_tokens: int
    depth: int
    lane_id: int
    is_summary: bool


@dataclass(frozen=True, slots=True)
class Linked:
    """A mark or a bar with the page it leads to and what it says."""

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
class Counted:
    """Lanes of the whole session, and those newer than the page; ``MOST_COUNTED`` + 1 stands for more."""

    lanes: int
    newer: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """A branch in words; texts are as they are shown, links may be ""."""

    name: str
    url: str
    forks_from: str
    forks_from_url: str
    messages: str
    tokens: str
    fullness: str
    is_over: bool
    summary: str
    summary_url: str


@dataclass(frozen=True, kw_only=True)
class SessionShape:
    """What was read of a session: its lanes, newest first, and what is known of them."""

    lanes: tuple[Lane, ...]
    #: There are older lanes than these.
    has_older: bool
    #: These are not the newest.
    is_older_page: bool
    #: None where one page shows all.
    counted: Counted | None
    spans: tuple[SummarySpan, ...]
    fillings: Mapping[int, TipHistory]
    picture: Picture
    beginnings: Mapping[int, Beginning]
    budget: Budget | None

    @property
    def is_whole(self) -> bool:
        return not (self.has_older or self.is_older_page)

    @property
    def messages(self) -> int:
        """Messages of these lanes: each message stands on one lane."""
        return sum(messages_of(lane) for lane in self.lanes)

    @property
    def tokens(self) -> int:
        """Tokens of these lanes as they are stored."""
        forks = (self.beginnings.get(lane.parent_id or 0) for lane in self.lanes)
        above = (fork.path_tokens for fork in forks if fork)
        return sum(lane.end_path_tokens for lane in self.lanes) - sum(above)

    @property
    def fullest(self) -> TipHistory | None:
        return max(self.fillings.values(), key=lambda filling: filling.history_tokens, default=None)


def messages_of(lane: Lane) -> int:
    return lane.end_depth - lane.start_depth + 1


def read_shape(
    session: ChatSession, budget: Budget | None, before: int | None = None, *, quotes: bool = True
) -> SessionShape:
    """One page of a session's lanes with all that is drawn of them; without ``quotes`` no text is read."""
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
        # So few that all are read at once, and marked.
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
        fillings=filled,
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


def _words(text: str | None) -> str | None:
    return None if text is None else shortened(text, TEXT)


# -- in words ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BranchMap:
    """The picture with its links and words, and the same as a table."""

    shape: SessionShape
    url_of: Callable[[int], str]
    #: The list of the session's live summaries.
    summaries_url: str
    #: The list of messages of a lane, known by its first one, from one depth to another.
    stretch_url: Callable[[int, int, int], str]
    numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        numbers = {lane.lane_id: lane.number for lane in self.shape.picture.lanes}
        object.__setattr__(self, "numbers", numbers)

    @property
    def picture(self) -> Picture:
        return self.shape.picture

    @property
    def is_empty(self) -> bool:
        return not self.shape.lanes

    @property
    def name(self) -> str:
        """What the picture shows, for those who do not see it."""
        bars = sum(len(bar.summary_ids) for lane in self.picture.lanes for bar in lane.bars)
        lanes = len(self.shape.lanes)
        found = f"{counted_as(lanes, 'branch', 'branches')}, {counted_as(bars, 'summary', 'summaries')}"
        return f"Branch map: {found}. Messages run from left to right, forks below what they leave."

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
        return f"Branches {number(found.newer + 1)} to {number(last)} of {of}, the newest first"

    @property
    def older_before(self) -> int | None:
        """From where the next page goes on; None on the last."""
        newest = self.shape.lanes[:LANES]
        return newest[-1].start_id if self.shape.has_older else None

    @property
    def left_out(self) -> str:
        count = self.picture.left_out
        return f"{counted_as(count, 'more summary', 'more summaries')} not drawn." if count else ""

    @property
    def lanes(self) -> list[LinkedLane]:
        spans = {span.summary_id: span for span in self.shape.spans}
        return [
            LinkedLane(
                lane,
                tuple(self._bar(bar, spans) for bar in lane.bars),
                tuple(self._along(lane)),
            )
            for lane in self.picture.lanes
        ]

    def _along(self, lane: DrawnLane) -> list[Linked]:
        marks = [Linked(mark, self.url_of(mark.message_id), self._of_mark(mark, lane)) for mark in lane.marks]
        stretches = [
            Linked(part, self.stretch_url(lane.lane_id, part.first, part.last), self._of_stretch(part, lane), True)
            for part in lane.stretches
        ]
        return sorted([*marks, *stretches], key=lambda linked: (linked.part.depth, linked.part.x))

    @property
    def table(self) -> list[TableRow]:
        lanes = {lane.start_id: lane for lane in self.shape.lanes}
        return [self._of_lane(lanes[drawn.lane_id], drawn) for drawn in self.picture.lanes if not drawn.is_elsewhere]

    def _of_lane(self, lane: Lane, drawn: DrawnLane) -> TableRow:
        filling = self.shape.fillings.get(lane.end_id)
        summary_id = filling.summary_id if filling else None
        return TableRow(
            name=_branch(drawn).capitalize(),
            url=self.url_of(lane.end_id),
            forks_from="the beginning" if lane.parent_id is None else self._fork_of(lane),
            forks_from_url=self.url_of(lane.parent_id) if lane.parent_id else "",
            messages=number(messages_of(lane)),
            tokens=number(lane.end_path_tokens),
            fullness=fullness(filling, self.shape.budget) if filling else "ends in forks only",
            is_over=drawn.gauge is not None and drawn.gauge.is_over,
            summary=f"Summary {summary_id}" if summary_id else "none",
            summary_url=self.url_of(summary_id) if summary_id else "",
        )

    def _fork_of(self, lane: Lane) -> str:
        of = self.numbers.get(lane.parent_lane_id or 0)
        return f"message {lane.parent_id}" + (f" of branch {of}" if of else "")

    def _of_mark(self, mark: Mark, lane: DrawnLane) -> str:
        if mark.kind in (MarkKind.CUTOFF, MarkKind.ANCHOR):
            whose = ", ".join(map(str, mark.summary_ids))
            of = f"summary {whose}" if len(mark.summary_ids) == 1 else f"summaries {whose}"
            retired = ", retired" if mark.is_retired else ""
            return self._told(f"{mark.kind.capitalize()} of {of}{retired}: message {mark.message_id}", mark.message_id)
        said = [self._role_of(mark, lane)]
        if mark.forks:
            said.append(f"{counted_as(mark.forks, 'branch leaves', 'branches leave')} here")
        if mark.kind == MarkKind.TIP and (filling := self.shape.fillings.get(mark.message_id)):
            said.append(fullness(filling, self.shape.budget))
        return self._told("; ".join(said), mark.message_id)

    def _role_of(self, mark: Mark, lane: DrawnLane) -> str:
        beginning = self.shape.beginnings.get(mark.message_id)
        message = f"message {mark.message_id}" + (f" ({beginning.role})" if beginning else "")
        branch = _branch(lane)
        if mark.kind == MarkKind.TIP:
            return f"Tip of {branch}: {message}"
        if mark.kind == MarkKind.END:
            return f"End of {branch}, where only forks go on: {message}"
        if mark.is_start:
            return f"Beginning of {branch}: {message}"
        return f"{message.capitalize()} of {branch}"

    def _of_stretch(self, part: Stretch, lane: DrawnLane) -> str:
        depth = f"depth {number(part.first)}" + (f" to {number(part.last)}" if part.last > part.first else "")
        return f"{counted_as(part.messages, 'message', 'messages')} of {_branch(lane)}, {depth}: list them."

    def _bar(self, bar: Bar, spans: Mapping[int, SummarySpan]) -> Linked:
        if bar.summary_id:
            return Linked(bar, self.url_of(bar.summary_id), self._of_bar(bar, spans))
        said = f"{len(bar.summary_ids)} older live summaries as one bar, of the first {number(bar.last)} messages."
        return Linked(bar, self.summaries_url, said)

    def _of_bar(self, bar: Bar, spans: Mapping[int, SummarySpan]) -> str:
        span = spans[bar.summary_id]
        said = f"Summary {bar.summary_id}"
        if span.generation:
            said += f", generation {span.generation}"
        state = "in use" if bar.is_in_use else "live" if bar.is_live else "retired"
        covered = f"covers {counted_as(bar.last, 'message', 'messages')} up to message {span.cutoff_id}"
        if bar.first > 1:
            covered += f", {number(bar.last - bar.first + 1)} of them new"
        tokens = counted_as(span.tokens, "token", "tokens")
        return self._told(f"{said}, {state}: {covered}; {tokens}", bar.summary_id)

    def _told(self, said: str, message_id: int) -> str:
        beginning = self.shape.beginnings.get(message_id)
        if beginning is None or beginning.words is None:
            return f"{said}."
        words = f"“{_ISOLATE}{beginning.words}{_END_OF_ISOLATE}”" if beginning.words else "No text."
        return f"{said}. {words}"


def _branch(lane: DrawnLane) -> str:
    return f"branch {number(lane.number)}" if lane.number else "an older branch"


def fullness(filling: TipHistory, budget: Budget | None) -> str:
    """What counts at a tip, of what is available there."""
    history = number(filling.history_tokens)
    if budget is None:
        return f"{history} tokens"
    percent = number(filling.history_tokens * 100 // budget.available)
    # Where compaction is off nothing but the room itself is a limit.
    limit = f"the threshold of {number(budget.threshold)}" if budget.threshold < budget.available else "what fits"
    over = f", over {limit}" if filling.history_tokens > budget.threshold else ""
    return f"{history} of {number(budget.available)} available tokens: {percent} % full{over}"


def counted_as(count: int, one: str, many: str) -> str:
    """``1 branch``, ``2 branches``."""
    return f"{number(count)} {one if count == 1 else many}"
