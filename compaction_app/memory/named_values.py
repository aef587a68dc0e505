"""JSON of tools as lines, and named values: what tools were called with and gave back, and identifiers that were said.

An agent's memory is ids, dates and states, and sentences hold few of them. A value is told once, under the name that it
came with. Those under a name that tools were called with come first, then what people and calls used, identifiers, and
the newest; times and bare numbers that nobody used come last. Nothing here can say the opposite of what was said. Where
no tool gave or took named values there is none of it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from compaction_app.messages.tool_calls import name_and_arguments
from compaction_app.messages.truncate import one_line
from compaction_app.messages.validation import read_json
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
_NAMED = re.compile(r"([\w-]{1,40}): (.*)")
_NOT_IN_NAMES, _STEM = re.compile(r"[^\w-]+"), re.compile(r"[A-Za-z]?[a-z]{0,5}")
#: Characters of a named value, and of what is read.
_SHORTEST, _LONGEST, _CHARACTERS = 4, 60, 200_000
#: Characters of a line and of a value in it; lines, records and levels that are read.
_LINE, _VALUE, _LINES, _RECORDS, _DEPTH = 300, 120, 40, 2_000, 8


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
        asked, _, others = earlier.partition(f"{_OTHERS}\n")
        for is_asked, lines in ((True, asked), (False, others)):
            for found in filter(None, map(_NAMED.fullmatch, lines.splitlines())):
                name = "" if found[1] == _SAID else found[1]
                self._asked.update([_stem(name)] if is_asked and name else [])
                self._values |= {value: _Value(name, -place) for place, value in enumerate(found[2].split(", "))}

    def read(self, messages: Sequence[Message]) -> None:
        for number, message in enumerate(messages):
            for call in message.tool_calls:
                for name, value in _leaves(_parsed(name_and_arguments(call)[1])):
                    self._asked.add(_stem(name))
                    self._add(name, value, number, is_used=True)
            given = _parsed(message.content) if message.role == Role.TOOL else None
            for name, value in _leaves(given):
                self._add(name, value, number)
            for word in dict.fromkeys(_WORD.findall(message.content[:_CHARACTERS])) if given is None else {}:
                self._add("", word, number, is_used=True)

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
        ordered = sorted(self._values, key=self._worth, reverse=True)[: max(0, room)]
        most = bisect_right(range(len(ordered)), room, key=lambda n: count([self._written(ordered[: n + 1])])[0])
        return self._written(ordered[:most]) if most else ""

    def _add(self, name: str, value: str, place: int, *, is_used: bool = False) -> None:
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
        asked, others = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for value in values:
            (asked if self._is_asked(value) else others)[self._values[value].name or _SAID].append(value)
        lines = [[f"{name}: {', '.join(told)}" for name, told in groups.items()] for groups in (asked, others)]
        return "\n".join([HEADING, *lines[0], *[_OTHERS][: len(lines[1])], *lines[1]])


def values_of(text: str) -> str:
    """The lines of the named values at the end of an extract or a ledger."""
    return f"\n{text}".partition(f"\n{HEADING}\n")[2]


def read_records(text: str) -> list[str] | None:
    """A tool's result as lines ``path: name: value, name: value``, one for each object; None if it is no JSON."""
    given = _parsed(text)
    lines = []
    for path, values in islice(_records(given, "", _DEPTH), _LINES):
        told = (json.dumps(value) if isinstance(value, bool) else str(value) for _, value in values)
        named = ", ".join(
            one_line(f"{name}: {value}" if name else value, _VALUE)
            for (name, _), value in zip(values, told, strict=True)
        )
        lines.append(one_line(f"{path}: {named}" if path else named, _LINE))
    return None if given is None else lines


def _leaves(given: Any) -> Iterator[tuple[str, str]]:
    """(name, value) in order."""
    for path, values in islice(_records(given, "", _DEPTH), _RECORDS):
        for name, value in values:
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield _name_of(name or path.rpartition(".")[2]), str(value).strip()


def _parsed(given: Any) -> Any:
    """An object or list, also from a text; None where it is none."""
    if isinstance(given, str):
        return read_json(given) if len(given) <= _CHARACTERS else None
    return given if isinstance(given, Mapping | list) else None


def _records(value: Any, path: str, depth: int) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """(path, what it holds by name) of each object and list, without those in it: they follow."""
    plain, deeper = list[tuple[str, Any]](), list[tuple[str, Any]]()
    for name, one in value.items() if isinstance(value, Mapping) else (("", one) for one in value or ()):
        (deeper if depth and isinstance(one, Mapping | list) else plain).append((str(name), one))
    if plain := [(name, one) for name, one in plain if one not in (None, "", [], {})]:
        yield path, plain
    for name, one in deeper:
        yield from _records(one, ".".join(filter(None, [path, name])), depth - 1)


def _name_of(key: str) -> str:
    """A name that cannot pass for a speaker's."""
    name = _NOT_IN_NAMES.sub("_", key)[:40]
    return f"{name}_" if name.lower() in {*Role, "summary", _SAID} else name


def _stem(name: str) -> str:
    """``reservation`` of ``reservation_id`` and of ``reservations``."""
    found = _STEM.match(name)
    return found[0].lower() if found else ""
