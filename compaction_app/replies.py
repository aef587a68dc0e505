"""Asking the chat model for a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import openai

from compaction_app.exceptions import InvalidReply
from compaction_app.provider_errors import is_overflow
from compaction_app.values import ChatContext


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
