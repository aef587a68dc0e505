"""Asking for a compaction: in the background, or now and waiting for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from compaction_app import tasks
from compaction_app.compaction.connections import require_no_transaction
from compaction_app.compaction.execute import (
    Outcome,
    acompact_chat_history,
    compact_chat_history,
    next_now,
    raise_for,
)
from compaction_app.compaction.trigger import CompactionRequest, Opening, open_run
from compaction_app.conf import Mode
from compaction_app.context.reading import resolve_request_at
from compaction_app.context.request import ContextRequest
from compaction_app.exceptions import CompactionRefused, InvalidMessage
from compaction_app.messages.validation import check_text
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import Trigger

#: Characters.
MAX_INSTRUCTIONS = 2000
#: A run so old is not about to be enqueued any more by whoever opened it.
_OPENER_SECONDS = 10


def request_compaction(
    tip: ChatMessage,
    *,
    trigger: str = Trigger.THRESHOLD,
    instructions: str = "",
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> CompactionRun | None:
    """Compact in the background if it is needed: opens a run and enqueues it after the commit.

    None: not needed, or suppressed. Never waits for a model and never raises for a broker that is away.
    """
    check_tip(tip)
    _check_instructions(instructions)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    return request_opening(
        CompactionRequest(
            tip=tip,
            resolved=resolve_request_at(tip, request),
            trigger=_trigger(trigger),
            instructions=instructions,
        )
    ).run


def request_after(reply: ChatMessage, request: ContextRequest) -> CompactionRun | None:
    """:func:`request_compaction` at a reply, measured against what its context was asked with."""
    resolved = resolve_request_at(reply, request)
    return request_opening(CompactionRequest(tip=reply, trigger=Trigger.THRESHOLD, resolved=resolved)).run


def request_opening(request: CompactionRequest) -> Opening:
    """:func:`request_compaction` of a request whose arguments are checked; the opening tells why there is no run."""
    opening = open_run(request)
    if opening.run is not None and opening.run.is_open:
        inline = request.resolved.settings.mode == Mode.DETERMINISTIC
        transaction.on_commit(partial(_start, opening.run, inline), using=request.using, robust=True)
    return opening


def _start(run: CompactionRun, inline: bool) -> None:
    # A worker's timing would break replay: deterministic mode compacts before the next turn can begin.
    if inline:
        _carry_out(run)
        run.refresh_from_db()
    else:
        tasks.enqueue(run)


def compact(tip: ChatMessage, *, instructions: str = "") -> CompactionRun:
    """Compact now and wait for it. Returns the run: ``succeeded``, or ``skipped`` with nothing to compact.

    A run that waits with nobody at work on it is carried out instead of a new one. Raises
    :class:`CompactionRefused` where a run is at work or the mode is off, :class:`CompactionFailed` where no summary
    could be made; nothing is changed then.
    """
    return finish_now(open_now(tip, Trigger.MANUAL, ContextRequest(), instructions))


async def acompact(tip: ChatMessage, *, instructions: str = "") -> CompactionRun:
    """:func:`compact` with the model awaited: the event loop and the database thread stay free meanwhile."""
    return await afinish_now(await sync_to_async(open_now)(tip, Trigger.MANUAL, ContextRequest(), instructions))


def open_now(tip: ChatMessage, trigger: Trigger, request: ContextRequest, instructions: str = "") -> CompactionRun:
    """Open a run that its caller will carry out; :class:`CompactionRefused` with the reason if there is none."""
    check_tip(tip)
    require_no_transaction(database_of(tip))
    _check_instructions(instructions)
    resolved = resolve_request_at(tip, request)
    opening = open_run(CompactionRequest(tip=tip, trigger=trigger, resolved=resolved, instructions=instructions))
    if opening.open_run_id and (left := _run_of_nobody(opening.open_run_id, instructions, database_of(tip))):
        return left
    if opening.run is None:
        message = f"No compaction was started: {opening.reason}."
        raise CompactionRefused(message, reason=opening.reason, run_id=opening.open_run_id)
    return opening.run


def _run_of_nobody(run_id: int, instructions: str, using: str) -> CompactionRun | None:
    """The run in the way, where only the sweep would go on with it: it is carried out here and now.

    Not one that was opened a moment ago, which its opener is about to enqueue or to carry out. Instructions are for
    a summary made with them.
    """
    now = timezone.now()
    waiting = CompactionRun.objects.using(using).left_behind(now).filter(pk=run_id)
    if instructions:
        waiting = waiting.filter(instructions=instructions)
    return waiting.filter(Q(attempts__gt=0) | Q(created_at__lt=now - timedelta(seconds=_OPENER_SECONDS))).first()


def finish_now(run: CompactionRun) -> CompactionRun:
    """Carry a run out, and every follow-up generation; :class:`CompactionFailed` if it failed.

    A run that was over when it was opened, since there is nothing to compact, is given back as it is.
    """
    return raise_for(_carry_out(run), run.pk) if run.is_open else run


async def afinish_now(run: CompactionRun) -> CompactionRun:
    """:func:`finish_now` with the model awaited."""
    if not run.is_open:
        return run
    using = run._state.db or "default"
    outcome = await acompact_chat_history(run.pk, using)
    while (following := next_now(outcome)) is not None:
        outcome = await acompact_chat_history(following.pk, using)
    return raise_for(outcome, run.pk)


def _carry_out(run: CompactionRun) -> Outcome | None:
    using = run._state.db or "default"
    outcome = compact_chat_history(run.pk, using)
    while (following := next_now(outcome)) is not None:
        outcome = compact_chat_history(following.pk, using)
    return outcome


def _trigger(trigger: str) -> Trigger:
    if trigger not in list(Trigger):
        raise InvalidMessage(f"trigger must be one of {', '.join(Trigger)}, not {trigger!r}.", field="trigger")
    return Trigger(trigger)


def _check_instructions(instructions: str) -> None:
    check_text(instructions, "instructions")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise InvalidMessage(
            f"instructions have {len(instructions)} characters; {MAX_INSTRUCTIONS} are allowed.", field="instructions"
        )
