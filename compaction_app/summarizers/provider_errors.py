"""What a provider's error means here: a code, whether waiting may help, and words that are fit to be stored.

Fit to be stored means: no key, and nothing of the conversation. Providers quote keys in a 401, and some
servers quote the whole input in a 422.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import openai

from compaction_app.values import ErrorCode

#: The longest that a provider's ``retry-after`` is taken at its word, in seconds.
MAX_RETRY_AFTER = 3600.0

#: OpenAI's and llama.cpp's word for a prompt that is too long.
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
#: Other servers say it in prose only.
_OVERFLOW_WORDS = re.compile(
    r"maximum context length|context[ _](?:size|length|window)|prompt is too long", re.IGNORECASE
)
_CODES_BY_STATUS = {
    401: (ErrorCode.AUTHENTICATION, False),
    402: (ErrorCode.QUOTA, False),
    403: (ErrorCode.AUTHENTICATION, False),
    408: (ErrorCode.TIMEOUT, True),
    409: (ErrorCode.PROVIDER_ERROR, True),
    413: (ErrorCode.INPUT_TOO_LARGE, False),
    429: (ErrorCode.PROVIDER_ERROR, True),
}
_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|key|api|bearer)[-_ ][\w\-.*]{4,}|(?=[\w-]*\d)[\w-]{24,}", re.IGNORECASE)
_DETAIL_CHARS = 200
#: A message that shares this many characters in a row with the prompt is taken to quote it.
_QUOTE_CHARS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a model gave no usable draft."""

    model: str
    code: ErrorCode
    #: For the record: status, the provider's code and, where it is safe, its message.
    detail: str = ""
    #: Trying later may help.
    transient: bool = False
    #: Seconds that the provider asked us to wait.
    retry_after: float | None = None


def failure_of(error: openai.OpenAIError, *, model: str, key: str | None, prompt: str) -> Failure:
    """The failure that an error of the client stands for. ``key`` and ``prompt`` are kept out of its
    detail."""
    if isinstance(error, openai.APITimeoutError):
        return Failure(model=model, code=ErrorCode.TIMEOUT, detail="the connection timed out", transient=True)
    if isinstance(error, openai.APIConnectionError):
        return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail="the connection failed", transient=True)
    if isinstance(error, openai.APIResponseValidationError):
        return malformed_reply(model)
    if isinstance(error, openai.APIStatusError):
        code, transient = _classify(error)
        return Failure(
            model=model,
            code=code,
            detail=_detail(error, key, prompt),
            transient=transient,
            retry_after=_retry_after(error.response.headers),
        )
    return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail=type(error).__name__)


def malformed_reply(model: str) -> Failure:
    """Transient: a proxy's error page or a cut-off body, as a rule."""
    detail = "the reply is not a chat completion"
    return Failure(model=model, code=ErrorCode.PROVIDER_ERROR, detail=detail, transient=True)


def is_overflow(error: openai.APIError) -> bool:
    """The provider says that the prompt is longer than the context window."""
    if _OVERFLOW_CODES & {error.code, error.type}:
        return True
    # An error inside a stream has no status: its stream began with 200.
    status = getattr(error, "status_code", 400)
    return status in (400, 413, 422) and bool(_OVERFLOW_WORDS.search(error_message(error)))


def error_message(error: openai.APIError) -> str:
    """What the provider says, without the fields in which it may quote its input. Not fit to be stored as it
    is."""
    body = error.body
    for key in ("message", "detail"):
        if isinstance(body, Mapping) and isinstance(body.get(key), str):
            return str(body[key])
    return body if isinstance(body, str) else ""


def complained_about(error: openai.APIStatusError) -> str:
    """Text that names the parameters which an error is about: its ``param``, else its message, else FastAPI's
    locations."""
    if error.param:
        return error.param
    details = error.body.get("detail") if isinstance(error.body, Mapping) else None
    places = [item.get("loc") for item in details if isinstance(item, Mapping)] if isinstance(details, list) else []
    return error_message(error) or " ".join(str(place) for place in places)


def _classify(error: openai.APIStatusError) -> tuple[ErrorCode, bool]:
    """Its code, and whether waiting may help."""
    if "insufficient_quota" in (error.code, error.type):
        return ErrorCode.QUOTA, False
    if is_overflow(error):
        return ErrorCode.INPUT_TOO_LARGE, False
    if error.status_code >= 500:
        return ErrorCode.PROVIDER_ERROR, True
    return _CODES_BY_STATUS.get(error.status_code, (ErrorCode.BAD_REQUEST, False))


def _detail(error: openai.APIStatusError, key: str | None, prompt: str) -> str:
    words = f"HTTP {error.status_code}"
    if isinstance(error.code, str) and error.code.replace("_", "").isalnum():
        words += f" {error.code[:60]}"
    message = " ".join(error_message(error).split())
    if key and len(key) > 3:
        message = message.replace(key, "***")
    # Cut after masking: half a key no longer looks like one.
    message = _KEY_LIKE.sub("***", message)[:_DETAIL_CHARS]
    return words if not message or _quotes(message, prompt) else f"{words}: {message}"


def _quotes(message: str, prompt: str) -> bool:
    text = " ".join(html.unescape(prompt).split())
    last = max(0, len(message) - _QUOTE_CHARS)
    return any(message[i : i + _QUOTE_CHARS] in text for i in range(last + 1))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from ``retry-after-ms`` or ``retry-after`` (a number or an HTTP date), at most an hour."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if (seconds := _seconds(headers.get(name), divisor)) is not None:
            return min(seconds, MAX_RETRY_AFTER)
    return None


def _seconds(value: str | None, divisor: float) -> float | None:
    if not value:
        return None
    try:
        seconds = float(value) / divisor
    except ValueError:
        return _seconds_until(value)
    # False for NaN too.
    return seconds if seconds >= 0 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
