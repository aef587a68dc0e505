"""Relative dates made absolute: "yesterday" becomes "yesterday (2024-05-07)".

A summary outlives the day it speaks of. Only what has one meaning is resolved: "next Friday" is one of two
days, so it stays as it was said, under the heading of the day on which it was said.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

_NUMBERS = {word: n for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS.update({"a": 1, "an": 1, "couple of": 2, "a couple of": 2})
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_DAYS = {
    "the day before yesterday": -2,
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "the day after tomorrow": 2,
    "day after tomorrow": 2,
    "vorgestern": -2,
    "gestern": -1,
    "übermorgen": 2,
    "anteayer": -2,
    "ayer": -1,
    "前天": -2,
    "昨天": -1,
    "昨日": -1,
    "明天": 1,
    "明日": 1,
    "后天": 2,
    "вчера": -1,
    "завтра": 1,
    "أمس": -1,
    "غدا": 1,
}
_UNITS = {"day": 1, "week": 7}
_COUNT = r"\d{1,3}|(?:a )?couple of|an?|" + "|".join(list(_NUMBERS)[1:11])
_RELATIVE = re.compile(
    r"(?:\b(?P<day>(?:the )?day (?:before yesterday|after tomorrow)|yesterday|last night|tomorrow|"
    r"vorgestern|gestern|übermorgen|anteayer|ayer|вчера|завтра|أمس|غدا)\b|(?P<unspaced>前天|昨天|昨日|明天|明日|后天)"
    rf"|\b(?P<ago>{_COUNT}) (?P<ago_unit>day|week|month|year)s? ago\b"
    rf"|\bin (?P<ahead>{_COUNT}) (?P<ahead_unit>day|week)s?\b(?! of)"
    r"|\b(?P<side>last|next) (?P<period>month|year)\b"
    rf"|\blast (?P<weekday>{'|'.join(_WEEKDAYS)})\b)"
    r"(?! ?[(（])",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"day|ago|last|next|tomorrow|\bin \w+ (?:day|week)|gestern|übermorgen|ayer|[天日]|вчера|завтра|أمس|غدا",
    re.IGNORECASE,
)


def resolve_dates(text: str, today: date) -> str:
    """``text`` with the date after each relative one; what is resolved already stays as it is."""
    if not _HINT.search(text):
        return text
    return _RELATIVE.sub(lambda match: _annotated(match, today), text)


def _annotated(match: re.Match[str], today: date) -> str:
    try:
        resolved = _resolve(match, today)
    except (OverflowError, ValueError):
        # Before year 1 or after year 9999: what was said is all there is to keep.
        return match.group()
    return f"{match.group()} ({resolved})"


def _resolve(match: re.Match[str], today: date) -> str:
    if said := match["day"] or match["unspaced"]:
        return (today + timedelta(days=_DAYS[said.lower()])).isoformat()
    if match["weekday"]:
        back = (today.weekday() - _WEEKDAYS.index(match["weekday"].lower())) % 7 or 7
        return (today - timedelta(days=back)).isoformat()
    if match["period"]:
        step = -1 if match["side"].lower() == "last" else 1
        return _shift(today, step, match["period"].lower())
    if match["ahead"]:
        return (today + timedelta(days=_number(match["ahead"]) * _UNITS[match["ahead_unit"].lower()])).isoformat()
    number, unit = _number(match["ago"]), match["ago_unit"].lower()
    if unit in _UNITS:
        return (today - timedelta(days=number * _UNITS[unit])).isoformat()
    return _shift(today, -number, unit)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _shift(today: date, step: int, unit: str) -> str:
    """A month or year away, to the precision that was meant."""
    if unit == "year":
        return f"{today.replace(year=today.year + step, day=1).year:04d}"
    months = today.year * 12 + today.month - 1 + step
    return f"{date(months // 12, months % 12 + 1, 1):%Y-%m}"
