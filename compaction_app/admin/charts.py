"""Runs, failures and tokens saved over time: counted in the database, drawn as SVG on the server.

Drawn by hand: three rows of rectangles need no library, and every one that was looked at wants a script in the page,
a style attribute (which a strict Content-Security-Policy forbids), or numpy on the server. Colours come from the
stylesheet; the same numbers stand below as a table.

Counting reads an index from the newest run back, and stops: what no longer fits is said to be not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Sum, Value, When

from compaction_app.admin import display
from compaction_app.admin.days import Period, Stretch
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus

#: So many runs are counted for a chart at most, the newest ones.
MOST_RUNS = 10_000
#: Sizes in the drawing's own units: it is stretched to the width of the page.
STEP, BAR, HEIGHT = 10, 8, 200
#: What is there at all is seen, however much there is of something else.
_SMALLEST = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What happened to the runs that were opened in a stretch of time."""

    runs: int = 0
    failed: int = 0
    #: Tokens of history before less those after, of the runs that succeeded.
    saved: int = 0
    #: In the currency of ``PRICES``; None where no run has a known cost.
    cost: Decimal | None = None
    #: Runs that a model was asked for and whose cost is not known.
    unpriced: int = 0

    @property
    def shown(self) -> dict[str, str]:
        """For people."""
        cost = display.EMPTY if self.cost is None else display.money(self.cost)
        return {"runs": f"{self.runs:,}", "failed": f"{self.failed:,}", "saved": f"{self.saved:,}", "cost": cost}

    def __add__(self, other: Figures) -> Figures:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Figures(
            runs=self.runs + other.runs,
            failed=self.failed + other.failed,
            saved=self.saved + other.saved,
            cost=sum(costs, Decimal(0)) if costs else None,
            unpriced=self.unpriced + other.unpriced,
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle of a drawing."""

    x: int
    y: int
    height: int
    width: int = BAR


@dataclass(frozen=True, slots=True)
class Column:
    """A stretch of time in the chart and in its table."""

    label: str
    #: None: not counted.
    figures: Figures | None
    url: str = ""
    x: int = 0
    runs: Bar | None = None
    failed: Bar | None = None
    saved: Bar | None = None

    @property
    def said(self) -> str:
        """In words, for who points at it or hears it."""
        if self.figures is None:
            return f"{self.label}: not counted"
        shown = self.figures.shown
        return f"{self.label}: {shown['runs']} runs, {shown['failed']} failed, {shown['saved']} tokens saved"


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    columns: tuple[Column, ...]
    #: Of all that were counted.
    total: Figures
    most_runs: int
    most_saved: int
    height: int = HEIGHT
    step: int = STEP

    @property
    def most(self) -> dict[str, str]:
        """The highest of each row of bars."""
        return {"runs": f"{self.most_runs:,}", "saved": f"{self.most_saved:,}", "counted": f"{MOST_RUNS:,}"}

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

    @property
    def shows_cost(self) -> bool:
        return self.total.cost is not None


def counted(runs: QuerySet[CompactionRun], stretches: Sequence[Stretch]) -> list[Figures | None]:
    """The figures of each stretch; None for those that lie behind the newest :data:`MOST_RUNS`. Two queries."""
    inside = runs.filter(created_at__gte=stretches[0].start, created_at__lt=stretches[-1].end)
    beyond = inside.order_by("-created_at").values_list("created_at", flat=True)[MOST_RUNS : MOST_RUNS + 1].first()
    whole = [number for number, stretch in enumerate(stretches) if beyond is None or stretch.start > beyond]
    found: list[Figures | None] = [None] * len(stretches)
    if not whole:
        return found
    rows = inside.filter(created_at__gte=stretches[whole[0]].start)
    sums = {row.pop("stretch"): Figures(cost=row.pop("spent"), **row) for row in _sums(rows, stretches)}
    for number in whole:
        found[number] = sums.get(number, Figures())
    return found


def _sums(runs: QuerySet[CompactionRun], stretches: Sequence[Stretch]) -> Iterable[dict[str, Any]]:
    succeeded = Q(status=RunStatus.SUCCEEDED)
    # Only columns of the index are named, so that no row has to be read.
    sums: Iterable[Any] = (
        runs.order_by()
        .values(stretch=_number(stretches, 0))
        .annotate(
            runs=Count("*"),
            failed=Count("created_at", filter=Q(status=RunStatus.FAILED)),
            saved=Sum(F("tokens_before") - F("tokens_after"), filter=succeeded, default=0),
            # Not "cost": the next line would mean the sum by it.
            spent=Sum("cost"),
            unpriced=Count("created_at", filter=Q(cost__isnull=True, input_tokens__isnull=False)),
        )
    )
    return sums


def _number(stretches: Sequence[Stretch], first: int) -> Any:
    """The number of the stretch that a run was opened in, by halving: five comparisons for thirty days.

    Compared with instants, since computing the day of a row takes a call of Python for each on SQLite, and on
    PostgreSQL the time zones that it knows.
    """
    if len(stretches) == 1:
        return Value(first, output_field=IntegerField())
    half = len(stretches) // 2
    earlier = When(created_at__lt=stretches[half].start, then=_number(stretches[:half], first))
    return Case(earlier, default=_number(stretches[half:], first + half), output_field=IntegerField())


def chart_of(
    title: str,
    runs: QuerySet[CompactionRun],
    stretches: Sequence[Stretch],
    url_of: Callable[[Period], str],
) -> Chart:
    """The chart of these runs over these stretches of time."""
    figures = counted(runs, stretches)
    known = [one for one in figures if one is not None]
    most_runs = max((one.runs for one in known), default=0)
    # A policy may let a summary be larger than what it replaced; there is nothing to draw below nothing.
    most_saved = max((one.saved for one in known), default=0)
    columns = tuple(
        _column(number, stretch, one, url_of, most_runs, most_saved)
        for number, (stretch, one) in enumerate(zip(stretches, figures, strict=True))
    )
    return Chart(title, columns, sum(known, Figures()), most_runs, max(most_saved, 0))


def _column(
    number: int,
    stretch: Stretch,
    figures: Figures | None,
    url_of: Callable[[Period], str],
    most_runs: int,
    most_saved: int,
) -> Column:
    x = number * STEP
    url = url_of(stretch.period) if stretch.period and (figures is None or figures.runs) else ""
    if figures is None:
        return Column(stretch.label, None, url, x)
    return Column(
        stretch.label,
        figures,
        url,
        x,
        _bar(x, figures.runs, most_runs),
        _bar(x, figures.failed, most_runs),
        _bar(x, figures.saved, most_saved),
    )


def _bar(x: int, value: int, most: int) -> Bar | None:
    if value <= 0:
        return None
    height = max(HEIGHT * value // most, _SMALLEST)
    return Bar(x + (STEP - BAR) // 2, HEIGHT - height, height)
