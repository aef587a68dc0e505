"""Reads a branch from the database and returns it as a :class:`values.Branch`.

The chat turn, the background work, the admin and the API all read here what applies at a tip, so an inspection shows
what the model sees. The statements of ``sql`` decide which summary applies: its anchor is on the path, and the live one
that is nearest to the tip wins; of several on one anchor, the newest. Code that only needs the rows of a path (the node
API, a page of a transcript, the exporter) uses other statements of ``sql`` instead.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

from django.db.models import DateTimeField, JSONField
from django.db.models.expressions import RawSQL
from django.utils import timezone

from compaction_app.conf import MAX_INTEGER
from compaction_app.exceptions import InvalidMessage, InvalidParent, MessageNotFound
from compaction_app.messages.validation import MAX_ID, canonical
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.models.database import Near, connection_of, database_of, fetch
from compaction_app.models.sql import Row
from compaction_app.values import PERSON, Branch, Kind, Message, Origin, Summary

#: A pruned result has at least one token for this many bytes; no o200k text is known with more bytes per token.
_DENSEST_BYTES_PER_TOKEN = 32


#: Whose values are not those of the driver on every database.
_CONVERTED = [
    field.name
    for field in ChatMessage._meta.concrete_fields
    if field.name in Row._fields and isinstance(field, JSONField | DateTimeField)
]


def read_rows(statement: str, parameters: Mapping[str, Any], near: Near) -> list[Row]:
    """The rows of a statement that selects ``sql.VALUES``, and a part if there are several."""
    connection, rows = connection_of(near), [[*values] for values in fetch(statement, parameters, near)]
    for name in _CONVERTED:
        at = Row._fields.index(name)
        if found := [row for row in rows if row[at] is not None]:
            # As a query of the field would do it.
            column = ChatMessage._meta.get_field(name).get_col(sql.MESSAGES)
            steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
            for row, step in product(found, steps):
                row[at] = step(row[at], column, connection)
    return [Row(*row) for row in rows]


class TipHistory(NamedTuple):
    """The history at a tip, read without content: the numbers that the trigger compares."""

    tip_id: int
    #: The newest summary that applies there.
    summary_id: int | None
    #: Tokens of the summary, the pins, the turn's request and everything after the cutoff.
    tokens: int


def check_instance(value: Any, model: type[ChatMessage] | type[ChatSession], name: str) -> None:
    """Raise :class:`InvalidMessage` naming the argument if it is not an instance of ``model``."""
    if not isinstance(value, model):
        raise InvalidMessage(f"{name} must be a {model.__name__}, not {type(value).__name__}.", field=name)


def check_tip(tip: ChatMessage) -> None:
    check_instance(tip, ChatMessage, "tip")
    if tip.pk is None:
        raise MessageNotFound("The message has not been stored yet.")
    if tip.kind == Kind.SUMMARY:
        raise InvalidParent(
            "A summary is not a tip: pass the message at the end of the branch, such as its anchor.", field="tip"
        )


def histories_at(tip_ids: Collection[int], near: Near) -> dict[int, TipHistory]:
    """The history at each of these tips, in one query however long the branches are. Deleted tips are left out."""
    if not tip_ids:
        return {}
    rows = fetch(sql.HISTORIES.format(tips=sql.places(tip_ids)), list(tip_ids), near)
    return {row[0]: TipHistory(*row) for row in rows}


def history_at(tip: ChatMessage) -> TipHistory:
    found = histories_at([tip.pk], tip).get(tip.pk)
    if found is None:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more.")
    return found


def session_and_history(tip: ChatMessage) -> tuple[ChatSession, TipHistory] | None:
    """The session of a tip and the history there in one statement; None if the message does not exist any more."""
    found: Any = next(iter(ChatSession.objects.in_database_of(tip).raw(sql.SESSION_AND_HISTORY, [tip.pk])), None)
    if found is None:
        return None
    return found, TipHistory(tip.pk, found.applied_summary_id, found.history_tokens)


def _pruned_tokens(prune_bytes: int) -> int:
    return max(1, prune_bytes // _DENSEST_BYTES_PER_TOKEN)


def load_window(
    tip: ChatMessage, *, limit: int, preserve: int, prune_bytes: int, largest_summary: int = MAX_INTEGER
) -> tuple[Branch, dict[str, Any]]:
    """The branch as far back as ``limit`` tokens reach, and what of its session a context depends on, in one query.

    A summary of more than ``largest_summary`` tokens is passed over for an older one, or for none.
    """
    parameters = {
        "tip": tip.pk,
        "limit": limit,
        "largest_summary": largest_summary,
        "preserve": preserve,
        "pruned": _pruned_tokens(prune_bytes),
    }
    rows = read_rows(sql.CONTEXT, parameters, tip)
    branch, of_session = _branch(tip, rows), next(row for row in rows if row.part == "session")
    stored = {"system_prompt": of_session.content, "settings": of_session.tool_calls}
    return branch, {**stored, "model": of_session.name, "token_calibration": of_session.reasoning}


def load_shared_extract(
    branch: Branch, tip: ChatMessage, *, limit: int, prune_bytes: int, count: Callable[[str], int]
) -> Branch | None:
    """The branch with the extract of a summary that is anchored on another branch, and every message after its cutoff.

    Of the live ones it is that with the deepest cutoff, deeper than the one in use; None if there is none within
    ``limit`` tokens. One query. ``count``: tokens of a summary with this text.
    """
    parameters = {
        "tip": branch.tip_id,
        "above": branch.base.cutoff_depth if branch.base else 0,
        "limit": limit,
        "pruned": _pruned_tokens(prune_bytes),
    }
    parts = {row.part: row for row in read_rows(sql.SHARED_EXTRACT, parameters, tip)}
    if "summary" not in parts:
        return None
    base = summary_value(parts["summary"], parts["cutoff"], parts.get("request"))
    told, tokens = base.extract, count(base.extract)
    base = replace(base, content=told, tokens=tokens, ledger="", extract="", is_extract=True, is_shared=True)
    tail = tuple(message for message in branch.tail if message.depth > base.cutoff_depth)
    unread = branch.tip_depth - base.cutoff_depth - len(tail)
    # Its cutoff is the deepest of all, so nothing is missing of a newer summary that was passed over.
    shared = replace(branch, base=base, tail=tail, unread=0, unread_tokens=0, is_without_newest_summary=False)
    return None if unread else shared


def load_whole_tail(tip: ChatMessage, zone: str | None = None, *, with_content: bool = True) -> Branch:
    """The whole tail: for a summarizer with content, for planning without. ``zone``: see :func:`message_value`."""
    statement = sql.WHOLE_TAIL if with_content else sql.STRUCTURE
    return _branch(tip, read_rows(statement, {"tip": tip.pk, "pruned": 1}, tip), zone)


def load_end(
    tip: ChatMessage, length: int, base: ChatMessage | None, zone: str | None = None, *, with_content: bool = True
) -> Branch:
    """The last ``length`` messages of a branch as if nothing came before them, or those after the cutoff of ``base``,
    a summary of the first of them. What was erased of that is not known any more, so it is none then."""
    path = ChatMessage.objects.in_database_of(tip).filter(pk=tip.pk).values_list("depth", flat=True)
    if (depth := path.first()) is None:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more.")
    summary = None
    if base is not None and base.redacted_at is None and base.last_summarized_message is not None:
        summary = summary_value(base, base.last_summarized_message, base.pinned_message, zone)
    statement = sql.PATH_VALUES if with_content else sql.PATH_STRUCTURE
    first = (summary.cutoff_depth if summary else depth - length) + 1
    branch = _branch(tip, read_rows(statement, {"node": tip.pk, "min_depth": first}, tip), zone)
    return replace(branch, base=summary, unread=0, unread_tokens=0)


def load_verbatim(tip: ChatMessage) -> Branch:
    """Root → tip without a summary, for ``MODE = "off"``."""
    return _branch(tip, read_rows(sql.PATH_VALUES, {"node": tip.pk, "min_depth": 1}, tip))


def load_path(node_id: int, near: Near, min_depth: int, zone: str | None = None) -> list[Message]:
    """The messages from a depth down to a node, in order. ``zone``: see :func:`message_value`."""
    rows = read_rows(sql.PATH_VALUES, {"node": node_id, "min_depth": min_depth}, near)
    return [message_value(row, zone) for row in rows]


def unread_message(near: ChatMessage | ChatSession | CompactionRun, pk: int) -> ChatMessage:
    """A message of the same session by its id alone."""
    message = ChatMessage(pk=pk, session_id=near.session_id)
    message._state.db = database_of(near)
    return message


def find_summary_for_branch(tip: ChatMessage) -> ChatMessage | None:
    """The summary that applies at ``tip``, or None: the first live one on the way up, so that with the deepest anchor.

    It is a message with ``is_summary``: ``text`` is what a model is shown of it, ``parent`` its anchor,
    ``last_summarized_message`` its cutoff.
    """
    check_tip(tip)
    summary_id = history_at(tip).summary_id
    # It may be deleted at this very moment, with its branch.
    return ChatMessage.objects.in_database_of(tip).filter(pk=summary_id).first() if summary_id else None


def get_branch(tip: ChatMessage) -> list[ChatMessage]:
    """The messages from the root to ``tip`` in order, without summaries: the transcript that people see."""
    check_tip(tip)
    return ChatMessage.objects.get_path(tip)


def path_ids(node: ChatMessage, min_depth: int = 1) -> list[int]:
    """Ids from ``node`` up to ``min_depth``."""
    return [pk for pk, _ in fetch(sql.PATH_IDS, {"node": node.pk, "min_depth": min_depth}, node)]


def tips(session: ChatSession, below: int | None = None) -> list[ChatMessage]:
    """The last message of every branch, oldest first; empty where nothing is stored. Summaries are not counted.

    ``below``: only of branches that contain the message with this id. The cost depends on lanes, not on messages.
    """
    check_instance(session, ChatSession, "session")
    # SQLite stores a UUID as text.
    key = ChatSession._meta.pk.get_db_prep_value(session.pk, connection_of(session))
    # Formatted in are names of tables, never a value.
    found = ChatMessage.objects.in_database_of(session).filter(pk__in=RawSQL(sql.TIPS, [key]))  # noqa: S611
    if below is not None:
        # No database takes a larger number, and no message has it.
        found = found.filter(pk__in=RawSQL(sql.NODE_AND_BELOW, [max(0, min(below, MAX_ID))]))  # noqa: S611
    return list(found.order_by("id").defer("reasoning", "original"))


def variants(message: ChatMessage) -> list[ChatMessage]:
    """The message and its siblings, oldest first: each edit and each regeneration adds one. Never a summary.

    "2 of 3" in a front end: ``variants(message).index(message) + 1`` of ``len(variants(message))``.
    """
    check_instance(message, ChatMessage, "message")
    return list(ChatMessage.objects.get_siblings(message).filter(kind=Kind.MESSAGE))


def message_value(row: Row | ChatMessage, zone: str | None = None) -> Message:
    """``zone``: the setting ``TIME_ZONE``, in which its time is given; None means Django's.

    Whatever zone a request has activated: a summary contains dates, and the worker that makes it must see the same ones
    as the page that shows it.
    """
    in_zone = ZoneInfo(zone) if zone else timezone.get_default_timezone()
    return Message(
        id=row.id,
        depth=row.depth,
        role=row.role,
        tokens=row.token_count,
        content=row.content,
        tool_calls=tuple(canonical(row.tool_calls)) if row.tool_calls else (),
        tool_call_id=row.tool_call_id,
        name=row.name,
        reasoning=row.reasoning and canonical(row.reasoning),
        original=row.original and canonical(row.original),
        attachments=tuple(canonical(row.attachments)) if row.attachments else (),
        created_at=row.created_at and timezone.localtime(row.created_at, in_zone),
    )


def summary_value(
    row: Row | ChatMessage, cutoff: Row | ChatMessage, turn_request: Row | ChatMessage | None, zone: str | None = None
) -> Summary:
    return Summary(
        id=row.id,
        # A database constraint guarantees that a summary has a parent.
        anchor_id=cast(int, row.parent_message_id),
        anchor_depth=row.depth - 1,
        cutoff_id=cutoff.id,
        cutoff_depth=cutoff.depth,
        cutoff_path_tokens=cutoff.path_tokens,
        tokens=row.token_count,
        content=row.content,
        ledger=row.ledger,
        # As the driver returns it: 0 or 1 on SQLite.
        is_extract=bool(row.is_extract),
        # A row has it in place of a name.
        by_person=(row.model if isinstance(row, ChatMessage) else row.name) == PERSON,
        extract=row.extract,
        memory=row.memory,
        turn_request=message_value(turn_request, zone) if turn_request else None,
    )


def _branch(tip: ChatMessage, rows: Sequence[Row], zone: str | None = None) -> Branch:
    if not rows:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more.")
    parts: dict[str, Row] = {row.part: row for row in rows if row.part not in ("tail", "pin")}
    base, cutoff_depth, cutoff_tokens = None, 0, 0
    if "summary" in parts:
        cutoff_depth, cutoff_tokens = parts["cutoff"].depth, parts["cutoff"].path_tokens
        base = summary_value(parts["summary"], parts["cutoff"], parts.get("request"), zone)
    after = [row for row in rows if row.depth > cutoff_depth and row.part == "tail"]
    after.sort(key=attrgetter("depth"))
    tip_depth, tip_tokens = (after[-1].depth, after[-1].path_tokens) if after else (cutoff_depth, cutoff_tokens)
    tail = [message_value(row, zone) for row in after]
    pins = sorted((row for row in rows if row.part == "pin"), key=attrgetter("depth"))
    # Pins are shown where the tail was not read either.
    shown = [*after, *(row for row in pins if row.depth > cutoff_depth and row.id not in {one.id for one in after})]
    return Branch(
        tip_id=tip.pk,
        tip_depth=tip_depth,
        tip_path_tokens=tip_tokens,
        base=base,
        tail=tuple(tail),
        unread=tip_depth - cutoff_depth - len(shown),
        unread_tokens=tip_tokens - cutoff_tokens - sum(row.token_count for row in shown),
        # Reasoning is sent with the tail alone.
        pins=tuple(replace(message_value(row, zone), reasoning=None, origin=Origin.PIN) for row in pins),
    )
