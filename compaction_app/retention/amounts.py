"""Amounts that were told again with another number: "46 guests for dinner", then "52 guests now"; hours, weekdays
and new names likewise.

Neither is let go for that: two dinners may have guests. But the older one alone would mislead, so it is told only
together with the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compaction_app.retention import facts
from compaction_app.retention.superseded import is_person, may_replace
from compaction_app.values import Role

#: ``deposit_percent = 25``: a name that only code gives, so that it is the same thing wherever it stands.
_ASSIGNED = re.compile(r"\b([a-z]\w*(?:[_.]\w+)+)\s*[=:]\s*(\d[\d.,]*)", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.,:/-])(\d[\d,]*) ([a-z]{3,}s)\b")
#: What anything has some of: the same unit says nothing of the same thing.
_UNITS = frozenset(
    "seconds minutes hours days weeks months years times metres meters miles feet inches grams kilos litres liters "
    "degrees euros dollars pounds crowns yens percents points tokens bytes words characters lines pages degrees "
    "steps parts pieces sets pairs dozens others versions generations examples items things tests files was has".split()
)
#: "Ceremony at 15:30", "runs out to us on Thursdays".
_TIMED = re.compile(
    r"\b([a-z]{4,})(?: (?:home|again|now|starts?|begins?|leaves?|opens?|closes?|comes?|goes|is))? at "
    r"(\d{1,2}[:.]\d{2})\b",
    re.IGNORECASE,
)
_WEEKLY = re.compile(
    r"\b([a-z]+ (?:to|for|with) [a-z]+) on ((?:mon|tues|wednes|thurs|fri|satur|sun)days)\b", re.IGNORECASE
)
#: "the branch feature/x", then "a new branch release/x": what is named is written like code.
_NAMED = re.compile(
    r"\b(new )?(branch|file|table|server|host|room|account|key|folder|port|version) ([\w.-]*[/._\d-][\w./-]*\w)"
)
#: "The couple sleeps in the blue room", "the couple moves to the red one".
_PLACED = re.compile(
    r"\b([A-Za-z][a-z]+ [a-z]+|[A-Z][a-z]+) (?:sleeps?|lives?|stays?|moves?|moved)"
    r"(?: over| up| down| out)? (?:in|into|to|at) ((?:the |a )?[\w-]+)"
)
_FIGURE = r"\d{1,3}(?:[.,'’ ]\d{3})+|\d{4,}"
_FIGURES = re.compile(rf"(?<![\w.,])(?:{_FIGURE})(?![\w]|[.,]\d)")
#: "Grows from 173,000 to 212,000", "214,000 plus 24,500 makes 238,500".
_EXPLICIT = re.compile(
    rf"\bfrom ({_FIGURE})(?: \w+)? to ({_FIGURE})|(?<![\w.,])({_FIGURE})(?: \w+)? (?:plus|and|\+) [^.;]{{1,60}}? "
    rf"(?:makes?|gives?|is|are|=) ({_FIGURE})"
)
_VOICES = ("", Role.ASSISTANT.value, Role.TOOL.value)


class Renewal(NamedTuple):
    """An outdated value of a text, and the position and wording of the newest."""

    old: str
    at: int
    new: str


class _Amount(NamedTuple):
    thing: str
    number: str
    #: As it was said.
    wording: str
    #: May be what an earlier one is replaced by. A second branch is no newer one unless it is called new.
    renews: bool = True
    #: Names the old value itself: whoever says it, the old one misleads without it.
    explicit: bool = False


def newer_amounts(texts: Sequence[str], speakers: Sequence[str] = ()) -> dict[int, int]:
    """For the position of a text with an outdated amount, the position of the newest amount of the same thing.

    ``speakers`` are those of the texts, people if left out: no other's amount is newer than that of a person.
    """
    return {position: max(r.at for r in found) for position, found in renewed_amounts(texts, speakers).items()}


def renewed_amounts(texts: Sequence[str], speakers: Sequence[str] = ()) -> dict[int, list[Renewal]]:
    """For the position of a text, each outdated amount in it."""
    who = speakers or [""] * len(texts)
    newest: dict[tuple[str, str], tuple[int, _Amount]] = {}
    told = [list(_amounts(text)) for text in texts]
    for position, amounts in enumerate(told):
        said_by = "" if is_person(who[position]) else who[position].partition(" ")[0]
        for amount in amounts:
            if amount.renews:
                newest["" if amount.explicit else said_by, amount.thing] = position, amount
    renewals: dict[int, list[Renewal]] = {}
    for position, amounts in enumerate(told):
        for amount in amounts:
            for voice in _VOICES:
                at, newer = newest.get((voice, amount.thing), (-1, amount))
                if at > position and newer.number != amount.number and may_replace(voice, who[position]):
                    renewals.setdefault(position, []).append(Renewal(amount.wording, at, newer.wording))
    return renewals


def tells_change(text: str) -> bool:
    """Whether it names an old value together with the new one: "grows from 173,000 to 212,000"."""
    return facts.has_digit(text) and _EXPLICIT.search(text) is not None


def _amounts(text: str) -> Iterator[_Amount]:
    for match in _WEEKLY.finditer(text):
        yield _Amount(f"{match[1].lower()} on", match[2].lower(), match.group())
    for match in _NAMED.finditer(text):
        yield _Amount(f"the {match[2]}", match[3].lower(), match.group(), match[1] is not None)
    for match in _PLACED.finditer(text):
        yield _Amount(f"{match[1].lower()} in", match[2].lower(), match.group())
    if not facts.has_digit(text):
        return
    renewed = {_plain(match[1] or match[3]): match for match in _EXPLICIT.finditer(text)}
    for figure, match in renewed.items():
        yield _Amount(figure, _plain(match[2] or match[4]), match[2] or match[4], explicit=True)
    for match in _FIGURES.finditer(text):
        if _plain(match.group()) not in renewed:
            yield _Amount(_plain(match.group()), _plain(match.group()), match.group(), renews=False)
    for match in _ASSIGNED.finditer(text):
        yield _Amount(match[1].lower(), match[2].rstrip(".,"), match.group().rstrip(".,"))
    for match in _COUNTED.finditer(text):
        if match[2] not in _UNITS:
            yield _Amount(match[2], match[1].replace(",", ""), match.group())
    for match in _TIMED.finditer(text):
        yield _Amount(f"{match[1].lower()} at", match[2], match.group())


def _plain(figure: str) -> str:
    return "".join(filter(str.isdigit, figure))
