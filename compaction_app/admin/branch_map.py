"""The branch map of a session's page: read by lanes, laid out by ``map_layout``, with links and words for each part.

Four queries, whatever the number of messages: the lanes of a page, the summaries, the token counts at the tips, and
the beginnings of the messages that have a mark. Two more where there are several pages: for their count, and for the
lane that most lanes of this page leave.
"""

from __future__ import annotations

from statistics import mode
from typing import Any, NamedTuple

from django.db.models import CharField, Count, Q, QuerySet, Value
from django.db.models.functions import Left
from django.utils.html import format_html

from compaction_app.admin.display import link, number, place, plural, shortened
from compaction_app.admin.map_layout import Bar, DrawnLane, Mark, Place, Shape, draw, gauge_of, is_small
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import TipHistory, database_of
from compaction_app.tree.lanes import Lane, histories_at, read_lanes, read_summary_spans
from compaction_app.values import Budget, Kind

#: Lanes of one page, and how many are too many for the table to be open.
LANES, FEW = 60, 20
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


class TableRow(NamedTuple):
    """A branch in words, with links where there is a page to lead to."""

    name: str
    #: "" for people who may not read it.
    text: str
    forks_from: str
    messages: int
    tokens: int
    fullness: str
    is_over: bool
    summary: str


class BranchMap:
    """One page of a session's lanes, newest first, as a picture with links and descriptions, and as a table."""

    def __init__(
        self, admin: RecordAdmin, session: ChatSession, budget: Budget | None, before: int | None, *, quotes: bool
    ) -> None:
        """The lanes that begin before that message, or the newest; without ``quotes`` no text is read."""
        self.admin, self.session, self.budget, self.quotes = admin, session, budget, quotes
        page = read_lanes(session, limit=LANES + 1, before=before)
        #: The lanes of the page, and at the end the one of another page that most of them leave.
        self.lanes = page[:LANES]
        self.is_older_page = before is not None
        #: Where the next page begins; None on the last.
        self.older_before = self.lanes[-1].start_id if len(page) > LANES else None
        #: Lanes of the whole session, ``MOST_COUNTED`` + 1 where there are more; None where one page shows all.
        self.counted: int | None = None
        #: Those newer than the page.
        self.newer = 0
        guests: tuple[Lane, ...] = ()
        if self.older_before or before:
            self.counted, self.newer = self._count(before)
            guests = self._trunk()
            self.lanes += guests
        self.spans = read_summary_spans(session, limit=SUMMARIES)
        self.generations = {span.summary_id: span.generation for span in self.spans}
        tips = [lane.end_id for lane in self.lanes if lane.is_tip]
        self.histories = histories_at(tips, database_of(session))
        self.beginnings: dict[int, Any] = {}
        if is_small(self.lanes):
            # Few enough to read all of them at once, and to mark each.
            starts = [lane.start_id for lane in self.lanes]
            summaries = [span.summary_id for span in self.spans if span.cutoff_lane_id in starts]
            on_lanes = Q(lane__in=starts, kind=Kind.MESSAGE) | Q(pk__in=[*starts, *summaries])
            self.beginnings = self._read_beginnings(on_lanes, quotes)
        messages = (row for row in self.beginnings.values() if row.kind == Kind.MESSAGE)
        self.picture = draw(
            self.lanes,
            self.spans,
            self.histories,
            budget,
            [Place(row.pk, row.depth, row.lane_id or row.pk) for row in messages],
            first=self.newer + 1,
            guests=[lane.start_id for lane in guests],
        )
        if not self.beginnings:
            self.beginnings = self._read_beginnings(Q(pk__in=self.picture.ids), quotes)
        for lane in self.picture.lanes:
            for mark in lane.marks:
                mark.url, mark.name = self._mark(mark, lane)
            for bar in lane.bars:
                bar.url, bar.name = self._bar(bar)

    # -- reading ------------------------------------------------------------------------------------------

    def _messages(self) -> QuerySet[ChatMessage]:
        return ChatMessage.objects.using(database_of(self.session)).filter(session=self.session)

    def _count(self, before: int | None) -> tuple[int, int]:
        """The session's lanes, and those newer than the page."""
        # From the newest on, as their index has them, so that those newer than the page are among the counted.
        newest = self._messages().filter(lane__isnull=True).order_by("-id")[: MOST_COUNTED + 1]
        is_newer = Q(pk__gte=before) if before else Q(pk__lt=0)
        found = newest.aggregate(lanes=Count("pk"), newer=Count("pk", filter=is_newer))
        return found["lanes"], found["newer"]

    def _trunk(self) -> tuple[Lane, ...]:
        """The lane that most of these leave, where it is older than they are."""
        shown = {lane.start_id for lane in self.lanes}
        left = [lane.parent_lane_id for lane in self.lanes if lane.parent_lane_id and lane.parent_lane_id not in shown]
        return read_lanes(self.session, limit=1, before=mode(left) + 1) if left else ()

    def _read_beginnings(self, condition: Q, quotes: bool) -> dict[int, Any]:
        """Messages and summaries by id, with how they begin; without ``quotes`` the beginning is None."""
        beginning = Left("content", _TEXT_READ) if quotes else Value(None, CharField())
        rows = self._messages().filter(condition).annotate(beginning=beginning)
        names = ("pk", "beginning", "role", "path_tokens", "depth", "lane_id", "kind")
        return {row.pk: row for row in rows.values_list(*names, named=True)}

    # -- numbers ------------------------------------------------------------------------------------------

    @property
    def has_few_lanes(self) -> bool:
        """Few enough to read them all in the table."""
        return len(self.lanes) < FEW

    @property
    def is_whole(self) -> bool:
        return self.counted is None

    @property
    def messages(self) -> int:
        """Messages of these lanes: each message is on one lane."""
        return sum(_messages_of(lane) for lane in self.lanes)

    @property
    def tokens(self) -> int:
        """Tokens of these lanes as stored."""
        forks = (self.beginnings.get(lane.parent_id or 0) for lane in self.lanes)
        above: int = sum(fork.path_tokens for fork in forks if fork)
        return sum(lane.end_path_tokens for lane in self.lanes) - above

    @property
    def fullest(self) -> tuple[int, str] | None:
        """The tip with the longest history, and its share of what is available."""
        tip = max(self.histories.values(), key=lambda tip: tip.tokens, default=None)
        return (tip.tip_id, self._fullness(tip)) if tip else None

    # -- words --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What the picture shows, for screen readers."""
        summaries = sum(len(bar.spans) for bar in self.picture.bars)
        found = f"{plural(len(self.lanes), 'branch', 'branches')}, {plural(summaries, 'summary', 'summaries')}"
        return f"Branch map: {found}. Messages run from left to right; forks are below the branch that they leave."

    @property
    def range(self) -> str:
        """Which of the session's branches these are; "" where they are all."""
        if self.counted is None or not self.lanes:
            return ""
        most = number(MOST_COUNTED)
        if self.newer > MOST_COUNTED:
            return f"Branches beyond the newest {most}"
        of = number(self.counted) if self.counted <= MOST_COUNTED else f"more than {most}"
        last = self.newer + len(self.lanes[:LANES])
        return f"Branches {number(self.newer + 1)} to {number(last)} of {of}, newest first"

    @property
    def left_out(self) -> list[str]:
        """Which summaries are not drawn, with a link to their list."""
        found: list[str] = []
        for state, is_live, reason in (("retired", False, ""), ("live", True, " for lack of room")):
            if count := sum(span.is_live == is_live for span in self.picture.left_out):
                words = plural(count, f"{state} summary is", f"{state} summaries are")
                listed = link(
                    self._list_url(kind=str(Kind.SUMMARY), state=state), "list them" if count > 1 else "list it"
                )
                found.append(format_html("{} not drawn{}: {}.", words, reason, listed))
        return found

    def _message_url(self, pk: int) -> str:
        return self.admin.url("chatmessage_change", pk)

    def _list_url(self, **query: Any) -> str:
        return self.admin.url("chatmessage_changelist", session=self.session.pk, **query)

    def _mark(self, mark: Mark, lane: DrawnLane) -> tuple[str, str]:
        """Its address and its description."""
        if mark.shape == Shape.STRETCH:
            places = place(mark.first) + (f" to {place(mark.last)}" if mark.last > mark.first else "")
            words = f"List {plural(mark.last - mark.first + 1, 'message')} of {_branch(lane)}, {places}."
            # The filters of the list have these names.
            return self._list_url(lane=lane.lane_id, from_depth=mark.first, to_depth=mark.last), words
        if mark.is_message:
            words = self._message_words(mark, lane)
        else:
            summaries = "summary" if len(mark.summary_ids) == 1 else "summaries"
            whose = f"{summaries} {', '.join(map(str, mark.summary_ids))}{'' if mark.is_live else ', retired'}"
            words = f"{mark.shape.capitalize()} of {whose}: message {mark.message_id} ({place(mark.first)})"
        return self._message_url(mark.message_id), self._quoted(words, mark.message_id)

    def _message_words(self, mark: Mark, lane: DrawnLane) -> str:
        beginning = self.beginnings.get(mark.message_id)
        role = f", {beginning.role}" if beginning else ""
        message = f"message {mark.message_id} ({place(mark.first)}{role})"
        branch = _branch(lane)
        if mark.shape == Shape.TIP:
            words = f"Tip of {branch}: {message}"
        elif mark.shape == Shape.END:
            words = f"End of {branch}, only forks continue: {message}"
        elif mark.is_start:
            words = f"Start of {branch}: {message}"
        else:
            words = f"{message.capitalize()} of {branch}"
        if mark.forks:
            words += f"; {plural(mark.forks, 'branch leaves', 'branches leave')} here"
        if mark.shape == Shape.TIP and (tip := self.histories.get(mark.message_id)):
            words += f"; {self._fullness(tip)}"
        return words

    def _bar(self, bar: Bar) -> tuple[str, str]:
        """Its address and its description."""
        if not bar.summary_id:
            words = f"{len(bar.spans)} older live summaries, covering the first {number(bar.last)} messages."
            return self._list_url(kind=str(Kind.SUMMARY), state="live"), words
        [span] = bar.spans
        name = self._summary_name(bar.summary_id)
        state = "in use" if bar.is_in_use else "live" if bar.is_live else "retired"
        covered = f"covers {plural(bar.last, 'message')} up to message {span.cutoff_id} ({place(span.cutoff_depth)})"
        if bar.first > 1:
            covered += f", {number(bar.last - bar.first + 1)} of them new"
        words = f"{name}, {state}: {covered}; {plural(span.tokens, 'token')}"
        return self._message_url(bar.summary_id), self._quoted(words, bar.summary_id)

    def _summary_name(self, summary_id: int) -> str:
        """With the number that its bar has."""
        generation = self.generations.get(summary_id)
        return f"Summary {summary_id}" + (f", compaction {generation}" if generation else "")

    def _quoted(self, words: str, message_id: int) -> str:
        """With the beginning of the message, for people who may read it."""
        row = self.beginnings.get(message_id)
        if row is None or row.beginning is None:
            return f"{words}."
        text = shortened(row.beginning, TEXT)
        return f"{words}. “{_ISOLATE}{text}{_END_OF_ISOLATE}”" if text else f"{words}. No text."

    def _fullness(self, tip: TipHistory) -> str:
        """The history at a tip, of what is available for it."""
        budget, history = self.budget, number(tip.tokens)
        if budget is None:
            return f"{history} tokens"
        gauge = gauge_of(tip, budget)
        # Without compaction the available tokens are the only limit.
        limit = f"the threshold of {number(budget.threshold)}" if budget.threshold < budget.available else "what fits"
        over = f", over {limit}" if gauge.is_over else ""
        return f"{number(gauge.percent)} %: {history} of {number(budget.available)} available tokens{over}"

    # -- the table ----------------------------------------------------------------------------------------

    @property
    def table(self) -> list[TableRow]:
        return [self._row(drawn, drawn.lane) for drawn in self.picture.lanes if drawn.lane]

    def _row(self, drawn: DrawnLane, lane: Lane) -> TableRow:
        def to(pk: int, label: str) -> str:
            return self.admin.link_to("chatmessage", pk, label)

        tip = self.histories.get(lane.end_id)
        summary_id = tip.summary_id if tip else None
        parent = drawn.parent
        fork = f"message {lane.parent_id} ({place(lane.start_depth - 1)})"
        if parent and parent.number:
            fork += f" of branch {parent.number}"
        return TableRow(
            name=to(lane.end_id, _branch(drawn).capitalize()),
            text=link(self.admin.url("chatmessage_transcript", lane.end_id), "Transcript") if self.quotes else "",
            forks_from=to(lane.parent_id, fork) if lane.parent_id else "the start",
            messages=_messages_of(lane),
            tokens=lane.end_path_tokens,
            fullness=self._fullness(tip) if tip else "no tip: only forks continue",
            is_over=drawn.gauge is not None and drawn.gauge.is_over,
            summary=to(summary_id, self._summary_name(summary_id)) if summary_id else "none",
        )


def _messages_of(lane: Lane) -> int:
    return lane.end_depth - lane.start_depth + 1


def _branch(lane: DrawnLane) -> str:
    return f"branch {number(lane.number)}" if lane.number else "an older branch"
