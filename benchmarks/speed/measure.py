"""Times the calls of several processes in turn, round by round, so that a slow moment affects all of them."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.speed.processes import Running

ROUNDS = 25
#: Seconds that one call may take in all, and in one round.
SECONDS, SECONDS_A_ROUND, MOST_TIMES = 1.2, 0.02, 20
#: Made once a round, since a conversation should not grow; after a read, so that the processor knows the code again.
WRITES = ("append", "turn", "fork", "turn_recent", "insert", "create", "ORM turn", "a run")


@dataclass(kw_only=True)
class Timing:
    """What was found of one call."""

    database: str
    size: int
    branches: int
    system: str
    call: str
    #: Seconds: the median of each round.
    values: list[float] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    #: Of the system: its packages, and what it waits for at a commit.
    versions: str = ""
    durability: str = ""
    #: Of the run that measured it: the day, processors and Python.
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half of the distance between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.values, n=4)
        return (high - low) / 2 / self.median


#: Of each of the two conversations that every database has before anything is timed: in an almost empty table a
#: database chooses other plans.
OTHERS = 5_000


def time_group(systems: Iterable[Running], database: str, size: int, branches: int) -> list[Timing]:
    """Grow the conversation in every system that takes it, then time every call of each."""
    work: list[tuple[Running, Timing, int, int, str | None]] = []
    at: dict[str, Any] = {"size": size, "branches": branches}
    for system in systems:
        calls = [call for call, largest in system.system.calls.items() if size <= largest]
        if not calls or (branches > 1 and not system.system.branches) or system.system.only_size not in (None, size):
            continue
        system.ask(do="grow", **at)
        for call in calls:
            timing = Timing(database=database, system=system.system.name, call=call, **at, **system.about)
            timing.counted = system.ask(do="count", call=call, **at)
            (once,) = system.ask(do="time", call=call, times=1, **at)["seconds"]
            times = 1 if call in WRITES else max(1, min(MOST_TIMES, int(SECONDS_A_ROUND / once)))
            before = system.system.first_read if call in WRITES else None
            if before:
                once += system.ask(do="time", call=before, times=1, **at)["seconds"][0]
            rounds = max(system.system.fewest_rounds, min(ROUNDS, int(SECONDS / (once * times))))
            work.append((system, timing, times, rounds, before))
    order = random.Random(size + branches)
    for round_number in range(ROUNDS):
        for system, timing, times, rounds, before in order.sample(work, len(work)):
            if round_number < rounds:
                if before:
                    system.ask(do="time", call=before, times=1, **at)
                seconds = system.ask(do="time", call=timing.call, times=times, **at)["seconds"]
                timing.values.append(statistics.median(seconds))
    return [timing for _, timing, *_ in work]
