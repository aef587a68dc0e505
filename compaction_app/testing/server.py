"""A real HTTP server with OpenAI's chat API that follows a script.

Point any OpenAI client at ``server.url``. Each request takes the next step of the script: a reply, a 429, a hang, a
dropped connection (``steps``). With no step left it takes the default one. The server records the requests, so a test
can check how often a model was called and what it was sent::

    with ScriptedOpenAIServer() as server:
        server.script([steps.rate_limited(retry_after=2), steps.reply("## Recap …")])
        server.script([steps.refusal()], model="second-model")
"""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Any, ClassVar, Self

from compaction_app.testing import steps
from compaction_app.testing.exchange import Body, Exchange, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request to ``/v1/chat/completions``."""

    body: Body
    #: With names in lower case.
    headers: Mapping[str, str]


@dataclass(slots=True)
class _Script:
    queue: deque[Step] = field(default_factory=deque)
    default: Step | None = None


class ScriptedOpenAIServer:
    """The server (see the module). It is thread-safe. ``stop`` ends every request that still hangs."""

    #: What answers at each path.
    paths: ClassVar[dict[str, type[Exchange]]] = {"/v1/chat/completions": Exchange}

    def __init__(
        self, script: Iterable[Step] = (), *, default: Step | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._changed = Condition()
        self._stopping = Event()
        self._calls: list[Call] = []
        self._disconnects = 0
        self._script = _Script(deque(script), default or steps.reply())
        self._by_model: dict[str, _Script] = {}
        self._httpd = _HTTPServer((host, port), self)
        self._thread = Thread(target=self._httpd.serve_forever, args=(0.05,), name="scripted-openai", daemon=True)

    @property
    def url(self) -> str:
        """The ``base_url`` for an OpenAI client."""
        host, port = self._httpd.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def requests(self) -> list[Body]:
        """The bodies of the chat requests so far, in order of arrival."""
        return [call.body for call in self.calls]

    @property
    def calls(self) -> list[Call]:
        with self._changed:
            return list(self._calls)

    def count(self, model: str) -> int:
        """Return how many requests asked for ``model``."""
        return sum(request.get("model") == model for request in self.requests)

    def script(self, steps: Iterable[Step] = (), *, model: str | None = None, default: Step | None = None) -> None:
        """Add steps to the script, or to the script of one model. ``default`` is the step when none is left.

        A model's own script without steps and default falls back to the common one.
        """
        with self._changed:
            script = self._script if model is None else self._by_model.setdefault(model, _Script())
            script.queue.extend(steps)
            script.default = default or script.default

    def reset(self) -> None:
        """Clear the recorded requests, the common steps, and the scripts of models. The common default stays."""
        with self._changed:
            self._calls.clear()
            self._disconnects = 0
            self._script.queue.clear()
            self._by_model.clear()

    def wait_for(self, requests: int, timeout: float = 10.0) -> list[Body]:
        """Wait for that many requests; raise :class:`TimeoutError` if fewer arrive."""
        self._wait(lambda: len(self._calls) >= requests, timeout, f"{requests} requests")
        return self.requests

    def wait_for_disconnects(self, disconnects: int, timeout: float = 10.0) -> None:
        """Wait until that many clients left before the response was complete."""
        self._wait(lambda: self._disconnects >= disconnects, timeout, f"{disconnects} disconnects")

    def _wait(self, reached: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, timeout):
                seen = f"{len(self._calls)} requests, {self._disconnects} disconnects"
                raise TimeoutError(f"no {what} within {timeout} s, only {seen}")

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._httpd.shutdown()
            self._thread.join()
        self._httpd.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def answer(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        """Record the request and take the next step. Called in the thread of the connection."""
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._changed:
            self._calls.append(Call(body=body, headers=headers))
            number = len(self._calls)
            step = self._next_step(str(body.get("model", "")))
            self._changed.notify_all()
        exchange = self.paths[handler.path](handler, body, number=number, stopping=self._stopping)
        step(exchange)
        if exchange.client_left:
            handler.close_connection = True
            with self._changed:
                self._disconnects += 1
                self._changed.notify_all()

    def _next_step(self, model: str) -> Step:
        own = self._by_model.get(model, _Script())
        script = own if own.queue or own.default else self._script
        return script.queue.popleft() if script.queue else script.default or steps.reply()


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    # The default backlog of 5 would refuse a burst of workers.
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], owner: ScriptedOpenAIServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error, unless a step or a client broke the connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _HTTPServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        exchange = Exchange(self, {}, number=0, stopping=Event())
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path not in self.server.owner.paths:
            exchange.send_error(404, message=f"No such endpoint: {self.path}", type="invalid_request_error")
            return
        try:
            body = json.loads(data)
        except ValueError:
            exchange.send_error(400, message="The body is not JSON.", type="invalid_request_error")
            return
        self.server.owner.answer(self, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Write nothing: ``requests`` is the log."""
