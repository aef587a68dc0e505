"""Taking things out again: retire a summary, redact or delete a message, delete a session.

A summary's anchor is at or below everything its summarizer was shown, so the summaries that may hold a
message's text are exactly those below it. Each erasure raises the session's counter: a run that read the text
before it can not commit.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from compaction_app import sql
from compaction_app.branches import using_of
from compaction_app.exceptions import InvalidMessage, MessageNotFound, NotASummary
from compaction_app.managers import UNLIMITED, counter, lock_session
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.runs import record
from compaction_app.tokens import count_messages
from compaction_app.validation import validate_message
from compaction_app.values import EventKind, Kind

logger = logging.getLogger("compaction_app.erasure")

_BATCH = 500


def retire_summary(summary: ChatMessage, *, reason: str = "") -> list[int]:
    """Take a summary and every live one built on it out of use; returns their ids. The record stays."""
    if summary.kind != Kind.SUMMARY:
        raise NotASummary(f"Message {summary.pk} is no summary; only summaries are retired.")
    using = using_of(summary)
    with transaction.atomic(using=using):
        lock_session(summary.session_id, using)
        with connections[using].cursor() as cursor:
            cursor.execute(sql.BUILT_ON, {"summary": summary.pk})
            built = [row[0] for row in cursor.fetchall()]
        live = ChatMessage.objects.using(using).live().filter(pk__in=built)
        ids = sorted(live.values_list("pk", flat=True))
        live.update(retired_at=timezone.now(), retired_reason=reason[:255])
        if ids:
            payload = {"summaries": len(ids), "summary": summary.pk}
            record(
                summary.session_id,
                EventKind.RETIRED,
                using=using,
                message_id=summary.parent_message_id,
                payload=payload,
            )
    logger.info("retired session=%s summaries=%s", summary.session_id, ids)
    return ids


def redact_message(message: ChatMessage, *, replacement: str = "[redacted]") -> ChatMessage:
    """Take the text out of a message for good; call ids stay, so that the branch stays valid.

    Counts and prefix sums are mended in one statement, and every summary that may hold the text is emptied.
    """
    _require_message(message, "redacted")
    using = using_of(message)
    with transaction.atomic(using=using):
        lock_session(message.session_id, using)
        row = ChatMessage.objects.using(using).filter(pk=message.pk).first()
        if row is None:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        before, after = row.token_count, _blanked(row, replacement)
        row.save(
            using=using,
            update_fields=["content", "tool_calls", "reasoning", "attachments", "token_count", "redacted_at"],
        )
        with connections[using].cursor() as cursor:
            cursor.execute(sql.SHIFT_PATH_TOKENS, {"node": row.pk, "delta": after - before})
        _invalidate_below(row, using)
        row.refresh_from_db(using=using)
    return row


def _blanked(row: ChatMessage, replacement: str) -> int:
    """Blank the row in memory; returns its new token count."""
    own_before = count_messages([vars(row)], counter())[0]
    row.content = replacement
    row.tool_calls = [
        {**call, "function": {"name": call["function"]["name"], "arguments": "{}"}} for call in row.tool_calls or ()
    ] or None
    row.reasoning = row.attachments = None
    row.redacted_at = timezone.now()
    validate_message(vars(row), max_bytes=max(1024, len(replacement.encode()) * 2))
    # What the count holds beyond the message's own texts (results supplied for calls it closed) stays.
    row.token_count += count_messages([vars(row)], counter())[0] - own_before
    return row.token_count


def _invalidate_below(row: ChatMessage, using: str) -> None:
    """Retire and empty every summary at or below a message, earlier retired ones too, and what quotes it."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql.SUBTREE_IDS, {"node": row.pk, "levels": UNLIMITED})
        ids = [found[0] for found in cursor.fetchall()]
    emptied, now = 0, timezone.now()
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        summaries = ChatMessage.objects.using(using).summaries().filter(pk__in=batch)
        summaries.filter(retired_at__isnull=True).update(retired_at=now, retired_reason="redaction")
        emptied += summaries.update(content="", redacted_at=now)
        _blank_runs(using, Q(tip_id__in=batch) | Q(anchor_id__in=batch))
    _count_erasure(row.session_id, using)
    payload = {"summaries": emptied, "erasure": "redaction"}
    record(row.session_id, EventKind.INVALIDATED, using=using, message_id=row.pk, payload=payload)


def _blank_runs(using: str, which: Q) -> None:
    CompactionRun.objects.using(using).filter(which).update(instructions="", error_detail="", policy_line="")


def _count_erasure(session_id: Any, using: str) -> None:
    ChatSession.objects.using(using).filter(pk=session_id).update(erasures=F("erasures") + 1)


def delete_message(message: ChatMessage) -> int:
    """Delete a message and all below it, summaries and all; returns how many rows went."""
    _require_message(message, "deleted")
    using = using_of(message)
    manager = ChatMessage.objects.db_manager(using)
    with transaction.atomic(using=using):
        lock_session(message.session_id, using)
        with connections[using].cursor() as cursor:
            cursor.execute(sql.SUBTREE_IDS, {"node": message.pk, "levels": UNLIMITED})
            ids = [found[0] for found in cursor.fetchall()]
        if not ids:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            _blank_runs(using, Q(tip_id__in=batch) | Q(anchor_id__in=batch))
        deleted = manager.delete_subtree(message.pk)
        _count_erasure(message.session_id, using)
        record(
            message.session_id,
            EventKind.INVALIDATED,
            using=using,
            payload={"messages": deleted, "erasure": "deletion"},
        )
    return deleted


def delete_session(session: ChatSession) -> None:
    """Delete a conversation and everything about it, a constant number of statements for each of its roots."""
    using = using_of(session)
    with transaction.atomic(using=using):
        lock_session(session.pk, using)
        roots = ChatMessage.objects.db_manager(using)
        for root in roots.get_root_nodes(session):
            roots.delete_subtree(root.pk)
        session.delete(using=using)


def _require_message(message: ChatMessage, verb: str) -> None:
    if message.kind == Kind.SUMMARY:
        raise InvalidMessage(f"A summary is not {verb}: retire it with chat.retire_summary.", field="message")
