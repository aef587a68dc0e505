"""The HTTP client with which a model's endpoint is asked: what it sends back has bounds, and it sends us nowhere else.

A redirect is not followed: it would carry the whole prompt, and the key where the host stays the same, to an address
that nobody chose. A reply is counted while it is decompressed, since 300 kB of gzip can hold a gigabyte, and its time
while it arrives, since a client's own ``timeout`` starts again with each byte.
"""

from __future__ import annotations

import importlib
import json
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openai as openai  # noqa: PLC0414  # the clients take it from here
else:

    class _ImportedWhenUsed:
        """Importing the client takes a second, and most processes (commands, admin pages) never ask a model."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("openai"), name)

    openai = _ImportedWhenUsed()

#: Decoded bytes of one reply, streamed or not: the longest that models write have a few, of images some ten.
MOST_BYTES = 64 * 2**20
#: A stream may go on as long as it brings events, but not longer than this; nor may a reply without a ``timeout``.
LONGEST_SECONDS = 60 * 60.0
_PIECE = 2**16
#: The one encoding that is bounded here.
_HEADERS = {"Accept-Encoding": "gzip"}


def is_unreadable(error: Exception) -> bool:
    """Whether the client could not parse a body. Python has no error of its own for a number with too many digits."""
    too_long_number = type(error) is ValueError and "integer string conversion" in str(error)
    return too_long_number or isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)


def http_client() -> Any:
    """For ``openai.OpenAI``; its timeout, limits and proxies are those of that client's own default."""
    hooks = {"response": [_bound]}
    return openai.DefaultHttpxClient(
        follow_redirects=False, headers=_HEADERS, event_hooks=hooks, verify=_certificates()
    )


def async_http_client() -> Any:
    """For ``openai.AsyncOpenAI``."""

    async def bound(response: Any) -> None:
        _bound(response)

    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False, headers=_HEADERS, event_hooks={"response": [bound]}, verify=_certificates()
    )


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
    """The body of a response, decompressed, within its bounds."""

    def __init__(self, response: Any) -> None:
        self._response, self._body = response, response.stream
        encoding = response.headers.pop("content-encoding", "identity").lower()
        if encoding not in ("gzip", "identity"):
            raise self._invalid(f"is encoded in a way that was not asked for ({encoding[:20]})")
        self._decoder = zlib.decompressobj(31) if encoding == "gzip" else None
        self._room = MOST_BYTES
        self._seconds: float = (response.request.extensions.get("timeout") or {}).get("read") or LONGEST_SECONDS
        self._is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        self._began = self._last_event = time.monotonic()

    def __iter__(self) -> Iterator[bytes]:
        for data in self._body:
            yield from self._pieces(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._body:
            for piece in self._pieces(data):
                yield piece

    def close(self) -> None:
        self._body.close()

    async def aclose(self) -> None:
        await self._body.aclose()

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data, never much of it at once."""
        while data:
            # What follows the end is not read, but it is counted.
            decoder = None if self._decoder and self._decoder.eof else self._decoder
            try:
                piece = decoder.decompress(data, _PIECE) if decoder else data
            except zlib.error as error:
                raise self._invalid("cannot be decompressed") from error
            data = decoder.unconsumed_tail if decoder else b""
            self._room -= len(piece)
            if self._room < 0:
                raise self._invalid(f"has more than {MOST_BYTES} bytes")
            self._check_time(piece)
            if decoder is self._decoder:
                yield piece

    def _check_time(self, piece: bytes) -> None:
        now = time.monotonic()
        if self._is_stream and b"data:" in piece:
            # A comment keeps a connection alive and brings nothing.
            self._last_event = now
        longest = max(self._seconds, LONGEST_SECONDS) if self._is_stream else self._seconds
        if now - self._last_event > self._seconds or now - self._began > longest:
            raise openai.APITimeoutError(request=self._response.request)

    def _invalid(self, wrong: str) -> Exception:
        return openai.APIResponseValidationError(
            response=self._response, body=None, message=f"The endpoint's reply {wrong}."
        )
