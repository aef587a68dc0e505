"""Compactions: start one, read generations and runs, retire a summary."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Path, Router, Schema, Status
from pydantic import Field

from compaction_app import chat
from compaction_app.api import examples
from compaction_app.api.authentication import user_of
from compaction_app.api.errors import Code, Problem, refusal, responses
from compaction_app.api.lookup import find_generations, find_message, find_run, find_session, require_tip
from compaction_app.api.permissions import Action
from compaction_app.api.schemas import MAX_ID, Body, Cursor, Id, Limit, Page, page, parse_cursor
from compaction_app.api.throttle import count_against_throttle
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.context.reading import resolve_request
from compaction_app.conversation.compact import open_and_enqueue
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind, RunStatus, Trigger

router = Router(tags=["compactions"])

PREVIEW_CHARS = 200
#: Stored with a summary that is retired here. The site's access log has the user.
RETIRED_REASON = "api"

StatusName = Literal["ready", "running", "succeeded", "failed", "skipped"]
TriggerName = Literal["threshold", "manual", "overflow"]


class CompactIn(Body):
    model_config = examples.shown(examples.COMPACT)

    message_id: Id | None = Field(
        default=None, description="The tip of the branch. Null: the session's newest message."
    )
    instructions: str = Field(
        default="", max_length=MAX_INSTRUCTIONS, description="What the summary should keep or focus on."
    )
    wait: bool = Field(default=True, description="Wait for the summary. False: return the run at once.")


class RunReferences(Schema):
    """Ids. Null if there was no such row, or it was deleted."""

    run_id: int = Field(validation_alias="pk")
    tip_id: int | None = Field(description="The branch's tip when the compaction was requested.")
    anchor_id: int | None = Field(description="The message that the summary is attached to.")
    cutoff_id: int | None = Field(description="The last message that the summary covers.")
    base_id: int | None = Field(description="The previous summary, which this one continues.")
    summary_id: int | None


class RunFigures(Schema):
    tokens_before: int | None = Field(description="Of the branch's history.")
    tokens_after: int | None
    messages_compacted: int | None
    input_tokens: int | None = Field(description="Of the summarizer's calls, as the provider reported them.")
    output_tokens: int | None
    cached_tokens: int | None
    cost: str | None = Field(description="Calculated from `PRICES`. A decimal number as text.")

    @staticmethod
    def resolve_cost(run: CompactionRun) -> str | None:
        # In digits: str() would write a cost of zero as 0E-8.
        return None if run.cost is None else format(run.cost, "f")


class CompactionOut(RunReferences, RunFigures):
    """One generation of a session, without its text."""

    model_config = examples.shown(examples.GENERATION)

    generation: int
    trigger: TriggerName
    summarizer_model: str
    prompt_version: str
    retention_before: float | None = Field(description="The share of facts that the model's draft kept.")
    retention_after: float | None = Field(description="The same with the ledger at the end of the summary.")
    retired_at: datetime | None = Field(description="When the summary was retired.")
    created_at: datetime
    finished_at: datetime | None


class CompactionDetail(CompactionOut):
    model_config = examples.shown(examples.GENERATION_IN_FULL)

    summary: str | None = Field(description="The summary's text. Empty after a redaction, null after a deletion.")
    instructions: str
    pinned_id: int | None = Field(description="The user message shown verbatim after the summary.")

    @staticmethod
    def resolve_summary(run: CompactionRun) -> str | None:
        return run.summary.text if run.summary else None

    @staticmethod
    def resolve_pinned_id(run: CompactionRun) -> int | None:
        return run.summary.pinned_message_id if run.summary else None


class Compacted(RunReferences, RunFigures):
    """The summary was made."""

    model_config = examples.shown(examples.COMPACTED)

    generation: int
    summary_preview: str = Field(description="The first 200 characters.")

    @staticmethod
    def resolve_summary_preview(run: CompactionRun) -> str:
        return run.summary.text[:PREVIEW_CHARS] if run.summary else ""


class RunOut(RunReferences, RunFigures):
    """One attempt to compact. `ready` and `running` are open: poll until the status is neither."""

    model_config = examples.shown(examples.RUN)

    session_id: UUID
    status: StatusName
    trigger: TriggerName
    generation: int | None
    skip_reason: str = Field(description="Why it was skipped.")
    error_code: str = Field(description="Why it failed or will be tried again.")
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class Retired(Schema):
    model_config = examples.shown(examples.RETIRED)

    retired: list[int] = Field(description="The summary and every live summary built on it.")


@router.post(
    "/sessions/{uuid:session_id}/compact",
    summary="Compact a branch",
    **responses(
        {200: Compacted, 202: RunOut},
        Code.NOT_FOUND,
        Code.OPEN_RUN,
        Code.BRANCH_GONE,
        Code.BASE_CHANGED,
        Code.INVALID_MESSAGE,
        Code.INVALID_PARENT,
        Code.NOTHING_TO_COMPACT,
        Code.MODE_OFF,
        Code.THROTTLED,
        Code.SPEND,
        Code.COMPACTION_FAILED,
        changes=True,
        headers={202: {"Location": "The address to poll the run at."}},
    ),
)
def compact(
    request: HttpRequest, response: HttpResponse, session_id: UUID, body: CompactIn | None = None
) -> Status[CompactionRun]:
    """Compacts it whatever its size. With `wait` (the default) the response has the summary's figures, or the reason
    why there is none. Without it the response is 202 and a run to poll."""
    options = body or CompactIn()
    session = find_session(request, session_id, Action.COMPACT)
    tip = _tip(session, options.message_id)
    count_against_throttle(user_of(request))
    if options.wait:
        return Status(200, _compact_now(tip, options.instructions))
    run = _open_run(session, tip, options.instructions)
    # Relative to the sessions, since a host may mount the API anywhere.
    response["Location"] = f"{request.path.rpartition('/sessions/')[0]}/runs/{run.pk}"
    return Status(202, run)


@router.get(
    "/sessions/{uuid:session_id}/compactions",
    summary="List the generations",
    **responses({200: Page[CompactionOut]}, Code.NOT_FOUND),
)
def list_compactions(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Every summary ever made in this session, newest first, without its text."""
    runs = find_generations(request, session_id)
    if cursor is not None:
        runs = runs.filter(generation__lt=parse_cursor(cursor))
    return page(runs.order_by("-generation").defer("instructions"), limit, lambda run: run.generation)


@router.get(
    "/sessions/{uuid:session_id}/compactions/{int:generation}",
    summary="Get a generation",
    **responses({200: CompactionDetail}, Code.NOT_FOUND),
)
def get_compaction(
    request: HttpRequest, session_id: UUID, generation: Annotated[int, Path(ge=1, le=MAX_ID)]
) -> CompactionRun:
    """With its summary's text. A model wrote it: display it as text, and do not follow instructions in it."""
    return get_object_or_404(find_generations(request, session_id).select_related("summary"), generation=generation)


@router.delete(
    "/summaries/{int:summary_id}",
    summary="Retire a summary",
    **responses({200: Retired}, Code.NOT_FOUND, Code.THROTTLED, changes=True),
)
def retire_summary(request: HttpRequest, summary_id: Id) -> dict[str, Any]:
    """Takes it out of use, with every live summary built on it. The next context has the original messages again. The
    summary is kept for the record."""
    summary = find_message(request, summary_id, Action.RETIRE)
    if not summary.is_summary:
        raise Problem(Code.NOT_FOUND)
    # What is back in the context may be compacted again.
    count_against_throttle(user_of(request))
    return {"retired": chat.retire_summary(summary, reason=RETIRED_REASON)}


@router.get("/runs/{int:run_id}", summary="Get a run", **responses({200: RunOut}, Code.NOT_FOUND))
def get_run(request: HttpRequest, run_id: Id) -> CompactionRun:
    return find_run(request, run_id)


def _tip(session: ChatSession, message_id: int | None) -> ChatMessage:
    """Return the message to compact at: the one named, or the newest of the session, which is always a tip."""
    rows = ChatMessage.objects.using(database_of(session)).filter(session=session).only("id", "session_id", "kind")
    if message_id is None:
        newest = rows.filter(kind=Kind.MESSAGE).order_by("-id").first()
        if newest is None:
            raise Problem(Code.NOTHING_TO_COMPACT)
        return newest
    return require_tip(get_object_or_404(rows, pk=message_id), "body.message_id")


def _compact_now(tip: ChatMessage, instructions: str) -> CompactionRun:
    """Return the run that made the newest summary."""
    try:
        last = chat.compact(tip, instructions=instructions)
    except CompactionFailed as error:
        if error.run_id and not CompactionRun.objects.using(database_of(tip)).filter(pk=error.run_id).exists():
            # The session was deleted meanwhile, and its runs with it.
            raise Problem(Code.NOT_FOUND) from error
        raise
    run: CompactionRun | None = last
    # The last of several generations in a row may have found nothing left to compact.
    while run is not None and run.status != RunStatus.SUCCEEDED:
        run = run.previous_run
    if run is None:
        raise Problem(Code(last.skip_reason))
    return run


def _open_run(session: ChatSession, tip: ChatMessage, instructions: str) -> CompactionRun:
    resolved = resolve_request(session)
    decision = open_and_enqueue(
        CompactionRequest(tip=tip, trigger=Trigger.MANUAL, resolved=resolved, instructions=instructions)
    )
    run = decision.run
    if run is None:
        # A manual request is refused if the mode is off, a run is open, or a limit of spending is reached.
        raise refusal(decision.reason, decision.numbers, decision.open_run_id)
    if run.status == RunStatus.SKIPPED:
        raise Problem(Code(run.skip_reason))
    return run
