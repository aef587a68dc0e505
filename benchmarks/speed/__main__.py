"""``make bench``: measures everything up to 10,000 messages, and writes ``docs/benchmarks/``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed import pages, report, results
from benchmarks.speed.measure import Timing, prepare, time_group
from benchmarks.speed.processes import POSTGRES, SQLITE, Measured, NotInstalled, install, running
from benchmarks.speed.systems import BACKGROUND, DATABASES, PAGES, WORKERS, systems_on

FOLDER = report.FOLDER
SIZES, LARGE = (100, 1_000, 10_000), 100_000
BRANCHES = (1, 50)
BACKGROUND_SIZES = (1_000, 16_000)
LARGE_BACKGROUND = 50_000
NUMBERS_OF_WORKERS = (1, 2, 4)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also 100,000 messages, a table of a million, and workers")
    parser.add_argument("--size", type=int, action="append", help="only conversations of this size; nothing is written")
    parser.add_argument("--only", action="append", help="only systems whose name begins so; nothing is written")
    parser.add_argument("--json", type=Path, help="also store what was measured in this file")
    parser.add_argument("--report", action="store_true", help="write the page anew from what was measured last")
    options = parser.parse_args(arguments)
    if options.report:
        report.write(*results.load(FOLDER / "results.json"))
        return 0
    started = time.monotonic()
    timings = []
    sizes = options.size or [*SIZES, *([LARGE] if options.all else [])]
    for database in DATABASES:
        timings += measure(systems_on(database), database, sizes, BRANCHES, options.only)
    background = BACKGROUND_SIZES + ((LARGE_BACKGROUND,) if options.all else ())
    timings += measure([BACKGROUND], SQLITE, () if options.size else background, (1,), options.only)
    if options.all:
        for database in (SQLITE, POSTGRES):
            timings += measure(PAGES, database, (pages.SMALL, pages.LARGE), (1,), options.only)
        timings += measure([WORKERS], POSTGRES, NUMBERS_OF_WORKERS, (1,), options.only)
    machine = results.machine()
    print(f"Measured in {time.monotonic() - started:,.0f} s.", flush=True)
    if options.json:
        results.save(timings, machine, options.json)
    if options.size or options.only:
        print(report.tables(timings))
        return 0
    before = FOLDER / "results.json"
    if before.exists():
        print(report.moved(results.load(before)[0], timings))
    FOLDER.mkdir(exist_ok=True)
    results.save(timings, machine, before)
    report.write(*results.load(before))
    print(f"Written: {FOLDER.relative_to(Path.cwd())}/")
    return 0


def measure(
    offered: Sequence[Measured],
    database: str,
    sizes: Sequence[int],
    branches: Sequence[int],
    only: Sequence[str] | None = None,
) -> list[Timing]:
    systems: list[Measured] = []
    for system in offered if sizes else ():
        if only and not system.name.startswith(tuple(only)):
            continue
        try:
            if system.peer:
                install(system.peer)
        except NotInstalled as error:
            print(f"Not measured: {error}", file=sys.stderr)
            continue
        systems.append(system)
    timings: list[Timing] = []
    with running(systems, database) as processes:
        for process in processes:
            about = process.ask(do="about")
            versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            process.about = {"versions": versions, "durability": about["durability"]}
        prepare(processes)
        for size in sizes:
            for number in branches:
                started = time.monotonic()
                timings += time_group(processes, database, size, number)
                taken = time.monotonic() - started
                print(f"{database}: {size:,} messages, {number} branches, in {taken:.0f} s", flush=True)
    return timings


if __name__ == "__main__":
    sys.exit(main())
