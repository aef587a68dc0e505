"""The signs that a run gives of itself once what it says is committed: signals and metrics, in one place.

Every function may be called with the session's lock held: nothing is sent and nothing is counted before the commit,
and nothing at all if the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction

from compaction_app import signals, telemetry
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.values import RunStatus


def run_started(run: CompactionRun, using: str) -> None:
    signals.send_after_commit(signals.compaction_started, CompactionRun, using=using, run=run)


def run_ended(run: CompactionRun, using: str) -> None:
    """The instance must say what its row does: status, reasons, times."""
    after_commit(partial(telemetry.count_run, run), using)
    signal = signals.compaction_failed if run.status == RunStatus.FAILED else signals.compaction_finished
    signals.send_after_commit(signal, CompactionRun, using=using, run=run)


def summaries_retired(session_id: Any, ids: Sequence[int], reason: str, using: str) -> None:
    signals.send_after_commit(
        signals.summary_retired,
        ChatMessage,
        using=using,
        session_id=session_id,
        summary_ids=list(ids),
        reason=reason,
    )


def suppressed(layer: str, trigger: str, reason: str, using: str) -> None:
    after_commit(partial(telemetry.count_suppression, layer=layer, trigger=trigger, reason=reason), using)


def after_commit(count: Any, using: str) -> None:
    """Call it once what this thread has open is committed; at once if nothing is."""
    transaction.on_commit(count, using=using, robust=True)
