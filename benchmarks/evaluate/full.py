"""The whole evaluation: every system, set, budget and number of rounds; the table of docs/evaluation.md."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from benchmarks.evaluate import measure, report, systems, written
from benchmarks.evaluate.measure import Case

#: Grown conversations of each set.
CONVERSATIONS = {"tuned": 12, "held out": 6, "hand-written": 3}
BUDGETS = (0.05, 0.1, 0.2, 0.3)
ROUNDS = (1, 5)
MANY_ROUNDS = 20
#: With which budgets: so many rounds take most of the time.
_MANY_AT = (0.1, 0.2)
#: What a ledger is compared with an extract at.
LEDGER = 3_000
TRAP_SETS = ("tuned", "held out", "reference")
#: A model is asked about so many conversations of a set.
_ASKED = 2


def main(*, app: Path, only_ours: bool, output: Path | None) -> int:
    started = time.perf_counter()
    found, missing = systems.available()
    if only_ours:
        found, missing = {name: found[name] for name in systems.OURS}, []
    cases = sorted(_cases(found), key=_cost)
    with Pool() as pool:
        outcomes = list(pool.imap_unordered(_run, cases, chunksize=1))
    # In any order they come, in one order they are counted.
    outcomes.sort(key=lambda outcome: cases.index(outcome.case))
    rows = measure.rows(outcomes)
    if output:
        output.write_text(report.as_json(_commit(app), rows))
    if app == written.REPOSITORY and not only_ours:
        report.write(rows, missing)
    print(report.tables(rows, missing))
    print(f"{len(cases)} cases in {time.perf_counter() - started:.0f} s")
    return 0


def _commit(app: Path) -> str:
    command = ["git", "-C", str(app), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _run(case: Case) -> measure.Outcome:
    return measure.run(case, CONVERSATIONS.get(case.set, 0))


def _cost(case: Case) -> tuple[bool, int, int]:
    """What takes longest goes first, so that no process has it alone at the end."""
    return (case.system != "sumy", -case.rounds, case.place)


def _cases(found: dict[str, Any]) -> Iterator[Case]:
    for set_, number in CONVERSATIONS.items():
        for place in range(number):
            # Of what the system cannot change, once is enough.
            for system in [*found, *([systems.CEILING] if set(found) != set(systems.OURS) else [])]:
                yield from _facts(partial(Case, system, set_, place), system, place)
            if set_ != "hand-written":
                yield Case("extract", set_, place, 0.2, 3, "fork")
    for set_ in TRAP_SETS:
        for place in range(len(measure.trapped(set_, 1))):
            for system in found:
                for tokens in measure.TRAP_BUDGETS:
                    yield from (
                        Case(system, set_, place, tokens, rounds, "traps")
                        for rounds in (ROUNDS if system == "extract" else ROUNDS[:1])
                        if system not in systems.MODELS or place < _ASKED
                    )


def _facts(case: Any, system: str, place: int) -> Iterator[Case]:
    if system in systems.MODELS and place >= _ASKED:
        return
    if system in systems.OURS:
        yield from (case(LEDGER, rounds) for rounds in ROUNDS)
    if system == "ledger":
        return
    if system == "extract":
        yield from (case(share, MANY_ROUNDS) for share in _MANY_AT)
    yield from (case(share, rounds) for share in BUDGETS for rounds in ROUNDS)
