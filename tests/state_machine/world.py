"""A session on a real database and its model, kept in step: each operation is done to both and both are compared."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections

from compaction_app import chat, compaction, tasks
from compaction_app.conf import get_settings
from compaction_app.exceptions import (
    CompactionFailed,
    CompactionRefused,
    ContextOverflow,
    InvalidMessage,
)
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.prompts import count_summary
from compaction_app.values import SummaryRequest
from compaction_app.verifying import verify_session
from tests.state_machine.commits import check_commit, check_line
from tests.state_machine.contexts import Limits, check_context, expected_context
from tests.state_machine.model import (
    TOKENS_PER_MISSING_RESULT,
    Node,
    QuarterTokenCounter,
    Tree,
    count,
    open_calls,
    serials_in,
)
from tests.state_machine.teller import FAILED, KEY, REFUSED, TRANSIENT, Answer, Teller, TellingSummarizer

#: What the runs of the machine came to see, over all of them: a rule that never happens proves nothing.
seen: Counter[str] = Counter()

_TOOLS = [("look", "{}"), ("read_file", '{"path": "/etc/motd"}'), ("shell", '{"command": "ls -l"}')]
_OPEN = ("ready", "running")


class Clock:
    """Time as the app sees it: it passes when a rule says so, and a millisecond whenever somebody looks."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class _Faults(logging.Handler):
    """Errors that are only logged, kept to be raised."""

    def __init__(self, faults: list[BaseException]) -> None:
        super().__init__(logging.ERROR)
        self.faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.faults.append(error or AssertionError(record.getMessage()))


class World:
    """The session, its model, and what a host, a worker and an accident can do to them."""

    def __init__(self, clock: Clock, overrides: dict[str, Any], system_prompt: str, max_input: int | None) -> None:
        self.clock = clock
        self.session = chat.start_session(system_prompt=system_prompt, settings=overrides)
        self.stranger = chat.start_session()
        self.foreign = chat.append_message(self.stranger, None, role="user", content="elsewhere")
        self.tree = Tree()
        self.serial = 0
        self.gone: set[int] = set()
        self.erasures = 0
        self.generation = 0
        self.factor = 1.0
        self.finished: dict[int, tuple[str, int | None]] = {}
        self.enqueued: list[int] = []
        self.looked = 0
        self.fates: dict[str, dict[str, bool]] = {}
        #: Rows as they were last read: what a host holds in its hands is not always fresh.
        self.rows: dict[int, ChatMessage] = {}
        self.teller = Teller(self._meanwhile)
        # An on_commit that fails says so in a log only.
        self.log = _Faults(self.teller.faults)
        logging.getLogger("django.db.backends.base").addHandler(self.log)
        TellingSummarizer.teller = self.teller
        TellingSummarizer.max_input_tokens = max_input

    def close(self) -> None:
        logging.getLogger("django.db.backends.base").removeHandler(self.log)
        for session in (self.session, self.stranger):
            chat.delete_session(session)
            assert not ChatMessage.objects.filter(session_id=session.pk).exists()
            assert not CompactionRun.objects.filter(session_id=session.pk).exists()
            assert not CompactionEvent.objects.filter(session_id=session.pk).exists()
            assert not ChatSession.objects.filter(pk=session.pk).exists()

    # -- appending --------------------------------------------------------------------------------------

    def content(self, tokens: int, style: str = "plain") -> tuple[int, str]:
        """A new serial and a text of about this size that quotes it."""
        self.serial += 1
        filler = {"plain": "lorem ipsum ", "blank": "a \t  \n\n      \n b    ", "wide": "三つの"}[style]
        size = max(12, 4 * tokens)
        text = f"#s{self.serial}# ".ljust(12, ".") + filler * (size // len(filler) + 1)
        return self.serial, text[:size].strip()

    def say(
        self,
        parent: Node | None,
        role: str,
        tokens: int,
        *,
        calls: int = 0,
        answers: str = "",
        style: str = "plain",
        attached: bool = False,
        **extra: Any,
    ) -> Node:
        """Append one message that may stand there, to the session and to the model."""
        serial, content = self.content(tokens, style)
        tool_calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(_TOOLS[:calls])
        ]
        attachments = [{"type": "file", "name": "notes.txt"}] if attached else []
        reasoning = {"text": f"thought #s{serial}#"} if role == "assistant" and tokens % 3 == 0 else None
        row = chat.append_message(
            self.session,
            self.row(parent),
            role=role,
            content=content,
            tool_calls=tool_calls,
            tool_call_id=answers,
            attachments=attachments,
            reasoning=reasoning,
            **extra,
        )
        before = self.tree.path(parent.id if parent else None)
        siblings = self.tree.children(parent.id if parent else None)
        node = Node(
            id=row.pk,
            parent=parent.id if parent else None,
            role=role,
            content=content,
            order=max((sibling.order for sibling in siblings), default=0) + 1,
            tokens=0,
            serial=serial,
            calls=tool_calls,
            answers=answers,
            attachments=attachments,
            reasoning=reasoning,
        )
        closes = 0 if role == "tool" else len(open_calls(before))
        node.tokens = node.own_tokens() + closes * TOKENS_PER_MISSING_RESULT
        self.tree.nodes[node.id] = node
        return node

    def turn(self, parent: Node | None, shape: Sequence[tuple[int, int]], tokens: int) -> Node:
        """A user message and the work on it: for each (calls, results) a reply that calls and its results."""
        tip = self.say(parent, "user", tokens)
        return self.work(tip, [*shape, (0, 0)], tokens)

    def work(self, tip: Node, shape: Sequence[tuple[int, int]], tokens: int) -> Node:
        for calls, results in shape:
            tip = self.say(tip, "assistant", tokens, calls=calls)
            for n in range(min(calls, results)):
                style = ("plain", "blank", "wide")[(calls + n) % 3]
                tip = self.say(tip, "tool", tokens * (1 + n), answers=f"c{n}", style=style)
        return tip

    def refuse_append(self, how: str, node: Node) -> None:
        """Each of these raises, and nothing is written."""
        parent: ChatMessage | None = self.row(node)
        message: dict[str, Any] = {"role": "user", "content": "no"}
        if how == "summary":
            parent = self.row(next(iter(self.tree.summaries()), None))
            if parent is None:
                return
        elif how == "orphan":
            message = {"role": "tool", "content": "no", "tool_call_id": "nobody asked"}
        elif how == "answered":
            message = {"role": "tool", "content": "no", "tool_call_id": "c0"}
            if "c0" in open_calls(self.tree.path(node.id)):
                return
        elif how == "elsewhere":
            parent = self.foreign
        elif how == "role":
            message["role"] = "moderator"
        elif how == "nul":
            message["content"] = "no\x00"
        seen[f"refused: {how}"] += 1
        try:
            chat.append_message(self.session, parent, **message)
        except InvalidMessage:
            return
        raise AssertionError(f"{how} was not refused")

    def row(self, node: Node | None) -> ChatMessage | None:
        if node is None:
            return None
        return self.rows.get(node.id) or ChatMessage.objects.get(pk=node.id)

    # -- erasing ----------------------------------------------------------------------------------------

    def retire(self, summary: Node) -> None:
        due = {i for i in self.tree.built_on(summary.id) if not self.tree[i].retired}
        assert chat.retire_summary(self.row(summary), reason="a test") == sorted(due)
        for i in due:
            self.tree[i].retired = True
        seen["retired"] += len(due)

    def redact(self, node: Node) -> None:
        self.serial += 1
        replacement = f"[redacted #s{self.serial}#]"
        own = node.own_tokens()
        chat.redact_message(self.row(node), replacement=replacement)
        self.gone.add(node.serial)
        node.serial, node.content, node.redacted = self.serial, replacement, True
        node.attachments, node.reasoning = [], None
        for call in node.calls:
            call["function"] = {"name": call["function"]["name"], "arguments": "{}"}
        node.tokens += node.own_tokens() - own
        below = self.tree.subtree(node.id)
        for summary in self.tree.summaries():
            if summary.id in below:
                summary.retired, summary.redacted, summary.content = True, True, ""
                seen["emptied"] += 1
        self.erasures += 1
        self._check_unlinked(node)

    def _check_unlinked(self, node: Node) -> None:
        for run in self.runs():
            if run.tip_id is not None and node.id in {n.id for n in self.tree.path(run.tip_id)}:
                assert not run.error_detail
                assert not run.instructions

    def delete(self, node: Node) -> None:
        below = self.tree.subtree(node.id)
        assert chat.delete_message(self.row(node)) == len(below)
        for i in below:
            self.gone.add(self.tree.nodes.pop(i).serial)
        self.erasures += 1
        seen["deleted"] += len(below)

    def refuse_erasure(self, summary: Node) -> None:
        for erase in (chat.delete_message, chat.redact_message):
            try:
                erase(self.row(summary))
            except InvalidMessage:
                continue
            raise AssertionError("a summary was erased, not retired")

    # -- settings and figures ---------------------------------------------------------------------------

    def change_settings(self, overrides: dict[str, Any]) -> None:
        session = ChatSession.objects.get(pk=self.session.pk)
        session.settings = {**session.settings, **overrides}
        session.save()
        self.session = session

    def limits(self, **extra: Any) -> Limits:
        return Limits.of(get_settings(self.session.settings), self.session.system_prompt, self.factor, **extra)

    def reply_with_usage(self, parent: Node, tokens: int, ratio: float) -> Node | None:
        """A reply that says how many tokens its prompt took by the provider's count."""
        try:
            context = chat.get_context(self.row(parent))
        except ContextOverflow:
            return None
        prompt_tokens = int(context.tokens * ratio)
        node = self.say(parent, "assistant", tokens, context=context, usage={"prompt_tokens": prompt_tokens})
        if context.tokens > 0 and prompt_tokens > 0:
            observed = min(max(prompt_tokens / context.tokens, 0.8), 2.0)
            known = ChatSession.objects.get(pk=self.session.pk).token_calibration[""]
            first = self.session.token_calibration.get("") is None
            assert min(self.factor, observed) - 1e-3 <= known <= max(self.factor, observed) + 1e-3 or first
            self.factor = known
        self.session = ChatSession.objects.get(pk=self.session.pk)
        return node

    # -- runs -------------------------------------------------------------------------------------------

    def runs(self) -> list[CompactionRun]:
        return list(CompactionRun.objects.filter(session_id=self.session.pk).order_by("id"))

    def open_runs(self) -> list[CompactionRun]:
        return [run for run in self.runs() if run.status in _OPEN]

    def reaching(self, tip: Node) -> list[CompactionRun]:
        """Open runs whose work reaches into the branch: those anchored in its tail."""
        tail = {node.id for node in self.tree.tail(tip.id, self.tree.newest(tip.id))}
        return [run for run in self.open_runs() if run.anchor_id in tail]

    def request(self, tip: Node, trigger: str, instructions: str = "") -> CompactionRun | None:
        """Ask for a compaction in the background; what comes of it must follow from the model."""
        before = {run.pk for run in self.runs()}
        reaching, others = self.reaching(tip), self.open_runs()
        wanted = self._is_wanted(tip)
        events = CompactionEvent.objects.filter(session_id=self.session.pk)
        last_event = max(events.values_list("id", flat=True), default=0)
        asked = len(self.enqueued)
        run = chat.request_compaction(self.row(tip), trigger=trigger, instructions=instructions)
        mode = get_settings(self.session.settings).mode
        if run is None:
            reasons = set(events.filter(id__gt=last_event, kind="suppressed").values_list("payload__reason", flat=True))
            assert {r.pk for r in self.runs()} == before
            if trigger != "threshold":
                assert mode == "off" or others
            elif wanted or reasons:
                assert wanted is not False
                self._check_suppressed(tip, reasons, others, events)
            return None
        assert mode != "off"
        if run.status == "skipped":
            assert run.skip_reason == "nothing_to_compact"
            assert trigger != "threshold"
            return run
        assert wanted is not False or trigger != "threshold"
        assert not reaching, "an open run's work reaches into this branch already"
        for other in others:
            if other.tip_id in self.tree:
                assert run.anchor_id not in {n.id for n in self.tree.path(other.tip_id)}, "it reaches into another's"
        if mode == "deterministic":
            seen["run inline"] += 1
            assert CompactionRun.objects.get(pk=run.pk).status not in _OPEN
        else:
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
            said = events.filter(kind="suppressed", message_id=tip.id, payload__reason="irreducible")
            assert said.exists(), "over the threshold, no run, and no word why"
            reasons = {"irreducible"}
        (reason,) = reasons
        seen[f"suppressed: {reason}"] += 1
        if reason == "open_run":
            assert others
        elif reason == "irreducible":
            assert not self._legal_cuts(tip), "a legal cut is left"
        elif reason == "cooldown":
            assert settings.cooldown_seconds > 0
        else:
            assert reason == "breaker"
            assert [run for run in self.runs() if run.status == "failed"]

    def _legal_cuts(self, tip: Node) -> list[int]:
        """Where a cut may stand: before a user message or a later reply, with the floor behind it."""
        base = self.tree.newest(tip.id)
        tail = self.tree.tail(tip.id, base)
        replied, cuts = bool(base and base.pin), []
        for index, node in enumerate(tail):
            room = len(tail) - index >= get_settings(self.session.settings).preserve_recent_messages
            if node.role == "user" and index and room:
                cuts.append(index)
            if node.role == "assistant" and replied and index and room:
                cuts.append(index)
            replied = node.role == "assistant" or (replied and node.role != "user")
        return cuts

    def carry_out(self, run: CompactionRun, answer: Answer, *, awaited: bool = False) -> CompactionRun | None:
        """Do what a worker does; the end must follow from the answer and from what happened meanwhile."""
        run = CompactionRun.objects.get(pk=run.pk)
        now = self.clock.time + timedelta(milliseconds=2)
        due = run.status == "ready" and (run.next_attempt_at is None or run.next_attempt_at <= now)
        claimable = due or (run.status == "running" and run.lease_expires_at < now)
        calls = self.teller.calls
        stale = self._stale(run)
        self.teller.script.clear()
        self.teller.script.append(answer)
        if awaited:
            claimed = async_to_sync(compaction.acompact_chat_history)(run.pk) is not None
        else:
            claimed = tasks.compact_branch(run.pk) != "not claimed"
        self.teller.script.clear()
        self.raise_faults()
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
            self._check_end(after, answer)
        seen[f"run {after.status} {after.skip_reason or after.error_code}".strip()] += 1
        return after

    def _stale(self, run: CompactionRun) -> str | None:
        """Why a run can not be carried out any more."""
        if run.tip_id not in self.tree:
            return "branch_gone"
        base = self.tree.newest(run.tip_id)
        return None if (base.id if base else None) == run.base_id else "base_changed"

    def _check_end(self, run: CompactionRun, answer: Answer) -> None:
        fate = self.fates.pop(run.nonce, {})
        if fate.get("claim_lost"):
            return
        code = REFUSED.get(answer.kind) or FAILED.get(answer.kind) or TRANSIENT.get(answer.kind)
        if answer.kind in ("good", "oversize_once", "no_progress"):
            code = self._code_of_draft(run)
        if code is None:
            expected = fate.get("stale") or ("ready" if fate.get("erased") else "succeeded")
            assert (run.skip_reason or run.status) == expected
        elif answer.kind in TRANSIENT and run.trigger == "threshold" and run.attempts < 8:
            assert run.status == "ready" or fate.get("stale")
        elif not fate:
            assert (run.status, run.error_code) == ("failed", code)
        else:
            assert run.status in ("failed", "skipped", "ready")

    def _code_of_draft(self, run: CompactionRun) -> str | None:
        """Why the last draft for this run can not be accepted, by design §7."""
        asked = [told for told in self.teller.ledger.values() if told.nonce == run.nonce]
        first, last = asked[0], asked[-1]
        text = self.teller.texts[last.key].strip()
        if count(text) > 1.5 * first.target_tokens:
            return "oversize"
        base = self.tree.nodes.get(run.base_id) if run.base_id else None
        replaced = self.teller.replaced[last.key] + (base.tokens if base else 0)
        saved = replaced - count_summary(text, QuarterTokenCounter())
        return "no_progress" if saved < 0.1 * replaced else None

    def compact(self, tip: Node, instructions: str, answer: Answer) -> CompactionRun | None:
        """Compact while somebody waits."""
        known = {run.pk for run in self.runs()}
        others = self.open_runs()
        self.teller.script.clear()
        self.teller.script.append(answer)
        settings = get_settings(self.session.settings)
        calls = self.teller.calls
        failed = None
        try:
            run = chat.compact(self.row(tip), instructions=instructions)
        except CompactionRefused as refusal:
            self.raise_faults()
            assert refusal.reason == ("mode_off" if settings.mode == "off" else "open_run")
            assert settings.mode == "off" or others
            seen[f"manual refused: {refusal.reason}"] += 1
            assert {run.pk for run in self.runs()} == known
            return None
        except CompactionFailed as error:
            failed = error
            run = None
        self.raise_faults()
        self.teller.script.clear()
        made = [run for run in self.runs() if run.pk not in known]
        seen[f"manual {made[-1].status}"] += 1
        left = [run for run in made if run.is_open and run.pk not in self.enqueued]
        assert not left, "the caller was told that it failed, and it goes on when the sweep finds it"
        if answer.during is None:
            assert [run.status in ("succeeded", "skipped", "failed") for run in made] == [True] * len(made)
            assert (failed is not None) == (made[-1].status == "failed")
            if made[-1].status == "skipped":
                assert self.teller.calls == calls
        return run

    def check_at_rest(self) -> None:
        """After ``compact_session``: at or under the threshold, or with a reason that can be shown."""
        runs = self.runs()
        for tip in self.tree.tips():
            if not self._is_wanted(tip) or self.open_runs() or not self._legal_cuts(tip):
                continue
            failed = [run for run in runs if run.tip_id == tip.id and run.status == "failed"]
            assert failed, "over the threshold, a legal cut is left, and nothing was tried"

    # -- meanwhile --------------------------------------------------------------------------------------

    def _meanwhile(self, request: SummaryRequest, action: tuple[str, int, int]) -> None:
        """What happens in the middle of the model's call."""
        self.check_rows()
        run = CompactionRun.objects.get(nonce=request.nonce)
        name, i, j = action
        erasures = self.erasures
        getattr(self, f"_while_{name}")(run, i, j)
        seen[f"meanwhile: {name}"] += 1
        self.check_rows()
        now = CompactionRun.objects.get(pk=run.pk)
        self.fates[request.nonce] = {
            "claim_lost": now.claim_token != run.claim_token,
            "stale": self._stale(now),
            "erased": self.erasures != erasures,
        }
        # This was another worker's connection: the one that asks the model holds none.
        connections["default"].close()

    def _while_append(self, run: CompactionRun, i: int, j: int) -> None:
        self.say(pick(self.tree.messages(), i), "user", j % 200)

    def _while_delete_tip(self, run: CompactionRun, i: int, j: int) -> None:
        self.delete(self.tree[run.tip_id])

    def _while_delete(self, run: CompactionRun, i: int, j: int) -> None:
        self.delete(pick(self.tree.tips(), i))

    def _while_delete_above(self, run: CompactionRun, i: int, j: int) -> None:
        self.delete(pick(self.tree.path(run.tip_id), i))

    def _while_retire_base(self, run: CompactionRun, i: int, j: int) -> None:
        summaries = self.tree.live()
        if run.base_id:
            self.retire(pick(self.tree.chain(self.tree[run.base_id]), i))
        elif summaries:
            self.retire(pick(summaries, i))

    def _while_redact(self, run: CompactionRun, i: int, j: int) -> None:
        told = list(self.teller.ledger.values())[-1]
        ids = [n for n in (*told.covered, *told.lookahead) if n in self.tree]
        self.redact(self.tree[pick(ids, i)])

    def _while_claim(self, run: CompactionRun, i: int, j: int) -> None:
        calls = self.teller.calls
        assert compaction.compact_chat_history(run.pk) is None, "two workers have the same run"
        assert self.teller.calls == calls

    def _while_steal(self, run: CompactionRun, i: int, j: int) -> None:
        """The lease runs out, and another worker does the same work."""
        self.clock.advance(3600)
        assert self.carry_out(run, Answer(fill=0.4)) is not None

    def _while_compact(self, run: CompactionRun, i: int, j: int) -> None:
        self.compact(self.tree[run.tip_id] if i % 2 else pick(self.tree.messages(), j), "", Answer(fill=0.3))

    def _while_request(self, run: CompactionRun, i: int, j: int) -> None:
        self.request(pick(self.tree.messages(), i), "threshold")

    def _while_carry_out(self, run: CompactionRun, i: int, j: int) -> None:
        others = [other for other in self.open_runs() if other.pk != run.pk]
        if others:
            self.carry_out(pick(others, i), Answer(fill=0.4))

    def _while_settings(self, run: CompactionRun, i: int, j: int) -> None:
        self.change_settings({"CONTEXT_WINDOW": 500 + i % 4000})

    # -- comparing --------------------------------------------------------------------------------------

    def raise_faults(self) -> None:
        if self.teller.faults:
            raise self.teller.faults[0]

    def check_rows(self) -> None:
        """Every row against the model; new summaries are examined and adopted."""
        self.rows = rows = {row.pk: row for row in ChatMessage.objects.filter(session_id=self.session.pk)}
        runs = self.runs()
        self._adopt(rows, runs)
        assert set(rows) == set(self.tree.nodes), "rows came or went by themselves"
        for i, row in rows.items():
            self._check_row(row, self.tree[i])
        self._check_runs(runs)
        self._check_texts(rows, runs)
        session = ChatSession.objects.get(pk=self.session.pk)
        assert session.erasures == self.erasures

    def _adopt(self, rows: dict[int, ChatMessage], runs: list[CompactionRun]) -> None:
        new = {i for i, row in rows.items() if row.is_summary and i not in self.tree}
        made = [run for run in runs if (run.generation or 0) > self.generation]
        for run in sorted(made, key=lambda run: run.generation or 0):
            assert run.generation == self.generation + 1, "generations are not one after the other"
            self.generation = run.generation
            assert run.summary_id in new
            new.discard(run.summary_id)
            row = rows[run.summary_id]
            told = self.teller.ledger[int(KEY.findall(row.content)[0])]
            assert told.nonce == run.nonce
            assert row.retired_at is None
            node = check_commit(self.tree, row, run, told)
            self.tree.nodes[node.id] = node
            check_line(self.tree, node)
            self._note_summary(node, run)
        assert not new, "a summary without a run"

    def _note_summary(self, node: Node, run: CompactionRun) -> None:
        seen["summary"] += 1
        base = self.tree.nodes.get(node.base) if node.base else None
        seen["summary with base"] += base is not None
        seen["summary with pin"] += node.pin is not None
        seen["pin inherited"] += bool(base and base.pin and base.pin == node.pin)
        seen["pin let go"] += bool(base and base.pin and base.pin != node.pin)
        seen["follow-up generation"] += run.previous_run_id is not None
        seen["shown shortened"] += bool(run.shortened_inputs)
        seen["anchor below cutoff"] += node.parent != node.cutoff

    def _check_row(self, row: ChatMessage, node: Node) -> None:
        due = {
            "parent_message_id": node.parent,
            "kind": "summary" if node.is_summary else "message",
            "role": node.role,
            "content": node.content,
            "tool_calls": node.calls or None,
            "tool_call_id": node.answers,
            "attachments": node.attachments or None,
            "reasoning": node.reasoning,
            "token_count": node.tokens,
            "path_tokens": self.tree.path_tokens(node.id),
            "depth": self.tree.depth(node.id),
            "sib_order": node.order,
            "last_summarized_message_id": node.cutoff,
            "pinned_message_id": node.pin,
        }
        assert {name: getattr(row, name) for name in due} == due
        assert (row.retired_at is not None) == node.retired
        assert (row.redacted_at is not None) == node.redacted

    def _check_runs(self, runs: list[CompactionRun]) -> None:
        for run in runs:
            for reference in (run.tip_id, run.anchor_id, run.cutoff_id, run.base_id, run.summary_id):
                assert reference is None or reference in self.tree, "a reference to a row that is gone"
            end = (run.status, run.generation)
            if run.status not in _OPEN:
                assert self.finished.setdefault(run.pk, end) == end, "a finished run went on"
                assert run.claim_token is None
            else:
                assert run.pk not in self.finished
            assert bool(run.generation) == (run.status == "succeeded")
            assert bool(run.skip_reason) == (run.status == "skipped")
            assert run.status != "failed" or run.error_code
        workable = [run for run in runs if run.status in _OPEN and self._stale(run) is None]
        for tip in self.tree.tips():
            tail = {node.id for node in self.tree.tail(tip.id, self.tree.newest(tip.id))}
            assert len([run for run in workable if run.anchor_id in tail]) <= 1, "two open runs on one branch"

    def _check_texts(self, rows: dict[int, ChatMessage], runs: list[CompactionRun]) -> None:
        """What was erased is in no text that is still stored."""
        if not self.gone:
            return
        texts = [json.dumps([r.content, r.tool_calls, r.attachments, r.reasoning]) for r in rows.values()]
        texts += [f"{run.instructions} {run.error_detail} {run.policy_line}" for run in runs]
        events = CompactionEvent.objects.filter(session_id=self.session.pk)
        texts += [json.dumps(payload) for payload in events.values_list("payload", flat=True)]
        left = serials_in(" ".join(texts)) & self.gone
        assert not left, f"erased text is still there: {left}"

    def check(self) -> None:
        """All invariants: rows, and what is shown at tips and at some inner message."""
        self.raise_faults()
        self.check_rows()
        limits = self.limits()
        for node in self._some_nodes():
            self.check_at(node, limits)
        if self.looked % 6 == 0:
            assert verify_session(self.session).disagreements == []
        assert [row.pk for row in chat.tips(self.session)] == [node.id for node in self.tree.tips()]
        events = CompactionEvent.objects.filter(session_id=self.session.pk)
        assert not events.exclude(message=None).exclude(message_id__in=[n.id for n in self.tree.messages()]).exists()

    def _some_nodes(self) -> list[Node]:
        """A few tips and a few inner messages, others each time."""
        tips, messages = self.tree.tips(), self.tree.messages()
        self.looked += 1
        some = [pick(tips, self.looked * 2), pick(tips, self.looked * 2 + 1), pick(messages, self.looked * 7), *messages[-1:]]
        return list({node.id: node for node in some if node}.values())

    def check_at(self, node: Node, limits: Limits, **options: Any) -> None:
        row = self.row(node)
        expected = expected_context(self.tree, node.id, limits)
        newest = self.tree.newest(node.id)
        found = chat.find_summary(row)
        assert (found.pk if found else None) == (newest.id if newest else None), "not the newest applicable summary"
        try:
            context = chat.get_context(row, **options)
        except ContextOverflow as overflow:
            seen["context overflow"] += 1
            assert expected.overflow is not None, "it would fit"
            assert (overflow.needed, overflow.available) == (expected.overflow, limits.available)
            assert overflow.needed > overflow.available
            return
        assert expected.overflow is None, "more is shown than fits"
        check_context(self.tree, node.id, context, expected, limits)
        if limits.settings.mode != "off" and not expected.read_short:
            assert chat.should_compact(row, **options) == expected.over_threshold
        seen[f"context {context.strategy}"] += 1
        seen["context with pin"] += context.pinned_id is not None


def pick(items: Sequence[Any], i: int) -> Any:
    return items[i % len(items)] if items else None
