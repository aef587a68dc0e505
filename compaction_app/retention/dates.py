"""Relative dates made absolute: "yesterday" becomes "yesterday (2024-05-07)".

A summary outlives the day that it speaks of. Only what has one meaning is resolved: "next Friday" is one of two days,
and stays under the heading of the day on which it was said. What is quoted, code, a path or an option is left alone.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

#: By the days from today, -2 to 2.
_DAYS = (
    "the day before yesterday|vorgestern|avant-hier|anteayer|anteontem|l'altro ieri|eergisteren|позавчера|أول أمس",
    "yesterday|last night|gestern|ayer|ontem|ieri|gisteren|вчера|أمس",
    "today|tonight|heute|aujourd'hui|hoy|hoje|oggi|vandaag|сегодня|اليوم",
    "tomorrow|demain|mañana|amanhã|domani|завтра|غدا|غداً",
    "the day after tomorrow|übermorgen|après-demain|pasado mañana|depois de amanhã|dopodomani|overmorgen|послезавтра",
)
_DAY_SIGNS = ("前天|一昨日|그저께", "昨天|昨日|어제", "今天|今日|오늘", "明天|明日|내일", "后天|後天|明後日|모레")
_STEPS = {word: day - 2 for table in (_DAYS, _DAY_SIGNS) for day in range(5) for word in table[day].split("|")}
_NUMBERS = {word: n for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_COUNT = r"\d{1,3}|an?|" + "|".join(list(_NUMBERS)[1:])


def _longest_first(table: tuple[str, ...]) -> str:
    words = sorted("|".join(table).split("|"), key=len, reverse=True)
    return "|".join(words).replace("'", "['’]")


#: Beside one of these a word is part of a path, an option, an assignment or another word.
_EDGE = r"[\w/=+@#$\\-]"
_RELATIVE = re.compile(
    r"(?P<quoted>\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|`[^`\n]{1,300}`)"
    rf"|(?<!{_EDGE})(?<!born )(?<!no )(?<!la )(?<!por )(?:"
    rf"(?P<day>{_longest_first(_DAYS)})"
    rf"|(?<!about )(?<!or )(?<!half )(?P<ago>{_COUNT}) (?P<ago_unit>day|week|month|year)s? ago"
    r"|(?<!the )(?<!this )(?<!every )(?P<side>last|next) (?P<period>month|year)(?! of\b)"
    rf"|(?<!the )(?<!every )last (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf")(?:['’]s)?(?!{_EDGE}|['’]\w)(?! ?[(（])"
    rf"|(?<!大)(?P<sign>{_longest_first(_DAY_SIGNS)})(?! ?[(（]|香)",
    re.IGNORECASE,
)
_RESOLVED = re.compile(r"\(\d{4}(?:-\d\d){0,2}\)")
#: A message that names another day may speak from there: a log, a mail, a report, a story.
NAMES_ANOTHER_DAY = re.compile(
    r"^(?:From|Date|Sent): |^>|\b\d{4}-\d\d-\d\d\b.{0,20}[:|]|^(?:on \d|on \w+,? .{0,40}\bwrote)"
    r"|\bin the (?:story|film|book|novel)\b",
    re.IGNORECASE | re.MULTILINE,
)


def resolve_dates(text: str, today: date) -> str:
    """A sentence with its date after the first relative one: "he said yesterday that he comes tomorrow" has one."""
    if _RESOLVED.search(text):
        return text
    found = next((match for match in _RELATIVE.finditer(text) if not match["quoted"]), None)
    try:
        return f"{text[: found.end()]} ({_date_of(found, today)}){text[found.end() :]}" if found else text
    except (OverflowError, ValueError):  # Before the year 1, or after 9999.
        return text


def _date_of(match: re.Match[str], today: date) -> str:
    if word := match["day"] or match["sign"]:
        return (today + timedelta(days=_STEPS[word.lower().replace("’", "'")])).isoformat()
    if count := match["ago"]:
        number = int(count) if count.isdigit() else _NUMBERS.get(count.lower(), 1)
        return _before(today, number, match["ago_unit"].lower())
    if match["period"]:
        return _before(today, 1 if match["side"].lower() == "last" else -1, match["period"].lower())
    days = (today.weekday() - _WEEKDAYS.index(match["weekday"].lower())) % 7 or 7
    return (today - timedelta(days=days)).isoformat()


def _before(today: date, number: int, unit: str) -> str:
    if unit == "year":
        return str(date(today.year - number, 1, 1).year)
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 - number, 12)
        return date(year, month + 1, 1).isoformat()[:7]
    return (today - timedelta(days=number * (7 if unit == "week" else 1))).isoformat()
