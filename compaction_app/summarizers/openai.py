"""Asks one OpenAI-compatible model for a summary, within a deadline.

:func:`call_model` returns a :class:`SummaryDraft`, or a :class:`Failure` with one of this app's error codes: whatever
is wrong with an address, a key, a connection or an answer, the next model can be asked. A failure is stored with the
run, so its detail contains no key and no text of the conversation: providers quote keys in a 401, and some servers
quote the whole input in a 422 (see :mod:`error_details`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from celery.exceptions import SoftTimeLimitExceeded

from compaction_app import telemetry
from compaction_app.conf import AskedModel, Settings, find_address_error
from compaction_app.context.budget import window_of, window_or_default
from compaction_app.context.overflow import (
    complaint_of,
    error_text,
    find_output_limit,
    overflow_of_error,
    overflow_of_report,
)
from compaction_app.context.windows import OPENAI_URL, OUTPUT_SHARE, smaller
from compaction_app.messages.originals import read_message
from compaction_app.summarizers.base import Answer, Failure
from compaction_app.summarizers.drafts import CHARACTERS_A_TOKEN
from compaction_app.summarizers.endpoint import async_http_client, is_unreadable, openai
from compaction_app.summarizers.error_details import safe_code, safe_message
from compaction_app.telemetry import log_error
from compaction_app.values import Capacity, ErrorCode, SummaryDraft, SummaryRequest

logger = logging.getLogger("compaction_app.summarizers")

TEMPERATURE = 0.1
#: Sent where no key is needed: the client does not start without one, and local servers ignore it.
NO_KEY = "no-key"
#: The longest wait, in seconds, that a provider's ``retry-after`` may ask for.
MAX_RETRY_AFTER = 3600.0

#: Models that refuse ``temperature`` and ``max_tokens``.
_REASONING_MODEL = re.compile(r"(?:o\d|gpt-5)")
_OUTPUT_PARAMETERS = ("max_completion_tokens", "max_tokens")
#: A parameter that is refused whatever its value.
_UNSUPPORTED = re.compile(r"unsupported|not (?:supported|permitted)|extra|unknown|unrecognized|instead", re.IGNORECASE)
#: How often a reply's limit is halved where the provider names none: from 20,000 to 1,250 tokens.
_MOST_HALVINGS = 4
_CODES_BY_STATUS = {
    401: (ErrorCode.AUTHENTICATION, False),
    402: (ErrorCode.QUOTA, False),
    403: (ErrorCode.AUTHENTICATION, False),
    408: (ErrorCode.TIMEOUT, True),
    409: (ErrorCode.PROVIDER_ERROR, True),
    429: (ErrorCode.PROVIDER_ERROR, True),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """One model of the cascade, with every default filled in."""

    model: str
    #: None: the client's own default, ``OPENAI_BASE_URL`` or OpenAI.
    base_url: str | None = None
    #: Name of the environment variable with the key.
    api_key_env: str | None = None
    #: Seconds for one call in total, connecting and reading the whole reply included.
    timeout: float
    #: Tokens of the largest request that the model accepts.
    max_input_tokens: int
    #: Tokens of the longest reply that the model may write.
    max_output_tokens: int

    @property
    def url(self) -> str:
        return self.base_url or _default_url()

    @property
    def place(self) -> tuple[str, str]:
        """Address and model: what is learned of a window belongs to both."""
        return self.url, self.model

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.max_input_tokens, self.max_output_tokens)

    def counting(self, ratio: float) -> ModelEntry:
        """The entry in tokens of our count, where the model makes ``ratio`` of one of ours."""
        return replace(self, max_input_tokens=max(1, int(self.max_input_tokens / ratio)))

    def limited_to(self, capacity: Capacity | None) -> ModelEntry:
        """The entry, with no more than this capacity."""
        if capacity is None:
            return self
        least = smaller(self.capacity, capacity)
        return replace(self, max_input_tokens=least.input_tokens, max_output_tokens=least.output_tokens)


Clients = Callable[[ModelEntry], "openai.AsyncOpenAI"]


def model_entries(settings: Settings, session_model: str = "") -> tuple[ModelEntry, ...]:
    """The cascade: ``MODELS`` of the entry in order, then the session's own model if ``CHAT_MODELS`` has it.

    A session's owner may name any model: unless the host lists it, a conversation would go to an address, and be paid
    with a key, that the host did not choose for it.
    """
    listed = settings.summarizer_entry
    own = [asked for asked in listed.chat_models if asked.model == session_model]
    # Each once: the host may name the same model, at the same address, in both.
    return tuple(dict.fromkeys(_entry(asked, settings) for asked in (*listed.models, *own)))


def _entry(asked: AskedModel, settings: Settings) -> ModelEntry:
    of_all, stated = settings.summarizer_entry, asked.max_input_tokens or 0
    # CONTEXT_WINDOW is the window of the session's chat model; a summarizer has its own.
    own = settings.but(context_window=None)
    # A window that is larger than the stated input may belong to another model of that name: then the provider says so.
    smallest = stated + stated // (OUTPUT_SHARE - 1)
    window = max(window_of(asked.model, own) or 0, smallest) if stated else window_or_default(asked.model, own)
    # In a small window the cap would leave no room for input.
    room = window - stated if stated else window // OUTPUT_SHARE
    output = max(1, min(of_all.max_output_tokens, room))
    return ModelEntry(
        model=asked.model,
        base_url=asked.base_url,
        api_key_env=asked.api_key_env,
        timeout=asked.timeout or of_all.timeout,
        max_input_tokens=stated or window - output,
        max_output_tokens=output,
    )


async def call_model(entry: ModelEntry, request: SummaryRequest, clients: Clients | None = None) -> Answer:
    """Ask a model once. A parameter that it rejects is left out or renamed, within the same deadline."""
    if wrong := _misconfigured(entry, clients):
        return wrong
    limit = min(request.max_output_tokens, entry.max_output_tokens)
    with telemetry.model_call(entry.model, entry.url, max_tokens=limit) as call:
        answer: Answer
        try:
            client = (clients or make_client)(entry)
            # A client's own read time-out starts again with each byte, so a server that drips could block for ever.
            # Cancelling closes the connection, and the provider stops writing. The client is used for this call only:
            # its connections belong to the running event loop.
            async with asyncio.timeout(entry.timeout), client:
                completion, limit = await _create(client, _parameters(entry, request))
            answer = _read(entry, completion, limit)
        except Exception as error:
            answer = failure_of(
                error, model=entry.model, prompt=f"{request.system}\n{request.user}", seconds=entry.timeout
            )
        if isinstance(answer, Failure):
            call.failed(answer.code)
        else:
            call.answered(answer.paid_calls[0], finish_reason=answer.finish_reason)
        return answer


def make_client(entry: ModelEntry) -> openai.AsyncOpenAI:
    # Without retries of its own: the cascade asks the next model instead, and the client would retry even an
    # exhausted quota.
    return openai.AsyncOpenAI(
        api_key=_api_key(entry),
        base_url=entry.base_url,
        timeout=entry.timeout,
        max_retries=0,
        http_client=async_http_client(),
    )


def _default_url() -> str:
    return os.environ.get("OPENAI_BASE_URL") or OPENAI_URL


def _api_key(entry: ModelEntry) -> str | None:
    """The key for this address; None if one is required and missing."""
    if entry.api_key_env:
        return os.environ.get(entry.api_key_env)
    # OPENAI_API_KEY is for the default address. Sent elsewhere it would give one provider's key to another.
    if entry.url.rstrip("/") != _default_url().rstrip("/"):
        return NO_KEY
    return os.environ.get("OPENAI_API_KEY") or (None if _is_openai(entry) else NO_KEY)


def _is_openai(entry: ModelEntry) -> bool:
    host = urlsplit(entry.url).hostname or ""
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))


def _misconfigured(entry: ModelEntry, clients: Clients | None) -> Failure | None:
    if wrong := find_address_error(entry.url):
        return Failure(model=entry.model, code=ErrorCode.BAD_REQUEST, detail=f"base_url {wrong}")
    if clients is not None:
        return None
    key = _api_key(entry)
    if key and key.isascii() and key.isprintable():
        return None
    wrong = "has a character that no header can have" if key else "is not set"
    detail = f"the environment variable {entry.api_key_env or 'OPENAI_API_KEY'} {wrong}"
    return Failure(model=entry.model, code=ErrorCode.AUTHENTICATION, detail=detail)


def _parameters(entry: ModelEntry, request: SummaryRequest) -> dict[str, Any]:
    # Names may have a provider's prefix: "openai/gpt-5-mini".
    reasoning = bool(_REASONING_MODEL.match(entry.model.rpartition("/")[2]))
    output = "max_completion_tokens" if reasoning or _is_openai(entry) else "max_tokens"
    parameters: dict[str, Any] = {
        "model": entry.model,
        "messages": [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}],
        output: min(request.max_output_tokens, entry.max_output_tokens),
    }
    return parameters if reasoning else {**parameters, "temperature": TEMPERATURE}


async def _create(client: openai.AsyncOpenAI, parameters: dict[str, Any]) -> tuple[Any, int]:
    """The completion, and the longest reply that was asked for in the end."""
    tried: list[str] = []
    while True:
        try:
            completion = await client.chat.completions.create(**parameters)
            return completion, next(parameters[name] for name in _OUTPUT_PARAMETERS if name in parameters)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            adapted = _adapted(parameters, error, tried)
            if adapted is None:
                raise
            parameters = adapted


def _adapted(parameters: dict[str, Any], error: openai.APIStatusError, tried: list[str]) -> dict[str, Any] | None:
    """The parameters without what the provider complains about, or None. Each remedy is ``tried`` a few times at most.

    A reply that may be too long is limited to what the provider names, else to half.
    """
    if overflow_of_error(error):
        return None
    named = error.param or complaint_of(error.body)
    output = next(name for name in _OUTPUT_PARAMETERS if name in parameters)
    if "temperature" in named and "temperature" in parameters:
        return {name: value for name, value in parameters.items() if name != "temperature"}
    limit = find_output_limit(error.status_code, error.body, parameters[output])
    if limit and not _UNSUPPORTED.search(error_text(error.body)) and tried.count("limit") < _MOST_HALVINGS:
        tried.append("limit")
        return {**parameters, output: limit}
    if "rename" in tried or not any(name in named for name in _OUTPUT_PARAMETERS):
        return None
    tried.append("rename")
    other = next(name for name in _OUTPUT_PARAMETERS if name != output)
    return {other if name == output else name: value for name, value in parameters.items()}


def _read(entry: ModelEntry, completion: Any, limit: int) -> SummaryDraft | Failure:
    """``limit``: of the reply. The client checks nothing: any part may be missing, or the whole a page of HTML."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if overflow := overflow_of_report(getattr(completion, "error", None)):
        detail = "the prompt is too long, says an answer with status 200"
        code = ErrorCode.INPUT_TOO_LARGE
        return Failure(model=entry.model, code=code, detail=detail, transient=False, overflow=overflow)
    if message is None:
        return _malformed_reply(entry.model)
    finish_reason = str(getattr(choice, "finish_reason", None) or "")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    text = read_message({"content": getattr(message, "content", None)}, writer="model").text("assistant")
    return SummaryDraft(
        # What is longer than any reply within the limit is refused, and need not be read to its end.
        text=text[: CHARACTERS_A_TOKEN * limit + 1],
        finish_reason=finish_reason,
        model=entry.model,
        input_tokens=_number(usage, "prompt_tokens"),
        output_tokens=_number(usage, "completion_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        limit=limit,
        refused=bool(getattr(message, "refusal", None)),
        tool_called=bool(getattr(message, "tool_calls", None) or getattr(message, "function_call", None))
        or finish_reason in ("tool_calls", "function_call"),
    )


def _number(source: Any, name: str) -> int:
    value = getattr(source, name, None)
    return value if isinstance(value, int) and value > 0 else 0


# -- Errors of a provider -------------------------------------------------------------------------------


def failure_of(error: Exception, *, model: str, prompt: str, seconds: float | None = None) -> Failure:
    """Whatever was raised between making the client and reading the answer; only a task's soft time limit is raised.

    Returned and not raised: a traceback would carry the request, key and all. Its detail contains neither a key nor
    text of ``prompt``.
    """
    # The client wraps what is raised while it sends.
    origin = error.__cause__ or error
    if isinstance(origin, SoftTimeLimitExceeded):
        raise origin from None
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        detail = f"no reply within {seconds:g} s" if seconds else "no reply in time"
        return Failure(model=model, code=ErrorCode.TIMEOUT, detail=detail, transient=True)
    if isinstance(error, openai.APIResponseValidationError) or is_unreadable(error):
        return _malformed_reply(model)
    if isinstance(error, openai.APIConnectionError):
        return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail="the connection failed", transient=True)
    if not isinstance(error, openai.APIStatusError):
        if not isinstance(error, openai.OpenAIError):
            log_error(logger, error, model=model)
        return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail=type(error).__name__)
    overflow = overflow_of_error(error)
    if "insufficient_quota" in (error.code, error.type):
        code, transient = ErrorCode.QUOTA, False
    elif overflow:
        code, transient = ErrorCode.INPUT_TOO_LARGE, False
    elif error.status_code >= 500:
        code, transient = ErrorCode.PROVIDER_ERROR, True
    else:
        code, transient = _CODES_BY_STATUS.get(error.status_code, (ErrorCode.BAD_REQUEST, False))
    return Failure(
        model=model,
        code=code,
        detail=_detail(error, model, prompt),
        transient=transient,
        retry_after=_retry_after(error.response.headers),
        overflow=overflow,
    )


def _malformed_reply(model: str) -> Failure:
    """Transient: usually a proxy's error page or a truncated body."""
    detail = "the reply is not a chat completion"
    return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail=detail, transient=True)


def _detail(error: openai.APIStatusError, model: str, prompt: str) -> str:
    """Status, code and message; type and parameter where the message cannot be stored."""
    words = f"HTTP {error.status_code} {safe_code(error.code)}".strip()
    if message := safe_message(error_text(error.body), prompt, model):
        return f"{words}: {message}"
    kind, parameter = safe_code(error.type), safe_code(error.param)
    return " ".join(part for part in (words, kind, f"({parameter})" if parameter else "") if part)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from ``retry-after``, a number or an HTTP date; at most an hour."""
    value = headers.get("retry-after") or ""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            return None
    # False for NaN too.
    return min(seconds, MAX_RETRY_AFTER) if seconds >= 0 else None
