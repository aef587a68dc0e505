"""A case is one system on one conversation; what it gives are cells of tables, which the report adds up."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def shared(folder: str) -> Path:
    """A folder beside the one that ``COMPACTION_TEST_DATA`` names, where conversations are kept that are not ours."""
    data = Path(os.environ.get("COMPACTION_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    return data.parent / folder


@dataclass(frozen=True)
class Case:
    #: "agents", "friends", "facts" or "traps".
    what: str
    system: str
    #: Which of the set's conversations.
    place: int
    #: In tokens, or as a share of the conversation's; for an agent the window.
    room: float
    rounds: int = 1
    set: str = ""

    @property
    def table(self) -> str:
        """Where a failure is said, in the row ``row``."""
        return "budgets" if self.what == "facts" else self.what

    @property
    def columns(self) -> list[str]:
        if self.what in ("agents", "traps"):
            return [f"{self.set}, {self.room:,}"]
        return [f"{name}, {self.set}" if self.set else name for name in ("margin", "stmt")]

    @property
    def title(self) -> str:
        return f"{self.system}, {self.rounds} rounds" if self.rounds > 1 and self.what != "friends" else self.system

    @property
    def row(self) -> str:
        return f"{self.room:.0%}, {self.title}" if self.what == "facts" else self.title


@dataclass(frozen=True)
class Cell:
    """So much of so much; cells of the same place are added up."""

    table: str
    row: str
    column: str
    got: float
    of: float
    #: Why it has no number.
    failed: str = ""


@dataclass
class Result:
    case: Case
    cells: list[Cell] = field(default_factory=list)
    #: What was lost or misleads, its kind and the text around it, for ``--show``.
    lost: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, table: str, row: str, column: str, got: float, of: float) -> None:
        self.cells.append(Cell(table, row, column, got, of))
