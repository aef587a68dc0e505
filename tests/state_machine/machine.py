"""The rules: everything that people, workers and accidents may do to a conversation, in any order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import django.utils.timezone
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from compaction_app import chat, tasks
from compaction_app.models import CompactionRun, database
from compaction_app.tree import branches
from tests.state_machine import choices
from tests.state_machine.compacting import CompactingWorld
from tests.state_machine.model import open_calls
from tests.state_machine.tally import executed
from tests.state_machine.teller import Answer, TellingSummarizer
from tests.state_machine.world import OPEN, Clock, pick


def has_summaries(machine: ConversationMachine) -> bool:
    return bool(machine.world.tree.summaries())


def has_messages(machine: ConversationMachine) -> bool:
    return bool(machine.world.tree.messages())


def has_open_runs(machine: ConversationMachine) -> bool:
    return machine.world.has_open_runs


def act(**choices: Any) -> Callable[[Any], Any]:
    """A rule. One that finds nothing to do returns False; after every other all that must hold is checked."""

    def decorate(do: Any) -> Any:
        @rule(**choices)
        @wraps(do)
        def carry_out(machine: ConversationMachine, **chosen: Any) -> None:
            if do(machine, **chosen) is not False:
                machine.done(do.__name__)

        return carry_out

    return decorate


class ConversationMachine(RuleBasedStateMachine):
    """One session on a database of its own choice, from start to deletion."""

    world: CompactingWorld
    patches: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.clock = Clock()
        self.patches.setattr(django.utils.timezone, "now", self.clock.now)
        # The database's clock goes with the hosts'.
        for module in [one for one in sys.modules.values() if vars(one).get("now_of") is database.now_of]:
            self.patches.setattr(module, "now_of", lambda _near: self.clock.now())
        # The field took the function when its class was made.
        self.patches.setattr(CompactionRun._meta.get_field("created_at"), "_get_default", self.clock.now)
        # A broker must not slow it, and a fuzzer must not need one.
        self.patches.setattr(tasks, "enqueue", self._enqueue)

    def _enqueue(self, run: CompactionRun, *, countdown: float = 0.0) -> bool:
        CompactionRun.objects.filter(pk=run.pk).update(enqueued_at=self.clock.now())
        self.world.enqueued.append(run.pk)
        return True

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.world.teller.script.clear()
                self.world.close()
        finally:
            self.patches.undo()

    def done(self, name: str) -> None:
        executed[name] += 1
        self.world.check()

    def tip(self, i: int) -> Any:
        return pick(self.world.tree.tips(), i)

    def heavy(self, i: int) -> Any:
        """A tip with much to compact; those with a summary to build on first."""
        tree = self.world.tree
        over = [n for n in tree.tips() if sum(m.tokens for m in tree.tail(n.id, tree.newest(n.id))) > 500]
        return pick([n for n in over if tree.newest(n.id)] or over, i) or self.tip(i)

    def message(self, i: int) -> Any:
        return pick(self.world.tree.messages(), i)

    @initialize(
        overrides=choices.settings,
        prompt=st.sampled_from(["", "You are brief."]),
        max_input=choices.max_input,
        turns=st.integers(1, 8),
        work=choices.work,
        tokens=st.integers(20, 200),
    )
    def start(
        self,
        overrides: dict[str, Any],
        prompt: str,
        max_input: int | None,
        turns: int,
        work: list[tuple[int, int]],
        tokens: int,
    ) -> None:
        self.world = CompactingWorld(self.clock, overrides, prompt, max_input)
        tip = None
        for _ in range(turns):
            tip = self.world.turn(tip, work, tokens)
        self.done("start")

    # -- growing ----------------------------------------------------------------------------------------

    @act(i=choices.any_of, role=choices.roles, tokens=choices.tokens, attached=st.booleans())
    def append(self, i: int, role: str, tokens: int, attached: bool) -> None:
        self.world.say(self.tip(i), role, tokens, attached=attached)

    @act(i=choices.any_of, work=choices.work, tokens=choices.tokens, own=st.sampled_from([None, False, False, True]))
    def append_turn(self, i: int, work: list[tuple[int, int]], tokens: int, own: bool | None) -> None:
        """``own``: then a reply with the provider's own summary; True: of another model's."""
        tip = self.world.turn(self.tip(i), work, tokens)
        if own is not None:
            self.world.reply_with_own_summary(tip, tokens, is_others=own)

    @act(i=choices.any_of, tokens=st.integers(5, 200))
    def append_turns(self, i: int, tokens: int) -> None:
        tip = self.tip(i)
        for _ in range(4):
            tip = self.world.turn(tip, [], tokens)

    @precondition(has_messages)
    @act(i=choices.any_of, work=choices.long_work, tokens=st.integers(5, 200))
    def work_on(self, i: int, work: list[tuple[int, int]], tokens: int) -> None:
        self.world.work(self.tip(i), work, tokens)

    @precondition(has_messages)
    @act(i=choices.any_of, call=st.integers(0, 2), tokens=choices.tokens, style=choices.styles, at_tip=st.booleans())
    def answer(self, i: int, call: int, tokens: int, style: str, at_tip: bool) -> bool:
        """A result, for whatever call waits there; with ``at_tip`` off a fork between results."""
        waiting = [node for node in self.world.tree.messages() if open_calls(self.world.tree.path(node.id))]
        node = pick([n for n in waiting if n in self.world.tree.tips()] if at_tip else waiting, i)
        if node is None:
            return False
        calls = open_calls(self.world.tree.path(node.id))
        self.world.say(node, "tool", tokens, answers=pick(calls, call), style=style)
        return True

    @precondition(has_messages)
    @act(i=choices.any_of, role=choices.roles, tokens=choices.tokens, calls=st.integers(0, 3))
    def fork(self, i: int, role: str, tokens: int, calls: int) -> None:
        self.world.say(self.message(i), role, tokens, calls=calls if role == "assistant" else 0)

    @precondition(has_summaries)
    @act(i=choices.any_of, back=st.integers(0, 3), tokens=st.integers(20, 200))
    def fork_above_an_anchor(self, i: int, back: int, tokens: int) -> bool:
        """Below the cutoff of a live summary and above its anchor: its text does not apply there."""
        summary = pick([one for one in self.world.tree.live() if one.parent != one.cutoff], i)
        if summary is None:
            return False
        between = [node for node in self.world.tree.tail(summary.parent, summary) if node.id != summary.parent]
        self.world.turn(pick([self.world.tree[summary.cutoff], *between], back), [], tokens)
        return True

    @precondition(has_messages)
    @act(i=choices.any_of, tokens=choices.tokens)
    def edit(self, i: int, tokens: int) -> bool:
        """A variant beside a message: an edit of a user's, a regeneration of a reply. Of a root a new root."""
        users = [node for node in self.world.tree.messages() if node.role in ("user", "assistant")]
        node = pick(users, i)
        if node is None:
            return False
        parent = self.world.tree[node.parent] if node.parent else None
        self.world.say(parent, node.role, tokens)
        variants = [row.pk for row in chat.variants(self.world.row(node))]
        siblings = [n.id for n in self.world.tree.children(node.parent) if not n.is_summary]
        assert variants == siblings
        return True

    @precondition(has_messages)
    @act(i=choices.any_of, tokens=choices.tokens, ratio=st.sampled_from([0.0, 0.7, 1.0, 1.3, 5.0]))
    def reply_with_usage(self, i: int, tokens: int, ratio: float) -> bool:
        return self.world.reply_with_usage(self.tip(i), tokens, ratio) is not None

    # -- compacting -------------------------------------------------------------------------------------

    @precondition(has_messages)
    @act(i=choices.any_of, inner=st.booleans(), focus=st.sampled_from([None, None, 0, 1]), answer=choices.answers)
    def compact(self, i: int, inner: bool, focus: int | None, answer: Answer) -> None:
        node = self.message(i) if inner else self.heavy(i)
        self.world.compact(node, self._instructions(node, focus), answer)

    @precondition(has_messages)
    @act(i=choices.any_of, cut=choices.any_of, writes=st.booleans(), answer=choices.answers)
    def compact_by_hand(self, i: int, cut: int, writes: bool, answer: Answer) -> None:
        """Somebody says where to cut, or writes the summary, or both."""
        node, tree = self.heavy(i), self.world.tree
        until = pick(tree.tail(node.id, tree.newest(node.id)), cut) if cut % 3 or not writes else None
        if cut % 4:
            until = pick(self.world.ends_of_turns(node), cut) or until
        self.world.compact(node, "", answer, until=until, writes=writes)

    @precondition(has_summaries)
    @act(i=choices.any_of)
    def correct(self, i: int) -> None:
        self.world.correct(pick(self.world.tree.summaries(), i))

    def _instructions(self, node: Any, focus: int | None) -> str:
        if focus is None:
            return ""
        return f"Dwell on #s{pick(self.world.tree.path(node.id), focus).serial}#."

    @precondition(has_messages)
    @act(i=choices.any_of)
    def compact_twice(self, i: int) -> None:
        """So compacting twice is compacting once, unless the first left the branch over its threshold."""
        tip = self.tip(i)
        first = self.world.compact(tip, "", Answer(fill=1.0))
        # Where a run of an earlier tip is open, that one is carried out, which covers nothing after its own tip.
        is_own = first is not None and first.status == "succeeded" and first.tip_id == tip.id
        if is_own and tip.id in self.world.tree:
            raw = branches.history_at(self.world.row(tip)).tokens
            calls = self.world.teller.calls
            again = self.world.compact(tip, "", Answer(fill=1.0))
            if raw <= self.world.limits().threshold:
                assert again is not None
                assert again.status == "skipped"
                assert self.world.teller.calls == calls

    @precondition(has_messages)
    @act(i=choices.any_of, inner=st.booleans(), trigger=st.sampled_from(["threshold"] * 4 + ["manual", "overflow"]))
    def request(self, i: int, inner: bool, trigger: str) -> None:
        self.world.request(self.message(i) if inner else self.tip(i), trigger)

    @precondition(has_messages)
    @act(
        i=choices.any_of, inner=st.booleans(), trigger=st.sampled_from(["threshold", "manual"]), answer=choices.answers
    )
    def compact_in_the_background(self, i: int, inner: bool, trigger: str, answer: Answer) -> None:
        run = self.world.request(self.message(i) if inner else self.heavy(i), trigger)
        if run is not None and run.is_open:
            self.world.carry_out(run, answer)

    @precondition(has_messages)
    @act(i=choices.any_of, j=choices.any_of, first=choices.answers, second=choices.answers, swap=st.booleans())
    def compact_two_at_once(self, i: int, j: int, first: Answer, second: Answer, swap: bool) -> None:
        """Both opened before either is carried out, in either order."""
        runs = [self.world.request(node, "manual") for node in (self.heavy(i), self.message(j))]
        opened = [run for run in runs if run is not None and run.is_open]
        for run, answer in zip(reversed(opened) if swap else opened, (first, second), strict=False):
            self.world.carry_out(run, answer)

    @precondition(has_messages)
    @act(do=st.booleans(), answer=choices.answers)
    def request_everywhere(self, do: bool, answer: Answer) -> None:
        """At every tip; and then perhaps a worker comes by, to whose first run something may happen."""
        opened = [self.world.request(tip, "threshold") for tip in self.world.tree.tips()]
        for run in [run for run in opened if run is not None and run.is_open] if do else []:
            self.world.carry_out(run, answer)
            answer = Answer(fill=1.0)

    @precondition(has_open_runs)
    @act(i=choices.any_of, answer=choices.answers)
    def carry_out(self, i: int, answer: Answer) -> None:
        self.world.carry_out(pick(self.world.open_runs(), i), answer)

    @precondition(has_open_runs)
    @act(i=choices.any_of, kind=st.sampled_from(["good", "good", "transient", "permanent", "oversize_once"]))
    def carry_out_awaited(self, i: int, kind: str) -> None:
        self.world.carry_out(pick(self.world.open_runs(), i), Answer(kind=kind), awaited=True)

    @precondition(has_open_runs)
    @act(reverse=st.booleans())
    def carry_out_all(self, reverse: bool) -> None:
        for run in sorted(self.world.open_runs(), key=lambda run: run.pk, reverse=reverse):
            self.world.carry_out(run, Answer(fill=1.0))

    @precondition(has_summaries)
    @act(i=choices.any_of)
    def retire_the_base_of_a_run(self, i: int) -> None:
        """Before a worker comes to it: what it was to build on is out of use."""
        run = self.world.request(self.heavy(i), "manual")
        if run is not None and run.is_open and run.base_id:
            self.world.retire(self.world.tree[run.base_id])
            self.world.carry_out(run, Answer())

    @act(i=choices.any_of)
    def deliver_again(self, i: int) -> bool:
        finished = [run for run in self.world.runs() if not run.is_open]
        if not finished:
            return False
        self.world.carry_out(pick(finished, i), Answer())
        return True

    @act(seconds=st.sampled_from([1, 10, 70, 400, 4000]), sweep=st.booleans())
    def time_passes(self, seconds: int, sweep: bool) -> None:
        """And perhaps the sweep comes by, which enqueues only what is open."""
        self.clock.advance(seconds)
        asked = len(self.world.enqueued)
        if sweep:
            tasks.recover_compactions()
        # In copies, too.
        still_open = CompactionRun.objects.filter(status__in=OPEN).values_list("pk", flat=True)
        assert set(self.world.enqueued[asked:]) <= set(still_open)

    @act(answer=choices.answers)
    def compact_session(self, answer: Answer) -> None:
        """Brings every tip to its threshold or to rest; what is left has a reason."""
        with self.world.answering(answer):
            tasks.compact_session(str(self.world.session.pk))
        self.world.check_rows()
        if answer.during is None:
            self.world.check_at_rest()

    # -- taking away ------------------------------------------------------------------------------------

    @precondition(has_summaries)
    @act(i=choices.any_of)
    def retire(self, i: int) -> None:
        self.world.retire(pick(self.world.tree.summaries(), i))

    @precondition(has_messages)
    @act(i=choices.any_of, copies=st.booleans())
    def redact(self, i: int, copies: bool) -> None:
        copied = [node for node in self.world.tree.messages() if self.world.copies_of(node)]
        self.world.redact(pick(copied if copies else [], i) or self.message(i), copies=copies)

    @precondition(has_messages)
    @act(i=choices.any_of, anywhere=st.booleans())
    def delete(self, i: int, anywhere: bool) -> None:
        """Mostly a message near a tip, so that trees grow."""
        near = [node for node in self.world.tree.messages() if len(self.world.tree.subtree(node.id)) <= 4]
        self.world.delete(self.message(i) if anywhere and i % 5 == 0 else pick(near, i) or self.tip(i))

    @precondition(has_messages)
    @act(i=choices.any_of, small=st.booleans())
    def pin(self, i: int, small: bool) -> None:
        """A small message that can be pinned, or any, summaries too."""
        nodes = [n for n in self.world.tree.messages() if n.tokens < 100 and n.role != "tool" and not n.calls]
        self.world.pin(pick(nodes if small and nodes else list(self.world.tree.nodes.values()), i))

    @precondition(has_messages)
    @act(i=choices.any_of)
    def unpin(self, i: int) -> None:
        pinned = [node for node in self.world.tree.messages() if node.pinned]
        self.world.unpin(pick(pinned, i) if pinned and i % 2 else self.message(i))

    @precondition(has_summaries)
    @act(i=choices.any_of)
    def erase_a_summary(self, i: int) -> None:
        self.world.refuse_erasure(pick(self.world.tree.summaries(), i))

    @precondition(has_messages)
    @act(i=choices.any_of, j=choices.any_of, answer=choices.answers, then=st.sampled_from(["", "", "redact", "delete"]))
    def carry_over(self, i: int, j: int, answer: Answer, then: str) -> None:
        """Mostly from the tip of another branch; then perhaps one of the messages goes there."""
        tip, tree = self.tip(i), self.world.tree
        source = pick([one for one in tree.tips() if one is not tip], j) if j % 5 else None
        source = source or self.message(j)
        self.world.carry_over(source, tip, answer)
        if then and source.id in tree:
            path = tree.path(source.id)
            self.world.redact(pick(path, j)) if then == "redact" else self.world.delete(pick(path[-3:], j))

    # -- copies -----------------------------------------------------------------------------------------

    @precondition(has_messages)
    @act(i=choices.any_of, j=choices.any_of, near=st.booleans(), redact=st.booleans())
    def copy_branch(self, i: int, j: int, near: bool, redact: bool) -> None:
        """Mostly down to the tip or not far above it; then perhaps a message goes, here and there."""
        path = self.world.tree.path(self.tip(i).id)
        self.world.copy(path[-1], pick(path[-4:] if near else path, j))
        if redact:
            self.world.redact(path[0], copies=True)

    @precondition(has_summaries)
    @act(i=choices.any_of, j=choices.any_of, redact=st.booleans())
    def hand_over(self, i: int, j: int, redact: bool) -> bool:
        """Where a summary applies; then perhaps one of the messages above it goes."""
        tips = [one for one in self.world.tree.tips() if self.world.tree.newest(one.id)]
        if not tips:
            return False
        tip = pick(tips, i)
        self.world.hand_over(tip)
        if redact:
            self.world.redact(pick(self.world.tree.path(tip.id), j))
        return True

    @act(c=choices.any_of, i=choices.any_of, j=choices.any_of, tokens=choices.tokens, what=choices.in_a_copy)
    def go_on_in_a_copy(self, c: int, i: int, j: int, tokens: int, what: str) -> bool:
        """What happens there, down to copies of its own, does not show here, nor the other way round."""
        copy = pick(self.world.copies, c)
        if copy is None or not copy.tree.messages():
            return False
        with self.world.inside(copy):
            self.world.check_rows()
            node, tip = self.message(i), self.tip(j)
            if what == "turn":
                self.world.turn(tip, [(1, 1)], tokens)
            elif what == "fork":
                self.world.say(node, "user", tokens)
            elif what == "redact":
                self.world.redact(node, copies=bool(j % 2))
            elif what == "delete":
                self.world.delete(tip if i % 3 else node)
            elif what == "compact":
                self.world.compact(self.heavy(i), "", Answer(fill=1.0))
            elif what == "copy":
                self.world.copy(tip, pick(self.world.tree.path(tip.id), i))
            elif what == "hand_over":
                if self.world.tree.newest(tip.id):
                    self.world.hand_over(tip)
            elif self.world.tree.summaries():
                self.world.retire(pick(self.world.tree.summaries(), i))
            self.world.check_rows()
        return True

    # -- settings and looking ---------------------------------------------------------------------------

    @act(overrides=choices.some_settings)
    def change_settings(self, overrides: dict[str, Any]) -> None:
        self.world.change_settings(overrides)

    @act(limit=choices.max_input)
    def change_summarizer(self, limit: int | None) -> None:
        TellingSummarizer.max_input_tokens = limit

    @precondition(has_messages)
    @act(i=choices.any_of, size=st.integers(1, 40), reply=st.one_of(st.none(), st.integers(0, 100)))
    def look(self, i: int, size: int, reply: int | None) -> None:
        """A turn of a host that adds what it retrieved, and the transcript that people see."""
        node = self.message(i)
        retrieved = [{"role": "user", "content": "r" * 4 * size}]
        limits = self.world.limits(extra=4 + size, reply=reply)
        self.world.check_at(node, limits, contributions=retrieved, reserved_tokens=reply)
        assert [row.pk for row in chat.get_branch(self.world.row(node))] == [
            n.id for n in self.world.tree.path(node.id)
        ]
