"""Carrying out a run: claim it, plan again, ask the summarizer with nothing held, commit what is still true.

The commit is one short durable transaction. Under the session's lock it repeats every condition that the draft is based
on, so whatever happened meanwhile (a deletion, another summary, a stolen claim) leaves nothing half-written.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error, InterfaceError, OperationalError

from compaction_app import signals
from compaction_app.compaction import leases, warm
from compaction_app.compaction.planning import plan_compaction
from compaction_app.compaction.search_index import write_entries
from compaction_app.compaction.trigger import CompactionRequest, open_run, preview, with_already_compacted
from compaction_app.conf import (
    MAX_INTEGER,
    Lookahead,
    ReasoningRule,
    Settings,
    get_token_counter,
    settings_from_snapshot,
    site_setting,
)
from compaction_app.context.budget import ReservedParts
from compaction_app.context.overflow import Overflow
from compaction_app.context.reading import ResolvedRequest
from compaction_app.exceptions import (
    CompactionFailed,
    ConfigurationError,
    MessageNotFound,
    RedactionFailed,
    SummarizerError,
)
from compaction_app.memory import ledger
from compaction_app.messages.transcript import count_summary, reasoning_text
from compaction_app.messages.validation import make_storable
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, runs
from compaction_app.models.database import (
    give_back_connection,
    locked,
    now_of,
    require_no_transaction,
    send_after_commit,
)
from compaction_app.models.runs import FARTHEST, MAX_ATTEMPTS, CompactionRunQuerySet
from compaction_app.redaction import redactor_of
from compaction_app.spending import add_spending
from compaction_app.summarizers.base import (
    ExtractiveSummarizer,
    GivenText,
    Summarizer,
    TimeLeft,
    ask_summarizer,
    make_summarizer,
    unlimited,
)
from compaction_app.summarizers.drafts import prose_draft, refuse_draft
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR, Prompt, SummarizerLimit, count_request
from compaction_app.summarizers.waiting import BLOCKING, Way, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.values import (
    PERSON,
    Branch,
    Budget,
    Capacity,
    Cold,
    CompactionPlan,
    ErrorCode,
    EventKind,
    Kind,
    Role,
    RunStatus,
    SkipReason,
    SummaryDraft,
    SummaryRequest,
    Trigger,
    with_ledger,
)

logger = logging.getLogger("compaction_app.compaction")

BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 300.0

Result = TypeVar("Result")
#: Where the session was deleted, and its runs with it, while the summary was made: a code and a reason.
SESSION_GONE = "session_gone"
#: The code of :class:`CompactionFailed` where another worker has the run.
CLAIMED = "claimed"
#: What stands in for a summary that no model wrote, as events and log lines say it.
INSTEAD = "extract"
#: A kind and its payload.
Event = tuple[EventKind, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt at a run ended, and the next generation, for the caller to enqueue."""

    run: CompactionRun
    follow_up: CompactionRun | None = None
    #: Deleted with its session: ``run`` is its last known state.
    is_gone: bool = False


def compact_chat_history(run_id: int, using: str = "default") -> Outcome | None:
    """Carry out one run; None where another worker has it. Raises nothing that a run can record."""
    return without_waiting(carry_out(CompactionRun.objects.using(using), run_id, BLOCKING))


async def carry_out(stored: CompactionRunQuerySet, run_id: int, way: Way) -> Outcome | None:
    """:func:`compact_chat_history`, for callers that block and for those that await the model."""
    await way.do(require_no_transaction, stored)
    taken: list[tuple[CompactionRun, leases.Held]] = []

    def take() -> None:
        if run := stored.claim(run_id):
            taken.append((run, leases.keep(run)))

    def give_back() -> None:
        for run, held in taken:
            held.end()
            release_interrupted(run)

    try:
        await way.do(take)
    except BaseException:
        # Cancelled while it was taken. The thread goes on, and does this after it.
        await way.do(give_back)
        raise
    if not taken:
        return None
    [(run, held)] = taken
    # The claim as it was taken: a commit that fails half-way has changed the other instance.
    claimed = copy(run)
    with held:
        follow_up = None
        try:
            work = await way.do(prepare, run, held.time_left)
            while work:
                result: SummaryDraft | SummarizerError
                try:
                    result = work.draft or await ask_summarizer(
                        work.summarizer, work.request, work.refusal, work.on_event, way
                    )
                except SummarizerError as error:
                    result = error
                smaller = await way.do(work.smaller, result)
                if smaller is None:
                    follow_up = await way.do(work.conclude, result)
                work = smaller
        except Exception as error:
            await way.do(fail_unexpected, claimed, error)
        except BaseException:
            # Cancelled, most often: the client disconnected, or a time-out passed.
            await way.do(release_interrupted, claimed)
            raise
        rows = stored.select_related("session", "summary").filter(pk=run.pk)
        fresh: CompactionRun | None = await way.do(rows.first)
        return Outcome(fresh or run, follow_up, is_gone=fresh is None)


def prepare(
    run: CompactionRun,
    time_left: TimeLeft = unlimited,
    at_most: Capacity | None = None,
    summarizer: Summarizer | None = None,
) -> Attempt | None:
    """What the model's call needs, with the connection given back; None where the run ended without a call.

    ``time_left``: seconds until the run ends; a model that answers later would be paid for nothing. ``at_most``: a
    request of the same run was too large for ``summarizer``, which is now asked for no more than that.
    """
    settings = settings_from_snapshot(run.settings)
    summarizer = summarizer or _summarizer_of(run, settings, time_left)
    work = _load(run, settings, at_most, summarizer)
    if isinstance(work, SkipReason):
        run.skip(work)
        return None
    may_quote = settings.extract_fallback and not isinstance(summarizer, GivenText)
    quoted = work.quoted() if may_quote and work.has_no_room(summarizer) else None
    # A model is asked if only its own limit leaves no room, or if nothing of the conversation can be quoted.
    if quoted and quoted.has_no_room(summarizer):
        work = quoted
    else:
        work.show_memory()
        if settings.summarizer_entry.warm and at_most is None:
            work.use_chat_prompt()
    due = write_if_claimed(run, lambda: work.started(again=at_most is not None))
    give_back_connection(run)
    return due


def _summarizer_of(run: CompactionRun, settings: Settings, time_left: TimeLeft = unlimited) -> Summarizer:
    if run.summarizer_model == PERSON:
        # After an erasure it has no text, and is refused.
        return GivenText(settings, run.written)
    return make_summarizer(settings, run.session.model, time_left)


def dry_run(request: CompactionRequest) -> CompactionRun:
    """The run that the request would open, not stored: what it would cover, with the size of its request as
    ``input_tokens`` and about what stays as ``tokens_after``; ``skipped`` where nothing would be covered.
    """
    run, settings = preview(request), request.resolved.settings
    work = _load(run, settings, None, _summarizer_of(run, settings)) if run.cutoff_id else SkipReason.NOTHING_TO_COMPACT
    if isinstance(work, SkipReason):
        run.status, run.skip_reason = RunStatus.SKIPPED, work
        return run
    work.show_memory()
    plan = work.plan
    run.anchor_id, run.cutoff_id, run.messages_compacted = plan.anchor_id, plan.cutoff.id, len(plan.covered)
    run.input_tokens = 0 if request.text else count_request(work.request, work.count)
    run.tokens_after = plan.target_tokens + plan.staying_tokens
    return run


def _load(
    run: CompactionRun, settings: Settings, at_most: Capacity | None, summarizer: Summarizer
) -> Attempt | SkipReason:
    """Read the branch and plan again for the run's own tip and settings."""
    if run.tip_id is None:
        return SkipReason.BRANCH_GONE
    # As it was when the run was claimed, before the content: an erasure in between makes the commit refuse, never the
    # other way round.
    run.erasures_seen = run.session.erasures
    try:
        tip = branches.unread_message(run, run.tip_id)
        if run.is_for_another_branch:
            branch = branches.load_end(tip, run.messages_compacted or 0, run.base, settings.time_zone)
        else:
            branch = branches.load_whole_tail(tip, settings.time_zone)
    except MessageNotFound:
        return SkipReason.BRANCH_GONE
    if (branch.base.id if branch.base else None) != run.base_id:
        return SkipReason.BASE_CHANGED
    count = get_token_counter()
    branch = with_already_compacted(branch, run)
    budget, capacity, limit, prompt = Budget(**run.budget), at_most, None, prompt_of(run, settings)
    taken, written = summarizer.max_input_tokens, summarizer.max_output_tokens
    if taken is not None or written is not None:
        # A host's own summarizer may state either.
        own = Capacity(*(MAX_INTEGER if most is None else most for most in (taken, written)))
        capacity = own.within(at_most) if at_most else own
    if capacity is not None:
        # A summary may be longer than its target: the target leaves room for that in the longest reply.
        longest = max(1, int(capacity.output_tokens / OVERSIZE_FACTOR))
        budget = replace(budget, summary_target=min(budget.summary_target, longest))
        share = 0 if summarizer.quotes else ledger.ledger_room(budget.summary_target, settings)
        limit = SummarizerLimit(capacity.input_tokens, prompt, count, share)
    plan = _plan(run, branch, budget, settings, summarizer, limit)
    if plan is None:
        return SkipReason.NOTHING_TO_COMPACT
    limits = limit.byte_limits(plan) if limit and plan.shorten else {}
    request = prompt.request(plan, run.nonce, limits)
    return Attempt(
        run=run,
        settings=settings,
        budget=budget,
        capacity=capacity,
        tip=tip,
        branch=branch,
        plan=plan,
        request=request,
        remembered=ledger.Remembered(request, plan, budget, settings, count),
        summarizer=summarizer,
        limits=limits,
        count=count,
    )


def _plan(
    run: CompactionRun,
    branch: Branch,
    budget: Budget,
    settings: Settings,
    summarizer: Summarizer,
    limit: SummarizerLimit | None = None,
) -> CompactionPlan | None:
    return plan_compaction(
        branch,
        budget,
        settings if summarizer.looks_ahead else settings.but(lookahead=Lookahead.NONE),
        focused=bool(run.instructions or run.policy_line or run.summarizer_model == PERSON),
        follow_up=run.previous_run_id is not None,
        limit=limit,
        until=run.cutoff_id if run.is_cut_given else None,
        whole=run.is_for_another_branch,
    )


def prompt_of(run: CompactionRun, settings: Settings) -> Prompt:
    """What writes a run's requests: :mod:`transfer.rebuild` writes them again from stored rows."""
    return Prompt(settings, run.instructions, run.policy_line, redactor_of(settings))


@dataclass(kw_only=True)
class Attempt:
    """One attempt at a run: everything that the model's call needs, and what becomes of its draft."""

    run: CompactionRun
    settings: Settings
    #: The run's, with a summary's target that the summarizer can write.
    budget: Budget
    #: What the summarizer takes and writes in one call; None: it has no limit.
    capacity: Capacity | None
    #: By its id alone.
    tip: ChatMessage
    branch: Branch
    plan: CompactionPlan
    request: SummaryRequest
    #: What stands beside the draft.
    remembered: ledger.Remembered
    summarizer: Summarizer
    #: Bytes that covered messages are shortened to, by id.
    limits: dict[int, int]
    count: Count
    #: What happened during the model's call, written once the connection is back.
    events: list[Event] = field(default_factory=list)
    #: An extract that no model is asked for, and why none wrote the summary where it stands in for one.
    draft: SummaryDraft | None = None
    failure: SummarizerError | None = None
    #: What a model that writes is shown of the memory beside its text.
    memory: str = ""
    #: With ``WARM``, why the chat's own prompt is not used.
    cold: Cold | None = None

    def has_no_room(self, summarizer: Summarizer) -> bool:
        """Whether the memory leaves less of the target than the summarizer is asked for."""
        target = self.plan.target_tokens
        left = target - ledger.ledger_room(target, self.settings)
        return not summarizer.quotes and left < summarizer.smallest_target

    def refusal(self, draft: SummaryDraft) -> ErrorCode | None:
        """Why the draft cannot become the summary; None if it can."""
        return refuse_draft(self.prose(draft), self.request, self.plan.most_tokens - self.memory_tokens, self.count)

    @property
    def memory_tokens(self) -> int:
        """What the memory beside the draft takes of the plan's target."""
        return self.plan.target_tokens - self.request.target_tokens

    def show_memory(self) -> None:
        """Let a model that writes see what will stand beside its text."""
        if not self.summarizer.quotes:
            prompt = prompt_of(self.run, self.settings)
            self.memory, tokens = self.remembered.show()
            self.request = prompt.beside(self.request, self.plan, self.memory, tokens)

    def use_chat_prompt(self) -> None:
        """Have the chat's model asked with the chat's own last prompt first, where its provider has that in its cache.

        All of that is read, so the summary is anchored at its end, whoever writes it then.
        """
        found = warm.last_prompt(self.run, self.branch, self.plan, self.summarizer)
        if isinstance(found, Cold):
            self.cold = found
            return
        chat, tip = found
        prompt, kept = prompt_of(self.run, self.settings), sum(one.depth <= tip.depth for one in self.plan.kept)
        self.request = prompt.behind(chat, self.request, self.plan, kept, self.memory)
        if tip.depth > self.plan.anchor_depth:
            self.plan = replace(self.plan, anchor_id=tip.id, anchor_depth=tip.depth)

    def prose(self, draft: SummaryDraft) -> SummaryDraft:
        return prose_draft(draft, self.request.previous_ledger)

    def on_event(self, kind: EventKind, payload: dict[str, Any]) -> None:
        self.events.append((kind, payload))

    def started(self, *, again: bool) -> Attempt:
        """Tell of an attempt by event, log line and signal. ``again``: a smaller request of the same attempt."""
        run = self.run
        run.shortened_inputs = sorted(self.limits)
        run.still_claimed().update(shortened_inputs=run.shortened_inputs, erasures_seen=run.erasures_seen)
        numbers = {"trigger": run.trigger, "attempt": run.attempts, "messages": len(self.plan.covered)}
        tokens, target = self.plan.replaced_tokens, self.plan.target_tokens
        if not again:
            told = {**numbers, "tokens": tokens, "target_tokens": target}
            told |= {"warm": True} if self.request.chat else {"cold": self.cold} if self.cold else {}
            run.record(EventKind.STARTED, told)
        log(logger, logging.INFO, "start", run=run.pk, session=run.session_id, **numbers, tokens=tokens, target=target)
        if not again:
            send_after_commit(run, signals.compaction_started, CompactionRun, run=run)
        return self

    def smaller(self, error: SummaryDraft | SummarizerError) -> Attempt | None:
        """The same run with less covered, where that may help: every model failed, one of them only for the size."""
        if isinstance(error, SummaryDraft) or not (error.capacity or error.error_code == ErrorCode.INPUT_TOO_LARGE):
            return None
        size = count_request(self.request, self.count)
        # A host's own summarizer does not say what it takes.
        at_most = error.capacity or Overflow().left_of(self.capacity or Capacity(size, size), size)
        if at_most.input_tokens >= size or at_most == self.capacity:
            return None
        # They are paid for, whatever becomes of the smaller request.
        add_spending(self.run, error.calls, self.settings.stated("price"))
        error.calls = ()
        smaller = prepare(self.run, at_most=at_most.below(size), summarizer=self.summarizer)
        if smaller is None or count_request(smaller.request, self.count) >= size:
            return None
        smaller.events = self.events + smaller.events
        return smaller

    def conclude(self, result: SummaryDraft | SummarizerError) -> CompactionRun | None:
        """Record what came of the model's call, and let the summarizer learn from it; the next generation's run."""
        failure = result if isinstance(result, SummarizerError) else None
        extract = self.quoted(failure) if failure and self._may_quote(failure) else None
        follow_up = extract.record(extract.draft) if extract and extract.draft else self.record(result)
        try:
            self.summarizer.learn(failure.error_code if failure else "")
        except Exception as error:
            # A host's code, or a cache that is away: the summary is stored.
            log_error(logger, error, run=self.run.pk, session=self.run.session_id, step="learn")
        is_in_use = self.run.status == RunStatus.SUCCEEDED and not self.run.is_for_another_branch
        if is_in_use and site_setting("RECALL"):
            try:
                write_entries(self.run, self.plan.cutoff.id)
            except Exception as error:
                # The first search writes them, if the session is still there.
                log_error(logger, error, run=self.run.pk, session=self.run.session_id, step="search")
        return follow_up

    def _may_quote(self, failure: SummarizerError) -> bool:
        """Not where a person waits, where the run is tried again, or where no time is left."""
        in_background = self.run.trigger == Trigger.THRESHOLD and not is_tried_again(self.run, failure)
        return in_background and self.settings.extract_fallback and failure.error_code != ErrorCode.TIME_LIMIT

    def quoted(self, failure: SummarizerError | None = None) -> Attempt | None:
        """The same run with an extract of all that could be covered, where no model is asked or all of them failed.

        It needs no window, so it leaves nothing to a next generation: the next time that the branch is over its
        threshold the models are asked again. None where nothing of the conversation can be quoted.
        """
        run, settings = self.run, self.settings
        budget, summarizer = Budget(**run.budget), ExtractiveSummarizer(settings)
        try:
            plan = _plan(run, self.branch, budget, settings, self.summarizer)
            if plan is None:
                return None
            request = prompt_of(run, settings).request(plan, run.nonce)
            draft = replace(summarizer.summarize(request), calls=tuple(failure.calls) if failure else ())
            extract = replace(
                self,
                budget=budget,
                capacity=None,
                plan=plan,
                request=request,
                remembered=ledger.Remembered(request, plan, budget, settings, self.count),
                summarizer=summarizer,
                limits={},
                draft=draft,
                failure=failure,
            )
            return None if extract.refusal(draft) else extract
        except Exception as error:
            # A host's redactor or counter: the run fails for its own reason.
            log_error(logger, error, run=run.pk, session=run.session_id, step="extract")
            return None

    def record(self, result: SummaryDraft | SummarizerError) -> CompactionRun | None:
        """Record what came of the model's call: a summary, or why there is none; the next generation's run."""
        run = self.run
        # First, whatever becomes of the draft: it has been paid for.
        calls = result.calls if isinstance(result, SummarizerError) else result.paid_calls
        add_spending(run, calls, self.settings.stated("price"))
        if isinstance(result, SummarizerError):
            write_if_claimed(run, lambda: _record_failure(run, result, self.events))
            return None
        draft = self.prose(result)
        draft = replace(draft, text=draft.text.strip())
        kept = self.remembered.kept(draft)
        return write_if_claimed(run, lambda: self._commit(draft, kept) if self._is_unchanged() else None)

    def _is_unchanged(self) -> bool:
        """Whether the branch is as it was read; else the run is skipped or released."""
        run = self.run
        found = branches.session_and_history(self.tip)
        base_id = self.plan.base.id if self.plan.base else None
        if found is None or (found[1].summary_id != base_id and not run.is_for_another_branch):
            run.skip(SkipReason.BASE_CHANGED)
            return False
        if found[0].erasures != run.erasures_seen:
            # What the model read may contain erased text: read again, ask again.
            run.release()
            log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="erasure")
            return False
        return True

    def _commit(self, draft: SummaryDraft, kept: ledger.Kept) -> CompactionRun | None:
        """Store the summary and open the next generation, where there is one."""
        run, plan = self.run, self.plan
        summary = ChatMessage(
            session_id=run.session_id,
            kind=Kind.SUMMARY,
            role=Role.USER,
            content=draft.text,
            extract=kept.extract,
            memory=kept.memory,
            ledger=kept.ledger,
            is_extract=draft.is_extract,
            last_summarized_message_id=plan.cutoff.id,
            pinned_message_id=plan.turn_request.id if plan.turn_request else None,
            token_count=count_summary(with_ledger(draft.text, kept.ledger), self.count),
            model=draft.model[:255],
        )
        if run.is_for_another_branch:
            # No context of this branch has it, and erasures empty it like any other.
            summary.retired_at, summary.retired_reason = now_of(run), Trigger.CARRY_OVER
        ChatMessage.objects.append_chain(branches.unread_message(run, plan.anchor_id), [summary], savepoint=False)
        # So that its prompt can be built again: numbers and ids, no text.
        request = {
            "target_tokens": plan.target_tokens,
            "memory_tokens": self.memory_tokens,
            "lookahead": [plan.lookahead[0].id, plan.lookahead[-1].id] if plan.lookahead else [],
            "shown_bytes": max(self.limits.values(), default=None),
            "max_input_tokens": self.capacity.input_tokens if self.capacity else None,
            # Of the draft before it, where it answered the one tighter retry.
            "tightened": draft.tightened,
            # The request began with the chat's own prompt, of which nothing is kept.
            "warm": self.request.chat is not None,
        }
        run.error_code = run.error_detail = ""
        if self.failure:
            _note_error(run, self.failure)
        # Of a partial generation the next one covers what is left.
        until = run.cutoff_id if run.is_cut_given else None
        run.end(
            status=RunStatus.SUCCEEDED,
            summary=summary,
            generation=CompactionRun.objects.in_database_of(run).next_generation(run.session_id),
            anchor_id=plan.anchor_id,
            cutoff_id=plan.cutoff.id,
            tokens_before=self.branch.history_tokens,
            tokens_after=summary.token_count + plan.staying_tokens,
            messages_compacted=run.messages_compacted if run.is_for_another_branch else len(plan.covered),
            retention_before=kept.before,
            retention_after=kept.after,
            summarizer_model=draft.model[:255],
            request={} if draft.by_person else request,
            written="",
            shortened_inputs=sorted(self.limits),
            error_code=run.error_code,
            error_detail=run.error_detail,
        )
        for kind, payload in self.events:
            run.record(kind, payload)
        self._tell_of_summary()
        return self._open_follow_up(until)

    def _tell_of_summary(self) -> None:
        """The events, the log line and the signal of a summary that was stored."""
        run = self.run
        if self.failure:
            # What a failed run says: an extract is stored instead.
            if run.error_code == ErrorCode.NO_PROGRESS:
                run.record(EventKind.NO_PROGRESS)
            code, model = run.error_code, make_storable(str(self.failure.model))[:255]
            run.record(EventKind.MODEL_FAILED, {"model": model, "code": code, "instead": INSTEAD})
            about = {"code": code, "attempts": run.attempts, "session": run.session_id, "instead": INSTEAD}
            log(logger, logging.WARNING, "failed", run=run.pk, **about)
        # A summarizer that works without reasoning says so by reads_reasoning.
        if self.settings.reasoning == ReasoningRule.SUMMARIZE and self.summarizer.reads_reasoning:
            # As ordinary text it is no longer reasoning to the model, so this is a loss to report. Encrypted and
            # redacted blocks have no text that could enter a prompt.
            covered = self.plan.covered
            turns = zip(accumulate(message.starts_turn for message in covered), covered, strict=True)
            lost = [turn for turn, one in turns if one.reasoning and reasoning_text(one.reasoning)]
            if lost:
                counted = {"turns": len(set(lost)), "messages": len(lost)}
                run.record(EventKind.REASONING_DOWNGRADED, counted)
        numbers = {"generation": run.generation, "messages": run.messages_compacted}
        sizes = {"before": run.tokens_before, "after": run.tokens_after}
        spent = {"input_tokens": run.input_tokens, "output_tokens": run.output_tokens}
        shares = {"before": run.retention_before, "after": run.retention_after}
        told: dict[str, Any] = {f"tokens_{when}": tokens for when, tokens in sizes.items()} | spent
        told |= {f"retention_{when}": share if share is None else round(share, 3) for when, share in shares.items()}
        run.record(EventKind.COMPLETED, {**numbers, **told})
        which = {"run": run.pk, "session": run.session_id, "summary": run.summary_id, **numbers}
        end = {"retention": told["retention_after"], "cost": run.cost}
        log(logger, logging.INFO, "done", **which, **sizes, **spent, **end)

    def _open_follow_up(self, until: int | None) -> CompactionRun | None:
        """The next generation, opened in the commit of this one, where the summarizer could not take it all."""
        run = self.run
        if not self.plan.partial or (until is None and (run.tokens_after or 0) <= self.budget.target):
            return None
        resolved = ResolvedRequest(
            session=run.session,
            settings=self.settings,
            model=run.session.model,
            reserved_parts=ReservedParts(tokens=run.reserved_tokens),
            budget=Budget(**run.budget),
            count=self.count,
        )
        request = CompactionRequest(
            tip=self.tip,
            trigger=Trigger(run.trigger),
            resolved=resolved,
            instructions=run.instructions,
            policy_line=run.policy_line,
            until=until,
            carried=(run.messages_compacted or 0) if run.is_for_another_branch else 0,
            previous=run,
        )
        return open_run(request).run


def fail_unexpected(run: CompactionRun, error: Exception) -> None:
    """Fail or release a run where something unforeseen was raised between claim and commit.

    A run left ``running`` would block its branch until the lease ends, and then be asked and paid for again and
    again. A database that was briefly away is transient. Where it is still away, ``error`` is raised, and the claim
    ends with its lease.
    """
    cause = (error.__cause__ or error) if isinstance(error, RedactionFailed) else error
    log_error(logger, cause, run=run.pk, session=run.session_id, step="run")
    # Two errors are of this app's own words, which quote nothing; those of a host's code may quote the conversation.
    is_own = isinstance(error, RedactionFailed | ConfigurationError)
    code = ErrorCode.TIME_LIMIT if isinstance(cause, SoftTimeLimitExceeded) else ErrorCode.PROVIDER_ERROR
    recorded = SummarizerError(
        str(error) if is_own else f"{type(error).__name__} while the summary was made",
        error_code=ErrorCode.BAD_REQUEST if isinstance(error, ConfigurationError) else code,
        transient=isinstance(error, OperationalError | InterfaceError),
    )
    try:
        # A connection that broke in the middle of a statement takes no other one.
        give_back_connection(run)
        write_if_claimed(run, lambda: _record_failure(run, recorded, ()))
    except Error:
        raise error from None


def release_interrupted(run: CompactionRun) -> None:
    """Make a run ready again, for the sweep or the next call, when the caller who waited was cancelled."""
    try:
        give_back_connection(run)
        if run.release():
            log(logger, logging.INFO, "retry", run=run.pk, session=run.session_id, reason="interrupted")
    except Error as error:
        # The claim ends with its lease. The caller is to see the interruption, not this error.
        log_error(logger, error, run=run.pk, session=run.session_id, step="release")


def write_if_claimed(run: CompactionRun, write: Callable[[], Result]) -> Result | None:
    """What ``write`` returns, for a run whose claim is still valid and whose branch still exists.

    A run without its branch is skipped. Under the session's lock, so that nothing that is written points at what is
    deleted before it is written.
    """
    try:
        with locked(run, durable=True):
            # With its row locked: the time limit may fail it at this moment. A tip that was deleted is gone from it.
            if run.renew(runs.LEASE_SECONDS, tip__isnull=False):
                return write()
            if not run.skip(SkipReason.BRANCH_GONE):
                log(logger, logging.INFO, "skip", run=run.pk, session=run.session_id, reason="claim_lost")
    except MessageNotFound:
        log(logger, logging.INFO, "skip", run=run.pk, reason=SESSION_GONE)
    return None


def _record_failure(run: CompactionRun, error: SummarizerError, events: Iterable[Event]) -> None:
    """Why there is no summary; a transient error in the background is tried again later."""
    _note_error(run, error)
    session = ChatSession.objects.in_database_of(run).filter(pk=run.session_id)
    if not session.filter(erasures=run.erasures_seen).exists():
        # It may quote what has been erased meanwhile.
        run.error_detail = ""
    for kind, payload in events:
        run.record(kind, payload)
    if is_tried_again(run, error):
        delay = backoff_seconds(run.attempts, error.retry_after, random.random())
        run.release(delay_seconds=delay, error_code=run.error_code, error_detail=run.error_detail)
        values = {"run": run.pk, "code": run.error_code, "attempt": run.attempts, "delay": delay}
        log(logger, logging.WARNING, "retry", **values, session=run.session_id)
    else:
        if run.error_code == ErrorCode.NO_PROGRESS:
            run.record(EventKind.NO_PROGRESS)
        run.fail(run.error_code, run.error_detail)


def is_tried_again(run: CompactionRun, error: SummarizerError) -> bool:
    return error.transient and run.trigger == Trigger.THRESHOLD and run.attempts < MAX_ATTEMPTS


def backoff_seconds(attempts: int, retry_after: float | None, jitter: float) -> float:
    """Doubles with every attempt, spread by ``jitter`` (0 to 1); as late as the provider asked, up to an hour."""
    delay = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** max(0, attempts - 1)) * (0.5 + jitter / 2)
    return max(delay, min(retry_after or 0.0, FARTHEST.total_seconds() / 2))


def _note_error(run: CompactionRun, error: SummarizerError) -> None:
    # A host's summarizer may put any text here.
    run.error_code = make_storable(str(error.error_code))[:30] or ErrorCode.PROVIDER_ERROR
    run.error_detail = make_storable(str(error))[:2000]


async def carry_out_generations(
    run: CompactionRun, way: Way, task_id: str = "", hand_over: Callable[[CompactionRun], object] | None = None
) -> Outcome | None:
    """Carry out a run and every generation that continues it; the last outcome.

    ``task_id``: the task that does so, to be recorded on each run. ``hand_over`` takes the next generation, which is
    not carried out here then.
    """
    stored, outcome = CompactionRun.objects.in_database_of(run), None
    following: CompactionRun | None = run
    while following is not None:
        if task_id:
            stored.filter(pk=following.pk).update(task_id=task_id)
        outcome = await carry_out(stored, following.pk, way)
        if outcome is None or outcome.is_gone:
            break
        # The next generation, or the same run after an erasure.
        again = outcome.run.status == RunStatus.READY and outcome.run.next_attempt_at is None
        following = outcome.follow_up or (outcome.run if again else None)
        if following is not None and hand_over is not None:
            await way.do(hand_over, following)
            break
    return outcome


async def wait_for_end(
    run: CompactionRun, way: Way, hand_over: Callable[[CompactionRun], object] | None = None
) -> CompactionRun:
    """:func:`carry_out_generations` for a person who waits: the finished run, or :class:`CompactionFailed`.

    A run that was skipped when it was opened, with nothing to compact, is returned as it is. Of several generations it
    is the last that made a summary.
    """
    if not run.is_open:
        return run
    run_id, rows = run.pk, CompactionRun.objects.in_database_of(run).filter(pk=run.pk)
    outcome = await carry_out_generations(run, way, hand_over=hand_over)
    if outcome.is_gone if outcome else not await way.do(rows.exists):
        raise CompactionFailed(
            "The session was deleted while its summary was made; there is nothing left to summarize.",
            error_code=SESSION_GONE,
            run_id=run_id,
        )
    # Also where it was given back, after an erasure for example, and taken by another worker before it was read again.
    if outcome is None or outcome.run.status == RunStatus.RUNNING:
        raise CompactionFailed("Another worker took this run; look at its status.", error_code=CLAIMED, run_id=run_id)
    run = outcome.run
    if run.status == RunStatus.SUCCEEDED:
        return run
    before: CompactionRun | None = await way.do(_made_before, run)
    if run.status == RunStatus.SKIPPED:
        # The last of several generations may find nothing left.
        return before or run
    generation = before.generation if before else None
    stays = f"generation {generation}, made just before, is stored and in use" if before else "nothing was changed"
    raise CompactionFailed(
        f"The summary could not be made ({run.error_code or run.status}); {stays}.",
        error_code=run.error_code,
        error_detail=run.error_detail,
        run_id=run.pk,
        generation=generation,
    )


def _made_before(run: CompactionRun) -> CompactionRun | None:
    """The run before this one of the same request that has made the summary in use; None: none of them has."""
    if run.previous_run_id is None or run.tip_id is None:
        return None
    in_use = branches.history_at(branches.unread_message(run, run.tip_id)).summary_id
    rows, earlier = CompactionRun.objects.in_database_of(run).select_related("session", "summary"), run
    while (found := rows.filter(follow_ups=earlier).first()) and found.summary_id != in_use:
        earlier = found
    return found if in_use else None
