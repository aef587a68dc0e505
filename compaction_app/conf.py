"""Settings: one dict, ``COMPACTION``, every key optional.

``get_settings()`` reads Django's settings each time, so ``override_settings`` works; nothing is written back.
``MODE`` picks a preset, a key set explicitly beats it, and a session's own overrides beat both. Problems are
found by :func:`find_problems`, which the system checks report and :func:`get_settings` raises on.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings
from django.utils.module_loading import import_string

from compaction_app.exceptions import ConfigurationError

MIB = 1024 * 1024


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


#: Context windows by model name prefix; the longest matching prefix counts. Sources: the providers' model pages.
CONTEXT_WINDOWS: dict[str, int] = {
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4-turbo": 128_000,
    "gpt-4": 8_192,
    "gpt-3.5-turbo": 16_385,
    "gpt-5": 400_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "claude-": 200_000,
    "gemini-": 1_048_576,
    "llama-3": 128_000,
    "mistral-": 128_000,
    "deepseek-": 128_000,
    "qwen": 128_000,
}

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

DEFAULTS: dict[str, Any] = {
    "MODE": Mode.STANDARD,
    "TRIGGER_RATIO": 0.75,
    "RECENT_MESSAGES_RATIO": 0.20,
    "PRUNE_TOOL_RESULT_BYTES": 4096,
    "TARGET_RATIO": 0.50,
    "CONTEXT_WINDOW": None,
    "CONTEXT_WINDOWS": CONTEXT_WINDOWS,
    "DEFAULT_CONTEXT_WINDOW": 128_000,
    "RESERVED_TOKENS": 8192,
    "TRIGGER_TOKENS_CAP": 200_000,
    "RECENT_TOKENS_CAP": 40_000,
    "PRESERVE_RECENT_MESSAGES": 2,
    "LOOKAHEAD": Lookahead.PREVIOUS_TURN,
    "LOOKAHEAD_TOKENS": 4000,
    "PRUNE": PruneWhen.PRESSURE,
    "PRUNE_KEEP_TURNS": 3,
    "MICRO_COMPACT": False,
    "REASONING": ReasoningRule.SUMMARIZE,
    "SUMMARY_TARGET_TOKENS": 7500,
    "LEDGER_TOKENS": None,
    "MIN_SUMMARY_CHARS": 30,
    "MIN_SAVING_RATIO": 0.10,
    "COOLDOWN_SECONDS": 60,
    "COVERAGE_RATIO": 0.70,
    "BREAKER_FAILURES": 3,
    "BREAKER_SECONDS": 300,
    "SUMMARIZER": "compaction_app.summarizers.OpenAISummarizer",
    "SUMMARIZER_MODELS": ("gpt-5.4-nano",),
    "SUMMARIZER_TIMEOUT": 30,
    "SUMMARIZER_MAX_OUTPUT_TOKENS": 20_000,
    "SUMMARY_PROMPT": None,
    "SUMMARY_ROLE": "user",
    "TOKEN_COUNTER": "compaction_app.tokens.ExactTokenCounter",
    "REDACTOR": None,
    "POLICY": None,
    "PERMISSION": None,
    "PROVIDER_CONTEXT_MANAGEMENT": False,
    "PRICES": {},
    "MAX_MESSAGE_BYTES": 4 * MIB,
    "MANUAL_THROTTLE": "10/m",
    "TASK_QUEUE": None,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The resolved settings of one session. Names are those of the ``COMPACTION`` dict in lower case."""

    mode: str
    trigger_ratio: float
    recent_messages_ratio: float
    prune_tool_result_bytes: int
    target_ratio: float
    context_window: int | None
    context_windows: Mapping[str, int]
    default_context_window: int
    reserved_tokens: int
    trigger_tokens_cap: int
    recent_tokens_cap: int
    preserve_recent_messages: int
    lookahead: str
    lookahead_tokens: int
    prune: str
    prune_keep_turns: int
    micro_compact: bool
    reasoning: str
    summary_target_tokens: int
    ledger_tokens: int | None
    min_summary_chars: int
    min_saving_ratio: float
    cooldown_seconds: float
    coverage_ratio: float
    breaker_failures: int
    breaker_seconds: float
    summarizer: str
    summarizer_models: tuple[Any, ...]
    summarizer_timeout: float
    summarizer_max_output_tokens: int
    summary_prompt: str | None
    summary_role: str
    token_counter: str
    redactor: str | None
    policy: str | None
    permission: str | None
    provider_context_management: bool
    prices: Mapping[str, Any]
    max_message_bytes: int
    manual_throttle: str | None
    task_queue: str | None

    def snapshot(self) -> dict[str, Any]:
        """As JSON, for the record of a run. Holds names of environment variables, never their values."""
        return {f.name.upper(): _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the settings: a check id, what it is, and what to do."""

    id: str
    message: str
    hint: str
    error: bool = True


# -- rules: each says what is wrong with a value, or None if it is right

#: What integer columns hold on every database, and more tokens, bytes or messages than anyone has.
MAX_INTEGER = 2**31 - 1
#: Some thirty years: more than that and a date to come can not be computed.
MAX_SECONDS = 10**9

Rule = Callable[[Any], str | None]


def _integer(low: int, high: int = MAX_INTEGER) -> Rule:
    def rule(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        return None if low <= value <= high else f"must be from {low} to {high}"

    return rule


def _number(value: Any) -> str | None:
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    # No whole number is asked: one too large for a float would raise.
    return "must be a number" if wrong or (isinstance(value, float) and not math.isfinite(value)) else None


def _seconds(value: Any) -> str | None:
    if _number(value) or not 0 <= value <= MAX_SECONDS:
        return f"must be a number of seconds from 0 to {MAX_SECONDS}"
    return None


def _positive_seconds(value: Any) -> str | None:
    return _seconds(value) or (None if value > 0 else "must be more than 0 seconds")


def _price(value: Any) -> str | None:
    # Money is often written as Decimal; no other setting takes one.
    exact = isinstance(value, Decimal) and value.is_finite()
    wrong = None if exact else _number(value)
    return wrong or (None if 0 <= value <= MAX_PRICE else f"must be from 0 to {MAX_PRICE}")


def _ratio(value: Any) -> str | None:
    return _number(value) or (None if 0 < value < 1 else "must lie strictly between 0 and 1")


def _choice(enum: Any) -> Rule:
    names = [str(member) for member in enum]
    return lambda value: None if value in names else f"must be one of {', '.join(names)}"


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "must be a text that is not empty"
    # Each is kept in the record of a run.
    storable = "\x00" not in value and value.encode(errors="replace").decode() == value
    return None if storable else "must hold neither NUL nor lone surrogates"


def _dotted_path(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a dotted path"
    try:
        import_string(value)
    # The last two are what importlib raises for an empty or a relative module name.
    except (ImportError, ValueError, TypeError) as error:
        return f"can not be imported: {error}"
    return None


def _class_with(method: str, call: str, takes: int | None = None) -> Rule:
    """A dotted path to a class whose instances have ``method``; ``call`` shows how it will be called.

    ``takes``: with how many arguments, of an instance that is made with none; None where the app looks itself.
    """

    def rule(value: Any) -> str | None:
        if wrong := _dotted_path(value):
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
        # What it gives back is a coroutine, which is not None, not a text, and true whatever it would say.
        called = getattr(named, "__call__", named)  # noqa: B004  # not whether it can be called, but what is
        waits = inspect.iscoroutinefunction(named) or inspect.iscoroutinefunction(called)
        return "must name a function that answers at once, not an async one" if waits else None

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
    "base_url": _optional(_text),
    "api_key_env": _optional(_text),
    "timeout": _positive_seconds,
    "max_input_tokens": _integer(1),
}


def _models(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return "must be a list of model names or dicts"
    for entry in value:
        if wrong := _text(entry) if isinstance(entry, str) else _model(entry):
            return f"has an entry that is wrong: {wrong}"
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
#: Per million tokens. Far above any, and low enough for the column that a run's cost is stored in.
MAX_PRICE = 10_000


def _prices(value: Any) -> str | None:
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
    return next((f"{key} {wrong}" for key, amount in entry.items() if (wrong := _price(amount))), None)


def _throttle(value: Any) -> str | None:
    count, _, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    counted = count.isascii() and count.isdigit()
    return None if counted and unit in {"s", "m", "h", "d"} else "must look like '10/m' (s, m, h or d)"


def _role(value: Any) -> str | None:
    # Rule 13: a summary is untrusted text and never speaks with the system's voice.
    return None if value in ("user", "assistant") else "must be 'user' or 'assistant'; never 'system'"


RULES: dict[str, Rule] = {
    "MODE": _choice(Mode),
    "TRIGGER_RATIO": _ratio,
    "RECENT_MESSAGES_RATIO": _ratio,
    "PRUNE_TOOL_RESULT_BYTES": _integer(1),
    "TARGET_RATIO": _ratio,
    "CONTEXT_WINDOW": _optional(_integer(1)),
    "CONTEXT_WINDOWS": _windows,
    "DEFAULT_CONTEXT_WINDOW": _integer(1),
    "RESERVED_TOKENS": _integer(0),
    "TRIGGER_TOKENS_CAP": _integer(1),
    "RECENT_TOKENS_CAP": _integer(0),
    "PRESERVE_RECENT_MESSAGES": _integer(2),
    "LOOKAHEAD": _choice(Lookahead),
    "LOOKAHEAD_TOKENS": _integer(0),
    "PRUNE": _choice(PruneWhen),
    "PRUNE_KEEP_TURNS": _integer(1),
    "MICRO_COMPACT": _boolean,
    "REASONING": _choice(ReasoningRule),
    "SUMMARY_TARGET_TOKENS": _integer(1),
    "LEDGER_TOKENS": _optional(_integer(0)),
    "MIN_SUMMARY_CHARS": _integer(1),
    "MIN_SAVING_RATIO": _ratio,
    "COOLDOWN_SECONDS": _seconds,
    "COVERAGE_RATIO": _ratio,
    "BREAKER_FAILURES": _integer(1),
    "BREAKER_SECONDS": _seconds,
    "SUMMARIZER": _class_with("summarize", "summarize(request)"),
    "SUMMARIZER_MODELS": _models,
    "SUMMARIZER_TIMEOUT": _positive_seconds,
    "SUMMARIZER_MAX_OUTPUT_TOKENS": _integer(1),
    "SUMMARY_PROMPT": _optional(_text),
    "SUMMARY_ROLE": _role,
    "TOKEN_COUNTER": _class_with("__call__", "a list of texts and give a list of numbers", 1),
    "REDACTOR": _optional(_function("one text and gives one back", 1)),
    "POLICY": _optional(_function("a tip and a budget", 2)),
    "PERMISSION": _optional(_function("a user, a session and an action", 3)),
    "PROVIDER_CONTEXT_MANAGEMENT": _boolean,
    "PRICES": _prices,
    "MAX_MESSAGE_BYTES": _integer(1),
    "MANUAL_THROTTLE": _optional(_throttle),
    "TASK_QUEUE": _optional(_text),
}

#: Keys that a session may not override: they name code that runs, or belong to the whole site.
SITE_ONLY = frozenset(
    {
        "SUMMARIZER",
        "SUMMARIZER_MODELS",
        "TOKEN_COUNTER",
        "REDACTOR",
        "POLICY",
        "PERMISSION",
        "PRICES",
        "MAX_MESSAGE_BYTES",
        "MANUAL_THROTTLE",
        "TASK_QUEUE",
        "CONTEXT_WINDOWS",
    }
)

# E001 and E002 are about the dict itself; each key has an id of its own so that hosts can silence one.
_KEY_IDS = {key: f"compaction_app.E{100 + n:03d}" for n, key in enumerate(DEFAULTS)}


#: Where values may stand, as problems call it.
SITE, SESSION = "settings.COMPACTION", "the session's settings"


def find_problems(configured: Any, overrides: Any = None, where: str = SITE) -> list[Problem]:
    """Everything wrong with the settings dict (called ``where``) and a session's overrides; empty if all is well."""
    problems = _shape_problems(configured, where)
    if overrides is not None:
        problems += _shape_problems(overrides, SESSION)
    if problems:
        return problems
    if overrides and (site_only := sorted(SITE_ONLY & set(overrides))):
        return [
            Problem(
                "compaction_app.E003",
                f"A session may not override {', '.join(site_only)}.",
                "Set it in settings.COMPACTION instead.",
            )
        ]
    values = _merged(configured, overrides)
    names = {key: SESSION if key in (overrides or {}) else where for key in RULES}
    problems = [problem for key in RULES if (problem := _key_problem(key, values[key], names[key]))]
    return problems or _relation_problems(values)


def _key_problem(key: str, value: Any, where: str = SITE) -> Problem | None:
    wrong = RULES[key](value)
    if wrong is None:
        return None
    # The list of models is not shown: somebody will have put a key where the name of one belongs.
    shown = "" if key == "SUMMARIZER_MODELS" else f", not {value!r}"
    if wrong.startswith("can not be imported"):
        wrong, shown = f"names {value!r}, which {wrong}", ""
    place = f"{where.removeprefix('settings.')}[{key!r}]"
    return Problem(_KEY_IDS[key], f"{place} {wrong}{shown}.", f"Correct or remove {key}.")


def _shape_problems(candidate: Any, where: str) -> list[Problem]:
    if not isinstance(candidate, Mapping):
        return [Problem("compaction_app.E001", f"{where} must be a dict, not {candidate!r}.", "Use a dict of keys.")]
    unknown = sorted(str(key) for key in candidate if key not in DEFAULTS)
    if not unknown:
        return []
    return [
        Problem(
            "compaction_app.E002",
            f"{where} has unknown keys: {', '.join(unknown)}.",
            f"Known keys are {', '.join(DEFAULTS)}.",
        )
    ]


def _relation_problems(values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if values["RECENT_MESSAGES_RATIO"] >= values["TRIGGER_RATIO"]:
        problems.append(
            Problem(
                "compaction_app.E010",
                "RECENT_MESSAGES_RATIO must be below TRIGGER_RATIO, or a compaction would cover nothing.",
                "Lower RECENT_MESSAGES_RATIO or raise TRIGGER_RATIO.",
            )
        )
    if values["RECENT_TOKENS_CAP"] >= values["TRIGGER_TOKENS_CAP"]:
        problems.append(
            Problem(
                "compaction_app.E011",
                "RECENT_TOKENS_CAP must be below TRIGGER_TOKENS_CAP, or a compaction would cover nothing.",
                "Lower RECENT_TOKENS_CAP or raise TRIGGER_TOKENS_CAP.",
            )
        )
    window = values["CONTEXT_WINDOW"] or values["DEFAULT_CONTEXT_WINDOW"]
    reserved = min(values["RESERVED_TOKENS"], window // 4)
    available = window - reserved
    summary = min(values["SUMMARY_TARGET_TOKENS"], int(0.15 * available))
    recent = min(values["RECENT_TOKENS_CAP"], int(values["RECENT_MESSAGES_RATIO"] * available))
    if summary + recent + reserved >= window:
        problems.append(
            Problem(
                "compaction_app.E012",
                f"Summary target {summary} + recent {recent} + reserved {reserved} tokens fill the window of {window}.",
                "Lower SUMMARY_TARGET_TOKENS, RECENT_MESSAGES_RATIO or RESERVED_TOKENS.",
            )
        )
    if not problems and not 0.5 <= values["TRIGGER_RATIO"] <= 0.95:
        problems.append(
            Problem(
                "compaction_app.W001",
                f"TRIGGER_RATIO {values['TRIGGER_RATIO']} is outside 0.5 to 0.95: compaction will be "
                "frequent, or too late.",
                "Use a value from 0.5 to 0.95, unless this is a test.",
                error=False,
            )
        )
    return problems


def get_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings in force, with a session's ``overrides`` on top; :class:`ConfigurationError` if wrong."""
    configured = getattr(django_settings, "COMPACTION", {})
    for problem in find_problems(configured, overrides or None):
        if problem.error:
            raise configuration_error(problem)
    return _build(_merged(configured, overrides))


def settings_from(configured: Mapping[str, Any], where: str) -> Settings:
    """The settings that a dict of ``COMPACTION`` keys stands for, Django's own left out; ``where`` it was given."""
    for problem in find_problems(configured, where=where):
        if problem.error:
            raise configuration_error(problem)
    return _build(_merged(configured, None))


def site_setting(key: str) -> Any:
    """One key of the site's settings, checked by itself: a mistake in another must not stop a chat turn."""
    configured = getattr(django_settings, "COMPACTION", {})
    if not isinstance(configured, Mapping):
        raise configuration_error(_shape_problems(configured, SITE)[0])
    value = _merged(configured, None)[key]
    if problem := _key_problem(key, value):
        raise configuration_error(problem)
    return value


def configuration_error(problem: Problem) -> ConfigurationError:
    """The error to raise for a problem."""
    return ConfigurationError(f"{problem.message} {problem.hint}", problem_id=problem.id)


def settings_from_snapshot(snapshot: Mapping[str, Any]) -> Settings:
    """The settings that a run was opened with; keys added since then take their defaults."""
    return _build({**DEFAULTS, **{k: v for k, v in snapshot.items() if k in DEFAULTS}})


def _merged(configured: Mapping[str, Any], overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    explicit = {**configured, **(overrides or {})}
    mode = explicit.get("MODE", DEFAULTS["MODE"])
    # A mode of another type may not even be hashable; its rule reports it.
    preset = PRESETS.get(mode, {}) if isinstance(mode, str) else {}
    return {**DEFAULTS, **preset, **explicit}


def _build(values: Mapping[str, Any]) -> Settings:
    typed = {key.lower(): values[key] for key in DEFAULTS}
    typed["summarizer_models"] = tuple(values["SUMMARIZER_MODELS"])
    return Settings(**typed)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value


@lru_cache(maxsize=64)
def load(dotted_path: str) -> Any:
    """The object at a dotted path. Cached: the path names code, which does not change while a process runs."""
    return import_string(dotted_path)


def get_token_counter() -> Any:
    """An instance of the site's ``TOKEN_COUNTER``."""
    return load(site_setting("TOKEN_COUNTER"))()
