"""Named values: what tools were called with and gave back, and the identifiers that were said.

An agent's memory is ids, dates and states, and sentences hold few of them. A value is told once, under the name that it
came with. Those under a name that tools were called with come first, then what people and calls used, identifiers, and
the newest; times and bare numbers that nobody used come last. Nothing here can say the opposite of what was said. Where
no tool gave or took named values there is none of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from compaction_app.memory.records import parsed
from compaction_app.messages.tool_calls import name_and_arguments
from compaction_app.tokens import Count
from compaction_app.values import Message, Role

#: The line above them, and the one above those under a name that no tool was called with.
HEADING, _OTHERS = "Values seen:", "Others:"
#: What stands under no name.
_SAID = "said"
# A plus sign begins a word only before a letter or digit: each of a long run of them would be tried to its end.
_WORD = re.compile(r"(?:[#@]?[\w~/]|\+(?=[\w/]))[\w.+@/:#-]*[\w/]")
#: A digit, an underscore, an address, a file or a path, or an acronym.
_SIGN = re.compile(r"[\d_@]|\.\w+/|/.*/|^[A-Z]{5,}$")
_NUMBER = re.compile(r"[\d.,:]+(?:\+\d)?[a-z]{0,2}|\d{4}-\d\d-\d\dT[\d:.+Z-]+")
_IDENTIFIER = re.compile(r"(?=.*[^\W\d_]).*\d")
_LINE = re.compile(r"([\w-]{1,40}): (.*)")
_NOT_IN_NAMES, _STEM = re.compile(r"[^\w-]+"), re.compile(r"[A-Za-z]?[a-z]{0,5}")
_SHORTEST, _LONGEST = 4, 60
#: Characters of a text in which identifiers are looked for; leaves and levels of JSON.
_CHARACTERS, _LEAVES, _DEPTH = 200_000, 2_000, 12


@dataclass(slots=True)
class _Value:
    name: str
    #: The message that last had it; below 0 of an earlier summary.
    place: int
    #: By a person, a reply or a call.
    is_used: bool = False


class NamedValues:
    def __init__(self, earlier: str = "") -> None:
        """``earlier``: the lines of a text that this class wrote."""
        self._values: dict[str, _Value] = {}
        #: Stems of the names that tools were called with.
        self._asked: set[str] = set()
        is_asked = True
        for line in earlier.splitlines():
            is_asked = is_asked and line != _OTHERS
            if found := _LINE.fullmatch(line):
                name = "" if found[1] == _SAID else found[1]
                self._asked.update([_stem(name)] if is_asked and name else [])
                for place, value in enumerate(found[2].split(", ")):
                    self._values[value] = _Value(name, -place)

    def read(self, messages: Sequence[Message]) -> None:
        for number, message in enumerate(messages):
            for call in message.tool_calls:
                for name, value in leaves_of(name_and_arguments(call)[1]) or ():
                    self._asked.add(_stem(name))
                    self._add(name, value, number, is_used=True)
            given = leaves_of(message.content) if message.role == Role.TOOL else None
            said = [("", word) for word in _WORD.findall(message.content[:_CHARACTERS])] if given is None else given
            for name, value in said:
                self._add(name, value, number, is_used=given is None)

    def without(self, told: str) -> NamedValues:
        """Those that a text does not tell."""
        words, others = set(_WORD.findall(told)), NamedValues()
        others._values = {value: one for value, one in self._values.items() if value not in words}
        others._asked = self._asked
        return others

    def size(self, count: Count) -> int:
        """Tokens of all that have a name, and are no bare numbers."""
        named = [value for value, one in self._values.items() if one.name and not self._is_bare(value)]
        return count([self._written(named)])[0] if named else 0

    def text(self, room: int, count: Count) -> str:
        """As many as have room."""
        ordered = sorted(self._values, key=self._worth, reverse=True)
        low, high = 0, max(0, min(len(ordered), room))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if count([self._written(ordered[:middle])])[0] <= room else (low, middle - 1)
        return self._written(ordered[:low]) if low else ""

    def _add(self, name: str, value: str, place: int, *, is_used: bool) -> None:
        if not name and _NUMBER.fullmatch(value):
            return
        if _SHORTEST <= len(value) <= _LONGEST and _SIGN.search(value) and _WORD.fullmatch(value):
            one = self._values.setdefault(value, _Value(name, place))
            one.name, one.place, one.is_used = name or one.name, place, one.is_used or is_used

    def _is_asked(self, value: str) -> bool:
        one = self._values[value]
        return _stem(one.name) in self._asked if one.name else one.is_used

    def _is_bare(self, value: str) -> bool:
        return _NUMBER.fullmatch(value) is not None and not self._values[value].is_used

    def _worth(self, value: str) -> tuple[bool, bool, bool, bool, int]:
        one, is_identifier = self._values[value], _IDENTIFIER.match(value) is not None
        return not self._is_bare(value), self._is_asked(value), one.is_used, is_identifier, one.place

    def _written(self, values: Sequence[str]) -> str:
        lines = [HEADING]
        for is_asked in (True, False):
            groups: dict[str, list[str]] = defaultdict(list)
            for value in values:
                if self._is_asked(value) == is_asked:
                    groups[self._values[value].name or _SAID].append(value)
            lines += [_OTHERS] if groups and not is_asked else []
            lines += [f"{name}: {', '.join(told)}" for name, told in groups.items()]
        return "\n".join(lines)


def values_of(text: str) -> str:
    """The lines of the named values at the end of an extract or a ledger."""
    return f"\n{text}".partition(f"\n{HEADING}\n")[2]


def leaves_of(given: Any) -> list[tuple[str, str]] | None:
    """(name, value) in order; None if it is no JSON object or list."""
    value = parsed(given if isinstance(given, str) else json.dumps(given))
    return None if value is None else list(islice(_leaves(value, "", _DEPTH), _LEAVES))


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and depth:
        pairs = value.items() if isinstance(value, dict) else ((name, inner) for inner in value)
        for key, inner in pairs:
            yield from _leaves(inner, _name_of(str(key)), depth - 1)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield name, str(value).strip()


def _name_of(key: str) -> str:
    """A name that cannot pass for a speaker's."""
    name = _NOT_IN_NAMES.sub("_", key)[:40]
    return f"{name}_" if name.lower() in {*Role, "summary", _SAID} else name


def _stem(name: str) -> str:
    """``reservation`` of ``reservation_id`` and of ``reservations``."""
    found = _STEM.match(name)
    return found[0].lower() if found else ""
