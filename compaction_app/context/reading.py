"""What the model is to be sent at a tip, and whether the branch there is over its threshold.

Nothing here writes, enqueues or waits: inspect freely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compaction_app.conf import Mode
from compaction_app.context.assembly import assemble, tokens_after_free_layers
from compaction_app.context.budget import get_compaction_params
from compaction_app.context.request import Allowances, ContextRequest, allowances_for
from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree import branches
from compaction_app.tree.branches import require_tip, using_of
from compaction_app.values import Branch, ChatContext


def get_context(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> ChatContext:
    """What the model is to be sent at ``tip``. Writes nothing and enqueues nothing: inspect freely.

    Its texts have been through ``REDACTOR``, where one is set; :class:`RedactionFailed` if that raises. Raises
    :class:`ContextOverflow` only if the newest user message and the last group alone are too large.
    """
    require_tip(tip)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    return context_at(tip, allowances_at(tip, request))


def should_compact(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> bool:
    """Whether the branch is over its threshold even after the free layers."""
    require_tip(tip)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    return is_over_threshold(tip, allowances_at(tip, request))


def allowances_at(tip: ChatMessage, request: ContextRequest) -> Allowances:
    """The allowances of a request at a tip, by its session as it is stored now."""
    return allowances_for(session_of(tip), request)


def session_of(tip: ChatMessage) -> ChatSession:
    """The session of a message, read anew: one in memory may not know today's calibration or settings."""
    session = ChatSession.objects.using(using_of(tip)).filter(pk=tip.session_id).first()
    if session is None:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more, nor does its session {tip.session_id}.")
    return session


def context_at(tip: ChatMessage, allowances: Allowances) -> ChatContext:
    branch = window_at(tip, allowances)
    context = assemble(branch, allowances.surroundings, allowances.budget, allowances.settings, allowances.count)
    return replace(context, model=allowances.model)


def is_over_threshold(tip: ChatMessage, allowances: Allowances) -> bool:
    """Whether the history at the tip is over its threshold even after the free layers."""
    if allowances.settings.mode == Mode.OFF:
        return False
    return history_after_free_layers(tip, allowances) > allowances.budget.threshold


def history_after_free_layers(tip: ChatMessage, allowances: Allowances) -> int:
    """Tokens of the history; where they are over the threshold, as pruning would leave them."""
    using, budget = using_of(tip), allowances.budget
    history = branches.history_at(tip.pk, using)
    if not get_compaction_params(history.tokens, budget).should_compact:
        return history.tokens
    return tokens_after_free_layers(window_at(tip, allowances), budget, allowances.settings, allowances.count)


def window_at(tip: ChatMessage, allowances: Allowances) -> Branch:
    """The branch at a tip as far back as its window can show it; all of it where the mode is off."""
    settings = allowances.settings
    if settings.mode == Mode.OFF:
        return branches.load_verbatim(tip.pk, using_of(tip))
    return branches.load_window(
        tip.pk,
        using_of(tip),
        limit=allowances.budget.available,
        preserve=settings.preserve_recent_messages,
        prune_bytes=settings.prune_tool_result_bytes,
    )
