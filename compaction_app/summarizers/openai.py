"""One question to one OpenAI-compatible model: the call, its deadline, and what came of it.

:func:`ask` never raises for what a provider does: it returns a :class:`SummaryDraft`, or a :class:`Failure`
that says in this app's codes what went wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import openai

from compaction_app import telemetry
from compaction_app.conf import Settings
from compaction_app.context.budget import window_of
from compaction_app.summarizers.provider_errors import (
    Failure,
    complained_about,
    error_message,
    failure_of,
    is_overflow,
    malformed_reply,
)
from compaction_app.values import ErrorCode, SummaryDraft, SummaryRequest

TEMPERATURE = 0.1
#: Sent where no key is wanted: the client refuses to start without one, local servers do not look at it.
NO_KEY = "no-key"

_OPENAI_URL = "https://api.openai.com/v1"
#: Models that refuse ``temperature`` and ``max_tokens``.
_REASONING_MODEL = re.compile(r"(?:o\d|gpt-5)")
#: "supports at most 16384 completion tokens"; "max_tokens: 20000 > 8192, which is the maximum".
_OUTPUT_LIMIT = re.compile(r"(?:at most |> )(\d+)")
_OUTPUT_PARAMETERS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """One model of the cascade, every default filled in."""

    model: str
    #: None: the client's own default, ``OPENAI_BASE_URL`` or OpenAI.
    base_url: str | None = None
    #: Environment variable that holds its key.
    api_key_env: str | None = None
    #: Seconds for one question in total, connecting and all bytes of the reply included.
    timeout: float
    #: Tokens of the largest request it takes.
    max_input_tokens: int
    #: Tokens of the longest reply it is allowed.
    max_output_tokens: int

    @property
    def url(self) -> str:
        return self.base_url or _default_url()


Clients = Callable[[ModelEntry], openai.AsyncOpenAI]


def model_entries(settings: Settings, session_model: str = "") -> tuple[ModelEntry, ...]:
    """The cascade: ``SUMMARIZER_MODELS`` in order, then the session's own model if not among them."""
    entries = [_entry(item, settings) for item in settings.summarizer_models]
    # By name alone: asking the same model again at the default address could send a conversation to a
    # provider that the host did not mean it for.
    if session_model and session_model not in {entry.model for entry in entries}:
        window = window_of(session_model, settings) or settings.default_context_window
        entries.append(_entry_at(window, {"model": session_model}, settings))
    return tuple(dict.fromkeys(entries))


def _entry(item: str | Mapping[str, Any], settings: Settings) -> ModelEntry:
    options = {"model": item} if isinstance(item, str) else item
    # CONTEXT_WINDOW is what the session says of its chat model; a summarizer has its own window.
    window = window_of(str(options["model"]), replace(settings, context_window=None))
    return _entry_at(window or settings.default_context_window, options, settings)


def _entry_at(window: int, options: Mapping[str, Any], settings: Settings) -> ModelEntry:
    stated = options.get("max_input_tokens")
    cap = settings.summarizer_max_output_tokens
    # In a small window the cap would leave nothing to read, as RESERVED_TOKENS would in a chat: a quarter at
    # most.
    output = cap if stated else min(cap, window // 4)
    return ModelEntry(
        model=str(options["model"]),
        base_url=options.get("base_url"),
        api_key_env=options.get("api_key_env"),
        timeout=float(options.get("timeout", settings.summarizer_timeout)),
        max_input_tokens=int(stated or window - output),
        max_output_tokens=output,
    )


async def ask(entry: ModelEntry, request: SummaryRequest, clients: Clients | None = None) -> SummaryDraft | Failure:
    """Ask a model once. A parameter that it does not take is left out or swapped, within the same
    deadline."""
    if wrong := _misconfigured(entry, clients):
        return wrong
    limit = min(request.max_output_tokens, entry.max_output_tokens)
    with telemetry.model_call(entry.model, entry.url, max_tokens=limit) as call:
        answer = await _ask(entry, request, clients)
        if isinstance(answer, Failure):
            call.failed(answer.code)
        else:
            call.answered(answer.paid_calls[0], finish_reason=answer.finish_reason)
        return answer


async def _ask(entry: ModelEntry, request: SummaryRequest, clients: Clients | None) -> SummaryDraft | Failure:
    client = (clients or make_client)(entry)
    try:
        # A client's own read time-out starts anew with each byte, so a server that drips would hold us for
        # ever. Cancelling closes the connection, and the provider stops writing. The client lives for this
        # call only: its connections belong to the running event loop.
        async with asyncio.timeout(entry.timeout), client:
            completion = await _create(client, _parameters(entry, request))
    except TimeoutError:
        return Failure(
            model=entry.model,
            code=ErrorCode.TIMEOUT,
            detail=f"no reply within {entry.timeout:g} s",
            transient=True,
        )
    except openai.OpenAIError as error:
        # Built here, raised nowhere: a traceback would carry the request, key and all.
        return failure_of(error, model=entry.model, key=client.api_key, prompt=request.user)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return malformed_reply(entry.model)
    return _read(entry, completion)


def make_client(entry: ModelEntry) -> openai.AsyncOpenAI:
    # Its retries are off: a cascade has better to do than to ask the same model again, and the client would
    # retry even an exhausted quota.
    return openai.AsyncOpenAI(api_key=_api_key(entry), base_url=entry.base_url, timeout=entry.timeout, max_retries=0)


def _default_url() -> str:
    return os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL


def _api_key(entry: ModelEntry) -> str | None:
    """The key for this address; None if one is wanted and missing."""
    if entry.api_key_env:
        return os.environ.get(entry.api_key_env)
    # OPENAI_API_KEY is for the default address. Sent elsewhere it would hand one provider's key to another.
    if entry.url.rstrip("/") != _default_url().rstrip("/"):
        return NO_KEY
    return os.environ.get("OPENAI_API_KEY") or (None if _is_openai(entry) else NO_KEY)


def _is_openai(entry: ModelEntry) -> bool:
    host = urlsplit(entry.url).hostname or ""
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))


def _misconfigured(entry: ModelEntry, clients: Clients | None) -> Failure | None:
    parts = urlsplit(entry.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Failure(model=entry.model, code=ErrorCode.BAD_REQUEST, detail="base_url is not an http(s) address")
    if clients is None and not _api_key(entry):
        name = entry.api_key_env or "OPENAI_API_KEY"
        return Failure(
            model=entry.model,
            code=ErrorCode.AUTHENTICATION,
            detail=f"the environment variable {name} is not set",
        )
    return None


def _parameters(entry: ModelEntry, request: SummaryRequest) -> dict[str, Any]:
    # Names may carry a provider's prefix: "openai/gpt-5-mini".
    reasoning = bool(_REASONING_MODEL.match(entry.model.rpartition("/")[2]))
    output = "max_completion_tokens" if reasoning or _is_openai(entry) else "max_tokens"
    parameters: dict[str, Any] = {
        "model": entry.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        output: min(request.max_output_tokens, entry.max_output_tokens),
    }
    return parameters if reasoning else {**parameters, "temperature": TEMPERATURE}


async def _create(client: openai.AsyncOpenAI, parameters: dict[str, Any]) -> Any:
    tried: set[str] = set()
    while True:
        try:
            return await client.chat.completions.create(**parameters)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            adapted = _adapted(parameters, error, tried)
            if adapted is None:
                raise
            parameters = adapted


def _adapted(parameters: dict[str, Any], error: openai.APIStatusError, tried: set[str]) -> dict[str, Any] | None:
    """The parameters without what the provider complains about, or None. Each remedy is tried once."""
    if is_overflow(error):
        return None
    named = complained_about(error)
    output = next(name for name in _OUTPUT_PARAMETERS if name in parameters)
    if "temperature" in named and "temperature" in parameters:
        return {name: value for name, value in parameters.items() if name != "temperature"}
    if not any(name in named for name in _OUTPUT_PARAMETERS):
        return None
    limit = _OUTPUT_LIMIT.search(error_message(error))
    if limit and 0 < int(limit[1]) < parameters[output]:
        return _once("limit", tried, {**parameters, output: int(limit[1])})
    other = next(name for name in _OUTPUT_PARAMETERS if name != output)
    renamed = {other if name == output else name: value for name, value in parameters.items()}
    return _once("rename", tried, renamed)


def _once(remedy: str, tried: set[str], parameters: dict[str, Any]) -> dict[str, Any] | None:
    if remedy in tried:
        return None
    tried.add(remedy)
    return parameters


def _read(entry: ModelEntry, completion: Any) -> SummaryDraft | Failure:
    """The client does not check what it is sent: any part may be missing, or the whole be a page of HTML."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        return malformed_reply(entry.model)
    finish_reason = str(getattr(choice, "finish_reason", None) or "")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    return SummaryDraft(
        text=_without_thinking(_text(getattr(message, "content", None))),
        finish_reason=finish_reason,
        model=entry.model,
        input_tokens=_number(usage, "prompt_tokens"),
        output_tokens=_number(usage, "completion_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        refused=bool(getattr(message, "refusal", None)),
        tool_called=bool(getattr(message, "tool_calls", None) or getattr(message, "function_call", None))
        or finish_reason in ("tool_calls", "function_call"),
    )


def _number(source: Any, name: str) -> int:
    value = getattr(source, name, None)
    return value if isinstance(value, int) and value > 0 else 0


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None) for part in content)
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


_THINKING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)


def _without_thinking(text: str) -> str:
    """Servers without a reasoning parser leave the model's thinking in front of its reply. It is no
    summary."""
    return _THINKING.sub("", text)
