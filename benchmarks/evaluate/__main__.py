"""How much a context still has of what was summarized, and whether it misleads: see docs/proofs.md.

Without options everything is measured, and the tables of docs/proofs.md are written again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence, Sized
from multiprocessing import Pool
from pathlib import Path

from benchmarks.evaluate import baselines, planted, product, real, report
from benchmarks.evaluate.cases import REPOSITORY, Case, Cell, Result
from benchmarks.evaluate.planted import HAND_WRITTEN, HELD_OUT, REFERENCE, TUNED

#: What is measured in each, on which set of conversations or traps.
SECTIONS = {
    "agents": (("agents", TUNED), ("agents", HELD_OUT)),
    "friends": (("friends", TUNED), ("friends", HELD_OUT)),
    "written": (("facts", HAND_WRITTEN),),
    "grown": (("facts", TUNED),),
    "traps": (("traps", TUNED), ("traps", REFERENCE)),
    "held-out": (("facts", HELD_OUT), ("traps", HELD_OUT)),
}
RUN = {"agents": real.agents, "friends": real.friends, "facts": planted.facts, "traps": planted.traps}
_ROUNDS, _MANY_ROUNDS = (1, 5), 20
_BUDGETS, _TRAP_BUDGETS = (0.05, 0.1, 0.2, 0.3), (1_500, 4_000)
#: With --quick: each nth conversation, and fewer windows and budgets.
_EACH = {"agents": 4, "facts": 4, "traps": 2}
_QUICK_WINDOWS, _QUICK_BUDGETS = (3_500, 5_000), (0.1, 0.2)
#: A model is asked about so many conversations of a set, at one budget.
_ASKED, _ASKED_AT, _ASKED_TRAPS_AT = {"agents": 8}, 0.2, 4_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluate", description=__doc__)
    parser.add_argument("--only", metavar="SECTION,…", help=f"some of {', '.join(SECTIONS)}; no page is written")
    parser.add_argument("--quick", action="store_true", help="a sample, of the extract alone; no page is written")
    parser.add_argument("--show", metavar="KIND", help="what was lost or misleads, of a kind or 'all'")
    parser.add_argument("--app", type=Path, default=REPOSITORY, help="the checkout whose app is measured")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="the number of processes")
    options = parser.parse_args()
    sections = options.only.split(",") if options.only else [*SECTIONS]
    if unknown := set(sections) - set(SECTIONS):
        parser.error(f"There is no section {', '.join(sorted(unknown))}.")
    # Before the first import of the app. Celery puts the working directory before all else.
    sys.path[:0] = [str(options.app.resolve()), str(REPOSITORY)]
    os.chdir(options.app)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        product.begin(folder)
        product.migrate()
        cases = [case for section in sections for case in _cases(section, is_quick=options.quick)]
        results = _run_all(cases, options.jobs, folder)
    away = [what for what in real.FILES if what in sections and not real.stored(what, HELD_OUT)]
    results += map(real.measured_last, away)
    text = report.tables(results, [*_missing(sections, is_quick=options.quick)])
    print(text)
    if options.show:
        report.show(results, options.show)
    if not (options.only or options.quick) and options.app == REPOSITORY:
        if all(real.stored(what, TUNED) for what in real.FILES):
            report.write(results, text)
            if not away:
                real.keep_measured(results)
        else:
            print("The page stays as it is, since it begins with what is not here.")
    print(f"{len(cases)} cases in {time.perf_counter() - started:.0f} s")
    return 0


def _cases(section: str, *, is_quick: bool) -> Iterator[Case]:
    for what, set_ in SECTIONS[section]:
        each = _EACH.get(what, 1) if is_quick and set_ not in (HAND_WRITTEN, REFERENCE) else 1
        for place in range(0, len(_conversations(what, set_)), each):
            for system in _systems(what, place, is_quick=is_quick):
                for room, rounds in _rooms(what, system, is_quick=is_quick):
                    yield Case(what, system, place, room, rounds, set_)


def _conversations(what: str, set_: str) -> Sized:
    if what in real.FILES:
        return real.stored(what, set_)
    return planted.trapped(set_) if what == "traps" else planted.conversations(set_)


def _systems(what: str, place: int, *, is_quick: bool) -> Iterator[str]:
    yield product.EXTRACT
    if is_quick:
        return
    if product.model_name() and place < _ASKED.get(what, 2):
        yield from product.MODELS
    # What else an agent's summary could be is measured beside the extract.
    if what != "agents":
        yield from (name for name in baselines.available() if what != "traps" or name in baselines.WITH_STATEMENTS)
    if what == "facts":
        yield baselines.CEILING


def _rooms(what: str, system: str, *, is_quick: bool) -> Iterator[tuple[float, int]]:
    if what == "agents":
        yield from ((window, 1) for window in (_QUICK_WINDOWS if is_quick else real.WINDOWS))
    elif what == "friends":
        yield real.FRIENDS_ROOM, real.FRIENDS_ROUNDS
    elif system in product.MODELS:
        yield _ASKED_AT if what == "facts" else _ASKED_TRAPS_AT, 1
    elif is_quick:
        # The smaller budget in one round, the larger one in five.
        yield from zip(_TRAP_BUDGETS if what == "traps" else _QUICK_BUDGETS, _ROUNDS, strict=True)
    else:
        budgets = _TRAP_BUDGETS if what == "traps" else _BUDGETS
        rounds = _ROUNDS if system == product.EXTRACT else _ROUNDS[:1]
        for budget in budgets:
            yield from ((budget, number) for number in rounds)
            if what == "facts" and system == product.EXTRACT and budget in _QUICK_BUDGETS:
                yield budget, _MANY_ROUNDS


def _run_all(cases: list[Case], jobs: int, folder: str) -> list[Result]:
    """A model is asked one request at a time, after all else."""
    asked = [case for case in cases if case.system in product.MODELS]
    others = sorted((case for case in cases if case not in asked), key=_cost)
    if jobs == 1:
        results = [run(case) for case in others]
    else:
        with Pool(jobs, product.begin, (folder,)) as pool:
            results = list(pool.imap_unordered(run, others, chunksize=1))
    results += [run(case) for case in asked]
    # In any order they come, in one order they are counted.
    return sorted(results, key=lambda result: cases.index(result.case))


def _cost(case: Case) -> bool:
    """What takes longest goes first, so that no process has it alone at the end."""
    return case.system != "sumy"


def run(case: Case) -> Result:
    try:
        return RUN[case.what](case)
    except product.Failed as error:
        return Result(case, [Cell(case.table, case.row, column, 0, 0, str(error)) for column in case.columns])


def _missing(sections: Sequence[str], *, is_quick: bool) -> Iterator[str]:
    """Why something is not measured."""
    for name, file in real.FILES.items():
        if name in sections and not real.stored(name, TUNED):
            yield f"{name}: no real/{file} beside the folder that COMPACTION_TEST_DATA names"
        if name in sections and not real.stored(name, HELD_OUT):
            yield f"{name}, held out (the figures are of the last run that had them)"
    if "traps" in sections and not planted.trapped(REFERENCE):
        yield "reference traps: no reference/traps.json there"
    if is_quick:
        return
    if "sumy" not in baselines.available():
        yield "sumy: not installed (pip install 'sumy>=0.13')"
    if not product.model_name():
        yield "a model: none is configured"


if __name__ == "__main__":
    raise SystemExit(main())
