"""What one attempt at a run works with, and what becomes of its draft: a commit, or a record of why not.

The commit is one short durable transaction. Under the session's lock it repeats every condition that the draft is based
on, so whatever happened meanwhile (a deletion, another summary, a stolen claim) leaves nothing half-written.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from django.db import Error, InterfaceError, OperationalError, transaction
from django.db.models import Max

from compaction_app.compaction import runs
from compaction_app.compaction.trigger import CompactionRequest, open_run
from compaction_app.conf import ReasoningRule, Settings
from compaction_app.context.budget import ReservedParts
from compaction_app.context.reading import ResolvedRequest
from compaction_app.exceptions import ConfigurationError, MessageNotFound, RedactionFailed, SummarizerError
from compaction_app.memory import ledger
from compaction_app.memory.ledger_text import prose_draft
from compaction_app.messages.transcript import count_summary, largest_saving_summary, reasoning_text
from compaction_app.messages.validation import make_storable
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.managers import lock_session
from compaction_app.spending import add_spending
from compaction_app.summarizers.base import Summarizer
from compaction_app.summarizers.drafts import refuse_draft
from compaction_app.summarizers.prompts import tighter
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.tree.branches import database_of
from compaction_app.values import (
    Branch,
    Budget,
    Capacity,
    CompactionPlan,
    ErrorCode,
    EventKind,
    Kind,
    Message,
    Role,
    RunStatus,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
    Trigger,
    with_ledger,
)

logger = logging.getLogger("compaction_app.compaction")

Result = TypeVar("Result")
#: Where the session was deleted, and its runs with it, while the summary was made: a code and a reason.
SESSION_GONE = "session_gone"
#: What stands in for a summary that no model wrote, as events and log lines say it.
INSTEAD = "extract"
#: A kind and its payload.
Event = tuple[EventKind, dict[str, Any]]

#: The keys of ``CompactionRun.request``. A run without all of them was made before they were kept.
REQUEST_KEYS = frozenset({"target_tokens", "lookahead", "shown_bytes", "max_input_tokens", "tightened", "digest"})


@dataclass(kw_only=True)
class Work:
    """Everything that the model's call needs, read before the connection was given back."""

    run: CompactionRun
    #: The database of the run.
    using: str
    settings: Settings
    #: The run's, with a summary's target that the summarizer can write.
    budget: Budget
    #: What the summarizer takes and writes in one call; None: it has no limit.
    capacity: Capacity | None
    branch: Branch
    plan: CompactionPlan
    request: SummaryRequest
    summarizer: Summarizer
    #: Bytes that covered messages are shortened to, by id.
    limits: dict[int, int]
    count: Count
    #: What happened during the model's call, written once the connection is back.
    events: list[Event] = field(default_factory=list)
    #: Why no model wrote the summary, where an extract stands in for it.
    failure: SummarizerError | None = None

    def refusal(self, draft: SummaryDraft) -> ErrorCode | None:
        """Why the draft cannot become the summary; None if it can."""
        most = largest_saving_summary(self.plan.replaced_tokens, self.settings.min_saving_ratio)
        return refuse_draft(self.prose(draft), self.request, most, self.count)

    def prose(self, draft: SummaryDraft) -> SummaryDraft:
        return prose_draft(draft, self.request.previous_ledger)

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        self.events.append((kind, payload))


def record_result(work: Work, result: SummaryDraft | SummarizerError) -> CompactionRun | None:
    """Record what came of the model's call: a summary, or why there is none; returns the run of a next generation."""
    run = work.run
    # First, whatever becomes of the draft: it has been paid for.
    calls = result.calls if isinstance(result, SummarizerError) else result.paid_calls
    add_spending(run, calls, work.settings.stated("price"))
    if isinstance(result, SummarizerError):
        write_if_claimed(run, lambda: _record_failure(run, result, work.events))
        return None
    draft = work.prose(result)
    draft = replace(draft, text=draft.text.strip())
    kept = ledger.complete(draft, work.request, work.plan, work.budget, work.settings, work.count)
    return write_if_claimed(run, lambda: _commit(work, draft, kept) if _is_unchanged(work) else None)


def fail_unexpected(run: CompactionRun, error: Exception) -> None:
    """Fail or release a run where something unforeseen was raised between claim and commit.

    A run left ``running`` would block its branch until the lease ends, and then be asked and paid for again and
    again. A database that was briefly away is transient. Where it is still away, ``error`` is raised, and the claim
    ends with its lease.
    """
    cause = (error.__cause__ or error) if isinstance(error, RedactionFailed) else error
    log_error(logger, cause, run=run.pk, session=run.session_id, step="run")
    # Two errors are of this app's own words, which quote nothing; those of a host's code may quote the conversation.
    is_own = isinstance(error, RedactionFailed | ConfigurationError)
    recorded = SummarizerError(
        str(error) if is_own else f"{type(error).__name__} while the summary was made",
        error_code=ErrorCode.BAD_REQUEST if isinstance(error, ConfigurationError) else runs.code_of(cause),
        transient=isinstance(error, OperationalError | InterfaceError),
    )
    try:
        # A connection that broke in the middle of a statement takes no other one.
        runs.give_back_connection(database_of(run))
        write_if_claimed(run, lambda: _record_failure(run, recorded, ()))
    except Error:
        raise error from None


def release_interrupted(run: CompactionRun) -> None:
    """Make a run ready again, for the sweep or the next call, when the caller who waited was cancelled."""
    try:
        runs.give_back_connection(database_of(run))
        if runs.release(run):
            log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="interrupted")
    except Error as error:
        # The claim ends with its lease. The caller is to see the interruption, not this error.
        log_error(logger, error, run=run.pk, session=run.session_id, step="release")


def write_if_claimed(run: CompactionRun, write: Callable[[], Result]) -> Result | None:
    """What ``write`` returns, for a run whose claim is still valid and whose branch still exists.

    A run without its branch is skipped. Under the session's lock, so that nothing that is written points at what is
    deleted before it is written.
    """
    using = database_of(run)
    try:
        with transaction.atomic(using=using, durable=True):
            lock_session(run.session_id, using)
            # With its row locked: the time limit may fail it at this moment. A tip that was deleted is gone from it.
            if runs.renew(run, runs.LEASE_SECONDS, tip__isnull=False):
                return write()
            if not runs.skip(run, SkipReason.BRANCH_GONE):
                log(logger, logging.INFO, "skip", run=run.pk, session=run.session_id, reason="claim_lost")
    except MessageNotFound:
        log(logger, logging.INFO, "skip", run=run.pk, reason=SESSION_GONE)
    return None


def _record_failure(run: CompactionRun, error: SummarizerError, events: Iterable[Event]) -> None:
    """Why there is no summary; a transient error in the background is tried again later."""
    _note_error(run, error)
    session = ChatSession.objects.using(database_of(run)).filter(pk=run.session_id)
    if not session.filter(erasures=run.erasures_seen).exists():
        # It may quote what has been erased meanwhile.
        run.error_detail = ""
    for kind, payload in events:
        runs.record_run_event(run, kind, payload)
    if is_tried_again(run, error):
        delay = runs.backoff_seconds(run.attempts, error.retry_after, random.random())
        runs.release(run, delay_seconds=delay)
        values = {"run": run.pk, "code": run.error_code, "attempt": run.attempts, "delay": delay}
        log(logger, logging.WARNING, "retry", **values, session=run.session_id)
    else:
        if run.error_code == ErrorCode.NO_PROGRESS:
            runs.record_run_event(run, EventKind.NO_PROGRESS)
        runs.fail(run, run.error_code, run.error_detail)


def is_tried_again(run: CompactionRun, error: SummarizerError) -> bool:
    return error.transient and run.trigger == Trigger.THRESHOLD and run.attempts < runs.MAX_ATTEMPTS


def _note_error(run: CompactionRun, error: SummarizerError) -> None:
    # A host's summarizer may put any text here.
    run.error_code = make_storable(str(error.error_code))[:30] or ErrorCode.PROVIDER_ERROR
    run.error_detail = make_storable(str(error))[:2000]


def _is_unchanged(work: Work) -> bool:
    """Whether the branch is as it was read; else the run is skipped or released."""
    run = work.run
    found = branches.session_and_history(work.branch.tip_id, work.using)
    if found is None or found[1].summary_id != (work.plan.base.id if work.plan.base else None):
        runs.skip(run, SkipReason.BASE_CHANGED)
        return False
    if found[0].erasures != run.erasures_seen:
        # What the model read may contain erased text: read again, ask again.
        runs.release(run)
        log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="erasure")
        return False
    return True


def _commit(work: Work, draft: SummaryDraft, kept: ledger.Kept) -> CompactionRun | None:
    """Store the summary and open the next generation, where there is one."""
    run, plan = work.run, work.plan
    anchor = ChatMessage(id=plan.anchor_id, session_id=run.session_id)
    summary = ChatMessage(
        session_id=run.session_id,
        kind=Kind.SUMMARY,
        role=Role.USER,
        content=draft.text,
        extract=kept.extract,
        ledger=kept.ledger,
        is_extract=draft.is_extract,
        last_summarized_message_id=plan.cutoff.id,
        pinned_message_id=plan.turn_request.id if plan.turn_request else None,
        token_count=count_summary(with_ledger(draft.text, kept.ledger), work.count),
        model=draft.model[:255],
    )
    ChatMessage.objects.db_manager(work.using).append_chain(anchor, [summary], savepoint=False)
    # Safe, because the session is locked.
    latest = CompactionRun.objects.using(work.using).filter(session=run.session_id).aggregate(Max("generation"))
    # So that its prompt can be built again: numbers, ids and a digest, no text.
    request = {
        "target_tokens": plan.target_tokens,
        "lookahead": [plan.lookahead[0].id, plan.lookahead[-1].id] if plan.lookahead else [],
        "shown_bytes": max(work.limits.values(), default=None),
        "max_input_tokens": work.capacity.input_tokens if work.capacity else None,
        # The draft answered the one tighter retry.
        "tightened": draft.tightened,
        "digest": digest(tighter(work.request) if draft.tightened else work.request),
    }
    run.error_code = run.error_detail = ""
    if work.failure:
        _note_error(run, work.failure)
    shown = (*plan.pins, *plan.kept, *([plan.turn_request] if plan.turn_request else ()))
    runs.end(
        run,
        status=RunStatus.SUCCEEDED,
        summary=summary,
        generation=(latest["generation__max"] or 0) + 1,
        anchor_id=plan.anchor_id,
        cutoff_id=plan.cutoff.id,
        tokens_before=work.branch.history_tokens,
        tokens_after=summary.token_count + sum(message.tokens for message in shown),
        messages_compacted=len(plan.covered),
        retention_before=kept.before,
        retention_after=kept.after,
        summarizer_model=draft.model[:255],
        request=request,
        shortened_inputs=sorted(work.limits),
        error_code=run.error_code,
        error_detail=run.error_detail,
    )
    for kind, payload in work.events:
        runs.record_run_event(run, kind, payload)
    if work.failure:
        _tell_of_failure(run, work.failure)
    _tell_of_summary(work)
    return _open_follow_up(work)


def _tell_of_failure(run: CompactionRun, failure: SummarizerError) -> None:
    """What a failed run says, of one that stored an extract instead."""
    if run.error_code == ErrorCode.NO_PROGRESS:
        runs.record_run_event(run, EventKind.NO_PROGRESS)
    model = make_storable(str(failure.model))[:255]
    runs.record_run_event(run, EventKind.MODEL_FAILED, {"model": model, "code": run.error_code, "instead": INSTEAD})
    told = {"code": run.error_code, "attempts": run.attempts, "session": run.session_id, "instead": INSTEAD}
    log(logger, logging.WARNING, "failed", run=run.pk, **told)


def digest(request: SummaryRequest) -> str:
    """SHA-256 of both messages of a request."""
    return hashlib.sha256(f"{request.system}\0{request.user}".encode("utf-8", "surrogatepass")).hexdigest()


def _tell_of_summary(work: Work) -> None:
    """The events, the log line and the signal of a summary that was stored."""
    run = work.run
    # A summarizer that works without reasoning says so by reads_reasoning.
    if work.settings.reasoning == ReasoningRule.SUMMARIZE and work.summarizer.reads_reasoning:
        _tell_of_reasoning(run, work.plan.covered)
    before, after = (
        None if share is None else round(share, 3) for share in (run.retention_before, run.retention_after)
    )
    numbers = {
        "generation": run.generation,
        "messages": run.messages_compacted,
        "tokens_before": run.tokens_before,
        "tokens_after": run.tokens_after,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "retention_before": before,
        "retention_after": after,
    }
    runs.record_run_event(run, EventKind.COMPLETED, numbers)
    which = {"run": run.pk, "session": run.session_id, "summary": run.summary_id, "generation": run.generation}
    sizes = {"messages": run.messages_compacted, "before": run.tokens_before, "after": run.tokens_after}
    spent = {"input_tokens": run.input_tokens, "output_tokens": run.output_tokens}
    log(logger, logging.INFO, "done", **which, **sizes, **spent, retention=after, cost=run.cost)


def _tell_of_reasoning(run: CompactionRun, covered: Sequence[Message]) -> None:
    """As ordinary text it is no longer reasoning to the model, so this is a loss to report."""
    turns = accumulate(message.starts_turn for message in covered)
    # Encrypted and redacted blocks have no text that could enter a prompt.
    told = [turn for turn, one in zip(turns, covered, strict=True) if one.reasoning and reasoning_text(one.reasoning)]
    if told:
        counted = {"turns": len(set(told)), "messages": len(told)}
        runs.record_run_event(run, EventKind.REASONING_DOWNGRADED, counted)


def _open_follow_up(work: Work) -> CompactionRun | None:
    """The next generation, opened in the commit of this one, where the summarizer could not take it all."""
    run = work.run
    if not work.plan.partial or (run.tokens_after or 0) <= work.budget.target:
        return None
    resolved = ResolvedRequest(
        session=run.session,
        settings=work.settings,
        model=run.session.model,
        reserved_parts=ReservedParts(tokens=run.reserved_tokens),
        budget=Budget(**run.budget),
        count=work.count,
    )
    request = CompactionRequest(
        tip=ChatMessage.objects.using(work.using).get(pk=run.tip_id),
        trigger=Trigger(run.trigger),
        resolved=resolved,
        instructions=run.instructions,
        policy_line=run.policy_line,
        previous=run,
    )
    return open_run(request).run
