"""Before the model's call: read the run's branch, plan again, build the request, give back the connection."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import DatabaseError

from compaction_app import signals
from compaction_app.compaction import runs
from compaction_app.compaction.planning import plan_compaction
from compaction_app.conf import Settings, get_token_counter, settings_from_snapshot
from compaction_app.exceptions import MessageNotFound, RedactionFailed
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.redaction import redactor_of
from compaction_app.retention import ledger
from compaction_app.summarizers.cascade import make_summarizer
from compaction_app.summarizers.prompts import SummarizerLimit, refuse_draft, request_for
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.tree.branches import database_of
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
    #: The database of the run.
    using: str
    settings: Settings
    budget: Budget
    branch: Branch
    plan: CompactionPlan
    request: SummaryRequest
    summarizer: Any
    #: Bytes that covered messages are shortened to, by id.
    limits: dict[int, int]
    count: Count
    #: What happened during the model's call, written once the connection is back.
    events: list[Event] = field(default_factory=list)

    def refusal(self, draft: SummaryDraft) -> ErrorCode | None:
        """Why the draft cannot become the summary; None if it can."""
        return refuse_draft(
            ledger.prose_draft(draft),
            target_tokens=self.request.target_tokens,
            replaced_tokens=self.plan.replaced_tokens,
            count=self.count,
            min_chars=self.settings.min_summary_chars,
            min_saving_ratio=self.settings.min_saving_ratio,
            nonce=self.request.nonce,
        )

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        self.events.append((kind, payload))


def prepare(run: CompactionRun) -> Work | None:
    """What the model's call needs, with the connection given back; None where the run ended without a call."""
    settings = settings_from_snapshot(run.settings)
    try:
        work = _load(run, settings)
    except DatabaseError:
        raise
    except RedactionFailed as error:
        # Its text is this app's own and quotes nothing; what the redactor raised is the cause.
        log_error(logger, error.__cause__ or error, run=run.pk, session=run.session_id, step="redact")
        runs.fail(run, ErrorCode.PROVIDER_ERROR, str(error))
        return None
    except Exception as error:
        # The host's code (a token counter, a summarizer's constructor) raised. The run must fail, or its branch
        # would be blocked until the lease ends, again and again. The text may quote the conversation.
        log_error(logger, error, run=run.pk, session=run.session_id, step="prepare")
        runs.fail(run, ErrorCode.PROVIDER_ERROR, f"{type(error).__name__} while the request was prepared")
        return None
    if isinstance(work, SkipReason):
        runs.skip(run, work)
        return None
    _record_start(work)
    runs.give_back_connection(work.using)
    return work


def _load(run: CompactionRun, settings: Settings) -> Work | SkipReason:
    """Read the branch and plan again for the run's own tip and settings."""
    if run.tip_id is None:
        return SkipReason.BRANCH_GONE
    using = database_of(run)
    # The counter before the content: an erasure in between makes the commit refuse, never the other way round.
    run.erasures_seen = ChatSession.objects.using(using).values_list("erasures", flat=True).get(pk=run.session_id)
    try:
        branch = branches.load_whole_tail(run.tip_id, using)
    except MessageNotFound:
        return SkipReason.BRANCH_GONE
    if (branch.base.id if branch.base else None) != run.base_id:
        return SkipReason.BASE_CHANGED
    budget, count = Budget(**run.budget), get_token_counter()
    already_compacted = branches.is_already_compacted(branch.base, run.tip_id, branch.tip_depth, using)
    branch = replace(branch, already_compacted=already_compacted)
    summarizer = make_summarizer(settings, run.session.model)
    limit = _input_limit(run, settings, summarizer, count)
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
        using=using,
        settings=settings,
        budget=budget,
        branch=branch,
        plan=plan,
        request=request_of(run, settings, plan, limits),
        summarizer=summarizer,
        limits=limits,
        count=count,
    )


def _input_limit(run: CompactionRun, settings: Settings, summarizer: Any, count: Count) -> SummarizerLimit | None:
    max_tokens = getattr(summarizer, "max_input_tokens", None)
    if max_tokens is None:
        return None
    return SummarizerLimit(
        max_tokens,
        settings,
        count,
        instructions=run.instructions,
        policy_line=run.policy_line,
        redact=redactor_of(settings),
    )


def request_of(run: CompactionRun, settings: Settings, plan: CompactionPlan, limits: dict[int, int]) -> SummaryRequest:
    """What a plan asks the summarizer for.

    :mod:`transfer.rebuild` builds it again from stored rows, so it depends on nothing else.
    """
    return request_for(
        plan,
        settings,
        nonce=run.nonce,
        instructions=run.instructions,
        policy_line=run.policy_line,
        limits=limits,
        redact=redactor_of(settings),
    )


def _record_start(work: Work) -> None:
    run = work.run
    run.shortened_inputs = sorted(work.limits)
    runs.still_claimed(run).update(shortened_inputs=run.shortened_inputs, erasures_seen=run.erasures_seen)
    numbers = {
        "trigger": run.trigger,
        "attempt": run.attempts,
        "messages": len(work.plan.covered),
        "tokens": work.plan.replaced_tokens,
        "target_tokens": work.plan.target_tokens,
    }
    runs.record_run_event(run, EventKind.STARTED, numbers)
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
    signals.send_after_commit(signals.compaction_started, CompactionRun, using=work.using, run=run)
