"""What the model would be sent at a message, as a table.

The context is made by the function that a chat turn calls, so the page shows what the model sees. Messages that are
not listed, because they were not sent or are too many for a page, share one row. They are a :class:`Stretch`: messages
of a branch that follow each other, known by the first and the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from django.db import connections

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.display import Bar, name_and_arguments, number, plural, shortened
from compaction_app.admin.records import RecordAdmin
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import calibration_of
from compaction_app.exceptions import CompactionError, ContextOverflow
from compaction_app.messages.openai_format import to_openai
from compaction_app.models import ChatMessage, sql
from compaction_app.tree import branches
from compaction_app.values import ChatContext, ContextMessage, Origin, Role, Strategy

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
ORIGIN_WORDS: dict[str, str] = {
    Origin.SYSTEM: "System prompt",
    Origin.CONTRIBUTION: "Contribution",
    Origin.SUMMARY: "Summary",
    Origin.PINNED: "Pinned",
    Origin.VERBATIM: "Verbatim",
    Origin.PRUNED: "Pruned",
}
OTHER_WORDS = {DROPPED: "Left out", SUPPLIED: "Supplied", FOLDED: "Sent, not listed"}
MEANINGS: dict[str, str] = {
    Origin.SYSTEM: "the session's system prompt, never compacted",
    Origin.CONTRIBUTION: "added to each request by the caller, not stored",
    Origin.SUMMARY: "replaces every message up to its cutoff",
    Origin.PINNED: "the user message of the turn that contains the cutoff",
    Origin.VERBATIM: "a message after the cutoff, as it was written",
    Origin.PRUNED: "a tool result after the cutoff, shortened",
    DROPPED: "after the cutoff, not sent: it did not fit",
    SUPPLIED: "a result that the provider requires for a call without one",
    FOLDED: "sent, but too many to list on this page",
}
STRATEGY_WORDS: dict[str, str] = {
    Strategy.NONE: "Everything verbatim",
    Strategy.TOOL_RESULT_BUDGET: "Old tool results pruned",
    Strategy.MICRO_COMPACT: "White space in old tool results collapsed",
    Strategy.AUTO_COMPACT: "A summary is used",
    Strategy.TRUNCATED: "Messages left out: the history does not fit the window",
}
_EVERYTHING = (
    "Compaction is off in this session, so everything is sent: {} messages, {} tokens. That is too much for this page."
)
_OFF = "Compaction is off in this session (MODE): the whole branch is sent as it was written, whatever its size."
_OVERFLOW = (
    "The newest user message and the last group alone take {} tokens; {} are available. Use a model with a larger "
    "window, lower RESERVED_TOKENS, redact the message that is too long, or continue from an earlier message."
)


def strategy_words(code: str, *, has_summary: bool) -> str:
    """What was done to the history; an unknown code in its own words."""
    if code == Strategy.AUTO_COMPACT and not has_summary:
        return "A summary is needed; there is none yet"
    return STRATEGY_WORDS.get(code, display.words(code))


def reserved_words(reserved: int, system: int) -> str:
    """Reserved tokens, and for what: ``RESERVED_TOKENS`` alone is the reply's part."""
    if not system:
        return number(reserved)
    reply = f"reply {number(reserved - system)}, " if reserved != system else ""
    return f"{number(reserved)} ({reply}system prompt {number(system)})"


def calibration_words(factor: float) -> str:
    if factor == 1:
        return f"× {factor:g}"
    return (
        f"× {factor:g}: the provider's token count divided by the estimate; available, threshold and target are "
        "divided by it"
    )


# -- stretches of a branch ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A message by its place on its branch."""

    id: int
    depth: int
    tokens: int
    path_tokens: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages of a branch that follow each other."""

    first: Place
    last: Place

    @property
    def messages(self) -> int:
        return self.last.depth - self.first.depth + 1

    @property
    def tokens(self) -> int:
        return self.last.path_tokens - self.first.path_tokens + self.first.tokens

    def ends(self, admin: RecordAdmin) -> tuple[tuple[str, str], ...]:
        """(address, name) of the first and the last message."""
        return tuple(admin.to_message(pk) for pk in dict.fromkeys((self.first.id, self.last.id)))


def places(node_id: int, using: str, *, first: int) -> list[Place]:
    """Every message from depth ``first`` down to the node. One query."""
    return _read(sql.PATH_PLACES, using, {"node": node_id, "min_depth": first})


def _read(statement: str, using: str, parameters: dict[str, int]) -> list[Place]:
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return [Place(*row) for row in cursor.fetchall()]


def rows(node_id: int, using: str, *, first: int, early: int, late: int) -> list[ChatMessage]:
    """The messages of :func:`places` as rows, without those between the depths ``early`` and ``late``."""
    parameters = {"node": node_id, "min_depth": first, "early": early, "late": late}
    return list(ChatMessage.objects.using(using).raw(sql.PATH_OUTSIDE, parameters))


def stretch(node_id: int, using: str, *, first: int, last: int) -> Stretch | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    found = _read(sql.STRETCH_ENDS, using, {"node": node_id, "first": first, "last": last})
    is_there = bool(found) and (found[0].depth, found[-1].depth) == (first, last)
    return Stretch(found[0], found[-1]) if is_there else None


def gaps(found: Iterable[Place], shown: Set[int]) -> dict[int, Stretch]:
    """Stretches of a branch that are not shown, by the id of the shown message that follows each."""
    result: dict[int, Stretch] = {}
    missing: list[Place] = []
    for place in found:
        if place.id not in shown:
            missing.append(place)
        elif missing:
            result[place.id] = Stretch(missing[0], missing[-1])
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
    #: (address, name) of the originals; none for what is not stored.
    links: tuple[tuple[str, str], ...] = ()
    note: str = ""

    @property
    def origin_words(self) -> str:
        return ORIGIN_WORDS.get(self.origin) or OTHER_WORDS[self.origin]


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Stored messages of a context that share one row."""

    messages: int
    tokens: int
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, part: Stretch, admin: RecordAdmin) -> Unlisted:
        return cls(part.messages, part.tokens, part.ends(admin))

    def row(self, origin: str) -> Row:
        return Row(origin=origin, tokens=self.tokens, note=plural(self.messages, "message"), links=self.links)


@dataclass(frozen=True, slots=True)
class Total:
    """Everything of one origin."""

    origin: str
    words: str
    meaning: str
    messages: int
    tokens: int


def totals_of(
    messages: Sequence[ContextMessage], left_out: Iterable[Unlisted] = (), folded: Unlisted | None = None
) -> tuple[Total, ...]:
    """Messages and tokens of each origin that occurs, in the order in which origins are sent."""
    found = []
    for origin, words in ORIGIN_WORDS.items():
        tokens = [message.tokens for message in messages if message.origin == origin]
        if tokens:
            found.append(Total(origin, words, MEANINGS[origin], len(tokens), sum(tokens)))
    for other, parts in ((FOLDED, [folded] if folded else []), (DROPPED, list(left_out))):
        if parts:
            sums = sum(part.messages for part in parts), sum(part.tokens for part in parts)
            found.append(Total(other, OTHER_WORDS[other], MEANINGS[other], *sums))
    return tuple(found)


def rows_of(
    messages: Sequence[ContextMessage],
    admin: RecordAdmin,
    left_out: Mapping[int, Unlisted] | None = None,
    *,
    prompt_url: str = "",
    summary_note: str = "",
) -> tuple[Row, ...]:
    """A row for each message as it is sent, for each result that the format requires, for what is not listed.

    ``left_out``: messages that were not sent, by the id of the one that follows.
    """
    rows, room = [], _MOST_TEXTS
    for message, item in _folded(list(_as_sent(messages)), admin):
        if isinstance(item, Unlisted):
            rows.append(item.row(FOLDED))
            continue
        if message is None:
            rows.append(Row(origin=SUPPLIED, role=Role.TOOL, tokens=None, text=_text_of(item)))
            continue
        if gap := (left_out or {}).get(message.message_id or 0):
            rows.append(gap.row(DROPPED))
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
                links=_originals(message, admin, prompt_url),
                note=summary_note if message.origin == Origin.SUMMARY else "",
            )
        )
    return tuple(rows)


def _originals(message: ContextMessage, admin: RecordAdmin, prompt_url: str) -> tuple[tuple[str, str], ...]:
    if message.message_id is not None:
        return (admin.to_message(message.message_id, "Summary" if message.origin == Origin.SUMMARY else "Message"),)
    return ((prompt_url, "Session"),) if message.origin == Origin.SYSTEM and prompt_url else ()


def _as_sent(messages: Sequence[ContextMessage]) -> Iterator[tuple[ContextMessage | None, Any]]:
    """Each message with what is sent for it; None with a result that is not stored."""
    items = iter(to_openai(messages))
    for message in messages:
        item = next(items)
        while item["role"] == Role.TOOL and message.role != Role.TOOL:
            yield None, item
            item = next(items)
        yield message, item


def _folded(
    pairs: list[tuple[ContextMessage | None, Any]], admin: RecordAdmin
) -> Iterator[tuple[ContextMessage | None, Any]]:
    """Of many the first and the last, and one :class:`Unlisted` for those between."""
    if len(pairs) <= MOST_FIRST + MOST_LAST:
        yield from pairs
        return
    yield from pairs[:MOST_FIRST]
    stored = [message for message, _ in pairs[MOST_FIRST:-MOST_LAST] if message and message.message_id]
    if stored:
        ends = dict.fromkeys((stored[0].message_id or 0, stored[-1].message_id or 0))
        links = tuple(admin.to_message(pk) for pk in ends)
        yield None, Unlisted(len(stored), sum(message.tokens for message in stored), links)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextHere:
    """A context with its rows, or the reason why there is none."""

    context: ChatContext | None = None
    #: Tokens of the whole history, before pruning: what is compared with the threshold.
    whole_history: int = 0
    rows: tuple[Row, ...] = ()
    totals: tuple[Total, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    #: Compaction is off: no threshold, no target, nothing is left out.
    is_off: bool = False
    #: What the limits were divided by.
    calibration: float = 1.0

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        context = self.context
        if context is None:
            return ()
        limits = () if self.is_off else (("Threshold", context.threshold), ("Target", context.target))
        system = sum(message.tokens for message in context.messages if message.origin == Origin.SYSTEM)
        return (
            ("Full history", number(self.whole_history)),
            *((name, number(limit)) for name, limit in limits),
            ("Available", number(context.available_tokens)),
            ("Window", number(context.window)),
            ("Reserved", reserved_words(context.reserved_tokens, system)),
            ("Calibration", calibration_words(self.calibration)),
            ("Sent in total", number(context.tokens)),
            ("Pruned", number(context.pruned)),
            ("Left out", number(context.dropped)),
            ("Strategy", strategy_words(context.strategy, has_summary=context.summary_id is not None)),
        )

    @property
    def fullness(self) -> str:
        context = self.context
        if context is None:
            return ""
        available = context.available_tokens
        percent = context.history_tokens * 100 // available if available > 0 else 0
        return f"{number(context.history_tokens)} of {number(available)} available tokens ({number(percent)} % full)"

    @property
    def over_threshold(self) -> str:
        """What is compared with the threshold is the full history, of which less may be sent; "" where it is below."""
        if self.context is None or self.is_off or self.whole_history <= self.context.threshold:
            return ""
        return (
            f"full history: {number(self.whole_history)} tokens, over the threshold of {number(self.context.threshold)}"
        )

    @property
    def bar(self) -> Bar | None:
        return display.history_bar(self.context, self.whole_history, is_off=self.is_off) if self.context else None


def context_here(message: ChatMessage, admin: RecordAdmin, prompt_url: str = "") -> ContextHere:
    """What the model would be sent at this message, or the reason why no context can be made."""
    try:
        is_off = get_settings(message.session.settings).mode == Mode.OFF
        if message.depth > MOST_SWITCHED_OFF and is_off:
            return ContextHere(problem=_EVERYTHING.format(number(message.depth), number(message.path_tokens)))
        context = chat.get_context(message)
        history = branches.history_at(message.pk, branches.database_of(message))
    except ContextOverflow as error:
        return ContextHere(problem=_OVERFLOW.format(number(error.needed), number(error.available)))
    except CompactionError as error:
        return ContextHere(problem=str(error))
    stretches, notes = _left_out(message, context, history.summary_id)
    left_out = {pk: Unlisted.of(gap, admin) for pk, gap in stretches.items()}
    return ContextHere(
        context=context,
        whole_history=history.tokens,
        rows=rows_of(
            context.messages,
            admin,
            left_out,
            prompt_url=prompt_url,
            summary_note=summary_note(context.cutoff_id),
        ),
        totals=totals_of(context.messages, left_out.values()),
        notes=(_OFF, *notes) if is_off else notes,
        is_off=is_off,
        calibration=calibration_of(message.session.token_calibration, context.model),
    )


def summary_note(cutoff_id: int | None) -> str:
    return f"Summarizes everything up to message {cutoff_id}" if cutoff_id else ""


def _left_out(
    tip: ChatMessage, context: ChatContext, summary_id: int | None
) -> tuple[dict[int, Stretch], tuple[str, ...]]:
    """What did not fit: messages by the id of the one that follows them, and notes about a summary and its pin."""
    if context.strategy != Strategy.TRUNCATED:
        return {}, ()
    using = branches.database_of(tip)
    rows = ChatMessage.objects.using(using).filter(pk=summary_id)
    found = rows.values_list("last_summarized_message__depth", "pinned_message_id").first()
    cutoff_depth, pinned_id = found or (0, None)
    notes = []
    if summary_id and context.summary_id is None:
        notes.append(f"Summary {summary_id} was left out as well.")
    if pinned_id and context.pinned_id is None:
        notes.append(f"The pinned message {pinned_id} was left out as well.")
    if not context.dropped or context.first_shown_depth is None:
        return {}, tuple(notes)
    tail = (message for message in context.messages if message.origin in (Origin.VERBATIM, Origin.PRUNED))
    shown = [message.message_id or 0 for message in tail]
    missing: dict[int, Stretch] = {}
    if context.first_shown_depth <= tip.depth - len(shown):
        # Within a newest turn that alone is too large.
        missing = gaps(places(tip.pk, using, first=context.first_shown_depth), set(shown))
    before = stretch(tip.pk, using, first=cutoff_depth + 1, last=context.first_shown_depth - 1)
    if before:
        missing[shown[0]] = before
    return missing, tuple(notes)
