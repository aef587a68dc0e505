"""Deciding whether a branch is to be compacted, and opening the run that does it.

The checks go from cheap to expensive: the history's size (one row, no content), what pruning would leave of it, the
host's ``POLICY``, and then, under the session's lock, the plan, the open runs, the breaker and the cool-down. The
database allows one open run per anchor; :func:`open_under_lock` also refuses where an open run's work would reach into
this branch.
"""

import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from django.utils.module_loading import import_string

from compaction_app import telemetry
from compaction_app.compaction import warm
from compaction_app.compaction.planning import plan_compaction
from compaction_app.conf import Mode, load_function
from compaction_app.context.budget import calibration_of
from compaction_app.context.reading import ResolvedRequest, pruned_history_tokens
from compaction_app.context.windows import name_of
from compaction_app.messages.validation import is_storable
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.models.database import Near, after_commit, database_of, erasures_of, locked, now_of
from compaction_app.models.runs import record_event
from compaction_app.spending import find_overspending, lock_owner
from compaction_app.summarizers.prompts import prompt_version
from compaction_app.telemetry import log, log_error
from compaction_app.tree import branches
from compaction_app.tree.lanes import tips_at_or_below
from compaction_app.values import (
    PERSON,
    Branch,
    CompactionPlan,
    ErrorCode,
    EventKind,
    PolicyDecision,
    RunStatus,
    SkipReason,
    Strategy,
    Suppression,
    Trigger,
)

logger = logging.getLogger("compaction_app.opening")

POLICY_ACTIONS = ("allow", "defer", "force")
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")

#: A summary that covers less leaves so much uncovered that waiting would only make the next prompt longer.
COVERAGE_RATIO = 0.70
#: So many failures in a row on a branch are no accident: its turns stop paying for more, for as long as a provider's
#: trouble usually lasts.
BREAKER_FAILURES, BREAKER_SECONDS = 3, 300
#: Two drafts in a row that did not shrink open the breaker sooner.
_NO_PROGRESS_FAILURES = 2
_RECENT_RUNS = 50
_JUDGED = "id anchor_id summary_id base_id status error_code finished_at summarizer_model".split()


@dataclass(frozen=True, kw_only=True)
class CompactionRequest:
    """A compaction that is asked for at a tip."""

    tip: ChatMessage
    trigger: Trigger
    resolved: ResolvedRequest
    instructions: str = ""
    policy_line: str = ""
    #: The last message to cover, by its id.
    until: int | None = None
    #: So many messages at the end of the branch are all that is covered, for another branch; 0: it is for this one.
    carried: int = 0
    #: The summary, where a person wrote it, and who that is.
    text: str = ""
    author: Any = None
    #: Ignore cool-down and breaker.
    forced: bool = False
    #: A policy forces it: ignore the cool-down alone.
    by_policy: bool = False
    #: And on a branch that is not over its threshold.
    below_threshold: bool = False
    #: Tokens of the history with the reasoning that is sent, measured before the lock is taken; 0 if none is sent.
    with_reasoning: int = 0
    #: The partial generation that this one continues.
    previous: CompactionRun | None = None

    @property
    def by_threshold(self) -> bool:
        """The threshold asks for it, and it does not continue a partial generation."""
        return self.trigger == Trigger.THRESHOLD and self.previous is None

    @property
    def focused(self) -> bool:
        """A model, or the person who writes, looks at the whole branch: so the summary is anchored at its tip."""
        return bool(self.instructions or self.policy_line or self.text)

    def branch(self) -> Branch:
        """What is planned, without content."""
        if not self.carried:
            return branches.load_whole_tail(self.tip, with_content=False)
        base = self.previous.summary if self.previous else None
        return branches.load_end(self.tip, self.carried, base, with_content=False)

    def plan(self, branch: Branch) -> CompactionPlan | None:
        return plan_compaction(
            branch,
            self.resolved.budget,
            self.resolved.settings,
            focused=self.focused,
            follow_up=self.previous is not None,
            until=self.until,
            whole=self.carried > 0,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A run to enqueue, or why there is none; ``reason`` is empty if no compaction is needed."""

    run: CompactionRun | None
    reason: str = ""
    #: What the reason is based on.
    numbers: Mapping[str, Any] = field(default_factory=dict)
    #: An event has recorded the same for this tip before.
    repeated: bool = False
    #: The open run that is in the way, where that is the reason.
    open_run_id: int | None = None


def open_run(request: CompactionRequest) -> Decision:
    """Open a run for the request, if a compaction is needed and nothing is in the way."""
    # The commit of the previous generation has decided, and has the lock.
    decision = open_under_lock(request) if request.previous else _decide(request)
    if decision.run is None:
        # What happens at every turn of every chat would hide the other lines.
        level = logging.DEBUG if decision.repeated or not decision.reason else logging.INFO
        values = {"reason": decision.reason or "under_threshold", "trigger": request.trigger, **decision.numbers}
        log(logger, level, "skip", session=request.tip.session_id, tip=request.tip.pk, **values)
    return decision


def _decide(request: CompactionRequest) -> Decision:
    mode = request.resolved.settings.mode
    if mode == Mode.OFF:
        return Decision(None, SkipReason.MODE_OFF)
    if mode == Mode.MANUAL and request.trigger == Trigger.OVERFLOW:
        return Decision(None, Suppression.MANUAL_MODE)
    if request.trigger == Trigger.THRESHOLD:
        tokens = pruned_history_tokens(request.tip, request.resolved)
        over = tokens > request.resolved.budget.threshold
        if over and mode == Mode.MANUAL and not request.forced:
            # Once for what is in use: until somebody compacts, each turn finds the same.
            base = request.resolved.history and request.resolved.history.summary_id
            return _suppress(request, Suppression.MANUAL_MODE, {"summary_id": base}, once={"payload__summary_id": base})
        policy_path = None if mode == Mode.MANUAL else request.resolved.settings.policy
        # Few policies want to be asked on every turn. For all others, deciding takes one statement.
        if not over and not (policy_path and getattr(import_string(policy_path), "asked_below_threshold", False)):
            return _under_threshold(request, tokens)
        erasures = erasures_of(request.tip) if policy_path else None
        policy = _ask_policy(request)
        if not over and policy.action != "force":
            return _under_threshold(request, tokens)
        if policy.action == "defer":
            # Events contain codes only: a reason in words may quote the conversation.
            code = policy.reason if not policy.reason or _CODE.fullmatch(policy.reason) else "not_a_code"
            return _suppress(request, Suppression.POLICY, {"code": code})
        by_policy = policy.action == "force"
        request = replace(request, by_policy=by_policy, policy_line=policy.prompt_line, below_threshold=not over)
        if request.resolved.request.include_reasoning:
            request = replace(request, with_reasoning=tokens)
    with locked(request.tip):
        if request.policy_line and erasures_of(request.tip) != erasures:
            # It may quote what is erased by now.
            request = replace(request, policy_line=_ask_policy(request).prompt_line)
        return open_under_lock(request)


def open_under_lock(request: CompactionRequest) -> Decision:
    """Check again and open the run. The caller holds the session's lock."""
    resolved = request.resolved
    branch = request.branch()
    tokens = branch.history_tokens
    if resolved.history and resolved.history.summary_id == (branch.base.id if branch.base else None):
        tokens = max(tokens, request.with_reasoning)
    over = tokens > resolved.budget.threshold
    if request.by_threshold and not over and not request.below_threshold:
        return _under_threshold(request, tokens)
    branch = with_already_compacted(branch, request.tip)
    plan = request.plan(branch)
    if (open_run_id := _open_run_in_the_way(request, branch, plan)) is not None:
        # Recorded once: while workers are busy each turn of the branch meets it.
        waiting = CompactionRun(pk=open_run_id)
        waits = _suppress(request, Suppression.OPEN_RUN, once={"run": waiting}, run=waiting)
        return replace(waits, open_run_id=open_run_id)
    if plan is None:
        return _nothing_to_compact(request, branch)
    # A follow-up run, and compacting a whole session, wait for nothing: that would leave the work half done.
    guarded = request.by_threshold and not request.forced
    now = now_of(request.tip)
    if guarded and (found := find_suppression(request, branch, now)):
        return _suppress(request, *found)
    lock_owner(resolved.session)
    if not request.text and (overspent := find_overspending(resolved.session, now)):
        return _suppress(request, Suppression.SPEND, overspent)
    return _create(request, branch, plan, now)


def with_already_compacted(branch: Branch, near: Near) -> Branch:
    """The branch, marked if the run that made its base was triggered at this tip or further down the same branch."""
    if branch.base is None:
        return branch
    made_by = CompactionRun.objects.in_database_of(near).filter(summary=branch.base.id, tip__isnull=False)
    below = tips_at_or_below(branch.tip_id, made_by.values_list("tip", flat=True)[:1], near)
    return replace(branch, already_compacted=bool(below))


def _under_threshold(request: CompactionRequest, history: int) -> Decision:
    return Decision(None, numbers={"history": history, "threshold": request.resolved.budget.threshold})


def _open_run_in_the_way(request: CompactionRequest, branch: Branch, plan: CompactionPlan | None) -> int | None:
    """The id of an open run that overlaps: its anchor is in our tail, or our anchor would be on its branch."""
    open_runs = CompactionRun.objects.in_database_of(request.tip).filter(session_id=request.tip.session_id).open()
    others = list(open_runs.only("id", "anchor_id", "tip_id"))
    tail = {message.id for message in branch.tail}
    found = next((run.pk for run in others if run.anchor_id in tail), None)
    if found is not None or plan is None:
        return found
    tips = [run.tip_id for run in others if run.tip_id is not None]
    below = tips_at_or_below(plan.anchor_id, tips, request.tip)
    return next((run.pk for run in others if run.tip_id in below), None)


def _nothing_to_compact(request: CompactionRequest, branch: Branch) -> Decision:
    """A skipped run for a person who asked; for the threshold an event, once for each tip."""
    if request.previous is not None:
        return Decision(None, SkipReason.NOTHING_TO_COMPACT)
    if request.trigger == Trigger.THRESHOLD and branch.history_tokens <= request.resolved.budget.threshold:
        # A policy forces it, or it is over the threshold by reasoning alone: what must stay verbatim is not.
        return _under_threshold(request, branch.history_tokens)
    if request.trigger != Trigger.THRESHOLD:
        run = _new_run(request, branch, now_of(request.tip))
        run.status, run.skip_reason = RunStatus.SKIPPED, SkipReason.NOTHING_TO_COMPACT
        run.finished_at = run.created_at
        run.save(force_insert=True)
        values = {"run": run.pk, "session": run.session_id, "reason": run.skip_reason, "history": branch.history_tokens}
        log(logger, logging.INFO, "skip", **values)
        run.announce_end()
        return Decision(run, SkipReason.NOTHING_TO_COMPACT)
    numbers = {"history_tokens": branch.history_tokens}
    return _suppress(request, Suppression.IRREDUCIBLE, numbers, once={"message_id": request.tip.pk})


def _suppress(
    request: CompactionRequest,
    reason: Suppression,
    numbers: Mapping[str, Any] | None = None,
    once: Mapping[str, Any] | None = None,
    run: CompactionRun | None = None,
) -> Decision:
    """No run, for this reason. It leaves an event where the threshold asked for it, or where a limit was reached.

    ``once``: filters of an event, where one that meets them is enough. ``run``: whose event it is.
    """
    numbers = numbers or {}
    if request.by_threshold or reason == Suppression.SPEND:
        known = CompactionEvent.objects.in_database_of(request.tip).filter(session=request.tip.session_id)
        if once and known.filter(**once, kind=EventKind.SUPPRESSED, payload__reason=reason).exists():
            return Decision(None, reason, numbers, repeated=True)
        told = {"reason": reason, **numbers}
        record_event(request.tip, EventKind.SUPPRESSED, run=run, message_id=request.tip.pk, payload=told)
    labels = {"layer": Strategy.AUTO_COMPACT, "trigger": request.trigger, "reason": reason}
    after_commit(request.tip, telemetry.count_suppression, **labels)
    return Decision(None, reason, numbers)


def _create(request: CompactionRequest, branch: Branch, plan: CompactionPlan, now: datetime) -> Decision:
    run = _new_run(request, branch, now, plan)
    if request.resolved.settings.summarizer_entry.warm:
        run.request = warm.kept_of(request.resolved.request)
    run.save(force_insert=True)
    if request.by_threshold and not request.below_threshold:
        budget = request.resolved.budget
        tokens = max(branch.history_tokens, request.with_reasoning)
        known, model = request.resolved.session.token_calibration, name_of(request.resolved.place)
        numbers = {
            "history_tokens": tokens,
            "threshold": budget.threshold,
            "window": budget.window,
            # How far off the token estimate was when a provider last counted, if one has.
            "calibration": calibration_of(known, model).ratio if model in known else None,
            "estimate_error": (request.tip.sent_context or {}).get("estimate_error"),
        }
        told = {name: number for name, number in numbers.items() if number is not None}
        run.record(EventKind.THRESHOLD_HIT, told)
    return Decision(run)


def preview(request: CompactionRequest) -> CompactionRun:
    """The run that the request would open, not stored; without a cutoff where nothing can be covered."""
    branch = branches.load_whole_tail(request.tip, with_content=False)
    branch = with_already_compacted(branch, request.tip)
    run = _new_run(request, branch, now_of(request.tip), request.plan(branch))
    run.session = request.resolved.session
    return run


def _new_run(
    request: CompactionRequest, branch: Branch, now: datetime, plan: CompactionPlan | None = None
) -> CompactionRun:
    resolved = request.resolved
    run = CompactionRun(
        session_id=request.tip.session_id,
        tip_id=request.tip.pk,
        anchor_id=plan.anchor_id if plan else None,
        cutoff_id=plan.cutoff.id if plan else None,
        base_id=branch.base.id if branch.base else None,
        previous_run=request.previous,
        trigger=request.trigger,
        instructions=request.instructions,
        policy_line=request.policy_line,
        written=request.text,
        author=request.author,
        is_cut_given=request.until is not None,
        messages_compacted=request.carried or None,
        summarizer_model=PERSON if request.text else "",
        prompt_version=prompt_version(resolved.settings.summarizer_entry.prompt),
        nonce=secrets.token_hex(8),
        settings=resolved.settings.snapshot(),
        budget=asdict(resolved.budget),
        reserved_tokens=resolved.reserved_parts.total,
        tokens_before=branch.history_tokens,
        erasures_seen=resolved.session.erasures,
        created_at=now,
    )
    run._state.db = database_of(request.tip)
    return run


def find_suppression(
    request: CompactionRequest, branch: Branch, now: datetime
) -> tuple[Suppression, dict[str, Any]] | None:
    """Breaker or cool-down, with the numbers behind it; None if neither suppresses a threshold compaction now."""
    settings = request.resolved.settings
    if settings.mode == Mode.DETERMINISTIC:
        # The clock must not decide what the same history looks like; and this summarizer costs next to nothing.
        return None
    base = branch.base
    finished = (
        CompactionRun.objects.in_database_of(request.tip)
        .filter(session_id=request.tip.session_id, status__in=[RunStatus.FAILED, RunStatus.SUCCEEDED])
        .order_by("-id")
        .only(*_JUDGED)[:_RECENT_RUNS]
    )
    # Of this branch: those anchored in its tail, and those that made its base, and the base of that, newest first.
    tail, recent, made = {message.id for message in branch.tail}, [], base.id if base else None
    for run in finished:
        if made is not None and run.summary_id == made:
            recent.append(run)
            made = run.base_id
        elif run.anchor_id in tail:
            recent.append(run)
    # One that stored an extract instead of a model's summary keeps the code of the failure.
    # What a person wrote says nothing of the models.
    by_models = (run for run in recent if run.summarizer_model != PERSON)
    failures = list(takewhile(lambda run: run.error_code, by_models))
    stuck = sum(run.error_code == ErrorCode.NO_PROGRESS for run in failures[:_NO_PROGRESS_FAILURES])
    if len(failures) >= BREAKER_FAILURES or stuck == _NO_PROGRESS_FAILURES:
        newest = failures[0].finished_at
        # A time far in the future is of a clock that was wrong once, and holds nothing back.
        if newest and abs(now - newest) < timedelta(seconds=BREAKER_SECONDS):
            return Suppression.BREAKER, {"failures": len(failures)}
    if request.by_policy:
        return None
    # The run that made the base. If its summary was retired later, the run does not count.
    last = next((run for run in recent if base and run.summary_id == base.id), None)
    if last is None or last.finished_at is None or base is None or branch.tip_path_tokens == 0:
        return None
    seconds = (now - last.finished_at).total_seconds()
    covered = base.cutoff_path_tokens / branch.tip_path_tokens
    fits = branch.history_tokens <= request.resolved.budget.available
    if abs(seconds) < settings.cooldown_seconds and covered >= COVERAGE_RATIO and fits:
        return Suppression.COOLDOWN, {"seconds_since": round(seconds, 1), "covered": round(covered, 3)}
    return None


def _ask_policy(request: CompactionRequest) -> PolicyDecision:
    """What ``POLICY`` decides; allow where there is none.

    It is the host's code, called in a chat turn, which never fails because of it: where it raises, or returns anything
    else, such as "defer", that is logged and counts as allow.
    """
    path, tip = request.resolved.settings.policy, request.tip
    if path is None:
        return PolicyDecision()
    try:
        answer = load_function(path)(tip, request.resolved.budget)
    except Exception as error:
        log_error(logger, error, session=tip.session_id, tip=tip.pk, step="policy", policy=path)
        return PolicyDecision()
    if isinstance(answer, PolicyDecision):
        # A dataclass does not check its types.
        texts: tuple[Any, ...] = (answer.reason, answer.prompt_line)
        if answer.action in POLICY_ACTIONS and all(isinstance(text, str) and is_storable(text) for text in texts):
            return answer
    if answer is not None:
        # Types and names, none of its text.
        known = f"{PolicyDecision.__name__}:{','.join(POLICY_ACTIONS)}"
        what = {"policy": path, "answered": type(answer).__name__, "known": known}
        log(logger, logging.ERROR, "error", step="policy", session=tip.session_id, tip=tip.pk, **what)
    return PolicyDecision()
