"""What the model would be sent at a message, and what it was sent for a reply: one table, made in two ways.

``context_here`` uses the function that a chat turn calls, so the page shows what the model sees. ``context_then`` reads
the record that was kept with a reply and applies it to the rows that it names: these never change, and what they cannot
show any more (erased since, never stored, not recorded which) the page says instead of guessing. Messages that were not
sent, or are too many for a page, share one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.formats import localize

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.display import name_and_arguments, number, place, plural, shortened
from compaction_app.conf import Mode, Settings, get_settings, get_token_counter
from compaction_app.context.assembly import as_sent
from compaction_app.context.budget import calibration_of
from compaction_app.context.pruning import MOST_TURNS_BEHIND, Pruned, micro_compact, prune
from compaction_app.exceptions import CompactionError, ContextOverflow
from compaction_app.messages.openai_format import NO_RESULT, attachment_line
from compaction_app.messages.transcript import summary_message
from compaction_app.models import ChatMessage, CompactionEvent, sql
from compaction_app.tokens import count_messages
from compaction_app.tree import branches
from compaction_app.values import ChatContext, ContextMessage, EventKind, Message, Origin, Role, Strategy

#: Rows that a page lists from the beginning and from the end of a context.
MOST_FIRST, MOST_LAST = 60, 140
#: Characters of a message that can be expanded (a pruned result by the presets is shorter), and of all of a page.
MOST_TEXT, _MOST_TEXTS = 4_200, 250_000
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


def _strategy(code: str, *, has_summary: bool) -> str:
    """What was done to the history; an unknown code in its own words."""
    if code == Strategy.AUTO_COMPACT and not has_summary:
        return "A summary is needed; there is none yet"
    return STRATEGY_WORDS.get(code, display.words(code))


# -- messages that are not listed ---------------------------------------------------------------------------


class Unlisted(NamedTuple):
    """Messages that follow each other on a branch and share a row, by the ids of the first and the last."""

    origin: str
    messages: int
    tokens: int
    first: int
    last: int


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

    def as_unlisted(self, origin: str) -> Unlisted:
        return Unlisted(origin, self.messages, self.tokens, self.first.pk, self.last.pk)


def stretch(node_id: int, using: str, *, first: int, last: int) -> Stretch | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    ends = {"node": node_id, "first": first, "last": last}
    found = list(ChatMessage.objects.using(using).raw(sql.STRETCH_ENDS, ends))
    is_there = bool(found) and (found[0].depth, found[-1].depth) == (first, last)
    return Stretch(found[0], found[-1]) if is_there else None


# -- the table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message of a context, or several that are not listed."""

    #: An :class:`Origin`, ``DROPPED``, ``SUPPLIED`` or ``FOLDED``.
    origin: str
    role: str = ""
    #: The participant's, or the tool's.
    name: str = ""
    tokens: int | None = None
    #: The beginning of its text and its tool calls on one line; ``whole`` has more, "" where the line shows all.
    text: str = ""
    whole: str = ""
    attachments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    message_id: int | None = None
    #: (id, depth) of each message to link to: of several that are not listed the first and the last.
    places: tuple[tuple[int, int | None], ...] = ()

    @property
    def origin_words(self) -> str:
        return ORIGINS[self.origin][0]


class Total(NamedTuple):
    """Everything of one origin."""

    origin: str
    words: str
    meaning: str
    messages: int
    tokens: int


@dataclass(kw_only=True, slots=True)
class ContextTable:
    """A context as a page shows it."""

    #: Of ``ChatMessage.sent_context``; False for what would be sent now.
    is_record: bool = False
    #: Why there is none, or why a page does not show it.
    problem: str = ""
    context: ChatContext | None = None
    #: Name → text.
    figures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: tuple[Row, ...] = ()
    totals: Sequence[Total] = ()
    #: How full the window is, and whether the history is over the threshold.
    fullness: str = ""
    is_over: bool = False

    def fill(
        self,
        items: Sequence[ContextMessage | Unlisted],
        using: str,
        *,
        cutoff: tuple[int | None, str] = (None, ""),
    ) -> None:
        """The rows and totals of what is sent, and of what is not, in its order. One query.

        ``cutoff``: the summary's, and what else there is to say of the summary.
        """
        counts, tokens = Counter[str](), Counter[str]()
        for item in items:
            counts[item.origin] += item.messages if isinstance(item, Unlisted) else 1
            tokens[item.origin] += item.tokens
        self.totals = [Total(one, *ORIGINS[one], counts[one], tokens[one]) for one in ORIGINS if counts[one]]
        listed = _folded(list(_with_supplied(items)))
        ends = {end for item in listed for end in _ends(item)} | {cutoff[0] or 0}
        found = ChatMessage.objects.using(using).filter(pk__in=ends).values_list("pk", "depth", "redacted_at")
        known = {pk: (depth, redacted_at) for pk, depth, redacted_at in found}
        rows, room = [], _MOST_TEXTS
        for shown in listed:
            places = tuple((pk, known.get(pk, (None,))[0]) for pk in _ends(shown))
            if shown is None:
                rows.append(Row(origin=SUPPLIED, role=Role.TOOL, text=NO_RESULT))
                continue
            if isinstance(shown, Unlisted):
                of_several = (plural(shown.messages, "message"),)
                rows.append(Row(origin=shown.origin, tokens=shown.tokens, notes=of_several, places=places))
                continue
            calls = ("{}({})".format(*name_and_arguments(call)) for call in shown.tool_calls)
            said = [text for text in (shown.content, *calls) if text]
            line = shortened(" ".join(said))
            whole = "" if line == " ".join(said) else "\n".join(said)[: min(MOST_TEXT, max(room, 0))]
            room -= len(whole)
            notes: list[str] = []
            is_blank = not shown.content.strip() and not shown.tool_calls and not shown.attachments
            if is_blank and shown.origin != Origin.SUMMARY:
                notes.append("No text, so nothing is sent.")
            if shown.left_out_bytes:
                notes.append(f"{number(shown.left_out_bytes)} bytes left out")
            if shown.origin == Origin.SUMMARY and cutoff[0]:
                depth = known.get(cutoff[0], (None,))[0]
                at = f" ({place(depth)})" if depth else ""
                about = f"Summarizes everything up to message {cutoff[0]}{at}"
                notes.append("; ".join(filter(None, (about, cutoff[1]))))
            elif shown.origin != Origin.SUMMARY and known.get(shown.message_id or 0, (None, None))[1]:
                notes.append("Redacted")
            rows.append(
                Row(
                    origin=shown.origin,
                    role=shown.role,
                    name=shown.name,
                    tokens=shown.tokens,
                    text=line,
                    whole=whole,
                    attachments=tuple(attachment_line(one) for one in shown.attachments),
                    notes=tuple(notes),
                    message_id=shown.message_id,
                    places=places,
                )
            )
        self.rows = tuple(rows)


def _ends(item: ContextMessage | Unlisted | None) -> tuple[int, ...]:
    if isinstance(item, Unlisted):
        return tuple(dict.fromkeys((item.first, item.last)))
    return (item.message_id,) if item and item.message_id else ()


def _with_supplied(items: Iterable[ContextMessage | Unlisted]) -> Iterator[ContextMessage | Unlisted | None]:
    """With None for each result that is supplied, where ``to_openai`` has it."""
    waiting: list[Any] = []
    asked = False
    for item in items:
        if isinstance(item, ContextMessage):
            if item.role == Role.TOOL:
                waiting = [one for one in waiting if one != item.tool_call_id]
            elif not (asked and item.tool_calls):
                yield from (None for _ in waiting)
                waiting = []
            waiting += [call.get("id") for call in item.tool_calls]
            asked = bool(item.tool_calls)
        else:
            # What answers a call may be among these.
            waiting = []
        yield item


def _folded(items: list[ContextMessage | Unlisted | None]) -> list[ContextMessage | Unlisted | None]:
    """Of many the first and the last, and one :class:`Unlisted` for those between."""
    between = [item for item in items[MOST_FIRST:-MOST_LAST] if isinstance(item, ContextMessage) and item.message_id]
    if not between or any(isinstance(item, Unlisted) and item.origin == FOLDED for item in items):
        return items
    tokens = sum(message.tokens for message in between)
    ends = (between[0].message_id or 0, between[-1].message_id or 0)
    return [*items[:MOST_FIRST], Unlisted(FOLDED, len(between), tokens, *ends), *items[-MOST_LAST:]]


# -- what would be sent now ---------------------------------------------------------------------------------


def context_here(message: ChatMessage) -> ContextTable:
    """What the model would be sent at this message."""
    using = branches.database_of(message)
    try:
        is_off = get_settings(message.session.settings).mode == Mode.OFF
        if message.depth > MOST_SWITCHED_OFF and is_off:
            return ContextTable(problem=_EVERYTHING.format(number(message.depth), number(message.path_tokens)))
        context = chat.get_context(message)
        history = branches.history_at(message.pk, using)
    except ContextOverflow as error:
        return ContextTable(problem=_OVERFLOW.format(number(error.needed), number(error.available)))
    except CompactionError as error:
        return ContextTable(problem=str(error))
    available, sent = context.available_tokens, context.history_tokens
    share = f" ({sent * 100 // available:,} %)" if available > 0 else ""
    system = sum(one.tokens for one in context.messages if one.origin == Origin.SYSTEM)
    limits = {} if is_off else {"Threshold": number(context.threshold), "Target": number(context.target)}
    table = ContextTable(
        context=context,
        # What is compared with the threshold is the full history, of which less may be sent.
        is_over=not is_off and history.tokens > context.threshold,
        fullness=f"{number(sent)} of {number(available)} available tokens{share}",
        figures={
            "History": number(history.tokens),
            **limits,
            "Available": number(available),
            "Window": number(context.window),
            "Reserved": display.reserved(context.reserved_tokens, system),
            "Token counts corrected by": display.calibration(
                calibration_of(message.session.token_calibration, context.model)
            ),
            "Sent in total": number(context.tokens),
            "Pruned": number(context.pruned),
            "Left out": number(context.dropped),
            "Strategy": _strategy(context.strategy, has_summary=context.summary_id is not None),
        },
        notes=[_OFF] if is_off else [],
    )
    left_out = _left_out(message, context, history.summary_id, table.notes)
    items: list[ContextMessage | Unlisted] = []
    for one in context.messages:
        items += [left_out[one.message_id], one] if one.message_id in left_out else [one]
    table.fill(items, using, cutoff=(context.cutoff_id, ""))
    return table


def _left_out(
    tip: ChatMessage, context: ChatContext, summary_id: int | None, notes: list[str]
) -> dict[int | None, Unlisted]:
    """What did not fit, by the id of the message that follows; with notes about why, a summary and its pin."""
    if context.strategy != Strategy.TRUNCATED:
        return {}
    using = branches.database_of(tip)
    rows = ChatMessage.objects.using(using).filter(pk=summary_id)
    found = rows.values_list("last_summarized_message__depth", "pinned_message_id", "created_at").first()
    cutoff_depth, pinned_id, made = found or (0, None, None)
    if summary_id and context.summary_id is None:
        notes.append(f"Summary {summary_id} was left out as well.")
    if pinned_id and context.pinned_id is None:
        notes.append(f"The pinned message {pinned_id} was left out as well.")
    if not context.dropped:
        return {}
    notes.append(_why_left_out(tip, made))
    if context.first_shown_depth is None:
        return {}
    shown = [m.message_id or 0 for m in context.messages if m.origin in (Origin.VERBATIM, Origin.PRUNED)]
    missing: dict[int | None, Unlisted] = {}
    if context.first_shown_depth <= tip.depth - len(shown):
        # Within a newest turn that alone is too large.
        from_first = {"node": tip.pk, "min_depth": context.first_shown_depth}
        gap: list[ChatMessage] = []
        for message in ChatMessage.objects.using(using).raw(sql.PATH_PLACES, from_first):
            if message.pk not in shown:
                gap.append(message)
            elif gap:
                missing[message.pk], gap = Stretch(gap[0], gap[-1]).as_unlisted(DROPPED), []
    if before := stretch(tip.pk, using, first=cutoff_depth + 1, last=context.first_shown_depth - 1):
        missing[shown[0]] = before.as_unlisted(DROPPED)
    return missing


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


# -- what was sent for a reply ------------------------------------------------------------------------------


def context_then(reply: ChatMessage) -> ContextTable | None:
    """What was sent to get this reply; None where nothing was recorded. At most six queries."""
    kept = reply.sent_context
    return _Record(reply, kept).table if isinstance(kept, Mapping) and kept else None


class _Record:
    """``ChatMessage.sent_context``, applied to the rows that it names."""

    def __init__(self, reply: ChatMessage, kept: Mapping[str, Any]) -> None:
        self.reply, self.kept, self.using = reply, kept, branches.database_of(reply)
        #: The tokens of all parts are known: none was erased or guessed.
        self.is_whole = True
        self.summary_id, self.cutoff_id, self.pinned_id = map(self._number, ("summary_id", "cutoff_id", "pinned_id"))
        self.pruned, self.dropped = self._number("pruned") or 0, self._number("dropped") or 0
        self.first = self._number("first_shown_depth")
        self.table = ContextTable(is_record=True, figures=self._figures())
        self.notes = self.table.notes
        self.settings = self._settings()
        # Of any session, so that a row of another session is not reported as deleted.
        named = [pk for pk in (self.summary_id, self.cutoff_id, self.pinned_id) if pk]
        self.named = ChatMessage.objects.using(self.using).in_bulk(named) if named else {}
        cutoff = self._named(self.cutoff_id, "The cutoff", may_be_gone=True)
        self.cutoff_depth = cutoff.depth if cutoff else 0
        before, of_summary = self._before_the_tail()
        tail = self._tail()
        items = [*before, *(self._left_out() if tail else ()), *tail]
        if self.is_whole and not any(isinstance(item, Unlisted) and item.origin == FOLDED for item in items):
            self._compare(sum(item.tokens for item in items if isinstance(item, ContextMessage)))
        self.table.fill(items, self.using, cutoff=(self.cutoff_id, of_summary))

    def _number(self, name: str) -> int | None:
        """An id, a depth or a count. A host may have written anything there: what is no number is missing."""
        value = self.kept.get(name)
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        return value if is_number else None

    def _figures(self) -> dict[str, str]:
        error, counted = self.kept.get("estimate_error"), self._number("provider_tokens")
        figures = {
            "Sent in total": number(self._number("tokens")),
            "Available for history": number(self._number("available_tokens")),
            "Window": number(self._number("window")),
            "Pruned": number(self.pruned),
            "Left out": number(self.dropped),
            "First message shown": place(self.first) if self.first else "",
            "Strategy": _strategy(str(self.kept.get("strategy") or display.EMPTY), has_summary=bool(self.summary_id)),
            "Counted by the provider": "" if counted is None else number(counted),
        }
        if isinstance(error, int | float):
            # A smaller error makes no difference.
            exact = abs(error) < 0.0005
            by = f"{abs(error):.1%} too {'small' if error < 0 else 'large'}"
            figures["Token estimate"] = "within 0.1 % of the provider's count" if exact else by
        return {name: text for name, text in figures.items() if text}

    def _settings(self) -> Settings | None:
        self.notes.append(
            "Contributions and tool schemas are not stored, so they are not listed; the system prompt is the current "
            "one."
        )
        try:
            settings = get_settings(self.reply.session.settings)
        except CompactionError as error:
            self.notes.append(f"The current settings are invalid: {error}")
            return None
        if settings.redactor is not None:
            self.notes.append("A REDACTOR is set: it may have removed parts of these texts before they were sent.")
        return settings

    def _named(self, pk: int | None, name: str, *, may_be_gone: bool = False) -> ChatMessage | None:
        row = self.named.get(pk or 0)
        if row and row.session_id == self.reply.session_id:
            return row
        if pk and (row or not may_be_gone):
            self.is_whole = False
            # A host that records contexts itself can write any id. Rows of other sessions are never shown.
            where = "is recorded but not of this session" if row else "was sent and is deleted now"
            self.notes.append(f"{name} {pk} {where}.")
        return None

    def _before_the_tail(self) -> tuple[list[ContextMessage], str]:
        """System prompt, summary and pinned message, and what became of the summary since."""
        parts, of_summary = [], ""
        if prompt := self.reply.session.system_prompt:
            tokens = count_messages([{"role": Role.SYSTEM, "content": prompt}], get_token_counter())[0]
            parts.append(ContextMessage(role=Role.SYSTEM, content=prompt, origin=Origin.SYSTEM, tokens=tokens))
        if row := self._named(self.summary_id, "Summary"):
            if row.redacted_at:
                of_summary = "erased since"
                self.notes.append(f"Summary {row.pk} was sent, and its text has been erased since.")
            elif row.retired_at and row.retired_at > self.reply.created_at:
                of_summary = "in use then, retired since"
            content = summary_message(row.text) if row.text else ""
            tokens = row.token_count
            parts.append(
                ContextMessage(role=Role.USER, content=content, origin=Origin.SUMMARY, tokens=tokens, message_id=row.pk)
            )
        if row := self._named(self.pinned_id, "The pinned message"):
            parts.append(as_sent(branches.message_value(row), Origin.PINNED))
            self._note_redacted([row])
        return parts, of_summary

    def _tail(self) -> list[ContextMessage | Unlisted]:
        """The messages that were sent after the cutoff; of very many the first, those not listed, and the last."""
        first, last, parent = self.first, self.reply.depth - 1, self.reply.parent_message_id
        if parent is None or first is None or not 1 <= first <= last:
            return []
        is_long = last - first + 1 > MOST_FIRST + MOST_LAST
        # Of a long one also the first and the last row that is not listed.
        early, late = (first + MOST_FIRST, last - MOST_LAST) if is_long else (last, last)
        outside = {"node": parent, "min_depth": first, "early": early, "late": late}
        found = list(ChatMessage.objects.using(self.using).raw(sql.PATH_OUTSIDE, outside))
        self._note_redacted(found)
        pruned = self._pruned([branches.message_value(row) for row in found], is_long)
        listed: list[ContextMessage | Unlisted] = [
            as_sent(m, Origin.PRUNED if m.id in pruned.left_out else Origin.VERBATIM, pruned.left_out.get(m.id, 0))
            for m in pruned.messages
        ]
        if is_long:
            folded = Stretch(found[MOST_FIRST], found[-MOST_LAST - 1]).as_unlisted(FOLDED)
            listed[MOST_FIRST:-MOST_LAST] = [folded]
        return listed

    def _pruned(self, values: Sequence[Message], is_long: bool) -> Pruned:
        """Shortened by the current settings, if they shorten as many results as were shortened then."""
        if self.pruned and self.settings and not is_long and not self._inner_gap:
            count, turns = get_token_counter(), self.settings.prune_keep_turns
            # A boundary that lay behind shortened what more protected turns would.
            tried = [
                prune(values, keep_turns=turns + behind, max_bytes=self.settings.prune_tool_result_bytes, count=count)
                for behind in range(MOST_TURNS_BEHIND)
            ]
            if self.settings.micro_compact:
                tried.append(micro_compact(tried[0].messages, keep_turns=turns, count=count))
            if alike := next((one for one in tried if len(one.left_out) == self.pruned), None):
                return alike
        if self.pruned:
            self.is_whole = False
            which = "Which one" if self.pruned == 1 else "Which ones"
            results = plural(self.pruned, "tool result was", "tool results were")
            self.notes.append(f"{results} sent shortened. {which} is not recorded, so all are shown in full.")
        return Pruned(messages=tuple(values))

    def _note_redacted(self, found: Sequence[ChatMessage]) -> None:
        then = self.reply.created_at
        erased = [f"{row.pk} ({place(row.depth)})" for row in found if row.redacted_at and row.redacted_at > then]
        if erased:
            self.is_whole = False
            messages = "message" if len(erased) == 1 else "messages"
            self.notes.append(f"Redacted since, so the text that was sent is gone: {messages} {', '.join(erased)}.")

    @property
    def _inner_gap(self) -> int:
        """Messages left out after the first that was sent: of a newest turn that alone was too large."""
        return self.dropped - ((self.first or 1) - 1 - self.cutoff_depth)

    def _left_out(self) -> list[Unlisted]:
        inner = self._inner_gap
        if not self.dropped or self.first is None:
            return []
        if inner:
            self.is_whole = False
            if inner > 0:
                missing = plural(inner, "message of the newest turn was", "messages of the newest turn were")
                self.notes.append(f"{missing} left out as well. Which ones is not recorded.")
            else:
                covered = plural(-inner, "earlier message was", "earlier messages were")
                self.notes.append(f"{covered} covered by a summary that was left out as well.")
        parent = self.reply.parent_message_id or 0
        before = stretch(parent, self.using, first=self.cutoff_depth + 1, last=self.first - 1)
        return [before.as_unlisted(DROPPED)] if before and inner >= 0 else []

    def _compare(self, rebuilt: int) -> None:
        """The sum of the rows with the number that was recorded."""
        recorded = self._number("tokens")
        if recorded is None:
            return
        if recorded == rebuilt:
            self.notes.append(f"The listed parts add up to the {number(rebuilt)} tokens recorded.")
        elif recorded > rebuilt:
            belong = "belong to parts that are not stored, or to a longer system prompt at the time"
            self.notes.append(f"Of the {number(recorded)} tokens recorded, {number(recorded - rebuilt)} {belong}.")
        else:
            self.notes.append(f"The listed parts are {number(rebuilt - recorded)} tokens more than recorded.")
