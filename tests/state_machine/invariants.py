"""What must hold after every rule: the rows against the model, and what is shown against the slow answer."""

import json
from dataclasses import replace
from typing import Any

from compaction_app import chat
from compaction_app.conf import get_settings
from compaction_app.exceptions import ContextOverflow
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun, MessagePin
from compaction_app.tree import branches
from compaction_app.tree.verify import verify_session
from compaction_app.values import PERSON, ChatContext, Meter
from tests.state_machine.commits import check_carried, check_commit, check_follow_up, check_line
from tests.state_machine.contexts import Limits, check_context, expected_context, pins_beside
from tests.state_machine.model import Node, serials_in
from tests.state_machine.tally import seen
from tests.state_machine.teller import KEY
from tests.state_machine.world import OPEN, World, pick

#: Of a session, among which a meter looks for its branch's.
_NEWEST_RUNS = 100


class CheckedWorld(World):
    """A world that can compare itself with its model."""

    def check_rows(self) -> None:
        """Every row against the model; new summaries are examined and adopted."""
        self.rows = rows = {row.pk: row for row in ChatMessage.objects.filter(session_id=self.session.pk)}
        runs = self.runs()
        self.has_open_runs = any(run.status in OPEN for run in runs)
        self._adopt(rows, runs)
        assert set(rows) == set(self.tree.nodes), "rows came or went by themselves"
        for i, row in rows.items():
            self._check_row(row, self.tree[i])
        self._check_runs(runs)
        self._check_texts(rows, runs)
        pins = set(MessagePin.objects.filter(session_id=self.session.pk).values_list("pk", flat=True))
        assert pins == {node.id for node in self.tree.messages() if node.pinned}
        session = ChatSession.objects.get(pk=self.session.pk)
        assert session.erasures == self.erasures

    def redact(self, node: Node, *, copies: bool = False) -> None:
        """What was summarized in a copy since it was looked at is known before it is emptied."""
        for copy, _ in self.copies_of(node) if copies else ():
            with self.inside(copy):
                self.check_rows()
        super().redact(node, copies=copies)

    def _adopt(self, rows: dict[int, ChatMessage], runs: list[CompactionRun]) -> None:
        new = {i for i, row in rows.items() if row.is_summary and i not in self.tree}
        made = [run for run in runs if (run.generation or 0) > self.generation]
        for run in sorted(made, key=lambda run: run.generation or 0):
            assert run.generation == self.generation + 1, "generations are not one after the other"
            self.generation = run.generation
            assert run.summary_id in new
            new.discard(run.summary_id)
            row = rows[run.summary_id]
            assert row.is_extract == bool(run.error_code), "an extract stands in for a failure, and for nothing else"
            is_told = not (row.is_extract or run.summarizer_model == PERSON)
            told = self.teller.ledger[int(KEY.findall(row.content)[0])] if is_told else None
            assert told is None or told.nonce == run.nonce
            if run.trigger == "carry_over":
                self.tree.nodes[row.pk] = check_carried(self.tree, row, run, told)
                seen["summary for another branch"] += 1
                continue
            assert row.retired_at is None
            # A correction is made at once.
            node = check_commit(self.tree, row, run, told) if run.nonce else self._corrected(row)
            self.tree.nodes[node.id] = node
            check_line(self.tree, node)
            if run.nonce:
                check_follow_up(self.tree, node, run, runs)
            self._note_summary(node, run)
        assert not new, "a summary without a run"

    def _corrected(self, row: ChatMessage) -> Node:
        """The node of a correction: it has the place of the summary before it, and all that this was told."""
        place = (row.parent_message_id, row.last_summarized_message_id)
        places = [s for s in self.tree.summaries() if (s.parent, s.cutoff) == place and not s.for_another]
        before = places[-1]
        assert before.retired
        assert (row.extract, row.pinned_message_id) == (before.extract, before.pin)
        order = max((child.order for child in self.tree.children(before.parent)), default=0) + 1
        changed: dict[str, Any] = {"content": row.text, "tokens": row.token_count, "order": order}
        return replace(before, id=row.pk, **changed, retired=False, redacted=False, by_person=True)

    def _note_summary(self, node: Node, run: CompactionRun) -> None:
        seen["summary"] += 1
        seen["extract instead"] += bool(run.error_code)
        base = self.tree.nodes.get(node.base) if node.base else None
        seen["summary with base"] += base is not None
        seen["summary with pin"] += node.pin is not None
        seen["pin inherited"] += bool(base and base.pin and base.pin == node.pin)
        seen["pin let go"] += bool(base and base.pin and base.pin != node.pin)
        seen["follow-up generation"] += run.previous_run_id is not None
        seen["shown shortened"] += bool(run.shortened_inputs)
        seen["anchor below cutoff"] += node.parent != node.cutoff
        seen["summary with extract"] += bool(node.extract)

    def _check_row(self, row: ChatMessage, node: Node) -> None:
        due = {
            "parent_message_id": node.parent,
            "kind": "summary" if node.is_summary else "message",
            "role": node.role,
            "text": node.content,
            "extract": node.extract,
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
        found = {name: (getattr(row, name), value) for name, value in due.items() if getattr(row, name) != value}
        assert not found, f"message {node.id} has, and should have: {found}"
        assert (row.retired_at is not None) == node.retired
        assert (row.redacted_at is not None) == node.redacted

    def _check_runs(self, runs: list[CompactionRun]) -> None:
        for run in runs:
            for reference in (run.tip_id, run.anchor_id, run.cutoff_id, run.base_id, run.summary_id):
                assert reference is None or reference in self.tree, "a reference to a row that is gone"
            end = (run.status, run.generation)
            if run.status not in OPEN:
                assert self.finished.setdefault(run.pk, end) == end, "a finished run went on"
                assert run.claim_token is None
            else:
                assert run.pk not in self.finished
            assert bool(run.generation) == (run.status == "succeeded")
            assert bool(run.skip_reason) == (run.status == "skipped")
            assert run.status != "failed" or run.error_code
        # What is made for another branch has no part in what is read here.
        open_here = [run for run in runs if run.status in OPEN and not run.is_for_another_branch]
        workable = [run for run in open_here if self.why_stale(run) is None]
        for tip in self.tree.tips():
            tail = {node.id for node in self.tree.tail(tip.id, self.tree.newest(tip.id))}
            assert len([run for run in workable if run.anchor_id in tail]) <= 1, "two open runs on one branch"

    def _check_texts(self, rows: dict[int, ChatMessage], runs: list[CompactionRun]) -> None:
        """What was erased is in no text that is still stored."""
        if not self.gone:
            return
        texts = [
            json.dumps([r.text, r.extract, r.tool_calls, r.attachments, r.reasoning, r.original]) for r in rows.values()
        ]
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
            problems = verify_session(self.session).problems
            assert problems == [], problems
        assert [row.pk for row in chat.tips(self.session)] == [node.id for node in self.tree.tips()]
        if copy := pick(self.copies, self.looked + self.looked // 6):
            with self.inside(copy):
                self.check_rows()
                if tip := pick(self.tree.tips(), self.looked):
                    self.check_at(tip, self.limits())
                if self.looked % 6 == 0:
                    problems = verify_session(self.session).problems
                    assert problems == [], problems
        events = CompactionEvent.objects.filter(session_id=self.session.pk)
        assert not events.exclude(message=None).exclude(message_id__in=[n.id for n in self.tree.messages()]).exists()

    def _some_nodes(self) -> list[Node]:
        """A few tips and a few inner messages, others each time."""
        tips, messages = self.tree.tips(), self.tree.messages()
        self.looked += 1
        some = [
            pick(tips, self.looked * 2),
            pick(tips, self.looked * 2 + 1),
            pick(messages, self.looked * 7),
            *messages[-1:],
        ]
        return list({node.id: node for node in some if node}.values())

    def _check_meter(self, node: Node, meter: Meter, context: ChatContext) -> None:
        parts = (meter.summary, meter.pins, meter.recalled, meter.messages)
        assert sum(parts) == meter.history == context.history_tokens
        # At or below the cutoff of what is in use.
        path = [one.id for one in self.tree.path(node.id)]
        due = set(path[path.index(context.cutoff_id) :] if context.cutoff_id else path)
        made = [run for run in self.runs() if not run.is_for_another_branch]
        anchored = [run for run in made[-_NEWEST_RUNS:] if run.anchor_id in due and run.status != "skipped"]
        newest = max(anchored, key=lambda run: run.pk, default=None)
        is_off = get_settings(self.session.settings).mode == "off"
        assert meter.run_id == (newest.pk if newest else None)
        assert (meter.state == "running") == bool(newest and newest.is_open)
        assert (meter.state == "failed") == bool(newest and newest.status == "failed" and not is_off)
        seen[f"meter {meter.state}"] += 1

    def check_at(self, node: Node, limits: Limits, **options: Any) -> None:
        row = self.row(node)
        expected = expected_context(self.tree, node.id, limits)
        newest = self.tree.newest(node.id)
        found = chat.find_summary(row)
        assert (found.pk if found else None) == (newest.id if newest else None), "not the newest applicable summary"
        stays = [*self.tree.tail(node.id, newest), *([self.tree[newest.pin]] if newest and newest.pin else [])]
        due = sum(one.tokens for one in (*stays, *pins_beside(self.tree.pins(node.id), stays)))
        assert branches.history_at(row).tokens == due + (newest.tokens if newest else 0)
        context = overflow = None
        try:
            context = chat.get_context(row, **options)
        except ContextOverflow as error:
            overflow = error
        if overflow:
            seen["context overflow"] += 1
            assert expected.overflow is not None, "it would fit"
            assert (overflow.needed, overflow.available) == (expected.overflow, limits.tried)
            return
        assert expected.overflow is None, "more is shown than fits"
        check_context(self.tree, node.id, context, expected, limits)
        if limits.settings.mode != "off" and not expected.read_short:
            assert chat.should_compact(row, **options) == expected.over_threshold
        if self.looked % 3 == 0:
            self._check_meter(node, chat.measure(row, **options), context)
        seen[f"context {context.strategy}"] += 1
        seen["context with request"] += context.pinned_id is not None
        seen["context with pins"] += bool(context.pin_ids)
        seen["context with own summary"] += context.own_summary_id is not None
