"""Relative dates made absolute: "yesterday" becomes "yesterday (2024-05-07)".

A summary outlives the day it speaks of. Only what has one meaning is resolved: "next Friday" is one of two
days, so it stays as it was said, under the heading of the day on which it was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

_NUMBERS = {word: n for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS.update({"a": 1, "an": 1, "couple of": 2, "a couple of": 2})
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
#: By how many days off they are; words of several languages stand once.
_DAY_WORDS = {
    -2: "the day before yesterday|day before yesterday|vorgestern|avant-hier|anteayer|antes de ayer|anteontem|"
    "l'altro ieri|l’altro ieri|ieri l'altro|ieri l’altro|altroieri|eergisteren|позавчера",
    -1: "yesterday|last night|gestern|hier|ayer|ontem|ieri|gisteren|вчера|أمس",
    0: "today|tonight|heute|aujourd'hui|aujourd’hui|hoy|hoje|oggi|vandaag|сегодня|اليوم",
    1: "tomorrow|morgen|demain|mañana|amanhã|domani|завтра|غدا|غداً",
    2: "the day after tomorrow|day after tomorrow|übermorgen|après-demain|pasado mañana|depois de amanhã|dopodomani|"
    "overmorgen|послезавтра",
}
#: In scripts without spaces, where no word ends.
_SIGNS = {-2: "前天|그저께", -1: "昨天|昨日|어제", 0: "今天|今日|오늘", 1: "明天|明日|내일", 2: "后天|後天|모레"}
_DAYS = {word: step for table in (_DAY_WORDS, _SIGNS) for step, words in table.items() for word in words.split("|")}
_UNITS = {"day": 1, "week": 7}
_COUNT = r"\d{1,3}|(?:a )?couple of|an?|" + "|".join(list(_NUMBERS)[1:11])
_ANY_DAY = "|".join(sorted((word for words in _DAY_WORDS.values() for word in words.split("|")), key=len, reverse=True))
_RELATIVE = re.compile(
    rf"(?:\b(?P<day>{_ANY_DAY})\b(?:['’]s\b)?(?![-'’]\w)|(?P<unspaced>{'|'.join(_SIGNS.values())})"
    rf"|\b(?P<ago>{_COUNT}) (?P<ago_unit>day|week|month|year)s? ago\b"
    rf"|\bin (?P<ahead>{_COUNT}) (?P<ahead_unit>day|week)s?\b(?! of)"
    r"|\b(?P<side>last|next) (?P<period>month|year)\b"
    rf"|\blast (?P<weekday>{'|'.join(_WEEKDAYS)})\b(?:['’]s\b)?(?!['’]\w))"
    r"(?! ?[(（])",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"day|ago|last|next|to(?:morrow|night)|\bin \w+ (?:day|week)|gestern|morgen|heute|hier|demain|aujourd|ayer|hoy|"
    r"mañana|ontem|hoje|amanhã|[ao]ggi|ieri|domani|gister|vandaag|[天日]|어제|그저께|오늘|내일|모레|вчера|завтра|сегодня|"
    r"أمس|غدا|اليوم",
    re.IGNORECASE,
)
#: What stands before such a word when it means something else: "born yesterday", "no tomorrow", "heute Morgen",
#: "guten Morgen", "por la mañana".
_OTHERWISE = re.compile(
    r"\b(?:born|no|heute|gestern|jeden|guten|am|den|dieser|diesem|jedem|eines|vom|zum|goede|elke|god|hver|la|las|esta|"
    r"una|cada|buena|de)\s+\Z",
    re.IGNORECASE,
)
#: "Hier" is "here" in German and Dutch: yesterday only beside a French word.
_FRENCH = re.compile(
    r"\b(?:j['’]\w|l['’]\w|d['’]\w|c['’]|je|nous|vous|ils?|elles?|les|une|est|avec|pour|dans|aux?|à|été|était|soir)(?!\w)",
    re.IGNORECASE,
)
_PAUSES = (".", "!", "?", ":", ";", "…", "·", "—", "–")
_QUOTED = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“”\n]*[“”]|「[^」\n]*」|(?<!\w)‘[^\n]*?’(?!\w)|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`"
)


def resolve_dates(text: str, today: date) -> str:
    """``text`` with the date after each relative one; what is resolved already stays as it is, and what is quoted."""
    if not _HINT.search(text):
        return text
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    return _RELATIVE.sub(lambda match: _annotated(match, today, quoted), text)


def _means_a_day(match: re.Match[str]) -> bool:
    """Whether "morgen" is no morning, "hier" is not here, and "Today" no title."""
    said = match["day"]
    if not said:
        return True
    text, start = match.string, match.start()
    before, after = text[max(start - 12, 0) : start], text[match.end() :]
    if _OTHERWISE.search(before) and said.lower() in ("yesterday", "tomorrow", "morgen", "mañana"):
        return False
    if said.lower() == "hier" and not _FRENCH.search(text):
        return False
    if said[0].isupper() and not said.isupper():
        # Inside a sentence it is a title or a noun. At its beginning "Morgen!" greets, "Morgen kommt er" does not.
        begins = text[:start].rstrip(" \"'“„«(¿¡-").endswith(_PAUSES)
        if start and not begins:
            return False
        return said != "Morgen" or after[:2].lstrip().islower()
    return True


def _annotated(match: re.Match[str], today: date, quoted: Sequence[tuple[int, int]]) -> str:
    if any(start <= match.start() < end for start, end in quoted) or not _means_a_day(match):
        return match.group()
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
