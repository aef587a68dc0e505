"""One turn: the reply to a message, from the configured endpoint or from the offline assistant.

If the reply fails, the user's message is kept and can be answered later. A second tab does not pay for the same reply
again: ``chat.complete`` refuses while a model is asked, and gives the connection to the database back before it asks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import openai
from django.conf import settings
from django.http import HttpRequest

from compaction_app import chat
from compaction_app.conversation.recall import prefetched
from compaction_app.exceptions import CompactionError
from compaction_app.messages.transcript import RECALLED_POSITION
from compaction_app.models import ChatMessage, ChatSession
from project import offline_assistant
from project.chat.words import words_for

#: Used where neither ``CHAT_MODEL`` nor the conversation names a model.
DEFAULT_MODEL = "gpt-5.4-mini"

#: The key of a question's metadata with the id and the number of each message that was looked up for it.
LOOKED_UP = "looked_up"
#: A search for the question runs before each reply, and its results are sent along; models need no tools for it.
RECALL: Literal["prefetch"] = "prefetch"


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


def look_up(question: ChatMessage) -> None:
    """Keep with a question which messages the search for it finds, since the page shows them at the reply.

    Of their texts nothing is kept: an erasure would not find them here.
    """
    # What is wrong with the conversation is told when the model is asked.
    with suppress(CompactionError):
        sent = "".join(one["content"] for one in prefetched(question))
        numbers = set(map(int, RECALLED_POSITION.findall(sent)))
        found = chat.recall(question, question.content) if numbers else []
        told = [[one.message_id, one.position] for one in found if one.position in numbers] or None
        if told != question.metadata.get(LOOKED_UP):
            chat.annotate_message(question, **{LOOKED_UP: told})


def take_turn(session: ChatSession, message: ChatMessage, *, regenerate: bool = False) -> tuple[ChatMessage, str]:
    """Get a reply to ``message`` and store it; the next compaction is requested, never awaited.

    The new tip of the conversation, and why there is no reply if there is none. ``regenerate``: another one, where it
    has one.
    """
    model = model_for(session)
    try:
        with open_client() as client:
            return chat.complete(message, client=client, model=model, regenerate=regenerate, recall=RECALL), ""
    except (openai.OpenAIError, CompactionError) as error:
        return message, words_for(error)
