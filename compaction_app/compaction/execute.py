"""Making one summary: claim, plan again, ask the summarizer with nothing held, commit what is still true.

``compact_chat_history`` is the orchestration; ``acompact_chat_history`` the same with the model awaited. The
steps around the model's call (``preparing``, ``committing``) are short, and the last is one durable transaction
that repeats every condition under the session's lock: whatever happened meanwhile (a deletion, another summary, a
stolen claim) leaves nothing half-written.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from opentelemetry.trace import Span

from compaction_app import telemetry
from compaction_app.compaction.commit import break_off, fail_work, put_back, settle
from compaction_app.compaction.connections import require_no_transaction
from compaction_app.compaction.prepare import Work, claim, prepare
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.spending import add_spending
from compaction_app.summarizers.cascade import arun_summarizer, run_summarizer
from compaction_app.values import RunStatus, SummaryDraft

#: The code of :class:`CompactionFailed` where another worker has the run.
CLAIMED = "claimed"
#: The code where the session was deleted, and its runs with it, while the summary was made.
SESSION_GONE = "session_gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and the generation that goes on from it, to be enqueued by the caller."""

    run: CompactionRun
    follow_up: CompactionRun | None = None
    #: Deleted with its session: ``run`` is what was last known of it.
    is_gone: bool = False


def compact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """Carry out one run; None where another worker has it. Raises nothing for what a run can record."""
    require_no_transaction(using)
    run = claim(run_id, using)
    if run is None:
        return None
    # The claim as it was taken: a commit that fails half-way has written into the other one.
    claimed = copy(run)
    with telemetry.run_span(run) as span:
        follow_up = None
        try:
            follow_up = _carry_out(run, using)
        except Exception as error:
            break_off(claimed, error, using)
        except BaseException:
            put_back(claimed, using)
            raise
        return _outcome(run, using, span, follow_up)


def _carry_out(run: CompactionRun, using: str) -> CompactionRun | None:
    work = prepare(run, using)
    if not isinstance(work, Work):
        return None
    result: SummaryDraft | SummarizerError
    try:
        result = run_summarizer(work.summarizer, work.request, work.accept, work.on_event)
    except SummarizerError as error:
        result = error
    return _finish(work, result, using)


async def acompact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """The same, with the model awaited; each database step is whole in one ``sync_to_async``."""
    await sync_to_async(require_no_transaction)(using)
    run = await sync_to_async(claim)(run_id, using)
    if run is None:
        return None
    # The claim as it was taken: a commit that fails half-way has written into the other one.
    claimed = copy(run)
    with telemetry.run_span(run) as span:
        follow_up = None
        try:
            follow_up = await _acarry_out(run, using)
        except Exception as error:
            await sync_to_async(break_off)(claimed, error, using)
        except BaseException:
            # Cancelled, most often: the client went, or a time-out passed.
            await sync_to_async(put_back)(claimed, using)
            raise
        return await sync_to_async(_outcome)(run, using, span, follow_up)


async def _acarry_out(run: CompactionRun, using: str) -> CompactionRun | None:
    work = await sync_to_async(prepare)(run, using)
    if not isinstance(work, Work):
        return None
    result: SummaryDraft | SummarizerError
    try:
        result = await arun_summarizer(work.summarizer, work.request, work.accept, work.on_event)
    except SummarizerError as error:
        result = error
    return await sync_to_async(_finish)(work, result, using)


def _finish(work: Work, result: SummaryDraft | SummarizerError, using: str) -> CompactionRun | None:
    """Settle the run; the following generation, where there is one."""
    calls = result.calls if isinstance(result, SummarizerError) else result.paid_calls
    # Before anything else, and whatever comes of the draft: it has been paid for.
    add_spending(work.run, calls, work.settings.prices, using)
    if isinstance(result, SummarizerError):
        fail_work(work, result, using)
        return None
    return settle(work, result, using)


def next_now(outcome: Outcome | None) -> CompactionRun | None:
    """What whoever waits carries out next: the following generation, or the run again after an erasure."""
    if outcome is None or outcome.is_gone:
        return None
    again = outcome.run.status == RunStatus.READY and outcome.run.next_attempt_at is None
    return outcome.follow_up or (outcome.run if again else None)


def raise_for(outcome: Outcome | None, run_id: int) -> CompactionRun:
    """What a person who waits for a run is told: the run that it ended as, or :class:`CompactionFailed`."""
    if outcome is None:
        raise CompactionFailed("Another worker took this run; look at its status.", error_code=CLAIMED, run_id=run_id)
    run = outcome.run
    if outcome.is_gone:
        raise CompactionFailed(
            "The session was deleted while its summary was made; there is nothing left to summarize.",
            error_code=SESSION_GONE,
            run_id=run_id,
        )
    if run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED):
        return run
    raise CompactionFailed(
        f"The summary could not be made ({run.error_code or run.status}); nothing was changed.",
        error_code=run.error_code,
        error_detail=run.error_detail,
        run_id=run.pk,
    )


def _outcome(run: CompactionRun, using: str, span: Span, follow_up: CompactionRun | None = None) -> Outcome:
    fresh = CompactionRun.objects.using(using).select_related("session", "summary").filter(pk=run.pk).first()
    telemetry.describe_run(span, fresh or run)
    return Outcome(fresh or run, follow_up, is_gone=fresh is None)
