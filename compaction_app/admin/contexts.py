"""What the model would be sent at a message, and what it was sent for a reply: one table, made in two ways.

``context_here`` uses the function that a chat turn calls, so the page shows what the model sees. ``context_then`` reads
the record that was kept with a reply and applies it to the rows that it names: these never change, and what they cannot
show any more (erased since, never stored, not recorded which) the page says instead of guessing. Messages that were not
sent, or are too many for a page, share one row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app import chat
from compaction_app.admin.display import call_line, counted, messages, percent, place, shortened
from compaction_app.conf import Mode, get_settings, get_token_counter
from compaction_app.conversation.usage import sent_context
from compaction_app.exceptions import CompactionError, ContextOverflow
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.transcript import count_summary, summary_message
from compaction_app.models import ChatMessage, sql
from compaction_app.tokens import count_messages
from compaction_app.tree import branches
from compaction_app.tree.lanes import tips_at_or_below
from compaction_app.values import ContextMessage, Origin, Role, Strategy

#: Messages after the cutoff that a page lists: the newest.
MOST_LISTED = 200
#: Characters of a message that can be expanded (a pruned result by the presets is shorter), and of all of a page.
MOST_TEXT, _MOST_TEXTS = 4_200, 250_000
#: Where compaction is off a context is the whole branch. With more messages than this no page reads it.
MOST_SWITCHED_OFF = 2_000

_AFTER_THE_CUTOFF = (Origin.VERBATIM, Origin.PRUNED)
#: Origins of rows beside :class:`Origin`: not sent, or too many for the page.
DROPPED, FOLDED = "dropped", "folded"
#: Name and meaning of each origin, in the order of the totals. Contributions are a caller's: no page has them.
ORIGINS: dict[str, tuple[Any, Any]] = {
    Origin.SYSTEM: (gettext_lazy("System prompt"), gettext_lazy("the session's system prompt, never compacted")),
    Origin.SUMMARY: (gettext_lazy("Summary"), gettext_lazy("replaces every message up to its cutoff")),
    Origin.SHARED_EXTRACT: (
        gettext_lazy("Shared extract"),
        gettext_lazy("what a summary of another branch quotes of messages that both branches have"),
    ),
    Origin.PIN: (gettext_lazy("Pinned"), gettext_lazy("summarized, and sent in full since somebody pinned it")),
    Origin.PINNED: (
        gettext_lazy("The turn's request"),
        gettext_lazy("the user message of the turn that contains the cutoff, sent in full"),
    ),
    Origin.VERBATIM: (gettext_lazy("Verbatim"), gettext_lazy("sent in full")),
    Origin.PRUNED: (gettext_lazy("Pruned"), gettext_lazy("a tool result, sent shortened")),
    FOLDED: (gettext_lazy("Sent, not listed"), gettext_lazy("sent, but too many to list on this page")),
    DROPPED: (gettext_lazy("Left out"), gettext_lazy("not sent: it did not fit")),
}
STRATEGY_WORDS: dict[str, Any] = {
    Strategy.NONE: gettext_lazy("Everything verbatim"),
    Strategy.TOOL_RESULT_BUDGET: gettext_lazy("Old tool results pruned"),
    Strategy.MICRO_COMPACT: gettext_lazy("White space in old tool results collapsed"),
    Strategy.AUTO_COMPACT: gettext_lazy("A summary is used"),
    Strategy.SHARED_EXTRACT: gettext_lazy("The extract of another branch's summary is used"),
    Strategy.TRUNCATED: gettext_lazy("Cut to fit: the history does not fit the window"),
}


class Unlisted(NamedTuple):
    """Messages that follow each other on a branch and share a row, by the ids of the first and the last."""

    origin: str
    messages: int
    tokens: int
    first: int
    last: int


def stretch(node: ChatMessage, *, first: int, last: int, origin: str = DROPPED) -> Unlisted | None:
    """The part of a node's branch between two depths; None if there is none. One query, whatever its length."""
    if not 1 <= first <= last:
        return None
    depths = {"node": node.pk, "first": first, "last": last}
    ends = list(ChatMessage.objects.in_database_of(node).raw(sql.STRETCH_ENDS, depths))
    if not ends or (ends[0].depth, ends[-1].depth) != (first, last):
        return None
    tokens = ends[-1].path_tokens - ends[0].path_tokens + ends[0].token_count
    return Unlisted(origin, last - first + 1, tokens, ends[0].pk, ends[-1].pk)


def _table(
    items: Sequence[ContextMessage | Unlisted], tip: ChatMessage, sent: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """The rows and totals of what is sent, and of what is not, in its order; ``sent`` is as a reply keeps it."""
    cutoff_id = sent.get("cutoff_id")
    counts, tokens = Counter[str](), Counter[str]()
    for item in items:
        counts[item.origin] += item.messages if isinstance(item, Unlisted) else 1
        tokens[item.origin] += item.tokens
    listed = _folded(items)
    ends = {end for item in listed for end in _ends(item)} | {cutoff_id or 0}
    found = ChatMessage.objects.in_database_of(tip).filter(pk__in=ends).values_list("pk", "depth", "redacted_at")
    known = {pk: (depth, redacted_at) for pk, depth, redacted_at in found}
    rows, room = [], _MOST_TEXTS
    for shown in listed:
        row = {
            "origin": shown.origin,
            "origin_words": ORIGINS[shown.origin][0],
            "tokens": shown.tokens,
            # (id, depth) of each message to link to: of several that are not listed the first and the last.
            "places": [(pk, known.get(pk, (None,))[0]) for pk in _ends(shown)],
        }
        if isinstance(shown, Unlisted):
            rows.append(row | {"notes": [messages(shown.messages)]})
            continue
        said = [text for text in (shown.content, *map(call_line, shown.tool_calls)) if text]
        line = shortened(" ".join(said))
        # The line shows the beginning, and ``whole`` has more where that is not all.
        whole = "" if line == " ".join(said) else "\n".join(said)[: min(MOST_TEXT, max(room, 0))]
        room -= len(whole)
        row |= {"role": shown.role, "name": shown.name, "text": line, "whole": whole}
        row["attachments"] = [attachment_line(one) for one in shown.attachments]
        rows.append(row | {"notes": list(_notes(shown, known, cutoff_id))})
    totals = [(one, *ORIGINS[one], counts[one], tokens[one]) for one in ORIGINS if counts[one]]
    strategy = STRATEGY_WORDS.get(sent.get("strategy", ""), "")
    return {"rows": rows, "totals": totals, "sent": sent, "strategy": strategy, "notes": notes}


def _notes(shown: ContextMessage, known: Mapping[int, tuple[int, Any]], cutoff_id: int | None) -> Iterator[str]:
    if shown.left_out_bytes:
        yield counted(shown.left_out_bytes, "{} byte left out", "{} bytes left out")
    if shown.origin.is_summary:
        if cutoff_id:
            depth = known.get(cutoff_id, (0, None))[0]
            at = f"{cutoff_id} ({place(depth)})" if depth else str(cutoff_id)
            yield _("Summarizes everything up to message {}").format(at)
        return
    if not shown.content.strip() and not shown.tool_calls and not shown.attachments:
        yield _("No text, so nothing is sent.")
    if known.get(shown.message_id or 0, (0, None))[1]:
        yield _("Redacted")


def _ends(item: ContextMessage | Unlisted) -> tuple[int, ...]:
    if isinstance(item, Unlisted):
        return tuple(dict.fromkeys((item.first, item.last)))
    return (item.message_id,) if item.message_id else ()


def _folded(items: Sequence[ContextMessage | Unlisted]) -> Sequence[ContextMessage | Unlisted]:
    """Of very many messages after the cutoff the newest, and one :class:`Unlisted` for those before them."""
    before, newest = items[:-MOST_LISTED], items[-MOST_LISTED:]
    older = [item for item in before if isinstance(item, ContextMessage) and item.origin in _AFTER_THE_CUTOFF]
    if not older:
        return items
    ends = (older[0].message_id or 0, older[-1].message_id or 0)
    folded = Unlisted(FOLDED, len(older), sum(message.tokens for message in older), *ends)
    return [*before[: len(before) - len(older)], folded, *newest]


def context_here(message: ChatMessage) -> dict[str, Any]:
    """What the model would be sent at this message, or the ``problem`` why it is not shown."""
    try:
        is_off = get_settings(message.session.settings).mode == Mode.OFF
        if message.depth > MOST_SWITCHED_OFF and is_off:
            return {"is_too_long": True}
        context = chat.get_context(message)
        history = branches.history_at(message)
    except ContextOverflow as error:
        return {"overflow": error}
    except CompactionError as error:
        return {"problem": str(error)}
    sent, notes = sent_context(context, None, {}), list[str]()
    items: list[ContextMessage | Unlisted] = list(context.messages)
    is_after = (one.origin in _AFTER_THE_CUTOFF for one in context.messages)
    at = next((place for place, found in enumerate(is_after) if found), len(items))
    if context.dropped and context.first_shown_depth is not None:
        # Of the summary that is sent: where the newest one leaves no room it is an older one, or none.
        notes.append(_("The messages left out do not fit, and no summary that is in use covers them."))
        items[at:at] = _left_out(message, sent, notes)
    return {
        "context": context,
        "is_off": is_off,
        # What is compared with the threshold is the full history, of which less may be sent.
        "history_tokens": history.tokens,
        "is_over": not is_off and history.tokens > context.threshold,
        "share": context.history_tokens / max(context.available_tokens, 1),
        **_table(items, message, sent, notes),
    }


def _left_out(tip: ChatMessage, sent: Mapping[str, Any], notes: list[str]) -> list[Unlisted]:
    """What did not fit of the branch that ends at a tip, after the cutoff and before the first that is sent, by depths.

    Pins in between are sent nevertheless. Where more are missing, they are of a newest turn that alone is too large.
    """
    cutoff_id, dropped = sent.get("cutoff_id"), sent.get("dropped", 0)
    if not dropped:
        return []
    named = ChatMessage.objects.in_database_of(tip).filter(session=tip.session_id)
    named = named.filter(pk__in={cutoff_id or 0, *sent.get("pin_ids", ())})
    depths = dict(named.values_list("pk", "depth"))
    cutoff = depths.pop(cutoff_id, 0)
    pinned = sum(depth > cutoff for depth in depths.values())
    before = stretch(tip, first=cutoff + 1, last=sent["first_shown_depth"] - 1)
    inner = dropped + pinned - (before.messages if before else 0)
    if inner > 0:
        notes.append(
            _("Left out within the newest turn as well, which alone is too large: {}.").format(messages(inner))
        )
    return [before._replace(messages=before.messages - pinned)] if before and inner >= 0 else []


def context_then(reply: ChatMessage) -> dict[str, Any] | None:
    """What was sent to get this reply; None where nothing was recorded. At most seven queries."""
    kept = reply.sent_context
    return _Record(reply, kept).table() if isinstance(kept, Mapping) and kept else None


class _Record:
    """``ChatMessage.sent_context``, applied to the rows that it names."""

    def __init__(self, reply: ChatMessage, kept: Mapping[str, Any]) -> None:
        self.reply, self.kept = reply, kept
        self.notes: list[str] = []
        named = {kept.get("summary_id"), kept.get("pinned_id"), *kept.get("pin_ids", ())} - {None}
        self.named = ChatMessage.objects.in_database_of(reply).filter(session=reply.session_id).in_bulk(named)

    def table(self) -> dict[str, Any]:
        items, error = [*self._before_the_tail(), *self._tail()], self.kept.get("estimate_error")
        estimate = percent(abs(error), 1) if isinstance(error, int | float) else ""
        return {"is_record": True, "estimate": estimate, **_table(items, self.reply, self.kept, self.notes)}

    def _row(self, pk: int | None, name: str) -> ChatMessage | None:
        row = self.named.get(pk or 0)
        if pk and row is None:
            self.notes.append(_("{} {} was sent and is deleted now.").format(name, pk))
        return row

    def _before_the_tail(self) -> list[ContextMessage]:
        """System prompt, summary, pins and the turn's request, with notes about what became of these since."""
        parts = []
        if prompt := self.reply.session.system_prompt:
            tokens = count_messages([{"role": Role.SYSTEM, "content": prompt}], get_token_counter())[0]
            parts.append(ContextMessage(role=Role.SYSTEM, content=prompt, origin=Origin.SYSTEM, tokens=tokens))
        if row := self._row(self.kept.get("summary_id"), _("Summary")):
            if row.redacted_at:
                self.notes.append(_("Summary {} was sent, and its text has been erased since.").format(row.pk))
            elif row.retired_at and row.retired_at > self.reply.created_at:
                self.notes.append(_("Summary {} was in use then, and has been retired since.").format(row.pk))
            origin, text, tokens = Origin.SUMMARY, row.text, row.token_count
            if not tips_at_or_below(row.parent_message_id or 0, [self.reply.pk], self.reply):
                origin, text = Origin.SHARED_EXTRACT, row.extract
                tokens = count_summary(text, get_token_counter())
            content = summary_message(text) if text else ""
            parts.append(ContextMessage(role=Role.USER, content=content, origin=origin, tokens=tokens, id=row.pk))
        pins = [(pk, _("The pinned message"), Origin.PIN) for pk in self.kept.get("pin_ids", ())]
        for pk, name, origin in [*pins, (self.kept.get("pinned_id"), _("The turn's request"), Origin.PINNED)]:
            if row := self._row(pk, name):
                parts.append(replace(branches.message_value(row), origin=origin))
        return parts

    def _tail(self) -> list[ContextMessage | Unlisted]:
        """What was left out after the cutoff, and what was sent: of very many the newest, a row for those before."""
        first, last = self.kept.get("first_shown_depth"), self.reply.depth - 1
        if first is None or not 1 <= first <= last:
            return []
        if self.kept.get("pruned"):
            self.notes.append(_("Tool results that were sent shortened have the tokens of their whole texts below."))
        first_listed = max(first, last - MOST_LISTED + 1)
        older = stretch(self.reply, first=first, last=first_listed - 1, origin=FOLDED)
        # Its own id is the first.
        listed = branches.path_ids(self.reply, first_listed)[1:]
        rows = ChatMessage.objects.in_database_of(self.reply).filter(pk__in=listed)
        left_out = _left_out(self.reply, self.kept, self.notes)
        return [*left_out, *([older] if older else []), *map(branches.message_value, rows.order_by("depth"))]
