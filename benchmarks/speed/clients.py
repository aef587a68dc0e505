"""Many clients at once on one PostgreSQL server, and a client with a network in between.

Each client is a process with a conversation of its own, of 100 messages or a few more, and they turn at the same time;
of each system only some of them turn at first, and then all. The systems take turns, round by round. What is stored of
a round is the seconds of a turn, all turns of all clients in a row, and of all rounds the slowest hundredth.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.speed.measure import Timing
from benchmarks.speed.network import network
from benchmarks.speed.processes import DURABILITY, POSTGRES, PREPARED, Measured, Running, started
from project.embedded import HOST, EmbeddedPostgres

NUMBERS = (1, 4, 16)
#: How much later every byte arrives, each way.
NETWORK_SECONDS = 0.001
_MESSAGES, _ROUNDS, _TURNS = 100, 7, 80
#: Calls whose sizes are numbers of clients.
AT_ONCE, OVER_NETWORK = "clients at once", "over a network"
CALLS = dict.fromkeys((AT_ONCE, OVER_NETWORK), max(NUMBERS))
#: What a client of each system does.
_TURN = {"this app": "requested turn", "Agents SDK, SQLAlchemySession": "turn_recent"}


@dataclass
class _Clients:
    """The processes of one system, on a database of their own, and what was measured of it."""

    system: Measured
    database: str
    call: str
    numbers: Sequence[int]
    processes: list[Running] = field(default_factory=list)
    rounds: dict[int, list[float]] = field(default_factory=dict)
    turns: dict[int, list[float]] = field(default_factory=dict)

    def start(self, url: str, stack: ExitStack, folder: Path) -> None:
        for number in range(max(self.numbers)):
            log = stack.enter_context((folder / f"{url.rpartition('/')[2]}-{number}.log").open("w+"))
            client = stack.enter_context(started(self.system, url, self.database, log))
            self.processes.append(Running(self.system, client))
            if not number:
                # The first one makes the tables.
                self.processes[0].ask(do="about")
        for number, process in enumerate(self.processes):
            # Their conversations are told apart by their sizes.
            process.ask(do="grow", size=_MESSAGES + number, branches=1)
        self.turn(self.processes, 3)

    def turn(self, clients: Sequence[Running], times: int) -> list[float]:
        call = _TURN.get(self.system.name, "turn")
        for client in clients:
            size = _MESSAGES + self.processes.index(client)
            client.tell(do="time", call=call, size=size, branches=1, times=times)
        return [second for client in clients for second in client.hear()["seconds"]]

    def measure(self, number: int) -> None:
        begun = time.perf_counter()
        turns = self.turn(self.processes[:number], max(4, _TURNS // number))
        self.rounds.setdefault(number, []).append((time.perf_counter() - begun) / len(turns))
        self.turns.setdefault(number, []).extend(turns)

    def timings(self) -> list[Timing]:
        about = self.processes[0].ask(do="about")
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        where = {"database": self.database, "branches": 1, "system": self.system.name, "call": self.call}
        return [
            Timing(
                **where,
                size=number,
                values=self.rounds[number],
                counted={
                    "slowest_microseconds": int(sorted(self.turns[number])[-len(self.turns[number]) // 100] * 1e6)
                },
                versions=versions,
                durability=about["durability"],
            )
            for number in self.numbers
        ]


def measure_clients(systems: Sequence[Measured], numbers: Sequence[int] = NUMBERS) -> list[Timing]:
    """``systems``: those that are on PostgreSQL; the first is measured with prepared statements, too."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedPostgres(options={**DURABILITY, "max_connections": "300"}))
        between = stack.enter_context(network(HOST, server.port, NETWORK_SECONDS))
        measured: list[_Clients] = []
        for system, database in ((systems[0], PREPARED), *((system, POSTGRES) for system in systems)):
            url = server.create_database(f"clients{len(measured)}")
            far = url.replace(f":{server.port}/", f":{between.port}/")
            for address, call, clients in ((url, AT_ONCE, numbers), (far, OVER_NETWORK, (1,))):
                one = _Clients(system, database, call, clients)
                one.start(address, stack, folder)
                measured.append(one)
        work = [(one, number) for one in measured for number in one.numbers]
        order = random.Random(len(work))
        for _ in range(_ROUNDS):
            for one, number in order.sample(work, len(work)):
                one.measure(number)
        return [timing for one in measured for timing in one.timings()]
