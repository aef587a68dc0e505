"""Amounts that were told again with another number: "46 guests for dinner", then "52 guests now".

Neither is let go for that: two dinners may have guests. But the older one alone would mislead, so it is told only
together with the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: ``deposit_percent = 25``: a name that only code gives, so that it is the same thing wherever it stands.
_ASSIGNED = re.compile(r"\b([a-z]\w*(?:[_.]\w+)+)\s*[=:]\s*(\d[\d.,]*)", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.,:/-])(\d[\d,]*) ([a-z]{3,}s)\b")
#: What anything has some of: the same unit says nothing of the same thing.
_UNITS = frozenset(
    "seconds minutes hours days weeks months years times metres meters miles feet inches grams kilos litres liters "
    "degrees euros dollars pounds crowns yens percents points tokens bytes words characters lines pages degrees "
    "steps parts pieces sets pairs dozens others versions generations examples items things tests files was has".split()
)


def newer_amounts(texts: Sequence[str]) -> dict[int, int]:
    """For the position of a text with an outdated amount, the position of the newest amount of the same thing."""
    newest: dict[str, tuple[int, str]] = {}
    told = [list(_amounts(text)) for text in texts]
    for position, amounts in enumerate(told):
        newest.update((thing, (position, amount)) for thing, amount in amounts)
    needs: dict[int, int] = {}
    for position, amounts in enumerate(told):
        for thing, amount in amounts:
            last, newer = newest[thing]
            if last > position and newer != amount:
                needs[position] = max(last, needs.get(position, last))
    return needs


def _amounts(text: str) -> Iterator[tuple[str, str]]:
    """(thing, number) of each amount."""
    if not any(character.isdigit() for character in text):
        return
    for match in _ASSIGNED.finditer(text):
        yield match[1].lower(), match[2].rstrip(".,")
    for match in _COUNTED.finditer(text):
        if match[2] not in _UNITS:
            yield match[2], match[1].replace(",", "")
