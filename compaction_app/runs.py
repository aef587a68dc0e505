"""The life of a run: open, claimed, finished. Every transition is a conditional UPDATE, so that of two workers
with the same run exactly one gets it and only the holder of the claim can finish it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from compaction_app.models import ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind, RunStatus, SkipReason

logger = logging.getLogger("compaction_app.runs")

#: After this many claims a run that still fails for passing reasons is given up.
MAX_ATTEMPTS = 8
BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 300.0


def record(
    session_id: Any,
    kind: EventKind,
    *,
    using: str,
    run: CompactionRun | None = None,
    message_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
) -> None:
    """Write an event: numbers and codes only, never conversation text."""
    CompactionEvent.objects.using(using).create(
        session_id=session_id, run=run, message_id=message_id, kind=kind, payload=dict(payload or {})
    )


def claim(run_id: int, using: str, lease_seconds: float) -> CompactionRun | None:
    """Take ownership of a run; None where another worker has it, or it is finished: a quiet return."""
    now = timezone.now()
    token = uuid.uuid4()
    claimed = (
        CompactionRun.objects.using(using)
        .claimable(now)
        .filter(pk=run_id)
        .update(
            status=RunStatus.RUNNING,
            claim_token=token,
            lease_expires_at=now + timedelta(seconds=lease_seconds),
            started_at=now,
            next_attempt_at=None,
        )
    )
    if not claimed:
        logger.info("skip run=%s reason=not_claimable", run_id)
        return None
    run = CompactionRun.objects.using(using).select_related("session").get(pk=run_id)
    run.attempts += 1
    holding(run).update(attempts=run.attempts)
    return run


def holding(run: CompactionRun) -> Any:
    """The run's row, only while this claim still holds it."""
    return CompactionRun.objects.using(run._state.db).filter(
        pk=run.pk, status=RunStatus.RUNNING, claim_token=run.claim_token
    )


def release(run: CompactionRun, *, delay_seconds: float = 0.0) -> bool:
    """Back to ready, to be tried again after the delay."""
    due = timezone.now() + timedelta(seconds=delay_seconds) if delay_seconds else None
    return bool(
        holding(run).update(
            status=RunStatus.READY,
            claim_token=None,
            lease_expires_at=None,
            next_attempt_at=due,
            enqueued_at=None,
            error_code=run.error_code,
            error_detail=run.error_detail,
        )
    )


def skip(run: CompactionRun, reason: SkipReason) -> bool:
    """Finish without a summary and without a fault."""
    done = holding(run).update(
        status=RunStatus.SKIPPED,
        skip_reason=reason,
        claim_token=None,
        lease_expires_at=None,
        finished_at=timezone.now(),
    )
    logger.info("skip run=%s reason=%s", run.pk, reason)
    return bool(done)


def fail(run: CompactionRun, code: str, detail: str) -> bool:
    done = holding(run).update(
        status=RunStatus.FAILED,
        error_code=code,
        error_detail=detail[:2000],
        claim_token=None,
        lease_expires_at=None,
        finished_at=timezone.now(),
    )
    if done:
        record(
            run.session_id,
            EventKind.FAILED,
            using=run._state.db or "default",
            run=run,
            message_id=run.tip_id,
            payload={"code": code, "attempts": run.attempts},
        )
    logger.warning("failed run=%s code=%s attempts=%s", run.pk, code, run.attempts)
    return bool(done)


def backoff_seconds(attempts: int, retry_after: float | None, jitter: float) -> float:
    """Doubling with every attempt, spread by ``jitter`` (0 to 1), never sooner than the provider asked."""
    delay = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** max(0, attempts - 1)) * (0.5 + jitter / 2)
    return max(delay, retry_after or 0.0)


def next_generation(session: ChatSession, using: str) -> int:
    """One more than the session's highest. Safe because the caller holds the session's lock."""
    latest = (
        CompactionRun.objects.using(using)
        .filter(session=session, generation__isnull=False)
        .order_by("-generation")
        .values_list("generation", flat=True)
        .first()
    )
    return (latest or 0) + 1
