"""Settings: one dict, ``COMPACTION``, every key optional.

``get_settings()`` reads Django's settings each time, so ``override_settings`` works; nothing is written back.
``MODE`` picks a preset, a key set explicitly beats it, and a session's own overrides beat both. Problems are
found by :func:`find_problems`, which the system checks report and :func:`get_settings` raises on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings
from django.utils.module_loading import import_string

from compaction_app import setting_rules as rules
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


RULES: dict[str, rules.Rule] = {
    "MODE": rules.choice(Mode),
    "TRIGGER_RATIO": rules.ratio,
    "RECENT_MESSAGES_RATIO": rules.ratio,
    "PRUNE_TOOL_RESULT_BYTES": rules.integer(1),
    "TARGET_RATIO": rules.ratio,
    "CONTEXT_WINDOW": rules.optional(rules.integer(1)),
    "CONTEXT_WINDOWS": rules.windows,
    "DEFAULT_CONTEXT_WINDOW": rules.integer(1),
    "RESERVED_TOKENS": rules.integer(0),
    "TRIGGER_TOKENS_CAP": rules.integer(1),
    "RECENT_TOKENS_CAP": rules.integer(0),
    "PRESERVE_RECENT_MESSAGES": rules.integer(2),
    "LOOKAHEAD": rules.choice(Lookahead),
    "LOOKAHEAD_TOKENS": rules.integer(0),
    "PRUNE": rules.choice(PruneWhen),
    "PRUNE_KEEP_TURNS": rules.integer(1),
    "MICRO_COMPACT": rules.boolean,
    "REASONING": rules.choice(ReasoningRule),
    "SUMMARY_TARGET_TOKENS": rules.integer(1),
    "LEDGER_TOKENS": rules.optional(rules.integer(0)),
    "MIN_SUMMARY_CHARS": rules.integer(1),
    "MIN_SAVING_RATIO": rules.ratio,
    "COOLDOWN_SECONDS": rules.seconds,
    "COVERAGE_RATIO": rules.ratio,
    "BREAKER_FAILURES": rules.integer(1),
    "BREAKER_SECONDS": rules.seconds,
    "SUMMARIZER": rules.class_with("summarize", "summarize(request)"),
    "SUMMARIZER_MODELS": rules.models,
    "SUMMARIZER_TIMEOUT": rules.positive_seconds,
    "SUMMARIZER_MAX_OUTPUT_TOKENS": rules.integer(1),
    "SUMMARY_PROMPT": rules.optional(rules.text),
    "SUMMARY_ROLE": rules.role,
    "TOKEN_COUNTER": rules.class_with("__call__", "a list of texts and give a list of numbers", 1),
    "REDACTOR": rules.optional(rules.function("one text and gives one back", 1)),
    "POLICY": rules.optional(rules.function("a tip and a budget", 2)),
    "PERMISSION": rules.optional(rules.function("a user, a session and an action", 3)),
    "PROVIDER_CONTEXT_MANAGEMENT": rules.boolean,
    "PRICES": rules.prices,
    "MAX_MESSAGE_BYTES": rules.integer(1),
    "MANUAL_THROTTLE": rules.optional(rules.throttle),
    "TASK_QUEUE": rules.optional(rules.text),
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
