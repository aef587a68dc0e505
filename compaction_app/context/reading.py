"""What the model would be sent at a tip, and whether the branch there is over its threshold.

Nothing here writes, enqueues or waits, so anything may inspect with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compaction_app.conf import Mode
from compaction_app.context.assembly import assemble, tokens_after_pruning
from compaction_app.context.budget import get_compaction_params
from compaction_app.context.request import ContextRequest, ResolvedRequest, resolve_request
from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree import branches
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import Branch, ChatContext


def get_context(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> ChatContext:
    """What the model would be sent at ``tip``. Writes nothing and enqueues nothing.

    ``REDACTOR`` has been applied, if one is set; if it raises, so does this, with :class:`RedactionFailed`. Raises
    :class:`ContextOverflow` only if the newest user message and the last group alone are too large.
    """
    check_tip(tip)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    return context_at(tip, resolve_request_at(tip, request))


def should_compact(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> bool:
    """Whether the branch is over its threshold even after the free layers."""
    check_tip(tip)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    return is_over_threshold(tip, resolve_request_at(tip, request))


def resolve_request_at(tip: ChatMessage, request: ContextRequest) -> ResolvedRequest:
    """The request with the settings of the tip's session as it is stored now."""
    return resolve_request(session_of(tip), request)


def session_of(tip: ChatMessage) -> ChatSession:
    """The session of a message, read again: one in memory may have an old calibration or old settings."""
    session = ChatSession.objects.using(database_of(tip)).filter(pk=tip.session_id).first()
    if session is None:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more, nor does its session {tip.session_id}.")
    return session


def context_at(tip: ChatMessage, resolved: ResolvedRequest) -> ChatContext:
    branch = window_at(tip, resolved)
    context = assemble(branch, resolved.reserved_parts, resolved.budget, resolved.settings, resolved.count)
    return replace(context, model=resolved.model)


def is_over_threshold(tip: ChatMessage, resolved: ResolvedRequest) -> bool:
    """Whether the history at the tip is over its threshold even after the free layers."""
    if resolved.settings.mode == Mode.OFF:
        return False
    return pruned_history_tokens(tip, resolved) > resolved.budget.threshold


def pruned_history_tokens(tip: ChatMessage, resolved: ResolvedRequest) -> int:
    """Tokens of the history, after pruning if they are over the threshold."""
    using, budget = database_of(tip), resolved.budget
    history = branches.history_at(tip.pk, using)
    if not get_compaction_params(history.tokens, budget).should_compact:
        return history.tokens
    return tokens_after_pruning(window_at(tip, resolved), budget, resolved.settings, resolved.count)


def window_at(tip: ChatMessage, resolved: ResolvedRequest) -> Branch:
    """The branch at a tip as far back as its window can show it; all of it where the mode is off."""
    settings = resolved.settings
    if settings.mode == Mode.OFF:
        return branches.load_verbatim(tip.pk, database_of(tip))
    return branches.load_window(
        tip.pk,
        database_of(tip),
        limit=resolved.budget.available,
        preserve=settings.preserve_recent_messages,
        prune_bytes=settings.prune_tool_result_bytes,
    )
