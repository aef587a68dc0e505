"""What a value of a setting must be. Each rule says what is wrong with a value, or None if it is right."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from django.utils.module_loading import import_string

#: What integer columns hold on every database, and more tokens, bytes or messages than anyone has.
MAX_INTEGER = 2**31 - 1
#: Some thirty years: more than that and a date to come can not be computed.
MAX_SECONDS = 10**9

Rule = Callable[[Any], str | None]


def integer(low: int, high: int = MAX_INTEGER) -> Rule:
    def rule(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        return None if low <= value <= high else f"must be from {low} to {high}"

    return rule


def number(value: Any) -> str | None:
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    # No whole number is asked: one too large for a float would raise.
    return "must be a number" if wrong or (isinstance(value, float) and not math.isfinite(value)) else None


def seconds(value: Any) -> str | None:
    if number(value) or not 0 <= value <= MAX_SECONDS:
        return f"must be a number of seconds from 0 to {MAX_SECONDS}"
    return None


def positive_seconds(value: Any) -> str | None:
    return seconds(value) or (None if value > 0 else "must be more than 0 seconds")


def price(value: Any) -> str | None:
    # Money is often written as Decimal; no other setting takes one.
    exact = isinstance(value, Decimal) and value.is_finite()
    wrong = None if exact else number(value)
    return wrong or (None if 0 <= value <= MAX_PRICE else f"must be from 0 to {MAX_PRICE}")


def ratio(value: Any) -> str | None:
    return number(value) or (None if 0 < value < 1 else "must lie strictly between 0 and 1")


def choice(enum: Any) -> Rule:
    names = [str(member) for member in enum]
    return lambda value: None if value in names else f"must be one of {', '.join(names)}"


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "must be a text that is not empty"
    # Each is kept in the record of a run.
    storable = "\x00" not in value and value.encode(errors="replace").decode() == value
    return None if storable else "must hold neither NUL nor lone surrogates"


def dotted_path(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a dotted path"
    try:
        import_string(value)
    # The last two are what importlib raises for an empty or a relative module name.
    except (ImportError, ValueError, TypeError) as error:
        return f"can not be imported: {error}"
    return None


def class_with(method: str, call: str, takes: int | None = None) -> Rule:
    """A dotted path to a class whose instances have ``method``; ``call`` shows how it will be called.

    ``takes``: with how many arguments, of an instance that is made with none; None where the app looks itself.
    """

    def rule(value: Any) -> str | None:
        if wrong := dotted_path(value):
            return wrong
        named = import_string(value)
        # Every class is callable, and so hasattr() finds a __call__ on each: only its own counts.
        own = isinstance(named, type) and any(method in vars(base) for base in named.__mro__)
        if not own or takes is None:
            return None if own else f"must name a class whose instances take {call}"
        if not _takes(named, 0):
            return "must name a class that is made without arguments"
        bound = isinstance(inspect.getattr_static(named, method), staticmethod | classmethod)
        fits = _takes(getattr(named, method), takes if bound else takes + 1)
        return None if fits else f"must name a class whose instances take {call}"

    return rule


def _takes(called: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with ``count`` arguments; true where its signature can not be read (code in C)."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def function(call: str, takes: int) -> Rule:
    """A dotted path to a function of ``takes`` arguments, or to a class whose instances are called like one."""
    as_class = class_with("__call__", call, takes)

    def rule(value: Any) -> str | None:
        if wrong := dotted_path(value):
            return wrong
        named = import_string(value)
        wrong = as_class(value) if isinstance(named, type) else None
        if wrong or not callable(named):
            return wrong or f"must name a function that takes {call}"
        if not isinstance(named, type) and not _takes(named, takes):
            return f"must name a function that takes {call}"
        # What it gives back is a coroutine, which is not None, not a text, and true whatever it would say.
        called = getattr(named, "__call__", named)  # noqa: B004  # not whether it can be called, but what is
        waits = inspect.iscoroutinefunction(named) or inspect.iscoroutinefunction(called)
        return "must name a function that answers at once, not an async one" if waits else None

    return rule


def optional(rule: Rule) -> Rule:
    return lambda value: None if value is None else rule(value)


def windows(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of model name prefix to tokens"
    if any(not isinstance(k, str) or integer(1)(v) for k, v in value.items()):
        return "must map model name prefixes to whole numbers of tokens above 0"
    return None


_MODEL_RULES: dict[str, Rule] = {
    "model": text,
    "base_url": optional(text),
    "api_key_env": optional(text),
    "timeout": positive_seconds,
    "max_input_tokens": integer(1),
}


def models(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return "must be a list of model names or dicts"
    for entry in value:
        if wrong := text(entry) if isinstance(entry, str) else model(entry):
            return f"has an entry that is wrong: {wrong}"
    return None


def model(entry: Any) -> str | None:
    if not isinstance(entry, Mapping) or "model" not in entry:
        return "each must be a model name or a dict with the key 'model'"
    if unknown := sorted(str(key) for key in entry if key not in _MODEL_RULES):
        return f"unknown keys {', '.join(unknown)}; known are {', '.join(_MODEL_RULES)}"
    for key, value in entry.items():
        if wrong := _MODEL_RULES[key](value):
            return f"{key} {wrong}"
    return None


_PRICE_KEYS = ("input", "cached", "output")
#: Per million tokens. Far above any, and low enough for the column that a run's cost is stored in.
MAX_PRICE = 10_000


def prices(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of model name to prices per million tokens"
    for name, entry in value.items():
        if not isinstance(name, str) or not name:
            return "must have model names as keys"
        if wrong := _model_price(entry):
            return f"has an entry for {name!r} that is wrong: {wrong}"
    return None


def _model_price(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return "it must be a dict such as {'input': 0.2, 'cached': 0.02, 'output': 1.25}, per million tokens"
    if unknown := sorted(str(key) for key in entry if key not in _PRICE_KEYS):
        return f"unknown keys {', '.join(unknown)}; known are {', '.join(_PRICE_KEYS)}"
    if missing := [key for key in ("input", "output") if key not in entry]:
        return f"{' and '.join(missing)} must be given"
    return next((f"{key} {wrong}" for key, amount in entry.items() if (wrong := price(amount))), None)


def throttle(value: Any) -> str | None:
    count, _, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    counted = count.isascii() and count.isdigit()
    return None if counted and unit in {"s", "m", "h", "d"} else "must look like '10/m' (s, m, h or d)"


def role(value: Any) -> str | None:
    # Rule 13: a summary is untrusted text and never speaks with the system's voice.
    return None if value in ("user", "assistant") else "must be 'user' or 'assistant'; never 'system'"
