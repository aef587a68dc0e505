"""The tables of docs/proofs.md, and the README's sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from benchmarks.evaluate.cases import REPOSITORY, Cell, Result
from benchmarks.evaluate.planted import HELD_OUT, TUNED
from benchmarks.evaluate.product import EXTRACT
from benchmarks.evaluate.real import LIST, WINDOWS

PAGE, README = REPOSITORY / "docs" / "proofs.md", REPOSITORY / "README.md"
_BEGIN, _END = "<!-- make evaluate writes what follows -->", "<!-- and what follows is written by hand -->"
#: What is in the first column's head, and whether cells are counts.
_TABLES = {
    "agents": ("What an agent's next call needs, by window", "kept of the values", False),
    "friends": ("What answers questions about two friends' chats, in 4,000 tokens", "", False),
    "facts": ("Known facts", "", False),
    "budgets": ("By budget and rounds", "", False),
    "traps": ("Misleading traps", "misleading of told", True),
    "outdated": ("Outdated values", "older value without the newer", True),
}
#: Of the other budgets *Known facts* has the mean.
_BUDGETS_SHOWN = ("10%", "20%")


def tables(results: Sequence[Result], missing: Sequence[str]) -> str:
    parts = []
    for name, (title, head, is_count) in _TABLES.items():
        cells = [cell for result in results for cell in result.cells if cell.table == name]
        cells = [cell for cell in cells if name != "budgets" or cell.row.startswith(_BUDGETS_SHOWN)]
        columns, rows = (list(dict.fromkeys(getattr(cell, place) for cell in cells)) for place in ("column", "row"))
        lines = (
            [row, *(_shown([c for c in cells if (c.row, c.column) == (row, column)], is_count) for column in columns)]
            for row in rows
        )
        if cells:
            parts.append(f"### {title}\n\n{_table([head, *columns], lines)}\n")
    return "\n".join([*parts, *([f"Not measured: {'; '.join(missing)}.\n"] if missing else [])])


def _shown(cells: Sequence[Cell], is_count: bool) -> str:  # of a table, above
    if failed := [cell.failed for cell in cells if cell.failed]:
        return f"failed: {failed[0]}"
    got, of = sum(cell.got for cell in cells), sum(cell.of for cell in cells)
    if not of:
        return "–"
    return f"{got:.0f} of {of:.0f}" if is_count else f"{got / of:.3f}".removeprefix("0")


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruled = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in ruled)


def show(results: Iterable[Result], kind: str) -> None:
    """Never what is held out: it would be tuned on."""
    for result in results:
        case = result.case
        for found, text, around in result.lost:
            if kind in (found, "all") and case.set != HELD_OUT:
                where = f"{case.set} {case.place}, {case.room:g} in {case.rounds} rounds"
                print(f"--- {found} ({where})\nsaid:  {text}\nshown: {around}\n")


def write(results: Sequence[Result], text: str) -> None:
    """The page, and the README's sentences on what really happened."""
    _replace(PAGE, f"\n\n{text}\n")
    _replace(README, f"\n{fill(_sentences(results), 120, break_on_hyphens=False, break_long_words=False)}\n")


def _replace(page: Path, text: str) -> None:
    head, rest = page.read_text().split(_BEGIN)
    page.write_text(f"{head}{_BEGIN}{text}{_END}{rest.split(_END)[1]}")


def _sentences(results: Sequence[Result]) -> str:
    cells = [cell for result in results for cell in result.cells]

    def of_100(table: str, row: str, column: str) -> str:
        found = [cell for cell in cells if (cell.table, cell.row, cell.column) == (table, row, column)]
        return f"{100 * sum(cell.got for cell in found) / max(1, sum(cell.of for cell in found)):.0f}"

    def by_window(row: str, set_: str) -> str:
        return " / ".join(of_100("agents", row, f"{set_}, {window:,}") for window in WINDOWS)

    windows = " / ".join(f"{window:,}" for window in WINDOWS)
    told = [
        cell for cell in cells if cell.table == "traps" and cell.column.startswith(HELD_OUT) and EXTRACT in cell.row
    ]
    return (
        "The extractive summarizer needs no model. Of the values that a customer-service agent's next call needs and "
        f"no longer sees, it keeps {by_window(EXTRACT, TUNED)} of 100 at windows of {windows} tokens, kept back "
        f"{by_window(EXTRACT, HELD_OUT)}; a list of the newest named values {by_window(LIST, TUNED)} and "
        f"{by_window(LIST, HELD_OUT)}. Of answers about friends' chats of months 4,000 tokens have "
        f"{of_100('friends', EXTRACT, f'stmt, {TUNED}')} of 100 words, kept back "
        f"{of_100('friends', EXTRACT, f'stmt, {HELD_OUT}')}. Of {len(told)} statements, kept back, that another one "
        f"denies, limits or corrects, {sum(cell.got for cell in told):.0f} are quoted without it "
        "([more](docs/proofs.md#what-summaries-keep))."
    )
