"""A branch to read: its messages in order, with what became of each in today's context, and where it was summarized.

A page reads its own messages only. The way to them goes from lane to lane.
"""

from typing import Any

from django.db.models.functions import Left, Length
from django.utils.translation import gettext_lazy

from compaction_app import chat
from compaction_app.admin import contexts
from compaction_app.admin.display import call_line, shortened
from compaction_app.exceptions import CompactionError
from compaction_app.messages.openai_format import attachment_line
from compaction_app.models import ChatMessage
from compaction_app.models.columns import names
from compaction_app.tree.branches import histories_at, path_ids, unread_message
from compaction_app.tree.lanes import newest_tip_below
from compaction_app.values import Origin

#: Messages of a page, and characters of each that are read.
PAGE, SHOWN = 50, 4_000
#: What became of a message, beside the origins of a context.
SUMMARIZED = "summarized"
MARKS: dict[str, tuple[Any, Any]] = {
    SUMMARIZED: (gettext_lazy("Summarized"), gettext_lazy("the model sees the summary instead")),
    **{
        mark: contexts.ORIGINS[mark]
        for mark in (Origin.PIN, Origin.PINNED, Origin.VERBATIM, Origin.PRUNED, contexts.DROPPED)
    },
}


def transcript_of(tip: ChatMessage, *, end: int | None = None) -> dict[str, Any]:
    """The page of a branch that ends at depth ``end``, by default at its tip, as its template shows it.

    ``problem`` says why there is no ``context``: then no message has a mark.
    """
    end = min(max(end or tip.depth, 1), tip.depth)
    first = max(1, end - PAGE + 1)
    stretch = contexts.stretch(tip, first=first, last=end)
    nodes = ChatMessage.objects.in_database_of(tip)
    # Without what a page does not show: a text may be four megabytes long.
    shown = nodes.defer(
        *(name for name in names(ChatMessage, listed=False) if name not in ("tool_calls", "attachments"))
    )
    shown = shown.annotate(beginning=Left("content", SHOWN), characters=Length("content")).select_related("pin")
    ids = path_ids(unread_message(tip, stretch.last), first) if stretch else []
    rows: list[Any] = list(shown.filter(pk__in=ids).order_by("depth"))
    context, problem = None, ""
    try:
        context = chat.get_context(tip)
    except CompactionError as error:
        problem = str(error)
    sent = {message.message_id: message.origin for message in context.messages} if context else {}
    cutoff = 0
    if context and context.cutoff_id:
        cutoff = nodes.filter(pk=context.cutoff_id).values_list("depth", flat=True).first() or 0
    for row in rows:
        row.mark = (sent.get(row.pk) or (SUMMARIZED if row.depth <= cutoff else contexts.DROPPED)) if context else ""
        row.mark_words = MARKS[row.mark][0] if context else ""
        row.left_out = max(0, row.characters - SHOWN)
        row.calls = [shortened(call_line(call), 400) for call in row.tool_calls or ()]
        row.attached = [attachment_line(attachment) for attachment in row.attachments or ()]
    marks = {row.mark for row in rows}
    return {
        "tip": tip,
        "lines": rows,
        # Depths of the first and the last message of the page, and the ends of the pages before and after it.
        "first": first,
        "end": end,
        "most": PAGE,
        "earlier": first - 1 if first > 1 else None,
        "later": min(end + PAGE, tip.depth) if end < tip.depth else None,
        "context": context,
        "problem": problem,
        "goes_on": goes_on(tip),
        # Those of this page.
        "marks": [(mark, *words) for mark, words in MARKS.items() if mark in marks],
    }


def goes_on(message: ChatMessage) -> dict[str, Any]:
    """Where others follow: the end of the newest branch, and the summary that the model sees there instead.

    In at most four queries; {} at a tip. What is said of a message itself is true of a branch that ends there.
    """
    newest = newest_tip_below(message)
    if newest is None or newest.pk == message.pk:
        return {}
    history = histories_at([newest.pk], newest).get(newest.pk)
    covering = ChatMessage.objects.in_database_of(message).filter(last_summarized_message__depth__gte=message.depth)
    found = covering.filter(pk=history and history.summary_id).exclude(pinned_message=message.pk)
    summary_id = None if message.is_pinned else found.values_list("pk", flat=True).first()
    return {"tip": newest.pk, "end": min(message.depth + PAGE - 1, newest.depth), "summary_id": summary_id}
