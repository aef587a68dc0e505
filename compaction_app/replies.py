"""Asking the chat model for a reply, and what is remembered of the asking."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import openai

from compaction_app.budget import observe_calibration
from compaction_app.exceptions import InvalidReply
from compaction_app.managers import lock_session
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent
from compaction_app.provider_errors import is_overflow
from compaction_app.runs import record
from compaction_app.values import ChatContext, EventKind, Strategy

logger = logging.getLogger("compaction_app.replies")

#: Parameters of a request that make the provider compact too.
PROVIDER_COMPACTION = ("context_management", "truncation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A model's reply, as ``append_message`` takes it."""

    content: str
    tool_calls: list[dict[str, Any]]
    reasoning: Any
    usage: dict[str, Any]
    model: str


class ProviderOverflow(Exception):
    """The provider says that the prompt is too long; the cause is its own error."""


def ask(client: Any, context: ChatContext, *, model: str, tools: Any, params: Mapping[str, Any]) -> Reply:
    """One call of ``client.chat.completions.create``; :class:`ProviderOverflow` if the prompt is too long."""
    try:
        completion = (client or openai.OpenAI()).chat.completions.create(**_request(context, model, tools, params))
    except openai.APIStatusError as error:
        raise _translated(error) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidReply from error
    return _reply(completion)


async def aask(client: Any, context: ChatContext, *, model: str, tools: Any, params: Mapping[str, Any]) -> Reply:
    try:
        completion = await (client or openai.AsyncOpenAI()).chat.completions.create(
            **_request(context, model, tools, params)
        )
    except openai.APIStatusError as error:
        raise _translated(error) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidReply from error
    return _reply(completion)


def _request(context: ChatContext, model: str, tools: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = {**params, "model": model, "messages": context.to_openai()}
    if tools:
        request["tools"] = list(tools)
    return request


def _translated(error: openai.APIStatusError) -> Exception:
    return ProviderOverflow() if is_overflow(error) else error


def _reply(completion: Any) -> Reply:
    # The client does not check what it is sent: any part may be missing, or the whole be a page of HTML.
    choices = getattr(completion, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    if message is None or not hasattr(message, "content"):
        raise InvalidReply
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls or ()
    ]
    usage = completion.usage.model_dump(mode="json", exclude_none=True) if completion.usage else {}
    reasoning = getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None)
    return Reply(
        content=message.content or getattr(message, "refusal", None) or "",
        tool_calls=calls,
        reasoning=reasoning,
        usage=usage,
        model=completion.model or "",
    )


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
