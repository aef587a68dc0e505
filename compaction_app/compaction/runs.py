"""The life of a run: ready, claimed, finished.

Every transition is a conditional UPDATE, so of two workers with the same run exactly one gets it, and only the one
whose claim is still valid can finish it. :func:`require_no_transaction` and :func:`give_back_connection` ensure that no
transaction and no database connection is held while a model is called.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import F

from compaction_app import signals, telemetry
from compaction_app.conf import Settings, settings_from_snapshot
from compaction_app.exceptions import ConfigurationError, DurableTransactionRequired
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.models.managers import FARTHEST, LOST_AFTER_SECONDS, now_of
from compaction_app.telemetry import log
from compaction_app.tree.branches import database_of
from compaction_app.values import EventKind, RunStatus, SkipReason

logger = logging.getLogger("compaction_app.runs")

#: After this many claims a run that still fails for transient reasons is abandoned.
MAX_ATTEMPTS = 8
#: After this many claims a run whose worker was lost is abandoned: what killed or stopped these workers would the next.
MAX_LOST = 3
#: Seconds beyond the models' time-outs for reading the branch, the ledger and the commit, where RUN_TIME_LIMIT is None.
LOCAL_SECONDS = 600.0
#: A worker that lives renews its lease (see :mod:`lease`); one that was killed is replaced after this.
LEASE_SECONDS = 60.0
BACKOFF_SECONDS = 2.0
#: A run that is due for so long is late, however slow its queue is; and of how many runs is seen how slow it is.
MOST_LATE_SECONDS, _NEWEST = 240.0, 100
MAX_BACKOFF_SECONDS = 300.0


def require_no_transaction(using: str) -> None:
    """Claims and commits are durable, and no transaction may wait for a model."""
    if not connections[using].in_atomic_block:
        return
    try:
        # Django decides what counts: the transaction that a TestCase puts around a test does not.
        with transaction.atomic(using=using, durable=True, savepoint=False):
            pass
    except RuntimeError as error:
        which = "" if using == DEFAULT_DB_ALIAS else f"(using={using!r})"
        raise DurableTransactionRequired(
            "This calls a model and must not run inside transaction.atomic(). With ATOMIC_REQUESTS, decorate the "
            f"view with transaction.non_atomic_requests{which}, or use request_compaction, which does not wait."
        ) from error


def give_back_connection(using: str) -> None:
    """Close this thread's connection (a pool takes it back): none is held while a model is called."""
    if not connections[using].in_atomic_block:
        connections[using].close()


def record_event(
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


def record_run_event(run: CompactionRun, kind: EventKind, payload: Mapping[str, Any] | None = None) -> None:
    """Write an event of a run, at the turn that the run belongs to."""
    record_event(run.session_id, kind, using=database_of(run), run=run, message_id=run.tip_id, payload=payload)


def time_limit(settings: Settings) -> float:
    """Seconds after which a run fails, whatever it is doing then."""
    if settings.run_time_limit is not None:
        return settings.run_time_limit
    return settings.summarizer_entry.longest_seconds + LOCAL_SECONDS


def time_limit_of(run: CompactionRun) -> float:
    """Where its settings cannot be read, which fails it as soon as it is claimed, that of the defaults."""
    try:
        return time_limit(settings_from_snapshot(run.settings))
    except ConfigurationError:
        return time_limit(Settings())


def late_after(using: str) -> timedelta:
    """How long a run may be due before it is late: three times as long as half of the newest runs waited at most."""
    newest = CompactionRun.objects.using(using).order_by("-id").values_list("created_at", "started_at", "attempts")
    waits = sorted(started - created for created, started, tried in newest[:_NEWEST] if started and tried == 1)
    usual = waits[len(waits) // 2] if waits else timedelta()
    return min(max(3 * usual, timedelta(seconds=LOST_AFTER_SECONDS)), timedelta(seconds=MOST_LATE_SECONDS))


def claim(run_id: int, using: str, lease: float | None = None) -> CompactionRun | None:
    """Take ownership of a run for ``lease`` seconds; None where another worker has it, or it is finished or deleted."""
    now = now_of(using)
    rows = CompactionRun.objects.using(using).filter(pk=run_id)
    claimed = rows.claimable(now).update(
        status=RunStatus.RUNNING,
        claim_token=uuid.uuid4(),
        lease_expires_at=now + timedelta(seconds=LEASE_SECONDS if lease is None else lease),
        started_at=now,
        attempts=F("attempts") + 1,
        next_attempt_at=None,
    )
    # It may be deleted right after it was claimed.
    run = rows.select_related("session").first() if claimed else None
    if run and run.attempts == 1:
        telemetry.count_wait(run)
    if run is None:
        log(logger, logging.INFO, "skip", run=run_id, reason="gone" if claimed else "not_claimable")
    return run


def still_claimed(run: CompactionRun) -> Any:
    """The run's row, only while this worker's claim is valid."""
    return CompactionRun.objects.using(database_of(run)).filter(
        pk=run.pk, status=RunStatus.RUNNING, claim_token=run.claim_token
    )


def renew(run: CompactionRun, lease: float, **only: Any) -> bool:
    """Keep the run for ``lease`` seconds from now; False if the claim, or ``only`` of its row, is no longer true."""
    rows = still_claimed(run).filter(**only)
    return bool(rows.update(lease_expires_at=now_of(rows.db) + timedelta(seconds=lease)))


def release(run: CompactionRun, *, delay_seconds: float = 0.0, **noted: str) -> bool:
    """Back to ready, to be tried again after the delay. ``noted``: why; what was noted before may be erased by now."""
    due = now_of(database_of(run)) + timedelta(seconds=delay_seconds) if delay_seconds else None
    return bool(
        still_claimed(run).update(
            status=RunStatus.READY,
            claim_token=None,
            lease_expires_at=None,
            next_attempt_at=due,
            enqueued_at=None,
            **noted,
        )
    )


def skip(run: CompactionRun, reason: SkipReason) -> bool:
    """Finish without a summary and without an error, and record an event ``suppressed``."""
    using = database_of(run)
    # In one transaction: the run cannot be deleted, with its session, before its event is written.
    with transaction.atomic(using=using):
        if not end(run, status=RunStatus.SKIPPED, skip_reason=reason):
            return False
        # Without a message: the branch may be deleted, and the run names the turn that it belonged to.
        record_event(run.session_id, EventKind.SUPPRESSED, using=using, run=run, payload={"reason": reason})
    log(logger, logging.INFO, "skip", run=run.pk, session=run.session_id, reason=reason, attempts=run.attempts)
    return True


def fail(run: CompactionRun, code: str, detail: str) -> bool:
    """Finish without a summary, permanently; ``detail`` is for operators."""
    # In one transaction, as in skip().
    with transaction.atomic(using=database_of(run), savepoint=False):
        if not end(run, status=RunStatus.FAILED, error_code=code, error_detail=detail[:2000]):
            return False
        numbers = {"attempts": run.attempts, "input_tokens": run.input_tokens, "output_tokens": run.output_tokens}
        record_run_event(run, EventKind.FAILED, {"code": code, **numbers})
    log(logger, logging.WARNING, "failed", run=run.pk, code=code, attempts=run.attempts, session=run.session_id)
    return True


def end(run: CompactionRun, **ended: Any) -> bool:
    """End a run in its row and in the instance, if the claim is still valid, and announce it.

    No other column is written: a worker may be writing the task's id at this moment, and one that lost its claim what
    its calls cost.
    """
    ended |= {"claim_token": None, "lease_expires_at": None, "finished_at": now_of(database_of(run))}
    if not still_claimed(run).update(**ended):
        return False
    for name, value in ended.items():
        setattr(run, name, value)
    announce_end(run)
    return True


def announce_end(run: CompactionRun) -> None:
    """Send a finished run's signal and metrics after the commit. The instance must have the values of its row."""
    using = database_of(run)
    signals.after_commit(telemetry.count_run, run, using=using)
    signal = signals.compaction_failed if run.status == RunStatus.FAILED else signals.compaction_finished
    signals.send_after_commit(signal, CompactionRun, using=using, run=run)


def backoff_seconds(attempts: int, retry_after: float | None, jitter: float) -> float:
    """Doubles with every attempt, spread by ``jitter`` (0 to 1); as late as the provider asked, up to an hour."""
    delay = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** max(0, attempts - 1)) * (0.5 + jitter / 2)
    return max(delay, min(retry_after or 0.0, FARTHEST.total_seconds() / 2))
