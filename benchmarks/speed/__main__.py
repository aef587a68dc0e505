"""``make bench``: measures everything up to 10,000 messages, and writes docs/benchmarks/ and docs/proofs.md."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed import pages, report, results
from benchmarks.speed.clients import measure_clients
from benchmarks.speed.measure import OTHERS, Timing, time_group
from benchmarks.speed.processes import POSTGRES, SQLITE, Measured, NotInstalled, install, running
from benchmarks.speed.systems import APP, BACKGROUND, BARE, CLIENTS, DATABASES, PAGES, WORKERS, is_measured, systems_on

FOLDER = report.FOLDER
SIZES, LARGE = (100, 1_000, 10_000), 100_000
BRANCHES = (1, 50)
BACKGROUND_SIZES = (40_000, 80_000, 160_000)
NUMBERS_OF_WORKERS = (1, 2, 4)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--more", action="store_true", help="only what else there is: make bench-all")
    parser.add_argument("--clients", action="store_true", help="only many clients at once, and a network")
    parser.add_argument("--report", action="store_true", help="write the page anew from what was measured last")
    options = parser.parse_args(arguments)
    known = FOLDER / "results.json"
    stored = results.load(known) if known.exists() else []
    before = [one for one in stored if is_measured(one.system, one.call, one.size, one.branches)]
    if options.report:
        report.write(before)
        return 0
    started = time.monotonic()
    if options.more:
        timings = measure_more()
    elif options.clients:
        timings = measure_clients(installed(CLIENTS))
    else:
        timings = measure_turns(SIZES)
        timings += measure([BACKGROUND], SQLITE, BACKGROUND_SIZES, (1,))
        timings += measure_clients(installed(CLIENTS))
    print(f"Measured in {time.monotonic() - started:,.0f} s.", flush=True)
    machine = results.machine()
    for timing in timings:
        timing.machine = machine
    FOLDER.mkdir(exist_ok=True)
    results.save(results.merge(before, timings), known)
    report.write(results.load(known))
    print(f"Written: {report.PAGE.relative_to(Path.cwd())}, {FOLDER.relative_to(Path.cwd())}/")
    return 0


def measure_turns(sizes: Sequence[int], only: tuple[str, ...] = ("",)) -> list[Timing]:
    """Every system whose name begins so, on every database."""
    timings: list[Timing] = []
    for database in DATABASES:
        systems = [system for system in systems_on(database) if system.name.startswith(only)]
        timings += measure(systems, database, sizes, BRANCHES, has_others=True)
    return timings


def measure_more() -> list[Timing]:
    """Long conversations, a table of a million messages, and workers."""
    timings = measure_turns((LARGE,), (APP.name, BARE.name))
    for database in (SQLITE, POSTGRES):
        timings += measure(PAGES, database, (pages.SMALL, pages.LARGE), (1,))
    return timings + measure([WORKERS], POSTGRES, NUMBERS_OF_WORKERS, (1,))


def measure(
    offered: Sequence[Measured],
    database: str,
    sizes: Sequence[int],
    branches: Sequence[int],
    *,
    has_others: bool = False,
) -> list[Timing]:
    """``has_others``: each database has two more conversations, which are not measured."""
    timings: list[Timing] = []
    with running(installed(offered), database) as processes:
        for process in processes:
            about = process.ask(do="about")
            versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            process.about = {"versions": versions, "durability": about["durability"]}
            if has_others:
                process.ask(do="grow", size=OTHERS, branches=1)
        for size in sizes:
            for number in branches:
                started = time.monotonic()
                timings += time_group(processes, database, size, number)
                taken = time.monotonic() - started
                print(f"{database}: {size:,} messages, {number} branches, in {taken:.0f} s", flush=True)
    return timings


def installed(offered: Sequence[Measured]) -> list[Measured]:
    systems: list[Measured] = []
    for system in offered:
        try:
            if system.peer:
                install(system.peer)
        except NotInstalled as error:
            print(f"Not measured: {error}", file=sys.stderr)
            continue
        systems.append(system)
    return systems


if __name__ == "__main__":
    sys.exit(main())
