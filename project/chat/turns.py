"""One turn: the reply to a message, from the configured endpoint or from the offline assistant.

If the reply fails, the user's message is kept and can be answered later. A second tab does not pay for the same reply
again: ``chat.complete`` refuses while a model is asked, and gives the connection to the database back before it asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import openai
from django.conf import settings

from compaction_app import chat
from compaction_app.exceptions import CompactionError, ContextOverflow, ReplyUnderWay
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.summarizers.openai import failure_of
from compaction_app.values import ChatContext, ErrorCode, Role
from project import offline_assistant

#: Used where neither ``CHAT_MODEL`` nor the conversation names a model.
DEFAULT_MODEL = "gpt-5.4-mini"

#: Why there is no reply, as a sentence. A test compares the keys with the codes that a provider's error may have.
REPLY_ERRORS = {
    ErrorCode.PROVIDER_ERROR: "The model's endpoint had an error.",
    ErrorCode.TIMEOUT: "The model's endpoint did not answer in time.",
    ErrorCode.QUOTA: "The quota at the model's endpoint is used up.",
    ErrorCode.AUTHENTICATION: "The model's endpoint did not accept the API key.",
    ErrorCode.BAD_REQUEST: "The model's endpoint did not accept the request.",
    ErrorCode.INPUT_TOO_LARGE: "The conversation is too long for the model.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The new tip of the conversation, and why there is no reply if there is none."""

    tip: ChatMessage
    problem: str = ""
    #: What the endpoint said, for people who can do something about it.
    detail: str = ""
    #: Another request is waiting for the reply.
    is_answered_elsewhere: bool = False


def is_offline() -> bool:
    return not (settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL)


def model_for(session: ChatSession) -> str | None:
    """The model that answers this conversation and whose window its context must fit; None: the offline assistant."""
    if is_offline():
        return None
    return settings.CHAT_MODEL or session.model or DEFAULT_MODEL


def model_of_new_session() -> str:
    return "" if is_offline() else settings.CHAT_MODEL or DEFAULT_MODEL


def take_turn(session: ChatSession, message: ChatMessage, *, regenerate: bool = False) -> Turn:
    """Get a reply to ``message`` and store it; the next compaction is requested, never awaited.

    ``regenerate``: another one, where it has one.
    """
    model = model_for(session)
    try:
        if model is None:
            reply = chat.append_message(session, message, **_offline_reply(chat.get_context(message)))
            chat.request_compaction(reply)
            return Turn(tip=reply)
        with openai.OpenAI(**_client_options()) as client:
            return Turn(tip=chat.complete(message, client=client, model=model, regenerate=regenerate))
    except (openai.OpenAIError, CompactionError) as error:
        return _failed(message, error, model or "")


async def atake_turn(session: ChatSession, message: ChatMessage) -> Turn:
    """:func:`take_turn` with the model awaited."""
    model = model_for(session)
    try:
        if model is None:
            offline = _offline_reply(await chat.aget_context(message))
            reply = await chat.aappend_message(session, message, **offline)
            await chat.arequest_compaction(reply)
            return Turn(tip=reply)
        async with openai.AsyncOpenAI(**_client_options()) as client:
            return Turn(tip=await chat.acomplete(message, client=client, model=model))
    except (openai.OpenAIError, CompactionError) as error:
        return _failed(message, error, model or "")


def _offline_reply(context: ChatContext) -> dict[str, Any]:
    return {
        "role": Role.ASSISTANT,
        "content": offline_assistant.answer(context),
        "model": offline_assistant.NAME,
        "context": context,
        "usage": {"prompt_tokens": context.tokens},
    }


def _client_options() -> dict[str, Any]:
    return {
        # Local servers need no key, but the client does not start without one.
        "api_key": settings.OPENAI_API_KEY or "no-key",
        "base_url": settings.OPENAI_BASE_URL or None,
        "timeout": settings.CHAT_TIMEOUT_SECONDS,
        # A person is waiting: they see the error and may retry.
        "max_retries": 0,
    }


def _failed(message: ChatMessage, error: openai.OpenAIError | CompactionError, model: str) -> Turn:
    if isinstance(error, ReplyUnderWay):
        return Turn(tip=message, is_answered_elsewhere=True)
    if isinstance(error, ContextOverflow):
        if error.needed <= error.available:
            problem = (
                f"The model's endpoint finds the conversation too long: it has {error.needed:,} tokens by our count, "
                f"and {error.available:,} are configured. Its window is probably smaller: set it in MODELS."
            )
        else:
            problem = (
                f"The newest message is too long for the model: the prompt would have {error.needed:,} tokens, and "
                f"{error.available:,} fit. Edit it to make it shorter."
            )
        return Turn(tip=message, problem=problem)
    if isinstance(error, CompactionError):
        return Turn(tip=message, problem=str(error))
    failure = failure_of(error, model=model, prompt="")
    if isinstance(error, openai.RateLimitError) and failure.code != ErrorCode.QUOTA:
        when = f"{failure.retry_after:.0f} seconds" if failure.retry_after else "a moment"
        problem = f"The model's endpoint receives too many requests at the moment; try again in {when}."
        return Turn(tip=message, problem=problem, detail=model)
    return Turn(tip=message, problem=REPLY_ERRORS[failure.code], detail=f"{model}: {failure.detail}")
