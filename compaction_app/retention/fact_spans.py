"""Facts that stand in a text word for word: numbers with units, dates, names, URLs, paths, code, quotations.

A fact is a place in a text and the key by which two mentions are the same fact. What is written like a fact
and tells nothing (a capital that only begins a sentence, a bare small number, "and/or") is none: what must
survive a summary is checked fact by fact, and noise would take the room of what matters.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Container, Iterator
from enum import StrEnum
from typing import NamedTuple

from compaction_app.retention import facts


class FactKind(StrEnum):
    """What is looked for, the surest sign first: where two overlap, the earlier kind has it."""

    URL = "url"
    QUOTE = "quote"
    PATH = "path"
    CODE = "code"
    DATE = "date"
    NUMBER = "number"
    NAME = "name"


class Fact(NamedTuple):
    kind: FactKind
    #: Equal for two mentions of the same fact: case, white space and the dots in large numbers left out.
    key: str
    start: int
    end: int
    #: Where it begins with what bounds it: "at least", "by".
    bound: int

    @property
    def is_bound(self) -> bool:
        return self.bound < self.start


_MONTHS = (
    r"(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|februar|mar(?:ch|s|zo)?|märz|apr(?:il)?|may|mai|juni?e?|july?|juli|"
    r"aug(?:ust)?|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?|desember|"
    r"enero|febrero|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|"
    r"février|avril|juin|juillet|août|septembre|octobre|novembre|décembre|"
    r"января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря)"
)
_WEEKDAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_URL = r"\b[a-z][a-z0-9+.-]{1,30}://[^\s<>\"'`«»“”）」]+|\bwww\.[^\s<>\"'`]+|\b[\w.+-]+@[\w-]+\.[\w.-]*\w"
_QUOTE = (
    r'"(?=\S)[^"\n]{3,160}(?<=\S)"|“[^”\n]{3,160}”|«[^»\n]{3,160}»|„[^“”\n]{3,160}[“”]|「[^」\n]{2,160}」'
    r"|(?<!\w)‘(?=\S)[^‘’\n]{3,80}’(?!\w)|(?<!\w)'(?=\S)[^'\n]{3,80}(?<=\S)'(?!\w)"
)
_PATH = (
    r"(?<![\w/.:])(?:~|\.{1,2})?/(?:[\w.@%+-]+/)*[\w.@%+-]*\w(?![\w/])|(?<![\w/])(?:[\w.@-]+/)+[\w@-]+\.[A-Za-z]\w{0,7}\b"
    r"|(?<![\w/])(?:[\w.@-]+/){2,}[\w.@-]*\w|(?<![\w/])[\w.@]*[a-z]\w*/(?=[\w.@-]*[-_\d])[\w.@-]*\w"
    r"|\b(?:feature|feat|release|hotfix|bugfix|fix|chore|origin|refs|dev)/[\w./-]*\w"
    r"|\b[A-Za-z]:\\[\w.\\-]+|\b[\w-]+\.(?:py|js|ts|md|csv|json|ya?ml|toml|txt|pdf|html?|css|sql|sh|ini|cfg|log|xlsx?|"
    r"docx?|png|jpe?g|svg|zip|rs|go|java|rb|php|cpp|xml)\b"
)
#: Accounts, cards, telephones, tax numbers: groups of digits that are one number.
_LONG_NUMBER = (
    r"\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){2,8}(?: ?[A-Z\d]{1,3})?\b"
    r"|(?<![\w+])\+\d{1,3}(?:[ ./-]{1,3}\(?\d{1,5}\)?|\(\d{1,4}\)){2,7}(?!\w)"
    r"|(?<![\w.,])\d{2,4}(?: \d{2,4}){2,6}(?![\w.,]*\d)"
    r"|(?<![\w-])\d{3,5}-\d{4,8}(?![\w-])|\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
_CODE = (
    r"`[^`\n]{1,120}`|\b[A-Za-z_]\w*(?:\.\w+)* ?(?:==?|:=) ?[\w.\"'-]*\w|\b[A-Za-z_][\w.]*\(\)"
    r"|\b\w*[a-z\d]_\w*\w\b|\b[A-Z\d]+_[A-Z\d_]+\b"
    r"|\b[a-z]+\d*[A-Z][a-zA-Z\d]*[a-z][a-zA-Z\d]*\b"
    r"|\b(?=[\w/.-]*\d)[A-Z][A-Z\d]*(?: [A-Z]{1,2})?[-/ .]\d[\w.-]*\w\b(?!%)"
    r"|\b[A-Z]{1,6}(?: [A-Z]{1,3})? \d[\w-]*-[\w-]*\w|\b[A-Z][A-Z\d]*(?:-[A-Z\d]+)*-(?=[\w-]*\d)[\w-]*\w"
    r"|\b\d{2,4}/\d{3,6}\b|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\bv\d+(?:\.\d+)+\b|(?<=\s)--?[a-z][\w-]+(?:=\S+)?"
    r"|\b\w+::\w+(?:::\w+)*|#\d{2,}\b"
    # Packages with their versions, and versions with all their parts: "@scope/name@^4.5.6", "1.2.3-rc.1+build.5".
    r"|(?<!\S)@?[\w.-]+(?:/[\w.-]+)?(?:@[\^~]?|[=<>~!]=+)\d[\w.+*-]*(?:,[<>=!~]=?\d[\w.+*-]*)*"
    r"|(?<![\w.])v?\d+\.\d+(?:\.\d+)+(?:[-+][\w.+-]*\w)?|(?<!\S)(?:>=|<=|>|<|\^|~)\d+(?:\.\d+)*(?=[\s,;)]|\Z)"
    rf"|{_LONG_NUMBER}"
)
_TIME = (
    rf"\b{_WEEKDAYS} at \d{{1,2}}(?![\d:.])|"
    r"\b\d{1,2}[:.]\d{2}(?::\d{2})?(?: ?[ap]\.?m\b\.?| ?Uhr\b)?(?![\d.,:%])|\b\d{1,2} ?[ap]\.?m\b\.?"
)
_DATE = (
    rf"\b(?:{_WEEKDAYS},? )?\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of| de)? {_MONTHS}\b(?:,? \d{{4}}\b)?"
    rf"|\b(?:{_WEEKDAYS},? )?{_MONTHS}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?|\b{_MONTHS} \d{{4}}\b"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?\b|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b|\b\d{4}/\d{2}/\d{2}\b"
    r"|(?:\d{4}年)?\d{1,2}月\d{1,2}日|\d{4}年\d{1,2}月|\d{1,2}월 ?\d{1,2}일"
    r"|\b\d{1,2} (?:كانون|شباط|آذار|نيسان|أيار|حزيران|تموز|آب|أيلول|تشرين|يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|"
    rf"أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر)(?: \d{{4}})?|{_TIME}"
)
_FIGURE = r"\d+(?:[.,'’\u00a0\u202f]\d+)*"
_NUMBER = (
    rf"\d{{1,3}}°\d{{1,2}}(?:['′]\S?)?[NSEWØVO]?(?:[ ,]+\d{{1,3}}°\d{{1,2}}(?:['′]\S?)?[NSEWØVO]?)?"
    rf"|(?:[€$£¥₹] ?|\b(?:EUR|USD|GBP|NOK|CHF|kr) ?){_FIGURE}(?: ?(?:k|m|bn|thousand|million|billion)\b)?"
    rf"|(?<![\d.,²³¹⁰-⁹½¼¾])(?<![A-Za-z_]){_FIGURE}(?: ?[×x] ?{_FIGURE})*(?: ?(?:%|‰|°[CF]?|[€$£¥₹])"
    rf"|[\u2e80-\u9fff\uac00-\ud7af]{{1,2}}|[ -]?[^\W\d_]+(?!\w)(?:/[^\W\d_]{{1,3}}\b|[²³])?)?"
)
#: What is one number, however many groups of digits it has.
LONG_NUMBERS = re.compile(_LONG_NUMBER)
#: "At least 5 °C" is not 5 °C: what bounds a figure is told with it.
_BOUND = re.compile(
    r"\b(?:at (?:least|most)|no (?:more|less|later|earlier) than|not (?:before|after|until)|more than|less than|up to|"
    r"exactly|above|below|over|under|before|after|until|till|by|within|max(?:imum|\.)?|min(?:imum|\.)?|mindestens|höchstens|bis|ab|"
    r"au (?:moins|plus)|al menos|como máximo|jusqu['’]à|hasta|не (?:более|менее)|до|[<>≤≥~])\s*\Z",
    re.IGNORECASE,
)
_BOUND_CHARS = 20
#: … and what says of what it is so many: "90 minutes a night", "48 hours ahead".
_RATE = re.compile(
    r" (?:ahead|ago|early|late|later|earlier|beforehand|in advance)\b|,? (?:a|an|per|each|every) [a-z]{3,}\b",
    re.IGNORECASE,
)
_FINDERS = {
    FactKind.URL: re.compile(_URL, re.IGNORECASE),
    FactKind.QUOTE: re.compile(_QUOTE),
    FactKind.PATH: re.compile(_PATH),
    FactKind.CODE: re.compile(_CODE),
    FactKind.DATE: re.compile(_DATE, re.IGNORECASE),
    FactKind.NUMBER: re.compile(_NUMBER),
}
#: Kinds without one of these characters in the text need not be searched for.
_HINTS = {
    FactKind.URL: re.compile(r"://|www\.|@"),
    FactKind.QUOTE: re.compile(r"[\"“«„「‘']"),
    FactKind.PATH: re.compile(r"[/\\.]"),
    FactKind.CODE: re.compile(r"[`=(_:#\d-]|[a-z][A-Z]"),
    FactKind.DATE: re.compile(r"\d|day", re.IGNORECASE),
    FactKind.NUMBER: re.compile(r"\d"),
}
_UNSPACED = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_ASCII_KINDS = (FactKind.URL, FactKind.PATH, FactKind.CODE)
_WORD = re.compile(r"(?<![\w'’])[^\W\d_][\w'’-]*")
_GROUPED = re.compile(r"(?<=\d)[,.'’\u00a0\u202f](?=\d{3}(?!\d))")
_SPACE = re.compile(r"\s+")
_MARKS = " \t\n.,;:!?\"'“”‘’„«»`「」()[]"
_SENTENCE_START = re.compile(r"(?:\A|[.!?…:;。！？]\s+|[\"“«„(]|[·•|\]]\s*|\s[—–-]\s+)\Z")
_NAME_JOINT = re.compile(
    r" (?:(?:of|the|de|do|da|dos|das|del|della|di|la|le|du|des|van|von|der|den|ten|al|el|bin|ibn|og) ){0,2}|/S ?|-"
)
#: Of the words of a text, with so many capitals inside sentences a single one is no name: German, a headline.
_CAPITALS_EVERYWHERE = 0.18
_NO_NAMES = frozenset(
    "later yesterday today tomorrow tonight meanwhile next last first second third finally since until after before "
    "during every maybe perhaps still even note decision rule update "
    "i i'm i've i'd i'll ok okay ai pdf csv json html url api sql yes no hi hello dear thanks mr mrs ms dr vat id tv "
    "usa eu monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december english norwegian german french spanish arabic japanese".split()
)


def fold(text: str) -> str:
    """By what texts are compared: case, width, white space, escapes and the dots of large numbers left out."""
    folded = unicodedata.normalize("NFKC", html.unescape(text) if "&" in text else text).casefold()
    return _SPACE.sub(" ", _GROUPED.sub("", folded)).strip()


def joined(text: str, at: int) -> bool:
    """Whether one word, or one number, goes on across this place."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if ord(before) > 0x2E80 or ord(after) > 0x2E80:
        return before.isdigit() and after.isdigit()
    return before.isalnum() and after.isalnum()


def find_facts(text: str, common: Container[str] = ()) -> list[Fact]:
    """The facts of a text in order, none overlapping another. ``common`` holds words that are also written
    without a capital: alone they are no name."""
    taken: list[Fact] = []
    # Between two scripts there is no space and, to a pattern, no word end: "編號AB-1234".
    spaced = _UNSPACED.sub("、", text)
    for kind, finder in _FINDERS.items():
        if _HINTS[kind].search(text):
            for match in finder.finditer(text):
                _take(taken, _read(kind, match, text), text)
            if spaced != text and kind in _ASCII_KINDS:
                for match in finder.finditer(spaced):
                    _take(taken, _read(kind, match, text), text)
    for fact in _names(text, common):
        _take(taken, fact, text)
    return sorted(taken, key=lambda fact: fact.start)


def _take(taken: list[Fact], fact: Fact | None, text: str) -> None:
    if fact is None or not fact.key or joined(text, fact.start) or joined(text, fact.end):
        return
    if not any(fact.start < other.end and other.start < fact.end for other in taken):
        taken.append(fact)


def _read(kind: FactKind, match: re.Match[str], text: str) -> Fact | None:
    start, end = match.span()
    if kind in (FactKind.URL, FactKind.PATH):
        end = start + len(text[start:end].rstrip(".,;:!?)]}…'\""))
    elif kind is FactKind.QUOTE and not (" " in match.group() or not match.group().isascii() or end - start > 8):
        return None
    elif kind is FactKind.NUMBER:
        end = _end_of_number(match)
        if end < 0:
            return None
    key = fold(text[start:end].strip(_MARKS))
    bound = None
    if kind in (FactKind.NUMBER, FactKind.DATE):
        bound = _BOUND.search(text, max(start - _BOUND_CHARS, 0), start)
        rate = _RATE.match(text, end)
        end = rate.end() if rate else end
    return Fact(kind, key, start, end, bound.start() if bound else start)


def _end_of_number(match: re.Match[str]) -> int:
    """Where a number and its unit end; -1 for a bare number that is too small to be told from any other."""
    found = match.group()
    figure = re.match(rf"[^\w]*(?:[A-Za-z]{{2,3}} ?)?{_FIGURE}(?: ?[×x] ?{_FIGURE})*", found)
    if figure is None or "°" in found:
        return match.end()
    unit = found[figure.end() :].strip(" -")
    is_symbol = len(unit) == 1 and unit.isupper() and unit != "I"
    if is_symbol or (unit and facts.weigh(unit).strength > facts.FUNCTION and not facts.is_negation(unit.casefold())):
        return match.end()
    digits = sum(character.isdigit() for character in figure.group())
    end = match.start() + figure.end()
    telling = digits > 2 or re.search(r"\d[.,]\d|[€$£¥₹×]", figure.group())
    return end if telling else -1


def _names(text: str, common: Container[str]) -> Iterator[Fact]:
    """Runs of words with capitals. One that begins a sentence needs a second, unless it is known elsewhere."""
    words = [word for word in _WORD.finditer(text) if word.group()[0].isupper()]
    if not words:
        return
    inside = [word for word in words if not _begins_sentence(text, word.start())]
    everywhere = len(inside) > 3 and len(inside) > _CAPITALS_EVERYWHERE * (text.count(" ") + 1)
    for found in _runs(text, words):
        run = _without_opener(found, text, common)
        alone = len(run) == 1 and (everywhere or _begins_sentence(text, run[0].start()) or len(run[0].group()) < 3)
        if not run or alone:
            continue
        end = run[-1].end() - (2 if text[: run[-1].end()].endswith(("'s", "’s")) else 0)
        yield Fact(FactKind.NAME, fold(text[run[0].start() : end]), run[0].start(), end, run[0].start())


def _without_opener(run: list[re.Match[str]], text: str, common: Container[str]) -> list[re.Match[str]]:
    """A run without the plain words before its name: "A Jonas Lian", "Ask Birk Aune"."""
    start = 0
    while start < len(run) and _is_plain(run[start].group(), common):
        if start < len(run) - 1 and not _begins_sentence(text, run[start].start()):
            break
        start += 1
    return run[start:]


def _runs(text: str, words: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    run: list[re.Match[str]] = []
    for word in words:
        if run and not _NAME_JOINT.fullmatch(text, run[-1].end(), word.start()):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _is_plain(word: str, common: Container[str]) -> bool:
    norm = word.casefold().replace("’", "'")
    return norm in _NO_NAMES or norm in common or facts.weigh(norm).strength not in (facts.CONTENT, facts.TELLING)


def _begins_sentence(text: str, start: int) -> bool:
    return _SENTENCE_START.search(text, max(start - 4, 0), start) is not None
