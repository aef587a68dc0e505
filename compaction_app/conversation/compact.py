"""Asking for a compaction: in the background, or now and waiting for it."""

from datetime import timedelta
from typing import Any, Unpack

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db.models import Q

from compaction_app import tasks
from compaction_app.compaction.execute import carry_out_generations, wait_for_end
from compaction_app.compaction.execute import dry_run as look_at
from compaction_app.compaction.trigger import CompactionRequest, Decision, open_run
from compaction_app.conf import Mode
from compaction_app.context.budget import ContextOptions, ContextRequest
from compaction_app.context.reading import resolve_request_at
from compaction_app.exceptions import CompactionRefused, InvalidMessage
from compaction_app.messages.validation import check_text
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.database import after_commit, now_of, require_no_transaction
from compaction_app.spending import describe_overspending
from compaction_app.summarizers.drafts import written_summary
from compaction_app.summarizers.prompts import MAX_INSTRUCTIONS, OVERSIZE_FACTOR
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, without_waiting
from compaction_app.tree.branches import check_instance, check_tip
from compaction_app.tree.lanes import is_on_branch
from compaction_app.values import SkipReason, Suppression, Trigger, TriggerName

#: After this time the code that opened a run no longer enqueues it.
_OPENER_SECONDS = 10
MODE_IS_OFF = 'In the mode "off" nothing is compacted: change MODE, of the settings or of the session.'


def request_compaction(
    tip: ChatMessage,
    *,
    trigger: TriggerName = Trigger.THRESHOLD,
    instructions: str = "",
    until: ChatMessage | None = None,
    text: str = "",
    author: Any = None,
    **options: Unpack[ContextOptions],
) -> CompactionRun | None:
    """Compact in the background if it is needed: opens a run and enqueues it after the commit.

    ``trigger="manual"`` compacts whatever threshold, cool-down and breaker say. ``instructions``: for this summary, at
    most :data:`MAX_INSTRUCTIONS` characters. ``until``, ``text`` and ``author`` are those of :func:`compact`. The other
    arguments are those of :func:`get_context`: pass what the turn was asked with. None: not needed, or suppressed.
    Never waits for a model and never raises for a broker that is down. In the mode ``deterministic`` the run is carried
    out before it returns, or when an open transaction is committed.
    """
    check_tip(tip)
    if trigger not in (known := [one for one in Trigger if one != Trigger.CARRY_OVER]):
        raise InvalidMessage(f"trigger must be one of {', '.join(known)}, not {trigger!r}.", field="trigger")
    request = ContextRequest.of(**options)
    asked = {"instructions": instructions, "until": until, "text": text, "author": author}
    return open_and_enqueue(asked_request(tip, request, trigger=Trigger(trigger), **asked)).run


def open_and_enqueue(request: CompactionRequest) -> Decision:
    """:func:`request_compaction` of a checked request; the decision says why there is no run."""
    decision = open_run(request)
    if decision.run is not None and decision.run.is_open:
        after_commit(request.tip, start, decision.run)
    return decision


def start(run: CompactionRun) -> None:
    """Let a worker carry out an open run."""
    # A worker's timing would break replay: deterministic mode compacts before the next turn can begin.
    if run.settings["MODE"] == Mode.DETERMINISTIC:
        without_waiting(carry_out_generations(run, BLOCKING))
        run.refresh_from_db(using=run._state.db)
    else:
        tasks.enqueue(run)


def compact(
    tip: ChatMessage,
    *,
    instructions: str = "",
    until: ChatMessage | None = None,
    text: str = "",
    author: Any = None,
    dry_run: bool = False,
) -> CompactionRun:
    """Compact now and wait for it. Returns the run: ``succeeded``, or ``skipped`` with nothing to compact.

    ``until``: the last message to cover, which ends a turn; else :class:`InvalidMessage` says why not. ``text``: the
    summary, as a person wrote it, the ``author``; no model is asked. It covers what no summary does yet, and takes the
    place of the one before, so it tells that too: one that is in use is changed by :func:`correct_summary`.
    ``dry_run`` stores nothing and asks nobody: the run that is returned says what would be covered, with the size of
    the request as ``input_tokens``; an open run or a limit may still be in the way.

    An open run that no worker will take is carried out instead of a new one. Raises :class:`CompactionRefused` where
    a worker has a run of this branch, the mode is off or a limit of ``SPENDING_LIMITS`` is reached,
    :class:`CompactionFailed` where a summary could not be made; its ``generation`` says what of it is stored.
    """
    run = _open_or_look(**locals())
    return run if dry_run else without_waiting(wait_for_end(run, BLOCKING))


async def acompact(
    tip: ChatMessage,
    *,
    instructions: str = "",
    until: ChatMessage | None = None,
    text: str = "",
    author: Any = None,
    dry_run: bool = False,
) -> CompactionRun:
    """:func:`compact` with the model awaited: the event loop and the database thread stay free meanwhile."""
    run = await sync_to_async(_open_or_look)(**locals())
    return run if dry_run else await wait_for_end(run, AWAITED)


def _open_or_look(tip: ChatMessage, *, dry_run: bool = False, **given: Any) -> CompactionRun:
    if not dry_run:
        return open_now(tip, Trigger.MANUAL, ContextRequest(), **given)
    request = asked_request(tip, ContextRequest(), **given)
    if request.resolved.settings.mode == Mode.OFF:
        raise CompactionRefused(MODE_IS_OFF, reason=SkipReason.MODE_OFF)
    return look_at(request)


def asked_request(
    tip: ChatMessage,
    request: ContextRequest,
    *,
    instructions: str = "",
    until: ChatMessage | None = None,
    text: str = "",
    author: Any = None,
    trigger: Trigger = Trigger.MANUAL,
) -> CompactionRequest:
    """What is asked for, checked. Whoever says where to cut, or writes, compacts by hand."""
    check_tip(tip)
    _check_instructions(instructions)
    check_user(author, "author")
    if until is not None:
        check_instance(until, ChatMessage, "until")
        if not is_on_branch(until, tip):
            raise InvalidMessage(
                f"Message {until.pk} is not on the branch that ends at message {tip.pk}.", field="until"
            )
    resolved = resolve_request_at(tip, request)
    if text != "":
        text = written_summary(text, int(OVERSIZE_FACTOR * resolved.budget.summary_target), resolved.count)
    return CompactionRequest(
        tip=tip,
        trigger=Trigger.MANUAL if text or until else trigger,
        resolved=resolved,
        instructions=instructions,
        until=until.pk if until else None,
        text=text,
        author=author,
    )


def check_user(user: Any, name: str) -> None:
    if user is not None and not (isinstance(user, get_user_model()) and user.pk is not None):
        raise InvalidMessage(f"{name} must be a stored user, not {type(user).__name__}.", field=name)


def open_now(tip: ChatMessage, trigger: Trigger, request: ContextRequest, **given: Any) -> CompactionRun:
    """Open a run for its caller to carry out; :class:`CompactionRefused` with the reason if there is none."""
    check_tip(tip)
    require_no_transaction(tip)
    return opened(asked_request(tip, request, trigger=trigger, **given))


def opened(asked: CompactionRequest) -> CompactionRun:
    """:func:`open_now` of a checked request."""
    decision = open_run(asked)
    if decision.open_run_id and (waiting := _waiting_run(decision.open_run_id, asked)):
        return waiting
    return opened_by(decision)


def opened_by(decision: Decision) -> CompactionRun:
    if decision.run is None:
        why = describe_overspending(decision.numbers) if decision.reason == Suppression.SPEND else ""
        raise CompactionRefused(
            f"No compaction was started: {decision.reason}. {why}".strip(),
            reason=decision.reason,
            run_id=decision.open_run_id,
            numbers=decision.numbers,
        )
    return decision.run


def _waiting_run(run_id: int, asked: CompactionRequest) -> CompactionRun | None:
    """The run in the way, if only the sweep would take it: the caller carries it out here and now.

    Not a run that was opened a moment ago, since the code that opened it is about to enqueue it or to carry it out.
    Only a run that was asked for the same, where something was asked for.
    """
    now = now_of(asked.tip)
    waiting = CompactionRun.objects.in_database_of(asked.tip).left_behind(now).filter(pk=run_id)
    if asked.carried:
        waiting = waiting.filter(trigger=asked.trigger, tip=asked.tip, messages_compacted=asked.carried)
    else:
        waiting = waiting.exclude(trigger=Trigger.CARRY_OVER)
    if asked.instructions:
        waiting = waiting.filter(instructions=asked.instructions)
    if (asked.until or asked.text) and not asked.carried:
        waiting = waiting.filter(is_cut_given=asked.until is not None, written=asked.text)
        waiting = waiting.filter(cutoff=asked.until) if asked.until else waiting
    return waiting.filter(Q(attempts__gt=0) | Q(created_at__lt=now - timedelta(seconds=_OPENER_SECONDS))).first()


def _check_instructions(instructions: str) -> None:
    check_text(instructions, "instructions")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise InvalidMessage(
            f"instructions have {len(instructions)} characters; {MAX_INSTRUCTIONS} are allowed.", field="instructions"
        )
