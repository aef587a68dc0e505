"""Runs and events, and the life of a run: ready, claimed, finished.

Every transition is a conditional UPDATE, so of two workers with the same run exactly one gets it, and only the one
whose claim is still valid can finish it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from compaction_app import signals, telemetry
from compaction_app.conf import Settings, settings_from_snapshot
from compaction_app.exceptions import ConfigurationError
from compaction_app.models import sql
from compaction_app.models.columns import NOTED, OURS, SHOWN, Column, nothing
from compaction_app.models.database import RowQuerySet, after_commit, atomic, now_of, send_after_commit
from compaction_app.models.fields import display_words, json_field, of_session, text_field, to_message
from compaction_app.models.words import words
from compaction_app.telemetry import log
from compaction_app.values import OPEN_RUN_STATUSES, EventKind, RunStatus, SkipReason, Strategy, Trigger

logger = logging.getLogger("compaction_app.runs")

#: After this many claims a run that still fails for transient reasons is abandoned.
MAX_ATTEMPTS = 8
#: After this many claims a run whose worker was lost is abandoned: what killed or stopped these workers would the next.
MAX_LOST = 3
#: A worker that lives renews its lease (see :mod:`compaction.leases`); one that was killed is replaced after this.
LEASE_SECONDS = 60.0
#: A run that is still ready this long after it was enqueued was lost by its broker, or waits behind others.
LOST_AFTER_SECONDS = 60
#: A run that is due for so long is late, however slow its queue is; and of how many runs is seen how slow it is.
MOST_LATE_SECONDS, _NEWEST = 240.0, 100
#: No lease and no delay is longer.
FARTHEST = timedelta(hours=2)


def over(name: str, now: Any, since: timedelta = timedelta()) -> Q:
    """Whether a time is over, ``since`` so long; or further off than this app sets any: its clock was wrong once."""
    return Q(**{f"{name}__lt": now - since}) | Q(**{f"{name}__gt": now + FARTHEST})


class IsOpen(models.Lookup):
    """Whether a run is ready or running, in the words of the partial index: ``IsOpen(F("status"), True)``.

    With parameters instead of literals SQLite does not use the partial index, and reads the whole table.
    """

    lookup_name = "is_open"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        status, parameters = self.process_lhs(compiler, connection)
        return f"{status} IN ('ready', 'running')", parameters


class CompactionRunQuerySet(RowQuerySet["CompactionRun"]):
    def open(self) -> CompactionRunQuerySet:
        return self.filter(IsOpen(models.F("status"), True))

    def finished(self) -> CompactionRunQuerySet:
        return self.exclude(IsOpen(models.F("status"), True))

    def claimable(self, now: Any) -> CompactionRunQuerySet:
        """Ready and due, or stalled: claimed, and the lease ran out."""
        due = Q(next_attempt_at__isnull=True) | over("next_attempt_at", now)
        stalled = Q(status=RunStatus.RUNNING) & over("lease_expires_at", now)
        return self.open().filter((Q(status=RunStatus.READY) & due) | stalled)

    def waiting(self) -> CompactionRunQuerySet:
        """Those without a worker, with when they were ``due``."""
        due = Coalesce("next_attempt_at", "started_at", "created_at")
        return self.open().filter(status=RunStatus.READY).annotate(due=due)

    def late_after(self) -> timedelta:
        """How long one may be due before it is late: thrice as long as half of the newest waited at most."""
        newest = self.order_by("-id").values_list("created_at", "started_at", "attempts")[:_NEWEST]
        waits = sorted(started - created for created, started, tried in newest if started and tried == 1)
        usual = waits[len(waits) // 2] if waits else timedelta()
        return min(max(3 * usual, timedelta(seconds=LOST_AFTER_SECONDS)), timedelta(seconds=MOST_LATE_SECONDS))

    def next_generation(self, session_id: Any) -> int:
        """Of a session whose lock the caller holds."""
        newest = self.filter(session=session_id).aggregate(models.Max("generation"))
        return (newest["generation__max"] or 0) + 1

    def left_behind(self, now: Any) -> CompactionRunQuerySet:
        """Claimable, and in no broker's queue: never enqueued, enqueued long ago, or stalled."""
        lost = Q(enqueued_at__isnull=True) | over("enqueued_at", now, timedelta(seconds=LOST_AFTER_SECONDS))
        return self.claimable(now).filter(Q(status=RunStatus.RUNNING) | lost)

    def claim(self, run_id: int, lease: float | None = None) -> CompactionRun | None:
        """Take ownership of a run for ``lease`` seconds; None where another worker has it, or it is over or deleted."""
        now, rows = now_of(self), self.filter(pk=run_id)
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


class CompactionRun(models.Model):
    """One compaction of a branch, and its record.

    ``status`` is :class:`RunStatus`; ``skip_reason`` is :class:`SkipReason`, ``error_code`` is :class:`ErrorCode`, each
    empty where it does not apply. ``tip`` is where it was requested, ``summary`` what it made, ``base`` what it started
    from. ``written`` is a summary that its ``author`` wrote, until it is stored. ``cost`` is in the currency of
    ``MODELS``, None where a price is unknown; ``retention_before`` and ``retention_after`` are shares from 0 to 1; the
    other figures are tokens and messages. Anything it refers to may be None: the message was deleted.
    """

    session = of_session(SHOWN, "runs", verbose_name=_("session"))
    tip = to_message(SHOWN, _("tip"), "runs_at_tip")
    anchor = to_message(SHOWN, _("anchor"), "runs_at_anchor")
    cutoff = to_message(SHOWN, _("cutoff"), "runs_at_cutoff")
    base = to_message(SHOWN, _("base"), "runs_built_on")
    summary = to_message(SHOWN, _("summary"), "made_by")
    previous_run = OURS(
        models.ForeignKey(
            "self",
            on_delete=models.SET_NULL,
            null=True,
            blank=True,
            related_name="follow_ups",
            verbose_name=_("continues"),
        )
    )
    generation = SHOWN(models.PositiveIntegerField(_("compaction"), null=True, blank=True))
    trigger = SHOWN(models.CharField(_("trigger"), choices=display_words(Trigger), max_length=10))
    status = SHOWN(
        models.CharField(_("status"), choices=display_words(RunStatus), max_length=10, default=RunStatus.READY)
    )
    strategy = OURS(
        models.CharField(
            _("strategy"), choices=display_words(Strategy), max_length=20, default=Strategy.AUTO_COMPACT, blank=True
        )
    )
    skip_reason = SHOWN(models.CharField(_("skip reason"), max_length=30, blank=True, default=""))
    error_code = SHOWN(models.CharField(_("error code"), max_length=30, blank=True, default=""))
    error_detail = text_field(NOTED, _("error details"))
    instructions = text_field(replace(NOTED, client=True), _("instructions"))
    policy_line = text_field(NOTED, _("line of the policy"))
    written = text_field(NOTED, _("text of a person"), _("Until it is the summary."))
    author = OURS(
        models.ForeignKey(
            django_settings.AUTH_USER_MODEL,
            on_delete=models.SET_NULL,
            null=True,
            blank=True,
            related_name="+",
            verbose_name=_("author"),
        )
    )
    is_cut_given = OURS(models.BooleanField(_("cut by a person"), default=False))
    summarizer_model = SHOWN(models.CharField(_("model"), max_length=255, blank=True, default=""))
    prompt_version = SHOWN(models.CharField(_("prompt version"), max_length=50, blank=True, default=""))
    nonce = OURS(models.CharField(_("mark of the prompt"), max_length=40, blank=True, default=""))
    settings = json_field(OURS, _("settings"), _("Resolved when the run was opened."))
    budget = json_field(OURS, _("budget"), _("Window, reserve and allowances then, tokens."))
    shortened_inputs = json_field(
        OURS, _("shortened inputs"), _("Messages that the summarizer was shown head-and-tail."), list
    )
    request = json_field(Column(leaves=nothing), _("request"), _("What its prompt was made of beside the messages."))
    reserved_tokens = OURS(models.PositiveIntegerField(_("reserved tokens"), default=0))
    input_tokens = SHOWN(models.PositiveIntegerField(_("input tokens"), null=True, blank=True))
    output_tokens = SHOWN(models.PositiveIntegerField(_("output tokens"), null=True, blank=True))
    cached_tokens = SHOWN(models.PositiveIntegerField(_("cached tokens"), null=True, blank=True))
    cost = SHOWN(models.DecimalField(_("cost"), max_digits=14, decimal_places=8, null=True, blank=True))
    tokens_before = SHOWN(models.PositiveIntegerField(_("tokens before"), null=True, blank=True))
    tokens_after = SHOWN(models.PositiveIntegerField(_("tokens after"), null=True, blank=True))
    messages_compacted = SHOWN(models.PositiveIntegerField(_("messages compacted"), null=True, blank=True))
    retention_before = SHOWN(models.FloatField(_("found again in the text"), null=True, blank=True))
    retention_after = SHOWN(models.FloatField(_("found again with the ledger"), null=True, blank=True))
    attempts = SHOWN(models.PositiveIntegerField(_("attempts"), default=0))
    next_attempt_at = SHOWN(models.DateTimeField(_("next attempt at"), null=True, blank=True))
    claim_token = OURS(models.UUIDField(_("claim token"), null=True, blank=True))
    lease_expires_at = OURS(models.DateTimeField(_("lease"), null=True, blank=True))
    erasures_seen = OURS(models.PositiveIntegerField(_("erasures before"), default=0))
    task_id = OURS(models.CharField(_("task id"), max_length=255, blank=True, default=""))
    enqueued_at = SHOWN(models.DateTimeField(_("enqueued at"), null=True, blank=True))
    started_at = SHOWN(models.DateTimeField(_("started at"), null=True, blank=True))
    finished_at = SHOWN(models.DateTimeField(_("finished at"), null=True, blank=True))
    created_at = SHOWN(models.DateTimeField(_("created at"), default=timezone.now))

    objects = CompactionRunQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("compaction run"), _("compaction runs")
        db_table = sql.RUNS
        constraints = [
            # Even if the broker delivers a task twice: one open run per anchor. One per branch depends on it.
            models.UniqueConstraint(
                fields=["session", "anchor"],
                condition=Q(status__in=[str(RunStatus.READY), str(RunStatus.RUNNING)]),
                name="compaction_one_open_run",
            ),
            models.UniqueConstraint(fields=["session", "generation"], name="compaction_generation"),
            models.CheckConstraint(condition=Q(status__in=[str(s) for s in RunStatus]), name="compaction_known_status"),
            models.CheckConstraint(
                condition=~Q(status=RunStatus.SUCCEEDED) | Q(generation__isnull=False),
                name="compaction_success_has_generation",
            ),
        ]
        indexes = [
            models.Index(fields=["session", "-id"], name="compaction_session_runs"),
            models.Index(
                fields=["status", "next_attempt_at"],
                condition=Q(status__in=[str(RunStatus.READY), str(RunStatus.RUNNING)]),
                name="compaction_open_runs",
            ),
            # For support: the runs of a day.
            models.Index(fields=["created_at"], name="compaction_runs_by_time"),
        ]

    def __str__(self) -> str:
        return gettext("Run {id} ({status})").format(id=self.pk, status=words(self.status))

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_RUN_STATUSES

    @property
    def is_for_another_branch(self) -> bool:
        """Whether its summary is carried over: of the last ``messages_compacted`` messages at its tip alone."""
        return self.trigger == Trigger.CARRY_OVER

    @property
    def time_limit(self) -> float:
        """That of its settings; of the defaults where these cannot be read, which fails it once it is claimed."""
        try:
            return settings_from_snapshot(self.settings).time_limit
        except ConfigurationError:
            return Settings().time_limit

    def still_claimed(self) -> Any:
        """Its row, only while this worker's claim is valid."""
        return CompactionRun.objects.in_database_of(self).filter(
            pk=self.pk, status=RunStatus.RUNNING, claim_token=self.claim_token
        )

    def renew(self, lease: float, **only: Any) -> bool:
        """Keep it for ``lease`` seconds from now; False if the claim, or ``only`` of its row, is no longer true."""
        rows = self.still_claimed().filter(**only)
        return bool(rows.update(lease_expires_at=now_of(rows) + timedelta(seconds=lease)))

    def release(self, *, delay_seconds: float = 0.0, **noted: str) -> bool:
        """Back to ready, to be tried again after the delay. ``noted``: why; what was before may be erased now."""
        due = now_of(self) + timedelta(seconds=delay_seconds) if delay_seconds else None
        given_back = {"status": RunStatus.READY, "claim_token": None, "lease_expires_at": None}
        return bool(self.still_claimed().update(**given_back, next_attempt_at=due, enqueued_at=None, **noted))

    def skip(self, reason: SkipReason) -> bool:
        """Finish without a summary and without an error, and record an event ``suppressed``."""
        # In one transaction: the run cannot be deleted, with its session, before its event is written.
        with atomic(self):
            if not self.end(status=RunStatus.SKIPPED, skip_reason=reason):
                return False
            # Without a message: the branch may be deleted, and the run names the turn that it belonged to.
            record_event(self, EventKind.SUPPRESSED, run=self, payload={"reason": reason})
        log(logger, logging.INFO, "skip", run=self.pk, session=self.session_id, reason=reason, attempts=self.attempts)
        return True

    def fail(self, code: str, detail: str) -> bool:
        """Finish without a summary, permanently; ``detail`` is for operators."""
        # In one transaction, as in skip().
        with atomic(self, savepoint=False):
            if not self.end(status=RunStatus.FAILED, error_code=code, error_detail=detail[:2000]):
                return False
            spent = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
            self.record(EventKind.FAILED, {"code": code, "attempts": self.attempts, **spent})
        log(logger, logging.WARNING, "failed", run=self.pk, code=code, attempts=self.attempts, session=self.session_id)
        return True

    def end(self, **ended: Any) -> bool:
        """End it in its row and in this instance, if the claim is still valid, and announce it.

        No other column is written: a worker may be writing the task's id at this moment, and one that lost its claim
        what its calls cost.
        """
        ended = {"request": {}, **ended, "claim_token": None, "lease_expires_at": None, "finished_at": now_of(self)}
        if not self.still_claimed().update(**ended):
            return False
        for name, value in ended.items():
            setattr(self, name, value)
        self.announce_end()
        return True

    def announce_end(self) -> None:
        """Send the signal and metrics of its end after the commit. It must have the values of its row."""
        after_commit(self, telemetry.count_run, self)
        signal = signals.compaction_failed if self.status == RunStatus.FAILED else signals.compaction_finished
        send_after_commit(self, signal, CompactionRun, run=self)

    # Each could be called by a template.
    release.alters_data = end.alters_data = announce_end.alters_data = True  # type: ignore[attr-defined]

    def record(self, kind: EventKind, payload: Mapping[str, Any] | None = None) -> None:
        """Write an event of the run, at the turn that it belongs to."""
        record_event(self, kind, run=self, message_id=self.tip_id, payload=payload)


class CompactionEvent(models.Model):
    """Something that compaction did or noticed: numbers and codes, never text of a conversation.

    ``kind`` is :class:`EventKind`, ``payload`` depends on it.
    """

    session = of_session(OURS, "events", verbose_name=_("session"))
    run = OURS(
        models.ForeignKey(
            CompactionRun, on_delete=models.CASCADE, null=True, blank=True, related_name="events", verbose_name=_("run")
        )
    )
    message = to_message(OURS, _("message"), "compaction_events")
    kind = OURS(models.CharField(_("kind"), choices=display_words(EventKind), max_length=40))
    payload = json_field(Column(listed=True), _("payload"))
    created_at = OURS(models.DateTimeField(_("created at"), default=timezone.now))

    objects = RowQuerySet["CompactionEvent"].as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("compaction event"), _("compaction events")
        indexes = [
            models.Index(F("session"), F("id").desc(), name="compaction_session_events"),
            models.Index(fields=["created_at"], name="compaction_events_by_time"),
        ]

    def __str__(self) -> str:
        return gettext("Event {id} ({kind})").format(id=self.pk, kind=words(self.kind))


def record_event(
    row: Any,
    kind: EventKind,
    *,
    run: CompactionRun | None = None,
    message_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
) -> None:
    """Write an event of the row's session: numbers and codes only, never conversation text."""
    CompactionEvent.objects.in_database_of(row).create(
        session_id=row.session_id, run=run, message_id=message_id, kind=kind, payload=dict(payload or {})
    )
