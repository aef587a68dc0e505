"""What a caller asks for, and what that allows at a session: settings, surroundings and budget, put together once.

Every public function makes one :class:`ContextRequest` of its arguments and passes it on. :func:`allowances_for`
turns it into numbers by the session as it is stored, so that context, trigger and run compare the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_app.conf import Settings, get_settings
from compaction_app.context.assembly import Surroundings
from compaction_app.context.budget import calibration_of, make_budget, reply_reserve, window_of
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.arguments import check_asking, check_list_of_dicts
from compaction_app.messages.validation import check_text
from compaction_app.models import ChatSession
from compaction_app.models.managers import counter
from compaction_app.telemetry import log
from compaction_app.tokens import Count, count_messages, count_tools
from compaction_app.values import Budget, Role

logger = logging.getLogger("compaction_app.budget")

# Models that were already logged as unknown: one line a model and process, not one a turn.
_logged_models: set[str] = set()
# Sessions whose reserve was already said to be large.
_logged_sessions: set[Any] = set()
_MOST_LOGGED_SESSIONS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest:
    """What a caller asks a context for; checked when it is made, :class:`InvalidMessage` names the argument."""

    #: The chat model; None is the session's.
    model: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    #: Messages that the caller makes anew for each turn: sent and counted, never stored.
    contributions: Sequence[Mapping[str, Any]] = ()
    #: Tokens kept free for the reply; None is ``RESERVED_TOKENS``.
    reserved_tokens: int | None = None

    def __post_init__(self) -> None:
        check_asking(self.model, self.tools, self.reserved_tokens)
        check_list_of_dicts(self.contributions, "contributions", "messages (dicts with role and content)")
        for contribution in self.contributions:
            _check_contribution(contribution)


#: Nothing but the session as it is.
_NOTHING_MORE = ContextRequest()


@dataclass(frozen=True, kw_only=True)
class Allowances:
    session: ChatSession
    settings: Settings
    #: The chat model that the context is meant for.
    model: str
    surroundings: Surroundings
    budget: Budget
    count: Count


def allowances_for(session: ChatSession, request: ContextRequest = _NOTHING_MORE) -> Allowances:
    """The allowances of one request; ``ConfigurationError`` where nothing is left for the conversation."""
    settings = get_settings(session.settings)
    count = counter()
    model = request.model or session.model
    window = _window(model, settings)
    reply = reply_reserve(window, settings, request.reserved_tokens)
    surroundings = _surround(session.system_prompt, request, count, reply)
    if surroundings.reserved > window // 2:
        _say_reserve(session, surroundings.reserved, window)
    return Allowances(
        session=session,
        settings=settings,
        model=model,
        surroundings=surroundings,
        budget=make_budget(window, surroundings.reserved, settings, calibration_of(session.token_calibration, model)),
        count=count,
    )


def _window(model: str, settings: Settings) -> int:
    window = window_of(model, settings)
    if window is not None:
        return window
    if model not in _logged_models:
        _logged_models.add(model)
        tokens = settings.default_context_window
        log(logger, logging.INFO, "window", model=model or "none", tokens=tokens, reason="unknown_model")
    return settings.default_context_window


def _say_reserve(session: ChatSession, reserved: int, window: int) -> None:
    """Over half the window is reserved: compaction will be frequent. Once a session, not at every turn of it."""
    if session.pk in _logged_sessions:
        return
    if len(_logged_sessions) >= _MOST_LOGGED_SESSIONS:
        # A process that lives long meets every session; saying it again is cheaper than remembering all.
        _logged_sessions.clear()
    _logged_sessions.add(session.pk)
    reason = "over_half_the_window"
    log(logger, logging.WARNING, "reserve", session=session.pk, reserved=reserved, window=window, reason=reason)


def _surround(system_prompt: str, request: ContextRequest, count: Count, reply_tokens: int) -> Surroundings:
    messages = list(request.contributions)
    if system_prompt:
        messages.insert(0, {"role": Role.SYSTEM, "content": system_prompt})
    counts = count_messages(messages, count) if messages else []
    system_tokens = counts[0] if system_prompt else 0
    return Surroundings(
        system_prompt=system_prompt,
        contributions=tuple(request.contributions),
        tokens=sum(counts) + count_tools(request.tools, count),
        contribution_tokens=tuple(counts[1:] if system_prompt else counts),
        system_tokens=system_tokens,
        reply_tokens=reply_tokens,
    )


def _check_contribution(contribution: Mapping[str, Any]) -> None:
    if contribution.get("role") not in (
        Role.SYSTEM,
        Role.DEVELOPER,
        Role.USER,
        Role.ASSISTANT,
    ):
        raise InvalidMessage(
            "A contribution is a dict with the role system, developer, user or assistant, and content.",
            field="contributions",
        )
    if not isinstance(contribution.get("content"), str):
        raise InvalidMessage("A contribution's content is a text.", field="contributions")
    for text in (contribution["content"], str(contribution.get("name") or "")):
        check_text(text, "contributions")
