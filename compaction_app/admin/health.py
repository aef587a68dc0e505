"""What is wrong with the background work right now, as warnings at the top of the admin's pages.

Runs that wait without a worker, claims of dead workers that no sweep has reassigned, open breakers, a broker that does
not answer: each with the time since when, and what to do. A template shows them with one line::

    {% load compaction_health %}{% compaction_warnings %}

Three queries, each bounded: open runs are found by their own index, and failures among the newest runs. The broker is
asked at most twice a minute in a process, in a thread: a page waits a moment for the answer and continues without it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html

from compaction_app import tasks
from compaction_app.admin.display import moment, number, plural
from compaction_app.compaction.trigger import breaker_until
from compaction_app.conf import Mode, get_settings, site_setting
from compaction_app.exceptions import ConfigurationError
from compaction_app.models import ChatSession, CompactionRun
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
#: Sessions that a warning names.
NAMED = 5
#: No breaker stays open for longer.
_LONGEST_BREAKER = timedelta(days=1)
#: An answer of the broker, or none, is believed for this long.
FRESH_SECONDS = 30.0
#: The longest that a page waits for it. A broker nearby answers in milliseconds.
PAGE_WAITS_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """Something that a person should know and can act on."""

    #: What is wrong, in a sentence without the time.
    text: str
    #: What to do about it, in a sentence or two.
    remedy: str
    since: datetime | None = None
    #: For a shell; "" where there is none.
    command: str = ""
    #: Sessions that the page links to.
    sessions: tuple[ChatSession, ...] = ()
    #: The status of the runs whose list the page links to, and the link's words.
    runs: RunStatus | None = None
    link: str = ""
    is_error: bool = True

    @property
    def sentence(self) -> str:
        if self.since is None:
            return self.text
        return format_html("Since {}: {}", moment(self.since), self.text[0].lower() + self.text[1:])


def may_see(request: HttpRequest) -> bool:
    """People who may view the runs that the warnings mention."""
    return _may_any(request, "view_compactionrun", "change_compactionrun")


def _may_any(request: HttpRequest, *names: str) -> bool:
    user = getattr(request, "user", None)
    return user is not None and any(user.has_perm(f"compaction_app.{name}") for name in names)


def warnings(request: HttpRequest) -> list[Alert]:
    """All that is wrong now, as far as the user may see it. Three queries; none for people who may not view runs."""
    sees_runs = may_see(request)
    # People who may request compactions want to know that nothing takes them.
    found = [*_broker()] if sees_runs or _may_any(request, "compact_chatsession") else []
    if not sees_runs:
        return found
    now = timezone.now()
    # A title may quote a message, and the page behind it is for people who may view sessions.
    named = NAMED if _may_any(request, "view_chatsession", "change_chatsession") else 0
    return [*found, *_open_runs(now), *_breakers(now, named)]


# -- the broker ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Silence:
    """A broker that did not answer."""

    #: When this process first noticed.
    since: datetime
    #: The class of the exception.
    error: str


def knock() -> None:
    """Connect to the broker as enqueueing does; raises what that raises where nothing answers."""
    with tasks.impatient_connection() as connection:
        connection.ensure_connection(
            max_retries=1, interval_start=0, interval_step=0, timeout=tasks.ENQUEUE_TIMEOUT_SECONDS
        )


class Watch:
    """What this process knows of the broker."""

    def __init__(self, knock: Callable[[], None] = knock) -> None:
        self._knock = knock
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._silence: Silence | None = None
        #: At the last look.
        self.has_answered = False

    def silence(self) -> Silence | None:
        """None where the broker answers, none is needed, or nothing is known of it yet."""
        if current_app.conf.task_always_eager:
            return None
        if self._is_due():
            looked = threading.Event()
            # In a thread: no socket timeout applies to a name server that hangs.
            threading.Thread(target=self._look, args=(looked,), daemon=True, name="compaction-broker").start()
            looked.wait(PAGE_WAITS_SECONDS)
        return self._silence

    def _is_due(self) -> bool:
        # By the clock, not by a flag that a look is under way: a process forked meanwhile would wait forever.
        with self._lock:
            now = time.monotonic()
            if now < self._next_look:
                return False
            self._next_look = now + FRESH_SECONDS
            return True

    def _look(self, looked: threading.Event) -> None:
        try:
            self._knock()
        except Exception as error:
            # A broker can raise anything. The page shows it, and a failing enqueue logs it.
            since = self._silence.since if self._silence else timezone.now()
            self._silence, self.has_answered = Silence(since, type(error).__name__), False
        else:
            self._silence, self.has_answered = None, True
        finally:
            looked.set()


#: The one of this process.
watch = Watch()


def _broker() -> Iterator[Alert]:
    try:
        # A mode for the whole site that enqueues nothing needs no broker.
        needs_broker = site_setting("MODE") not in (Mode.OFF, Mode.DETERMINISTIC)
    except ConfigurationError:
        needs_broker = True
    if needs_broker and (silence := watch.silence()):
        yield Alert(
            text=f"The message broker does not answer ({silence.error}).",
            remedy=(
                "Start it, or correct the broker's address in Celery's settings. Chats continue and nothing is lost: "
                "compactions wait in the database, and the next sweep enqueues them."
            ),
            since=silence.since,
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


def _open_runs(now: datetime) -> Iterator[Alert]:
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
        late=Count("pk", filter=waits),
        enqueued=Count("enqueued_at", filter=waits),
        last_enqueued=Max("enqueued_at", filter=waits),
        since=Min("due", filter=waits),
    )
    if waiting["late"]:
        yield _waiting(waiting, running["working"], late)
    if stalled := running["stalled"]:
        was, it = ("was", "it") if stalled == 1 else ("were", "them")
        yield Alert(
            text=f"{_count(stalled)} {was} claimed by a worker that is gone, and no sweep has reassigned {it}.",
            remedy="Start beat, whose sweep does it, or run:",
            command="python manage.py recover_compactions",
            since=running["since"],
            runs=RunStatus.RUNNING,
            link=f"Show {it}",
        )


def _open(status: RunStatus) -> QuerySet[CompactionRun]:
    # open() is the condition of the partial index.
    return CompactionRun.objects.open().filter(status=status)


def _waiting(found: dict[str, Any], working: int, late: datetime) -> Alert:
    """Runs that nothing takes: because of the broker, of too few workers, or of none."""
    is_one = found["late"] == 1
    problem = f"{_count(found['late'])} {'waits longer than it' if is_one else 'wait longer than they'} should"
    them = "it" if is_one else "them"
    is_error = True
    if not found["enqueued"]:
        text = f"{problem}: no broker has taken {them}."
        remedy = f"Start beat, whose sweep enqueues {them} once the broker answers, or run:"
        command = "python manage.py recover_compactions"
    elif working:
        at_work = plural(working, "run is", "runs are")
        text = f"{problem}, while {at_work} in progress: there are too few workers, or they are too slow."
        remedy = "Start another worker, or put a faster model first (SUMMARIZER_MODELS, SUMMARIZER_TIMEOUT)."
        command, is_error = _worker(), False
    elif found["last_enqueued"] >= late:
        text, remedy, command = f"{problem}: no worker takes {them}.", "Start one that reads their queue:", _worker()
    else:
        text = f"{problem}: no worker takes {them}."
        remedy, command = f"No sweep enqueues {them} again either. Start both:", f"{_worker()} --beat"
    return Alert(
        text=text,
        remedy=remedy,
        command=command,
        since=found["since"],
        runs=RunStatus.READY,
        link=f"Show {them}",
        is_error=is_error,
    )


def _count(runs: int) -> str:
    return f"More than {MOST_OPEN:,} runs" if runs > MOST_OPEN else plural(runs, "run")


def _worker() -> str:
    try:
        queue = site_setting("TASK_QUEUE")
    except ConfigurationError:
        queue = None
    return f"celery -A {current_app.main or 'yourproject'} worker" + (f" -Q {queue}" if queue else "")


# -- all is well --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counts:
    """The runs that the page of the app counts, each up to a bound. Two queries."""

    waiting: str
    running: str
    #: Of the last ``days``.
    failed: str
    days: int = RECENT_DAYS

    @property
    def all_is_well(self) -> str:
        """Where there is no warning."""
        broker = "the broker answers, " if watch.has_answered else ""
        return f"No problems now: {broker}{self.waiting} waiting, {self.failed} failed in the last {self.days} days."


def counts() -> Counts:
    waiting, running = (Count("pk", filter=Q(status=status)) for status in (RunStatus.READY, RunStatus.RUNNING))
    found = CompactionRun.objects.open()[: MOST_OPEN + 1].aggregate(waiting=waiting, running=running)
    is_cut = sum(found.values()) > MOST_OPEN
    recent = CompactionRun.objects.filter(created_at__gt=timezone.now() - timedelta(days=RECENT_DAYS))
    newest = recent.order_by("-created_at")[: MOST_RECENT + 1]
    failed = newest.aggregate(all=Count("pk"), failed=Count("pk", filter=Q(status=RunStatus.FAILED)))
    return Counts(
        _at_least(found["waiting"], is_cut=is_cut),
        _at_least(found["running"], is_cut=is_cut),
        _at_least(failed["failed"], is_cut=failed["all"] > MOST_RECENT),
    )


def _at_least(count: int, *, is_cut: bool) -> str:
    return f"at least {number(count)}" if is_cut else number(count)


# -- breakers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenBreaker:
    session: ChatSession
    failures: int
    since: datetime
    until: datetime


def open_breakers(now: datetime) -> list[OpenBreaker]:
    """Sessions in which failures in a row hold back a branch's compactions, by the rule of ``trigger``. One query.

    The trigger counts the failures of one branch; here those that started from one summary are counted, so forks below
    it that fail in turn may be reported a little early. A session with invalid settings compacts nothing and is left
    out.
    """
    in_a_row: dict[tuple[Any, int | None], list[CompactionRun]] = defaultdict(list)
    for run in _failures(now):
        in_a_row[run.session_id, run.base_id].append(run)
    found = [breaker for failed in in_a_row.values() if (breaker := _breaker(failed)) and breaker.until > now]
    # Of each session the one that closes last.
    last = {breaker.session.pk: breaker for breaker in sorted(found, key=lambda breaker: breaker.until)}
    return sorted(last.values(), key=lambda breaker: breaker.since)


def _failures(now: datetime) -> Iterable[CompactionRun]:
    """Failed runs, newest first, that no success on the same base has followed."""
    newest = CompactionRun.objects.order_by("-pk").values("pk")[:NEWEST_RUNS]
    # 0 is not an id: two runs that started from no summary have the same base, too.
    runs = CompactionRun.objects.annotate(on_base=Coalesce("base_id", 0))
    followed = runs.filter(
        session=OuterRef("session"), on_base=OuterRef("on_base"), pk__gt=OuterRef("pk"), status=RunStatus.SUCCEEDED
    )
    return (
        runs.filter(~Exists(followed), pk__in=newest, status=RunStatus.FAILED, finished_at__gt=now - _LONGEST_BREAKER)
        .select_related("session")
        .only("session__title", "session__settings", "base", "error_code", "finished_at")
        .order_by("-pk")
    )


def _breaker(failed: list[CompactionRun]) -> OpenBreaker | None:
    session, since = failed[0].session, failed[-1].finished_at
    try:
        settings = get_settings(session.settings)
    except ConfigurationError:
        return None
    until = None if settings.mode in (Mode.OFF, Mode.DETERMINISTIC) else breaker_until(failed, settings)
    return OpenBreaker(session, len(failed), since, until) if since and until else None


def _breakers(now: datetime, named: int) -> Iterator[Alert]:
    found = open_breakers(now)
    if not found:
        return
    failures, until = max(one.failures for one in found), max(one.until for one in found)
    yield Alert(
        text=f"The breaker is open in {plural(len(found), 'session')}, after up to {failures} failures in a row.",
        remedy=(
            f"It closes by itself, the last one at {timezone.localtime(until):%H:%M}, and the next turn tries again. "
            "The error codes of the failed runs say what to fix. Compacting from the admin ignores the breaker."
        ),
        since=min(one.since for one in found),
        sessions=tuple(one.session for one in found[:named]),
        runs=RunStatus.FAILED,
        link="Failed runs",
        is_error=False,
    )
