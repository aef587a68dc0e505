"""The shape of a session: its lanes, where they fork, how many tokens are at their tips.

A branch is a path through lanes, and its tip is the end of one. Every question here is answered from lanes, of which
there is one per fork, so a conversation of a hundred thousand messages is as fast to draw as one of ten.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, Q, Subquery

from compaction_app.exceptions import MessageNotFound
from compaction_app.messages.validation import MAX_ID
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.database import Near, connection_of, fetch
from compaction_app.tree.branches import TipHistory, check_tip, histories_at
from compaction_app.values import Kind

#: Of a session's branches the newest, where all of them are looked at.
_MOST_LANES = 500


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


def read_lanes(
    row: ChatSession | ChatMessage, *, limit: int = MAX_ID, after: int = 0, before: int | None = None
) -> tuple[Lane, ...]:
    """The newest lanes of the row's session that begin after and before a message, newest first, in one query."""
    # SQLite stores a UUID as text.
    key = ChatSession._meta.pk.get_db_prep_value(row.session_id, connection_of(row))
    chosen = {"session": key, "limit": limit, "after": after, "before": before or MAX_ID}
    rows = fetch(sql.LANES, chosen, row)
    return tuple(Lane(*(*row[:-1], bool(row[-1]))) for row in rows)


def newest_tip(message: ChatMessage) -> ChatMessage:
    """The newest message at ``message`` or below it: the tip where people go on who choose this message.

    Two queries, whose cost depends on the number of forks after the message. Raises
    :class:`~compaction_app.exceptions.MessageNotFound` if it does not exist any more.
    """
    check_tip(message)
    found = newest_tip_below(message)
    if found is None:
        raise MessageNotFound(f"Message {message.pk} does not exist any more.")
    return found


def newest_tip_below(message: ChatMessage) -> ChatMessage | None:
    """:func:`newest_tip`, or None if the message does not exist any more."""
    lane = message.lane_id or message.pk
    newest = _newest_end(message, read_lanes(message, after=message.pk))
    rows = ChatMessage.objects.in_database_of(message).messages()
    own = rows.filter(lane_id=lane, depth__gt=message.depth).order_by("-depth").values("pk")[:1]
    # A message that was deleted may have left its place on the lane to others.
    found = rows.filter(Q(pk__in=[message.pk, newest]) | Q(pk=Subquery(own)), Exists(rows.filter(pk=message.pk)))
    return found.select_related("session").defer("reasoning", "original").order_by("-id").first()


def _newest_end(message: ChatMessage, lanes: Sequence[Lane]) -> int:
    """Of a message and the ends of the lanes below it, newest first, the highest id."""
    # Down from which depth each lane is below the message. Lanes begin after the one they leave.
    depths = {message.lane_id or message.pk: message.depth}
    newest: int = message.pk
    for lane in reversed(lanes):
        if lane.start_id in depths or depths.get(lane.parent_lane_id or 0, MAX_ID) < lane.start_depth:
            depths.setdefault(lane.start_id, 0)
            newest = max(newest, lane.end_id)
    return newest


def newest_tips(messages: Sequence[ChatMessage]) -> dict[int, int]:
    """The id of the newest message at or below each one; one query for each of their sessions. Without those that do
    not exist any more."""
    found, lanes = dict[int, int](), dict[Any, tuple[Lane, ...]]()
    for message in messages:
        if message.session_id not in lanes:
            lanes[message.session_id] = read_lanes(message)
        if any(lane.start_id == (message.lane_id or message.pk) for lane in lanes[message.session_id]):
            found[message.pk] = _newest_end(message, lanes[message.session_id])
    return found


def tips_at_or_below(message_id: int, tip_ids: Collection[int], near: Near) -> set[int]:
    """Those of the tips whose branch contains a message, in one query from lane to lane."""
    if not tip_ids:
        return set()
    statement = sql.TIPS_AT_OR_BELOW.format(tips=sql.places(tip_ids))
    return {tip for (tip,) in fetch(statement, [*tip_ids, message_id], near)}


def is_on_branch(message: ChatMessage, tip: ChatMessage) -> bool:
    """Whether it is a message of the branch that ends at ``tip``, and no summary."""
    return message.kind == Kind.MESSAGE and bool(tips_at_or_below(message.pk or 0, [tip.pk], tip))


def newest_branches(session: ChatSession) -> dict[int, tuple[Lane, TipHistory]]:
    """The newest branches by their tips, each with the lane that it ends and its history, in two queries."""
    lanes = read_lanes(session, limit=_MOST_LANES)
    tips = {lane.end_id: lane for lane in lanes if lane.is_tip}
    return {tip: (tips[tip], history) for tip, history in histories_at(list(tips), session).items()}


def longest_with(newest: Mapping[int, tuple[Lane, TipHistory]], summary_ids: Collection[int]) -> int | None:
    """Of the branches that use one of these summaries, the tip of the one with the most tokens; None: none does."""
    losing = [tip for tip, (_, history) in newest.items() if history.summary_id in summary_ids]
    return max(losing, key=lambda tip: (newest[tip][0].end_path_tokens, tip), default=None)
