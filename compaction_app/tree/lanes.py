"""The shape of a session: its lanes, where they fork, what is summarized on them, how many tokens are at their tips.

A branch is a path through lanes, and its tip is the end of one. Every question here is answered from lanes, of which
there is one per fork, so a conversation of a hundred thousand messages is as fast to draw as one of ten.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import connections
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.tree.branches import TipHistory, database_of
from compaction_app.values import Kind

_ANY_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of messages: each one's first child continues its lane, every other child begins a new one.

    The fields are the columns of ``sql.LANES``.
    """

    #: Its first message, which identifies it.
    start_id: int
    start_depth: int
    #: The message that it forks from, None for a root.
    parent_id: int | None
    #: The lane of that message.
    parent_lane_id: int | None
    end_id: int
    end_depth: int
    #: Tokens from the root to its end.
    end_path_tokens: int
    #: False if its end has children, all in other lanes: the one that continued this lane was deleted.
    is_tip: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SummarySpan:
    """Where a summary is in the tree: it covers up to its cutoff, and applies from its anchor down."""

    summary_id: int
    generation: int | None
    tokens: int
    retired_at: datetime | None
    anchor_id: int
    anchor_depth: int
    anchor_lane_id: int
    cutoff_id: int
    cutoff_depth: int
    cutoff_lane_id: int

    @property
    def is_live(self) -> bool:
        return self.retired_at is None


def read_lanes(session: ChatSession, *, limit: int = 60, before: int | None = None) -> tuple[Lane, ...]:
    """The newest lanes, newest first, in one query; with ``before`` those that begin before that message."""
    connection = connections[database_of(session)]
    # SQLite stores a UUID as text.
    key = ChatSession._meta.pk.get_db_prep_value(session.pk, connection)
    with connection.cursor() as cursor:
        cursor.execute(sql.LANES, {"session": key, "before": before or _ANY_ID, "limit": limit})
        return tuple(Lane(*(*row[:-1], bool(row[-1]))) for row in cursor.fetchall())


def read_summary_spans(session: ChatSession, *, limit: int = 200) -> tuple[SummarySpan, ...]:
    """The newest summaries, live and retired, newest first, in one query without text."""
    made_by = CompactionRun.objects.filter(summary=OuterRef("pk")).order_by("id")
    # The condition on the cutoff is implied by the kind; it makes the database use the partial index on cutoffs.
    summaries = (
        ChatMessage.objects.using(database_of(session))
        .filter(session=session, kind=Kind.SUMMARY, last_summarized_message__isnull=False)
        .order_by("-id")
        .values(
            "retired_at",
            summary_id=F("pk"),
            generation=Subquery(made_by.values("generation")[:1]),
            tokens=F("token_count"),
            anchor_id=F("parent_message_id"),
            anchor_depth=F("depth") - 1,
            anchor_lane_id=F("lane_id"),
            cutoff_id=F("last_summarized_message_id"),
            cutoff_depth=F("last_summarized_message__depth"),
            cutoff_lane_id=Coalesce("last_summarized_message__lane_id", "last_summarized_message_id"),
        )
    )
    return tuple(SummarySpan(**row) for row in summaries[:limit])


def histories_at(tip_ids: Collection[int], using: str) -> dict[int, TipHistory]:
    """The history at each of these tips, in one query from lane to lane. Deleted tips are left out."""
    if not tip_ids:
        return {}
    places = ", ".join(["%s"] * len(tip_ids))
    with connections[using].cursor() as cursor:
        cursor.execute(sql.HISTORIES_AT_TIPS.format(tips=places), list(tip_ids))
        return {
            tip_id: TipHistory(tip_id=tip_id, summary_id=summary_id, tokens=tokens)
            for tip_id, summary_id, tokens in cursor.fetchall()
        }
