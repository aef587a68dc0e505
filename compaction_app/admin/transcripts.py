"""A branch to read: its messages in order, with what became of each in today's context, and where it was summarized.

A page reads its own messages only. The way to them, and to the hits of a search, goes from lane to lane.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Left, Length

from compaction_app import chat
from compaction_app.admin import contexts
from compaction_app.admin.display import name_and_arguments, place, shortened
from compaction_app.exceptions import CompactionError
from compaction_app.messages.openai_format import attachment_line
from compaction_app.models import ChatMessage, sql
from compaction_app.tree.branches import database_of, path_ids
from compaction_app.values import ChatContext, Kind, Origin

#: Messages of a page, characters of each that are read, and hits of a search that are listed.
PAGE, SHOWN, MOST_HITS = 50, 4_000, 50
#: Characters around a hit, and those of a message in which its place is looked for.
_AROUND, _SEARCHED = 80, 20_000
#: What became of a message, beside the origins of a context.
SUMMARIZED = "summarized"
MARKS: dict[str, tuple[str, str]] = {
    SUMMARIZED: ("Summarized", "the model sees the summary instead"),
    Origin.PINNED: contexts.ORIGINS[Origin.PINNED],
    Origin.VERBATIM: ("Verbatim", "the model sees it in full"),
    Origin.PRUNED: ("Pruned", "the model sees it shortened"),
    contexts.DROPPED: ("Left out", "the model does not see it: it did not fit"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One message."""

    row: ChatMessage
    #: One of ``MARKS``; "" where there is no context.
    mark: str
    #: Its beginning in pieces, each with whether it is the text that was searched for.
    text: tuple[tuple[str, bool], ...]
    #: Characters that are not shown.
    left_out: int
    #: Of the whole text.
    text_url: str
    calls: tuple[str, ...]
    attachments: tuple[str, ...]
    #: Summaries of this branch whose cutoff it is, newest first, with their state in words.
    summaries: tuple[tuple[ChatMessage, str], ...]

    @property
    def place(self) -> str:
        return place(self.row.depth)

    @property
    def mark_words(self) -> str:
        return MARKS[self.mark][0] if self.mark else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A message with the text that was searched for."""

    row: ChatMessage
    before: str
    found: str
    after: str
    #: The last depth of the page that shows it.
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    tip: ChatMessage
    lines: Sequence[Line]
    #: Depths of the first and the last message of the page.
    first: int
    end: int
    #: Why there is no context, so no marks.
    problem: str
    hits: Sequence[Hit] = ()
    has_more_hits: bool = False

    @property
    def earlier(self) -> int | None:
        """The end of the page before."""
        return self.first - 1 if self.first > 1 else None

    @property
    def later(self) -> int | None:
        return min(self.end + PAGE, self.tip.depth) if self.end < self.tip.depth else None

    @property
    def marks(self) -> list[tuple[str, str, str]]:
        """(mark, name, meaning) of those on this page."""
        here = {line.mark for line in self.lines}
        return [(mark, *words) for mark, words in MARKS.items() if mark in here]


def transcript_of(
    tip: ChatMessage, text_url: Callable[[ChatMessage, str], str], *, end: int | None = None, text: str = ""
) -> Transcript:
    """The page of a branch that ends at depth ``end``, by default at its tip; ``text`` is searched for."""
    using = database_of(tip)
    end = min(max(end or tip.depth, 1), tip.depth)
    first = max(1, end - PAGE + 1)
    stretch = contexts.stretch(tip.pk, using, first=first, last=end)
    ids = path_ids(stretch.last.pk, using, first) if stretch else []
    rows = list(_read(ChatMessage.objects.using(using).filter(pk__in=ids)).order_by("depth"))
    context, problem = None, ""
    try:
        context = chat.get_context(tip)
    except CompactionError as error:
        problem = str(error)
    lanes = _lanes(tip.pk, using)
    summaries = _summaries(rows, lanes, context, using)
    cutoff = _depth_of(context.cutoff_id, using) if context and context.cutoff_id else 0
    sent = {message.message_id: message.origin for message in context.messages} if context else {}
    hits = _hits(tip, text, using) if text else []
    return Transcript(
        tip=tip,
        lines=[
            _line(
                row,
                _mark(row, sent, cutoff) if context else "",
                _pieces(row.beginning, text),
                text_url(row, "content"),
                summaries.get(row.pk, ()),
            )
            for row in rows
        ],
        first=first,
        end=end,
        problem=problem,
        hits=hits[:MOST_HITS],
        has_more_hits=len(hits) > MOST_HITS,
    )


def _read(rows: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
    """Without what a page does not show: a text may be four megabytes long."""
    lean = rows.defer("content", "reasoning", "original", "usage", "metadata", "sent_context")
    found: QuerySet[ChatMessage] = lean.annotate(beginning=Left("content", SHOWN), characters=Length("content"))
    return found


def _line(
    row: Any,
    mark: str,
    text: tuple[tuple[str, bool], ...],
    text_url: str,
    summaries: tuple[tuple[ChatMessage, str], ...],
) -> Line:
    return Line(
        row=row,
        mark=mark,
        text=text,
        left_out=max(0, row.characters - SHOWN),
        text_url=text_url,
        calls=tuple(shortened("{}({})".format(*name_and_arguments(call)), 400) for call in row.tool_calls or ()),
        attachments=tuple(attachment_line(attachment) for attachment in row.attachments or ()),
        summaries=summaries,
    )


def _pieces(text: str, searched: str) -> tuple[tuple[str, bool], ...]:
    # Of what is split by a group, every second piece is the group.
    parts = re.split(f"({re.escape(searched)})", text, flags=re.IGNORECASE) if searched else [text]
    return tuple((part, n % 2 == 1) for n, part in enumerate(parts) if part)


def _mark(row: ChatMessage, sent: Mapping[int | None, Origin], cutoff: int) -> str:
    if row.pk in sent:
        return sent[row.pk]
    return SUMMARIZED if row.depth <= cutoff else contexts.DROPPED


def _depth_of(message_id: int, using: str) -> int:
    return ChatMessage.objects.using(using).filter(pk=message_id).values_list("depth", flat=True).first() or 0


def _lanes(node_id: int, using: str) -> dict[int, int]:
    """The lanes of a branch, each with the depth down to which its messages are on the branch."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql.LANES_OF_BRANCH, {"node": node_id})
        return dict(cursor.fetchall())


def _summaries(
    rows: Sequence[ChatMessage], lanes: Mapping[int, int], context: ChatContext | None, using: str
) -> dict[int, tuple[tuple[ChatMessage, str], ...]]:
    """Summaries that apply to this branch, or did, by the id of their cutoff."""
    cutoffs = [row.pk for row in rows]
    found = ChatMessage.objects.using(using).filter(kind=Kind.SUMMARY, last_summarized_message__in=cutoffs)
    by_cutoff: dict[int, tuple[tuple[ChatMessage, str], ...]] = {}
    for summary in found.defer("content", "ledger", "metadata").order_by("-id"):
        # A summary is on its anchor's lane, one level below it.
        if summary.depth - 1 <= lanes.get(summary.lane_id or 0, 0):
            if summary.retired_at is not None:
                state = "retired"
            else:
                state = "in use" if context and context.summary_id == summary.pk else "a newer one is used"
            cutoff = summary.last_summarized_message_id or 0
            by_cutoff[cutoff] = (*by_cutoff.get(cutoff, ()), (summary, state))
    return by_cutoff


def _hits(tip: ChatMessage, text: str, using: str) -> list[Hit]:
    """Messages of the branch that contain a text, the newest first."""
    on_branch = RawSQL(sql.IDS_OF_BRANCH, [tip.pk])  # noqa: S611  # names of tables, never a value
    rows = ChatMessage.objects.using(using).filter(pk__in=on_branch, content__icontains=text)
    beginnings = {"beginning": Left("content", _SEARCHED), "characters": Length("content")}
    found = rows.only("depth", "role").annotate(**beginnings).order_by("-depth")
    return [_hit(row, text, tip) for row in found[: MOST_HITS + 1]]


def _hit(row: Any, text: str, tip: ChatMessage) -> Hit:
    beginning, end = row.beginning, min(tip.depth, row.depth + PAGE // 2)
    found = re.search(re.escape(text), beginning, re.IGNORECASE)
    if found is None:
        return Hit(row=row, before=f"{beginning[:_AROUND]}…", found="", after=" (further down)", end=end)
    before = beginning[max(0, found.start() - _AROUND) : found.start()]
    after = beginning[found.end() : found.end() + _AROUND]
    is_cut = found.end() + _AROUND < row.characters
    return Hit(
        row=row,
        before=("…" if found.start() > _AROUND else "") + before,
        found=found[0],
        after=after + ("…" if is_cut else ""),
        end=end,
    )
