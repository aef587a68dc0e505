"""Making one summary: claim, plan again, ask the summarizer with nothing held, commit what is still true.

``compact_chat_history`` is the orchestration; ``acompact_chat_history`` the same with the model awaited. The
steps around the model's call are short, and the last is one durable transaction that repeats every condition
under the session's lock: whatever happened meanwhile (a deletion, another summary, a stolen claim) leaves
nothing half-written.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction
from django.utils import timezone

from compaction_app import branches, runs
from compaction_app.allowances import Allowances
from compaction_app.conf import Settings, settings_from_snapshot
from compaction_app.exceptions import (
    CompactionFailed,
    DurableTransactionRequired,
    MessageNotFound,
    SummarizerError,
)
from compaction_app.ladder import Surroundings
from compaction_app.managers import counter, lock_session
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.opening import Request, open_locked
from compaction_app.planning import plan_compaction
from compaction_app.prompts import build_request, count_summary, refuse_draft
from compaction_app.summarizer_limits import SummarizerLimit, redactor_of
from compaction_app.summarizers import arun_summarizer, lease_seconds, make_summarizer, run_summarizer
from compaction_app.tokens import Count
from compaction_app.values import (
    Branch,
    Budget,
    CompactionPlan,
    ErrorCode,
    EventKind,
    Kind,
    Role,
    RunStatus,
    Skip,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
    Trigger,
)

logger = logging.getLogger("compaction_app.compaction")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and the generation that goes on from it, to be enqueued by the caller."""

    run: CompactionRun
    follow_up: CompactionRun | None = None


@dataclass(kw_only=True)
class _Work:
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
    events: list[tuple[EventKind, dict[str, Any]]] = field(default_factory=list)

    def accept(self, draft: SummaryDraft) -> ErrorCode | None:
        return refuse_draft(
            draft,
            target_tokens=self.request.target_tokens,
            replaced_tokens=self.plan.replaced_tokens,
            count=self.count,
            min_chars=self.settings.min_summary_chars,
            min_saving_ratio=self.settings.min_saving_ratio,
            nonce=self.request.nonce,
        )

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        # Kept until the connection is back: nothing is held while the model is called.
        self.events.append((kind, payload))


def require_no_transaction(using: str) -> None:
    """Claims and commits are durable, and no transaction may wait for a model (rule 8)."""
    if connections[using].in_atomic_block:
        raise DurableTransactionRequired(
            "This calls a model and must not run inside transaction.atomic(). With ATOMIC_REQUESTS, decorate the "
            "view with transaction.non_atomic_requests, or use request_compaction, which works in the background."
        )


def give_back_connection(using: str) -> None:
    """Close this thread's connection (a pool takes it back): none is held while a model is called."""
    if not connections[using].in_atomic_block:
        connections[using].close()


def compact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """Carry out one run; None where another worker has it. Raises nothing for what a run can record."""
    require_no_transaction(using)
    work = _prepare(run_id, using)
    if not isinstance(work, _Work):
        return work
    try:
        draft = run_summarizer(work.summarizer, work.request, work.accept, work.on_event)
    except SummarizerError as error:
        return _failed(work, error, using)
    return _settle(work, draft, using)


async def acompact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """The same, with the model awaited; each database step is whole in one ``sync_to_async``."""
    await sync_to_async(require_no_transaction)(using)
    work = await sync_to_async(_prepare)(run_id, using)
    if not isinstance(work, _Work):
        return work
    try:
        draft = await arun_summarizer(work.summarizer, work.request, work.accept, work.on_event)
    except SummarizerError as error:
        return await sync_to_async(partial(_failed, work, error, using))()
    return await sync_to_async(_settle)(work, draft, using)


def next_now(outcome: Outcome | None) -> CompactionRun | None:
    """What whoever waits carries out next: the following generation, or the run again after an erasure."""
    if outcome is None:
        return None
    again = outcome.run.status == RunStatus.READY and outcome.run.next_attempt_at is None
    return outcome.follow_up or (outcome.run if again else None)


def raise_for(outcome: Outcome | None) -> CompactionRun:
    """What a person who waits is told: the run, or :class:`CompactionFailed`."""
    if outcome is None:
        raise CompactionFailed("Another worker took this run; look at its status.", error_code="claimed")
    run = outcome.run
    if run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED):
        return run
    raise CompactionFailed(
        f"The summary could not be made ({run.error_code or run.status}); nothing was changed.",
        error_code=run.error_code,
        error_detail=run.error_detail,
        run_id=run.pk,
    )


# -- before the call ------------------------------------------------------------------------------------


def _prepare(run_id: int, using: str) -> _Work | Outcome | None:
    known = CompactionRun.objects.using(using).select_related("session").filter(pk=run_id).first()
    if known is None:
        logger.info("skip run=%s reason=gone", run_id)
        return None
    settings = settings_from_snapshot(known.settings)
    run = runs.claim(run_id, using, lease_seconds(settings, known.session.model))
    if run is None:
        return None
    try:
        work = _load(run, settings, using)
    except DatabaseError:
        raise
    except Exception as error:
        # Code of the host's (a redactor, a token counter, a summarizer's constructor): the run says so, or its
        # branch would be blocked until the lease ends, again and again. The text may quote the conversation.
        logger.exception("error run=%s while its request was prepared", run.pk)
        runs.fail(run, ErrorCode.PROVIDER_ERROR, f"{type(error).__name__} while the request was prepared")
        return _outcome(run, using)
    if isinstance(work, _Work):
        _note_start(work, using)
        give_back_connection(using)
        return work
    runs.skip(run, work)
    return _outcome(run, using)


def _load(run: CompactionRun, settings: Settings, using: str) -> _Work | SkipReason:
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
    budget, count = Budget(**run.budget), counter()
    branch = replace(branch, seen_by_base=branches.seen_by(branch.base, run.tip_id, branch.tip_depth, using))
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
    return _Work(
        run=run,
        settings=settings,
        budget=budget,
        branch=branch,
        plan=plan,
        request=_request(run, settings, plan, limits),
        summarizer=summarizer,
        limits=limits,
        count=count,
    )


def _request(run: CompactionRun, settings: Settings, plan: CompactionPlan, limits: dict[int, int]) -> SummaryRequest:
    return build_request(
        covered=plan.covered,
        lookahead=plan.lookahead,
        pinned=plan.pinned,
        base_text=plan.base.content if plan.base else "",
        target_tokens=plan.target_tokens,
        previous_tokens=plan.base.tokens if plan.base else 0,
        max_output_tokens=settings.summarizer_max_output_tokens,
        instructions=run.instructions,
        policy_line=run.policy_line,
        nonce=run.nonce,
        reasoning=settings.reasoning,
        summary_prompt=settings.summary_prompt,
        limits=limits,
        redact=redactor_of(settings),
    )


def _limit(run: CompactionRun, settings: Settings, summarizer: Any, count: Count) -> SummarizerLimit | None:
    max_tokens = getattr(summarizer, "max_input_tokens", None)
    if max_tokens is None:
        return None
    return SummarizerLimit(max_tokens, run, settings, count)


def _note_start(work: _Work, using: str) -> None:
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
    logger.info(
        "start run=%s session=%s messages=%s tokens=%s target=%s",
        run.pk,
        run.session_id,
        len(work.plan.covered),
        work.plan.replaced_tokens,
        work.plan.target_tokens,
    )


# -- after the call -------------------------------------------------------------------------------------


def _failed(work: _Work, error: SummarizerError, using: str) -> Outcome:
    """Record why no draft was accepted; a passing trouble in the background is tried again later."""
    run = work.run
    try:
        with transaction.atomic(using=using):
            # Under the lock, so that nothing that the events point at goes before they are written.
            lock_session(run.session_id, using)
            if _is_still_due(run, using):
                _record_failure(work, error, using)
    except MessageNotFound:
        logger.info("skip run=%s reason=session_gone", run.pk)
    return _outcome(run, using)


def _record_failure(work: _Work, error: SummarizerError, using: str) -> None:
    run = work.run
    run.error_code, run.error_detail = str(error.error_code), str(error)[:2000]
    if _erased_since_read(run, using):
        # It may quote what has been erased meanwhile.
        run.error_detail = ""
    _write_events(work, using)
    waits = run.trigger == Trigger.THRESHOLD
    if error.transient and waits and run.attempts < runs.MAX_ATTEMPTS:
        delay = runs.backoff_seconds(run.attempts, error.retry_after, random.random())
        runs.release(run, delay_seconds=delay)
        logger.warning("retry run=%s code=%s in=%.1fs", run.pk, run.error_code, delay)
    else:
        if run.error_code == ErrorCode.NO_PROGRESS:
            runs.record(run.session_id, EventKind.NO_PROGRESS, using=using, run=run, message_id=run.tip_id)
        runs.fail(run, run.error_code, run.error_detail)


def _settle(work: _Work, draft: SummaryDraft, using: str) -> Outcome:
    """Commit the draft if all it stands on still holds: one short durable transaction."""
    refused = work.accept(draft)
    if refused:
        error = SummarizerError(f"The draft was refused: {refused}.", error_code=refused, model=draft.model)
        return _failed(work, error, using)
    follow_up = None
    try:
        with transaction.atomic(using=using, durable=True):
            lock_session(work.run.session_id, using)
            if _may_commit(work, using):
                _commit(work, draft, using)
                follow_up = _follow_up(work, using)
    except MessageNotFound:
        logger.info("skip run=%s reason=session_gone", work.run.pk)
    return _outcome(work.run, using, follow_up)


def _is_still_due(run: CompactionRun, using: str) -> bool:
    """Whether this worker still holds the run and its branch still stands; settles the run if it does not."""
    if not runs.holding(run).exists():
        logger.info("skip run=%s reason=claim_lost", run.pk)
        return False
    if not ChatMessage.objects.using(using).filter(pk=run.tip_id).exists():
        runs.skip(run, SkipReason.BRANCH_GONE)
        return False
    return True


def _erased_since_read(run: CompactionRun, using: str) -> bool:
    session = ChatSession.objects.using(using).only("erasures").get(pk=run.session_id)
    return bool(session.erasures != run.erasures_seen)


def _may_commit(work: _Work, using: str) -> bool:
    """Whether the run is still due and the branch is as it was read; settles the run if not."""
    run = work.run
    if not _is_still_due(run, using) or run.tip_id is None:
        return False
    newest = branches.history_at(run.tip_id, using).summary_id
    if newest != (work.plan.base.id if work.plan.base else None):
        runs.skip(run, SkipReason.BASE_CHANGED)
        return False
    if _erased_since_read(run, using):
        # What the model read may hold erased text: read again, ask again.
        runs.release(run)
        logger.info("retry run=%s reason=erasure", run.pk)
        return False
    return True


def _commit(work: _Work, draft: SummaryDraft, using: str) -> None:
    run, plan = work.run, work.plan
    text = draft.text.strip()
    anchor = ChatMessage(id=plan.anchor_id, session_id=run.session_id)
    summary = ChatMessage(
        session_id=run.session_id,
        kind=Kind.SUMMARY,
        role=Role.USER,
        content=text,
        last_summarized_message_id=plan.cutoff.id,
        pinned_message_id=plan.pinned.id if plan.pinned else None,
        token_count=count_summary(text, work.count),
        model=draft.model[:255],
    )
    ChatMessage.objects.db_manager(using).add_child(anchor, instance=summary)
    run.summary, run.generation = summary, runs.next_generation(run.session, using)
    run.status, run.finished_at = RunStatus.SUCCEEDED, timezone.now()
    run.anchor_id, run.cutoff_id = plan.anchor_id, plan.cutoff.id
    run.tokens_before = work.branch.history_tokens
    run.tokens_after = summary.token_count + sum(m.tokens for m in plan.kept)
    run.tokens_after += plan.pinned.tokens if plan.pinned else 0
    run.messages_compacted = len(plan.covered)
    run.summarizer_model = draft.model[:255]
    run.input_tokens, run.output_tokens = draft.input_tokens, draft.output_tokens
    run.cached_tokens = draft.cached_tokens
    run.claim_token = run.lease_expires_at = None
    run.error_code = run.error_detail = ""
    run.save(using=using)
    _write_events(work, using)
    _note_done(run, using)


def _note_done(run: CompactionRun, using: str) -> None:
    numbers = {
        "generation": run.generation,
        "messages": run.messages_compacted,
        "tokens_before": run.tokens_before,
        "tokens_after": run.tokens_after,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
    }
    runs.record(run.session_id, EventKind.COMPLETED, using=using, run=run, message_id=run.tip_id, payload=numbers)
    logger.info(
        "done run=%s session=%s summary=%s generation=%s messages=%s before=%s after=%s",
        run.pk,
        run.session_id,
        run.summary_id,
        run.generation,
        run.messages_compacted,
        run.tokens_before,
        run.tokens_after,
    )


def _follow_up(work: _Work, using: str) -> CompactionRun | None:
    """The next generation, opened in the commit of this one, where the summarizer could not take it all."""
    run = work.run
    if not work.plan.partial or (run.tokens_after or 0) <= work.budget.target:
        return None
    tip = ChatMessage.objects.using(using).get(pk=run.tip_id)
    allowances = Allowances(
        session=run.session,
        settings=work.settings,
        model=run.session.model,
        surroundings=Surroundings(tokens=run.reserved_tokens),
        budget=work.budget,
        count=work.count,
    )
    request = Request(
        tip=tip,
        trigger=Trigger(run.trigger),
        allowances=allowances,
        instructions=run.instructions,
        policy_line=run.policy_line,
        previous=run,
    )
    opened = open_locked(request).run
    return opened if opened and opened.is_open else None


def _write_events(work: _Work, using: str) -> None:
    for kind, payload in work.events:
        runs.record(work.run.session_id, kind, using=using, run=work.run, message_id=work.run.tip_id, payload=payload)
    work.events.clear()


def _outcome(run: CompactionRun, using: str, follow_up: CompactionRun | None = None) -> Outcome:
    fresh = CompactionRun.objects.using(using).select_related("session", "summary").filter(pk=run.pk).first()
    return Outcome(fresh or run, follow_up)
