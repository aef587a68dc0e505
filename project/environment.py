"""Reads environment variables as typed values.

A variable that is unset or empty means "use the default". An invalid one raises ``ImproperlyConfigured`` at start-up,
with its name and what to write instead: a setting that is silently ignored is only noticed by its consequences.
"""

import math
import os
from collections.abc import Sequence
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value not in TRUE_WORDS | FALSE_WORDS:
        _reject(name, "neither true nor false", "Set it to true or false")
    return value in TRUE_WORDS


def whole_number(name: str, *, at_least: int) -> int | None:
    value = text(name)
    if not value:
        return None
    try:
        number = int(value)
    except ValueError:
        _reject(name, "not a whole number", f"Set it to {at_least} or more")
    if number < at_least:
        _reject(name, "too small", f"Set it to {at_least} or more")
    return number


def ratio(name: str) -> float | None:
    value = text(name)
    if not value:
        return None
    number = _number(name, value, "Set it to a number between 0 and 1, such as 0.75")
    if not 0 < number < 1:
        _reject(name, "not strictly between 0 and 1", "Set it to a number between 0 and 1, such as 0.75")
    return number


def seconds(name: str, *, default: float) -> float:
    value = text(name)
    if not value:
        return default
    number = _number(name, value, "Set it to a number of seconds, such as 30")
    if number <= 0:
        _reject(name, "not more than 0", "Set it to a number of seconds, such as 30")
    return number


def choice(name: str, choices: Sequence[str]) -> str | None:
    value = text(name)
    if not value:
        return None
    if value not in choices:
        _reject(name, "unknown", f"Set it to one of {', '.join(choices)}")
    return value


def names(name: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text(name).split(",")) if part]


def _number(name: str, value: str, advice: str) -> float:
    try:
        number = float(value)
    except ValueError:
        _reject(name, "not a number", advice)
    if not math.isfinite(number):
        _reject(name, "not a finite number", advice)
    return number


def _reject(name: str, problem: str, advice: str) -> NoReturn:
    raise ImproperlyConfigured(
        f"The environment variable {name}={text(name)!r} is {problem}. {advice}, or unset it for the default."
    )
