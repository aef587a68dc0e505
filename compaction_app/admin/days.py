"""The calendar of a list: years, months and days as ranges of instants, in the time zone of the request.

A day is never computed of a row: its two midnights are computed once, and the database compares an indexed column
with them. So the day after a change of the clocks has 23 or 25 hours, on both databases, and a list narrowed to a
day costs what the day holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo

from django.utils.formats import date_format, time_format

#: Beyond these no midnight can be written in every time zone.
_YEARS = range(2, MAXYEAR)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Period:
    """A year, a month (``day`` is 0) or a day of the calendar; ``month`` 0 is the whole year."""

    year: int
    month: int = 0
    day: int = 0

    @classmethod
    def parse(cls, code: str) -> Period:
        """A period by its code: "2026", "2026-11" or "2026-11-03". Raises :class:`ValueError` for anything else."""
        parts = code.split("-")
        if len(parts) > 3 or not all(part.isascii() and part.isdecimal() and len(part) <= 4 for part in parts):
            raise ValueError(f"{code!r} is no year, month or day.")
        period = cls(*map(int, parts))
        if period.year not in _YEARS or period.code != code or period.month > 12:
            raise ValueError(f"{code!r} is no year, month or day.")
        return period if not period.day else cls.of_day(date(period.year, period.month, period.day))

    @classmethod
    def of_day(cls, day: date) -> Period:
        return cls(day.year, day.month, day.day)

    @property
    def code(self) -> str:
        """As addresses have it."""
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
        if self.day:
            return date_format(self.first_day, "DATE_FORMAT")
        return date_format(self.first_day, "YEAR_MONTH_FORMAT") if self.month else str(self.year)

    @property
    def short_label(self) -> str:
        """Below the name of what it is a part of."""
        if self.day:
            return date_format(self.first_day, "MONTH_DAY_FORMAT")
        return date_format(self.first_day, "F") if self.month else str(self.year)

    def within(self) -> list[Period]:
        """What it is a part of, the year first."""
        above = [Period(self.year)] if self.month else []
        return [*above, Period(self.year, self.month)] if self.day else above

    def parts(self) -> list[Period]:
        """Its months, or its days; a day has none."""
        if self.day:
            return []
        if self.month:
            days = (self.next_day - self.first_day).days
            return [Period(self.year, self.month, day + 1) for day in range(days)]
        return [Period(self.year, month + 1) for month in range(12)]

    def overlaps(self, first: date, last: date) -> bool:
        return self.first_day <= last and self.next_day > first

    def bounds(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """From its first instant to the first after it."""
        return midnight(self.first_day, zone), midnight(self.next_day, zone)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time that figures are counted for."""

    start: datetime
    end: datetime
    label: str
    #: What it is on the calendar; an hour is nothing there.
    period: Period | None = None


def midnight(day: date, zone: tzinfo) -> datetime:
    """The first instant of a day. Where clocks skip midnight, the one they skip to."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def parts_of(period: Period, zone: tzinfo) -> list[Stretch]:
    """The months of a year, the days of a month, the hours of a day."""
    if not period.day:
        return [_stretch(part, zone) for part in period.parts()]
    start, end = period.bounds(zone)
    hours = []
    while start < end:
        hours.append(Stretch(start, min(start + _HOUR, end), time_format(start.astimezone(zone), "H:i")))
        start += _HOUR
    return hours


def last_days(today: date, count: int, zone: tzinfo) -> list[Stretch]:
    """``count`` days up to today."""
    days: Sequence[date] = [today - timedelta(days=back) for back in reversed(range(count))]
    return [_stretch(Period.of_day(day), zone) for day in days]


def _stretch(period: Period, zone: tzinfo) -> Stretch:
    return Stretch(*period.bounds(zone), period.short_label, period)
