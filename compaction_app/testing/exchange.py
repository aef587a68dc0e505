"""One request to the scripted server, and the ways to answer it.

A step (``steps``) is a function of an :class:`Exchange`. It answers once, hangs, or breaks the connection. Only this
file knows the format of a reply: one JSON document, or a stream of server-sent events.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from compaction_app.tokens import TOKENS_PER_MESSAGE, ExactTokenCounter

Body = dict[str, Any]
Step = Callable[["Exchange"], None]

#: How often a waiting exchange checks whether its client left or the server stops.
_POLL_SECONDS = 0.01


class Exchange:
    """The request in ``body``, and the ways to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: Body, *, number: int, stopping: Event) -> None:
        self.body = body
        #: 1 for the first request to the server.
        self.number = number
        #: The client closed the connection before the response was complete.
        self.client_left = False
        self.handler = handler
        self._stopping = stopping
        self._is_streaming = False

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    def wait(self, seconds: float) -> bool:
        """Sleep. Return False at once if the client leaves or the server stops."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._stopping.wait(min(_POLL_SECONDS, left)):
                return False
            if self._is_client_gone():
                self.client_left = True
                return False
        return True

    def _is_client_gone(self) -> bool:
        # A peek consumes nothing. It returns no bytes on a closed connection and would block on a silent one.
        connection = self.handler.connection
        connection.setblocking(False)
        try:
            return not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            connection.setblocking(True)

    def send(self, status: int, data: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.start(status, content_type, {"Content-Length": str(len(data)), **(headers or {})})
        self.write(data)

    def send_json(self, status: int, payload: Any, headers: Mapping[str, str] | None = None) -> None:
        self.send(status, json.dumps(payload).encode(), "application/json", headers)

    def send_error(self, status: int, headers: Mapping[str, str] | None = None, **error: Any) -> None:
        """Send an error in OpenAI's format."""
        self.send_json(status, {"error": {"param": None, "code": None, **error}}, headers)

    def start(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()

    def write(self, data: bytes) -> None:
        try:
            self.handler.wfile.write(data)
            self.handler.wfile.flush()
        except OSError:
            # Some scripts are about clients that give up, so this is not an error of the server.
            self.client_left = True

    def hang_up(self) -> None:
        """Close the connection, even if the client still waits."""
        self.handler.close_connection = True

    def send_message(
        self, message: Mapping[str, Any], *, finish_reason: str, usage: Mapping[str, Any] | None = None
    ) -> None:
        """Send a reply, streamed if the request asked for a stream.

        ``usage`` is counted by default.
        """
        counted = dict(usage) if usage is not None else self.count_usage(message)
        if self.body.get("stream"):
            for delta in [{"role": "assistant", "content": ""}, *_deltas(message)]:
                self.send_delta(delta)
            self.end_stream(finish_reason, counted)
            return
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
        self.send_json(200, {**self._envelope("chat.completion"), "choices": [choice], "usage": counted or None})

    def count_usage(self, message: Mapping[str, Any]) -> Body:
        """Count the request and ``message`` exactly, so that calibration with this server stays near 1."""
        prompt = [content_text(m.get("content")) for m in self.body.get("messages") or ()]
        sent = sum(ExactTokenCounter()(prompt)) + TOKENS_PER_MESSAGE * len(prompt)
        # Some scripts send half a character, which no tokenizer accepts.
        content = str(message.get("content") or "").encode(errors="replace").decode()
        written = sum(ExactTokenCounter()([content]))
        return {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}

    def _envelope(self, kind: str) -> Body:
        return {"id": f"chatcmpl-{self.number}", "object": kind, "created": 0, "model": self.model}

    def start_stream(self) -> None:
        """Start a response of server-sent events, unless it has started."""
        if self._is_streaming:
            return
        self._is_streaming = True
        # In chunks, like real servers, so that a client can tell a broken connection from the end of the body.
        self.start(200, "text/event-stream", {"Connection": "close", "Transfer-Encoding": "chunked"})
        self.handler.close_connection = True

    def send_delta(self, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> None:
        """Send one piece of the reply, as the first choice."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        self.send_event({**self._envelope("chat.completion.chunk"), "choices": [choice]})

    def end_stream(self, finish_reason: str | None, usage: Mapping[str, Any] | None = None) -> None:
        """End the stream with the finish reason (None: without one), and with the usage if the request asks for it."""
        if finish_reason is not None:
            self.send_delta({}, finish_reason=finish_reason)
        if (self.body.get("stream_options") or {}).get("include_usage") and usage:
            self.send_event({**self._envelope("chat.completion.chunk"), "choices": [], "usage": usage})
        self._send_event_text("[DONE]")
        self.write(b"0\r\n\r\n")

    def send_event(self, payload: Any) -> None:
        """Send one server-sent event with any payload."""
        self._send_event_text(json.dumps(payload))

    def _send_event_text(self, text: str) -> None:
        self.start_stream()
        event = f"data: {text}\n\n".encode()
        self.write(b"%x\r\n%s\r\n" % (len(event), event))


def content_text(content: Any) -> str:
    """Return the text of a message's ``content``, which may be a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "") if isinstance(part, Mapping) else part) for part in content)
    return str(content or "")


def _deltas(message: Mapping[str, Any]) -> list[Body]:
    """Return the text word by word, then everything else in the message."""
    words = str(message.get("content") or "").split(" ")
    pieces = [word if n == 0 else f" {word}" for n, word in enumerate(words)]
    result: list[Body] = [{"content": piece} for piece in pieces if piece]
    if calls := message.get("tool_calls"):
        result.append({"tool_calls": [{"index": n, **call} for n, call in enumerate(calls)]})
    result += [{name: message[name]} for name in ("refusal", "reasoning", "reasoning_content") if message.get(name)]
    return result
