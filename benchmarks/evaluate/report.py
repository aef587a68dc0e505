"""The tables of docs/evaluation.md, and the README's sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.evaluate.cases import REPOSITORY, Cell, Result

PAGE, README = REPOSITORY / "docs" / "evaluation.md", REPOSITORY / "README.md"
_BEGIN, _END = "<!-- make evaluate writes what follows -->", "<!-- and what follows is written by hand -->"
#: What is in the first column's head, and whether cells are counts.
_TABLES = {
    "agents": ("What an agent's next call needs, by window", "kept of the values", False),
    "friends": ("What answers questions about two friends' chats, in 4,000 tokens", "", False),
    "facts": ("Known facts, at 5, 10, 20 and 30 %", "", False),
    "budgets": ("The extract by budget and rounds", "", False),
    "kinds": ("The extract by kind of fact", "stmt", False),
    "traps": ("Misleading traps", "misleading of told", True),
    "outdated": ("Outdated values", "older value without the newer", True),
}


def tables(results: Sequence[Result], missing: Sequence[str]) -> str:
    parts = []
    for name, (title, head, is_count) in _TABLES.items():
        cells = [cell for result in results for cell in result.cells if cell.table == name]
        columns, rows = (list(dict.fromkeys(getattr(cell, place) for cell in cells)) for place in ("column", "row"))
        lines = (
            [row, *(_shown([c for c in cells if (c.row, c.column) == (row, column)], is_count) for column in columns)]
            for row in rows
        )
        if cells:
            parts.append(f"### {title}\n\n{_table([head, *columns], lines)}\n")
    return "\n".join([*parts, *(f"Not measured: {reason}.\n" for reason in missing)])


def _shown(cells: Sequence[Cell], is_count: bool) -> str:  # of a table, above
    if failed := [cell.failed for cell in cells if cell.failed]:
        return f"failed: {failed[0]}"
    got, of = sum(cell.got for cell in cells), sum(cell.of for cell in cells)
    if is_count or not of:
        return f"{got:.0f} of {of:.0f}" if cells else ""
    return f"{got / of:.3f}".removeprefix("0")


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruled = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in ruled)


def show(results: Iterable[Result], kind: str) -> None:
    for result in results:
        case = result.case
        for found, text, around in result.lost:
            if kind in (found, "all"):
                where = f"{case.set} {case.place}, {case.room:g} in {case.rounds} rounds"
                print(f"--- {found} ({where})\nsaid:  {text}\nshown: {around}\n")


def write(results: Sequence[Result], text: str) -> None:
    _replace(PAGE, f"\n\n{text}\n")
    if sentence := _sentence(results):
        _replace(README, f"\n{sentence}\n")


def _replace(page: Path, text: str) -> None:
    head, rest = page.read_text().split(_BEGIN)
    page.write_text(f"{head}{_BEGIN}{text}{_END}{rest.split(_END)[1]}")


def _sentence(results: Sequence[Result]) -> str:
    """What the README says of real conversations; "" where they are missing."""
    return ""
