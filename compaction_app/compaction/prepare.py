"""Before the model's call: claim a run, read its branch, plan again, build the request, give back the connection."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import DatabaseError

from compaction_app.compaction import notify, runs
from compaction_app.compaction.connections import give_back_connection
from compaction_app.compaction.planning import plan_compaction
from compaction_app.conf import Settings, get_token_counter, settings_from_snapshot
from compaction_app.exceptions import MessageNotFound, RedactionFailed
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.redaction import guarded_redactor_of
from compaction_app.retention import ledger
from compaction_app.summarizers.cascade import lease_seconds, make_summarizer
from compaction_app.summarizers.prompts import SummarizerLimit, refuse_draft, request_for
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.values import (
    Branch,
    Budget,
    CompactionPlan,
    ErrorCode,
    EventKind,
    Skip,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
)

logger = logging.getLogger("compaction_app.compaction")


#: A kind and its payload.
Event = tuple[EventKind, dict[str, Any]]


@dataclass(kw_only=True)
class Work:
    """Everything that the model's call needs, read before the connection was given back."""

    run: CompactionRun
    settings: Settings
    budget: Budget
    branch: Branch
    plan: CompactionPlan
    request: SummaryRequest
    summarizer: Any
    limits: dict[int, int]
    count: Count
    events: list[Event] = field(default_factory=list)

    def accept(self, draft: SummaryDraft) -> ErrorCode | None:
        return refuse_draft(
            ledger.prose_draft(draft),
            target_tokens=self.request.target_tokens,
            replaced_tokens=self.plan.replaced_tokens,
            count=self.count,
            min_chars=self.settings.min_summary_chars,
            min_saving_ratio=self.settings.min_saving_ratio,
            nonce=self.request.nonce,
        )

    def with_ledger(self, draft: SummaryDraft) -> SummaryDraft:
        """An accepted draft with what must survive and did not; the run is told how much did."""
        kept = ledger.complete(draft.text, self.request, self.plan, self.budget, self.settings, self.count)
        self.run.retention_before, self.run.retention_after = kept.before, kept.after
        return replace(draft, text=kept.text)

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        # Kept until the connection is back: nothing is held while the model is called.
        self.events.append((kind, payload))


def claim(run_id: int, using: str) -> CompactionRun | None:
    """The run, now this worker's for as long as its cascade can take; None where it is another's, over or gone."""
    known = CompactionRun.objects.using(using).select_related("session").filter(pk=run_id).first()
    if known is None:
        log(logger, logging.INFO, "skip", run=run_id, reason="gone")
        return None
    return runs.claim(run_id, using, lease_seconds(settings_from_snapshot(known.settings), known.session.model))


def prepare(run: CompactionRun, using: str) -> Work | CompactionRun:
    """What the model's call needs, with the connection given back; the run itself where it ended without a call."""
    settings = settings_from_snapshot(run.settings)
    try:
        work = _load(run, settings, using)
    except DatabaseError:
        raise
    except RedactionFailed as error:
        # Its words are this app's own and quote nothing; what the redactor raised is the cause.
        log_error(logger, error.__cause__ or error, run=run.pk, session=run.session_id, step="redact")
        runs.fail(run, ErrorCode.PROVIDER_ERROR, str(error))
        return run
    except Exception as error:
        # Code of the host's (a token counter, a summarizer's constructor): the run says so, or its
        # branch would be blocked until the lease ends, again and again. The text may quote the conversation.
        log_error(logger, error, run=run.pk, session=run.session_id, step="prepare")
        runs.fail(run, ErrorCode.PROVIDER_ERROR, f"{type(error).__name__} while the request was prepared")
        return run
    if isinstance(work, Work):
        _note_start(work, using)
        give_back_connection(using)
        return work
    runs.skip(run, work)
    return run


def _load(run: CompactionRun, settings: Settings, using: str) -> Work | SkipReason:
    """Read the branch and plan again for the run's own tip and settings."""
    if run.tip_id is None:
        return SkipReason.BRANCH_GONE
    # The counter before the content: an erasure in between makes the commit refuse, never the other way round.
    run.erasures_seen = ChatSession.objects.using(using).values_list("erasures", flat=True).get(pk=run.session_id)
    try:
        branch = branches.load_whole_tail(run.tip_id, using)
    except MessageNotFound:
        return SkipReason.BRANCH_GONE
    if (branch.base.id if branch.base else None) != run.base_id:
        return SkipReason.BASE_CHANGED
    budget, count = Budget(**run.budget), get_token_counter()
    branch = replace(
        branch, already_compacted=branches.is_already_compacted(branch.base, run.tip_id, branch.tip_depth, using)
    )
    summarizer = make_summarizer(settings, run.session.model)
    limit = _limit(run, settings, summarizer, count)
    plan = plan_compaction(
        branch,
        branch.base,
        budget,
        settings,
        focused=bool(run.instructions or run.policy_line),
        follow_up=run.previous_run_id is not None,
        limit=limit,
    )
    if isinstance(plan, Skip):
        return SkipReason(plan.reason)
    limits = limit.byte_limits(plan) if limit and plan.shorten else {}
    return Work(
        run=run,
        settings=settings,
        budget=budget,
        branch=branch,
        plan=plan,
        request=request_of(run, settings, plan, limits),
        summarizer=summarizer,
        limits=limits,
        count=count,
    )


def request_of(run: CompactionRun, settings: Settings, plan: CompactionPlan, limits: dict[int, int]) -> SummaryRequest:
    """What a plan asks for. ``rebuilding`` makes it again from stored rows, so it depends on nothing else."""
    return request_for(
        plan,
        settings,
        nonce=run.nonce,
        instructions=run.instructions,
        policy_line=run.policy_line,
        limits=limits,
        redact=guarded_redactor_of(settings),
    )


def _limit(run: CompactionRun, settings: Settings, summarizer: Any, count: Count) -> SummarizerLimit | None:
    max_tokens = getattr(summarizer, "max_input_tokens", None)
    if max_tokens is None:
        return None
    return SummarizerLimit(
        max_tokens,
        settings,
        count,
        instructions=run.instructions,
        policy_line=run.policy_line,
        redact=guarded_redactor_of(settings),
    )


def _note_start(work: Work, using: str) -> None:
    run = work.run
    run.shortened_inputs = sorted(work.limits)
    runs.holding(run).update(shortened_inputs=run.shortened_inputs, erasures_seen=run.erasures_seen)
    runs.record(
        run.session_id,
        EventKind.STARTED,
        using=using,
        run=run,
        message_id=run.tip_id,
        payload={
            "trigger": run.trigger,
            "attempt": run.attempts,
            "messages": len(work.plan.covered),
            "tokens": work.plan.replaced_tokens,
            "target_tokens": work.plan.target_tokens,
        },
    )
    log(
        logger,
        logging.INFO,
        "start",
        run=run.pk,
        session=run.session_id,
        trigger=run.trigger,
        attempt=run.attempts,
        messages=len(work.plan.covered),
        tokens=work.plan.replaced_tokens,
        target=work.plan.target_tokens,
    )
    notify.run_started(run, using)
