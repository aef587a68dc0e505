"""Pin a message: the model sees it on every branch that has it, though a summary covers it.

A pin is a row of its own. It changes nothing in the tree: the message is summarized like any other and shown besides,
so that without the pin nothing is lost. A redaction removes it, and so does a deletion.
"""

from django.db.models import Sum

from compaction_app.context.reading import resolve_request
from compaction_app.exceptions import InvalidMessage, PinsTooLarge
from compaction_app.models import ChatMessage, MessagePin
from compaction_app.models.database import atomic, locked, locked_message
from compaction_app.tree.branches import check_instance
from compaction_app.values import Kind, Role

#: Of the tokens that are available for history. With a summary of its full size (15 %) less than half of them is in
#: use, so that under the target, at most two thirds of them, there is room for new turns.
MOST_PINNED = 0.25


def pin_message(message: ChatMessage) -> None:
    """Show a message beside the summary on every branch that has it, once a summary covers it.

    Pinned again, it stays pinned. A summary, a tool call, its result and a redacted message raise
    :class:`InvalidMessage`. All pins of a session may take a quarter of the tokens that are available in its window:
    beyond, :class:`PinsTooLarge`.
    """
    check_instance(message, ChatMessage, "message")
    with atomic(message):
        row = locked_message(message)
        if problem := _why_not(row):
            raise InvalidMessage(problem, field="message")
        pins = MessagePin.objects.in_database_of(row).filter(session_id=row.session_id)
        if pins.filter(pk=row.pk).exists():
            return
        available = resolve_request(row.session).budget.available
        needed = (pins.aggregate(Sum("tokens"))["tokens__sum"] or 0) + row.token_count
        allowed = int(available * MOST_PINNED)
        if needed > allowed:
            raise PinsTooLarge(
                f"With this message the pins of the conversation take {needed} tokens; {allowed} are allowed. "
                "Unpin another one first.",
                needed=needed,
                allowed=allowed,
            )
        place = {"lane": row.lane_id or row.pk, "depth": row.depth, "tokens": row.token_count}
        pins.create(message=row, session_id=row.session_id, **place)


def unpin_message(message: ChatMessage) -> None:
    """Show a message no longer than any other. Nothing happens where it is not pinned."""
    check_instance(message, ChatMessage, "message")
    with locked(message):
        MessagePin.objects.in_database_of(message).filter(pk=message.pk).delete()


def _why_not(row: ChatMessage) -> str:
    """Why a message cannot be pinned; "" if it can."""
    if row.kind == Kind.SUMMARY:
        return "A summary cannot be pinned: pin the messages that it covers."
    if row.role == Role.TOOL or row.tool_calls:
        return "A tool call or its result cannot be pinned: providers take neither without the other."
    if row.session.stands_for_others(row):
        return "It stands for the messages of another conversation, and says nothing itself."
    return "A redacted message cannot be pinned: its text is gone." if row.redacted_at else ""
