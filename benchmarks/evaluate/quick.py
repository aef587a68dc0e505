"""The quick mode: a few conversations and traps, our own extract, a line of numbers."""

from __future__ import annotations

import time
from multiprocessing import Pool

from benchmarks.evaluate import measure, scores
from benchmarks.evaluate.conversations import KINDS
from benchmarks.evaluate.measure import Case, Outcome

_CONVERSATIONS = 6
_BUDGETS = (0.1, 0.2)
_ROUNDS = (1, 5)
#: Of the grown traps, each nth.
_EVERY = 2


def main(*, held_out: bool, show: str | None) -> int:
    started = time.perf_counter()
    with Pool() as pool:
        outcomes = pool.map(_run, _cases(held_out), chunksize=1)
    if show:
        _show(outcomes, show)
    _report("held out" if held_out else "tuned", outcomes)
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


def _cases(held_out: bool) -> list[Case]:
    sets = ["held out"] if held_out else ["tuned", "hand-written"]
    traps = ["held out"] if held_out else ["tuned", "reference"]
    cases = [
        Case("extract", name, place, tokens, rounds, "traps")
        for name in traps
        for place in range(len(measure.trapped(name, _every(name))))
        for tokens in measure.TRAP_BUDGETS
        for rounds in _ROUNDS
    ]
    return cases + [
        Case("extract", name, place, share, rounds)
        for name in sets
        for place in range(len(measure.conversations(name, _CONVERSATIONS)))
        for share in _BUDGETS
        for rounds in _ROUNDS
    ]


def _every(name: str) -> int:
    return 1 if name == "reference" else _EVERY


def _run(case: Case) -> Outcome:
    return measure.run(case, _CONVERSATIONS, _every(case.set))


def _report(name: str, outcomes: list[Outcome]) -> None:
    for set_ in (name, "hand-written"):
        told = [o for o in outcomes if o.case.what == "facts" and o.case.set == set_]
        if told:
            print(f"{set_}: {_numbers(told)}")
    for set_ in (name, "reference"):
        trapped = [o for o in outcomes if o.case.what == "traps" and o.case.set == set_]
        for tokens in measure.TRAP_BUDGETS if trapped else ():
            words = []
            for rounds in _ROUNDS:
                found = measure.misleading(o for o in trapped if (o.case.budget, o.case.rounds) == (tokens, rounds))
                planted, shown, wrong = map(sum, zip(*found.values(), strict=True))
                kinds = " ".join(f"{kind} {n[2]}" for kind, n in sorted(found.items()) if n[2])
                words.append(f"{wrong} of {shown} told ({planted} planted) after {rounds}: {kinds or 'none'}")
            print(f"misleading, {set_} at {tokens:,}: " + "; ".join(words))


def _numbers(outcomes: list[Outcome]) -> str:
    everything = [one for o in outcomes for one in o.told]
    words = [f"margin {scores.margin(everything):.3f} stmt {scores.kept(everything):.3f}"]
    for share in _BUDGETS:
        for rounds in _ROUNDS:
            told = [one for o in outcomes if (o.case.budget, o.case.rounds) == (share, rounds) for one in o.told]
            words.append(f"{share:.0%}×{rounds} {scores.margin(told):.3f}/{scores.kept(told):.3f}")
    least = [one for o in outcomes if o.case.budget == _BUDGETS[0] for one in o.told]
    kinds = (f"{kind} {scores.kept(one for one in least if one.kind == kind):.2f}" for kind in KINDS)
    stale = measure.misleading(outcomes).get("stale value", [0, 0, 0])
    ages = (f"{scores.kept(one for one in everything if one.age == age):.2f}" for age in range(4))
    return (
        " | ".join(words)
        + f" | kept at {_BUDGETS[0]:.0%}: {', '.join(kinds)} | by age {' '.join(ages)}"
        + f" | stale values {stale[2]} of {stale[1]} told"
    )


def _show(outcomes: list[Outcome], kind: str) -> None:
    for outcome in outcomes:
        case = outcome.case
        for found, text, around in outcome.lost:
            if kind in (found, "all"):
                where = f"{case.set} {case.place}, {case.budget:g} in {case.rounds} rounds"
                print(f"--- {found} ({where})\nsaid:  {text}\nshown: {around}\n")
