"""Symbols: paths, names of code, ids and numbers, as they stand in a text; and the leaves of JSON.

A symbol stands between word edges, so a memory of them can say nothing that was never there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from compaction_app.memory.words import UNSPACED
from compaction_app.messages.validation import read_json
from compaction_app.values import Role

#: Characters of a symbol, and of a text that is read for them.
_SHORTEST, _LONGEST, _CHARACTERS = 4, 120, 200_000


def _runs(letter: str) -> re.Pattern[str]:
    # What follows the sign of a format or an escape may begin with its letter, as in ``%shttps://…`` and ``\nname``.
    said = rf"{letter}++(?:[@#~./:+-]++{letter}*+)*+|[~./@#+](?:{letter}|[@#~./:+-])++"
    return re.compile(rf"(?:%(?=[a-z])|\\(?=[bfnrtuvx]))?(?:{said})")


#: In ASCII in a fifth of the time.
_PLAIN_RUN, _RUN = _runs("[A-Za-z0-9_]"), _runs(rf"[^\W{UNSPACED}]")
#: What a sign at the beginning belongs to: ``../a.ts``, ``~/a``, ``.env``, ``@name``, ``#12``, a number of a telephone.
_BEGIN = re.compile(r"(?:(?:\.\./)+|~?/|\.|[@#]|\+(?=\d{7}))?(?=\w)")
#: Behind a path: the line and the text that ``grep`` or a compiler puts there.
_BEHIND = re.compile(r"(?<=[a-zA-Z]):(?:\d.*|[a-z]+)$")
#: A digit, an underscore, an address, a path, two words in one, an acronym.
_SIGN = re.compile(r"[\d_@]|\w/\w|\w\.\w|[a-z][A-Z]|^[A-Z]{4,}$")
_BARE = re.compile(r"[\d.,:]+(?:\+\d)?[a-z]{0,2}|\d{4}-\d\d-\d\dT[\d:.+Z-]+")
_EDGE = re.compile(r"[./:#@+-]+")
_SPEAKERS = frozenset([*Role, "summary"])
_NOT_IN_NAMES = re.compile(r"[^\w-]+")
#: Values and levels that are read.
_LEAVES, _DEPTH = 10_000, 8


def symbols_in(text: str) -> dict[str, None]:
    """In order, each once."""
    runs = (_PLAIN_RUN if text.isascii() else _RUN).findall(text[:_CHARACTERS])
    # What is longer names nothing, and no cache need hold it.
    found = dict.fromkeys(run for run in runs if _SHORTEST <= len(run) <= 2 * _LONGEST)
    return dict.fromkeys(symbol for run in found if (symbol := _symbol_of(run)))


@lru_cache(maxsize=20_000)  # What one result names, many do.
def _symbol_of(run: str) -> str:
    if run[:1] in ("%", "\\") or not _SIGN.search(run):
        return ""
    # One file has one name, however it is written.
    run = run.removeprefix("./")
    run = _BEHIND.sub("", run.lstrip("-:+") if run[:1] != "+" else run).rstrip("./:-+#@~")
    while run and _BEGIN.match(run) is None:
        run = run[1:]
    return run if _SHORTEST <= len(run) <= _LONGEST and _SIGN.search(run) else ""


def is_symbol(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and _symbol_of(value) == value and _RUN.fullmatch(value) is not None


def is_bare(symbol: str) -> bool:
    """A number or a moment, which names nothing."""
    return not symbol[:1].isalpha() and _BARE.fullmatch(symbol) is not None


def parts_in(texts: Iterable[str]) -> set[str]:
    """All that the symbols of these texts have between word edges."""
    return {part for text in texts for symbol in symbols_in(text) for part in parts_of(symbol)}


@lru_cache(maxsize=5_000)
def parts_of(symbol: str) -> tuple[str, ...]:
    """All that it has between word edges: ``src``, ``src/app`` and ``app.ts`` of ``src/app.ts``."""
    begins = [0, *(match.end() for match in _EDGE.finditer(symbol))]
    ends = [*(match.start() for match in _EDGE.finditer(symbol)), len(symbol)]
    return tuple(symbol[begin:end] for begin in begins for end in ends if end - begin >= _SHORTEST)


def leaves(given: Any) -> Iterator[tuple[str, str]]:
    """(name, value) in order."""
    return islice(_leaves(given, "", _DEPTH), _LEAVES)


def parsed(given: Any) -> Any:
    """An object or list, also from a text; None where it is none."""
    if isinstance(given, str):
        is_json = len(given) <= _CHARACTERS and given.lstrip()[:1] in ("{", "[")
        return read_json(given) if is_json else None
    return given if isinstance(given, Mapping | list) else None


def _leaves(given: Mapping[str, Any] | list[Any], name: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, one in given.items() if isinstance(given, Mapping) else ((name, one) for one in given):
        if isinstance(one, str | int | float):
            if one != "" and not isinstance(one, bool):
                yield _name_of(str(key)), str(one).strip()
        elif depth and isinstance(one, Mapping | list):
            yield from _leaves(one, str(key), depth - 1)


def _name_of(key: str) -> str:
    """A name that cannot pass for a speaker's."""
    name = _NOT_IN_NAMES.sub("_", key)[:40]
    return f"{name}_" if name.lower() in _SPEAKERS else name
