"""After the model's call: commit the draft if all it stands on still holds, or record why there is none."""

from __future__ import annotations

import logging
import random

from django.db import transaction
from django.utils import timezone

from compaction_app import branches, runs
from compaction_app.allowances import Allowances
from compaction_app.exceptions import MessageNotFound, SummarizerError
from compaction_app.ladder import Surroundings
from compaction_app.managers import lock_session
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.opening import Request, open_locked
from compaction_app.preparing import Work
from compaction_app.prompts import count_summary
from compaction_app.values import (
    ErrorCode,
    EventKind,
    Kind,
    Role,
    RunStatus,
    SkipReason,
    SummaryDraft,
    Trigger,
)

logger = logging.getLogger("compaction_app.compaction")


def fail_work(work: Work, error: SummarizerError, using: str) -> None:
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


def _record_failure(work: Work, error: SummarizerError, using: str) -> None:
    run = work.run
    run.error_code, run.error_detail = str(error.error_code), str(error)[:2000]
    if _erased_since_read(run, using):
        # It may quote what has been erased meanwhile.
        run.error_detail = ""
    write_events(work, using)
    waits = run.trigger == Trigger.THRESHOLD
    if error.transient and waits and run.attempts < runs.MAX_ATTEMPTS:
        delay = runs.backoff_seconds(run.attempts, error.retry_after, random.random())
        runs.release(run, delay_seconds=delay)
        logger.warning("retry run=%s code=%s in=%.1fs", run.pk, run.error_code, delay)
    else:
        if run.error_code == ErrorCode.NO_PROGRESS:
            runs.record(run.session_id, EventKind.NO_PROGRESS, using=using, run=run, message_id=run.tip_id)
        runs.fail(run, run.error_code, run.error_detail)


def settle(work: Work, draft: SummaryDraft, using: str) -> CompactionRun | None:
    """Commit the draft if all it stands on still holds: one short durable transaction.

    Returns the run of the next generation, where the summarizer could not take all of it in one request.
    """
    refused = work.accept(draft)
    if refused:
        error = SummarizerError(f"The draft was refused: {refused}.", error_code=refused, model=draft.model)
        fail_work(work, error, using)
        return None
    follow_up = None
    try:
        with transaction.atomic(using=using, durable=True):
            lock_session(work.run.session_id, using)
            if _may_commit(work, using):
                _commit(work, draft, using)
                follow_up = _follow_up(work, using)
    except MessageNotFound:
        logger.info("skip run=%s reason=session_gone", work.run.pk)
    return follow_up


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


def _may_commit(work: Work, using: str) -> bool:
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


def _commit(work: Work, draft: SummaryDraft, using: str) -> None:
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
    write_events(work, using)
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


def _follow_up(work: Work, using: str) -> CompactionRun | None:
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


def write_events(work: Work, using: str) -> None:
    for kind, payload in work.events:
        runs.record(work.run.session_id, kind, using=using, run=work.run, message_id=work.run.tip_id, payload=payload)
    work.events.clear()
