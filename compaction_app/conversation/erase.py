"""Retire a summary, redact or delete a message, delete a session.

A summary's anchor is at or below everything its summarizer was shown, so the summaries that may contain a message's
text are exactly those below it. Each erasure raises the session's counter: a run that read the text before it cannot
commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from compaction_app import signals, tasks
from compaction_app.compaction.runs import record_event
from compaction_app.conf import Mode, get_settings, get_token_counter
from compaction_app.conversation.compact import request_compaction
from compaction_app.exceptions import InvalidMessage, MessageNotFound, NotASummary
from compaction_app.messages.validation import check_text
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.models.managers import UNLIMITED, calls_unanswered_before, lock_session
from compaction_app.spending import keep_used
from compaction_app.telemetry import log
from compaction_app.tokens import TOKENS_PER_MISSING_RESULT, count_messages
from compaction_app.tree.branches import check_instance, database_of
from compaction_app.tree.lanes import newest_tip_below
from compaction_app.values import EventKind, Kind, Role

logger = logging.getLogger("compaction_app.erasure")

_BATCH = 500
#: Of which the names in a usage report are made.
_USAGE_WORDS = frozenset(
    "prompt completion total input output cache cached creation read write reasoning thoughts audio image text video "
    "accepted rejected prediction tool use server web search requests ephemeral 1h 5m iterations tokens token details "
    "count cost upstream inference completions duration time queue".split()
)
#: The fields that a redaction writes.
_BLANKED_FIELDS = (
    "content tool_calls reasoning original finish_reason attachments name usage metadata token_count redacted_at"
).split()


def retire_summary(summary: ChatMessage, *, reason: str = "") -> list[int]:
    """Take a summary, and every live one built on it, out of use; returns their ids.

    The record stays, and the originals are back in the context on the next read. ``reason``: your words, of which 255
    characters are kept. Branches that are over their threshold without it are compacted again. A message that is no
    summary raises :class:`NotASummary`.
    """
    check_instance(summary, ChatMessage, "summary")
    if summary.kind != Kind.SUMMARY:
        raise NotASummary(f"Message {summary.pk} is not a summary; only summaries are retired.")
    check_text(reason, "reason")
    using = database_of(summary)
    with transaction.atomic(using=using):
        lock_session(summary.session_id, using)
        built = _select_ids(sql.BUILT_ON, {"summary": summary.pk}, using)
        live = ChatMessage.objects.using(using).live().filter(pk__in=built)
        ids = sorted(live.values_list("pk", flat=True))
        live.update(retired_at=timezone.now(), retired_reason=reason[:255])
        if ids:
            record_event(
                summary.session_id,
                EventKind.RETIRED,
                using=using,
                message_id=summary.parent_message_id,
                payload={"summaries": len(ids), "summary": summary.pk},
            )
            _announce_retired(summary.session_id, ids, reason[:255], using)
            signals.after_commit(_compact_below, summary.session_id, summary.parent_message_id, using, using=using)
    log(logger, logging.INFO, "retired", session=summary.session_id, summaries=ids)
    return ids


def redact_message(message: ChatMessage, *, replacement: str = "[redacted]") -> ChatMessage:
    """Replace the text of a message permanently; returns it as it is stored now.

    Content, reasoning, attachments, metadata and the arguments of tool calls go; ids of calls stay, so that the branch
    stays valid. Every summary that may contain the text is emptied and retired, and a title of the session that was
    taken from the message is cleared. Files behind attachments are not touched. Summaries cannot be redacted.
    """
    check_text(replacement, "content")
    _require_message(message, "redacted")
    using = database_of(message)
    with transaction.atomic(using=using):
        lock_session(message.session_id, using)
        row = ChatMessage.objects.using(using).filter(pk=message.pk).first()
        if row is None:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        blank_message(row, replacement, using)
        empty_summaries(row.session_id, ids_below(row.pk, using), using, [row.pk])
        row.refresh_from_db(using=using)
    return row


def blank_message(row: ChatMessage, replacement: str, using: str) -> None:
    """Replace the text of a locked session's message; the summaries that may repeat it are left to the caller."""
    content, before = row.content, row.token_count
    # What the count includes beyond the message's own text stays: placeholder results for calls without an answer.
    # An attachment may have been counted by another rule, so the rest of the count does not tell how many.
    beyond = before - count_messages([vars(row)], get_token_counter())[0]
    if row.attachments:
        beyond = calls_unanswered_before(row, using) * TOKENS_PER_MISSING_RESULT
    row.content = replacement
    row.tool_calls = [blanked_call(call) for call in row.tool_calls or ()] or None
    row.reasoning = row.attachments = row.original = None
    row.finish_reason = ""
    row.metadata, row.usage = {}, numbers_in(row.usage)
    if row.role != Role.TOOL:
        # A person's name. A tool result has the name of its function, which the call keeps too.
        row.name = ""
    row.redacted_at = timezone.now()
    row.token_count = beyond + count_messages([vars(row)], get_token_counter())[0]
    row.save_base(using=using, update_fields=_BLANKED_FIELDS)
    _clear_title(row.session_id, content, using)
    with connections[using].cursor() as cursor:
        cursor.execute(sql.SHIFT_PATH_TOKENS, {"node": row.pk, "delta": row.token_count - before})


def _announce_retired(session_id: Any, ids: Sequence[int], reason: str, using: str) -> None:
    signals.send_after_commit(
        signals.summary_retired, ChatMessage, using=using, session_id=session_id, summary_ids=list(ids), reason=reason
    )


def _compact_below(session_id: Any, message_id: int | None, using: str) -> None:
    """Compact the branches that contain a message in the background, where they are over their threshold."""
    session = ChatSession.objects.using(using).filter(pk=session_id).first()
    if session is None or message_id is None or get_settings(session.settings).mode == Mode.OFF:
        return
    is_inline = get_settings(session.settings).mode == Mode.DETERMINISTIC
    if is_inline or not tasks.enqueue_session(session, message_id):
        # Without a broker the run is the record of what is needed, which the sweep finds.
        message = ChatMessage.objects.using(using).filter(pk=message_id).first()
        tip = newest_tip_below(message) if message else None
        if tip is not None:
            request_compaction(tip)


def blanked_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool result and a provider need of a call; anything else may quote the conversation."""
    return {"id": call["id"], "type": "function", "function": {"name": call["function"]["name"], "arguments": "{}"}}


def numbers_in(usage: Any) -> Any:
    """The numbers of a provider's usage report, which were paid for, without its texts and unknown names."""
    if isinstance(usage, Mapping):
        known = (key for key in usage if _USAGE_WORDS.issuperset(key.split("_")))
        kept = {key: numbers_in(usage[key]) for key in known}
        return {key: value for key, value in kept.items() if value is not None}
    return usage if isinstance(usage, int | float) else None


def _clear_title(session_id: Any, erased: str, using: str) -> None:
    """Clear a title that was taken from an erased message, unless another first message begins the same."""
    session = ChatSession.objects.using(using).filter(pk=session_id)
    title = session.values_list("title", flat=True)[0]
    if not is_title_of(title, erased):
        return
    roots = ChatMessage.objects.using(using).messages().filter(session_id=session_id, parent=None)
    if not any(is_title_of(title, content) for content in roots.values_list("content", flat=True)):
        session.update(title="")


def is_title_of(title: str, content: str) -> bool:
    """Whether a message begins with the title: chat pages name a conversation after one, cut short with an ellipsis."""
    start = " ".join(title.rstrip("…").split())
    return bool(start) and " ".join(content.split()).startswith(start)


def ids_below(message_id: int, using: str) -> list[int]:
    """Ids of a message and of every message and summary below it."""
    return _select_ids(sql.SUBTREE_IDS, {"node": message_id, "levels": UNLIMITED}, using)


def empty_summaries(session_id: Any, ids: Sequence[int], using: str, tops: Sequence[int]) -> None:
    """Retire and empty the summaries among ``ids``, earlier retired ones too, and what of runs may quote them.

    ``tops``: messages at or above all of them, whose branches may have to be compacted again.
    """
    emptied, retired, now = 0, [], timezone.now()
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        summaries = ChatMessage.objects.using(using).summaries().filter(pk__in=batch)
        live = summaries.filter(retired_at__isnull=True)
        retired += sorted(live.values_list("pk", flat=True))
        live.update(retired_at=now)
        # The reason that a person gave for an earlier retirement may quote the summary.
        emptied += summaries.update(content="", ledger="", redacted_at=now, retired_reason="redaction")
        _blank_runs(using, batch)
    _count_erasure(session_id, using)
    payload = {"summaries": emptied, "erasure": "redaction"}
    message_id = tops[0] if len(tops) == 1 else None
    record_event(session_id, EventKind.INVALIDATED, using=using, message_id=message_id, payload=payload)
    if retired:
        _announce_retired(session_id, retired, "redaction", using)
        for top in tops:
            signals.after_commit(_compact_below, session_id, top, using, using=using)
    log(logger, logging.INFO, "erased", session=session_id, message=message_id, by="redaction", summaries=emptied)


def _blank_runs(using: str, ids: Sequence[int]) -> None:
    runs = CompactionRun.objects.using(using)
    runs.filter(Q(tip_id__in=ids) | Q(anchor_id__in=ids)).update(instructions="", error_detail="", policy_line="")
    # Whoever knows the rest of the prompt could test guesses at a short erased text against the stored digest.
    runs.filter(anchor_id__in=ids).update(request={})


def _count_erasure(session_id: Any, using: str) -> None:
    ChatSession.objects.using(using).filter(pk=session_id).update(erasures=F("erasures") + 1)


def delete_message(message: ChatMessage) -> int:
    """Delete a message and everything below it, summaries included; returns the number of deleted rows."""
    _require_message(message, "deleted")
    using = database_of(message)
    manager = ChatMessage.objects.db_manager(using)
    with transaction.atomic(using=using):
        lock_session(message.session_id, using)
        ids = ids_below(message.pk, using)
        if not ids:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        for start in range(0, len(ids), _BATCH):
            _blank_runs(using, ids[start : start + _BATCH])
        content = manager.values_list("content", flat=True).get(pk=message.pk)
        deleted = manager.delete_subtree(message.pk)
        _clear_title(message.session_id, content, using)
        _count_erasure(message.session_id, using)
        record_event(
            message.session_id, EventKind.INVALIDATED, using=using, payload={"messages": deleted, "erasure": "deletion"}
        )
        signals.after_commit(_compact_above, message.parent_message_id, using, using=using)
    log(logger, logging.INFO, "erased", session=message.session_id, message=message.pk, by="deletion", rows=deleted)
    return deleted


def _compact_above(parent_id: int | None, using: str) -> None:
    """The parent of what was deleted may now be a tip, of a branch that was compacted only below it."""
    tip = ChatMessage.objects.using(using).tips().filter(pk=parent_id).select_related("session").first()
    if tip is not None:
        request_compaction(tip)


def delete_session(session: ChatSession) -> None:
    """Delete a conversation with its messages, summaries, runs and events."""
    check_instance(session, ChatSession, "session")
    if session.pk is None:
        raise MessageNotFound("The session has not been stored yet, or was deleted by this very object.")
    using = database_of(session)
    with transaction.atomic(using=using):
        lock_session(session.pk, using)
        keep_used(session)
        roots = ChatMessage.objects.db_manager(using)
        for root in roots.get_root_nodes(session):
            roots.delete_subtree(root.pk)
        session.delete(using=using)


def _select_ids(statement: str, parameters: Mapping[str, Any], using: str) -> list[int]:
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return [row[0] for row in cursor.fetchall()]


def _require_message(message: ChatMessage, verb: str) -> None:
    check_instance(message, ChatMessage, "message")
    if message.kind == Kind.SUMMARY:
        raise InvalidMessage(f"A summary cannot be {verb}: retire it with chat.retire_summary.", field="message")
