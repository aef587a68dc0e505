"""What the model would be sent at a message, as a table. Made by the function that a chat turn calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_app import chat
from compaction_app.admin import paths
from compaction_app.admin.bars import Bar, history_bar
from compaction_app.admin.context_words import (
    DROPPED,
    FOLDED,
    MEANINGS,
    ORIGIN_WORDS,
    OTHER_WORDS,
    SUPPLIED,
    calibration_words,
    reserved_words,
    strategy_words,
)
from compaction_app.admin.display import name_and_arguments, number, shortened
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import calibration_of
from compaction_app.exceptions import CompactionError, ContextOverflow
from compaction_app.messages.openai_format import to_openai
from compaction_app.models import ChatMessage
from compaction_app.tree import branches
from compaction_app.values import ChatContext, ContextMessage, Origin, Role, Strategy

#: Rows that a page lists from the beginning and from the end of a context.
MOST_FIRST, MOST_LAST = 60, 140
#: Characters of a message that can be unfolded: a pruned result by the presets is shorter.
MOST_TEXT = 4_200
#: … and of all messages of a page.
_MOST_TEXTS = 250_000

#: Where compaction is switched off a context is the whole branch: over this many messages no page reads it.
MOST_SWITCHED_OFF = 2_000
_EVERYTHING = (
    "Compaction is switched off in this session, so everything is sent: {} messages, {} tokens. "
    "They are too many for this page."
)

_OFF = "Compaction is off in this session (MODE): the whole branch is sent as it was written, whatever its size."
_OVERFLOW = (
    "The newest user message and the last group alone take {} tokens; {} are available. Use a model with a larger "
    "window or lower RESERVED_TOKENS; or redact the message that is too long, or go on from one before it."
)

UrlOf = Callable[[int], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message of a context, or a word about messages that are not listed."""

    #: An :class:`Origin`, or one of the words above.
    origin: str
    role: str = ""
    #: The participant's, or the tool's.
    name: str = ""
    tokens: int | None
    #: Its beginning on one line.
    text: str = ""
    #: More of it, as it is sent; "" where the line says all.
    whole: str = ""
    #: Names and arguments of the tools it calls.
    calls: tuple[str, ...] = ()
    left_out_bytes: int = 0
    message_id: int | None = None
    #: Pages of the originals with their names; none for what is not stored.
    links: tuple[tuple[str, str], ...] = ()
    note: str = ""

    @property
    def origin_words(self) -> str:
        return ORIGIN_WORDS.get(self.origin) or OTHER_WORDS[self.origin]  # type: ignore[call-overload]  # a StrEnum is a str

    @property
    def count(self) -> str:
        return number(self.tokens)

    @property
    def bytes_left_out(self) -> str:
        return number(self.left_out_bytes)


@dataclass(frozen=True, slots=True)
class Omitted:
    """Messages that follow each other and have one row for all."""

    messages: int
    tokens: int
    first: int
    last: int

    def row(self, origin: str, url_of: UrlOf) -> Row:
        ends = (self.first, self.last)[: 1 if self.first == self.last else 2]
        return Row(
            origin=origin,
            tokens=self.tokens,
            note="1 message" if self.messages == 1 else f"{number(self.messages)} messages",
            links=tuple((url_of(pk), f"Message {pk}") for pk in ends),
        )


def omitted(stretch: paths.Stretch) -> Omitted:
    return Omitted(stretch.messages, stretch.tokens, stretch.first.id, stretch.last.id)


@dataclass(frozen=True, slots=True)
class Total:
    """Everything of one origin: the legend, with sums."""

    origin: str
    words: str
    meaning: str
    messages: int
    tokens: int

    @property
    def counts(self) -> tuple[str, str]:
        return number(self.messages), number(self.tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextHere:
    """A context with its rows, or the reason why there is none."""

    context: ChatContext | None = None
    #: Tokens of the whole history, before anything was pruned or left out: what the trigger compares.
    whole_history: int = 0
    rows: tuple[Row, ...] = ()
    totals: tuple[Total, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    #: Compaction is switched off: no threshold, no target, nothing is left out.
    is_off: bool = False
    #: What the limits were divided by.
    calibration: float = 1.0

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """The numbers behind it, as people read them."""
        if self.context is None:
            return ()
        strategy = strategy_words(self.context.strategy, has_summary=self.context.summary_id is not None)
        return (
            ("History in full", number(self.whole_history)),
            *self._limits(self.context),
            ("Available", number(self.context.available_tokens)),
            ("Window", number(self.context.window)),
            ("Reserved", reserved_words(self.context.reserved_tokens, _system_tokens(self.context))),
            ("Calibration", calibration_words(self.calibration)),
            ("Sent in all", number(self.context.tokens)),
            ("Pruned", number(self.context.pruned)),
            ("Left out", number(self.context.dropped)),
            ("Strategy", strategy),
        )

    def _limits(self, context: ChatContext) -> tuple[tuple[str, str], ...]:
        if self.is_off:
            return ()
        return ("Threshold", number(context.threshold)), ("Target", number(context.target))

    @property
    def fullness(self) -> str:
        if self.context is None:
            return ""
        history, available = number(self.context.history_tokens), number(self.context.available_tokens)
        return f"{history} of {available} available tokens ({number(self.percent)} % full)"

    @property
    def percent(self) -> int:
        """How full the history's share of the window is."""
        if self.context is None or self.context.available_tokens <= 0:
            return 0
        return self.context.history_tokens * 100 // self.context.available_tokens

    @property
    def over_threshold(self) -> bool:
        return self.context is not None and not self.is_off and self.whole_history > self.context.threshold

    @property
    def threshold_words(self) -> str:
        """What is compared with the threshold: the whole history, of which less may be sent."""
        if self.context is None:
            return ""
        return f"{number(self.whole_history)} tokens in full, over the threshold of {number(self.context.threshold)}"

    @property
    def bar(self) -> Bar | None:
        return history_bar(self.context, self.whole_history, is_off=self.is_off) if self.context else None


def context_here(message: ChatMessage, url_of: UrlOf, prompt_url: str = "") -> ContextHere:
    """What the model would be sent at this message; a context that can not be made says why."""
    try:
        is_off = get_settings(message.session.settings).mode == Mode.OFF
        if message.depth > MOST_SWITCHED_OFF and is_off:
            return ContextHere(problem=_EVERYTHING.format(number(message.depth), number(message.path_tokens)))
        context = chat.get_context(message)
        using = branches.database_of(message)
        history = branches.history_at(message.pk, using)
    except ContextOverflow as error:
        return ContextHere(problem=_OVERFLOW.format(number(error.needed), number(error.available)))
    except CompactionError as error:
        return ContextHere(problem=str(error))
    left_out, notes = _left_out(message, context, history.summary_id, using)
    return ContextHere(
        context=context,
        whole_history=history.tokens,
        rows=rows_of(context.messages, url_of, prompt_url, left_out, notes_of(context.cutoff_id)),
        totals=totals_of(context.messages, left_out.values()),
        notes=(_OFF, *notes) if is_off else notes,
        is_off=is_off,
        calibration=calibration_of(message.session.token_calibration, context.model),
    )


def _system_tokens(context: ChatContext) -> int:
    return sum(message.tokens for message in context.messages if message.origin == Origin.SYSTEM)


def notes_of(cutoff_id: int | None) -> dict[str, str]:
    return {Origin.SUMMARY: f"Stands for everything up to message {cutoff_id}"} if cutoff_id else {}


def _left_out(
    tip: ChatMessage, context: ChatContext, summary_id: int | None, using: str
) -> tuple[dict[int, Omitted], tuple[str, ...]]:
    """What there was no room for: messages by the id of the one that follows them, and a word about a summary."""
    if context.strategy != Strategy.TRUNCATED:
        return {}, ()
    rows = ChatMessage.objects.using(using).filter(pk=summary_id)
    found = rows.values_list("last_summarized_message__depth", "pinned_message_id").first()
    cutoff_depth, pinned_id = found or (0, None)
    notes = []
    if summary_id and context.summary_id is None:
        notes.append(f"Summary {summary_id} had to be left out as well.")
    if pinned_id and context.pinned_id is None:
        notes.append(f"The pinned message {pinned_id} had to be left out as well.")
    if not context.dropped or context.first_shown_depth is None:
        return {}, tuple(notes)
    shown = [message.message_id or 0 for message in context.messages if _is_tail(message)]
    gaps: dict[int, paths.Stretch] = {}
    if context.first_shown_depth <= tip.depth - len(shown):
        # Within a newest turn that alone is too large.
        gaps = paths.gaps(paths.places(tip.pk, using, first=context.first_shown_depth), set(shown))
    before = paths.stretch(tip.pk, using, first=cutoff_depth + 1, last=context.first_shown_depth - 1)
    if before:
        gaps[shown[0]] = before
    return {pk: omitted(gap) for pk, gap in gaps.items()}, tuple(notes)


def _is_tail(message: ContextMessage) -> bool:
    return message.origin in (Origin.VERBATIM, Origin.PRUNED)


def totals_of(
    messages: Sequence[ContextMessage], left_out: Iterable[Omitted] = (), folded: Omitted | None = None
) -> tuple[Total, ...]:
    """Messages and tokens of each origin that there is, in the order in which origins are sent."""
    found = []
    for origin, words in ORIGIN_WORDS.items():
        tokens = [message.tokens for message in messages if message.origin == origin]
        if tokens:
            found.append(Total(origin, words, MEANINGS[origin], len(tokens), sum(tokens)))
    for other, those in ((FOLDED, [folded] if folded else []), (DROPPED, list(left_out))):
        if those:
            sums = sum(part.messages for part in those), sum(part.tokens for part in those)
            found.append(Total(other, OTHER_WORDS[other], MEANINGS[other], *sums))
    return tuple(found)


def rows_of(
    messages: Sequence[ContextMessage],
    url_of: UrlOf,
    prompt_url: str = "",
    left_out: Mapping[int, Omitted] | None = None,
    notes: Mapping[str, str] | None = None,
) -> tuple[Row, ...]:
    """A row for each message as it is sent, for each result that the format demands, for what is not listed.

    ``left_out``: messages that were not sent, by the id of the one that follows; ``notes``: by origin.
    """
    rows, room = [], _MOST_TEXTS
    for message, item in _folded(list(_as_sent(messages))):
        if isinstance(item, Omitted):
            rows.append(item.row(FOLDED, url_of))
            continue
        if message is None:
            rows.append(Row(origin=SUPPLIED, role=Role.TOOL, tokens=None, text=_text_of(item)))
            continue
        if gap := (left_out or {}).get(message.message_id or 0):
            rows.append(gap.row(DROPPED, url_of))
        note = (notes or {}).get(message.origin, "")
        row = _row(message, item, room, url_of, prompt_url, note)
        room -= len(row.whole)
        rows.append(row)
    return tuple(rows)


def _as_sent(messages: Sequence[ContextMessage]) -> Iterator[tuple[ContextMessage | None, Any]]:
    """Each message with what is sent for it; None with a result that no message holds."""
    items = iter(to_openai(messages))
    for message in messages:
        item = next(items)
        while item["role"] == Role.TOOL and message.role != Role.TOOL:
            yield None, item
            item = next(items)
        yield message, item


def _folded(pairs: list[tuple[ContextMessage | None, Any]]) -> Iterator[tuple[ContextMessage | None, Any]]:
    """The first and the last of many; one :class:`Omitted` for what stands between."""
    if len(pairs) <= MOST_FIRST + MOST_LAST:
        yield from pairs
        return
    yield from pairs[:MOST_FIRST]
    stored = [message for message, _ in pairs[MOST_FIRST:-MOST_LAST] if message and message.message_id]
    if stored:
        first, last = stored[0].message_id, stored[-1].message_id
        yield None, Omitted(len(stored), sum(message.tokens for message in stored), first or 0, last or 0)
    yield from pairs[-MOST_LAST:]


def _row(message: ContextMessage, item: Mapping[str, Any], room: int, url_of: UrlOf, prompt_url: str, note: str) -> Row:
    text = _text_of(item)
    line = shortened(text)
    calls = ["{}({})".format(*name_and_arguments(call)) for call in message.tool_calls]
    says_all = line == text and all(shortened(call) == call for call in calls)
    whole = "" if says_all else "\n".join([text, *calls])[: min(MOST_TEXT, max(room, 0))]
    if message.message_id is not None:
        kind = "Summary" if message.origin == Origin.SUMMARY else "Message"
        original = [(url_of(message.message_id), f"{kind} {message.message_id}")]
    else:
        original = [(prompt_url, "Session")] if message.origin == Origin.SYSTEM and prompt_url else []
    return Row(
        origin=message.origin,
        role=message.role,
        name=message.name,
        tokens=message.tokens,
        text=line,
        whole=whole,
        calls=tuple(shortened(call) for call in calls[:20]),
        left_out_bytes=message.left_out_bytes,
        message_id=message.message_id,
        links=tuple(original),
        note=note,
    )


def _text_of(item: Mapping[str, Any]) -> str:
    """The text of a message as it is sent; a line for each image."""
    content = item["content"]
    if not isinstance(content, list):
        return content or ""
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[image: {shortened(part['image_url']['url'])}]"
        for part in content
    )
