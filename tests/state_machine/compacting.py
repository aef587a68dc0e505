"""Compactions, in every way that they can be asked for and carried out; each end must follow from the model."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from compaction_app import chat, tasks
from compaction_app.compaction import execute
from compaction_app.conf import get_settings
from compaction_app.exceptions import CompactionFailed, CompactionRefused, InvalidMessage, MessageNotFound
from compaction_app.messages.transcript import count_summary
from compaction_app.models import CompactionEvent, CompactionRun
from compaction_app.summarizers.waiting import AWAITED
from compaction_app.values import SummaryRequest
from tests.state_machine import meanwhile
from tests.state_machine.commits import saving_cuts
from tests.state_machine.contexts import expected_context
from tests.state_machine.invariants import CheckedWorld
from tests.state_machine.model import (
    TOKENS_PER_MISSING_RESULT,
    Node,
    QuarterTokenCounter,
    count,
    open_calls,
    serials_in,
    told_by,
)
from tests.state_machine.tally import seen
from tests.state_machine.teller import FAILED, REFUSED, TRANSIENT, Answer, Told
from tests.state_machine.world import OPEN


def _request_of(run: int, earlier: dict[int, int | None]) -> list[int]:
    """The run and those before it of the same request."""
    found = [run]
    while before := earlier.get(found[-1]):
        found.append(before)
    return found


class CompactingWorld(CheckedWorld):
    """A world whose branches are compacted, with accidents."""

    def reaching(self, tip: Node) -> list[CompactionRun]:
        """Open runs whose work reaches into the branch: those anchored in its tail."""
        tail = {node.id for node in self.tree.tail(tip.id, self.tree.newest(tip.id))}
        return [run for run in self.open_runs() if run.anchor_id in tail]

    def request(self, tip: Node, trigger: str, instructions: str = "") -> CompactionRun | None:
        """Ask for a compaction in the background; what comes of it must follow from the model."""
        before = self.run_keys()
        reaching, others = self.reaching(tip), self.open_runs()
        wanted = self._is_wanted(tip)
        events = CompactionEvent.objects.filter(session_id=self.session.pk)
        last_event = max(events.values_list("id", flat=True), default=0)
        asked = len(self.enqueued)
        self.teller.script.clear()
        run = chat.request_compaction(self.row(tip), trigger=trigger, instructions=instructions)
        mode = get_settings(self.session.settings).mode
        if run is None:
            reasons = set(events.filter(id__gt=last_event, kind="suppressed").values_list("payload__reason", flat=True))
            assert self.run_keys() == before
            if trigger != "threshold":
                assert mode == "off" or others or (mode == "manual" and trigger == "overflow")
            elif wanted or reasons:
                assert wanted is not False
                self._check_suppressed(tip, reasons, others, events)
            return None
        assert mode != "off"
        if run.status == "skipped":
            assert run.skip_reason == "nothing_to_compact"
            assert trigger != "threshold"
            return run
        assert (wanted is not False and mode != "manual") or trigger != "threshold"
        assert not reaching, "an open run's work reaches into this branch already"
        if mode == "deterministic":
            seen["run inline"] += 1
            assert CompactionRun.objects.get(pk=run.pk).status not in OPEN
            self.check_rows()
        else:
            # Of an open run only: one that the summarizer's limit cut short is anchored higher than it was opened.
            for other in [other for other in others if other.tip_id in self.tree]:
                assert run.anchor_id not in {n.id for n in self.tree.path(other.tip_id)}, "it reaches into another's"
            assert self.enqueued[asked:] == [run.pk], "opened and not enqueued"
        seen["run opened"] += 1
        return run

    def _is_wanted(self, tip: Node) -> bool | None:
        """Whether the branch is over its threshold after the free layers; None where the model can not say."""
        if get_settings(self.session.settings).mode == "off":
            return False
        expected = expected_context(self.tree, tip.id, self.limits())
        return None if expected.read_short else expected.over_threshold

    def _check_suppressed(self, tip: Node, reasons: set[str], others: list[CompactionRun], events: Any) -> None:
        settings = get_settings(self.session.settings)
        if not reasons:
            # Recorded before: that it waits for a run once a run, that nothing helps once a message.
            said, base = events.filter(kind="suppressed"), self.tree.newest(tip.id)
            if settings.mode == "manual":
                known = said.filter(payload__reason="manual_mode", payload__summary_id=base.id if base else None)
                assert known.exists(), "not even once"
                reasons = {"manual_mode"}
            elif said.filter(run__in=others, payload__reason="open_run").exists():
                reasons = {"open_run"}
            else:
                assert said.filter(message_id=tip.id, payload__reason="irreducible").exists(), "no run, and no word why"
                reasons = {"irreducible"}
        (reason,) = reasons
        seen[f"suppressed: {reason}"] += 1
        assert (reason == "manual_mode") == (settings.mode == "manual")
        if reason == "open_run":
            assert others
        elif reason == "irreducible":
            assert not self._cuts_left(tip), "a legal cut is left"
        elif reason == "cooldown":
            assert settings.cooldown_seconds > 0
        elif reason != "manual_mode":
            assert reason == "breaker"
            assert [run for run in self.runs() if run.status == "failed" or (run.summary_id and run.error_code)]

    def _cuts_left(self, tip: Node) -> list[int]:
        base = self.tree.newest(tip.id)
        settings = get_settings(self.session.settings)
        return saving_cuts(self.tree, tip.id, base, settings, self.limits().available)

    def carry_out(self, run: CompactionRun, answer: Answer, *, awaited: bool = False) -> CompactionRun | None:
        """Do what a worker does; the end must follow from the answer and from what happened meanwhile."""
        run = CompactionRun.objects.get(pk=run.pk)
        now = self.clock.time + timedelta(milliseconds=2)
        due = run.status == "ready" and (run.next_attempt_at is None or run.next_attempt_at <= now)
        claimable = due or (run.status == "running" and run.lease_expires_at < now)
        calls, asked = self.teller.calls, len(self.teller.ledger)
        stale = self.why_stale(run)
        self.fates.pop(run.nonce, None)
        with self.answering(answer):
            if awaited:
                claimed = async_to_sync(execute.carry_out)(CompactionRun.objects.all(), run.pk, AWAITED) is not None
            else:
                claimed = tasks.compact_branch(run.pk) != "not claimed"
        after = CompactionRun.objects.get(pk=run.pk)
        if not claimable:
            assert not claimed
            assert self.teller.calls == calls
            assert after.status == run.status
            return None
        assert claimed
        if self.teller.calls == calls:
            assert after.status == "skipped"
            assert after.skip_reason == (stale or "nothing_to_compact")
        else:
            assert stale is None, "the model was called for nothing"
            self._check_end(after, answer, asked)
        seen[f"run {after.status} {after.skip_reason or after.error_code}".strip()] += 1
        # What is done next, in the same rule perhaps, must find its summary in the model.
        self.check_rows()
        return after

    def _check_end(self, run: CompactionRun, answer: Answer, asked: int) -> None:
        fate = self.fates.pop(run.nonce, {})
        if fate.get("claim_lost"):
            assert fate["row"] == _state(run), "a worker that lost its claim wrote to the run"
            return
        code = REFUSED.get(answer.kind) or FAILED.get(answer.kind) or TRANSIENT.get(answer.kind)
        told = [told for told in self.teller.ledger.values() if told.nonce == run.nonce and told.key > asked]
        # What was cut off far over its target is asked for again, and the second draft is good.
        if answer.kind in ("good", "oversize_once", "no_progress") or (answer.kind == "length" and len(told) > 1):
            code = self._code_of_draft(run, told)
        if code is None:
            expected = fate.get("stale") or ("ready" if fate.get("erased") else "succeeded")
            assert (run.skip_reason or run.status) == expected, (run.status, run.error_code, fate)
        elif answer.kind in TRANSIENT and run.trigger == "threshold" and run.attempts < 8:
            assert run.status == "ready" or fate.get("stale")
            if run.status == "ready":
                # A provider's retry-after is kept; without one at least half of the first back-off.
                wait = (run.next_attempt_at - self.clock.time).total_seconds()
                assert wait > (6.9 if answer.kind == "transient" else 0.9)
        elif run.trigger == "threshold" and run.settings["EXTRACT_FALLBACK"]:
            # An extract stands in; where nothing of the conversation is as short as its target, nothing does.
            expected = fate.get("stale") or ("ready" if fate.get("erased") else "succeeded")
            end = run.skip_reason or run.status
            assert end in (expected, "failed"), (run.status, run.error_code, fate)
            if end == "succeeded":
                assert (run.error_code, run.summary.is_extract) == (code, True)
            seen[f"extract instead: {end}"] += 1
        elif not fate:
            assert (run.status, run.error_code) == ("failed", code)
        else:
            assert run.status in ("failed", "skipped", "ready")

    def _code_of_draft(self, run: CompactionRun, told: list[Told]) -> str | None:
        """Why the last of these drafts of the run can not be accepted."""
        first, last = told[0], told[-1]
        text = self.teller.texts[last.key].strip()
        if len(text) < 30:
            return "too_short"
        if count(text) > 1.5 * first.target_tokens:
            return "oversize"
        if run.trigger == "carry_over":
            # It takes the place of nothing, so that it need not be shorter.
            return run.error_code if run.error_code == "no_progress" else None
        base = self.tree.nodes.get(run.base_id) if run.base_id else None
        pinned = {node.id for node in self.tree.messages() if node.pinned}
        replaced = sum(tokens for i, tokens in self.teller.covered[last.key].items() if i not in pinned)
        replaced += base.tokens if base else 0
        saved = replaced - count_summary(text, QuarterTokenCounter())
        # The memory that is shown beside it is to fit, too: a third of the whole target at most, half of what is left.
        if saved >= 0.1 * replaced and saved - first.target_tokens / 2 < 0.1 * replaced:
            return run.error_code if run.error_code == "no_progress" else None
        return "no_progress" if saved < 0.1 * replaced else None

    def ends_of_turns(self, tip: Node) -> list[Node]:
        """Where somebody may cut the branch."""
        tail = self.tree.tail(tip.id, self.tree.newest(tip.id))
        return [one for one, after in pairwise(tail) if after.role == "user"]

    def compact(
        self, tip: Node, instructions: str, answer: Answer, *, until: Node | None = None, writes: bool = False
    ) -> CompactionRun | None:
        """Compact while somebody waits, who may say where to cut or what the summary is."""
        asked: dict[str, Any] = {"instructions": instructions, "until": until and self.row(until)}
        if writes:
            # Who writes has read the whole branch.
            asked["text"] = f"K0K In short: {' '.join(f'#s{one.serial}#' for one in self.tree.path(tip.id)[-3:])}"
        problem = "text" if writes and self.is_too_long(asked["text"]) else ""
        if until is not None and until not in self.ends_of_turns(tip):
            problem = problem or ("until" if get_settings(self.session.settings).mode != "off" else "")
        if problem:
            said = {"text": "too long", "until": rf"essage {until.id if until else 0}\b"}[problem]
            with pytest.raises(InvalidMessage, match=said) as wrong:
                chat.compact(self.row(tip), **asked)
            assert wrong.value.field == problem
            seen[f"by hand: {problem}"] += 1
            return None
        known = self.run_keys()
        others, calls = self.open_runs(), self.teller.calls
        mode = get_settings(self.session.settings).mode
        run = failed = refused = None
        with self.answering(answer):
            try:
                run = chat.compact(self.row(tip), **asked)
            except CompactionRefused as error:
                refused = error
            except CompactionFailed as error:
                failed = error
        made = [run for run in self.runs() if run.pk not in known]
        if refused:
            assert {"mode_off": mode == "off", "open_run": others}[refused.reason]
            assert not made
            seen[f"manual refused: {refused.reason}"] += 1
            return None
        self.check_rows()
        if not made:
            self._check_taken_over(run.pk if run else failed and failed.run_id, others)
            return None
        seen[f"manual {made[-1].status}"] += 1
        if until is not None or writes:
            seen[f"by hand: {'a text' if writes else 'a cut'}, {made[-1].status}"] += 1
            assert not writes or self.teller.calls == calls, "a model wrote in somebody's place"
        if until is not None and run is not None and run.status == "succeeded" and answer.during is None:
            assert run.cutoff_id == until.id
        left = [run for run in made if run.status == "ready" and run.pk not in self.enqueued]
        assert not left, "the caller was told that it failed, and it goes on when the sweep finds it"
        if answer.during is None:
            assert all(run.status in ("succeeded", "skipped", "failed") for run in made)
            assert (failed is not None) == (made[-1].status == "failed")
            assert made[-1].status != "skipped" or self.teller.calls == calls
        return run

    def carry_over(self, source: Node, tip: Node, answer: Answer) -> None:
        """Bring to a branch what another one has below the fork of both."""
        here, there = ({one.id for one in self.tree.path(node.id)} for node in (tip, source))
        if source.id in here or tip.id in there:
            with pytest.raises(InvalidMessage, match="another branch"):
                chat.carry_over(self.row(source), self.row(tip))
            return
        stretch, calls, others = there - here, self.teller.calls, self.open_runs()
        made = [
            one for one in self.tree.summaries() if one.for_another and one.cutoff == source.id and not one.redacted
        ]
        row = problem = None
        with self.answering(answer):
            try:
                row = chat.carry_over(self.row(source), self.row(tip))
            except (CompactionRefused, CompactionFailed, MessageNotFound) as error:
                problem = error
        if row is not None:
            before = self.tree.path(tip.id)
            told = serials_in(row.content)
            assert told <= told_by(self.tree[i] for i in stretch), "it tells of more than the other branch"
            order = max((child.order for child in self.tree.children(tip.id)), default=0) + 1
            node = Node(row.pk, tip.id, "user", row.content, order, 0, copy_of=row.copy_of, carries=frozenset(told))
            node.tokens = node.own_tokens() + len(open_calls(before)) * TOKENS_PER_MISSING_RESULT
            self.tree.nodes[node.id] = node
        self.check_rows()
        seen[
            f"carried over: {problem.reason if isinstance(problem, CompactionRefused) else type(problem).__name__}"
        ] += 1
        mode = get_settings(self.session.settings).mode
        if mode == "off":
            assert isinstance(problem, CompactionRefused)
        elif any(set(one.covered) == stretch for one in made):
            assert row is not None
            assert self.teller.calls == calls, "it was made before"
        elif row is None and answer.during is None and answer.kind == "good":
            is_refused = isinstance(problem, CompactionRefused)
            assert others or (problem.reason == "nothing_to_compact" if is_refused else problem.error_code), problem

    def _check_taken_over(self, pk: int | None, before: list[CompactionRun]) -> None:
        """Whoever waits carries out what waits with nobody at work on it: claimed once, or opened a while ago."""
        earlier = {run.pk: run.previous_run_id for run in self.runs()}
        # Where it made nothing, what was made before for the same request is returned.
        [left] = [run for run in before if pk in _request_of(run.pk, earlier)]
        now = self.clock.time + timedelta(milliseconds=2)
        assert left.attempts or left.created_at < now - timedelta(seconds=9)
        assert left.status == "ready" or left.lease_expires_at < now
        after = CompactionRun.objects.filter(pk=left.pk).first()
        assert after is None or after.attempts > left.attempts
        seen["manual taken over"] += 1

    def check_at_rest(self) -> None:
        """After ``compact_session``: at or under the threshold, or with a reason that can be shown."""
        runs = self.runs()
        for tip in self.tree.tips():
            if not self._is_wanted(tip) or self.open_runs() or not self._cuts_left(tip):
                continue
            failed = [run for run in runs if run.tip_id == tip.id and run.status == "failed"]
            assert failed, "over the threshold, a legal cut is left, and nothing was tried"

    def meanwhile(self, request: SummaryRequest, action: tuple[str, int, int]) -> None:
        """What happens in the middle of the model's call."""
        self.check_rows()
        run = CompactionRun.objects.get(nonce=request.nonce)
        name, i, j = action
        erasures = self.erasures
        meanwhile.ACTIONS[name](self, run, i, j)
        seen[f"meanwhile: {name}"] += 1
        self.check_rows()
        now = CompactionRun.objects.get(pk=run.pk)
        self.fates[request.nonce] = {
            "claim_lost": now.claim_token != run.claim_token,
            "row": _state(now),
            "stale": self.why_stale(now),
            "erased": self.erasures != erasures,
        }
        # This was another worker's connection: the one that asks the model holds none.
        connections["default"].close()


def _state(run: CompactionRun) -> tuple[Any, ...]:
    return run.status, run.claim_token, run.attempts, run.summary_id, run.generation, run.error_code
