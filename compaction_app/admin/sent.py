"""What the model was sent for a reply: the record that was kept with it, laid over the rows that it names.

Messages and summaries do not change, so the rows still say what was sent; what they can not say any more (erased
since, never stored, not recorded which) the page says in words instead of guessing. Only what was shown is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_app.admin import paths
from compaction_app.admin.context_words import FOLDED, strategy_words
from compaction_app.admin.contexts import (
    MOST_FIRST,
    MOST_LAST,
    Omitted,
    Row,
    Total,
    UrlOf,
    notes_of,
    omitted,
    rows_of,
    totals_of,
)
from compaction_app.admin.display import number
from compaction_app.conf import Settings, get_settings, get_token_counter
from compaction_app.context.assembly import as_sent
from compaction_app.context.pruning import Pruned, micro_compact, prune
from compaction_app.exceptions import CompactionError
from compaction_app.messages.summary import summary_message
from compaction_app.models import ChatMessage
from compaction_app.tokens import count_messages
from compaction_app.tree import branches
from compaction_app.values import ContextMessage, Message, Origin, Role

#: An error under this share is no error that anybody would act on.
_EXACT = 0.0005


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """``ChatMessage.sent_context`` as it was written, see ``usage.sent_context``; None for what is not there."""

    summary_id: int | None
    cutoff_id: int | None
    pinned_id: int | None
    first_shown_depth: int | None
    strategy: str
    pruned: int
    dropped: int
    tokens: int | None
    available_tokens: int | None
    window: int | None
    provider_tokens: int | None
    estimate_error: float | None

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Record:
        """A host may have written anything there: what is no number is not there."""
        error = kept.get("estimate_error")
        return cls(
            summary_id=_whole(kept.get("summary_id")),
            cutoff_id=_whole(kept.get("cutoff_id")),
            pinned_id=_whole(kept.get("pinned_id")),
            first_shown_depth=_whole(kept.get("first_shown_depth")),
            strategy=str(kept.get("strategy") or ""),
            pruned=_whole(kept.get("pruned")) or 0,
            dropped=_whole(kept.get("dropped")) or 0,
            tokens=_whole(kept.get("tokens")),
            available_tokens=_whole(kept.get("available_tokens")),
            window=_whole(kept.get("window")),
            provider_tokens=_whole(kept.get("provider_tokens")),
            estimate_error=error if isinstance(error, int | float) else None,
        )

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        found = [
            ("Sent in all", number(self.tokens)),
            ("Available for history", number(self.available_tokens)),
            ("Window", number(self.window)),
            ("Pruned", number(self.pruned)),
            ("Left out", number(self.dropped)),
            ("First shown depth", number(self.first_shown_depth)),
            ("Strategy", strategy_words(self.strategy, has_summary=self.summary_id is not None) or "–"),
        ]
        if self.provider_tokens is not None:
            found.append(("Counted by the provider", number(self.provider_tokens)))
        if self.estimate_error is not None:
            found.append(("Our estimate was", _error_words(self.estimate_error)))
        return tuple(found)


def _whole(value: Any) -> int | None:
    """A number that an id, a depth or a count can be."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_number else None


def _error_words(error: float) -> str:
    if abs(error) < _EXACT:
        return "right to a tenth of a percent"
    return f"{abs(error):.1%} too {'small' if error < 0 else 'large'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextThen:
    record: Record
    rows: tuple[Row, ...] = ()
    totals: tuple[Total, ...] = ()
    #: What can not be shown, or is not what it was.
    notes: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        return self.record.figures


def context_then(reply: ChatMessage, url_of: UrlOf, prompt_url: str = "") -> ContextThen | None:
    """What was sent to get this reply; None where nothing was recorded. At most five queries."""
    if not isinstance(reply.sent_context, Mapping) or not reply.sent_context:
        return None
    return _Rebuilding(reply, Record.read(reply.sent_context)).result(url_of, prompt_url)


class _Rebuilding:
    """One reply's context, put together part by part."""

    def __init__(self, reply: ChatMessage, record: Record) -> None:
        self.reply, self.record, self.using = reply, record, branches.database_of(reply)
        self.notes: list[str] = []
        self.settings = self._settings()
        named = [pk for pk in (record.summary_id, record.cutoff_id, record.pinned_id) if pk]
        # Whatever session they are of, so that what is elsewhere is not said to be deleted.
        found = ChatMessage.objects.using(self.using).in_bulk(named) if named else {}
        self.named = {pk: row for pk, row in found.items() if row.session_id == reply.session_id}
        self.elsewhere = found.keys() - self.named.keys()
        #: The tokens of everything are known, and nothing of it was erased or guessed at.
        self.is_whole = True

    def result(self, url_of: UrlOf, prompt_url: str) -> ContextThen:
        parts, of_summary = self._before_the_tail()
        head, folded, tail = self._tail()
        left_out = self._left_out(head)
        listed = [*parts, *head, *tail]
        if folded is None:
            self._compare(sum(message.tokens for message in listed))
        rows = [*rows_of([*parts, *head], url_of, prompt_url, left_out, {Origin.SUMMARY: of_summary})]
        if folded:
            # Apart, so that a call whose result is not listed does not look unanswered.
            rows += [folded.row(FOLDED, url_of), *rows_of(tail, url_of)]
        totals = totals_of(listed, left_out.values(), folded)
        return ContextThen(record=self.record, rows=tuple(rows), totals=totals, notes=tuple(self.notes))

    def _settings(self) -> Settings | None:
        try:
            settings = get_settings(self.reply.session.settings)
        except CompactionError as error:
            self.notes.append(f"The settings of today can not be read: {error}")
            return None
        if settings.redactor is not None:
            self.notes.append("A REDACTOR is set: it may have taken out parts of what is listed before it was sent.")
        return settings

    # -- the parts ----------------------------------------------------------------------------------------

    def _before_the_tail(self) -> tuple[list[ContextMessage], str]:
        """System prompt, summary and pinned message; and a word about the summary."""
        parts, told = [], ""
        if prompt := self.reply.session.system_prompt:
            tokens = count_messages([{"role": Role.SYSTEM, "content": prompt}], get_token_counter())[0]
            parts.append(ContextMessage(role=Role.SYSTEM, content=prompt, origin=Origin.SYSTEM, tokens=tokens))
        self.notes.append(
            "Contributions and tool schemas are not stored, so they are not listed; the system prompt is today's."
        )
        if self.record.summary_id and (row := self._named(self.record.summary_id, "Summary")):
            told = "; ".join(filter(None, [*notes_of(self.record.cutoff_id).values(), self._became_of(row)]))
            role = self.settings.summary_role if self.settings else Role.USER
            content = summary_message(row.content) if row.content else ""
            parts.append(
                ContextMessage(
                    role=role, content=content, origin=Origin.SUMMARY, tokens=row.token_count, message_id=row.pk
                )
            )
        if self.record.cutoff_id in self.elsewhere:
            self._named(self.record.cutoff_id or 0, "The cutoff")
        if self.record.pinned_id and (row := self._named(self.record.pinned_id, "The pinned message")):
            parts.append(as_sent(branches.message_value(row), Origin.PINNED))
            self._say_redacted([row])
        return parts, told

    def _named(self, pk: int, name: str) -> ChatMessage | None:
        row = self.named.get(pk)
        if row is None:
            self.is_whole = False
            # A host that records contexts by itself can write any id; of what is not here nothing is shown.
            is_elsewhere = "is recorded and is not of this session" if pk in self.elsewhere else ""
            self.notes.append(f"{name} {pk} {is_elsewhere or 'was sent and has been deleted since'}.")
        return row

    def _became_of(self, summary: ChatMessage) -> str:
        """A summary stays as it was unless what it stands for was erased."""
        if summary.redacted_at:
            self.notes.append(f"Summary {summary.pk} was sent and has been emptied since: what it held was erased.")
            return "emptied since"
        if summary.retired_at and summary.retired_at > self.reply.created_at:
            return "in use then, retired since"
        return ""

    def _tail(self) -> tuple[list[ContextMessage], Omitted | None, list[ContextMessage]]:
        """The messages after the cutoff that were shown; of very many the first, a word, and the last."""
        first, last, parent = self.record.first_shown_depth, self.reply.depth - 1, self.reply.parent_message_id
        if parent is None or first is None or not 1 <= first <= last:
            return [], None, []
        is_long = last - first + 1 > MOST_FIRST + MOST_LAST
        # Of a long one also the two rows at which the list breaks off.
        early, late = (first + MOST_FIRST, last - MOST_LAST) if is_long else (last, last)
        found = paths.rows(parent, self.using, first=first, early=early, late=late)
        self._say_redacted(found)
        values = [branches.message_value(row) for row in found]
        if not is_long:
            pruned = self._pruned(values)
            return [as_sent(m, _origin(m, pruned), pruned.left_out.get(m.id, 0)) for m in pruned.messages], None, []
        if self.record.pruned:
            self._say_pruned()
        start, *_, end = [*values[MOST_FIRST:-MOST_LAST], values[-MOST_LAST - 1]]
        tokens = end.path_tokens - start.path_tokens + start.tokens
        folded = Omitted(end.depth - start.depth + 1, tokens, start.id, end.id)
        listed = [as_sent(m, Origin.VERBATIM) for m in values]
        return listed[:MOST_FIRST], folded, listed[-MOST_LAST:]

    def _pruned(self, values: Sequence[Message]) -> Pruned:
        """Shortened by the rules of today, if they shorten as many as were shortened then."""
        untouched = Pruned(messages=tuple(values))
        if not self.record.pruned:
            return untouched
        if self.settings and not self._inner_gap:
            keep, size = self.settings.prune_keep_turns, self.settings.prune_tool_result_bytes
            pruned = prune(values, keep_turns=keep, max_bytes=size, count=get_token_counter())
            if len(pruned.left_out) == self.record.pruned:
                return pruned
            pruned = micro_compact(pruned.messages, keep_turns=keep, count=get_token_counter())
            if self.settings.micro_compact and len(pruned.left_out) == self.record.pruned:
                return pruned
        self._say_pruned()
        return untouched

    def _say_pruned(self) -> None:
        self.is_whole = False
        told = "1 tool result was" if self.record.pruned == 1 else f"{self.record.pruned} tool results were"
        self.notes.append(f"{told} sent shortened; which is not recorded, so all are shown in full.")

    def _say_redacted(self, found: Sequence[ChatMessage]) -> None:
        then = self.reply.created_at
        erased = [str(row.pk) for row in found if row.redacted_at and row.redacted_at > then]
        if erased:
            self.is_whole = False
            self.notes.append(f"Redacted since, so that what was sent is gone: message {', '.join(erased)}.")

    # -- what was not sent --------------------------------------------------------------------------------

    @property
    def _cutoff_depth(self) -> int:
        cutoff = self.named.get(self.record.cutoff_id or 0)
        return cutoff.depth if cutoff else 0

    @property
    def _inner_gap(self) -> int:
        """Messages left out after the first that was shown: those of a newest turn that alone was too large."""
        before = (self.record.first_shown_depth or 1) - 1 - self._cutoff_depth
        return self.record.dropped - before

    def _left_out(self, tail: Sequence[ContextMessage]) -> dict[int, Omitted]:
        first = self.record.first_shown_depth
        if not self.record.dropped or first is None or not tail:
            return {}
        if self._inner_gap:
            self.is_whole = False
            self._say_gap(self._inner_gap)
        parent = self.reply.parent_message_id or 0
        before = paths.stretch(parent, self.using, first=self._cutoff_depth + 1, last=first - 1)
        return {tail[0].message_id or 0: omitted(before)} if before and self._inner_gap >= 0 else {}

    def _say_gap(self, inner: int) -> None:
        if inner > 0:
            self.notes.append(f"{inner} of the newest turn's messages were left out too; which is not recorded.")
        else:
            self.notes.append(f"{-inner} messages before were covered by a summary that had to be left out as well.")

    def _compare(self, rebuilt: int) -> None:
        """What the rows add up to, against what was recorded."""
        if not self.is_whole or self.record.tokens is None:
            return
        other = self.record.tokens - rebuilt
        if other == 0:
            self.notes.append(f"What is listed adds up to the {number(rebuilt)} tokens that were recorded.")
        elif other > 0:
            told = "belong to what is not stored, or to a longer system prompt then"
            self.notes.append(f"Of the {number(self.record.tokens)} tokens recorded, {number(other)} {told}.")
        else:
            self.notes.append(f"What is listed is {number(-other)} tokens more than was recorded.")


def _origin(message: Message, pruned: Pruned) -> Origin:
    return Origin.PRUNED if message.id in pruned.left_out else Origin.VERBATIM
