"""Steps for ``ScriptedOpenAIServer.script``: what the server does with a request."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from compaction_app.summarizers.prompts import BEHIND
from compaction_app.testing.exchange import Body, Exchange, Step, content_text

#: The reply without a script, to what is no request for a summary.
DEFAULT_TEXT = "## Recap\n\nThe user asked for something and you answered it. All of it is done."


def reply(text: str | None = None, *, usage: Mapping[str, Any] | None = None, finish_reason: str = "stop") -> Step:
    """Reply with ``text``; without one so that it is accepted as a summary, and short enough to save tokens.

    ``usage`` is counted exactly by default; ``{}`` sends none.
    """
    return reply_with(lambda body: _recap(body) if text is None else text, usage=usage, finish_reason=finish_reason)


def _recap(body: Body) -> str:
    """A summary has to tell something of what it replaces: how that begins and ends."""
    *before, asked = [content_text(one.get("content")) for one in body.get("messages") or [{}]]
    replaced, cutoff, _ = asked.partition("<cutoff id=")
    if BEHIND in asked:
        replaced, cutoff = " ".join(before[1 : len(before) // 2]), BEHIND
    told = " ".join(re.sub("<[^<>]*>", " ", replaced).split())
    return f"{DEFAULT_TEXT} {told[:60]} … {told[-60:]}" if cutoff else DEFAULT_TEXT


def reply_with(
    write: Callable[[Body], str], *, usage: Mapping[str, Any] | None = None, finish_reason: str = "stop"
) -> Step:
    """Reply with the text that ``write`` returns for the request's body."""
    return lambda exchange: exchange.send_message(
        {"content": write(exchange.body)}, usage=usage, finish_reason=finish_reason
    )


def rate_limited(retry_after: float | str | None = None) -> Step:
    """429. ``retry_after`` is the header: seconds, or an HTTP date."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return lambda exchange: exchange.send_error(
        429, headers, message="Rate limit reached for requests.", type="requests", code="rate_limit_exceeded"
    )


def server_error(status: int = 500) -> Step:
    return bad_request("The server had an error while processing your request.", status=status, type="server_error")


def bad_request(message: str = "Bad request.", *, status: int = 400, **error: Any) -> Step:
    """An error in OpenAI's format. ``error`` adds or replaces its fields."""
    return lambda exchange: exchange.send_error(status, message=message, **{"type": "invalid_request_error", **error})


def hang(seconds: float = 3600.0) -> Step:
    """Send nothing for ``seconds``, then close the connection. Ends early if the client leaves or the server stops."""

    def answer(exchange: Exchange) -> None:
        exchange.wait(seconds)
        exchange.hang_up()

    return answer


def drop() -> Step:
    """Close the connection in the middle of the reply."""

    def answer(exchange: Exchange) -> None:
        exchange.start(200, "application/json", {"Content-Length": "1000"})
        exchange.write(b'{"id": "chatcmpl-')
        exchange.hang_up()

    return answer


def refusal() -> Step:
    return lambda exchange: exchange.send_message(
        {"content": None, "refusal": "I can't help with that."}, finish_reason="stop"
    )


def tool_call(name: str = "search", arguments: str = '{"query": "weather"}', call_id: str = "call_1") -> Step:
    """A reply that calls a tool instead of returning text."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return lambda exchange: exchange.send_message({"content": None, "tool_calls": [call]}, finish_reason="tool_calls")


def context_overflow(*, n_prompt_tokens: int = 140_000, n_ctx: int = 128_000) -> Step:
    """400: the prompt is too long."""
    message = (
        f"This model's maximum context length is {n_ctx} tokens. However, your messages resulted in "
        f"{n_prompt_tokens} tokens. Please reduce the length of the messages."
    )
    return bad_request(message, param="messages", code="context_length_exceeded")
