"""Settings: one dict, ``COMPACTION``, every key optional.

``MODE`` picks a preset, an explicit key overrides the preset, the summarizer that ``SUMMARIZER_NAME`` picks overrides
both, and a session's own setting overrides all of them.
:func:`get_settings` reads Django's settings each time, so ``override_settings`` works; nothing is written back.
:func:`find_problems` finds what is wrong: the system checks report it, and :func:`get_settings` raises it.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import urldefrag, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings as django_settings
from django.utils.module_loading import import_string

from compaction_app.exceptions import ConfigurationError

MIB = 1024 * 1024
#: The most that an integer column stores on every database, and more tokens, bytes or messages than anyone has.
MAX_INTEGER = 2**31 - 1
#: About thirty years. With a larger number Python could not compute a date in the future.
MAX_SECONDS = 10**9
#: Per million tokens. Above any real price, and low enough for the column that stores a run's cost.
MAX_PRICE = 10_000


# -- choices and presets ------------------------------------------------------------------------------------


class Mode(StrEnum):
    OFF = "off"
    STANDARD = "standard"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"
    DETERMINISTIC = "deterministic"


class PruneWhen(StrEnum):
    PRESSURE = "pressure"
    ALWAYS = "always"


class Lookahead(StrEnum):
    PREVIOUS_TURN = "previous_turn"
    TIP = "tip"
    NONE = "none"


class ReasoningRule(StrEnum):
    SUMMARIZE = "summarize"
    DROP = "drop"


PRESETS: dict[str, dict[str, Any]] = {
    Mode.OFF: {},
    Mode.STANDARD: {},
    Mode.CONSERVATIVE: {"RECENT_MESSAGES_RATIO": 0.10},
    Mode.AGGRESSIVE: {
        "TRIGGER_RATIO": 0.60,
        "PRUNE_TOOL_RESULT_BYTES": 1024,
        "TARGET_RATIO": 0.25,
        "MICRO_COMPACT": True,
    },
    Mode.DETERMINISTIC: {
        "PRUNE": PruneWhen.ALWAYS,
        "SUMMARIZER": "compaction_app.summarizers.ExtractiveSummarizer",
    },
}

# -- rules: each returns what is wrong with a value, or None -------------------------------------------------

Rule = Callable[[Any], str | None]


def _integer(low: int, high: int = MAX_INTEGER) -> Rule:
    def rule(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        return None if low <= value <= high else f"must be from {low} to {high}"

    return rule


def _number(value: Any) -> str | None:
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    # isfinite() raises for whole numbers too large for a float.
    return "must be a number" if wrong or (isinstance(value, float) and not math.isfinite(value)) else None


def _seconds(value: Any) -> str | None:
    if _number(value) or not 0 <= value <= MAX_SECONDS:
        return f"must be a number of seconds from 0 to {MAX_SECONDS}"
    return None


def _positive_seconds(value: Any) -> str | None:
    return _seconds(value) or (None if value > 0 else "must be more than 0 seconds")


def _price(value: Any) -> str | None:
    # Money is often written as Decimal; no other setting accepts one.
    exact = isinstance(value, Decimal) and value.is_finite()
    wrong = None if exact else _number(value)
    return wrong or (None if 0 <= value <= MAX_PRICE else f"must be from 0 to {MAX_PRICE}")


def _ratio(value: Any) -> str | None:
    if (wrong := _number(value)) or 0 < value < 1:
        return wrong
    percent = f": {value / 100:g} for {value:g} %" if 2 <= value < 100 else ""
    return f"must be between 0 and 1 (exclusive){percent}"


def _choice(enum: Any) -> Rule:
    names = [str(member) for member in enum]
    return lambda value: None if value in names else f"must be one of {', '.join(names)}"


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "must be a non-empty string"
    # A run stores a snapshot of the settings.
    storable = "\x00" not in value and value.encode(errors="replace").decode() == value
    return None if storable else "must not contain NUL or lone surrogates"


def find_address_error(url: str) -> str | None:
    """What is wrong with the address of an OpenAI-compatible endpoint."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        # A port above 65535 or in letters, a bracket without its other half.
        usable = False
    if usable and not any(map(str.isspace, url)):
        return None
    return "must be an http(s) address such as 'http://localhost:8000/v1'"


def without_query(url: str) -> str:
    """An address as it may be stored: some endpoints are given a key in the query."""
    return urldefrag(url).url.partition("?")[0]


def _base_url(value: Any) -> str | None:
    if wrong := _text(value) or find_address_error(value):
        return wrong
    if "@" in urlsplit(value).netloc:
        # Each run stores its settings.
        return "must not contain a user name or a password: name the environment variable of a key in api_key_env"
    return None


def _time_zone(value: Any) -> str | None:
    try:
        ZoneInfo(value)
    # The last two: not a text; a path, a folder of zones, or NUL.
    except (ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        return "must be the name of a time zone, such as 'Europe/Berlin'"
    return None


def _dotted_path(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a dotted path"
    try:
        import_string(value)
    # The last two are what importlib raises for an empty or a relative module name.
    except (ImportError, ValueError, TypeError) as error:
        return f"cannot be imported: {error}"
    return None


def _class_with(method: str, call: str, takes: int | None = None) -> Rule:
    """A dotted path to a class whose instances have ``method``; ``call`` describes how it is called.

    ``takes`` is the number of arguments of the method; the class is then made without any. None checks neither.
    """

    def rule(value: Any) -> str | None:
        if wrong := _dotted_path(value):
            return wrong
        named = import_string(value)
        # hasattr() would find __call__ on every class, because classes are callable: only its own counts.
        own = isinstance(named, type) and any(method in vars(base) for base in named.__mro__)
        if not own or takes is None:
            return None if own else f"must name a class whose instances take {call}"
        if not _takes(named, 0):
            return "must name a class whose constructor takes no arguments"
        bound = isinstance(inspect.getattr_static(named, method), staticmethod | classmethod)
        fits = _takes(getattr(named, method), takes if bound else takes + 1)
        return None if fits else f"must name a class whose instances take {call}"

    return rule


def _takes(called: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with ``count`` arguments; true where its signature is unknown (code in C)."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _function(call: str, takes: int) -> Rule:
    """A dotted path to a function of ``takes`` arguments, or to a class whose instances are called like one."""
    as_class = _class_with("__call__", call, takes)

    def rule(value: Any) -> str | None:
        if wrong := _dotted_path(value):
            return wrong
        named = import_string(value)
        wrong = as_class(value) if isinstance(named, type) else None
        if wrong or not callable(named):
            return wrong or f"must name a function that takes {call}"
        if not isinstance(named, type) and not _takes(named, takes):
            return f"must name a function that takes {call}"
        # An async function returns a coroutine, which always counts as true.
        called = getattr(named, "__call__", named)  # noqa: B004  # not whether it can be called, but what is
        waits = inspect.iscoroutinefunction(named) or inspect.iscoroutinefunction(called)
        return "must name a synchronous function, not an async one" if waits else None

    return rule


def _optional(rule: Rule) -> Rule:
    return lambda value: None if value is None else rule(value)


def _windows(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of model name prefix to tokens"
    if any(not isinstance(k, str) or _integer(1)(v) for k, v in value.items()):
        return "must map model name prefixes to whole numbers of tokens above 0"
    return None


_MODEL_RULES: dict[str, Rule] = {
    "model": _text,
    "base_url": _optional(_base_url),
    "api_key_env": _optional(_text),
    "timeout": _positive_seconds,
    "max_input_tokens": _integer(1),
}


def _ratios(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of model name prefix to ratio"
    if any(not isinstance(k, str) or _ratio(v) for k, v in value.items()):
        return "must map model name prefixes to numbers between 0 and 1 (exclusive)"
    return None


#: What a named summarizer may set, instead of the site's own.
SUMMARIZER_KEYS = (
    "SUMMARIZER",
    "SUMMARIZER_MODELS",
    "SUMMARIZER_TIMEOUT",
    "SUMMARIZER_MAX_OUTPUT_TOKENS",
    "SUMMARY_PROMPT",
)


def _summarizers(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of names to dicts such as {'SUMMARIZER_MODELS': ['gpt-4o']}"
    for name, entry in value.items():
        if not isinstance(name, str) or not name or not isinstance(entry, Mapping):
            return "must map names to dicts such as {'SUMMARIZER_MODELS': ['gpt-4o']}"
        if unknown := sorted(str(key) for key in entry if key not in SUMMARIZER_KEYS):
            return f"has unknown keys for {name!r}: {', '.join(unknown)}; known are {', '.join(SUMMARIZER_KEYS)}"
        for key, item in entry.items():
            if wrong := RULES[key](item):
                return f"has an invalid {key} for {name!r}: {wrong}"
    return None


_ADDRESS_KEYS = ("base_url", "api_key_env")
#: Keys with entries of models.
_WITH_MODELS = {"SUMMARIZER_MODELS", "SUMMARIZER_CHAT_MODELS", "SUMMARIZERS"}
#: The default ``TOKEN_COUNTER``, which needs a package that is an extra.
EXACT_COUNTER = "compaction_app.tokens.ExactTokenCounter"
#: It has no wheel for musl, the C library of Alpine.
NO_TOKENIZER = "The exact tokenizer, toktok-rs, is not installed."
USE_CHARACTERS = (
    "Install it: pip install 'django-chat-compaction[exact]'. Where it has no wheel, set COMPACTION['TOKEN_COUNTER'] "
    "to 'compaction_app.tokens.CharacterTokenCounter'."
)
#: The problem of a ``SUMMARIZER_NAME`` that ``SUMMARIZERS`` does not have.
UNKNOWN_SUMMARIZER = "compaction_app.E014"


def _models(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return "must be a list of model names or dicts"
    for entry in value:
        if wrong := _text(entry) if isinstance(entry, str) else _model(entry):
            return f"has an invalid entry: {wrong}"
    return None


def _model(entry: Any) -> str | None:
    if not isinstance(entry, Mapping) or "model" not in entry:
        return "each must be a model name or a dict with the key 'model'"
    if unknown := sorted(str(key) for key in entry if key not in _MODEL_RULES):
        return f"unknown keys {', '.join(unknown)}; known are {', '.join(_MODEL_RULES)}"
    for key, value in entry.items():
        if wrong := _MODEL_RULES[key](value):
            return f"{key} {wrong}"
    return None


_PRICE_KEYS = ("input", "cached", "output")


def _prices(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict of model name to prices per million tokens"
    for name, entry in value.items():
        if not isinstance(name, str) or not name:
            return "must have model names as keys"
        if wrong := _model_price(entry):
            return f"has an invalid entry for {name!r}: {wrong}"
    return None


def _model_price(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return "must be a dict such as {'input': 0.2, 'cached': 0.02, 'output': 1.25}, per million tokens"
    if unknown := sorted(str(key) for key in entry if key not in _PRICE_KEYS):
        return f"unknown keys {', '.join(unknown)}; known are {', '.join(_PRICE_KEYS)}"
    if missing := [key for key in ("input", "output") if key not in entry]:
        return f"{' and '.join(missing)} must be given"
    return next((f"{key} {wrong}" for key, amount in entry.items() if (wrong := _price(amount))), None)


def _throttle(value: Any) -> str | None:
    count, _, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    counted = count.isascii() and count.isdigit()
    return None if counted and unit in {"s", "m", "h", "d"} else "must look like '10/m' (s, m, h or d)"


SPENDING_LIMIT = re.compile(r"([1-9]\d{0,14}) (runs|tokens)/([hd])")
#: Whose compactions a limit counts.
SPENDERS = ("session", "user")


def _spending_limits(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a dict such as {'session': ['20 runs/h', '2000000 tokens/d'], 'user': [...]}"
    if unknown := sorted(str(key) for key in value if key not in SPENDERS):
        return f"unknown keys {', '.join(unknown)}; known are {', '.join(SPENDERS)}"
    for limits in value.values():
        if not isinstance(limits, list | tuple):
            return "must have lists of limits, such as ['20 runs/h', '2000000 tokens/d']"
        for limit in limits:
            if not isinstance(limit, str) or not SPENDING_LIMIT.fullmatch(limit):
                return f"has the limit {limit!r}, which must look like '20 runs/h' or '2000000 tokens/d' (h or d)"
    return None


def _role(value: Any) -> str | None:
    # A summary is untrusted text: it never has the system role.
    return None if value in ("user", "assistant") else "must be 'user' or 'assistant'"


# -- the keys, with their types, defaults and rules -----------------------------------------------------------


def _key(default: Any, rule: Rule, *, site_only: bool = False) -> Any:
    """A key of ``COMPACTION``. A session may override it unless it names code or belongs to the whole site."""
    # No default of the field's own: settings are built of all keys, the preset's and the site's among them.
    return field(metadata={"default": default, "rule": rule, "site_only": site_only})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of one session: the keys of ``COMPACTION`` in lower case."""

    mode: str = _key(Mode.STANDARD, _choice(Mode))
    trigger_ratio: float = _key(0.75, _ratio)
    recent_messages_ratio: float = _key(0.20, _ratio)
    prune_tool_result_bytes: int = _key(4096, _integer(1))
    target_ratio: float = _key(0.50, _ratio)
    context_window: int | None = _key(None, _optional(_integer(1)))
    context_windows: Mapping[str, int] = _key({}, _windows, site_only=True)
    default_context_window: int = _key(128_000, _integer(1))
    reserved_tokens: int = _key(8192, _integer(0))
    trigger_tokens_cap: int = _key(200_000, _integer(1))
    recent_tokens_cap: int = _key(40_000, _integer(0))
    preserve_recent_messages: int = _key(2, _integer(2))
    lookahead: str = _key(Lookahead.PREVIOUS_TURN, _choice(Lookahead))
    lookahead_tokens: int = _key(4000, _integer(0))
    prune: str = _key(PruneWhen.PRESSURE, _choice(PruneWhen))
    prune_keep_turns: int = _key(3, _integer(1))
    micro_compact: bool = _key(False, _boolean)
    reasoning: str = _key(ReasoningRule.SUMMARIZE, _choice(ReasoningRule))
    summary_target_tokens: int = _key(7500, _integer(1))
    ledger_tokens: int | None = _key(None, _optional(_integer(0)))
    min_summary_chars: int = _key(30, _integer(1))
    min_saving_ratio: float = _key(0.10, _ratio)
    cooldown_seconds: float = _key(60, _seconds)
    coverage_ratio: float = _key(0.70, _ratio)
    breaker_failures: int = _key(3, _integer(1))
    breaker_seconds: float = _key(300, _seconds)
    summarizer: str = _key(
        "compaction_app.summarizers.OpenAISummarizer", _class_with("summarize", "summarize(request)"), site_only=True
    )
    summarizer_models: tuple[Any, ...] = _key(("gpt-5.4-nano",), _models, site_only=True)
    summarizer_timeout: float = _key(30, _positive_seconds)
    summarizer_max_output_tokens: int = _key(20_000, _integer(1))
    summary_prompt: str | None = _key(None, _optional(_text))
    summary_role: str = _key("user", _role)
    token_counter: str = _key(
        EXACT_COUNTER,
        _class_with("__call__", "a list of strings and return a list of numbers", 1),
        site_only=True,
    )
    redactor: str | None = _key(None, _optional(_function("one string and returns one", 1)), site_only=True)
    policy: str | None = _key(None, _optional(_function("a tip and a budget", 2)), site_only=True)
    permission: str | None = _key(None, _optional(_function("a user, a session and an action", 3)), site_only=True)
    provider_context_management: bool = _key(False, _boolean)
    prices: Mapping[str, Any] = _key({}, _prices, site_only=True)
    max_message_bytes: int = _key(4 * MIB, _integer(1), site_only=True)
    manual_throttle: str | None = _key("10/m", _optional(_throttle), site_only=True)
    task_queue: str | None = _key(None, _optional(_text), site_only=True)
    run_time_limit: float | None = _key(None, _optional(_positive_seconds), site_only=True)
    summarizer_chat_models: tuple[Any, ...] = _key((), _models, site_only=True)
    spending_limits: Mapping[str, Any] = _key({}, _spending_limits, site_only=True)
    trigger_ratios: Mapping[str, float] = _key({}, _ratios, site_only=True)
    summarizers: Mapping[str, Any] = _key({}, _summarizers, site_only=True)
    summarizer_name: str | None = _key(None, _optional(_text))
    alternate_roles: bool = _key(False, _boolean)
    events_kept_days: int | None = _key(None, _optional(_integer(1, MAX_SECONDS // 86_400)), site_only=True)
    time_zone: str | None = _key(None, _optional(_time_zone))
    attachment_url: str | None = _key(None, _optional(_function("one attachment", 1)), site_only=True)

    def snapshot(self) -> dict[str, Any]:
        """As JSON, stored with a run. Contains names of environment variables, never their values."""
        return {f.name.upper(): _plain(getattr(self, f.name)) for f in fields(self)}


_FIELDS = {f.name.upper(): f for f in fields(Settings)}
DEFAULTS: dict[str, Any] = {name: f.metadata["default"] for name, f in _FIELDS.items()}
RULES: dict[str, Rule] = {name: f.metadata["rule"] for name, f in _FIELDS.items()}
SITE_ONLY = frozenset(name for name, f in _FIELDS.items() if f.metadata["site_only"])
# Each key has an id of its own, so that hosts can silence one. New keys go to the end of the class.
_KEY_IDS = {key: f"compaction_app.E{100 + n:03d}" for n, key in enumerate(DEFAULTS)}


# -- problems ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the settings: a check id, what it is, and what to do."""

    id: str
    message: str
    hint: str
    error: bool = True

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"

    def as_exception(self) -> ConfigurationError:
        return ConfigurationError(str(self), problem_id=self.id)


#: Where a value comes from, as problems name it.
SITE, SESSION = "settings.COMPACTION", "the session's settings"


def find_problems(configured: Any, overrides: Any = None, where: str = SITE) -> list[Problem]:
    """Everything wrong with the settings dict (called ``where``) and a session's overrides."""
    problems = _shape_problems(configured, where)
    if overrides is not None:
        problems += _shape_problems(overrides, SESSION)
    if not isinstance(configured, Mapping) or not isinstance(overrides, Mapping | None):
        return problems
    if overrides and (site_only := sorted(SITE_ONLY & set(overrides))):
        message = f"A session may not override {', '.join(site_only)}."
        return [*problems, Problem("compaction_app.E003", message, "Set it in settings.COMPACTION instead.")]
    values = _merged(configured, overrides)
    names = {key: SESSION if key in (overrides or {}) else where for key in RULES}
    wrong = [problem for key in RULES if (problem := _key_problem(key, values[key], names[key]))]
    return problems + (wrong or _relation_problems(values))


def _shape_problems(candidate: Any, where: str) -> list[Problem]:
    if not isinstance(candidate, Mapping):
        return [Problem("compaction_app.E001", f"{where} must be a dict, not {candidate!r}.", "Use a dict of keys.")]
    unknown = sorted(str(key) for key in candidate if key not in DEFAULTS)
    if not unknown:
        return []
    message = f"{where} has unknown keys: {', '.join(unknown)}."
    near = dict.fromkeys(name for key in unknown for name in get_close_matches(key.upper(), DEFAULTS, 1))
    meant = f"Did you mean {', '.join(near)}? " if near else ""
    return [Problem("compaction_app.E002", message, f"{meant}Known keys are {', '.join(DEFAULTS)}.")]


def _key_problem(key: str, value: Any, where: str = SITE) -> Problem | None:
    wrong = RULES[key](value)
    if wrong is None:
        return None
    # Check output ends up in logs, and a model's entry may contain an API key by mistake.
    shown = "" if key in _WITH_MODELS else f", not {value!r}"
    if wrong.startswith("cannot be imported"):
        wrong, shown = f"names {value!r}, which {wrong}", ""
    place = f"{where.removeprefix('settings.')}[{key!r}]"
    return Problem(_KEY_IDS[key], f"{place} {wrong}{shown}.", f"Correct or remove {key}.")


def _relation_problems(values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    ratios = {"TRIGGER_RATIO": values["TRIGGER_RATIO"]}
    ratios |= {f"TRIGGER_RATIOS[{prefix!r}]": ratio for prefix, ratio in values["TRIGGER_RATIOS"].items()}
    limits = [("compaction_app.E010", "RECENT_MESSAGES_RATIO", name, ratio) for name, ratio in ratios.items()]
    limits.append(("compaction_app.E011", "RECENT_TOKENS_CAP", "TRIGGER_TOKENS_CAP", values["TRIGGER_TOKENS_CAP"]))
    for check_id, recent, trigger, limit in limits:
        if values[recent] >= limit:
            message = f"{recent} must be below {trigger}, or a compaction would cover nothing."
            problems.append(Problem(check_id, message, f"Lower {recent} or raise {trigger}."))
    window = values["CONTEXT_WINDOW"] or values["DEFAULT_CONTEXT_WINDOW"]
    reserved = min(values["RESERVED_TOKENS"], window // 4)
    available = window - reserved
    summary = min(values["SUMMARY_TARGET_TOKENS"], int(0.15 * available))
    recent_tokens = min(values["RECENT_TOKENS_CAP"], int(values["RECENT_MESSAGES_RATIO"] * available))
    if summary + recent_tokens + reserved >= window:
        parts = f"Summary target {summary} + recent {recent_tokens} + reserved {reserved} tokens"
        hint = "Lower SUMMARY_TARGET_TOKENS, RECENT_MESSAGES_RATIO or RESERVED_TOKENS."
        problems.append(Problem("compaction_app.E012", f"{parts} fill the window of {window}.", hint))
    name = values["SUMMARIZER_NAME"]
    if name is not None and name not in values["SUMMARIZERS"]:
        known = ", ".join(values["SUMMARIZERS"]) or "none"
        message = f"SUMMARIZER_NAME {name!r} is not in SUMMARIZERS, which has {known}."
        problems.append(Problem(UNKNOWN_SUMMARIZER, message, "Choose one of them, or add it there."))
    if bare := _homeless_chat_model(values):
        message = (
            f"SUMMARIZER_CHAT_MODELS lists {bare!r} without a base_url, but a summarizer has an address or a key of "
            "its own: a conversation could leave for the default address."
        )
        problems.append(Problem("compaction_app.E013", message, f"Give {bare!r} the base_url that it may be sent to."))
    if values["TOKEN_COUNTER"] == EXACT_COUNTER and importlib.util.find_spec("toktok") is None:
        problems.append(Problem("compaction_app.E015", NO_TOKENIZER, USE_CHARACTERS))
    unusual = [(name, ratio) for name, ratio in ratios.items() if not 0.5 <= ratio <= 0.95]
    for name, ratio in unusual if not problems else ():
        message = f"{name} {ratio} is outside 0.5 to 0.95: compaction will be frequent, or too late."
        hint = "Use a value from 0.5 to 0.95, unless this is a test."
        problems.append(Problem("compaction_app.W001", message, hint, error=False))
    return problems


def _homeless_chat_model(values: Mapping[str, Any]) -> str:
    """A chat model that would be asked at the default address, where another summarizer has one of its own."""
    cascades = [values["SUMMARIZER_MODELS"]]
    cascades += [named.get("SUMMARIZER_MODELS", ()) for named in values["SUMMARIZERS"].values()]
    asked = [entry for cascade in cascades for entry in cascade]
    if not any(isinstance(entry, Mapping) and any(map(entry.get, _ADDRESS_KEYS)) for entry in asked):
        return ""
    listed = [{"model": entry} if isinstance(entry, str) else entry for entry in values["SUMMARIZER_CHAT_MODELS"]]
    return next((str(entry["model"]) for entry in listed if not entry.get("base_url")), "")


# -- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found right in one state of ``COMPACTION``: checking it imports code and reads signatures."""

    configured: Any
    copy: Any
    #: By the session's overrides.
    settings: dict[str, Settings]
    #: Single keys.
    values: dict[str, Any]


#: Overrides of so many kinds.
_MOST_KNOWN = 1_000
_known = _Known(None, None, {}, {})


def _known_of(configured: Any) -> _Known:
    """Empty if it is another dict than before, or was changed in place."""
    global _known  # noqa: PLW0603  # one a process: every thread has the same settings
    known = _known
    if known.configured is not configured or known.copy != configured:
        copied = copy.deepcopy(configured) if isinstance(configured, Mapping) else None
        known = _known = _Known(configured, copied, {}, {})
    return known


def get_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """The current settings, with a session's ``overrides`` on top; :class:`ConfigurationError` if wrong."""
    known, name = _known_of(_configured()).settings, repr(overrides) if overrides else ""
    if name not in known:
        problems = find_problems(_configured(), overrides or None)
        # Where a site removes a summarizer that sessions have chosen, only their compactions fail.
        if problem := _first_error([one for one in problems if one.id != UNKNOWN_SUMMARIZER]):
            raise problem.as_exception()
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[name] = _build(_merged(_configured(), overrides))
    return known[name]


def find_session_error(overrides: Any) -> Problem | None:
    """The first error in a session's overrides, or in the site's settings below them."""
    return _first_error(find_problems(_configured(), overrides))


def settings_from(configured: Mapping[str, Any], where: str) -> Settings:
    """The settings of a dict with the keys of ``COMPACTION``, without Django's; problems call it ``where``."""
    if problem := _first_error(find_problems(configured, where=where)):
        raise problem.as_exception()
    return _build(_merged(configured, None))


def settings_from_snapshot(snapshot: Mapping[str, Any]) -> Settings:
    """The settings that a run was opened with; keys added since then have their defaults."""
    return _build({**DEFAULTS, **{k: v for k, v in snapshot.items() if k in DEFAULTS}})


def site_setting(key: str) -> Any:
    """One key of the site's settings, checked alone: a mistake in another key must not stop a chat turn."""
    configured = _configured()
    known = _known_of(configured).values
    if key not in known:
        if not isinstance(configured, Mapping):
            raise _shape_problems(configured, SITE)[0].as_exception()
        value = _merged(configured, None)[key]
        if problem := _key_problem(key, value):
            raise problem.as_exception()
        known[key] = value
    return known[key]


def get_token_counter() -> Any:
    """An instance of the site's ``TOKEN_COUNTER``."""
    return load(site_setting("TOKEN_COUNTER"))()


def warm_up() -> None:
    """Load the tokenizer and the OpenAI client now, which the first turn would otherwise wait for.

    Call it where a server's process begins: in ``wsgi.py`` or ``asgi.py``, after the application was made. Django calls
    ``AppConfig.ready`` in every management command too, and those need not wait.
    """
    get_token_counter()([""])
    importlib.import_module("openai")


@lru_cache(maxsize=64)
def load(dotted_path: str) -> Any:
    """The object at a dotted path. Cached: the path names code, which does not change while a process runs."""
    return import_string(dotted_path)


def load_function(dotted_path: str) -> Any:
    """The function at a dotted path, or an instance of the class there: a host may write a hook as either."""
    named = load(dotted_path)
    return named() if isinstance(named, type) else named


def _configured() -> Any:
    return getattr(django_settings, "COMPACTION", {})


def _first_error(problems: list[Problem]) -> Problem | None:
    return next((problem for problem in problems if problem.error), None)


def _merged(configured: Mapping[str, Any], overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    explicit = {**configured, **(overrides or {})}
    mode = explicit.get("MODE", DEFAULTS["MODE"])
    # A mode of another type may not be hashable; its rule reports it.
    preset = PRESETS.get(mode, {}) if isinstance(mode, str) else {}
    values = {**DEFAULTS, **preset, **explicit}
    # Both may be of a wrong type too.
    name, offered = values["SUMMARIZER_NAME"], values["SUMMARIZERS"]
    named = offered.get(name) if isinstance(offered, Mapping) and isinstance(name, str) else None
    return {**values, **named, **(overrides or {})} if isinstance(named, Mapping) else values


def _build(values: Mapping[str, Any]) -> Settings:
    typed = {key.lower(): values[key] for key in DEFAULTS}
    for name in ("summarizer_models", "summarizer_chat_models"):
        typed[name] = tuple(typed[name])
    return Settings(**typed)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): without_query(v) if k == "base_url" and v else _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value
