"""The life of a run: open, claimed, finished. Every transition is a conditional UPDATE, so that of two workers
with the same run exactly one gets it and only the holder of the claim can finish it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from compaction_app.compaction import notify
from compaction_app.models import ChatSession, CompactionEvent, CompactionRun
from compaction_app.telemetry import log
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
        log(logger, logging.INFO, "skip", run=run_id, reason="not_claimable")
        return None
    run = CompactionRun.objects.using(using).select_related("session").filter(pk=run_id).first()
    if run is None:
        log(logger, logging.INFO, "skip", run=run_id, reason="gone")
        return None
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
    using = run._state.db or "default"
    # In one transaction: the run can not go, with its session, before its event is written.
    with transaction.atomic(using=using):
        if not _finish(run, status=RunStatus.SKIPPED, skip_reason=reason):
            return False
        # Without a message: the branch may be gone, and the run names the turn that it belonged to.
        record(run.session_id, EventKind.SUPPRESSED, using=using, run=run, payload={"reason": reason})
    log(logger, logging.INFO, "skip", run=run.pk, session=run.session_id, reason=reason, attempts=run.attempts)
    return True


def fail(run: CompactionRun, code: str, detail: str) -> bool:
    """Finish without a summary, for good; ``detail`` is for operators."""
    if not _finish(run, status=RunStatus.FAILED, error_code=code, error_detail=detail[:2000]):
        return False
    record(
        run.session_id,
        EventKind.FAILED,
        using=run._state.db or "default",
        run=run,
        message_id=run.tip_id,
        payload={
            "code": code,
            "attempts": run.attempts,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
        },
    )
    log(logger, logging.WARNING, "failed", run=run.pk, code=code, attempts=run.attempts, session=run.session_id)
    return True


def _finish(run: CompactionRun, **ended: Any) -> bool:
    """End a run in its row and in the instance, if this claim still holds it, and have the end announced."""
    ended |= {"claim_token": None, "lease_expires_at": None, "finished_at": timezone.now()}
    if not holding(run).update(**ended):
        return False
    for name, value in ended.items():
        setattr(run, name, value)
    notify.run_ended(run, run._state.db or "default")
    return True


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
