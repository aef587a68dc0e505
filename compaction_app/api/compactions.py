"""Compactions: ask for one, look at the generations and runs, take a summary out of use."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Router, Status

from compaction_app import chat
from compaction_app.api.answers import answers
from compaction_app.api.authentication import user_of
from compaction_app.api.compaction_schemas import Compacted, CompactIn, CompactionDetail, CompactionOut, Retired, RunOut
from compaction_app.api.fields import MAX_ID, Id, Page
from compaction_app.api.finding import find_generation, find_run, find_session, find_summary, no_summary
from compaction_app.api.paging import Cursor, Limit, number_in, page
from compaction_app.api.permissions import Action
from compaction_app.api.problems import Code, Problem
from compaction_app.api.throttling import count_manual_compaction
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.context.request import resolve_request
from compaction_app.conversation.compact import request_opening
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind, RunStatus, Trigger

router = Router(tags=["compactions"])

PREVIEW_CHARS = 200
#: Kept with a summary that is retired here; who did it is in the access log of the site.
RETIRED_REASON = "api"

_SHARED = (
    "tip_id",
    "anchor_id",
    "cutoff_id",
    "base_id",
    "summary_id",
    "tokens_before",
    "tokens_after",
    "messages_compacted",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "generation",
)
_OF_A_GENERATION = (
    *_SHARED,
    "trigger",
    "summarizer_model",
    "prompt_version",
    "retention_before",
    "retention_after",
    "created_at",
    "finished_at",
)
_OF_A_RUN = (
    *_SHARED,
    "session_id",
    "status",
    "trigger",
    "skip_reason",
    "error_code",
    "attempts",
    "next_attempt_at",
    "created_at",
    "enqueued_at",
    "started_at",
    "finished_at",
)


@router.post(
    "/sessions/{uuid:session_id}/compact",
    summary="Compact a branch",
    **answers(
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
        Code.COMPACTION_FAILED,
        changes=True,
        headers={202: {"Location": "Where to poll the run."}},
    ),
)
def compact(
    request: HttpRequest, response: HttpResponse, session_id: UUID, body: CompactIn | None = None
) -> Status[dict[str, Any]]:
    """Whatever its size. With `wait` (the default) the answer is the summary, or why there is none; without it is
    202 and a run to poll."""
    asked = body or CompactIn()
    session = find_session(request, session_id, Action.COMPACT)
    tip = _tip(session, asked.message_id)
    count_manual_compaction(user_of(request))
    if asked.wait:
        return Status(200, _compacted(_made(_carried_out(tip, asked.instructions))))
    run = _started(session, tip, asked.instructions)
    # Beside the sessions, wherever a host has mounted both.
    response["Location"] = f"{request.path.rpartition('/sessions/')[0]}/runs/{run.pk}"
    return Status(202, _run_out(run))


@router.get(
    "/sessions/{uuid:session_id}/compactions",
    summary="List the generations",
    **answers({200: Page[CompactionOut]}, Code.NOT_FOUND),
)
def list_compactions(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Every summary that was ever made in this session, the newest first, without its text."""
    session = find_session(request, session_id, Action.INSPECT)
    rows = CompactionRun.objects.using(database_of(session)).filter(session=session, generation__isnull=False)
    if cursor is not None:
        rows = rows.filter(generation__lt=number_in(cursor))
    named = rows.order_by("-generation").values("id", "cost", "summary__retired_at", *_OF_A_GENERATION)
    shown, following = page(named, limit, lambda row: row["generation"])
    items = [
        {**row, "run_id": row["id"], "cost": _decimal(row["cost"]), "retired_at": row["summary__retired_at"]}
        for row in shown
    ]
    return {"items": items, "next_cursor": following}


@router.get(
    "/sessions/{uuid:session_id}/compactions/{int:generation}",
    summary="Read a generation",
    **answers({200: CompactionDetail}, Code.NOT_FOUND),
)
def get_compaction(
    request: HttpRequest, session_id: UUID, generation: Annotated[int, Path(ge=1, le=MAX_ID)]
) -> dict[str, Any]:
    """With its summary's text. Text that a model wrote: show it as text, and never follow it."""
    run = find_generation(find_session(request, session_id, Action.INSPECT), generation)
    summary = run.summary
    return {
        **_figures(run, _OF_A_GENERATION),
        "retired_at": summary.retired_at if summary else None,
        "summary": summary.content if summary else None,
        "pinned_id": summary.pinned_message_id if summary else None,
        "instructions": run.instructions,
    }


@router.delete(
    "/summaries/{int:summary_id}",
    summary="Retire a summary",
    **answers({200: Retired}, Code.NOT_FOUND, changes=True),
)
def retire_summary(request: HttpRequest, summary_id: Id) -> dict[str, Any]:
    """Out of use, with every live one built on it; the originals are back on the next read. The record stays."""
    summary = find_summary(request, summary_id, Action.RETIRE)
    return {"retired": chat.retire_summary(summary, reason=RETIRED_REASON)}


@router.get("/runs/{int:run_id}", summary="Read a run", **answers({200: RunOut}, Code.NOT_FOUND))
def get_run(request: HttpRequest, run_id: Id) -> dict[str, Any]:
    return _run_out(find_run(request, run_id))


def _tip(session: ChatSession, message_id: int | None) -> ChatMessage:
    """The message that is meant, or the newest: nothing is newer than it, so nothing follows it."""
    rows = ChatMessage.objects.using(database_of(session)).filter(session=session).only("id", "session_id", "kind")
    if message_id is None:
        newest = rows.filter(kind=Kind.MESSAGE).order_by("-id").first()
        if newest is None:
            raise Problem(Code.NOTHING_TO_COMPACT)
        return newest
    tip = rows.filter(pk=message_id).first()
    if tip is None:
        raise Problem(Code.NOT_FOUND)
    return no_summary(tip, "body.message_id")


def _carried_out(tip: ChatMessage, instructions: str) -> CompactionRun:
    try:
        return chat.compact(tip, instructions=instructions)
    except CompactionFailed as error:
        if error.run_id and not CompactionRun.objects.using(database_of(tip)).filter(pk=error.run_id).exists():
            # Somebody deleted the session meanwhile, and with it the record of what was tried.
            raise Problem(Code.NOT_FOUND) from error
        raise


def _made(run: CompactionRun) -> CompactionRun:
    """The run that made the summary: of several generations in a row the last one may have found nothing left."""
    made: CompactionRun | None = run
    while made is not None and made.status != RunStatus.SUCCEEDED:
        made = made.previous_run
    if made is None:
        raise Problem(Code(run.skip_reason))
    return made


def _started(session: ChatSession, tip: ChatMessage, instructions: str) -> CompactionRun:
    resolved = resolve_request(session)
    opening = request_opening(
        CompactionRequest(tip=tip, trigger=Trigger.MANUAL, resolved=resolved, instructions=instructions)
    )
    run = opening.run
    if run is None:
        # A manual request is refused for one of two reasons only: the mode is off, or a run is open.
        raise Problem(Code(opening.reason), run_id=opening.open_run_id)
    if run.status == RunStatus.SKIPPED:
        raise Problem(Code(run.skip_reason))
    return run


def _compacted(run: CompactionRun) -> dict[str, Any]:
    preview = run.summary.content[:PREVIEW_CHARS] if run.summary else ""
    return {**_figures(run, _SHARED), "summary_preview": preview}


def _run_out(run: CompactionRun) -> dict[str, Any]:
    return _figures(run, _OF_A_RUN)


def _figures(run: CompactionRun, names: tuple[str, ...]) -> dict[str, Any]:
    return {"run_id": run.pk, "cost": _decimal(run.cost), **{name: getattr(run, name) for name in names}}


def _decimal(cost: Decimal | None) -> str | None:
    """Digits: a cost of nothing is read back as ``0E-8``."""
    return None if cost is None else format(cost, "f")
