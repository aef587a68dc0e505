"""The tables of docs/evaluation.md, from rows of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.evaluate import measure, systems, written
from benchmarks.evaluate.conversations import KINDS

Row = dict[str, Any]

PAGE, README = written.REPOSITORY / "docs" / "evaluation.md", written.REPOSITORY / "README.md"
_BEGIN, _END = "<!-- make evaluate writes what follows -->", "<!-- and what follows is written by hand -->"
_SETS = ("tuned", "held out", "hand-written")
_GROWN = _SETS[:2]
_TRAPS = ("tuned", "held out", "reference")
_BUDGETS = (0.05, 0.1, 0.2, 0.3)
_LEDGER = 3_000
_STALE = "stale value"


def as_json(commit: str, rows: Iterable[Row]) -> str:
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    return f'{{"commit": "{commit}", "rows": [\n{lines}\n]}}\n'


def write(rows: list[Row], missing: list[str]) -> None:
    _replace(PAGE, f"\n\n{tables(rows, missing)}\n")
    _replace(README, f"\n{_one_line(rows)}\n")


def _replace(page: Path, text: str) -> None:
    head, rest = page.read_text().split(_BEGIN)
    tail = rest.split(_END)[1]
    page.write_text(f"{head}{_BEGIN}{text}{_END}{tail}")


def _one_line(rows: list[Row]) -> str:
    """The README's line: held-out conversations at a fifth of their tokens, and all held-out traps."""
    (facts,) = _select(rows, system="extract", set="held out", budget=0.2, rounds=1)
    others = {name: _select(rows, system=name, set="held out", budget=0.2, rounds=1) for name in ("tail", "sumy")}
    names = {"tail": "the end of the text", "sumy": "the library sumy"}
    beside = ", ".join(f"{names[name]} {100 * _kept(found[0]):.0f}" for name, found in others.items() if found)
    traps = _select(rows, "traps", system="extract", set="held out")
    planted = [counts for row in traps for counts in row["claims"].values()]
    text = (
        "The extractive summarizer needs no model. On conversations that it was not tuned on, an extract of a fifth of "
        f"the tokens keeps {100 * _kept(facts):.0f} of 100 facts (for comparison: {beside}). Of "
        f"{sum(counts[1] for counts in planted)} quoted statements that another statement denies, limits or corrects, "
        f"{sum(counts[2] for counts in planted)} are quoted without it. What a model's summaries keep was "
        "not measured ([docs/evaluation.md](docs/evaluation.md))."
    )
    return fill(text, 120, break_on_hyphens=False, break_long_words=False)


def tables(rows: list[Row], missing: list[str]) -> str:
    parts = [
        ("Every system", _every_system(rows)),
        ("The extract by budget and rounds", _by_budget(rows)),
        ("What is kept, by kind of fact, at 10 %", _by_kind(rows)),
        ("What is kept, by age", _by_age(rows)),
        ("Misleading traps", _traps(rows)),
        ("Outdated values", _outdated(rows)),
        (f"The ledger after a model that forgot everything, at {_LEDGER:,} tokens", _ledger(rows)),
        ("Forks, at 20 %", _forks(rows)),
    ]
    text = "\n".join(f"### {title}\n\n{table}\n" for title, table in parts)
    return text + "".join(f"\nNot measured: {reason}.\n" for reason in missing)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruled = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in ruled)


def _select(rows: Iterable[Row], what: str = "facts", **wanted: Any) -> list[Row]:
    """Those whose values are wanted; a tuple lists all that are."""

    def fits(row: Row) -> bool:
        return row["what"] == what and all(
            row[name] in (value if isinstance(value, tuple) else (value,)) for name, value in wanted.items()
        )

    return [row for row in rows if fits(row)]


def _mean(rows: Sequence[Row], of: Callable[[Row], float]) -> str:
    if not rows:
        return "–"
    return f"{sum(of(row) for row in rows) / len(rows):.3f}".removeprefix("0")


def _margin(row: Row) -> float:
    return float(row["margin"])


def _kept(row: Row) -> float:
    return float(row["kept"])


def _systems(rows: list[Row], without: str = "") -> list[str]:
    """Ours, then the others."""
    measured = {row["system"] for row in rows} - {without}
    return [name for name in [*systems.SYSTEMS, systems.CEILING] if name in measured]


def _title(name: str, rounds: int) -> str:
    return name if rounds == 1 else f"{name}, {rounds} rounds"


def _every_system(rows: list[Row]) -> str:
    lines = []
    for name in _systems(rows, "ledger"):
        found = [_select(rows, system=name, set=set_, budget=_BUDGETS, rounds=(1, 5)) for set_ in _SETS]
        lines.append([name, *(_mean(one, _margin) for one in found), *(_mean(one, _kept) for one in found)])
    return _table(["", *(f"margin, {s}" for s in _SETS), *(f"stmt, {s}" for s in _SETS)], lines)


def _by_budget(rows: list[Row]) -> str:
    lines = []
    for share in _BUDGETS:
        for system, counts in (("extract", (1, 5, 20)), (systems.CEILING, (1,))):
            for count in counts:
                of_sets = [_select(rows, system=system, set=s, budget=share, rounds=count) for s in _SETS]
                if any(of_sets):
                    title = _title(f"{share:.0%}, {system}", count)
                    lines.append([title, *(f"{_mean(one, _margin)} / {_mean(one, _kept)}" for one in of_sets)])
    return _table(["margin / stmt", *_SETS], lines)


def _by_kind(rows: list[Row]) -> str:
    lines = []
    for kind in KINDS:
        line = [f"{kind} (safety rules)" if kind == "constraint" else kind]
        for set_ in _SETS:
            one = _select(rows, system="extract", set=set_, budget=0.1, rounds=(1, 5))
            line.append(_mean(one, lambda row, kind=kind: row["kinds"].get(kind, 0.0)))
        lines.append(line)
    return _table(["stmt", *_SETS], lines)


def _by_age(rows: list[Row]) -> str:
    lines = []
    for age, name in enumerate(("first quarter", "second", "third", "last")):
        line = [name]
        for set_ in _SETS:
            one = _select(rows, system="extract", set=set_, budget=_BUDGETS, rounds=(1, 5))
            line.append(_mean(one, lambda row, age=age: row["ages"][age]))
        lines.append(line)
    return _table(["stmt", *_SETS], lines)


def _traps(rows: list[Row]) -> str:
    lines = []
    for name in _systems(rows):
        for rounds in (1, 5):
            found = [
                _counts(_select(rows, "traps", system=name, set=set_, budget=tokens, rounds=rounds), stale=False)
                for set_ in _TRAPS
                for tokens in measure.TRAP_BUDGETS
            ]
            if any(found):
                lines.append([_title(name, rounds), *found])
    return _table(["misleading of told", *(f"{s}, {t:,}" for s in _TRAPS for t in measure.TRAP_BUDGETS)], lines)


def _outdated(rows: list[Row]) -> str:
    lines = []
    for name in _systems(rows, "ledger"):
        for rounds in (1, 5) if name in systems.OURS else (1,):
            found = [_select(rows, system=name, set=set_, budget=_BUDGETS, rounds=rounds) for set_ in _SETS]
            lines.append([_title(name, rounds), *(_counts(one, stale=True) for one in found)])
    return _table(["older value without the newer", *_SETS], lines)


def _counts(rows: Iterable[Row], *, stale: bool) -> str:
    counts = [numbers for row in rows for name, numbers in row["claims"].items() if (name == _STALE) == stale]
    return f"{sum(n[2] for n in counts)} of {sum(n[1] for n in counts)}" if counts else ""


def _ledger(rows: list[Row]) -> str:
    lines = []
    for rounds in (1, 5):
        line = [f"{rounds} round{'s' * (rounds > 1)}"]
        for set_ in _SETS:
            one, two = (_select(rows, system=s, set=set_, budget=_LEDGER, rounds=rounds) for s in systems.OURS)
            share = f"{_kept(two[0]) / _kept(one[0]):.0%}" if one and two and _kept(one[0]) else "–"
            line.append(f"{_mean(two, _kept)} of {_mean(one, _kept)}, {share}")
        lines.append(line)
    return _table(["stmt of the ledger, of the extract", *_SETS], lines)


def _forks(rows: list[Row]) -> str:
    lines = []
    for set_ in _GROWN:
        found = _select(rows, "fork", set=set_)
        lines.append([set_, _mean(found, _kept), *(f"{row['leaked'][0]} of {row['leaked'][1]}" for row in found)])
    return _table(["", "stmt", "of the other branch"], lines)
