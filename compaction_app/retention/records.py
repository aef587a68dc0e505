"""A tool's result in JSON, as lines ``name: value``. The values of one record stand together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from compaction_app.messages.truncate import one_line

#: Lines of one result, characters of a line, and levels of nesting that are read.
_MOST_LINES, _LINE_CHARACTERS, _DEPTH = 40, 300, 6
#: Of one value of a record.
_VALUE_CHARACTERS = 80
#: Characters of a result that is read as JSON at all.
_MOST_CHARACTERS = 200_000


def read_records(text: str) -> list[str] | None:
    """None if the text is no JSON object or list."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > _MOST_CHARACTERS:
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(islice(_lines(parsed, "", _DEPTH), _MOST_LINES))


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if depth and isinstance(value, Mapping):
        if not any(isinstance(inner, Mapping | list) for inner in value.values()):
            told = [
                _line(str(key), inner, _VALUE_CHARACTERS) for key, inner in value.items() if inner not in (None, "")
            ]
            yield from [_line(name, ", ".join(told))] if told else []
            return
        for key, inner in value.items():
            yield from _lines(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif depth and isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name, depth - 1)
    elif value not in (None, "", [], {}):
        yield _line(name, value)


def _line(name: str, value: Any, longest: int = _LINE_CHARACTERS) -> str:
    told = json.dumps(value) if isinstance(value, bool) else str(value)
    return one_line(f"{name}: {told}" if name else told, longest)
