"""Lists by date, of tables that may have millions of rows.

A date is a year, a month or a day in the time zone of the request, and a range of instants: its two midnights are
computed once and compared with an indexed column. So the day after a change of the clocks has 23 or 25 hours, and a
list narrowed to a day costs what that day has. The choices of the filter come from the first and the last row alone,
where Django's ``date_hierarchy`` computes the day of every row.

Columns without an index are another matter: finding a rare value would read the whole table for a page of fifty. So
such a list searches the newest rows only, or the newest of the chosen date, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format, time_format

from compaction_app.admin.filters import RelatedFilter
from compaction_app.admin.records import RecordAdmin, RecordList
from compaction_app.models import CompactionEvent, CompactionRun

#: Rows that a list searches for what no index has.
LOOKED_THROUGH = 10_000
#: Parameters of an address that narrow nothing.
_PAGING = frozenset({"p", "o", "e", "q", "all", "_popup", "_to_field", "_facets"})
#: In other years no midnight can be written in every time zone.
_YEARS = range(2, MAXYEAR)
_HOUR = timedelta(hours=1)


# -- the calendar -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Period:
    """A year, a month (``day`` is 0) or a day; ``month`` 0 is the whole year."""

    year: int
    month: int = 0
    day: int = 0

    @classmethod
    def parse(cls, code: str) -> Period:
        """A period by its code: "2026", "2026-11" or "2026-11-03". Raises :class:`ValueError` for anything else."""
        parts = code.split("-")
        if len(parts) > 3 or not all(part.isascii() and part.isdecimal() and len(part) <= 4 for part in parts):
            raise ValueError(f"{code!r} is not a year, month or day.")
        period = cls(*map(int, parts))
        if period.year not in _YEARS or period.code != code or period.month > 12:
            raise ValueError(f"{code!r} is not a year, month or day.")
        return period if not period.day else cls.of_day(date(period.year, period.month, period.day))

    @classmethod
    def of_day(cls, day: date) -> Period:
        return cls(day.year, day.month, day.day)

    @property
    def code(self) -> str:
        """As in addresses."""
        given = [part for part in (self.month, self.day) if part]
        return "-".join([f"{self.year:04}", *(f"{part:02}" for part in given)])

    @property
    def first_day(self) -> date:
        return date(self.year, self.month or 1, self.day or 1)

    @property
    def next_day(self) -> date:
        """The first day after it."""
        if self.day:
            return self.first_day + timedelta(days=1)
        return date(self.year + (self.month in (0, 12)), self.month % 12 + 1 if self.month else 1, 1)

    @property
    def label(self) -> str:
        """In full, as the site's language writes it."""
        return self._written("YEAR_MONTH_FORMAT", "DATE_FORMAT")

    @property
    def short_label(self) -> str:
        """Below the name of the longer period."""
        return self._written("F", "MONTH_DAY_FORMAT")

    def _written(self, month: str, day: str) -> str:
        return date_format(self.first_day, day if self.day else month) if self.month else str(self.year)

    def within(self) -> list[Period]:
        """The longer periods that contain it, the year first."""
        return [period for period in (Period(self.year), Period(self.year, self.month)) if period != self]

    def parts(self) -> list[Period]:
        """Its months, or its days; a day has none."""
        if self.day:
            return []
        if not self.month:
            return [Period(self.year, month) for month in range(1, 13)]
        return [Period(self.year, self.month, day + 1) for day in range((self.next_day - self.first_day).days)]

    def overlaps(self, first: date, last: date) -> bool:
        return self.first_day <= last and self.next_day > first

    def bounds(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """Its first instant, and the first after it."""
        return midnight(self.first_day, zone), midnight(self.next_day, zone)


def midnight(day: date, zone: tzinfo) -> datetime:
    """The first instant of a day. Where clocks skip midnight, the one they skip to."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A stretch of time that a chart counts."""

    start: datetime
    end: datetime
    label: str
    #: None for an hour: no list is narrowed to one.
    period: Period | None = None

    @classmethod
    def of(cls, period: Period, zone: tzinfo) -> TimeRange:
        return cls(*period.bounds(zone), period.short_label, period)


def parts_of(period: Period, zone: tzinfo) -> list[TimeRange]:
    """The months of a year, the days of a month, the hours of a day."""
    if not period.day:
        return [TimeRange.of(part, zone) for part in period.parts()]
    start, end = period.bounds(zone)
    hours = []
    while start < end:
        hours.append(TimeRange(start, min(start + _HOUR, end), time_format(start.astimezone(zone), "H:i")))
        start += _HOUR
    return hours


def last_days(today: date, count: int, zone: tzinfo) -> list[TimeRange]:
    """``count`` days up to today."""
    return [TimeRange.of(Period.of_day(today - timedelta(days=back)), zone) for back in reversed(range(count))]


# -- the filter ---------------------------------------------------------------------------------------------


def chosen_period(query: Mapping[str, str]) -> Period | None:
    """The date in an address; None where it has none, or one that is not on the calendar."""
    try:
        return Period.parse(query.get(DateFilter.parameter_name, ""))
    except ValueError:
        return None


def created_in(queryset: QuerySet[Any], period: Period) -> QuerySet[Any]:
    """Rows created in a period, by the index on ``created_at``."""
    start, end = period.bounds(timezone.get_current_timezone())
    return queryset.filter(created_at__gte=start, created_at__lt=end)


def first_and_last(model: type[CompactionRun] | type[CompactionEvent]) -> tuple[datetime, datetime] | None:
    """When the first and the last row were created. One query, two index lookups."""
    by_time: QuerySet[Any] = model._default_manager.order_by("created_at")
    last = Subquery(by_time.reverse().values("created_at")[:1])
    # SQLite reads the whole index where one query has both min() and max().
    found: tuple[datetime, datetime] | None = by_time.values_list("created_at", last).first()
    return found


class DateFilter(admin.SimpleListFilter):
    """By year, then month, then day."""

    title = parameter_name = "date"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.period = chosen_period(request.GET)
        if self.value() and self.period is None:
            raise IncorrectLookupParameters(f"{self.value()!r} is not a year, month or day.")
        zone = timezone.get_current_timezone()
        self.days: list[date] = [moment.astimezone(zone).date() for moment in first_and_last(model) or ()]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        # Django hides a filter without lookups; the choices are made once the period is known.
        return [("", "")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return created_in(queryset, self.period) if self.period else queryset

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Back to any date, the chosen one, and its parts."""
        yield self._choice(changelist, None, "Any date")
        if self.period is None:
            years = range(self.days[0].year, self.days[-1].year + 1) if self.days else ()
            parts = [Period(year) for year in years]
        else:
            for period in [*self.period.within(), self.period]:
                yield self._choice(changelist, period, period.label)
            parts = self.period.parts()
        for part in parts:
            if self.days and part.overlaps(*self.days):
                yield self._choice(changelist, part, part.short_label)

    def _choice(self, changelist: ChangeList, period: Period | None, label: str) -> dict[str, Any]:
        link = (
            changelist.get_query_string({self.parameter_name: period.code})
            if period
            else changelist.get_query_string(remove=[self.parameter_name])
        )
        return {"selected": period == self.period, "query_string": link, "display": label}


# -- the list -----------------------------------------------------------------------------------------------


class DatedList(RecordList):
    """A list that searches a bounded number of rows, and knows whether those were all."""

    model_admin: DatedAdmin
    #: Says that only the newest rows were searched; "" where all were.
    cut_short: str = ""

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Any]:
        found = super().get_queryset(request, exclude_parameters)
        if not self.model_admin.needs_bound(request):
            return found
        if bound := self._bound(request):
            self.cut_short = f"Only the newest {LOOKED_THROUGH:,} " + (
                "of this date were searched."
                if chosen_period(request.GET)
                else "were searched: these filters have no index. Choose a date to search older ones."
            )
        return found.filter(**bound)

    def _bound(self, request: HttpRequest) -> dict[str, Any]:
        """The condition for the newest rows; empty where there are no more than those."""
        rows: QuerySet[Any] = self.model._default_manager.order_by()
        if period := chosen_period(request.GET):
            times = created_in(rows, period).order_by("-created_at").values_list("created_at", flat=True)
            beyond = times[LOOKED_THROUGH : LOOKED_THROUGH + 1].first()
            return {"created_at__gt": beyond} if beyond else {}
        newest = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
        return {"pk__gt": newest - LOOKED_THROUGH} if newest > LOOKED_THROUGH else {}


class DatedAdmin(RecordAdmin):
    """Runs and events: lists by date."""

    #: Shown where the table is empty.
    empty_text = ""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[DatedList]:
        return DatedList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # The order of the index that finds the rows, so that a page of them is not sorted.
        return ("-created_at", "-id") if chosen_period(request.GET) else self.ordering

    def needs_bound(self, request: HttpRequest) -> bool:
        """Whether the address narrows the list by columns without an index only."""
        asked = set(request.GET) - _PAGING - {DateFilter.parameter_name}
        indexed = {
            str(one.parameter_name)
            for one in self.get_list_filter(request)
            if isinstance(one, type) and issubclass(one, RelatedFilter)
        }
        return bool(asked) and not (asked & indexed or request.GET.get("q"))
