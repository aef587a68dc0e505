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
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar

from compaction_app.conf import Settings
from compaction_app.context.catalog import known_window, readings
from compaction_app.exceptions import ConfigurationError, InvalidMessage
from compaction_app.messages.originals import OPENAI, FormatName
from compaction_app.messages.transcript import RECALL_NOTE, RECALL_TOOL
from compaction_app.messages.validation import FORMATS, check_budget_arguments, check_list_of_dicts, check_text
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
_CONTRIBUTION_ROLES = (Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT)


class TurnOptions(TypedDict, total=False):
    """What a turn is asked with beside its tip: the keywords of all that sends, measures or shows a context."""

    model: str | None
    tools: Sequence[Mapping[str, Any]] | None
    contributions: Sequence[Mapping[str, Any]]
    reserved_tokens: int | None
    include_reasoning: bool
    system_prompt: str | None


class ContextOptions(TurnOptions, total=False):
    """Those of a caller that sends the context itself."""

    sends: FormatName
    endpoint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest:
    """What a caller wants a context for. :meth:`of` checks it: :class:`InvalidMessage` names the argument."""

    #: The chat model; None means the session's.
    model: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    #: Messages that the caller makes anew for each turn: sent and counted, never stored.
    contributions: Sequence[Mapping[str, Any]] = ()
    #: Tokens kept free for the reply; None means ``RESERVED_TOKENS``.
    reserved_tokens: int | None = None
    #: Where the model is asked (:func:`windows.endpoint_of`); None means the client's default.
    endpoint: str | None = None
    #: The format of what goes out, as ``original`` names it.
    sends: str = OPENAI
    #: What the provider has just said that it takes.
    window: int | None = None
    #: Reasoning blocks will be sent back: they are counted.
    include_reasoning: bool = False
    #: In place of the session's, which another request may change meanwhile.
    system_prompt: str | None = None
    #: How long the request lets the reply be; 0 means unknown. It counts where ``reserved_tokens`` is not given.
    reply_tokens: int = 0

    @classmethod
    def of(cls, **given: Any) -> ContextRequest:
        request = cls(**given)
        if (request.model, request.tools, request.reserved_tokens) != (None, None, None):
            check_budget_arguments(request.model, request.tools, request.reserved_tokens)
        if request.sends not in FORMATS:
            raise InvalidMessage(f"sends must be one of {', '.join(FORMATS)}, not {request.sends!r}.", field="sends")
        if request.system_prompt:
            check_text(request.system_prompt, "system_prompt")
        if request.contributions != ():
            check_list_of_dicts(request.contributions, "contributions", "messages (dicts with role and content)")
        for contribution in request.contributions:
            if contribution.get("role") not in _CONTRIBUTION_ROLES:
                raise InvalidMessage(
                    "A contribution is a dict with the role system, developer, user or assistant, and content.",
                    field="contributions",
                )
            if not isinstance(contribution.get("content"), str):
                raise InvalidMessage("A contribution's content is a text.", field="contributions")
            for text in (contribution["content"], str(contribution.get("name") or "")):
                check_text(text, "contributions")
        return request


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
    tokens = sum(counts) + (count_tools(tools, count) if tools else 0)
    if RECALL_TOOL in names:
        # Stands with the summary.
        tokens += count([RECALL_NOTE])[0]
    return ReservedParts(messages=tuple(messages), tokens=tokens, tool_names=names)


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a request leaves for the history of its session: see :func:`room_for`."""

    #: The session's, with the trigger that ``MODELS`` sets for the model.
    settings: Settings
    #: The chat model that the context is meant for.
    model: str
    reserved_parts: ReservedParts
    budget: Budget
    request: ContextRequest = ContextRequest()
    #: The window is what was learned, and smaller than what is configured: it may be a gateway's mistake.
    is_narrowed: bool = False


def room_for(
    session: Any,
    request: ContextRequest,
    settings: Settings,
    count: Count,
    model: str,
    *,
    window: int | None = None,
    counted_as: str = "",
) -> Room:
    """``window``: what was learned; one that leaves nothing is not believed. ``counted_as``: by that the session keeps
    how the model counts.
    """
    if "TRIGGER_RATIO" not in session.settings:
        settings = with_trigger_of(model, settings)
    configured = usable = window_or_default(model, settings)
    if window := request.window or window:
        usable = window_or_default(model, settings, window)
    prompt = session.system_prompt if request.system_prompt is None else request.system_prompt
    parts = count_reserved_parts(prompt, request.contributions, request.tools, count)
    reply = reply_reserve(configured, settings, request.reserved_tokens)
    if usable < configured:
        reply = min(reply, usable // 4)
    limit = usable - parts.tokens - reply
    if request.reserved_tokens is None:
        # A client may allow more than any model writes: a quarter of the window stays for the history.
        reply = max(reply, min(request.reply_tokens, usable - parts.tokens - usable // 4))
    parts = replace(parts, reply_tokens=reply)
    if parts.total > usable // 2:
        # Compaction will be frequent.
        values = {"session": session.pk, "reserved": parts.total, "window": usable, "reason": "over_half_the_window"}
        log(logger, logging.WARNING, "reserve", once_for=session.pk, **values)
    calibration = calibration_of(session.token_calibration, counted_as)
    is_narrowed = usable < configured and not request.window
    try:
        made = make_budget(usable, parts.total, settings, calibration.ratio, calibration.offset, limit)
    except ConfigurationError:
        if not is_narrowed:
            raise
        return room_for(session, request, settings, count, model, counted_as=counted_as)
    return Room(
        settings=settings, model=model, reserved_parts=parts, budget=made, request=request, is_narrowed=is_narrowed
    )


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
