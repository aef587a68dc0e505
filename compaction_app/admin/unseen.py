"""Which messages are no longer sent to the model after a redaction, a retirement or a deletion.

Without its summary a branch may be too long for its window until it is compacted again. The page that asks for
confirmation says so, and whether a spending limit delays that compaction. The numbers are estimates from stored sums:
the real context leaves out whole turns, up to an eighth of the window more, and shortens tool results first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import connections
from django.utils import timezone
from django.utils.html import format_html

from compaction_app.admin.display import moment, number, plural
from compaction_app.conf import Mode
from compaction_app.context.reading import resolve_request
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.spending import describe_overspending, find_overspending
from compaction_app.tree.branches import database_of, history_at
from compaction_app.tree.lanes import newest_tip_below


@dataclass(frozen=True, slots=True)
class Unseen:
    """The oldest messages after the cutoff of a branch, as many as do not fit its window."""

    messages: int
    tokens: int
    tip: ChatMessage
    #: Which spending limit delays the next compaction, and until when; "" if none does.
    held_back: str

    def sentence(self, tip: str) -> str:
        """With a link to the tip."""
        messages = plural(self.messages, "message without a summary", "messages without a summary")
        sent = "is not sent" if self.messages == 1 else "are not sent"
        then = self.held_back or "A compaction is requested at once."
        if self.held_back:
            then = format_html("<strong>No compaction starts now.</strong> {}", then)
        return format_html(
            "The branch that ends at {} is then too long for its window. <strong>Until it is compacted, the oldest {} "
            "(about {} tokens) {} to the model.</strong> {}",
            *(tip, messages, number(self.tokens), sent, then),
        )


def held_back(session: ChatSession) -> str:
    """Which limit of ``SPENDING_LIMITS`` delays compactions, and until when; "" if none does."""
    numbers = find_overspending(session)
    if numbers is None:
        return ""
    until = moment(timezone.now() + timedelta(seconds=numbers["seconds"]))
    return format_html("{} Until {} nothing is compacted.", describe_overspending(numbers), until)


def unseen_without_own(message: ChatMessage) -> Unseen | None:
    """On the newest branch with the message, without the summaries whose anchor is at the message or below it."""
    parent, using = message.parent_message_id, database_of(message)
    summary_id = history_at(parent, using).summary_id if parent else None
    summaries = ChatMessage.objects.using(using).select_related("last_summarized_message")
    base = summaries.filter(pk=summary_id).first() if summary_id else None
    return unseen_at(newest_tip_below(message), base)


def unseen_at(tip: ChatMessage | None, base: ChatMessage | None) -> Unseen | None:
    """At a tip to which ``base`` applies; None if all of it fits, or compaction is off."""
    if tip is None:
        return None
    resolved = resolve_request(tip.session)
    if resolved.settings.mode == Mode.OFF:
        return None
    cutoff = base.last_summarized_message if base else None
    start, depth = (cutoff.path_tokens, cutoff.depth) if cutoff else (0, 0)
    over = tip.path_tokens - start + (base.token_count if base else 0) - resolved.budget.available
    if over <= 0:
        return None
    with connections[database_of(tip)].cursor() as cursor:
        cursor.execute(sql.PATH_BEFORE, {"node": tip.parent_message_id, "min_depth": depth + 1, "end": start + over})
        messages, tokens = cursor.fetchone()
    return Unseen(messages, tokens, tip, held_back(tip.session)) if messages else None
