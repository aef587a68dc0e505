"""What the model would be sent at a message, as a table.

The context is made by the function that a chat turn calls, so the page shows what the model sees. Messages that are
not listed, because they were not sent or are too many for a page, share one row. They are a :class:`Stretch`: messages
of a branch that follow each other, known by the first and the last of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.formats import localize

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.display import Bar, name_and_arguments, number, plural, shortened
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import Calibration, calibration_of
from compaction_app.exceptions import CompactionError, ContextOverflow
from compaction_app.messages.openai_format import to_openai
from compaction_app.models import ChatMessage, CompactionEvent, sql
from compaction_app.tree import branches
from compaction_app.values import ChatContext, ContextMessage, EventKind, Origin, Role, Strategy

#: Rows that a page lists from the beginning and from the end of a context.
MOST_FIRST, MOST_LAST = 60, 140
#: Characters of a message that can be expanded: a pruned result by the presets is shorter.
MOST_TEXT = 4_200
#: … and of all messages of a page.
_MOST_TEXTS = 250_000
#: Where compaction is off a context is the whole branch. With more messages than this no page reads it.
MOST_SWITCHED_OFF = 2_000

#: Origins of rows beside :class:`Origin`: not sent, required by the format, or too many for the page.
DROPPED, SUPPLIED, FOLDED = "dropped", "supplied", "folded"
#: Name and meaning of each origin, in the order of the totals.
ORIGINS: dict[str, tuple[str, str]] = {
    Origin.SYSTEM: ("System prompt", "the session's system prompt, never compacted"),
    Origin.CONTRIBUTION: ("Contribution", "added to each request by the caller, not stored"),
    Origin.SUMMARY: ("Summary", "replaces every message up to its cutoff"),
    Origin.PINNED: ("Pinned", "the user message of the turn that contains the cutoff"),
    Origin.VERBATIM: ("Verbatim", "a message after the cutoff, in full"),
    Origin.PRUNED: ("Pruned", "a tool result after the cutoff, shortened"),
    FOLDED: ("Sent, not listed", "sent, but too many to list on this page"),
    DROPPED: ("Left out", "after the cutoff, not sent: it did not fit"),
    SUPPLIED: ("Supplied", "added by the app, since providers require a result for every tool call"),
}
STRATEGY_WORDS: dict[str, str] = {
    Strategy.NONE: "Everything verbatim",
    Strategy.TOOL_RESULT_BUDGET: "Old tool results pruned",
    Strategy.MICRO_COMPACT: "White space in old tool results collapsed",
    Strategy.AUTO_COMPACT: "A summary is used",
    Strategy.TRUNCATED: "Messages left out: the history does not fit the window",
}
#: Why messages are left out.
_NOT_YET = "The messages left out do not fit, and no summary covers them yet."
_NOT_SINCE = (
    "The messages left out do not fit. A summary of this branch was {} on {}: until the branch is compacted again, "
    "none covers them."
)
_ERASURES: dict[str, str] = {EventKind.RETIRED: "retired", EventKind.INVALIDATED: "emptied by a redaction"}
_EVERYTHING = (
    "Compaction is off in this session, so everything is sent: {} messages, {} tokens. That is too much for this page."
)
_OFF = "Compaction is off in this session (MODE): the whole branch is sent in full, whatever its size."
_OVERFLOW = (
    "The newest user message and the last group alone take {} tokens; {} are available. Use a model with a larger "
    "window, lower RESERVED_TOKENS, redact the message that is too long, or continue from an earlier message."
)


def strategy_words(code: str, *, has_summary: bool) -> str:
    """What was done to the history; an unknown code in its own words."""
    if code == Strategy.AUTO_COMPACT and not has_summary:
        return "A summary is needed; there is none yet"
    return STRATEGY_WORDS.get(code, display.words(code))


# -- stretches of a branch ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages of a branch that follow each other."""

    first: ChatMessage
    last: ChatMessage

    @property
    def messages(self) -> int:
        return self.last.depth - self.first.depth + 1

    @property
    def tokens(self) -> int:
        return self.last.path_tokens - self.first.path_tokens + self.first.token_count

    def row(self, origin: str) -> Row:
        return unlisted(origin, self.messages, self.tokens, self.first.pk, self.last.pk)


def stretch(node_id: int, using: str, *, first: int, last: int) -> Stretch | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    ends = {"node": node_id, "first": first, "last": last}
    found = list(ChatMessage.objects.using(using).raw(sql.STRETCH_ENDS, ends))
    is_there = bool(found) and (found[0].depth, found[-1].depth) == (first, last)
    return Stretch(found[0], found[-1]) if is_there else None


def gaps(path: Iterable[ChatMessage], shown: Set[int]) -> dict[int, Stretch]:
    """Stretches of a path that are not shown, by the id of the shown message that follows each."""
    result: dict[int, Stretch] = {}
    missing: list[ChatMessage] = []
    for message in path:
        if message.pk not in shown:
            missing.append(message)
        elif missing:
            result[message.pk] = Stretch(missing[0], missing[-1])
            missing = []
    return result


# -- rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message of a context, or several that are not listed."""

    #: An :class:`Origin`, ``DROPPED``, ``SUPPLIED`` or ``FOLDED``.
    origin: str
    role: str = ""
    #: The participant's, or the tool's.
    name: str = ""
    tokens: int | None
    #: Its beginning on one line.
    text: str = ""
    #: More of it, as it is sent; "" where the line shows all.
    whole: str = ""
    #: Names and arguments of its tool calls.
    calls: tuple[str, ...] = ()
    left_out_bytes: int = 0
    message_id: int | None = None
    #: Several that are not listed: how many, and the first and the last of them.
    messages: int = 1
    ends: tuple[int, ...] = ()
    note: str = ""
    #: (id, depth) of each message to link to, and whether the message was redacted: as ``placed`` read them.
    places: tuple[tuple[int, int | None], ...] = ()
    is_redacted: bool = False

    @property
    def origin_words(self) -> str:
        return ORIGINS[self.origin][0]

    @property
    def originals(self) -> tuple[int, ...]:
        """Ids of the messages to link to; none for what is not stored."""
        return self.ends or ((self.message_id,) if self.message_id else ())


def unlisted(origin: str, messages: int, tokens: int, first: int, last: int) -> Row:
    """The row that stored messages of a context share."""
    ends = tuple(dict.fromkeys((first, last)))
    return Row(origin=origin, messages=messages, tokens=tokens, note=plural(messages, "message"), ends=ends)


class Total(NamedTuple):
    """Everything of one origin."""

    origin: str
    words: str
    meaning: str
    messages: int
    tokens: int


def totals_of(messages: Sequence[ContextMessage], not_listed: Iterable[Row] = ()) -> list[Total]:
    """Messages and tokens of each origin that occurs, in the order in which origins are sent."""
    counts, tokens = Counter[str](), Counter[str]()
    for message in messages:
        counts[message.origin] += 1
        tokens[message.origin] += message.tokens
    for row in not_listed:
        counts[row.origin] += row.messages
        tokens[row.origin] += row.tokens or 0
    return [Total(origin, *ORIGINS[origin], counts[origin], tokens[origin]) for origin in ORIGINS if counts[origin]]


def rows_of(
    messages: Sequence[ContextMessage], left_out: Mapping[int, Row] | None = None, *, summary_note: str = ""
) -> tuple[Row, ...]:
    """A row for each message as it is sent, for each result that the format requires, for what is not listed.

    ``left_out``: messages that were not sent, by the id of the one that follows.
    """
    rows, room = [], _MOST_TEXTS
    for message, item in _folded(list(_as_sent(messages))):
        if isinstance(item, Row):
            rows.append(item)
            continue
        if message is None:
            rows.append(Row(origin=SUPPLIED, role=Role.TOOL, tokens=None, text=_text_of(item)))
            continue
        if gap := (left_out or {}).get(message.message_id or 0):
            rows.append(gap)
        text = _text_of(item)
        line = shortened(text)
        calls = ["{}({})".format(*name_and_arguments(call)) for call in message.tool_calls]
        is_short = line == text and all(shortened(call) == call for call in calls)
        whole = "" if is_short else "\n".join([text, *calls])[: min(MOST_TEXT, max(room, 0))]
        room -= len(whole)
        rows.append(
            Row(
                origin=message.origin,
                role=message.role,
                name=message.name,
                tokens=message.tokens,
                text=line,
                whole=whole,
                calls=tuple(shortened(call) for call in calls[:20]),
                left_out_bytes=message.left_out_bytes,
                message_id=message.message_id,
                note=summary_note if message.origin == Origin.SUMMARY else "",
            )
        )
    return tuple(rows)


def _as_sent(messages: Sequence[ContextMessage]) -> Iterator[tuple[ContextMessage | None, Any]]:
    """Each message with what is sent for it; None with a result that is not stored."""
    items = iter(to_openai(messages))
    for message in messages:
        item = next(items)
        while item["role"] == Role.TOOL and message.role != Role.TOOL:
            yield None, item
            item = next(items)
        yield message, item


def _folded(pairs: list[tuple[ContextMessage | None, Any]]) -> Iterator[tuple[ContextMessage | None, Any]]:
    """Of many the first and the last, and one :class:`Row` for those between."""
    if len(pairs) <= MOST_FIRST + MOST_LAST:
        yield from pairs
        return
    yield from pairs[:MOST_FIRST]
    stored = [(m.message_id, m.tokens) for m, _ in pairs[MOST_FIRST:-MOST_LAST] if m and m.message_id]
    if stored:
        yield None, unlisted(FOLDED, len(stored), sum(tokens for _, tokens in stored), stored[0][0], stored[-1][0])
    yield from pairs[-MOST_LAST:]


def _text_of(item: Mapping[str, Any]) -> str:
    """The text of a message as it is sent, with a line for each image."""
    content = item["content"]
    if not isinstance(content, list):
        return content or ""
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[image: {shortened(part['image_url']['url'])}]"
        for part in content
    )


# -- the context at a message -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoContext:
    """Why the model could be sent nothing, or why a page does not show it."""

    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextHere:
    """A context with its rows."""

    context: ChatContext
    #: Tokens of the whole history, before pruning: what is compared with the threshold.
    whole_history: int
    rows: tuple[Row, ...]
    totals: Sequence[Total]
    notes: tuple[str, ...]
    #: Compaction is off: no threshold, no target, nothing is left out.
    is_off: bool
    #: By what the limits were corrected.
    calibration: Calibration

    @property
    def fullness(self) -> int:
        """In percent of the available tokens."""
        available = self.context.available_tokens
        return self.context.history_tokens * 100 // available if available > 0 else 0

    @property
    def is_over(self) -> bool:
        """What is compared with the threshold is the full history, of which less may be sent."""
        return not self.is_off and self.whole_history > self.context.threshold

    @property
    def system_tokens(self) -> int:
        return sum(message.tokens for message in self.context.messages if message.origin == Origin.SYSTEM)

    @property
    def strategy(self) -> str:
        return strategy_words(self.context.strategy, has_summary=self.context.summary_id is not None)

    @property
    def bar(self) -> Bar:
        return display.history_bar(self.context, self.whole_history, is_off=self.is_off)


def context_here(message: ChatMessage) -> ContextHere | NoContext:
    """What the model would be sent at this message."""
    try:
        is_off = get_settings(message.session.settings).mode == Mode.OFF
        if message.depth > MOST_SWITCHED_OFF and is_off:
            return NoContext(_EVERYTHING.format(number(message.depth), number(message.path_tokens)))
        context = chat.get_context(message)
        history = branches.history_at(message.pk, branches.database_of(message))
    except ContextOverflow as error:
        return NoContext(_OVERFLOW.format(number(error.needed), number(error.available)))
    except CompactionError as error:
        return NoContext(str(error))
    stretches, notes = _left_out(message, context, history.summary_id)
    left_out = {pk: gap.row(DROPPED) for pk, gap in stretches.items()}
    return ContextHere(
        context=context,
        whole_history=history.tokens,
        rows=placed(rows_of(context.messages, left_out), branches.database_of(message), context.cutoff_id),
        totals=totals_of(context.messages, left_out.values()),
        notes=(_OFF, *notes) if is_off else notes,
        is_off=is_off,
        calibration=calibration_of(message.session.token_calibration, context.model),
    )


def summary_note(cutoff_id: int | None, depth: int | None) -> str:
    place = f" ({display.place(depth)})" if depth else ""
    return f"Summarizes everything up to message {cutoff_id}{place}" if cutoff_id else ""


def placed(rows: Iterable[Row], using: str, cutoff_id: int | None = None) -> tuple[Row, ...]:
    """The rows with what only their messages know; with the cutoff the summary says where it is. One query."""
    rows = tuple(rows)
    ids = {cutoff_id or 0, *(pk for row in rows for pk in row.originals)}
    found = ChatMessage.objects.using(using).filter(pk__in=ids).values_list("pk", "depth", "redacted_at")
    known = {pk: (depth, redacted_at is not None) for pk, depth, redacted_at in found}
    unknown = (None, False)
    return tuple(
        replace(
            row,
            places=tuple((pk, known.get(pk, unknown)[0]) for pk in row.originals),
            is_redacted=known.get(row.message_id or 0, unknown)[1] and row.origin != Origin.SUMMARY,
            note=summary_note(cutoff_id, known.get(cutoff_id or 0, unknown)[0])
            if cutoff_id and row.origin == Origin.SUMMARY
            else row.note,
        )
        for row in rows
    )


def _why_left_out(tip: ChatMessage, made: datetime | None) -> str:
    """Whether a summary of the branch was taken out of use since the newest one was ``made``."""
    using = branches.database_of(tip)
    of_session = CompactionEvent.objects.using(using).filter(session_id=tip.session_id)
    erasures = of_session.filter(kind__in=_ERASURES, message__depth__lte=tip.depth).select_related("message")
    event = (erasures.filter(created_at__gt=made) if made else erasures).order_by("-id").first()
    message = event.message if event else None
    if event and message and branches.is_on_branch(message.pk, message.depth, tip.pk, using):
        return _NOT_SINCE.format(_ERASURES[event.kind], localize(timezone.localtime(event.created_at)))
    return _NOT_YET


def _left_out(
    tip: ChatMessage, context: ChatContext, summary_id: int | None
) -> tuple[dict[int, Stretch], tuple[str, ...]]:
    """What did not fit: messages by the id of the one that follows them, and notes about a summary and its pin."""
    if context.strategy != Strategy.TRUNCATED:
        return {}, ()
    using = branches.database_of(tip)
    rows = ChatMessage.objects.using(using).filter(pk=summary_id)
    found = rows.values_list("last_summarized_message__depth", "pinned_message_id", "created_at").first()
    cutoff_depth, pinned_id, made = found or (0, None, None)
    notes = []
    if summary_id and context.summary_id is None:
        notes.append(f"Summary {summary_id} was left out as well.")
    if pinned_id and context.pinned_id is None:
        notes.append(f"The pinned message {pinned_id} was left out as well.")
    if context.dropped:
        notes.append(_why_left_out(tip, made))
    if not context.dropped or context.first_shown_depth is None:
        return {}, tuple(notes)
    shown = [m.message_id or 0 for m in context.messages if m.origin in (Origin.VERBATIM, Origin.PRUNED)]
    missing: dict[int, Stretch] = {}
    if context.first_shown_depth <= tip.depth - len(shown):
        # Within a newest turn that alone is too large.
        from_first = {"node": tip.pk, "min_depth": context.first_shown_depth}
        missing = gaps(ChatMessage.objects.using(using).raw(sql.PATH_PLACES, from_first), set(shown))
    before = stretch(tip.pk, using, first=cutoff_depth + 1, last=context.first_shown_depth - 1)
    if before:
        missing[shown[0]] = before
    return missing, tuple(notes)
