"""What may be spent, from the rows of all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from compaction_app.models import CompactionRun

_PERIODS = {"h": timedelta(hours=1), "d": timedelta(days=1)}


def reached(limits: Mapping[str, Sequence[str]], runs: Sequence[CompactionRun], now: datetime) -> list[str]:
    """Those of a session's limits that its runs have reached."""
    found = []
    for limit in limits.get("session", ()):
        amount, what = limit.split(" ")
        unit, period = what.split("/")
        recent = [run for run in runs if run.created_at >= now - _PERIODS[period] and _costs(run)]
        used = len(recent) if unit == "runs" else sum(map(_tokens, recent))
        if used >= int(amount):
            found.append(limit)
    return found


def check_spending(limits: Mapping[str, Sequence[str]], runs: Sequence[CompactionRun], since: int) -> None:
    """No run after the one with the id ``since`` was opened with a limit reached by what had ended before it."""
    if not limits:
        return
    for run in runs:
        if run.pk > since and _costs(run):
            ended = [one for one in runs if one.finished_at and one.finished_at < run.created_at]
            assert reached(limits, ended, run.created_at) == [], "more was spent than the limit allows"


def _costs(run: CompactionRun) -> bool:
    return run.status != "skipped" or run.input_tokens is not None


def _tokens(run: CompactionRun) -> int:
    if run.status in ("ready", "running") and run.input_tokens is None:
        return run.tokens_before or 0
    return (run.input_tokens or 0) + (run.output_tokens or 0)
