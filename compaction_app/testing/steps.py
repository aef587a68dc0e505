"""Steps for ``ScriptedOpenAIServer.script``: what the server does with a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from compaction_app.testing.exchange import Body, Exchange, Step, content_text
from compaction_app.tokens import ExactTokenCounter

#: The reply without a script: long enough to be accepted as a summary, short enough to save tokens.
DEFAULT_TEXT = "## Recap\n\nThe user asked for something and you answered it. All of it is done."

_ASKED_SIZE = re.compile(r"about (\d+) tokens")


def reply(text: str = DEFAULT_TEXT, *, usage: Mapping[str, Any] | None = None, finish_reason: str = "stop") -> Step:
    """Reply with ``text``. ``usage`` is counted exactly by default; ``{}`` sends none."""
    return reply_with(lambda _body: text, usage=usage, finish_reason=finish_reason)


def reply_with(
    write: Callable[[Body], str], *, usage: Mapping[str, Any] | None = None, finish_reason: str = "stop"
) -> Step:
    """Reply with the text that ``write`` returns for the request's body."""
    return lambda exchange: exchange.send_message(
        {"content": write(exchange.body)}, usage=usage, finish_reason=finish_reason
    )


def fill_target(share: float = 1.0) -> Step:
    """Reply with a text of ``share`` of the size that the prompt asks for, or of 300 tokens if it asks for none."""

    def write(body: Body) -> str:
        # The material may mention tokens too; what is asked for comes after it, that of a tighter retry last.
        asked = [int(n) for m in body.get("messages", []) for n in _ASKED_SIZE.findall(content_text(m.get("content")))]
        return text_of_tokens(int((asked[-1] if asked else 300) * share))

    return reply_with(write)


def text_of_tokens(tokens: int) -> str:
    """Return a text of exactly that many tokens (at least 20), always the same for the same number."""
    counter = ExactTokenCounter()
    text = "## Recap\n\n"
    room = max(tokens, 20) - counter([text])[0]
    for n in count(1):
        # Counted with its line end, which shares a token with the full stop.
        line = f"Point {n}: the user settled matter {n}, and you noted it.\n"
        size = counter([line])[0]
        if size > room:
            break
        text, room = text + line, room - size
    return text.removesuffix("\n") + " indeed" * room


def rate_limited(retry_after: float | str | None = None) -> Step:
    """429. ``retry_after`` is the header: seconds, or an HTTP date."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return lambda exchange: exchange.send_error(
        429, headers, message="Rate limit reached for requests.", type="requests", code="rate_limit_exceeded"
    )


def insufficient_quota() -> Step:
    """429 for a quota: waiting does not help."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return bad_request(message, status=429, type="insufficient_quota", code="insufficient_quota")


def server_error(status: int = 500) -> Step:
    return bad_request("The server had an error while processing your request.", status=status, type="server_error")


def unauthorized() -> Step:
    """401 that quotes the API key, as some providers do."""
    return lambda exchange: exchange.send_error(
        401,
        message=f"Incorrect API key provided: {exchange.api_key}.",
        type="invalid_request_error",
        code="invalid_api_key",
    )


def bad_request(message: str = "Bad request.", *, status: int = 400, **error: Any) -> Step:
    """An error in OpenAI's format. ``error`` adds or replaces its fields."""
    return lambda exchange: exchange.send_error(status, message=message, **{"type": "invalid_request_error", **error})


def echoing_validation_error() -> Step:
    """422 in FastAPI's format, which quotes the whole input. Error details must not repeat it."""

    def answer(exchange: Exchange) -> None:
        text = content_text(exchange.body["messages"][-1].get("content"))
        exchange.send_json(422, {"detail": [{"type": "value_error", "msg": f"Bad value {text}", "input": text}]})

    return answer


def hang(seconds: float = 3600.0) -> Step:
    """Send nothing for ``seconds``, then close the connection. Ends early if the client leaves or the server stops."""

    def answer(exchange: Exchange) -> None:
        exchange.wait(seconds)
        exchange.hang_up()

    return answer


def late(seconds: float, then: Step | None = None) -> Step:
    """Do ``then`` (by default a reply) after ``seconds``."""

    def answer(exchange: Exchange) -> None:
        if exchange.wait(seconds):
            (then or reply())(exchange)

    return answer


def drip(interval: float = 0.05) -> Step:
    """Send a byte every ``interval`` seconds, forever: each one restarts the client's read time-out."""

    def answer(exchange: Exchange) -> None:
        exchange.start(200, "application/json", {"Content-Length": "1000000"})
        while exchange.wait(interval) and not exchange.client_left:
            exchange.write(b" ")
        exchange.hang_up()

    return answer


def drop() -> Step:
    """Close the connection in the middle of the reply."""

    def answer(exchange: Exchange) -> None:
        exchange.start(200, "application/json", {"Content-Length": "1000"})
        exchange.write(b'{"id": "chatcmpl-')
        exchange.hang_up()

    return answer


def malformed(data: bytes = b'{"id": "chatcmpl-1", "choices": [{"mess', content_type: str = "application/json") -> Step:
    """200 with a body that is not a chat completion."""
    return lambda exchange: exchange.send(200, data, content_type)


def empty() -> Step:
    return reply("")


def length(text: str = DEFAULT_TEXT) -> Step:
    """A reply cut off by the limit that its request set."""

    def send(exchange: Exchange) -> None:
        limit = exchange.body.get("max_completion_tokens") or exchange.body.get("max_tokens")
        usage = exchange.count_usage({"content": text})
        usage |= {"completion_tokens": limit or usage["completion_tokens"]}
        exchange.send_message({"content": text}, usage=usage, finish_reason="length")

    return send


def refusal() -> Step:
    return lambda exchange: exchange.send_message(
        {"content": None, "refusal": "I can't help with that."}, finish_reason="stop"
    )


def tool_call(name: str = "search", arguments: str = '{"query": "weather"}') -> Step:
    """A reply that calls a tool instead of returning text."""
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return lambda exchange: exchange.send_message({"content": None, "tool_calls": [call]}, finish_reason="tool_calls")


def context_overflow(dialect: str = "openai", *, n_prompt_tokens: int = 140_000, n_ctx: int = 128_000) -> Step:
    """400: the prompt is too long, in the format of ``openai`` or ``llama.cpp``."""
    if dialect == "llama.cpp":
        return bad_request(
            f"request ({n_prompt_tokens} tokens) exceeds the available context size ({n_ctx} tokens)",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=n_prompt_tokens,
            n_ctx=n_ctx,
        )
    if dialect != "openai":
        raise ValueError(f"dialect must be 'openai' or 'llama.cpp', not {dialect!r}")
    message = (
        f"This model's maximum context length is {n_ctx} tokens. However, your messages resulted in "
        f"{n_prompt_tokens} tokens. Please reduce the length of the messages."
    )
    return bad_request(message, param="messages", code="context_length_exceeded")


def small_window(window: int, dialect: str = "vllm", *, then: Step | None = None) -> Step:
    """Do ``then`` (by default a reply) for what fits ``window`` tokens; refuse the rest as that server does.

    ``vllm`` counts the reply that is asked for too, ``llama.cpp`` only the prompt, and ``ollama`` refuses nothing: it
    reads half a window of a prompt that is too long and reports that as the prompt's tokens.
    """

    def answer(exchange: Exchange) -> None:
        sent = int(exchange.count_usage({"content": ""})["prompt_tokens"])
        output = int(exchange.body.get("max_tokens") or exchange.body.get("max_completion_tokens") or 0)
        step = then or reply()
        if dialect == "vllm" and sent + output > window:
            message = (
                f"This model's maximum context length is {window} tokens. However, you requested {sent + output} "
                f"tokens ({sent} in the messages, {output} in the completion). Please reduce the length of the "
                "messages or completion."
            )
            step = bad_request(message, type="BadRequestError", code=400)
        elif dialect == "llama.cpp" and sent > window:
            step = context_overflow("llama.cpp", n_prompt_tokens=sent, n_ctx=window)
        elif dialect == "ollama" and sent > window:
            cut = window // 2 + 2
            step = reply(usage={"prompt_tokens": cut, "completion_tokens": 20, "total_tokens": cut + 20})
        step(exchange)

    return answer


def stream_of(
    *deltas: str | Mapping[str, Any],
    finish_reason: str | None = "stop",
    usage: Mapping[str, Any] | None = None,
    then: Step | None = None,
) -> Step:
    """Stream exactly these pieces; a string is a piece of content. With ``finish_reason`` None none is sent.

    ``then`` replaces the end of the stream: ``hang(0)`` closes the connection, ``hang()`` keeps it open and silent,
    ``error_event()`` sends an error.
    """

    def answer(exchange: Exchange) -> None:
        for delta in deltas:
            exchange.send_delta({"content": delta} if isinstance(delta, str) else delta)
        if then is not None:
            exchange.start_stream()
            then(exchange)
            return
        said = "".join(delta if isinstance(delta, str) else str(delta.get("content") or "") for delta in deltas)
        counted = exchange.count_usage({"content": said}) if usage is None else usage
        exchange.end_stream(finish_reason, counted)

    return answer


def error_event(message: str = "The server had an error while processing your request.", **error: Any) -> Step:
    """An error that ends a stream, as OpenAI and llama.cpp send it after status 200."""

    def answer(exchange: Exchange) -> None:
        exchange.send_event({"error": {"message": message, "type": "server_error", "code": None, **error}})
        exchange.end_stream(None)

    return answer


def event(payload: Any) -> Step:
    """A stream of one event with any payload, and no reply."""

    def answer(exchange: Exchange) -> None:
        exchange.send_event(payload)
        exchange.end_stream(None)

    return answer


def unsupported_parameter(name: str) -> Step:
    """400: the model does not support this parameter."""
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return bad_request(message, param=name, code="unsupported_parameter")
