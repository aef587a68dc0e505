"""Why a threshold compaction is held back for now: the breaker, and the cool-down of what was just compacted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from compaction_app.conf import Mode, Settings
from compaction_app.models import CompactionRun
from compaction_app.values import Branch, Budget, ErrorCode, RunStatus, Suppression

#: Two drafts in a row that did not shrink open the breaker, whatever BREAKER_FAILURES says.
NO_PROGRESS_FAILURES = 2
_RECENT_RUNS = 50


def held_back(
    branch: Branch, budget: Budget, settings: Settings, using: str
) -> tuple[Suppression, dict[str, Any]] | None:
    """The reason, with the numbers behind it; None if nothing is in the way."""
    if settings.mode == Mode.DETERMINISTIC:
        # The clock must not decide what the same history looks like; and this summarizer costs next to nothing.
        return None
    now = timezone.now()
    recent = _recent_runs(branch, using)
    failures = _failures_in_a_row(recent)
    if failures and _breaker_open(failures, settings, now):
        return Suppression.BREAKER, {"failures": len(failures)}
    # The run that made the base: one whose summary was retired since covers nothing any more.
    last = next((run for run in recent if branch.base and run.summary_id == branch.base.id), None)
    if last is None or last.finished_at is None or branch.base is None or branch.tip_path_tokens == 0:
        return None
    seconds = (now - last.finished_at).total_seconds()
    covered = branch.base.cutoff_path_tokens / branch.tip_path_tokens
    fits = branch.history_tokens <= budget.available
    if seconds < settings.cooldown_seconds and covered >= settings.coverage_ratio and fits:
        return Suppression.COOLDOWN, {"seconds_since": round(seconds, 1), "covered": round(covered, 3)}
    return None


def _recent_runs(branch: Branch, using: str) -> list[CompactionRun]:
    """Finished runs of this branch, newest first: those anchored in its tail, and the one that made its base."""
    tail = {message.id for message in branch.tail}
    base_id = branch.base.id if branch.base else None
    finished = (
        CompactionRun.objects.using(using)
        .filter(session_id=branch.session_id, status__in=[RunStatus.FAILED, RunStatus.SUCCEEDED])
        .order_by("-id")
        .only("id", "anchor_id", "summary_id", "status", "error_code", "finished_at")[:_RECENT_RUNS]
    )
    return [run for run in finished if run.anchor_id in tail or (base_id and run.summary_id == base_id)]


def _failures_in_a_row(recent: Sequence[CompactionRun]) -> list[CompactionRun]:
    failures = []
    for run in recent:
        if run.status != RunStatus.FAILED:
            break
        failures.append(run)
    return failures


def _breaker_open(failures: Sequence[CompactionRun], settings: Settings, now: datetime) -> bool:
    stuck = [run for run in failures[:NO_PROGRESS_FAILURES] if run.error_code == ErrorCode.NO_PROGRESS]
    if len(failures) < settings.breaker_failures and len(stuck) < NO_PROGRESS_FAILURES:
        return False
    newest = failures[0].finished_at
    return newest is not None and (now - newest).total_seconds() < settings.breaker_seconds
