"""Deciding whether a branch is to be compacted, and opening the run that will do it.

The order of deciding goes from cheap to dear: the trigger's numbers (one row, no content), the free layers,
the host's policy, then under the session's lock the guard and the plan. The database allows one open run per
anchor; the guard also refuses where an open run's work would reach into this branch.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from compaction_app.compaction import notify, runs
from compaction_app.compaction.guard import held_back
from compaction_app.compaction.planning import plan_compaction
from compaction_app.compaction.policies import ask_policy, code_of
from compaction_app.conf import Mode
from compaction_app.context.budget import get_compaction_params
from compaction_app.context.reading import pruned_history_tokens
from compaction_app.context.request import ResolvedRequest
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.models.managers import lock_session
from compaction_app.summarizers.prompts import prompt_version
from compaction_app.telemetry import log
from compaction_app.tree import branches
from compaction_app.values import (
    Branch,
    CompactionPlan,
    EventKind,
    PolicyDecision,
    RunStatus,
    Skip,
    SkipReason,
    Strategy,
    Suppression,
    Trigger,
)

logger = logging.getLogger("compaction_app.opening")


@dataclass(frozen=True, slots=True)
class Opening:
    """A run to enqueue, or why there is none ("" where no compaction is wanted)."""

    run: CompactionRun | None
    reason: str = ""
    #: What the reason stands on.
    numbers: Mapping[str, Any] = field(default_factory=dict)
    #: The same was said of this tip before.
    repeated: bool = False
    #: The open run that is in the way, where that is the reason.
    open_run_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionRequest:
    """A compaction that is asked for at a tip."""

    tip: ChatMessage
    trigger: Trigger
    resolved: ResolvedRequest
    instructions: str = ""
    policy_line: str = ""
    #: The policy said force: cool-down and breaker are passed over.
    forced: bool = False
    #: The partial generation that this one goes on from.
    previous: CompactionRun | None = None

    @property
    def using(self) -> str:
        return branches.database_of(self.tip)

    @property
    def focused(self) -> bool:
        return bool(self.instructions or self.policy_line)


def open_run(request: CompactionRequest) -> Opening:
    """Open a run for the request, if there is something to do and nothing in the way."""
    opening = _open(request)
    say_why_not(request, opening)
    return opening


def say_why_not(request: CompactionRequest, opening: Opening) -> None:
    """One log line where no run was opened: why, and the numbers behind it."""
    if opening.run is not None:
        return
    # What is said at every turn of every chat would drown the rest.
    level = logging.DEBUG if opening.repeated or not opening.reason else logging.INFO
    log(
        logger,
        level,
        "skip",
        session=request.tip.session_id,
        tip=request.tip.pk,
        reason=opening.reason or "under_threshold",
        trigger=request.trigger,
        **opening.numbers,
    )


def _open(request: CompactionRequest) -> Opening:
    if request.resolved.settings.mode == Mode.OFF:
        return Opening(None, SkipReason.MODE_OFF)
    if request.trigger == Trigger.THRESHOLD:
        tokens = pruned_history_tokens(request.tip, request.resolved)
        if not get_compaction_params(tokens, request.resolved.budget).should_compact:
            return _under_threshold(request, tokens)
        request, decision = _ask_policy(request)
        if decision.action == "defer":
            return _suppress(request, Suppression.POLICY, {"code": code_of(decision)})
    with transaction.atomic(using=request.using):
        lock_session(request.tip.session_id, request.using)
        return open_locked(request)


def open_locked(request: CompactionRequest) -> Opening:
    """Check again and open, with the session's lock held."""
    resolved = request.resolved
    branch = branches.load_structure(request.tip.pk, request.using)
    over = get_compaction_params(branch.history_tokens, resolved.budget).should_compact
    if request.trigger == Trigger.THRESHOLD and not request.previous and not over:
        return _under_threshold(request, branch.history_tokens)
    seen = branches.is_already_compacted(branch.base, request.tip.pk, branch.tip_depth, request.using)
    branch = replace(branch, already_compacted=seen)
    plan = plan_compaction(
        branch,
        branch.base,
        resolved.budget,
        resolved.settings,
        focused=request.focused,
        follow_up=request.previous is not None,
    )
    if (open_run_id := _open_run_in_the_way(request, branch, plan)) is not None:
        return replace(_suppress(request, Suppression.OPEN_RUN), open_run_id=open_run_id)
    if isinstance(plan, Skip):
        return _nothing_to_do(request, branch, over)
    # A next generation goes on with what the last one began; its cool-down would leave the work half done.
    guarded = request.trigger == Trigger.THRESHOLD and not request.forced and request.previous is None
    if guarded and (held := held_back(branch, resolved.budget, resolved.settings, request.using)):
        return _suppress(request, *held)
    return _create(request, branch, plan)


def _under_threshold(request: CompactionRequest, history: int) -> Opening:
    return Opening(None, numbers={"history": history, "threshold": request.resolved.budget.threshold})


def _ask_policy(request: CompactionRequest) -> tuple[CompactionRequest, PolicyDecision]:
    decision = ask_policy(request.resolved.settings.policy, request.tip, request.resolved.budget)
    # Whoever asked may have forced it already: a session that is brought to rest waits for no cool-down.
    forced = request.forced or decision.action == "force"
    return replace(request, forced=forced, policy_line=decision.prompt_line), decision


def _open_run_in_the_way(request: CompactionRequest, branch: Branch, plan: CompactionPlan | Skip) -> int | None:
    """The id of an open run whose anchor lies in this branch's tail, or on whose branch the new anchor would lie."""
    open_runs = CompactionRun.objects.using(request.using).filter(session_id=request.tip.session_id).open()
    tail = {message.id for message in branch.tail}
    for run in open_runs.only("id", "anchor_id", "tip_id"):
        if run.anchor_id in tail:
            return run.pk
        if (
            isinstance(plan, CompactionPlan)
            and run.tip_id is not None
            and branches.is_on_branch(plan.anchor_id, plan.anchor_depth, run.tip_id, request.using)
        ):
            return run.pk
    return None


def _nothing_to_do(request: CompactionRequest, branch: Branch, over: bool) -> Opening:
    if request.previous is not None:
        return Opening(None, SkipReason.NOTHING_TO_COMPACT)
    if request.trigger != Trigger.THRESHOLD:
        return Opening(_skipped_run(request, branch), SkipReason.NOTHING_TO_COMPACT)
    said = CompactionEvent.objects.using(request.using).filter(
        session_id=request.tip.session_id,
        message_id=request.tip.pk,
        kind=EventKind.SUPPRESSED,
        payload__reason=Suppression.IRREDUCIBLE,
    )
    numbers = {"history_tokens": branch.history_tokens}
    if over and not said.exists():
        return _suppress(request, Suppression.IRREDUCIBLE, numbers)
    return Opening(None, Suppression.IRREDUCIBLE, numbers, repeated=True)


def _suppress(request: CompactionRequest, reason: Suppression, numbers: dict[str, Any] | None = None) -> Opening:
    numbers = numbers or {}
    if request.trigger == Trigger.THRESHOLD and request.previous is None:
        runs.record(
            request.tip.session_id,
            EventKind.SUPPRESSED,
            using=request.using,
            message_id=request.tip.pk,
            payload={"reason": reason, **numbers},
        )
    notify.suppressed(Strategy.AUTO_COMPACT, request.trigger, reason, request.using)
    return Opening(None, reason, numbers)


def _create(request: CompactionRequest, branch: Branch, plan: CompactionPlan) -> Opening:
    run = _new_run(request, branch)
    run.anchor_id, run.cutoff_id = plan.anchor_id, plan.cutoff.id
    try:
        with transaction.atomic(using=request.using):
            run.save(using=request.using, force_insert=True)
    except IntegrityError:
        # Only reached where something wrote a run without the session's lock: the index still holds rule 10.
        return _suppress(request, Suppression.OPEN_RUN)
    if request.trigger == Trigger.THRESHOLD and request.previous is None:
        runs.record(
            run.session_id,
            EventKind.THRESHOLD_HIT,
            using=request.using,
            run=run,
            message_id=request.tip.pk,
            payload={
                "history_tokens": branch.history_tokens,
                "threshold": request.resolved.budget.threshold,
                "window": request.resolved.budget.window,
                **_estimate_of(request),
            },
        )
    return Opening(run)


def _estimate_of(request: CompactionRequest) -> dict[str, Any]:
    """How far the estimate that the decision stands on was off when a provider last counted, if it has."""
    resolved = request.resolved
    known = resolved.session.token_calibration.get(resolved.model)
    error = (request.tip.sent_context or {}).get("estimate_error")
    said = {"calibration": known, "estimate_error": error}
    return {name: value for name, value in said.items() if value is not None}


def _skipped_run(request: CompactionRequest, branch: Branch) -> CompactionRun:
    run = _new_run(request, branch)
    run.status, run.skip_reason = RunStatus.SKIPPED, SkipReason.NOTHING_TO_COMPACT
    run.finished_at = timezone.now()
    run.save(using=request.using, force_insert=True)
    values = {"run": run.pk, "session": run.session_id, "reason": run.skip_reason, "history": branch.history_tokens}
    log(logger, logging.INFO, "skip", **values)
    notify.run_ended(run, request.using)
    return run


def _new_run(request: CompactionRequest, branch: Branch) -> CompactionRun:
    resolved = request.resolved
    return CompactionRun(
        session_id=request.tip.session_id,
        tip_id=request.tip.pk,
        base_id=branch.base.id if branch.base else None,
        previous_run=request.previous,
        trigger=request.trigger,
        instructions=request.instructions,
        policy_line=request.policy_line,
        prompt_version=prompt_version(resolved.settings.summary_prompt),
        nonce=secrets.token_hex(8),
        settings=resolved.settings.snapshot(),
        budget=asdict(resolved.budget),
        reserved_tokens=resolved.reserved_parts.total,
        tokens_before=branch.history_tokens,
        erasures_seen=resolved.session.erasures,
    )
