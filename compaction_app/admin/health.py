"""What is wrong with the background work right now, for people who look at the admin.

Runs that wait without a worker, claims that died and were not swept up, breakers that hold compactions back, a broker
that does not answer: each said with since when, and with what to do. A page shows them with one line::

    {% load compaction_health %}{% compaction_warnings %}

Three queries, each of them bounded: open runs are found by their own index, and failures among the newest runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone

from compaction_app.admin import broker, display
from compaction_app.admin.records import Tool
from compaction_app.compaction.trigger import NO_PROGRESS_FAILURES
from compaction_app.conf import Mode, Settings, get_settings, site_setting
from compaction_app.exceptions import ConfigurationError
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.models.managers import LOST_AFTER_SECONDS
from compaction_app.values import ErrorCode, RunStatus

#: A run that is due for longer than this has missed the sweep that a lost task waits for, and more than one.
LATE_SECONDS = 3 * LOST_AFTER_SECONDS
#: Open runs that are looked at, of either status; beyond it a number is said to be larger.
MOST_OPEN = 1000
#: Failures are looked for among so many of the newest runs.
NEWEST_RUNS = 500
#: Sessions that a sentence names.
NAMED = 5
#: No breaker is thought to stay open for longer.
_LONGEST_BREAKER = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """Something that a person should know, and can do something about."""

    #: What is wrong, in a sentence.
    text: str
    #: What to do about it, in a sentence or two.
    remedy: str
    since: datetime | None = None
    #: To be typed; "" where nothing is.
    command: str = ""
    links: tuple[Tool, ...] = ()
    is_error: bool = True


def may_see(request: HttpRequest) -> bool:
    """Those who may see the runs that the sentences speak of."""
    return _may_any(request, "view_compactionrun", "change_compactionrun")


def may_see_broker(request: HttpRequest) -> bool:
    """Those too who may ask for a compaction: they want to know that nobody takes it."""
    return may_see(request) or _may_any(request, "compact_chatsession")


def _may_any(request: HttpRequest, *names: str) -> bool:
    user = getattr(request, "user", None)
    return user is not None and any(user.has_perm(f"compaction_app.{name}") for name in names)


def warnings(request: HttpRequest) -> list[Alert]:
    """All that is wrong now, as far as a person may see it. Three queries; none for those who may not see runs."""
    found = [*_broker()] if may_see_broker(request) else []
    if not may_see(request):
        return found
    site = getattr(request, "current_app", None) or "admin"
    now = timezone.now()
    names_sessions = _may_any(request, "view_chatsession", "change_chatsession")
    return [*found, *_open_runs(now, site), *_breakers(now, site, names_sessions)]


# -- the broker ---------------------------------------------------------------------------------------------


def _broker() -> Iterator[Alert]:
    if not _needs_broker():
        return
    if silence := broker.watch.silence():
        yield Alert(
            text=f"The message broker does not answer ({silence.error}).",
            remedy=(
                "Start it, or correct the broker's address in Celery's settings. Chats go on and nothing is lost: "
                "compactions wait in the database and are handed over by the next sweep."
            ),
            since=silence.since,
        )


def _needs_broker() -> bool:
    """Modes that belong to the whole site and enqueue nothing need none."""
    try:
        return site_setting("MODE") not in (Mode.OFF, Mode.DETERMINISTIC)
    except ConfigurationError:
        return True


# -- open runs ----------------------------------------------------------------------------------------------


def due_since(run: CompactionRun) -> datetime:
    """Since when a ready run could have been claimed; in the future where it is put off."""
    return run.next_attempt_at or run.started_at or run.created_at


def is_late(run: CompactionRun, now: datetime) -> bool:
    """Whether a run should have been claimed, or claimed anew, long ago."""
    late = now - timedelta(seconds=LATE_SECONDS)
    if run.status == RunStatus.RUNNING:
        return run.lease_expires_at is not None and run.lease_expires_at < late
    return run.status == RunStatus.READY and due_since(run) < late


def _open_runs(now: datetime, site: str) -> Iterator[Alert]:
    late = now - timedelta(seconds=LATE_SECONDS)
    running = _at_most(_open(RunStatus.RUNNING)).aggregate(
        working=Count("pk", filter=Q(lease_expires_at__gte=now)),
        stalled=Count("pk", filter=Q(lease_expires_at__lt=late)),
        since=Min("lease_expires_at"),
    )
    waits = Q(due__lt=late)
    # Most overdue first, in the order of the index, so that those are seen where not all are.
    ready = _open(RunStatus.READY).annotate(due=Coalesce("next_attempt_at", "started_at", "created_at"))
    waiting = _at_most(ready.order_by("next_attempt_at")).aggregate(
        late=Count("pk", filter=waits),
        handed_over=Count("enqueued_at", filter=waits),
        last_handed_over=Max("enqueued_at", filter=waits),
        since=Min("due", filter=waits),
    )
    if waiting["late"]:
        yield _waiting(waiting, running["working"], late, site)
    if running["stalled"]:
        yield _stalled(running, site)


def _open(status: RunStatus) -> QuerySet[CompactionRun]:
    # Said twice, the second time in the words of the partial index.
    return CompactionRun.objects.open().filter(status=status)


def _at_most(runs: QuerySet[CompactionRun]) -> QuerySet[CompactionRun]:
    return runs[: MOST_OPEN + 1]


def _waiting(found: dict[str, Any], working: int, late: datetime, site: str) -> Alert:
    runs, link = _number(found["late"]), _listed(RunStatus.READY, site)
    them = "it" if found["late"] == 1 else "them"
    if not found["handed_over"]:
        return Alert(
            text=f"{runs}: no broker has taken {them}.",
            remedy="Let beat run, whose sweep hands them over, once the broker answers; or do it by hand:",
            command="python manage.py recover_compactions",
            since=found["since"],
            links=(link,),
        )
    if working:
        return Alert(
            text=f"{runs}, while {working:,} are worked on: there are too few workers, or too slow ones.",
            remedy="Start another worker, or ask a faster model first (SUMMARIZER_MODELS, SUMMARIZER_TIMEOUT).",
            command=_worker(),
            since=found["since"],
            links=(link,),
            is_error=False,
        )
    swept = found["last_handed_over"] >= late
    remedy = "Start one that reads their queue:" if swept else f"No sweep hands {them} over again either. Start both:"
    return Alert(
        text=f"{runs}: no worker takes {them}.",
        remedy=remedy,
        command=_worker() if swept else f"{_worker()} --beat",
        since=found["since"],
        links=(link,),
    )


def _stalled(found: dict[str, Any], site: str) -> Alert:
    number = found["stalled"]
    verb, them = ("was", "it") if number == 1 else ("were", "them")
    return Alert(
        text=f"{_count(number)} {verb} claimed by a worker that is gone, and no sweep has given {them} to another.",
        remedy="Let beat run, whose sweep does it; or do it by hand:",
        command="python manage.py recover_compactions",
        since=found["since"],
        links=(_listed(RunStatus.RUNNING, site),),
    )


def _number(late: int) -> str:
    return f"{_count(late)} {'waits' if late == 1 else 'wait'} longer than {'it' if late == 1 else 'they'} should"


def _count(number: int) -> str:
    if number > MOST_OPEN:
        return f"More than {MOST_OPEN:,} runs"
    return "1 run" if number == 1 else f"{number:,} runs"


def _listed(status: RunStatus, site: str) -> Tool:
    url = display.page_url("compactionrun_changelist", site=site, status__exact=str(status))
    return Tool("Show them", url)


def _worker() -> str:
    try:
        queue = site_setting("TASK_QUEUE")
    except ConfigurationError:
        queue = None
    return f"celery -A {current_app.main or 'yourproject'} worker" + (f" -Q {queue}" if queue else "")


# -- breakers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """A session in which a breaker is open."""

    session: ChatSession
    failures: int
    since: datetime
    until: datetime


def open_breakers(now: datetime) -> list[Held]:
    """Sessions in which failures in a row hold a branch's compactions back, by the rule of ``guard``; one query.

    The guard counts those of one branch. Here they are those that started from one summary: of forks below it that
    fail by turns this may tell a little early. A session whose settings are wrong compacts nothing, so it is left out.
    """
    rows: dict[tuple[Any, int | None], list[CompactionRun]] = {}
    for run in _failures(now):
        rows.setdefault((run.session_id, run.base_id), []).append(run)
    found: dict[Any, Held] = {}
    for failed in rows.values():
        held = _held(failed, now)
        if held and (held.session.pk not in found or held.until > found[held.session.pk].until):
            found[held.session.pk] = held
    return sorted(found.values(), key=lambda held: held.since)


def _failures(now: datetime) -> Iterable[CompactionRun]:
    """Failed runs, newest first, that no success on the same base has followed."""
    newest = CompactionRun.objects.order_by("-pk").values("pk")[:NEWEST_RUNS]
    # 0 is no id: two runs that started from no summary at all are of one base as well.
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


def _held(failed: list[CompactionRun], now: datetime) -> Held | None:
    newest, oldest = failed[0].finished_at, failed[-1].finished_at
    settings = _settings_of(failed[0].session)
    if settings is None or newest is None or oldest is None or not _is_open(failed, settings):
        return None
    until = newest + timedelta(seconds=settings.breaker_seconds)
    return Held(failed[0].session, len(failed), oldest, until) if until > now else None


def _is_open(failed: list[CompactionRun], settings: Settings) -> bool:
    if settings.mode in (Mode.OFF, Mode.DETERMINISTIC):
        return False
    last = failed[:NO_PROGRESS_FAILURES]
    stuck = len(last) == NO_PROGRESS_FAILURES and all(run.error_code == ErrorCode.NO_PROGRESS for run in last)
    return stuck or len(failed) >= settings.breaker_failures


def _settings_of(session: ChatSession) -> Settings | None:
    try:
        return get_settings(session.settings)
    except ConfigurationError:
        return None


def _breakers(now: datetime, site: str, names_sessions: bool) -> Iterator[Alert]:
    held = open_breakers(now)
    if not held:
        return
    sessions = "1 session" if len(held) == 1 else f"{len(held):,} sessions"
    failures, until = max(one.failures for one in held), max(one.until for one in held)
    # A title may be how a message began, and the page behind it is for those who may see sessions.
    links = [_session_link(one, site) for one in held[:NAMED]] if names_sessions else []
    yield Alert(
        text=f"The breaker is open in {sessions}, after up to {failures} failures in a row.",
        remedy=(
            f"It closes by itself, the last at {timezone.localtime(until):%H:%M}, and the next turn tries again. "
            "The error codes of the failed runs say what to mend; compacting by hand does not wait for the breaker."
        ),
        since=min(one.since for one in held),
        links=(*links, Tool("Failed runs", _listed(RunStatus.FAILED, site).url)),
        is_error=False,
    )


def _session_link(held: Held, site: str) -> Tool:
    label = display.shortened(str(held.session), 40)
    return Tool(label, display.page_url("chatsession_change", held.session.pk, site=site))
