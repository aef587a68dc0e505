"""Lists of a table that may hold millions of rows, narrowed by date and by columns that no index knows.

By date: a filter from year to month to day, whose choices come from the first and the last row alone (Django's
``date_hierarchy`` computes the day of every row to list the days). By other columns: a rare value would mean reading
the whole table for a page of fifty, so the list looks through the newest rows, or through the newest of the chosen
date, and says that it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from compaction_app.admin.days import Period
from compaction_app.admin.filters import RelatedFilter
from compaction_app.admin.records import RecordAdmin, RecordList
from compaction_app.models import CompactionEvent, CompactionRun

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList

#: A list looks through so many rows for what no index knows.
LOOKED_THROUGH = 10_000
#: What an address may say without anything having to be looked for.
_PAGING = frozenset({"p", "o", "e", "q", "all", "_popup", "_to_field", "_facets"})


def chosen_period(request: HttpRequest) -> Period | None:
    """The date that an address asks for; None where it names none, or one that is not on the calendar."""
    try:
        return Period.parse(request.GET.get(DateFilter.parameter_name, ""))
    except ValueError:
        return None


def dated(queryset: QuerySet[Any], period: Period) -> QuerySet[Any]:
    """Rows made in a period, which an index on ``created_at`` finds."""
    start, end = period.bounds(timezone.get_current_timezone())
    return queryset.filter(created_at__gte=start, created_at__lt=end)


def first_and_last(model: type[CompactionRun] | type[CompactionEvent]) -> tuple[datetime, datetime] | None:
    """When the first and the last row were made; one query, two looks into an index."""
    by_time: QuerySet[Any] = model._default_manager.order_by("created_at")
    last = Subquery(by_time.reverse().values("created_at")[:1])
    # SQLite reads the whole index for min() and max() in one breath.
    found: tuple[datetime, datetime] | None = by_time.values_list("created_at", last).first()
    return found


class DateFilter(admin.SimpleListFilter):
    """By year, then month, then day, in the time zone of the request."""

    title = parameter_name = "date"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        try:
            self.period = Period.parse(code) if (code := self.value()) else None
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error
        zone = timezone.get_current_timezone()
        self.days: list[date] = [moment.astimezone(zone).date() for moment in first_and_last(model) or ()]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        # The choices are made where the period is known; without any the filter would not be there.
        return [("", "")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return dated(queryset, self.period) if self.period else queryset

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """The way up to all dates, the chosen one, and what it has below."""
        yield self._choice(changelist, None, "Any date")
        if self.period is None:
            below = [Period(year) for year in self._years()]
        else:
            for above in self.period.within():
                yield self._choice(changelist, above, above.label)
            yield self._choice(changelist, self.period, self.period.label)
            below = self.period.parts()
        for part in below:
            if self.days and part.overlaps(*self.days):
                yield self._choice(changelist, part, part.short_label)

    def _years(self) -> range:
        return range(self.days[0].year, self.days[-1].year + 1) if self.days else range(0)

    def _choice(self, changelist: ChangeList, period: Period | None, label: str) -> dict[str, Any]:
        link = (
            changelist.get_query_string({self.parameter_name: period.code})
            if period
            else changelist.get_query_string(remove=[self.parameter_name])
        )
        return {"selected": period == self.period, "query_string": link, "display": label}


class DatedList(RecordList):
    """A list that looks through a bounded number of rows, and knows whether those were all."""

    model_admin: DatedAdmin
    #: Of which rows only the newest were looked through; "" where it were all.
    cut_short: str = ""

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Any]:
        found = super().get_queryset(request, exclude_parameters)
        if not self.model_admin.looks_for_something(request):
            return found
        if bound := self._bound(request):
            self.cut_short = f"Only the newest {LOOKED_THROUGH:,}" + (
                " of this date were looked through."
                if chosen_period(request)
                else " were looked through, for no index knows these filters. Choose a date to look farther back."
            )
        return found.filter(**bound)

    def _bound(self, request: HttpRequest) -> dict[str, Any]:
        """The condition that leaves the newest rows; empty where there are no more than those."""
        rows: QuerySet[Any] = self.model._default_manager.order_by()
        if period := chosen_period(request):
            times = dated(rows, period).order_by("-created_at").values_list("created_at", flat=True)
            beyond = times[LOOKED_THROUGH : LOOKED_THROUGH + 1].first()
            return {"created_at__gt": beyond} if beyond else {}
        newest = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
        return {"pk__gt": newest - LOOKED_THROUGH} if newest > LOOKED_THROUGH else {}


class DatedAdmin(RecordAdmin):
    """Runs and events: lists by date."""

    #: Parameters of an address whose column has an index of its own, which is more than the date's.
    indexed: ClassVar[frozenset[str]] = frozenset()
    #: Shown where there is nothing at all.
    empty_text = ""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[DatedList]:
        return DatedList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # In the order of the index that finds the rows, so that a page of them needs no sorting.
        return ("-created_at", "-id") if chosen_period(request) else self.ordering

    def looks_for_something(self, request: HttpRequest) -> bool:
        """Whether the address narrows the list by a column that no index knows."""
        asked = set(request.GET) - _PAGING - {DateFilter.parameter_name}
        if asked & self._with_index(request) or request.GET.get("q"):
            return False
        return bool(asked)

    def _with_index(self, request: HttpRequest) -> frozenset[str]:
        related = {
            str(one.parameter_name)
            for one in self.get_list_filter(request)
            if isinstance(one, type) and issubclass(one, RelatedFilter)
        }
        return self.indexed | related
