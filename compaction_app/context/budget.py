"""How many tokens are available for history, when to compact, and how many should remain afterwards. Pure.

Tokens are our own counter's. Where a provider counts differently, ``calibration`` (its tokens ÷ ours) divides the
limits before every comparison; stored counts never change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compaction_app.conf import Settings
from compaction_app.context.catalog import known_window, readings
from compaction_app.exceptions import ConfigurationError
from compaction_app.telemetry import log
from compaction_app.tokens import Count, count_messages, count_tools
from compaction_app.values import Budget, CompactionParams, Role

logger = logging.getLogger("compaction_app.budget")

Number = TypeVar("Number", int, float)

# Cleared when full: a session's owner may name any model.
_logged_models: set[str] = set()
_MOST_LOGGED_MODELS = 1_000

#: A factor outside this range comes from cached or injected tokens, not from another tokenizer.
CALIBRATION_RANGE = (0.8, 2.0)
#: Weight of the newest observation.
CALIBRATION_SMOOTHING = 0.3
SUMMARY_SHARE = 0.15
#: The target is below the threshold, so that one compaction is not followed by the next.
TARGET_BELOW_THRESHOLD = 0.9


@dataclass(frozen=True, kw_only=True)
class ReservedParts:
    """Everything in a request that is not history, with its tokens, and the room for the reply."""

    system_prompt: str = ""
    contributions: tuple[Mapping[str, Any], ...] = ()
    #: Tokens of system prompt, contributions and tool schemas.
    tokens: int = 0
    contribution_tokens: tuple[int, ...] = ()
    system_tokens: int = 0
    #: Tokens kept free for the reply.
    reply_tokens: int = 0

    @property
    def total(self) -> int:
        return self.tokens + self.reply_tokens


def window_of(model: str, settings: Settings, learned: int | None = None) -> int | None:
    """The context window of a model in tokens: what the host says, else what the provider once said (``learned``),
    else what is known by the name. A provider that says less than the host is believed.
    """
    if configured := settings.context_window or _by_prefix(model, settings.context_windows):
        return min(configured, learned or configured)
    return learned or known_window(model)


def window_or_default(model: str, settings: Settings, learned: int | None = None) -> int:
    """:func:`window_of`; else ``DEFAULT_CONTEXT_WINDOW``, with a log line once a model and process."""
    if found := window_of(model, settings, learned):
        return found
    tokens = settings.default_context_window
    if model not in _logged_models:
        if len(_logged_models) >= _MOST_LOGGED_MODELS:
            _logged_models.clear()
        _logged_models.add(model)
        log(logger, logging.INFO, "window", model=model or "none", tokens=tokens, reason="unknown_model")
    return tokens


def with_trigger_of(model: str, settings: Settings) -> Settings:
    """The settings with the trigger that ``TRIGGER_RATIOS`` sets for this model, if it does."""
    ratio = _by_prefix(model, settings.trigger_ratios)
    return settings if ratio is None else replace(settings, trigger_ratio=ratio)


def _by_prefix(model: str, values: Mapping[str, Number]) -> Number | None:
    """The value of the longest key that the model's name begins with, as it is written or as it is read."""
    prefixes = [prefix for prefix in values if any(name.startswith(prefix) for name in (model, *readings(model)))]
    return values[max(prefixes, key=len)] if prefixes else None


def reply_reserve(window: int, settings: Settings, reserved_tokens: int | None = None) -> int:
    """Tokens kept free for the reply: the argument, else RESERVED_TOKENS up to a quarter of the window."""
    if reserved_tokens is not None:
        return reserved_tokens
    return min(settings.reserved_tokens, window // 4)


def count_reserved_parts(
    system_prompt: str,
    contributions: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    reply_tokens: int,
    count: Count,
) -> ReservedParts:
    messages = list(contributions)
    if system_prompt:
        messages.insert(0, {"role": Role.SYSTEM, "content": system_prompt})
    counts = count_messages(messages, count) if messages else []
    return ReservedParts(
        system_prompt=system_prompt,
        contributions=tuple(contributions),
        tokens=sum(counts) + count_tools(tools, count),
        contribution_tokens=tuple(counts[1:] if system_prompt else counts),
        system_tokens=counts[0] if system_prompt else 0,
        reply_tokens=reply_tokens,
    )


def make_budget(window: int, reserved: int, settings: Settings, calibration: float = 1.0) -> Budget:
    """The budget for a window; ``reserved`` is everything sent that is not history, and the reply."""
    available = window - reserved
    if available <= 0:
        raise ConfigurationError(
            f"Nothing is left for the conversation: {reserved} tokens are reserved (system prompt, tools, "
            f"contributions, reply) of a context window of {window}. Shorten them, lower RESERVED_TOKENS, or "
            "use a model with a larger window.",
            window=window,
            reserved=reserved,
        )
    threshold = min(int(available * settings.trigger_ratio), settings.trigger_tokens_cap)
    target = min(int(window * settings.target_ratio), int(TARGET_BELOW_THRESHOLD * threshold))
    factor = clamp_calibration(calibration)
    available = int(available / factor)
    return Budget(
        window=window,
        reserved=reserved,
        available=available,
        threshold=int(threshold / factor),
        target=int(target / factor),
        summary_target=max(1, min(settings.summary_target_tokens, int(SUMMARY_SHARE * available))),
        recent_ratio=settings.recent_messages_ratio,
        recent_cap=settings.recent_tokens_cap,
    )


def get_compaction_params(history_tokens: int, budget: Budget) -> CompactionParams:
    """Whether a history of this size should be compacted, and how much of it may stay verbatim."""
    recent = min(int(history_tokens * budget.recent_ratio), budget.recent_cap, budget.target - budget.summary_target)
    return CompactionParams(
        should_compact=history_tokens > budget.threshold,
        threshold=budget.threshold,
        target=budget.target,
        tokens_for_recent=max(0, recent),
    )


def clamp_calibration(factor: float) -> float:
    low, high = CALIBRATION_RANGE
    return min(max(factor, low), high)


def observe_calibration(previous: float | None, provider_tokens: int, our_tokens: int) -> float | None:
    """The factor after one more observation; the previous one where a count is 0."""
    if provider_tokens <= 0 or our_tokens <= 0:
        return previous
    observed = clamp_calibration(provider_tokens / our_tokens)
    if previous is None:
        return round(observed, 4)
    return round(previous + CALIBRATION_SMOOTHING * (observed - previous), 4)


def calibration_of(calibrations: Mapping[str, float], model: str) -> float:
    return clamp_calibration(float(calibrations.get(model, 1.0)))
