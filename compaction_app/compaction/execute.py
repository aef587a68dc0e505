"""Carrying out a run: claim it, plan again, ask the summarizer with nothing held, commit what is still true."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from compaction_app import signals, telemetry
from compaction_app.compaction import lease, runs
from compaction_app.compaction.commit import (
    SESSION_GONE,
    Work,
    fail_unexpected,
    is_tried_again,
    record_result,
    release_interrupted,
    write_if_claimed,
)
from compaction_app.compaction.planning import plan_compaction
from compaction_app.compaction.search_index import write_entries
from compaction_app.conf import (
    MAX_INTEGER,
    Lookahead,
    Settings,
    get_token_counter,
    settings_from_snapshot,
    site_setting,
)
from compaction_app.context import windows
from compaction_app.exceptions import CompactionFailed, MessageNotFound, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.redaction import redactor_of
from compaction_app.spending import add_spending
from compaction_app.summarizers.base import (
    ExtractiveSummarizer,
    Summarizer,
    TimeLeft,
    ask_summarizer,
    make_summarizer,
    unlimited,
)
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR, SummarizerLimit, count_request, request_for
from compaction_app.summarizers.waiting import BLOCKING, Way, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.tree import branches
from compaction_app.tree.branches import database_of
from compaction_app.values import (
    Branch,
    Budget,
    Capacity,
    CompactionPlan,
    ErrorCode,
    EventKind,
    RunStatus,
    Skip,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
    Trigger,
)

logger = logging.getLogger("compaction_app.compaction")

#: The code of :class:`CompactionFailed` where another worker has the run.
CLAIMED = "claimed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt at a run ended, and the next generation, for the caller to enqueue."""

    run: CompactionRun
    follow_up: CompactionRun | None = None
    #: Deleted with its session: ``run`` is its last known state.
    is_gone: bool = False


def compact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """Carry out one run; None where another worker has it. Raises nothing that a run can record."""
    return without_waiting(carry_out(run_id, using, BLOCKING))


async def carry_out(run_id: int, using: str, way: Way) -> Outcome | None:
    """:func:`compact_chat_history`, for callers that block and for those that await the model."""
    await way.do(runs.require_no_transaction, using)
    taken: list[tuple[CompactionRun, lease.Held]] = []

    def take() -> None:
        if run := runs.claim(run_id, using):
            taken.append((run, lease.keep(run)))

    def give_back() -> None:
        for run, held in taken:
            held.end()
            release_interrupted(run)

    try:
        await way.do(take)
    except BaseException:
        # Cancelled while it was taken. The thread goes on, and does this after it.
        await way.do(give_back)
        raise
    if not taken:
        return None
    [(run, held)] = taken
    # The claim as it was taken: a commit that fails half-way has changed the other instance.
    claimed = copy(run)
    with telemetry.run_span(run) as span, held:
        follow_up = None
        try:
            work = await way.do(prepare, run, held.time_left)
            while work:
                result: SummaryDraft | SummarizerError
                try:
                    result = await ask_summarizer(work.summarizer, work.request, work.refusal, work.on_event, way)
                except SummarizerError as error:
                    result = error
                smaller = await way.do(prepare_smaller, work, result)
                if smaller is None:
                    follow_up = await way.do(conclude, work, result)
                work = smaller
        except Exception as error:
            await way.do(fail_unexpected, claimed, error)
        except BaseException:
            # Cancelled, most often: the client disconnected, or a time-out passed.
            await way.do(release_interrupted, claimed)
            raise
        rows = CompactionRun.objects.using(using).select_related("session", "summary").filter(pk=run.pk)
        fresh: CompactionRun | None = await way.do(rows.first)
        telemetry.describe_run(span, fresh or run)
        return Outcome(fresh or run, follow_up, is_gone=fresh is None)


def prepare(
    run: CompactionRun,
    time_left: TimeLeft = unlimited,
    at_most: Capacity | None = None,
    summarizer: Summarizer | None = None,
) -> Work | None:
    """What the model's call needs, with the connection given back; None where the run ended without a call.

    ``time_left``: seconds until the run ends; a model that answers later would be paid for nothing. ``at_most``: a
    request of the same run was too large for ``summarizer``, which is now asked for no more than that.
    """
    settings = settings_from_snapshot(run.settings)
    summarizer = summarizer or make_summarizer(settings, run.session.model, time_left)
    work = _load(run, settings, at_most, summarizer)
    if isinstance(work, SkipReason):
        runs.skip(run, work)
        return None
    due = write_if_claimed(run, lambda: _started(work, again=at_most is not None))
    runs.give_back_connection(work.using)
    return due


def prepare_smaller(work: Work, error: SummaryDraft | SummarizerError) -> Work | None:
    """The same run with less covered, where that may help: every model failed, one of them only for the size."""
    if isinstance(error, SummaryDraft) or (error.capacity is None and error.error_code != ErrorCode.INPUT_TOO_LARGE):
        return None
    size = count_request(work.request, work.count)
    # A host's own summarizer does not say what it takes.
    at_most = error.capacity or windows.halved(size, work.capacity)
    if at_most.input_tokens >= size or at_most == work.capacity:
        return None
    # They are paid for, whatever becomes of the smaller request.
    add_spending(work.run, error.calls, work.settings.stated("price"))
    error.calls = ()
    smaller = prepare(work.run, at_most=windows.less_than(size, at_most), summarizer=work.summarizer)
    if smaller is None or count_request(smaller.request, work.count) >= size:
        return None
    smaller.events = work.events + smaller.events
    return smaller


def conclude(work: Work, result: SummaryDraft | SummarizerError) -> CompactionRun | None:
    """Record what came of the model's call, and let the summarizer learn from it; the run of the next generation."""
    failure = result if isinstance(result, SummarizerError) else None
    extract = extract_instead(work, failure) if failure else None
    follow_up = record_result(*(extract or (work, result)))
    try:
        work.summarizer.learn(failure.error_code if failure else "")
    except Exception as error:
        # A host's code, or a cache that is away: the summary is stored.
        log_error(logger, error, run=work.run.pk, session=work.run.session_id, step="learn")
    if work.run.status == RunStatus.SUCCEEDED and site_setting("RECALL"):
        try:
            write_entries(work.run.session_id, work.plan.cutoff.id, work.using)
        except Exception as error:
            # The first search writes them, if the session is still there.
            log_error(logger, error, run=work.run.pk, session=work.run.session_id, step="search")
    return follow_up


def extract_instead(work: Work, failure: SummarizerError) -> tuple[Work, SummaryDraft] | None:
    """What is stored where a background run would fail for good: an extract of all that could be covered.

    It needs no window, so it leaves nothing to a next generation: the next time that the branch is over its threshold
    the models are asked again. None where a person waits, where the run is tried again, and where no time is left.
    """
    run, settings = work.run, work.settings
    in_background = run.trigger == Trigger.THRESHOLD and not is_tried_again(run, failure)
    if not in_background or not settings.extract_fallback or failure.error_code == ErrorCode.TIME_LIMIT:
        return None
    budget, summarizer = Budget(**run.budget), ExtractiveSummarizer(settings)
    try:
        plan = _plan(run, work.branch, budget, settings, work.summarizer)
        if isinstance(plan, Skip):
            return None
        extract = replace(
            work,
            budget=budget,
            capacity=None,
            plan=plan,
            request=request_of(run, settings, plan, {}),
            summarizer=summarizer,
            limits={},
            failure=failure,
        )
        draft = replace(summarizer.summarize(extract.request), calls=tuple(failure.calls))
        return None if extract.refusal(draft) else (extract, draft)
    except Exception as error:
        # A host's redactor or counter: the run fails for its own reason.
        log_error(logger, error, run=run.pk, session=run.session_id, step="extract")
        return None


def _load(
    run: CompactionRun, settings: Settings, at_most: Capacity | None, summarizer: Summarizer
) -> Work | SkipReason:
    """Read the branch and plan again for the run's own tip and settings."""
    using = database_of(run)
    if run.tip_id is None:
        return SkipReason.BRANCH_GONE
    # As it was when the run was claimed, before the content: an erasure in between makes the commit refuse, never the
    # other way round.
    run.erasures_seen = run.session.erasures
    try:
        branch = branches.load_whole_tail(run.tip_id, using, settings.time_zone)
    except MessageNotFound:
        return SkipReason.BRANCH_GONE
    if (branch.base.id if branch.base else None) != run.base_id:
        return SkipReason.BASE_CHANGED
    count = get_token_counter()
    branch = branches.with_already_compacted(branch, using)
    budget, capacity, limit = Budget(**run.budget), at_most, None
    taken, written = summarizer.max_input_tokens, summarizer.max_output_tokens
    if taken is not None or written is not None:
        # A host's own summarizer may state either.
        own = Capacity(*(MAX_INTEGER if most is None else most for most in (taken, written)))
        capacity = windows.smaller(own, at_most) if at_most else own
    if capacity is not None:
        # A summary may be longer than its target: the target leaves room for that in the longest reply.
        longest = max(1, int(capacity.output_tokens / OVERSIZE_FACTOR))
        budget = replace(budget, summary_target=min(budget.summary_target, longest))
        limit = SummarizerLimit(capacity.input_tokens, settings, count, **_parts_of_request(run, settings))
    plan = _plan(run, branch, budget, settings, summarizer, limit)
    if isinstance(plan, Skip):
        return SkipReason(plan.reason)
    limits = limit.byte_limits(plan) if limit and plan.shorten else {}
    return Work(
        run=run,
        using=using,
        settings=settings,
        budget=budget,
        capacity=capacity,
        branch=branch,
        plan=plan,
        request=request_of(run, settings, plan, limits),
        summarizer=summarizer,
        limits=limits,
        count=count,
    )


def _plan(
    run: CompactionRun,
    branch: Branch,
    budget: Budget,
    settings: Settings,
    summarizer: Summarizer,
    limit: SummarizerLimit | None = None,
) -> CompactionPlan | Skip:
    return plan_compaction(
        branch,
        branch.base,
        budget,
        settings if summarizer.looks_ahead else settings.but(lookahead=Lookahead.NONE),
        focused=bool(run.instructions or run.policy_line),
        follow_up=run.previous_run_id is not None,
        limit=limit,
    )


def request_of(run: CompactionRun, settings: Settings, plan: CompactionPlan, limits: dict[int, int]) -> SummaryRequest:
    """What a plan asks for. It depends on nothing else: :mod:`transfer.rebuild` builds it again from stored rows."""
    return request_for(plan, settings, nonce=run.nonce, limits=limits, **_parts_of_request(run, settings))


def _parts_of_request(run: CompactionRun, settings: Settings) -> dict[str, Any]:
    """What a request contains whatever the plan is, and how it is redacted."""
    return {"instructions": run.instructions, "policy_line": run.policy_line, "redact": redactor_of(settings)}


def _started(work: Work, *, again: bool) -> Work:
    """Tell of an attempt by event, log line and signal. ``again``: a smaller request of the same attempt."""
    run = work.run
    run.shortened_inputs = sorted(work.limits)
    runs.still_claimed(run).update(shortened_inputs=run.shortened_inputs, erasures_seen=run.erasures_seen)
    numbers = {"trigger": run.trigger, "attempt": run.attempts, "messages": len(work.plan.covered)}
    tokens, target = work.plan.replaced_tokens, work.plan.target_tokens
    if not again:
        runs.record_run_event(run, EventKind.STARTED, {**numbers, "tokens": tokens, "target_tokens": target})
    log(logger, logging.INFO, "start", run=run.pk, session=run.session_id, **numbers, tokens=tokens, target=target)
    if not again:
        signals.send_after_commit(signals.compaction_started, CompactionRun, using=work.using, run=run)
    return work


async def carry_out_generations(
    run: CompactionRun, way: Way, task_id: str = "", hand_over: Callable[[CompactionRun], object] | None = None
) -> Outcome | None:
    """Carry out a run and every generation that continues it; the last outcome.

    ``task_id``: the task that does so, to be recorded on each run. ``hand_over`` takes the next generation, which is
    not carried out here then.
    """
    using = database_of(run)
    following: CompactionRun | None = run
    outcome = None
    while following is not None:
        if task_id:
            CompactionRun.objects.using(using).filter(pk=following.pk).update(task_id=task_id)
        outcome = await carry_out(following.pk, using, way)
        if outcome is None or outcome.is_gone:
            break
        # The next generation, or the same run after an erasure.
        again = outcome.run.status == RunStatus.READY and outcome.run.next_attempt_at is None
        following = outcome.follow_up or (outcome.run if again else None)
        if following is not None and hand_over is not None:
            await way.do(hand_over, following)
            break
    return outcome


async def wait_for_end(
    run: CompactionRun, way: Way, hand_over: Callable[[CompactionRun], object] | None = None
) -> CompactionRun:
    """:func:`carry_out_generations` for a person who waits: the finished run, or :class:`CompactionFailed`.

    A run that was skipped when it was opened, with nothing to compact, is returned as it is.
    """
    if not run.is_open:
        return run
    run_id = run.pk
    outcome = await carry_out_generations(run, way, hand_over=hand_over)
    # Also where it was given back, after an erasure for example, and taken by another worker before it was read again.
    if outcome is None or (outcome.run.status == RunStatus.RUNNING and not outcome.is_gone):
        raise CompactionFailed("Another worker took this run; look at its status.", error_code=CLAIMED, run_id=run_id)
    if outcome.is_gone:
        raise CompactionFailed(
            "The session was deleted while its summary was made; there is nothing left to summarize.",
            error_code=SESSION_GONE,
            run_id=run_id,
        )
    run = outcome.run
    if run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED):
        return run
    raise CompactionFailed(
        f"The summary could not be made ({run.error_code or run.status}); nothing was changed.",
        error_code=run.error_code,
        error_detail=run.error_detail,
        run_id=run.pk,
    )
