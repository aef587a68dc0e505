"""The HTTP client with which a model's endpoint is asked: what it sends back has bounds, and it sends us nowhere else.

A redirect is not followed: it would carry the whole prompt, and the key where the host stays the same, to an address
that nobody chose. A reply's bytes and its time are counted while it arrives, since a client's own ``timeout`` starts
again with each byte. It is asked for as it is, and refused if it is compressed: 300 kB of gzip can hold a gigabyte.
"""

import importlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from django.utils.functional import SimpleLazyObject

if TYPE_CHECKING:
    import openai as openai  # noqa: PLC0414  # the clients take it from here
else:
    # Importing the client takes a second, and most processes (commands, admin pages) never ask a model.
    openai = SimpleLazyObject(partial(importlib.import_module, "openai"))

#: Bytes of one reply, streamed or not: the longest that models write have a few MiB, of images some ten.
MOST_BYTES = 64 * 2**20
#: A stream may go on as long as it brings events, but not longer than this; nor may a reply without a ``timeout``.
LONGEST_SECONDS = 60 * 60.0


def is_unreadable(error: Exception) -> bool:
    """Whether the client could not parse a body. Python has no error of its own for a number with too many digits."""
    too_long_number = type(error) is ValueError and "integer string conversion" in str(error)
    return too_long_number or isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)


def http_client() -> Any:
    """For ``openai.OpenAI``; its timeout, limits and proxies are those of that client's own default."""
    return openai.DefaultHttpxClient(**_options(_bound))


def async_http_client() -> Any:
    """For ``openai.AsyncOpenAI``."""

    async def bound(response: Any) -> None:
        _bound(response)

    return openai.DefaultAsyncHttpxClient(**_options(bound))


def _options(hook: Callable[[Any], Any]) -> dict[str, Any]:
    hooks, headers = {"response": [hook]}, {"Accept-Encoding": "identity"}
    return {"follow_redirects": False, "headers": headers, "event_hooks": hooks, "verify": _certificates()}


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """One for each process: reading them takes longer than all else that is done to ask a model."""
    context: ssl.SSLContext = _library_of(openai.DefaultHttpxClient.__base__).create_ssl_context()
    return context


def _library_of(named: Any) -> Any:
    """httpx or its successor, whichever the client is built on."""
    return importlib.import_module(named.__module__.partition(".")[0])


def _bound(response: Any) -> None:
    # It checks the stream's type.
    library = _library_of(type(response))
    bounded = type("BoundedStream", (_Bounded, library.SyncByteStream, library.AsyncByteStream), {})
    response.stream = bounded(response)


class _Bounded:
    """The body of a response, within its bounds."""

    def __init__(self, response: Any) -> None:
        self._response, self._body = response, response.stream
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise self._invalid(f"is encoded in a way that was not asked for ({encoding[:20]})")
        self._room = MOST_BYTES
        self._seconds: float = (response.request.extensions.get("timeout") or {}).get("read") or LONGEST_SECONDS
        self._is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        self._began = self._last_event = time.monotonic()

    def __iter__(self) -> Iterator[bytes]:
        for data in self._body:
            yield self._checked(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._body:
            yield self._checked(data)

    def close(self) -> None:
        self._body.close()

    async def aclose(self) -> None:
        await self._body.aclose()

    def _checked(self, data: bytes) -> bytes:
        self._room -= len(data)
        if self._room < 0:
            raise self._invalid(f"has more than {MOST_BYTES} bytes")
        now = time.monotonic()
        if self._is_stream and b"data:" in data:
            # A comment keeps a connection alive and brings nothing.
            self._last_event = now
        longest = max(self._seconds, LONGEST_SECONDS) if self._is_stream else self._seconds
        if now - self._last_event > self._seconds or now - self._began > longest:
            raise openai.APITimeoutError(request=self._response.request)
        return data

    def _invalid(self, wrong: str) -> Exception:
        return openai.APIResponseValidationError(
            response=self._response, body=None, message=f"The endpoint's reply {wrong}."
        )
