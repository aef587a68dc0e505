"""Relative dates made absolute: "yesterday" becomes "yesterday (2024-05-07)".

A summary outlives the day it speaks of. Only what has one meaning is resolved: "next Friday" is one of two
days, so it stays as it was said, under the heading of the day on which it was said. A word counts only where it stands
between blanks or the marks of a sentence: not in a path, an address, an option, an identifier or code, and in scripts
without blanks not where it may be part of another word. In doubt nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from compaction_app.retention.time_bases import LONGEST, is_shifted, reckons_from

_NUMBERS = {word: n for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS.update({"a": 1, "an": 1, "couple of": 2, "a couple of": 2})
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
#: By how many days off they are; words of several languages stand once.
_DAY_WORDS = {
    -2: "the day before yesterday|day before yesterday|vorgestern|avant-hier|anteayer|antes de ayer|anteontem|"
    "l'altro ieri|l’altro ieri|ieri l'altro|ieri l’altro|altroieri|eergisteren|позавчера|أول أمس|أول من أمس|أمس الأول",
    -1: "yesterday|last night|gestern|hier|ayer|ontem|ieri|gisteren|вчера|أمس",
    0: "today|tonight|heute|aujourd'hui|aujourd’hui|hoy|hoje|oggi|vandaag|сегодня|اليوم",
    1: "tomorrow|morgen|demain|mañana|amanhã|domani|завтра|غدا|غداً",
    2: "the day after tomorrow|day after tomorrow|übermorgen|après-demain|pasado mañana|depois de amanhã|dopodomani|"
    "overmorgen|послезавтра|بعد غد",
}
#: In scripts without spaces, where no word ends.
_SIGNS = {
    -3: "大前天|一昨昨日",
    -2: "前天|一昨日|그저께",
    -1: "昨天|昨日|어제",
    0: "今天|今日|오늘",
    1: "明天|明日|내일",
    2: "后天|後天|明後日|모레",
    3: "大后天|大後天|明々後日",
}
_DAYS = {word: step for table in (_DAY_WORDS, _SIGNS) for step, words in table.items() for word in words.split("|")}
_UNITS = {"day": 1, "week": 7}
_COUNT = r"\d{1,3}|(?:a )?couple of|an?|" + "|".join(list(_NUMBERS)[1:11])
_ANY_DAY = "|".join(sorted((word for words in _DAY_WORDS.values() for word in words.split("|")), key=len, reverse=True))
_ANY_SIGN = "|".join(sorted((word for words in _SIGNS.values() for word in words.split("|")), key=len, reverse=True))
_RELATIVE = re.compile(
    rf"(?:\b(?P<day>{_ANY_DAY})\b(?:['’]s\b)?(?![-'’]\w)|(?P<unspaced>{_ANY_SIGN})"
    rf"|(?<![\d.,])\b(?P<ago>{_COUNT}) (?P<ago_unit>day|week|month|year)s? ago\b"
    rf"|\bin (?P<ahead>{_COUNT}) (?P<ahead_unit>day|week)s?\b"
    r"|\b(?P<side>last|next) (?P<period>month|year)\b"
    rf"|\blast (?P<weekday>{'|'.join(_WEEKDAYS)})\b(?:['’]s\b)?(?!['’]\w))"
    r"(?! ?[(（])",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"day|ago|last|next|to(?:morrow|night)|\bin \w+ (?:day|week)|gestern|morgen|heute|hier|demain|aujourd|ayer|hoy|"
    r"mañana|ontem|hoje|amanhã|[ao]ggi|ieri|domani|gister|vandaag|[天日]|어제|그저께|오늘|내일|모레|вчера|завтра|сегодня|"
    r"أمس|غد|اليوم",
    re.IGNORECASE,
)
#: What stands before such a word when it means something else: "born yesterday", "no tomorrow", "heute Morgen",
#: "guten Morgen", "por la mañana".
_OTHERWISE = re.compile(
    r"\b(?:born|no|heute|gestern|jeden|guten|am|den|dieser|diesem|jedem|eines|vom|zum|goede|elke|god|hver|la|las|esta|"
    r"una|cada|buena|de|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend|(?:maan|dins|woens|donder|vrij|"
    r"zater|zon)dag|früh)\s+\Z",
    re.IGNORECASE,
)
#: "Hier" is "here" in German and Dutch: yesterday only beside a French word.
_FRENCH = re.compile(
    r"\b(?:j['’]\w|l['’]\w|d['’]\w|c['’]|je|nous|vous|ils?|elles?|les|une|est|avec|pour|dans|aux?|à|été|était|soir)(?!\w)",
    re.IGNORECASE,
)
#: "Hoy en día", "oggi come oggi", "hoje em dia" are nowadays; "اليوم الأول" is the first day.
_NOT_THE_DAY = re.compile(r"\s+(?:en d[ií]a\b|em dia\b|come oggi\b|import\b)|(?<=اليوم) ال", re.IGNORECASE)
_NO_TODAY = re.compile(r"(?:في|كل|هذا|ذلك|نفس|جريدة|صحيفة|قناة|طوال) \Z")
#: What makes of a number another one, or a guess: "twenty one days ago", "half a year ago", "2 or 3 days ago".
_NO_NUMBER = re.compile(
    r"(?:\b(?:half|of|or|to|and|about|around|some|roughly|nearly|almost|over|under|than|least|most|circa|ca\.|"
    r"approximately|maybe|perhaps|once|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand)|[\d~≈–-])\s*\Z",
    re.IGNORECASE,
)
_AGO_FROM = re.compile(r"\s+(?:today|yesterday|tomorrow|this|last|next|on|[a-z]+day)\b", re.IGNORECASE)
#: "In 30 days after", "in two weeks or so", "in 30 days a year".
_A_DURATION = re.compile(
    r"\s+(?:of|after|from|before|an?|per|each|every|or|to|prior|following|since|later|once|upon|out|flat|straight|total|"
    r"without|instead|rather|alone)\b|\s*[-–/'’]",
    re.IGNORECASE,
)
#: "7 days in a week", "twice in two weeks", "within", "takes", "usually".
_OFTEN = re.compile(
    r"\b(?:days?|hours?|minutes?|times|once|twice|weeks?|months?)\s+\Z|\b(?:every|each|per|always|usually|normally|often|"
    r"never|takes?|took|lasts?|within|used to|can|could|would|if)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:was|were|had|has|have|did|been|built|made|took|bought|sold|wrote|paid|came|went|got|done|spent|grew|lost|won|"
    r"ran|learnt|found|left|fell|rose|said|told|gave|gone|taken|written|read|saw|drove|sent|put|cut|hit|[a-z]{3,}ed)\b",
    re.IGNORECASE,
)
_TO_COME = re.compile(
    r"\b(?:will|won['’]t|shall|going to|must|should|need|needs|(?:has|have) to|to be|due|expires?|ends?|starts?|"
    r"(?:am|is|are) \w+ing|please|let['’]s)\b|['’]ll\b",
    re.IGNORECASE,
)
#: "The last year" is the twelve months up to now, "every last Monday" many days.
_NOT_ONE = re.compile(
    r"\b(?:the|this|that|these|every|each|an?|my|our|your|his|her|its|their|very)\s+\Z", re.IGNORECASE
)
_NOT_ALONE = re.compile(r"\s+(?:of|in|before|after|each|every)\b|\s*[-–]", re.IGNORECASE)
#: The characters that may stand before such a word, after a blank or at the beginning, and behind it before one.
_OPENING = "\"'“„«‘(¿¡*_—–…"
_CLOSING = ".,;:!?)\"'”“»’*_—–…،؛؟·"
_OPERATORS = "=+<>|{}\\\\$"
_OPTION = re.compile(r"(?:\A|\s)(?:-{1,2}[\w-]+|\+\w+|import)\Z")
#: The neighbours that begin no other word with it (明天集团, 明日香, 今日子, 오늘날) and end none (李明天天, 今后天).
_BEFORE_SIGN = "我你您他她它们們咱在于到从和与跟是将就会要等约但而且或请说给被该定至は、はがのにもをとでへやら"
_BEFORE_AFTER_DAY = "我你您他她它们們咱"
_AFTER_SIGN = (
    "我你您他她它咱大上下早晚中凌夜傍去来到付交开做买卖是有会要可能将就再也还见打给吃回出还发的没不在和或起前已得应必需请"
    "はのにもかまよがをとでへや午朝行来払帰届送"
)
_KOREAN_PARTICLES = "은는이가을를도의에과와부까만로요"

#: Characters before and after a word that are read to know what it means.
_AROUND = 300
_PAUSES = (".", "!", "?", ":", ";", "…", "·", "—", "–")
_QUOTED = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“”\n]*[“”]|「[^」\n]*」|(?<!\w)‘[^\n]*?’(?!\w)|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`"
)


def resolve_dates(text: str, today: date, within: str = "") -> str:
    """``text`` with the date after each relative one; what is resolved already stays as it is, and what is quoted.

    ``within`` is the message that ``text`` is a part of: one that tells of another day ("On 3 February Bob said …", a
    log, a mail) is left alone.
    """
    if len(within or text) > LONGEST or not _HINT.search(text):
        return text
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    return _RELATIVE.sub(lambda match: _annotated(match, today, quoted, within or text), text)


def _stands_alone(match: re.Match[str]) -> bool:
    """Whether it stands between blanks or the marks of a sentence, and beside no operator or option."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(start - 60, 0) : start], text[end : end + 60]
    if match["unspaced"]:
        return _is_own_sign(match["unspaced"], before[-1:], after)
    opened = before.rstrip(_OPENING)
    if opened and not opened[-1].isspace() and not _is_unspaced(opened[-1]) and opened[-1] not in ".,;:!?…":
        return False
    # "3.tomorrow", "x:today" and "a@b.today" have no blank between.
    if opened == before and before and before[-1] in ".,;:!?":
        return False
    closed = after.lstrip(_CLOSING)
    if closed and not closed[0].isspace() and not _is_unspaced(closed[0]):
        return False
    # "today: 5" at the beginning of a line is the key of something.
    if after[:1] == ":" and not before.strip(_OPENING + " ") and match.group()[0].islower():
        return False
    beside = before.rstrip()[-1:] + after.lstrip()[:1]
    return not any(mark in beside for mark in _OPERATORS) and not _OPTION.search(before.rstrip())


def _is_unspaced(character: str) -> bool:
    return "\u3000" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef"


def _is_own_sign(sign: str, before: str, after: str) -> bool:
    following = after[:1]
    if "\uac00" <= sign[0] <= "\ud7a3":
        apart = not "\uac00" <= before <= "\ud7a3"
        return (
            apart
            and (not "\uac00" <= following <= "\ud7a3" or following in _KOREAN_PARTICLES)
            and not _is_latin(before + following)
        )
    allowed = _BEFORE_AFTER_DAY if sign in ("后天", "後天", "前天") else _BEFORE_SIGN
    if before and (_is_ideograph(before) or _is_latin(before)) and before not in allowed:
        return False
    if sign == "今日" and re.match(r"は(?:[、。！!]|\Z)", after):
        return False
    return not (_is_ideograph(following) or _is_latin(following)) or following in _AFTER_SIGN


def _is_ideograph(character: str) -> bool:
    return "\u3040" <= character <= "\u9fff"


def _is_latin(characters: str) -> bool:
    return any(character.isascii() and (character.isalpha() or character in "/_=@-\\") for character in characters)


def _has_one_meaning(match: re.Match[str]) -> bool:
    """Whether a count of days, weeks, months or years is one, and no duration."""
    around = max(match.start() - _AROUND, 0), match.end() + _AROUND
    before, after = match.string[around[0] : match.start()], match.string[match.end() : around[1]]
    if match["ago"]:
        return not _NO_NUMBER.search(before[-24:]) and not _AGO_FROM.match(after)
    if match["ahead"]:
        if _A_DURATION.match(after) or _OFTEN.search(before) or _OFTEN.search(after[:60]):
            return False
        to_come = _TO_COME.search(match.string, *around)
        if match["ahead"].lower() in ("a", "an") and before.strip() and not to_come:
            return False
        return bool(to_come) or not _DONE.search(match.string, *around)
    if match["period"] or match["weekday"]:
        return not _NOT_ONE.search(before[-12:]) and not _NOT_ALONE.match(after)
    return True


def _means_a_day(match: re.Match[str]) -> bool:
    """Whether "morgen" is no morning, "hier" is not here, and "Today" no title."""
    said = match["day"]
    if not said:
        return True
    text, start = match.string, match.start()
    before, after = text[max(start - 12, 0) : start], text[match.end() :]
    if _NOT_THE_DAY.match(text, match.end()) or (said == "اليوم" and _NO_TODAY.search(before)):
        return False
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


def _annotated(match: re.Match[str], today: date, quoted: Sequence[tuple[int, int]], within: str) -> str:
    if any(start <= match.start() < end for start, end in quoted):
        return match.group()
    if not (_stands_alone(match) and _means_a_day(match) and _has_one_meaning(match)):
        return match.group()
    if is_shifted(match.string[max(match.start() - _AROUND, 0) : match.start()]) or not reckons_from(within, today):
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
