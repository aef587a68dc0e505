"""Deciding whether a branch is to be compacted, and opening the run that will do it.

The order of deciding goes from cheap to dear: the trigger's numbers (one row, no content), the free layers,
the host's policy, then under the session's lock the guard and the plan. The database allows one open run per
anchor; the guard also refuses where an open run's work would reach into this branch.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from compaction_app import branches, runs
from compaction_app.allowances import Allowances
from compaction_app.budget import get_compaction_params
from compaction_app.conf import load
from compaction_app.ladder import history_after_pruning, history_tokens
from compaction_app.managers import lock_session
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.planning import plan_compaction
from compaction_app.prompts import prompt_version
from compaction_app.values import (
    Branch,
    CompactionPlan,
    ErrorCode,
    EventKind,
    Mode,
    PolicyDecision,
    RunStatus,
    Skip,
    SkipReason,
    Suppression,
    Trigger,
)

logger = logging.getLogger("compaction_app.opening")

#: Two drafts in a row that did not shrink open the breaker, whatever BREAKER_FAILURES says.
NO_PROGRESS_FAILURES = 2
_RECENT_RUNS = 50
POLICY_ACTIONS = ("allow", "defer", "force")


@dataclass(frozen=True, slots=True)
class Opening:
    """A run to enqueue, or why there is none ("" where no compaction is wanted)."""

    run: CompactionRun | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for at a tip."""

    tip: ChatMessage
    trigger: Trigger
    allowances: Allowances
    instructions: str = ""
    policy_line: str = ""
    #: The policy said force: cool-down and breaker are passed over.
    forced: bool = False
    #: The partial generation that this one goes on from.
    previous: CompactionRun | None = None

    @property
    def using(self) -> str:
        return branches.using_of(self.tip)

    @property
    def focused(self) -> bool:
        return bool(self.instructions or self.policy_line)


def is_over_threshold(tip: ChatMessage, allowances: Allowances) -> bool:
    """Whether the history at the tip is over its threshold even after the free layers."""
    if allowances.settings.mode == Mode.OFF:
        return False
    using, budget = branches.using_of(tip), allowances.budget
    history = branches.history_at(tip.pk, using)
    if not get_compaction_params(history.tokens, budget).should_compact:
        return False
    branch = window_at(tip, allowances)
    pruned, _ = history_after_pruning(branch, budget, allowances.settings, allowances.count)
    return get_compaction_params(history_tokens(branch, pruned.messages), budget).should_compact


def window_at(tip: ChatMessage, allowances: Allowances) -> Branch:
    """The branch at a tip as far back as its window can show it; all of it where the mode is off."""
    settings = allowances.settings
    if settings.mode == Mode.OFF:
        return branches.load_verbatim(tip.pk, branches.using_of(tip))
    return branches.load_window(
        tip.pk,
        branches.using_of(tip),
        limit=allowances.budget.available,
        preserve=settings.preserve_recent_messages,
        prune_bytes=settings.prune_tool_result_bytes,
    )


def open_run(request: Request) -> Opening:
    """Open a run for the request, if there is something to do and nothing in the way."""
    if request.allowances.settings.mode == Mode.OFF:
        return Opening(None, SkipReason.MODE_OFF)
    if request.trigger == Trigger.THRESHOLD:
        if not is_over_threshold(request.tip, request.allowances):
            return Opening(None)
        request, decision = _ask_policy(request)
        if decision.action == "defer":
            return _suppress(request, Suppression.POLICY, {"code": decision.reason[:100]})
    with transaction.atomic(using=request.using):
        lock_session(request.tip.session_id, request.using)
        return open_locked(request)


def open_locked(request: Request) -> Opening:
    """Check again and open, with the session's lock held."""
    allowances = request.allowances
    branch = branches.load_structure(request.tip.pk, request.using)
    over = get_compaction_params(branch.history_tokens, allowances.budget).should_compact
    if request.trigger == Trigger.THRESHOLD and not request.previous and not over:
        return Opening(None)
    seen = branches.seen_by(branch.base, request.tip.pk, branch.tip_depth, request.using)
    branch = replace(branch, seen_by_base=seen)
    plan = plan_compaction(
        branch,
        branch.base,
        allowances.budget,
        allowances.settings,
        focused=request.focused,
        follow_up=request.previous is not None,
    )
    if _open_run_in_the_way(request, branch, plan):
        return _suppress(request, Suppression.OPEN_RUN)
    if isinstance(plan, Skip):
        return _nothing_to_do(request, branch, over)
    # A next generation goes on with what the last one began; its cool-down would leave the work half done.
    guarded = request.trigger == Trigger.THRESHOLD and not request.forced and request.previous is None
    if guarded and (held := _guard(request, branch)):
        return _suppress(request, *held)
    return _create(request, branch, plan)


def _ask_policy(request: Request) -> tuple[Request, PolicyDecision]:
    path = request.allowances.settings.policy
    if path is None:
        return request, PolicyDecision()
    try:
        decision = load(path)(request.tip, request.allowances.budget) or PolicyDecision()
    except Exception:
        # The host's code in a chat turn, which never fails because of compaction (rule 11): as if it allowed.
        logger.exception("error session=%s tip=%s in POLICY %s", request.tip.session_id, request.tip.pk, path)
        return request, PolicyDecision()
    if decision.action not in POLICY_ACTIONS:
        logger.error("policy %s answered %r; known are %s", path, decision.action, ", ".join(POLICY_ACTIONS))
        return request, PolicyDecision()
    forced = decision.action == "force"
    return replace(request, forced=forced, policy_line=decision.prompt_line), decision


def _open_run_in_the_way(request: Request, branch: Branch, plan: CompactionPlan | Skip) -> bool:
    """An open run whose anchor lies in this branch's tail, or on whose branch the new anchor would lie."""
    open_runs = CompactionRun.objects.using(request.using).filter(session_id=request.tip.session_id).open()
    tail = {message.id for message in branch.tail}
    for run in open_runs.only("id", "anchor_id", "tip_id"):
        if run.anchor_id in tail:
            return True
        if (
            isinstance(plan, CompactionPlan)
            and run.tip_id is not None
            and branches.is_on_branch(plan.anchor_id, plan.anchor_depth, run.tip_id, request.using)
        ):
            return True
    return False


def _nothing_to_do(request: Request, branch: Branch, over: bool) -> Opening:
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
    if over and not said.exists():
        return _suppress(request, Suppression.IRREDUCIBLE, {"history_tokens": branch.history_tokens})
    return Opening(None, Suppression.IRREDUCIBLE)


def _guard(request: Request, branch: Branch) -> tuple[Suppression, dict[str, Any]] | None:
    """Why a threshold compaction is held back now, with the numbers behind it; None if it is not."""
    settings, now = request.allowances.settings, timezone.now()
    recent = _recent_runs(request, branch)
    failures = _failures_in_a_row(recent)
    if failures and _breaker_open(failures, settings, now):
        return Suppression.BREAKER, {"failures": len(failures)}
    last = next((run for run in recent if run.status == RunStatus.SUCCEEDED), None)
    if last is None or last.finished_at is None or branch.base is None or branch.tip_path_tokens == 0:
        return None
    seconds = (now - last.finished_at).total_seconds()
    covered = branch.base.cutoff_path_tokens / branch.tip_path_tokens
    fits = branch.history_tokens <= request.allowances.budget.available
    if seconds < settings.cooldown_seconds and covered >= settings.coverage_ratio and fits:
        return Suppression.COOLDOWN, {"seconds_since": round(seconds, 1), "covered": round(covered, 3)}
    return None


def _recent_runs(request: Request, branch: Branch) -> list[CompactionRun]:
    """Finished runs of this branch, newest first: those anchored in its tail, and the one that made its base."""
    tail = {message.id for message in branch.tail}
    base_id = branch.base.id if branch.base else None
    finished = (
        CompactionRun.objects.using(request.using)
        .filter(session_id=request.tip.session_id, status__in=[RunStatus.FAILED, RunStatus.SUCCEEDED])
        .order_by("-id")
        .only("id", "anchor_id", "summary_id", "status", "error_code", "finished_at")[:_RECENT_RUNS]
    )
    return [run for run in finished if run.anchor_id in tail or (base_id and run.summary_id == base_id)]


def _failures_in_a_row(recent: Sequence[CompactionRun]) -> list[CompactionRun]:
    failures = []
    for run in recent:
        if run.status != RunStatus.FAILED:
            break
        failures.append(run)
    return failures


def _breaker_open(failures: Sequence[CompactionRun], settings: Any, now: datetime) -> bool:
    stuck = [run for run in failures[:NO_PROGRESS_FAILURES] if run.error_code == ErrorCode.NO_PROGRESS]
    if len(failures) < settings.breaker_failures and len(stuck) < NO_PROGRESS_FAILURES:
        return False
    newest = failures[0].finished_at
    return newest is not None and (now - newest).total_seconds() < settings.breaker_seconds


def _suppress(request: Request, reason: Suppression, numbers: dict[str, Any] | None = None) -> Opening:
    if request.trigger == Trigger.THRESHOLD and request.previous is None:
        runs.record(
            request.tip.session_id,
            EventKind.SUPPRESSED,
            using=request.using,
            message_id=request.tip.pk,
            payload={"reason": reason, **(numbers or {})},
        )
    logger.info("skip session=%s tip=%s reason=%s", request.tip.session_id, request.tip.pk, reason)
    return Opening(None, reason)


def _create(request: Request, branch: Branch, plan: CompactionPlan) -> Opening:
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
                "threshold": request.allowances.budget.threshold,
                "window": request.allowances.budget.window,
            },
        )
    return Opening(run)


def _skipped_run(request: Request, branch: Branch) -> CompactionRun:
    run = _new_run(request, branch)
    run.status, run.skip_reason = RunStatus.SKIPPED, SkipReason.NOTHING_TO_COMPACT
    run.finished_at = timezone.now()
    run.save(using=request.using, force_insert=True)
    return run


def _new_run(request: Request, branch: Branch) -> CompactionRun:
    allowances = request.allowances
    return CompactionRun(
        session_id=request.tip.session_id,
        tip_id=request.tip.pk,
        base_id=branch.base.id if branch.base else None,
        previous_run=request.previous,
        trigger=request.trigger,
        instructions=request.instructions,
        policy_line=request.policy_line,
        prompt_version=prompt_version(allowances.settings.summary_prompt),
        nonce=secrets.token_hex(8),
        settings=allowances.settings.snapshot(),
        budget=asdict(allowances.budget),
        reserved_tokens=allowances.surroundings.reserved,
        tokens_before=branch.history_tokens,
        erasures_seen=allowances.session.erasures,
    )
