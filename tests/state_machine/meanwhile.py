"""What can happen in the middle of a model's call. Each takes the run that is waiting and two choices."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from inspect import isfunction
from typing import TYPE_CHECKING

from compaction_app.compaction import execute
from compaction_app.models import CompactionRun
from tests.state_machine.teller import Answer
from tests.state_machine.world import pick

if TYPE_CHECKING:
    from tests.state_machine.compacting import CompactingWorld


def append(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.say(pick(world.tree.messages(), i), "user", j % 200)


def delete_tip(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.delete(world.tree[run.tip_id])


def delete(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.delete(pick(world.tree.tips(), i))


def delete_above(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.delete(pick(world.tree.path(run.tip_id), i))


def retire_base(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    summaries = world.tree.live()
    if run.base_id:
        world.retire(pick(world.tree.chain(world.tree[run.base_id]), i))
    elif summaries:
        world.retire(pick(summaries, i))


def redact(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    told = list(world.teller.ledger.values())[-1]
    ids = [n for n in (*told.covered, *told.lookahead) if n in world.tree]
    world.redact(world.tree[pick(ids, i)])


def claim(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    calls = world.teller.calls
    assert execute.compact_chat_history(run.pk) is None, "two workers have the same run"
    assert world.teller.calls == calls


def steal(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    """The lease runs out, and another worker does the same work."""
    world.clock.advance(3600)
    assert world.carry_out(run, Answer(fill=0.4)) is not None
    assert not run.renew(60), "renewed by the worker that lost it"


def steal_and_die(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    """As above, and the other worker is killed before it comes to anything."""
    world.clock.advance(3600)
    assert CompactionRun.objects.claim(run.pk, 3600) is not None


def renew(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    """The lease is renewed in time, so no other worker takes the run."""
    assert run.renew(7200)
    world.clock.advance(3600)
    claim(world, run, i, j)


def reach_the_time_limit(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    """The thread that renews the lease ends the run; the worker comes back later."""
    assert copy(run).fail("time_limit", "Not finished.")
    assert not run.renew(60)


def compact(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.compact(world.tree[run.tip_id] if i % 2 else pick(world.tree.messages(), j), "", Answer(fill=0.3))


def request(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.request(pick(world.tree.messages(), i), "threshold")


def carry_out(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    others = [other for other in world.open_runs() if other.pk != run.pk]
    if others:
        world.carry_out(pick(others, i), Answer(fill=0.4))


def settings(world: CompactingWorld, run: CompactionRun, i: int, j: int) -> None:
    world.change_settings({"CONTEXT_WINDOW": 500 + i % 4000})


Action = Callable[["CompactingWorld", CompactionRun, int, int], None]
ACTIONS: dict[str, Action] = {
    name: action for name, action in vars().items() if isfunction(action) and action.__module__ == __name__
}
