"""Counting without reading a table: the first rows only, and a word where there are more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

if TYPE_CHECKING:
    # Subscripting it works for type checkers only.
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator


class BoundedPaginator(AnyPaginator):
    """Counts, and pages over, the first rows only: counting a million takes longer than showing a page."""

    limit = 10_000

    @cached_property
    def counted(self) -> int:
        return count_up_to(self.object_list, self.limit)  # type: ignore[arg-type]  # the admin gives querysets

    @cached_property
    def count(self) -> int:
        return min(self.counted, self.limit)

    @property
    def is_bounded(self) -> bool:
        return self.counted > self.limit


def count_up_to(queryset: QuerySet[Any], limit: int) -> int:
    """How many rows, or ``limit`` + 1 where there are more."""
    # In the list's own order, which is an index's. Ids only: what a list annotates would be computed for all.
    return queryset.values("pk")[: limit + 1].count()


def counted(queryset: QuerySet[Any], limit: int = BoundedPaginator.limit) -> str:
    """The same for people: "12", or "more than 10,000"."""
    found = count_up_to(queryset, limit)
    return f"more than {limit:,}" if found > limit else f"{found:,}"
