"""What the model was sent for a reply: the record kept with the reply, applied to the rows that it names.

Messages and summaries never change, so the rows still show what was sent. What they cannot show (erased since, never
stored, not recorded which) the page says instead of guessing. Only what is listed is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from compaction_app.admin import contexts
from compaction_app.admin.contexts import MOST_FIRST, MOST_LAST, Row, rows_of, totals_of
from compaction_app.admin.display import number, place, plural
from compaction_app.conf import Settings, get_settings, get_token_counter
from compaction_app.context.assembly import as_sent
from compaction_app.context.pruning import MOST_TURNS_BEHIND, Pruned, micro_compact, prune
from compaction_app.exceptions import CompactionError
from compaction_app.messages.transcript import summary_message
from compaction_app.models import ChatMessage, sql
from compaction_app.tokens import count_messages
from compaction_app.tree import branches
from compaction_app.values import ContextMessage, Message, Origin, Role

#: A smaller error of the token estimate makes no difference.
_EXACT = 0.0005


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """``ChatMessage.sent_context`` as it was written; None for what is missing."""

    summary_id: int | None
    cutoff_id: int | None
    pinned_id: int | None
    first_shown_depth: int | None
    pruned: int | None
    dropped: int | None
    tokens: int | None
    available_tokens: int | None
    window: int | None
    provider_tokens: int | None
    #: What was done to the history, in words.
    strategy: str
    estimate_error: str

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Record:
        """A host may have written anything there: what is not a number is missing."""
        numbers: dict[str, Any] = {field.name: _whole(kept.get(field.name)) for field in fields(cls)}
        has_summary = numbers["summary_id"] is not None
        numbers["strategy"] = contexts.strategy_words(str(kept.get("strategy") or ""), has_summary=has_summary)
        error = kept.get("estimate_error")
        numbers["estimate_error"] = _error_words(error) if isinstance(error, int | float) else ""
        return cls(**numbers)


def _whole(value: Any) -> int | None:
    """A number that an id, a depth or a count can have."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_number else None


def _error_words(error: float) -> str:
    if abs(error) < _EXACT:
        return "within 0.1 % of the provider's count"
    return f"{abs(error):.1%} too {'small' if error < 0 else 'large'}"


def context_then(reply: ChatMessage) -> ContextThen | None:
    """What was sent to get this reply; None where nothing was recorded. At most six queries."""
    kept = reply.sent_context
    return ContextThen(reply, Record.read(kept)) if isinstance(kept, Mapping) and kept else None


class ContextThen:
    """One reply's context, rebuilt part by part."""

    def __init__(self, reply: ChatMessage, record: Record) -> None:
        self.reply, self.record, self.using = reply, record, branches.database_of(reply)
        #: What cannot be shown, or is not what it was.
        self.notes: list[str] = []
        #: The tokens of all parts are known: none was erased or guessed.
        self.is_whole = True
        self.settings = self._settings()
        named = [pk for pk in (record.summary_id, record.cutoff_id, record.pinned_id) if pk]
        # Of any session, so that a row of another session is not reported as deleted.
        found = ChatMessage.objects.using(self.using).in_bulk(named) if named else {}
        self.named = {pk: row for pk, row in found.items() if row.session_id == reply.session_id}
        self.elsewhere = found.keys() - self.named.keys()
        parts, summary_note = self._before_the_tail()
        head, folded, tail = self._tail()
        left_out = self._left_out(head)
        listed = [*parts, *head, *tail]
        if folded is None:
            self._compare(sum(message.tokens for message in listed))
        self.rows = rows_of([*parts, *head], left_out, summary_note=summary_note)
        if folded:
            # Apart, so that a call whose result is not listed does not look unanswered.
            self.rows = (*self.rows, folded, *rows_of(tail))
        self.rows = contexts.placed(self.rows, self.using)
        self.totals = totals_of(listed, [*left_out.values(), *([folded] if folded else [])])

    def _settings(self) -> Settings | None:
        try:
            settings = get_settings(self.reply.session.settings)
        except CompactionError as error:
            self.notes.append(f"The current settings are invalid: {error}")
            return None
        if settings.redactor is not None:
            self.notes.append("A REDACTOR is set: it may have removed parts of these texts before they were sent.")
        return settings

    # -- system prompt, summary, pinned message -----------------------------------------------------------

    def _before_the_tail(self) -> tuple[list[ContextMessage], str]:
        """The parts before the messages, and a note about the summary."""
        parts, summary_note = [], ""
        if prompt := self.reply.session.system_prompt:
            tokens = count_messages([{"role": Role.SYSTEM, "content": prompt}], get_token_counter())[0]
            parts.append(ContextMessage(role=Role.SYSTEM, content=prompt, origin=Origin.SYSTEM, tokens=tokens))
        self.notes.append(
            "Contributions and tool schemas are not stored, so they are not listed; the system prompt is the current "
            "one."
        )
        if self.record.summary_id and (row := self._named(self.record.summary_id, "Summary")):
            known = (contexts.summary_note(self.record.cutoff_id, self._cutoff_depth), self._since_then(row))
            summary_note = "; ".join(filter(None, known))
            parts.append(
                ContextMessage(
                    role=self.settings.summary_role if self.settings else Role.USER,
                    content=summary_message(row.text) if row.text else "",
                    origin=Origin.SUMMARY,
                    tokens=row.token_count,
                    message_id=row.pk,
                )
            )
        if self.record.cutoff_id in self.elsewhere:
            self._named(self.record.cutoff_id or 0, "The cutoff")
        if self.record.pinned_id and (row := self._named(self.record.pinned_id, "The pinned message")):
            parts.append(as_sent(branches.message_value(row), Origin.PINNED))
            self._note_redacted([row])
        return parts, summary_note

    def _named(self, pk: int, name: str) -> ChatMessage | None:
        row = self.named.get(pk)
        if row is None:
            self.is_whole = False
            # A host that records contexts itself can write any id. Rows of other sessions are never shown.
            where = "is recorded but not of this session" if pk in self.elsewhere else "was sent and is deleted now"
            self.notes.append(f"{name} {pk} {where}.")
        return row

    def _since_then(self, summary: ChatMessage) -> str:
        """A summary never changes unless a message that it covers is redacted."""
        if summary.redacted_at:
            self.notes.append(f"Summary {summary.pk} was sent, and its text has been erased since.")
            return "erased since"
        if summary.retired_at and summary.retired_at > self.reply.created_at:
            return "in use then, retired since"
        return ""

    # -- messages -----------------------------------------------------------------------------------------

    def _tail(self) -> tuple[list[ContextMessage], Row | None, list[ContextMessage]]:
        """The messages that were sent after the cutoff; of very many the first, those not listed, and the last."""
        first, last, parent = self.record.first_shown_depth, self.reply.depth - 1, self.reply.parent_message_id
        if parent is None or first is None or not 1 <= first <= last:
            return [], None, []
        is_long = last - first + 1 > MOST_FIRST + MOST_LAST
        # Of a long one also the first and the last row that is not listed.
        early, late = (first + MOST_FIRST, last - MOST_LAST) if is_long else (last, last)
        outside = {"node": parent, "min_depth": first, "early": early, "late": late}
        found = list(ChatMessage.objects.using(self.using).raw(sql.PATH_OUTSIDE, outside))
        self._note_redacted(found)
        pruned = self._pruned([branches.message_value(row) for row in found], is_long)
        listed = [
            as_sent(m, Origin.PRUNED if m.id in pruned.left_out else Origin.VERBATIM, pruned.left_out.get(m.id, 0))
            for m in pruned.messages
        ]
        if not is_long:
            return listed, None, []
        folded = contexts.Stretch(found[MOST_FIRST], found[-MOST_LAST - 1]).row(contexts.FOLDED)
        return listed[:MOST_FIRST], folded, listed[-MOST_LAST:]

    def _pruned(self, values: Sequence[Message], is_long: bool) -> Pruned:
        """Shortened by the current settings, if they shorten as many results as were shortened then."""
        untouched = Pruned(messages=tuple(values))
        if not self.record.pruned:
            return untouched
        if self.settings and not is_long and not self._inner_gap:
            count, keep_turns = get_token_counter(), self.settings.prune_keep_turns
            max_bytes = self.settings.prune_tool_result_bytes
            # A boundary that lay behind shortened what more protected turns would.
            for turns in range(keep_turns, keep_turns + MOST_TURNS_BEHIND):
                pruned = prune(values, keep_turns=turns, max_bytes=max_bytes, count=count)
                if len(pruned.left_out) == self.record.pruned:
                    return pruned
            pruned = prune(values, keep_turns=keep_turns, max_bytes=max_bytes, count=count)
            pruned = micro_compact(pruned.messages, keep_turns=keep_turns, count=count)
            if self.settings.micro_compact and len(pruned.left_out) == self.record.pruned:
                return pruned
        self.is_whole = False
        which = "Which one" if self.record.pruned == 1 else "Which ones"
        results = plural(self.record.pruned, "tool result was", "tool results were")
        self.notes.append(f"{results} sent shortened. {which} is not recorded, so all are shown in full.")
        return untouched

    def _note_redacted(self, found: Sequence[ChatMessage]) -> None:
        then = self.reply.created_at
        erased = [f"{row.pk} ({place(row.depth)})" for row in found if row.redacted_at and row.redacted_at > then]
        if erased:
            self.is_whole = False
            messages = "message" if len(erased) == 1 else "messages"
            self.notes.append(f"Redacted since, so the text that was sent is gone: {messages} {', '.join(erased)}.")

    # -- what was not sent --------------------------------------------------------------------------------

    @property
    def _cutoff_depth(self) -> int:
        cutoff = self.named.get(self.record.cutoff_id or 0)
        return cutoff.depth if cutoff else 0

    @property
    def _inner_gap(self) -> int:
        """Messages left out after the first that was sent: of a newest turn that alone was too large."""
        before = (self.record.first_shown_depth or 1) - 1 - self._cutoff_depth
        return (self.record.dropped or 0) - before

    def _left_out(self, tail: Sequence[ContextMessage]) -> dict[int, Row]:
        first, inner = self.record.first_shown_depth, self._inner_gap
        if not self.record.dropped or first is None or not tail:
            return {}
        if inner:
            self.is_whole = False
            if inner > 0:
                missing = plural(inner, "message of the newest turn was", "messages of the newest turn were")
                self.notes.append(f"{missing} left out as well. Which ones is not recorded.")
            else:
                covered = plural(-inner, "earlier message was", "earlier messages were")
                self.notes.append(f"{covered} covered by a summary that was left out as well.")
        parent = self.reply.parent_message_id or 0
        before = contexts.stretch(parent, self.using, first=self._cutoff_depth + 1, last=first - 1)
        return {tail[0].message_id or 0: before.row(contexts.DROPPED)} if before and inner >= 0 else {}

    def _compare(self, rebuilt: int) -> None:
        """The sum of the rows with the number that was recorded."""
        if not self.is_whole or self.record.tokens is None:
            return
        other = self.record.tokens - rebuilt
        if other == 0:
            self.notes.append(f"The listed parts add up to the {number(rebuilt)} tokens recorded.")
        elif other > 0:
            belong = "belong to parts that are not stored, or to a longer system prompt at the time"
            self.notes.append(f"Of the {number(self.record.tokens)} tokens recorded, {number(other)} {belong}.")
        else:
            self.notes.append(f"The listed parts are {number(-other)} tokens more than recorded.")
