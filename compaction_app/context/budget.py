"""How many tokens are available for history, when to compact, and how many should remain afterwards. Pure.

Tokens are our own counter's. Where a provider counts differently, ``calibration`` corrects the limits before every
comparison; stored counts never change.

A provider's count of a prompt is ``offset + ratio × ours``: what it adds to every prompt, and what its tokenizer makes
of a text. Both are fitted to what it reports. One report cannot tell them apart, so a small prompt teaches the offset
alone, a large one the ratio, and prompts of different sizes both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compaction_app.conf import Settings
from compaction_app.context.catalog import known_window, readings
from compaction_app.exceptions import ConfigurationError
from compaction_app.messages.transcript import RECALL_NOTE, RECALL_TOOL
from compaction_app.telemetry import log
from compaction_app.tokens import Count, count_messages, count_tools
from compaction_app.values import Budget, CompactionParams, ContextMessage, Origin, Role

logger = logging.getLogger("compaction_app.budget")

Number = TypeVar("Number", int, float)

#: A ratio outside this range comes from cached or injected tokens, not from another tokenizer.
CALIBRATION_RANGE = (0.8, 2.0)
#: More than any provider adds to a prompt by itself.
_MOST_OFFSET = 20_000
#: What an older report weighs, with each newer one.
_FORGETTING = 0.7
#: A prompt of fewer tokens does not show the ratio.
_LARGE_PROMPT = 4_000
#: How far, in tokens, the sizes of prompts lie apart before they tell ratio and offset apart.
_SPREAD = 2_000
#: Figures of more models are not kept.
MOST_CALIBRATED = 20
SUMMARY_SHARE = 0.15
#: The target is below the threshold, so that one compaction is not followed by the next.
TARGET_BELOW_THRESHOLD = 0.9


@dataclass(frozen=True, kw_only=True)
class ReservedParts:
    """Everything in a request that is not history, with its tokens, and the room for the reply."""

    #: The system prompt and the contributions, in order.
    messages: tuple[ContextMessage, ...] = ()
    #: Their tokens, and those of tool schemas.
    tokens: int = 0
    #: Tokens kept free for the reply.
    reply_tokens: int = 0
    tool_names: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.tokens + self.reply_tokens


def window_of(model: str, settings: Settings, learned: int | None = None) -> int | None:
    """The context window of a model in tokens: what the host says, else what the provider once said (``learned``),
    else what is known by the name. A provider that says less than the host is believed.
    """
    if configured := settings.context_window or _by_prefix(model, settings.stated("window")):
        return min(configured, learned or configured)
    return learned or known_window(model)


def window_or_default(model: str, settings: Settings, learned: int | None = None) -> int:
    """:func:`window_of`; else ``DEFAULT_CONTEXT_WINDOW``, with a log line once a model and process."""
    if found := window_of(model, settings, learned):
        return found
    tokens, name = settings.default_context_window, model or "none"
    log(logger, logging.INFO, "window", once_for=name, model=name, tokens=tokens, reason="unknown_model")
    return tokens


def with_trigger_of(model: str, settings: Settings) -> Settings:
    """The settings with the trigger that ``MODELS`` sets for this model, if it does."""
    ratio = _by_prefix(model, settings.stated("trigger_ratio"))
    return settings if ratio is None else settings.but(trigger_ratio=ratio)


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
    count: Count,
) -> ReservedParts:
    """Without the room for the reply."""
    given = [(Origin.CONTRIBUTION, contribution) for contribution in contributions]
    if system_prompt:
        given.insert(0, (Origin.SYSTEM, {"role": Role.SYSTEM, "content": system_prompt}))
    counts = count_messages([message for _, message in given], count) if given else []
    messages = [
        ContextMessage(
            role=str(message["role"]),
            content=str(message.get("content") or ""),
            name=str(message.get("name") or ""),
            origin=origin,
            tokens=tokens,
        )
        for (origin, message), tokens in zip(given, counts, strict=True)
    ]
    functions = [one if isinstance(one := tool.get("function"), Mapping) else tool for tool in tools or ()]
    names = tuple(str(function.get("name") or "") for function in functions)
    tokens = sum(counts) + count_tools(tools, count)
    if RECALL_TOOL in names:
        # Stands with the summary.
        tokens += count([RECALL_NOTE])[0]
    return ReservedParts(messages=tuple(messages), tokens=tokens, tool_names=names)


def make_budget(
    window: int, reserved: int, settings: Settings, calibration: float = 1.0, offset: float = 0, limit: int = 0
) -> Budget:
    """The budget for a window; ``reserved`` is everything sent that is not history, and the reply.

    ``calibration`` and ``offset`` are those of :class:`Calibration`. ``limit``: what may be tried where a turn does not
    fit otherwise; at least what is available without calibration.
    """
    available = window - reserved
    if available <= 0:
        raise ConfigurationError(
            f"Nothing is left for the conversation: {reserved} tokens are reserved (system prompt, tools, "
            f"contributions, reply) of a context window of {window}. Shorten them, lower RESERVED_TOKENS, or "
            "use a model with a larger window.",
            window=window,
            reserved=reserved,
        )
    limit = max(limit, available)
    # Whatever was learned, most of the room stays.
    available -= int(min(offset, available // 4))
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
        limit=limit,
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


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a model's provider counts: ``offset + ratio × our tokens``."""

    ratio: float = 1.0
    offset: float = 0.0

    def of(self, tokens: int) -> float:
        return self.offset + self.ratio * tokens


def calibration_of(calibrations: Mapping[str, Any], model: str) -> Calibration:
    """What is stored of a model. A number is the factor that version 0.1.0 stored."""
    stored = calibrations.get(model, 1.0)
    if isinstance(stored, Mapping):
        return Calibration(stored["ratio"], stored["offset"])
    return Calibration(clamp_calibration(stored))


def observe_calibration(
    calibrations: Mapping[str, Any], model: str, provider_tokens: int, our_tokens: int
) -> dict[str, Any]:
    """The figures with one more report of this model, of at most :data:`MOST_CALIBRATED` models; the oldest go.

    ``seen`` of a model are the weight of its reports, the means of our tokens and the provider's, and their variance
    and covariance, older reports counting less. ``used`` orders the models.
    """
    low, high = CALIBRATION_RANGE
    ours = float(our_tokens)
    theirs = min(max(float(provider_tokens), low * ours), high * ours + _MOST_OFFSET)
    others = {name: value for name, value in calibrations.items() if name != model}
    order = {name: value["used"] if isinstance(value, Mapping) else 0 for name, value in others.items()}
    stored = calibrations.get(model)
    seen = stored["seen"] if isinstance(stored, Mapping) else [0.0, ours, theirs, 0.0, 0.0]
    weight, mean, their_mean, variance, covariance = seen
    weight = weight * _FORGETTING + 1
    share = 1 / weight
    off, their_off = ours - mean, theirs - their_mean
    mean, their_mean = mean + share * off, their_mean + share * their_off
    variance = (1 - share) * (variance + share * off * off)
    covariance = (1 - share) * (covariance + share * off * their_off)
    # What is assumed until prompts of different sizes have shown it.
    assumed = their_mean / mean
    if mean < _LARGE_PROMPT or not low <= assumed <= high:
        assumed = calibration_of(calibrations, model).ratio if weight > 1 else 1.0
    ratio = clamp_calibration((covariance + _SPREAD**2 * assumed) / (variance + _SPREAD**2))
    figures = {
        "ratio": round(ratio, 4),
        "offset": round(min(max(their_mean - ratio * mean, 0.0), _MOST_OFFSET), 1),
        "seen": [round(number, 4) for number in (weight, mean, their_mean, variance, covariance)],
        "used": max(order.values(), default=0) + 1,
    }
    kept = sorted(others, key=order.__getitem__)[max(0, len(others) - MOST_CALIBRATED + 1) :]
    return {**{name: others[name] for name in kept}, model: figures}
