"""What is wrong with the background work right now, in one block on the app's page.

Runs that wait without a worker, claims of dead workers that no sweep has reassigned, open breakers, a broker that does
not answer: each with what to do. Failures are counted apart: a run that failed is no problem of the workers. Four
queries, each bounded; the broker is asked with the time-out that enqueueing has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone

from compaction_app import tasks
from compaction_app.admin.display import plural
from compaction_app.compaction.trigger import breaker_until
from compaction_app.conf import Mode, get_settings, site_setting
from compaction_app.exceptions import ConfigurationError
from compaction_app.models import CompactionRun
from compaction_app.models.managers import LOST_AFTER_SECONDS
from compaction_app.values import RunStatus

#: A run that is due for longer than this has missed more than one sweep that looks for lost tasks.
LATE_SECONDS = 3 * LOST_AFTER_SECONDS
#: Open runs of each status that are counted.
MOST_OPEN = 1000
#: The newest runs, among which failures are looked for.
NEWEST_RUNS = 500
#: Days of which failed runs are counted, and the newest runs among which they are.
RECENT_DAYS = 7
MOST_RECENT = 10_000
#: No breaker stays open for longer.
_LONGEST_BREAKER = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something that a person should know and can act on."""

    text: str
    #: What to do about it.
    remedy: str
    since: datetime | None = None
    #: The status of the runs whose list the page links to.
    runs: RunStatus | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    problems: tuple[Problem, ...]
    #: Failed runs of the last ``days``, and whether there are more than were counted.
    failed: int = 0
    is_cut: bool = False
    days: int = RECENT_DAYS


def health_of(request: HttpRequest) -> Health | None:
    """None for people who may not view runs; people who may compact are told of the broker."""
    user = getattr(request, "user", None)
    if user is None:
        return None
    may_view, may_compact = (
        any(user.has_perm(f"compaction_app.{name}") for name in names)
        for names in (("view_compactionrun", "change_compactionrun"), ("compact_chatsession",))
    )
    if not may_view:
        # Without a look at the runs nobody can say that all is well.
        problems = tuple(_broker()) if may_compact else ()
        return Health(problems=problems) if problems else None
    now = timezone.now()
    newest = CompactionRun.objects.filter(created_at__gt=now - timedelta(days=RECENT_DAYS)).order_by("-created_at")
    failed = Count("pk", filter=Q(status=RunStatus.FAILED))
    counted = newest[: MOST_RECENT + 1].aggregate(all=Count("pk"), failed=failed)
    return Health(
        problems=(*_broker(), *_open_runs(now), *_breakers(now)),
        failed=counted["failed"],
        is_cut=counted["all"] > MOST_RECENT,
    )


# -- the broker ---------------------------------------------------------------------------------------------


def knock() -> None:
    """Connect to the broker as enqueueing does; raises what that raises where nothing answers."""
    with tasks.impatient_connection() as connection:
        connection.ensure_connection(
            max_retries=1, interval_start=0, interval_step=0, timeout=tasks.ENQUEUE_TIMEOUT_SECONDS
        )


def _broker() -> Iterator[Problem]:
    try:
        # A mode for the whole site that enqueues nothing needs no broker.
        needs_broker = site_setting("MODE") not in (Mode.OFF, Mode.DETERMINISTIC)
    except ConfigurationError:
        needs_broker = True
    if current_app.conf.task_always_eager or not needs_broker:
        return
    try:
        knock()
    except Exception as error:
        # A broker can raise anything. The page shows it, and a failing enqueue logs it.
        yield Problem(
            text=f"The message broker does not answer ({type(error).__name__}).",
            remedy=(
                "Start it, or correct the broker's address in Celery's settings. Chats continue and nothing is lost: "
                "compactions wait in the database, and the next sweep enqueues them."
            ),
        )


# -- open runs ----------------------------------------------------------------------------------------------


def due_since(run: CompactionRun) -> datetime:
    """Since when a ready run could have been claimed; in the future where it is postponed."""
    return run.next_attempt_at or run.started_at or run.created_at


def is_late(run: CompactionRun, now: datetime) -> bool:
    """Whether a run should have been claimed, or reassigned, long ago."""
    late = now - timedelta(seconds=LATE_SECONDS)
    if run.status == RunStatus.RUNNING:
        return run.lease_expires_at is not None and run.lease_expires_at < late
    return run.status == RunStatus.READY and due_since(run) < late


def _open_runs(now: datetime) -> Iterator[Problem]:
    late = now - timedelta(seconds=LATE_SECONDS)
    running = _open(RunStatus.RUNNING)[: MOST_OPEN + 1].aggregate(
        working=Count("pk", filter=Q(lease_expires_at__gte=now)),
        stalled=Count("pk", filter=Q(lease_expires_at__lt=late)),
        since=Min("lease_expires_at"),
    )
    waits = Q(due__lt=late)
    # Most overdue first, in the order of the index: those are counted where not all are.
    ready = _open(RunStatus.READY).annotate(due=Coalesce("next_attempt_at", "started_at", "created_at"))
    waiting = ready.order_by("next_attempt_at")[: MOST_OPEN + 1].aggregate(
        late=Count("pk", filter=waits), enqueued=Count("enqueued_at", filter=waits), since=Min("due", filter=waits)
    )
    if waiting["late"]:
        if not waiting["enqueued"]:
            why, remedy = "no broker took them", "Start the broker and beat, or run manage.py recover_compactions."
        elif running["working"]:
            why = f"{plural(running['working'], 'run is', 'runs are')} in progress"
            remedy = "Start another worker, or put a faster model first (MODELS, TIMEOUT in SUMMARIZERS)."
        else:
            why, remedy = "no worker takes them", f"Start a worker, and beat for its sweep: {_worker()} --beat"
        counted = _count(waiting["late"], "run waits", "runs wait")
        yield Problem(
            text=f"{counted} for too long: {why}.", remedy=remedy, since=waiting["since"], runs=RunStatus.READY
        )
    if running["stalled"]:
        yield Problem(
            text=f"{_count(running['stalled'], 'run has', 'runs have')} a worker that is gone, and no sweep came.",
            remedy="Start beat, whose sweep reassigns them, or run manage.py recover_compactions.",
            since=running["since"],
            runs=RunStatus.RUNNING,
        )


def _open(status: RunStatus) -> QuerySet[CompactionRun]:
    # open() is the condition of the partial index.
    return CompactionRun.objects.open().filter(status=status)


def _count(runs: int, one: str, many: str) -> str:
    return f"More than {MOST_OPEN:,} {many}" if runs > MOST_OPEN else plural(runs, one, many)


def _worker() -> str:
    try:
        queue = site_setting("TASK_QUEUE")
    except ConfigurationError:
        queue = None
    return f"celery -A {current_app.main or 'yourproject'} worker" + (f" -Q {queue}" if queue else "")


# -- breakers -----------------------------------------------------------------------------------------------


def _breakers(now: datetime) -> Iterator[Problem]:
    """Sessions in which failures in a row hold back a branch's compactions, by the rule of ``trigger``. One query.

    The trigger counts the failures of one branch; here those that started from one summary are counted, so forks below
    it that fail in turn may be reported a little early. A session with invalid settings compacts nothing and is left
    out.
    """
    newest = CompactionRun.objects.order_by("-pk").values("pk")[:NEWEST_RUNS]
    # 0 is not an id: two runs that started from no summary have the same base, too.
    runs = CompactionRun.objects.annotate(on_base=Coalesce("base_id", 0))
    followed = runs.filter(
        session=OuterRef("session"), on_base=OuterRef("on_base"), pk__gt=OuterRef("pk"), status=RunStatus.SUCCEEDED
    )
    in_a_row: dict[tuple[Any, int | None], list[CompactionRun]] = defaultdict(list)
    for run in (
        runs.filter(~Exists(followed), pk__in=newest, status=RunStatus.FAILED, finished_at__gt=now - _LONGEST_BREAKER)
        .select_related("session")
        .only("session__settings", "base", "error_code", "finished_at")
        .order_by("-pk")
    ):
        in_a_row[run.session_id, run.base_id].append(run)
    sessions, began, closes = set(), now, now
    for failed in in_a_row.values():
        try:
            settings = get_settings(failed[0].session.settings)
        except ConfigurationError:
            continue
        until = None if settings.mode in (Mode.OFF, Mode.DETERMINISTIC) else breaker_until(failed)
        if until and until > now:
            sessions.add(failed[0].session_id)
            began, closes = min(began, failed[-1].finished_at or now), max(closes, until)
    if sessions:
        yield Problem(
            text=f"Failures in a row hold back compactions in {plural(len(sessions), 'session')} (an open breaker).",
            remedy=(
                f"The last one closes by itself at {timezone.localtime(closes):%H:%M}, and the next turn tries again. "
                "The error codes of the failed runs say what to fix. Compacting from the admin ignores the breaker."
            ),
            since=began,
            runs=RunStatus.FAILED,
        )
