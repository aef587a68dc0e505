"""Celery tasks, and the one way to enqueue a run: Celery's, or that of the hook ``ENQUEUE``.

A task carries only a run's id: the work is described in the database, and the worker that claims the run does it.
Delivered twice, the second delivery finds the run claimed; never delivered, the sweep finds it waiting.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from celery import current_app, shared_task
from django.conf import settings as django_settings
from django.db import InterfaceError, OperationalError, connections, router
from django.db.models import Count, Min, Q

from compaction_app.compaction.execute import Outcome, carry_out_generations, compact_chat_history
from compaction_app.compaction.trigger import CompactionRequest, open_run
from compaction_app.conf import get_settings, load_function, site_setting
from compaction_app.context.reading import is_over_threshold, resolve_request
from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun, ReplyClaim
from compaction_app.models.database import database_of, fetch, now_of
from compaction_app.models.runs import MAX_ATTEMPTS, MAX_LOST, CompactionRunQuerySet, over
from compaction_app.summarizers.waiting import BLOCKING, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.tree import branches
from compaction_app.values import ErrorCode, RunStatus, SkipReason, Suppression, Trigger

logger = logging.getLogger("compaction_app.tasks")

#: The longest that a chat turn waits for a broker that does not answer.
ENQUEUE_TIMEOUT_SECONDS = 1.0
#: compact_session is retried after this where another worker's run is in the way, or the database is away.
SESSION_RETRY_SECONDS = 5
#: Seconds between a run's limit and the soft limit of its task, and between that and the hard one.
TASK_MARGIN_SECONDS = 30
#: compact_session opens no run after this and goes on in another task.
SESSION_SECONDS = 1800
# Far above what any branch needs: each generation raises the cutoff, so only a defect reaches this.
_MAX_GENERATIONS = 1000
#: The number of runs that the sweep reads at once.
_SWEEP_BATCH = 200
#: Old events that one sweep deletes: no more than ends soon, the next one goes on.
_MOST_EVENTS = 10_000


def enqueue(run: CompactionRun, *, countdown: float | None = None) -> bool:
    """Send a run to the workers. Never raises and never waits long: the sweep finds a run that this could not send."""
    marked = CompactionRun.objects.in_database_of(run).filter(pk=run.pk)
    options = {"countdown": countdown, **_limits(run.time_limit)}
    marked.update(enqueued_at=now_of(run) + timedelta(seconds=countdown or 0))
    task_id = _publish("compact_branch", [run.pk, database_of(run)], options, run=run.pk)
    if task_id is None:
        marked.update(enqueued_at=None)
        return False
    marked.update(task_id=task_id)
    log(logger, logging.INFO, "enqueued", run=run.pk, session=run.session_id, task=task_id, countdown=countdown)
    return True


def enqueue_session(session: ChatSession, below: int | None = None, *, countdown: float | None = None) -> bool:
    """Compact every branch of a session in the background; False where the broker did not take the task.

    ``below``: only branches that contain the message with this id.
    """
    arguments = [str(session.pk), database_of(session), below]
    limits = _limits(get_settings(session.settings).time_limit + SESSION_SECONDS)
    options = {"countdown": countdown, **limits}
    return _publish("compact_session", arguments, options, session=session.pk) is not None


def _limits(seconds: float) -> dict[str, float]:
    """Of a task. A run fails at its own limit (see :mod:`compaction.leases`); these end the task that still hangs."""
    soft = seconds + TASK_MARGIN_SECONDS
    return {"soft_time_limit": soft, "time_limit": soft + TASK_MARGIN_SECONDS}


def impatient_connection() -> Any:
    """A separate connection to the broker, not open yet, with a time-out and no retry for every step.

    A connection of the host's pool may wait for ever for a broker that no longer answers.
    """
    options = {
        **(current_app.conf.broker_transport_options or {}),
        "socket_timeout": ENQUEUE_TIMEOUT_SECONDS,
        "socket_connect_timeout": ENQUEUE_TIMEOUT_SECONDS,
        "max_retries": 0,
        "connect_retries_timeout": ENQUEUE_TIMEOUT_SECONDS,
    }
    return current_app.connection_for_write(connect_timeout=ENQUEUE_TIMEOUT_SECONDS, transport_options=options)


def _publish(task_name: str, arguments: list[Any], options: Mapping[str, Any], **logged: Any) -> str | None:
    """Send one task, without waiting for the broker and without a retry; its id, or None if it could not be sent."""
    name = f"compaction_app.tasks.{task_name}"
    queue = getattr(django_settings, "COMPACTION", {}).get("TASK_QUEUE")
    try:
        if hook := site_setting("ENQUEUE"):
            return str(load_function(hook)(name, arguments, options["countdown"] or 0) or "")
        with impatient_connection() as connection:
            result = current_app.tasks[name].apply_async(
                arguments, connection=connection, retry=False, **({"queue": queue} if queue else {}), **options
            )
    except Exception as error:
        # Whatever a broker client raises: the chat turn goes on, and the sweep finds the run.
        # With its module: kombu's OperationalError is none of the database.
        kind = f"{type(error).__module__}.{type(error).__name__}"
        log(logger, logging.WARNING, "failed", step="enqueue", **logged, type=kind)
        return None
    return str(result.id)


@shared_task(name="compaction_app.tasks.compact_branch", acks_late=True, reject_on_worker_lost=True)
def compact_branch(run_id: int, using: str = "default") -> str:
    """Carry out one run; enqueue its next generation, or the same run again after a transient error."""
    if (outcome := compact_chat_history(run_id, using)) is None:
        return "not claimed"
    _enqueue_following(outcome)
    return str(outcome.run.status)


def _enqueue_following(outcome: Outcome) -> None:
    if outcome.follow_up is not None:
        enqueue(outcome.follow_up)
    run = outcome.run
    if run.status == RunStatus.READY:
        now = now_of(run)
        enqueue(run, countdown=max(0.0, ((run.next_attempt_at or now) - now).total_seconds()) + 0.1)


# max_retries is the task's, since retry(max_retries=None) means the default of three. No row stands for this task, so
# the sweep does not find it where the database was briefly away.
@shared_task(
    name="compaction_app.tasks.compact_session",
    bind=True,
    acks_late=True,
    reject_on_worker_lost=True,
    max_retries=None,
    default_retry_delay=SESSION_RETRY_SECONDS,
    autoretry_for=(OperationalError, InterfaceError),
)
def compact_session(self: Any, session_id: str, using: str = "default", below: int | None = None) -> dict[str, int]:
    """Bring every branch of a session to or under its threshold, from shallow tips to deep ones.

    Shallow first: a summary on the shared part serves the deeper branches too. ``below``: see ``enqueue_session``.
    """
    session = ChatSession.objects.using(using).filter(pk=session_id).first()
    if session is None:
        return {"tips": 0, "runs": 0, "waiting": 0}
    tips = branches.tips(session, below)
    done = waiting = 0
    until = time.monotonic() + SESSION_SECONDS
    for tip in sorted(tips, key=lambda tip: (tip.depth, tip.pk)):
        try:
            count, waits = _compact_tip(session, tip, self.request.id or "", until)
        except MessageNotFound:
            # Deleted since the tips were read; the other tips still need to be compacted.
            continue
        done += count
        waiting += waits
    if waiting and site_setting("ENQUEUE"):
        # The host's worker calls this as a function, which Celery retries nowhere.
        enqueue_session(session, below, countdown=SESSION_RETRY_SECONDS)
    elif waiting and not self.request.called_directly:
        raise self.retry()
    return {"tips": len(tips), "runs": done, "waiting": waiting}


def _compact_tip(session: ChatSession, tip: ChatMessage, task_id: str, until: float) -> tuple[int, bool]:
    """The number of runs made for one tip, and whether it waits: for another worker's run, or for another task."""
    resolved = resolve_request(session)
    for made in range(_MAX_GENERATIONS):
        if not is_over_threshold(tip, resolved):
            return made, False
        if time.monotonic() > until:
            return made, True
        request = CompactionRequest(tip=tip, trigger=Trigger.THRESHOLD, resolved=resolved, forced=True)
        decision = open_run(request)
        if decision.run is None:
            return made, decision.reason == Suppression.OPEN_RUN
        outcome = without_waiting(carry_out_generations(decision.run, BLOCKING, task_id))
        if outcome is None:
            return made, True
        if outcome.run.status != RunStatus.SUCCEEDED and outcome.run.skip_reason != SkipReason.BASE_CHANGED:
            _enqueue_following(outcome)
            return made, False
    log(logger, logging.ERROR, "failed", step="come_to_rest", session=session.pk, tip=tip.pk, runs=_MAX_GENERATIONS)
    return _MAX_GENERATIONS, False


@shared_task(name="compaction_app.tasks.recover_compactions")
def recover_compactions() -> dict[str, Any]:
    """The sweep: enqueue runs that are stalled, due again or were never enqueued; fail those with too many attempts.

    A run whose workers were lost, one after another, has too many sooner. Deletes events that are older than
    ``EVENTS_KEPT_DAYS``, and claims of replies whose process was killed. Returns how much it looked at (``databases``
    that runs are written to and that answered, their ``schemas`` on PostgreSQL, ``runs``) and what it did: where each
    tenant has a schema, one sweep sees one of them.
    """
    found: dict[str, Any] = dict.fromkeys(("databases", "schemas", "runs", "enqueued", "given_up", "events"), 0)
    schemas: list[str] = []
    for alias in databases():
        try:
            _recover(CompactionRun.objects.using(alias), found, schemas)
        except (OperationalError, InterfaceError) as error:
            # One that is away holds up no other one.
            log_error(logger, error, step="sweep", database=alias)
            connections[alias].close()
    found["schemas"] = ",".join(schemas)
    log(logger, logging.INFO, "sweep", **{**found, "schemas": found["schemas"] or None})
    return found


def _recover(stored: CompactionRunQuerySet, found: dict[str, Any], schemas: list[str]) -> None:
    """The sweep of one database, that of the ``stored`` runs, added to what was ``found``."""
    if connections[stored.db].vendor == "postgresql":
        [(schema,)] = fetch("SELECT current_schema()", [], stored)
        schemas.append(str(schema))
    for run in _waiting_runs(stored):
        found["runs"] += 1
        most = MAX_LOST if run.status == RunStatus.RUNNING else MAX_ATTEMPTS
        if run.attempts < most:
            found["enqueued"] += enqueue(run)
        elif claimed := stored.claim(run.pk, ENQUEUE_TIMEOUT_SECONDS):
            # A worker that was lost left no code: killed, stopped, or so busy that it did not renew its lease.
            code = ErrorCode.TIME_LIMIT if run.status == RunStatus.RUNNING else ErrorCode.PROVIDER_ERROR
            detail = f"Abandoned after {run.attempts} attempts."
            found["given_up"] += claimed.fail(run.error_code or code, detail)
    now = now_of(stored)
    late = Q(due__lt=now - stored.late_after())
    seen = stored.waiting().filter(late).aggregate(runs=Count("pk"), since=Min("due"))
    if seen["runs"]:
        seconds = int((now - seen["since"]).total_seconds())
        log(logger, logging.WARNING, "late", database=stored.db, runs=seen["runs"], seconds=seconds)
    found["events"] += _delete_old_events(stored, now)
    # What killed processes left at questions that nobody asked again.
    ReplyClaim.objects.in_database_of(stored).filter(over("lease_expires_at", now, timedelta(hours=1))).delete()
    found["databases"] += 1


def _delete_old_events(stored: CompactionRunQuerySet, now: datetime) -> int:
    days = site_setting("EVENTS_KEPT_DAYS")
    if days is None:
        return 0
    events = CompactionEvent.objects.in_database_of(stored)
    old = events.filter(created_at__lt=now - timedelta(days=days))
    oldest = old.order_by("created_at").values("pk")[:_MOST_EVENTS]
    return events.filter(pk__in=oldest).delete()[0]


def _waiting_runs(stored: CompactionRunQuerySet) -> Iterator[CompactionRun]:
    """Runs that no worker will take without the sweep, the oldest first.

    In batches that are read whole: where tasks are eager, an enqueued run is carried out here and now and closes the
    connection, which would close an open cursor too.
    """
    found = stored.left_behind(now_of(stored)).order_by("pk")
    last = 0
    while batch := list(found.filter(pk__gt=last)[:_SWEEP_BATCH]):
        yield from batch
        last = batch[-1].pk


def databases() -> list[str]:
    """Those that runs are written to: a replica, which a router may let migrate too, is not."""
    found = []
    for alias in django_settings.DATABASES:
        run = CompactionRun()
        run._state.db = alias
        if router.allow_migrate_model(alias, CompactionRun) and database_of(run) == alias:
            found.append(alias)
    return found
