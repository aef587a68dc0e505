"""Runs, failures and tokens saved over time: counted in the database, drawn as SVG on the server.

No chart library was suitable: each needs a script in the page, a style attribute (which a strict
Content-Security-Policy forbids), or numpy on the server. Colors come from the stylesheet, and the same numbers are
below the chart as a table.

Counting reads an index from the newest run back and stops at a bound. What is older is shown as not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, Sum, When

from compaction_app.admin import display
from compaction_app.admin.dates import Period, TimeRange
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus

#: Runs that a chart counts, the newest ones.
MOST_RUNS = 10_000
#: Sizes in the drawing's own units: it is stretched to the width of the page.
STEP, HEIGHT = 10, 200
#: Height of the smallest bar, so that it is visible beside large ones.
_SMALLEST = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The runs that were opened in a range of time."""

    runs: int = 0
    failed: int = 0
    #: Tokens of history before minus those after, of the runs that succeeded.
    saved: int = 0
    #: In the currency of ``PRICES``; None where no run has a known cost.
    cost: Decimal | None = None
    #: Runs that called a model and have no known cost.
    unpriced: int = 0

    @property
    def cost_shown(self) -> str:
        return display.EMPTY if self.cost is None else display.money(self.cost)


@dataclass(frozen=True, slots=True)
class Column:
    """A range of time in the chart and in its table."""

    label: str
    #: None where it was not counted.
    figures: Figures | None
    url: str = ""
    #: Where it begins in the drawing, and the heights of its bars.
    x: int = 0
    runs: int = 0
    failed: int = 0
    saved: int = 0

    @property
    def description(self) -> str:
        """For the pointer and for screen readers."""
        if self.figures is None:
            return f"{self.label}: not counted"
        runs, failed, saved = map(display.number, (self.figures.runs, self.figures.failed, self.figures.saved))
        return f"{self.label}: {runs} runs, {failed} failed, {saved} tokens saved"


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    columns: tuple[Column, ...]
    #: Of all that were counted.
    total: Figures
    #: The highest bars.
    most_runs: int
    most_saved: int
    height: int = HEIGHT
    step: int = STEP

    @property
    def most_counted(self) -> int:
        return MOST_RUNS

    @property
    def width(self) -> int:
        return len(self.columns) * STEP

    @property
    def not_counted(self) -> int:
        return sum(column.figures is None for column in self.columns)

    @property
    def axis(self) -> tuple[str, ...]:
        """Labels below the first, the middle and the last column."""
        labels = [column.label for column in self.columns]
        return (labels[0], labels[len(labels) // 2], labels[-1])


def chart_of(
    title: str, runs: QuerySet[CompactionRun], ranges: Sequence[TimeRange], url_of: Callable[[Period], str]
) -> Chart:
    """The chart of these runs over these ranges of time."""
    figures = _counted(runs, ranges)
    known = [one for one in figures if one is not None]
    most_runs = max((one.runs for one in known), default=0)
    # A policy may allow a summary that is larger than what it replaces: no bar is negative.
    most_saved = max([0, *(one.saved for one in known)])
    columns = []
    for number, (range_, one) in enumerate(zip(ranges, figures, strict=True)):
        url = url_of(range_.period) if range_.period and (one is None or one.runs) else ""
        values = ((one.runs, most_runs), (one.failed, most_runs), (one.saved, most_saved)) if one else ()
        heights = (_height(value, most) for value, most in values)
        columns.append(Column(range_.label, one, url, number * STEP, *heights))
    costs = [one.cost for one in known if one.cost is not None]
    total = Figures(
        runs=sum(one.runs for one in known),
        failed=sum(one.failed for one in known),
        saved=sum(one.saved for one in known),
        cost=sum(costs, Decimal(0)) if costs else None,
        unpriced=sum(one.unpriced for one in known),
    )
    return Chart(title, tuple(columns), total, most_runs, most_saved)


def _height(value: int, most: int) -> int:
    return max(HEIGHT * value // most, _SMALLEST) if value > 0 else 0


# -- counting -----------------------------------------------------------------------------------------------


def _counted(runs: QuerySet[CompactionRun], ranges: Sequence[TimeRange]) -> list[Figures | None]:
    """The figures of each range; None where it is older than the newest :data:`MOST_RUNS`. Two queries."""
    inside = runs.filter(created_at__gte=ranges[0].start, created_at__lt=ranges[-1].end)
    beyond = inside.order_by("-created_at").values_list("created_at", flat=True)[MOST_RUNS : MOST_RUNS + 1].first()
    whole = [number for number, range_ in enumerate(ranges) if beyond is None or range_.start > beyond]
    if not whole:
        return [None] * len(ranges)
    # Compared with instants: computing the day of a row is a call of Python for each on SQLite, and on PostgreSQL
    # depends on the time zones that it knows. Columns of the index only, so that no row is read.
    number_of = Case(*(When(created_at__lt=ranges[number].end, then=number) for number in whole))
    rows: Iterable[Any] = (
        inside.filter(created_at__gte=ranges[whole[0]].start)
        .order_by()
        .values(number=number_of)
        .annotate(
            runs=Count("*"),
            failed=Count("created_at", filter=Q(status=RunStatus.FAILED)),
            saved=Sum(F("tokens_before") - F("tokens_after"), filter=Q(status=RunStatus.SUCCEEDED), default=0),
            # Named "cost" it would shadow the column in the next line.
            spent=Sum("cost"),
            unpriced=Count("created_at", filter=Q(cost__isnull=True, input_tokens__isnull=False)),
        )
    )
    found = {row.pop("number"): Figures(cost=row.pop("spent"), **row) for row in rows}
    return [found.get(number, Figures()) if number in whole else None for number in range(len(ranges))]
