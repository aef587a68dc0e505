"""Carrying out a run: claim it, plan again, ask the summarizer with nothing held, commit what is still true.

:func:`compact_chat_history` is the sequence; :func:`acompact_chat_history` is the same with the model awaited. The
steps around the model's call (:mod:`prepare`, :mod:`commit`) are short. The last is one durable transaction that
repeats every condition under the session's lock: whatever happened meanwhile (a deletion, another summary, a stolen
claim) leaves nothing half-written.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from opentelemetry.trace import Span

from compaction_app import telemetry
from compaction_app.compaction.commit import fail_unexpected, finish, release_interrupted
from compaction_app.compaction.prepare import Work, prepare
from compaction_app.compaction.runs import claim, require_no_transaction
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.summarizers.cascade import arun_summarizer, run_summarizer
from compaction_app.tree.branches import database_of
from compaction_app.values import RunStatus, SummaryDraft

#: The code of :class:`CompactionFailed` where another worker has the run.
CLAIMED = "claimed"
#: The code where the session was deleted, and its runs with it, while the summary was made.
SESSION_GONE = "session_gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt at a run ended, and the next generation, for the caller to enqueue."""

    run: CompactionRun
    follow_up: CompactionRun | None = None
    #: Deleted with its session: ``run`` is its last known state.
    is_gone: bool = False


def compact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """Carry out one run; None where another worker has it. Raises nothing that a run can record."""
    require_no_transaction(using)
    run = claim(run_id, using)
    if run is None:
        return None
    # The claim as it was taken: a commit that fails half-way has changed the other instance.
    claimed = copy(run)
    with telemetry.run_span(run) as span:
        follow_up = None
        try:
            if work := prepare(run):
                follow_up = finish(work, _ask(work))
        except Exception as error:
            fail_unexpected(claimed, error)
        except BaseException:
            release_interrupted(claimed)
            raise
        return _outcome(run, span, follow_up)


async def acompact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """The same, with the model awaited; each database step is whole in one ``sync_to_async``."""
    await sync_to_async(require_no_transaction)(using)
    run = await sync_to_async(claim)(run_id, using)
    if run is None:
        return None
    claimed = copy(run)
    with telemetry.run_span(run) as span:
        follow_up = None
        try:
            if work := await sync_to_async(prepare)(run):
                follow_up = await sync_to_async(finish)(work, await _aask(work))
        except Exception as error:
            await sync_to_async(fail_unexpected)(claimed, error)
        except BaseException:
            # Cancelled, most often: the client disconnected, or a time-out passed.
            await sync_to_async(release_interrupted)(claimed)
            raise
        return await sync_to_async(_outcome)(run, span, follow_up)


def _ask(work: Work) -> SummaryDraft | SummarizerError:
    try:
        return run_summarizer(work.summarizer, work.request, work.refusal, work.on_event)
    except SummarizerError as error:
        return error


async def _aask(work: Work) -> SummaryDraft | SummarizerError:
    try:
        return await arun_summarizer(work.summarizer, work.request, work.refusal, work.on_event)
    except SummarizerError as error:
        return error


def _outcome(run: CompactionRun, span: Span, follow_up: CompactionRun | None) -> Outcome:
    rows = CompactionRun.objects.using(database_of(run)).select_related("session", "summary")
    fresh = rows.filter(pk=run.pk).first()
    telemetry.describe_run(span, fresh or run)
    return Outcome(fresh or run, follow_up, is_gone=fresh is None)


def run_to_end(run: CompactionRun, *, task_id: str = "") -> Outcome | None:
    """Carry out a run and every generation that continues it; the last outcome.

    ``task_id``: the task that does so, to be recorded on each run.
    """
    using = database_of(run)
    following: CompactionRun | None = run
    outcome = None
    while following is not None:
        if task_id:
            CompactionRun.objects.using(using).filter(pk=following.pk).update(task_id=task_id)
        outcome = compact_chat_history(following.pk, using)
        following = _next_run(outcome)
    return outcome


def _next_run(outcome: Outcome | None) -> CompactionRun | None:
    """What a caller who waits carries out next: the next generation, or the same run after an erasure."""
    if outcome is None or outcome.is_gone:
        return None
    again = outcome.run.status == RunStatus.READY and outcome.run.next_attempt_at is None
    return outcome.follow_up or (outcome.run if again else None)


def finish_now(run: CompactionRun) -> CompactionRun:
    """:func:`run_to_end` for a person who waits: the finished run, or :class:`CompactionFailed`.

    A run that was skipped when it was opened, with nothing to compact, is returned as it is.
    """
    return _finished(run_to_end(run), run.pk) if run.is_open else run


async def afinish_now(run: CompactionRun) -> CompactionRun:
    """:func:`finish_now` with the model awaited."""
    if not run.is_open:
        return run
    using = database_of(run)
    outcome = await acompact_chat_history(run.pk, using)
    while (following := _next_run(outcome)) is not None:
        outcome = await acompact_chat_history(following.pk, using)
    return _finished(outcome, run.pk)


def _finished(outcome: Outcome | None, run_id: int) -> CompactionRun:
    if outcome is None:
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
