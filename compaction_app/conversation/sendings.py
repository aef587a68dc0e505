"""What is remembered of what was sent to the chat model: on the reply, in events, in the calibration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from compaction_app import telemetry
from compaction_app.compaction import notify
from compaction_app.compaction.runs import record
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import calibration_of, observe_calibration
from compaction_app.conversation.usage import prompt_tokens, provider_compaction
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent
from compaction_app.models.managers import lock_session
from compaction_app.telemetry import log
from compaction_app.values import ChatContext, EventKind, Strategy

logger = logging.getLogger("compaction_app.sendings")

#: Parameters of a request that make the provider compact too.
PROVIDER_COMPACTION = ("context_management", "truncation")


def sent_context(
    context: ChatContext,
    *,
    usage: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    calibration: float = 1.0,
) -> dict[str, Any]:
    """What a reply keeps of the context it was given: ids and numbers, no text.

    ``provider_tokens`` and ``estimate_error`` (a share of them, under 0 where we thought it smaller than it was) are
    there if the provider counted what we sent.
    """
    kept = {
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
    counted = prompt_tokens(usage)
    if not counted or provider_compaction(usage, metadata).ran:
        return kept
    return kept | {"provider_tokens": counted, "estimate_error": _estimate_error(context, calibration, counted)}


def _estimate_error(context: ChatContext, calibration: float, counted: int) -> float:
    return round((context.tokens * calibration - counted) / counted, 4)


def note_fallback(reply: ChatMessage, context: ChatContext, using: str) -> None:
    """Count a prompt by the layer it needed; record that it had to leave messages out: compaction is late or fails."""
    notify.after_commit(partial(telemetry.count_prompt, layer=str(context.strategy)), using)
    if context.strategy == Strategy.TRUNCATED:
        payload = {"dropped": context.dropped, "pruned": context.pruned, "tokens": context.tokens}
        log(
            logger,
            logging.WARNING,
            "fallback",
            session=reply.session_id,
            tip=context.tip_id,
            dropped=context.dropped,
            pruned=context.pruned,
            tokens=context.history_tokens,
            available=context.available_tokens,
        )
        record(reply.session_id, EventKind.FALLBACK_USED, using=using, message_id=context.tip_id, payload=payload)


def calibrate(session: ChatSession, model: str, usage: Mapping[str, Any], context: ChatContext, using: str) -> None:
    """Learn how this model counts, from the prompt tokens that its provider reports."""
    counted = prompt_tokens(usage)
    if not counted:
        return
    lock_session(session.pk, using)
    row = ChatSession.objects.using(using).only("token_calibration").get(pk=session.pk)
    error = _estimate_error(context, calibration_of(row.token_calibration, model), counted)
    notify.after_commit(partial(telemetry.record_estimate_error, error, model=model), using)
    values = {"session": session.pk, "model": model, "counted": counted, "estimated": context.tokens, "error": error}
    log(logger, logging.DEBUG, "estimate", **values)
    factor = observe_calibration(row.token_calibration.get(model), counted, context.tokens)
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


def note_double_ran(
    reply: ChatMessage, usage: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None, using: str
) -> bool:
    """Whether a reply's own report says that the provider compacted the prompt; an event says what it did.

    This app's record stays the one that counts: what the provider left out is still in the branch.
    """
    ran = provider_compaction(usage, metadata)
    if not ran.ran:
        return False
    session = ChatSession.objects.using(using).only("settings").get(pk=reply.session_id)
    if get_settings(session.settings).mode != Mode.OFF:
        payload = {name: number for name, number in asdict(ran).items() if number}
        record(reply.session_id, EventKind.DOUBLE_RAN, using=using, message_id=reply.pk, payload=payload)
        log(logger, logging.WARNING, "double", session=reply.session_id, message=reply.pk, **payload)
    return True


def overflow_numbers(context: ChatContext) -> dict[str, int]:
    return {"needed": context.tokens, "available": context.window - context.reserved_tokens}
