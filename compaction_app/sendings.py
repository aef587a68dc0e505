"""What is remembered of what was sent to the chat model: on the reply, in events, in the calibration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from compaction_app.budget import observe_calibration
from compaction_app.managers import lock_session
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent
from compaction_app.runs import record
from compaction_app.values import ChatContext, EventKind, Strategy

logger = logging.getLogger("compaction_app.sendings")

#: Parameters of a request that make the provider compact too.
PROVIDER_COMPACTION = ("context_management", "truncation")


def sent_context(context: ChatContext) -> dict[str, Any]:
    """What a reply keeps of the context it was given: ids and numbers, no text."""
    return {
        "summary_id": context.summary_id,
        "cutoff_id": context.cutoff_id,
        "pinned_id": context.pinned_id,
        "first_shown_depth": context.first_shown_depth,
        "strategy": str(context.strategy),
        "pruned": context.pruned,
        "dropped": context.dropped,
        "tokens": context.tokens,
        "available_tokens": context.available_tokens,
        "window": context.window,
    }


def note_fallback(reply: ChatMessage, context: ChatContext, using: str) -> None:
    """Record that a prompt had to leave messages out: compaction is late or failing."""
    if context.strategy == Strategy.TRUNCATED:
        payload = {"dropped": context.dropped, "pruned": context.pruned, "tokens": context.tokens}
        logger.warning(
            "fallback session=%s tip=%s dropped=%s pruned=%s tokens=%s available=%s",
            reply.session_id,
            context.tip_id,
            context.dropped,
            context.pruned,
            context.history_tokens,
            context.available_tokens,
        )
        record(reply.session_id, EventKind.FALLBACK_USED, using=using, message_id=context.tip_id, payload=payload)


def calibrate(session: ChatSession, model: str, usage: Mapping[str, Any], context: ChatContext, using: str) -> None:
    """Learn how this model counts, from the prompt tokens that its provider reports."""
    prompt_tokens = usage.get("prompt_tokens", usage.get("input_tokens"))
    if isinstance(prompt_tokens, bool) or not isinstance(prompt_tokens, int):
        return
    lock_session(session.pk, using)
    row = ChatSession.objects.using(using).only("token_calibration").get(pk=session.pk)
    factor = observe_calibration(row.token_calibration.get(model), prompt_tokens, context.tokens)
    if factor is not None:
        calibration = {**row.token_calibration, model: factor}
        ChatSession.objects.using(using).filter(pk=session.pk).update(token_calibration=calibration)
        session.token_calibration = calibration


def note_double_compaction(session_id: Any, params: Mapping[str, Any], declared: bool, using: str) -> None:
    """Say once a session that the provider was asked to compact as well."""
    body = params.get("extra_body")
    sent = {**params, **body} if isinstance(body, Mapping) else params
    asked = [name for name in PROVIDER_COMPACTION if sent.get(name)]
    if not asked and not declared:
        return
    kind = EventKind.DOUBLE_COMPACTION_CONFIGURED
    if not CompactionEvent.objects.using(using).filter(session_id=session_id, kind=kind).exists():
        record(session_id, kind, using=using, payload={"parameters": asked, "declared": declared})


def overflow_numbers(context: ChatContext) -> dict[str, int]:
    return {"needed": context.tokens, "available": context.window - context.reserved_tokens}
