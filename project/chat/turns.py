"""One turn: the reply to a message, from the configured endpoint or from the offline assistant.

If the reply fails, the user's message is kept and can be answered later. A second tab does not pay for the same reply
again: ``chat.complete`` refuses while a model is asked, and gives the connection to the database back before it asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import openai
from django.conf import settings
from django.http import HttpRequest

from compaction_app import chat
from compaction_app.api.codes import SENTENCES, TOO_LONG
from compaction_app.exceptions import (
    CompactionError,
    ConfigurationError,
    ContextOverflow,
    EmptyReply,
    InvalidReply,
    ReplyNotStored,
    ReplyUnderWay,
    StreamInterrupted,
)
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.summarizers.openai import failure_of_error
from compaction_app.values import ErrorCode
from project import offline_assistant

#: Used where neither ``CHAT_MODEL`` nor the conversation names a model.
DEFAULT_MODEL = "gpt-5.4-mini"

#: A search for the question runs before each reply, and its results are sent along; models need no tools for it.
RECALL: Literal["prefetch"] = "prefetch"

#: Why there is no reply, as a sentence. A test compares the keys with the codes that a provider's error may have.
REPLY_ERRORS = {
    **SENTENCES,
    ErrorCode.PROVIDER_ERROR: "The model cannot be reached, or had an error.",
    ErrorCode.QUOTA: "The quota of this site's account with the model's provider is used up.",
    ErrorCode.BAD_REQUEST: "The model's provider did not accept the request.",
}
#: The same for this app's own errors; the first that fits.
OWN_ERRORS: dict[type[Exception], str] = {
    ReplyUnderWay: "A reply to this message is already on its way.",
    EmptyReply: "The model's reply was empty.",
    StreamInterrupted: "The connection to the model broke off.",
    ReplyNotStored: "The reply came, and could not be stored.",
    InvalidReply: "The model's endpoint answered with something that is no reply.",
    ConfigurationError: "There is no room for the conversation beside the instructions for the model.",
}


def is_offline() -> bool:
    return not (settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL)


def model_for(session: ChatSession | None) -> str:
    """The model that answers this conversation, and whose window its context must fit."""
    own: str = session.model if session else ""
    offered = settings.CHAT_MODELS
    if own and (own in offered or not offered):
        return own
    return offered[0] if offered else DEFAULT_MODEL


def client_options() -> dict[str, Any]:
    """For ``openai.OpenAI`` and ``openai.AsyncOpenAI``."""
    return {
        # Local servers need no key, but the client does not start without one.
        "api_key": settings.OPENAI_API_KEY or "no-key",
        "base_url": settings.OPENAI_BASE_URL or None,
        "timeout": settings.CHAT_TIMEOUT_SECONDS,
        # A person is waiting: they see the error and may retry.
        "max_retries": 0,
    }


def open_client() -> openai.OpenAI:
    return openai.OpenAI(**client_options(), http_client=offline_assistant.http_client() if is_offline() else None)


def turn_of_stream(_request: HttpRequest, session: ChatSession, _extra: Any) -> dict[str, Any]:
    """How the stream for pages asks: its hook."""
    return {"client": open_client(), "model": model_for(session), "recall": RECALL}


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The new tip of the conversation, and why there is no reply if there is none."""

    tip: ChatMessage
    problem: str = ""
    #: What the endpoint said, for people who can do something about it.
    detail: str = ""


def take_turn(session: ChatSession, message: ChatMessage, *, regenerate: bool = False) -> Turn:
    """Get a reply to ``message`` and store it; the next compaction is requested, never awaited.

    ``regenerate``: another one, where it has one.
    """
    model = model_for(session)
    try:
        with open_client() as client:
            return Turn(tip=chat.complete(message, client=client, model=model, regenerate=regenerate, recall=RECALL))
    except (openai.OpenAIError, CompactionError) as error:
        problem, detail = words_for(error, model)
        return Turn(tip=message, problem=problem, detail=detail)


def words_for(error: Exception, model: str = "") -> tuple[str, str]:
    """What is wrong, for whoever writes; and what the endpoint or the app said, for staff."""
    if isinstance(error, ContextOverflow):
        if error.needed <= error.available:
            detail = (
                f"{error.needed:,} tokens by our count; its window is smaller than the {error.available:,} configured"
            )
            return "The model finds the conversation too long.", detail
        return TOO_LONG, str(error)
    if isinstance(error, CompactionError):
        if "MAX_MESSAGE_BYTES" in str(error):
            return "This message is too large to be stored.", str(error)
        told = next((words for kind, words in OWN_ERRORS.items() if isinstance(error, kind)), "")
        return (told, str(error)) if told else (str(error), "")
    failure = failure_of_error(error, model=model, prompt="")
    if isinstance(error, openai.RateLimitError) and failure.error_code != ErrorCode.QUOTA:
        when = f"{failure.retry_after:.0f} seconds" if failure.retry_after else "a moment"
        return f"The model receives too many requests at the moment; try again in {when}.", model
    return REPLY_ERRORS[ErrorCode(failure.error_code)], f"{model}: {failure}"
