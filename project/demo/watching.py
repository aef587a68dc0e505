"""Waits for the worker, and prints each run when it finishes.

The work is done when the broker has no task, waiting or taken, and the database has no open run. Celery's results are
off, so they are not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

import redis
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from compaction_app import chat
from compaction_app.context.reading import resolve_request
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.runs import MAX_ATTEMPTS
from compaction_app.values import RunStatus
from project.demo import reading
from project.demo.report import number

_POLL_SECONDS = 0.2
#: The broker is idle for a moment between two tasks.
_IDLE_POLLS = 3
#: Where kombu stores tasks in Redis: waiting ones, and taken ones that are not done.
_WAITING, _TAKEN = "celery", "unacked"


class Broker:
    """Whether the broker has any task left."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=5)

    def is_idle(self) -> bool:
        return not self._client.llen(_WAITING) and not self._client.hlen(_TAKEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


class Watch:
    """The runs of some sessions, each printed once when it finishes."""

    def __init__(self, sessions: Sequence[ChatSession], console: Console) -> None:
        self.sessions = sessions
        self.console = console
        self.since: datetime = timezone.now()
        self.known: set[int] = set()
        self.delayed: set[tuple[int, int]] = set()
        self.failures: set[str] = set()
        self.first_summary_at: datetime | None = None

    def print_news(self) -> list[CompactionRun]:
        news = reading.newer_runs(self.sessions, self.since, self.known)
        for run in news:
            self.known.add(run.pk)
            if run.status == RunStatus.SUCCEEDED and self.first_summary_at is None:
                self.first_summary_at = run.finished_at
            # One that succeeded all the same stored an extract.
            if run.error_code:
                self.failures.add(run.error_code)
            self.console.print(finished_line(run))
        self._print_delayed()
        return news

    def _print_delayed(self) -> None:
        """Print each attempt once: an unexplained wait of minutes would look like a demo that hangs."""
        for run in reading.delayed_runs(self.sessions):
            if (run.pk, run.attempts) not in self.delayed:
                self.delayed.add((run.pk, run.attempts))
                self.console.print(delayed_line(run))


def finished_line(run: CompactionRun) -> Text:
    """One line about a finished run."""
    text = Text("  ")
    if run.status == RunStatus.SUCCEEDED:
        text.append("✓ ", "green").append(f"generation {run.generation}", "bold")
        text.append(
            f" (run {run.pk}, tip #{run.tip_id}): {number(run.messages_compacted or 0, 'message')} summarized, "
        )
        text.append(f"{run.tokens_before:,} → {run.tokens_after:,} tokens")
        return text.append(f"; an extract: {run.error_code}", "yellow") if run.error_code else text
    if run.status == RunStatus.SKIPPED:
        return text.append("· ", "dim").append(f"run {run.pk} skipped: {run.skip_reason}", "dim")
    return text.append("✗ ", "red").append(f"run {run.pk} failed: {run.error_code}")


def delayed_line(run: CompactionRun) -> Text:
    """One line about a run that will be retried."""
    due = run.next_attempt_at
    seconds = max(0.0, (due - timezone.now()).total_seconds()) if due else 0.0
    text = Text("  … ", "yellow").append(f"run {run.pk}: {run.error_code}, attempt {run.attempts} of {MAX_ATTEMPTS}")
    return text.append(f"; retry in {seconds:.0f} s")


class Branches:
    """How many branches are still over their threshold. Only those that were are checked again."""

    def __init__(self, sessions: Sequence[ChatSession]) -> None:
        self._over: list[tuple[list[ChatMessage], int]] = []
        self.total = 0
        for session in sessions:
            tips = chat.tips(session)
            self.total += len(tips)
            self._over.append((tips, resolve_request(session).budget.threshold))
        self.check()

    def check(self) -> None:
        self._over = [(reading.tips_over(tips, threshold), threshold) for tips, threshold in self._over]

    @property
    def done(self) -> int:
        return self.total - sum(len(tips) for tips, _ in self._over)


def wait_until_compacted(watch: Watch, broker: Broker, check: Callable[[], None]) -> None:
    """Wait until nothing is left to do. ``check`` raises if a process has ended."""
    found = Branches(watch.sessions)
    idle = 0
    with _progress(watch.console, found.total) as progress:
        task = progress.add_task("branches at or under their threshold", total=found.total, completed=found.done)
        while idle < _IDLE_POLLS:
            check()
            if watch.print_news():
                found.check()
                progress.update(task, completed=found.done)
            is_idle = broker.is_idle() and not reading.has_open_runs(watch.sessions)
            idle = idle + 1 if is_idle else 0
            time.sleep(_POLL_SECONDS)
        watch.print_news()
        found.check()
        progress.update(task, completed=found.done)


def _progress(console: Console, total: int) -> Progress:
    # Off a terminal the lines of the runs show the progress.
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
