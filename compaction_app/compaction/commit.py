"""After the model's call: commit the draft if all it stands on still holds, or record why there is none."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, transaction
from django.utils import timezone

from compaction_app.compaction import notify, runs
from compaction_app.compaction.connections import give_back_connection
from compaction_app.compaction.prepare import Event, Work
from compaction_app.compaction.reasoning import downgrade_of, is_shown_as_text, turns_by_rule
from compaction_app.compaction.trigger import CompactionRequest, open_locked, say_why_not
from compaction_app.context.budget import ReservedParts
from compaction_app.context.request import ResolvedRequest
from compaction_app.exceptions import MessageNotFound, SummarizerError
from compaction_app.messages.summary import count_summary
from compaction_app.messages.validation import make_storable
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.managers import lock_session
from compaction_app.summarizers.prompts import tighter
from compaction_app.telemetry import log, log_error
from compaction_app.tree import branches
from compaction_app.values import (
    CompactionPlan,
    ErrorCode,
    EventKind,
    Kind,
    Role,
    RunStatus,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
    Trigger,
)

logger = logging.getLogger("compaction_app.compaction")

# What a commit decides, and no other column: whoever enqueued the run may be writing the task's id just now, and a
# worker that lost its claim what its calls cost.
_COMMITTED_FIELDS = (
    "summary",
    "generation",
    "status",
    "finished_at",
    "anchor",
    "cutoff",
    "tokens_before",
    "tokens_after",
    "messages_compacted",
    "retention_before",
    "retention_after",
    "summarizer_model",
    "request",
    "claim_token",
    "lease_expires_at",
    "error_code",
    "error_detail",
)

#: What a run keeps of its request. A run without all of these was made before they were kept.
ASKED_FOR = frozenset({"target_tokens", "lookahead", "shown_bytes", "max_input_tokens", "tightened", "digest"})


def fail_work(work: Work, error: SummarizerError, using: str) -> None:
    """Record why no draft was accepted; a passing trouble in the background is tried again later."""
    _fail(work.run, error, using, work.events)
    work.events.clear()


def break_off(run: CompactionRun, error: Exception, using: str) -> None:
    """What nothing foresaw was raised between claim and commit: the run is over or put off, and says so.

    Left ``running`` it would block its branch until the lease ends, and then be asked and paid for again and again.
    A database that was briefly away is a passing trouble. Where it still is, ``error`` is raised, and the lease
    is what ends the claim.
    """
    log_error(logger, error, run=run.pk, session=run.session_id, step="run")
    passing = isinstance(error, OperationalError | InterfaceError)
    # Its words are not kept: they may quote the conversation.
    told = SummarizerError(f"{type(error).__name__} while the summary was made", transient=passing)
    try:
        # A connection that broke in the middle of a statement takes no other one.
        give_back_connection(using)
        _fail(run, told, using)
    except DatabaseError:
        raise error from None


def put_back(run: CompactionRun, using: str) -> None:
    """Whoever waited for the run was cancelled or interrupted: it waits again, for the sweep or for the next call."""
    try:
        give_back_connection(using)
        if runs.release(run):
            log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="interrupted")
    except DatabaseError as error:
        # The lease ends the claim. What interrupted is what the caller is to see.
        log_error(logger, error, run=run.pk, session=run.session_id, step="release")


def _fail(run: CompactionRun, error: SummarizerError, using: str, events: Sequence[Event] = ()) -> None:
    try:
        with transaction.atomic(using=using):
            # Under the lock, so that nothing that the events point at goes before they are written.
            lock_session(run.session_id, using)
            if _is_still_due(run, using):
                _record_failure(run, error, using, events)
    except MessageNotFound:
        log(logger, logging.INFO, "skip", run=run.pk, reason="session_gone")


def _record_failure(run: CompactionRun, error: SummarizerError, using: str, events: Sequence[Event]) -> None:
    # A summarizer of the host's may say anything.
    run.error_code, run.error_detail = make_storable(str(error.error_code))[:30], make_storable(str(error))[:2000]
    if _erased_since_read(run, using):
        # It may quote what has been erased meanwhile.
        run.error_detail = ""
    write_events(run, events, using)
    waits = run.trigger == Trigger.THRESHOLD
    if error.transient and waits and run.attempts < runs.MAX_ATTEMPTS:
        delay = runs.backoff_seconds(run.attempts, error.retry_after, random.random())
        runs.release(run, delay_seconds=delay)
        log(
            logger,
            logging.WARNING,
            "retry",
            run=run.pk,
            code=run.error_code,
            attempt=run.attempts,
            delay=delay,
            session=run.session_id,
        )
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
    draft = work.with_ledger(draft)
    follow_up = None
    try:
        with transaction.atomic(using=using, durable=True):
            lock_session(work.run.session_id, using)
            if _may_commit(work, using):
                _commit(work, draft, using)
                follow_up = _follow_up(work, using)
    except MessageNotFound:
        log(logger, logging.INFO, "skip", run=work.run.pk, reason="session_gone")
    return follow_up


def _is_still_due(run: CompactionRun, using: str) -> bool:
    """Whether this worker still holds the run and its branch still stands; settles the run if it does not."""
    if not runs.holding(run).exists():
        log(logger, logging.INFO, "skip", run=run.pk, session=run.session_id, reason="claim_lost")
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
        log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="erasure")
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
    reads = getattr(work.summarizer, "max_input_tokens", None)
    run.request = asked_for(plan, work.request, work.limits, max_input_tokens=reads, tightened=draft.tightened)
    run.claim_token = run.lease_expires_at = None
    run.error_code = run.error_detail = ""
    run.save(using=using, update_fields=_COMMITTED_FIELDS)
    write_events(run, work.events, using)
    work.events.clear()
    _note_reasoning(work, using)
    _note_done(work, using)


def asked_for(
    plan: CompactionPlan,
    request: SummaryRequest,
    limits: Mapping[int, int],
    *,
    max_input_tokens: int | None,
    tightened: bool,
) -> dict[str, Any]:
    """What a run keeps of its request, so that its prompt can be made again: numbers, ids and a digest, no text.

    ``tightened``: what was accepted is the answer to the one tighter retry.
    """
    return {
        "target_tokens": plan.target_tokens,
        "lookahead": [plan.lookahead[0].id, plan.lookahead[-1].id] if plan.lookahead else [],
        "shown_bytes": max(limits.values(), default=None),
        "max_input_tokens": max_input_tokens,
        "tightened": tightened,
        "digest": digest(tighter(request) if tightened else request),
    }


def digest(request: SummaryRequest) -> str:
    """SHA-256 of both messages of a request."""
    return hashlib.sha256(f"{request.system}\0{request.user}".encode("utf-8", "surrogatepass")).hexdigest()


def _note_reasoning(work: Work, using: str) -> None:
    """Say that reasoning became ordinary text: what it was worth as reasoning is lost."""
    downgrade = downgrade_of(work.plan, as_text=is_shown_as_text(work.settings.reasoning, work.summarizer))
    if downgrade is not None:
        payload = {"turns": downgrade.turns, "messages": downgrade.messages}
        run = work.run
        kind = EventKind.REASONING_DOWNGRADED
        runs.record(run.session_id, kind, using=using, run=run, message_id=run.tip_id, payload=payload)


def _cleared_turns(work: Work, using: str) -> int:
    """How many turns' reasoning the provider cleared from its prompt, as the newest reply in the tail reports it."""
    kept = [message.id for message in work.plan.kept if message.role == Role.ASSISTANT]
    if not any(message.reasoning for message in work.plan.kept):
        return 0
    reports = CompactionEvent.objects.using(using).filter(kind=EventKind.DOUBLE_RAN, message_id__in=kept)
    newest = reports.order_by("-id").values_list("payload", flat=True).first()
    return int(newest.get("cleared_thinking_turns", 0)) if newest else 0


def _note_done(work: Work, using: str) -> None:
    run = work.run
    as_text = is_shown_as_text(work.settings.reasoning, work.summarizer)
    numbers = {
        "generation": run.generation,
        "messages": run.messages_compacted,
        "tokens_before": run.tokens_before,
        "tokens_after": run.tokens_after,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "retention_before": _rounded(run.retention_before),
        "retention_after": _rounded(run.retention_after),
        "reasoning_turns": turns_by_rule(work.plan, as_text=as_text, cleared_turns=_cleared_turns(work, using)),
    }
    runs.record(run.session_id, EventKind.COMPLETED, using=using, run=run, message_id=run.tip_id, payload=numbers)
    log(
        logger,
        logging.INFO,
        "done",
        run=run.pk,
        session=run.session_id,
        summary=run.summary_id,
        generation=run.generation,
        messages=run.messages_compacted,
        before=run.tokens_before,
        after=run.tokens_after,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        retention=_rounded(run.retention_after),
        cost=run.cost,
    )
    notify.run_ended(run, using)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def _follow_up(work: Work, using: str) -> CompactionRun | None:
    """The next generation, opened in the commit of this one, where the summarizer could not take it all."""
    run = work.run
    if not work.plan.partial or (run.tokens_after or 0) <= work.budget.target:
        return None
    tip = ChatMessage.objects.using(using).get(pk=run.tip_id)
    resolved = ResolvedRequest(
        session=run.session,
        settings=work.settings,
        model=run.session.model,
        reserved_parts=ReservedParts(tokens=run.reserved_tokens),
        budget=work.budget,
        count=work.count,
    )
    request = CompactionRequest(
        tip=tip,
        trigger=Trigger(run.trigger),
        resolved=resolved,
        instructions=run.instructions,
        policy_line=run.policy_line,
        previous=run,
    )
    opening = open_locked(request)
    say_why_not(request, opening)
    return opening.run if opening.run and opening.run.is_open else None


def write_events(run: CompactionRun, events: Sequence[Event], using: str) -> None:
    for kind, payload in events:
        runs.record(run.session_id, kind, using=using, run=run, message_id=run.tip_id, payload=payload)
