"""One format for the lines that this app logs: ``event key=value key=value``.

The event comes first and says how something went: ``skip``, ``start``, ``done``, ``failed``, ``retry`` and a few
more (docs/telemetry.md lists them). The rest are ids, counts and codes. Text of a conversation is never a value.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_PLAIN = re.compile(r"[^\s\"=]+")


def log(logger: logging.Logger, level: int, event: str, /, **values: Any) -> None:
    """Log one line. What is None is left out.

    The record has the same as ``record.compaction``, a dict, for formatters that write JSON.
    """
    if not logger.isEnabledFor(level):
        return
    said = {name: _simple(value) for name, value in values.items() if value is not None}
    # The caller's own place in the code, not this one, is what a line number should name.
    logger.log(level, "%s", line(event, said), extra={"compaction": {"event": event, **said}}, stacklevel=2)


def log_error(logger: logging.Logger, error: BaseException, /, **values: Any) -> None:
    """Log an ``error`` line with the type of an exception and where it was raised, but not its words.

    Code of a host's (a redactor, a policy, a summarizer) may quote the conversation in what it raises.
    """
    values |= {"type": type(error).__name__}
    said = {name: _simple(value) for name, value in values.items() if value is not None}
    frames = "".join(traceback.format_tb(error.__traceback__))
    extra = {"compaction": {"event": "error", **said}}
    logger.error("%s\n%s", line("error", said), frames, extra=extra, stacklevel=2)


def line(event: str, values: Mapping[str, Any]) -> str:
    """``skip session=… reason=cooldown covered=0.85``; a value with spaces, quotes or ``=`` is quoted as in JSON."""
    return " ".join([event, *(f"{name}={_shown(value)}" for name, value in values.items())])


def _simple(value: Any) -> Any:
    """What a JSON formatter takes: numbers as they are, lists of ids as lists, all else as text."""
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Decimal):
        return _amount(value)
    return [_simple(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _amount(value: Decimal) -> str:
    """Money as people write it: ``0.0004825``, and ``0`` for what the column holds as ``0E-8``."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
