"""A tool's result in JSON, as lines ``name: value``. The values of one record stand together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from compaction_app.messages.truncate import one_line

#: Lines of one result, characters of a line and of a record's value, levels of nesting, and characters of a result.
_LINES, _LINE, _VALUE, _DEPTH, _CHARACTERS = 40, 300, 80, 6, 200_000
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def read_records(text: str) -> list[str] | None:
    """None if the text is no JSON object or list."""
    value = parsed(text)
    return None if value is None else list(islice(_lines(value, "", _DEPTH), _LINES))


def parsed(text: str) -> Any:
    """A JSON object or list; None where the text is neither."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > _CHARACTERS:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if depth and isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name, depth - 1)
    elif not depth or not isinstance(value, Mapping):
        yield from [_line(name, value, _LINE)] if value not in _EMPTY else []
    elif any(isinstance(inner, Mapping | list) for inner in value.values()):
        for key, inner in value.items():
            yield from _lines(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif told := [_line(str(key), inner, _VALUE) for key, inner in value.items() if inner not in _EMPTY]:
        yield _line(name, ", ".join(told), _LINE)


def _line(name: str, value: Any, longest: int) -> str:
    told = json.dumps(value) if isinstance(value, bool) else str(value)
    return one_line(f"{name}: {told}" if name else told, longest)
