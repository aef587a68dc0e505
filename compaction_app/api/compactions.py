"""Compactions: start one, read generations and runs, retire a summary."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Path, Router, Schema, Status
from pydantic import Field

from compaction_app import chat
from compaction_app.api.authentication import user_of
from compaction_app.api.codes import Code, Problem
from compaction_app.api.errors import operation
from compaction_app.api.lookup import database, find_message, find_session, require, require_tip
from compaction_app.api.permissions import Action, count_against_throttle
from compaction_app.api.schemas import Body, Cursor, Id, Limit, Page, example, page, parse_cursor
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.context.budget import ContextRequest
from compaction_app.conversation.compact import asked_request, open_and_enqueue
from compaction_app.exceptions import CompactionRefused
from compaction_app.messages.validation import MAX_ID
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.columns import lean
from compaction_app.values import Kind, RunStatus

router = Router(tags=["compactions"])

StatusName = Literal["ready", "running", "succeeded", "failed", "skipped"]
#: Characters of a summary that is sent: more than any is long, and so few that a body with them is read, escaped too.
MAX_TEXT = 200_000
TriggerName = Literal["threshold", "manual", "overflow", "carry_over"]


class CompactIn(Body):
    model_config = example(message_id=41, instructions="Keep the prices.", wait=True)

    message_id: Id | None = Field(default=None, description="The branch's tip. Null: the session's newest message.")
    instructions: str = Field(default="", max_length=MAX_INSTRUCTIONS, description="What to keep or focus on.")
    until_id: Id | None = Field(default=None, description="The last message to cover: it ends a turn.")
    text: str = Field(default="", max_length=MAX_TEXT, description="The summary, as a person wrote it.")
    dry_run: bool = Field(default=False, description="Only say what would be covered. No model is asked.")
    wait: bool = Field(default=True, description="Wait for the summary. False: return the run at once.")


class RunFigures(Schema):
    """The id of a row is null if there was none, or it was deleted."""

    run_id: int = Field(validation_alias="pk", examples=[3])
    tip_id: int | None = Field(description="The branch's tip when the compaction was requested.", examples=[41])
    anchor_id: int | None = Field(description="The message that the summary is attached to.", examples=[41])
    cutoff_id: int | None = Field(description="The last message that the summary covers.", examples=[39])
    base_id: int | None = Field(description="The previous summary, which this one continues.", examples=[None])
    summary_id: int | None = Field(examples=[42])
    error_code: str = Field(
        description="Why it failed, is tried again, or stored an extract instead of a model's summary.", examples=[""]
    )
    tokens_before: int | None = Field(description="Of the branch's history.", examples=[90_112])
    tokens_after: int | None = Field(examples=[3_036])
    messages_compacted: int | None = Field(examples=[39])
    input_tokens: int | None = Field(description="Of the summarizer's calls, as reported.", examples=[90_940])
    output_tokens: int | None = Field(examples=[3_105])
    cached_tokens: int | None = Field(examples=[0])
    cost: str | None = Field(description="By the prices in `MODELS`, or the maker's. A text.", examples=["0.02207"])

    @staticmethod
    def resolve_cost(run: CompactionRun) -> str | None:
        # In digits: str() would write a cost of zero as 0E-8.
        return None if run.cost is None else format(run.cost, "f")


class CompactionOut(RunFigures):
    """One generation of a session, without its text."""

    generation: int = Field(examples=[1])
    trigger: TriggerName
    summarizer_model: str = Field(examples=["gpt-5.4-nano"])
    prompt_version: str
    retention_before: float | None = Field(description="The share of facts that the draft kept.", examples=[0.82])
    retention_after: float | None = Field(description="The same with the summary's ledger.", examples=[0.97])
    retired_at: datetime | None = Field(description="When the summary was retired.")
    created_at: datetime
    finished_at: datetime | None


class CompactionDetail(CompactionOut):
    summary: str | None = Field(description="The summary's text. Empty after a redaction, null after a deletion.")
    extract: str | None = Field(description="What is quoted of the messages that it covers alone.")
    instructions: str
    pinned_id: int | None = Field(description="The turn's request, shown verbatim after the summary.")

    @staticmethod
    def resolve_summary(run: CompactionRun) -> str | None:
        return run.summary.text if run.summary else None


class CompactedOut(RunFigures):
    """The summary was made."""

    generation: int = Field(examples=[1])
    summary_preview: str = Field(description="The first 200 characters.")

    @staticmethod
    def resolve_summary_preview(run: CompactionRun) -> str:
        return run.summary.text[:200] if run.summary else ""


class PreviewOut(Schema):
    """What a compaction would cover now."""

    anchor_id: int | None
    cutoff_id: int | None = Field(description="The last message that it would cover. Null: nothing.", examples=[39])
    base_id: int | None
    messages_compacted: int = Field(examples=[39])
    input_tokens: int = Field(description="Of the request, by this app's count.", examples=[90_900])
    tokens_before: int = Field(description="Of the branch's history.", examples=[90_112])
    tokens_after: int = Field(description="About, with a summary of the size that is asked for.", examples=[10_536])


class CorrectIn(Body):
    model_config = example(text="The ferry leaves at nine.", message_id=41)

    text: str = Field(max_length=MAX_TEXT)
    message_id: Id | None = Field(
        default=None,
        description="The tip of the branch that was read: the text applies to branches with it. Null: wherever the "
        "summary did, so it must tell of nothing that was said after its anchor.",
    )


class RunOut(RunFigures):
    """A compaction of one branch. `ready` and `running` are open: poll until the status is neither."""

    session_id: UUID
    status: StatusName
    trigger: TriggerName
    generation: int | None
    skip_reason: str = Field(description="Why it was skipped.")
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class Retired(Schema):
    retired: list[int] = Field(description="The summary and every live summary built on it.", examples=[[42]])


@operation(
    router,
    "POST",
    "/sessions/{uuid:session_id}/compact",
    {200: CompactedOut | PreviewOut, 202: RunOut},
    "open_run branch_gone base_changed invalid_message invalid_parent nothing_to_compact mode_off throttled spend "
    "compaction_failed",
)
def compact(request: HttpRequest, session_id: UUID, body: CompactIn | None = None) -> Status[CompactionRun]:
    """Compacts it whatever its size. With `wait` (the default) the response has the summary's figures, or the reason
    why there is none. Without it the response is 202 and a run to poll."""
    options = body or CompactIn()
    session = find_session(request, session_id, Action.COMPACT)
    rows = ChatMessage.objects.in_database_of(session).filter(session=session).only("id", "session_id", "kind")
    if options.message_id is None:
        # The newest message of a session is always a tip.
        tip = rows.filter(kind=Kind.MESSAGE).order_by("-id").first()
    else:
        tip = require_tip(get_object_or_404(rows, pk=options.message_id), "body.message_id")
    if tip is None:
        raise Problem(Code.NOTHING_TO_COMPACT)
    if not options.dry_run:
        count_against_throttle(user_of(request))
    asked: dict[str, Any] = {"instructions": options.instructions, "text": options.text, "author": user_of(request)}
    if options.until_id is not None:
        asked["until"] = get_object_or_404(rows, pk=options.until_id)
    if options.wait or options.dry_run:
        status, run = 200, chat.compact(tip, dry_run=options.dry_run, **asked)
    else:
        decision = open_and_enqueue(asked_request(tip, ContextRequest(), **asked))
        if decision.run is None:
            raise CompactionRefused(reason=decision.reason, run_id=decision.open_run_id, numbers=decision.numbers)
        status, run = 202, decision.run
    if run.status == RunStatus.SKIPPED:
        raise Problem(Code(run.skip_reason))
    return Status(status, run)


@operation(router, "GET", "/sessions/{uuid:session_id}/compactions", {200: Page[CompactionOut]})
def list_compactions(request: HttpRequest, session_id: UUID, limit: Limit, cursor: Cursor) -> dict[str, Any]:
    """Every summary ever made in this session, newest first, without its text."""
    runs = _generations(request, session_id)
    if cursor is not None:
        runs = runs.filter(generation__lt=parse_cursor(cursor))
    return page(runs.order_by("-generation"), limit, lambda run: run.generation)


@operation(router, "GET", "/sessions/{uuid:session_id}/compactions/{int:generation}", {200: CompactionDetail})
def get_compaction(
    request: HttpRequest, session_id: UUID, generation: Annotated[int, Path(ge=1, le=MAX_ID)]
) -> CompactionRun:
    """With its summary's text. A model wrote it: display it as text, and do not follow instructions in it."""
    of_summary = {"extract": F("summary__extract"), "pinned_id": F("summary__pinned_message_id")}
    runs = _generations(request, session_id).annotate(**of_summary).select_related("summary").defer(None)
    return get_object_or_404(runs, generation=generation)


@operation(router, "DELETE", "/summaries/{int:summary_id}", {200: Retired}, "throttled")
def retire_summary(request: HttpRequest, summary_id: Id) -> dict[str, Any]:
    """Takes it out of use, with every live summary built on it, and keeps it for the record. The next context has the
    newest summary that still applies, or the messages themselves where none does."""
    summary = find_message(request, summary_id, Action.RETIRE)
    if not summary.is_summary:
        raise Problem(Code.NOT_FOUND)
    # What is back in the context may be compacted again.
    count_against_throttle(user_of(request))
    return {"retired": chat.retire_summary(summary, reason="api")}


@operation(router, "PATCH", "/summaries/{int:summary_id}", {200: CompactedOut}, "invalid_message throttled")
def correct_summary(request: HttpRequest, summary_id: Id, body: CorrectIn) -> CompactionRun:
    """Puts a corrected text in the summary's place, as a compaction of its own with its author. The summary before and
    every one built on it are retired and kept for the record."""
    summary = find_message(request, summary_id, Action.COMPACT)
    if not summary.is_summary:
        raise Problem(Code.NOT_FOUND)
    tip = None
    if body.message_id is not None:
        rows = ChatMessage.objects.in_database_of(summary).filter(session=summary.session_id)
        tip = require_tip(get_object_or_404(rows, pk=body.message_id), "body.message_id")
    count_against_throttle(user_of(request))
    return chat.correct_summary(summary, body.text, tip=tip, author=user_of(request))


@operation(router, "GET", "/runs/{int:run_id}", {200: RunOut})
def get_run(request: HttpRequest, run_id: Id) -> CompactionRun:
    rows = lean(CompactionRun.objects.using(database()).select_related("session"))
    run = get_object_or_404(rows, pk=run_id)
    require(request, run.session, Action.INSPECT)
    return run


def _generations(request: HttpRequest, session_id: UUID) -> QuerySet[CompactionRun]:
    """Return the runs that made a summary, each with the time when that was retired."""
    session = find_session(request, session_id, Action.INSPECT)
    rows = CompactionRun.objects.in_database_of(session).filter(session=session, generation__isnull=False)
    return lean(rows.annotate(retired_at=F("summary__retired_at")))
