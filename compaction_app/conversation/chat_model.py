"""Asking the chat model for a reply: the request goes out, the reply comes back whole or chunk by chunk.

The client checks little of what it receives: any part may be missing, or the whole may be a page of HTML. Anything
but a reply raises :class:`InvalidReply`; a prompt that is too long raises :class:`ProviderOverflow`, however the
provider says so.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from compaction_app.exceptions import EmptyReply, InvalidMessage, InvalidReply
from compaction_app.summarizers.endpoint import async_http_client, http_client, openai
from compaction_app.summarizers.openai import is_overflow, is_unreadable

#: In place of a chunk: there are no more.
END = object()
_UNREADABLE = "The chat model's endpoint answered with something that is not a chat completion; nothing was stored."


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A model's reply, as ``append_message`` takes it."""

    content: str
    tool_calls: list[dict[str, Any]]
    reasoning: Any
    usage: dict[str, Any]
    model: str
    #: What the provider reports about its own context management, None where it reports nothing.
    context_management: Any = None
    #: The client's own object; None for a reply that was streamed.
    completion: Any = None

    @property
    def as_attributes(self) -> dict[str, Any]:
        """The attributes of the :class:`InvalidReply` that carries it."""
        names = ("content", "tool_calls", "reasoning", "usage", "model")
        return {"reply": {name: getattr(self, name) for name in names}, "completion": self.completion}


class ProviderOverflow(Exception):
    """The provider says that the prompt is too long; the cause is its own error."""


#: The client reads these when it is made.
_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


def _default_client() -> openai.OpenAI:
    """One for each process, so that its connections are kept; another where the environment has changed."""
    return _client_for(os.getpid(), *map(os.environ.get, _VARIABLES))


@lru_cache(maxsize=1)
def _client_for(*_environment: Any) -> openai.OpenAI:
    return openai.OpenAI(http_client=http_client())


class _AsyncClient(threading.local):
    """The asynchronous client of a thread's event loop. Its connections belong to that loop, and a thread runs one."""

    made_for: Any = None
    client: openai.AsyncOpenAI
    #: Open as long as the client is.
    opened: AsyncGenerator[openai.AsyncOpenAI]


_async_client = _AsyncClient()


async def _default_async_client() -> openai.AsyncOpenAI:
    """One for each event loop; another where the environment has changed."""
    wanted = (asyncio.get_running_loop(), *map(os.environ.get, _VARIABLES))
    if _async_client.made_for != wanted:
        opened = _open_async_client()
        _async_client.client = await anext(opened)
        _async_client.opened, _async_client.made_for = opened, wanted
    return _async_client.client


async def _open_async_client() -> AsyncGenerator[openai.AsyncOpenAI]:
    """A generator because ``asyncio.run`` ends those of its loop, and only that loop can close the connections."""
    async with openai.AsyncOpenAI(http_client=async_http_client()) as client:
        yield client


def ask(client: Any, request: Mapping[str, Any]) -> Reply:
    """One call of ``client.chat.completions.create``; :class:`ProviderOverflow` if the prompt is too long."""
    with _errors_translated():
        completion = (client or _default_client()).chat.completions.create(**request)
    return _reply_of(completion)


async def aask(client: Any, request: Mapping[str, Any]) -> Reply:
    """:func:`ask`, awaited."""
    with _errors_translated():
        client = client or await _default_async_client()
        completion = await client.chat.completions.create(**request)
    return _reply_of(completion)


@dataclass(slots=True)
class OpenedStream:
    """A provider's stream with its first chunk read: an overflow is reported before it, or never."""

    #: A client without a reference closes its connections.
    client: Any
    source: Any
    #: Until the first chunk is taken: that chunk, or :data:`END`.
    first: list[Any]


def open_stream(client: Any, request: Mapping[str, Any]) -> OpenedStream:
    """Send the request as a stream; the errors are those of :func:`ask`."""
    client = client or _default_client()
    with _errors_translated():
        source = client.chat.completions.create(**_streaming(request))
        try:
            return OpenedStream(client, source, [next(source, END)])
        except BaseException:
            source.close()
            raise


async def aopen_stream(client: Any, request: Mapping[str, Any]) -> OpenedStream:
    """:func:`open_stream`, awaited."""
    client = client or await _default_async_client()
    with _errors_translated():
        source = await client.chat.completions.create(**_streaming(request))
        try:
            return OpenedStream(client, source, [await anext(source, END)])
        except BaseException:
            await source.close()
            raise


def _streaming(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as a stream, with usage at its end unless the caller sets ``stream_options`` (None: not sent)."""
    result = {"stream_options": {"include_usage": True}, **request, "stream": True}
    if result["stream_options"] is None:
        del result["stream_options"]
    return result


def _require_something(reply: Reply, finish_reason: str) -> Reply:
    """An empty reply would be an empty message in every later prompt."""
    if reply.content.strip() or reply.tool_calls:
        return reply
    ending = f" (finish_reason {finish_reason})" if finish_reason else ""
    raise EmptyReply(
        f"The model's reply is empty: neither content nor a tool call{ending}.",
        finish_reason=finish_reason,
        usage=reply.usage,
        **reply.as_attributes,
    )


def _usage_of(part: Any) -> dict[str, Any]:
    """The usage that a completion or a chunk reports; empty if it reports none."""
    usage = getattr(part, "usage", None)
    if not isinstance(usage, openai.BaseModel):
        return {}
    return usage.model_dump(mode="json", exclude_none=True)


def _reasoning_of(message: Any) -> Any:
    """Reasoning of a message or a delta, under either of the two names that providers use."""
    return getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None)


def _reported_by(part: Any, message: Any) -> Any:
    """What the provider reports about its own context management; LiteLLM puts it on the message, or the delta."""
    reported = getattr(part, "context_management", None)
    return reported or getattr(message, "provider_specific_fields", None)


def _first_choice(part: Any) -> Any:
    """The choice with index 0 of a completion or a chunk, None if it has none."""
    choices = getattr(part, "choices", None)
    for choice in choices if isinstance(choices, list) else ():
        if (getattr(choice, "index", 0) or 0) == 0:
            return choice
    return None


def require_client(client: Any, *, is_awaited: bool) -> None:
    """Refuse what is no client, and a client of the other kind: its answer would not be awaitable, or never awaited."""
    if is_awaited:
        other: type = openai.OpenAI
        hint = "acomplete() and astream() await an openai.AsyncOpenAI; an OpenAI belongs to complete() and stream()."
    else:
        other = openai.AsyncOpenAI
        hint = "complete() and stream() call an openai.OpenAI; an AsyncOpenAI belongs to acomplete() and astream()."
    create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
    if client is not None and (isinstance(client, other) or not callable(create)):
        raise InvalidMessage(f"client cannot be {type(client).__name__} here: {hint}", field="client")


@contextmanager
def _errors_translated() -> Iterator[None]:
    """Raise this app's errors in place of the client's, where there is one; any other error is raised as it is."""
    try:
        yield
    except Exception as error:
        if isinstance(error, openai.APIError) and is_overflow(error):
            raise ProviderOverflow from error
        if isinstance(error, openai.APIResponseValidationError):
            raise InvalidReply(f"{error.message} Nothing was stored.") from error
        if is_unreadable(error):
            raise InvalidReply(_UNREADABLE) from error
        raise


def _reply_of(completion: Any) -> Reply:
    """A completion as a reply; :class:`InvalidReply` or :class:`EmptyReply` with what was received."""
    choice = _first_choice(completion)
    message = getattr(choice, "message", None)
    if message is None or not hasattr(message, "content"):
        raise InvalidReply(_UNREADABLE, completion=completion)
    reply = Reply(
        content=message.content or getattr(message, "refusal", None) or "",
        tool_calls=[_call(call, completion) for call in _calls(message, completion)],
        reasoning=_reasoning_of(message),
        usage=_usage_of(completion),
        model=getattr(completion, "model", None) or "",
        context_management=_reported_by(completion, message),
        completion=completion,
    )
    if not isinstance(reply.content, str):
        kind = type(reply.content).__name__
        raise InvalidReply(f"The content of the model's reply must be text, not {kind}.", **reply.as_attributes)
    return _require_something(reply, str(getattr(choice, "finish_reason", None) or ""))


def _calls(message: Any, completion: Any) -> list[Any]:
    calls = getattr(message, "tool_calls", None) or []
    if not isinstance(calls, list):
        raise InvalidReply("The model's reply has tool calls that are not a list.", completion=completion)
    return calls


def _call(call: Any, completion: Any) -> dict[str, Any]:
    function = getattr(call, "function", None)
    if function is None:
        message = "The model called a tool that is not a function; only functions can be stored."
        raise InvalidReply(message, completion=completion)
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    return {"id": getattr(call, "id", None), "type": "function", "function": {"name": name, "arguments": arguments}}


class ReplyDraft:
    """A reply put together from chunks. Chunks of any shape are accepted: unknown parts are ignored."""

    def __init__(self) -> None:
        #: Of the first choice; "" until the provider says how the reply ended.
        self.finish_reason = ""
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[Any] = []
        self._calls: list[_CallDraft] = []
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._context_management: Any = None

    @property
    def text(self) -> str:
        """The content so far; where there is none, the refusal."""
        return "".join(self._content) or "".join(self._refusal)

    def add(self, chunk: Any) -> None:
        is_over = bool(self.finish_reason)
        self._usage = _usage_of(chunk) or self._usage
        self._model = self._model or _text_of(getattr(chunk, "model", None))
        choice = _first_choice(chunk)
        self._context_management = _reported_by(chunk, getattr(choice, "delta", None)) or self._context_management
        # After the end only reports are expected: more text would be of a reply that nobody was shown.
        if choice is None or is_over:
            return
        self._add_delta(getattr(choice, "delta", None))
        self.finish_reason = _text_of(getattr(choice, "finish_reason", None)) or self.finish_reason

    def _add_delta(self, delta: Any) -> None:
        self._content.append(_text_of(getattr(delta, "content", None)))
        self._refusal.append(_text_of(getattr(delta, "refusal", None)))
        if reasoning := _reasoning_of(delta):
            self._reasoning.append(reasoning)
        for call in getattr(delta, "tool_calls", None) or ():
            self._add_call(call)

    def _add_call(self, delta: Any) -> None:
        index, call_id = getattr(delta, "index", None), _text_of(getattr(delta, "id", None))
        started = next((call for call in reversed(self._calls) if index is None or call.index == index), None)
        # Some servers send every call whole with index 0, or with none: another id is another call.
        if started is None or (call_id and started.id and call_id != started.id):
            started = _CallDraft(index)
            self._calls.append(started)
        started.add(call_id, getattr(delta, "function", None))

    def reply(self) -> Reply:
        """The whole reply; :class:`EmptyReply` if there is nothing in it."""
        reply = Reply(
            content=self.text,
            tool_calls=[call.whole() for call in self._calls],
            reasoning=_joined(self._reasoning),
            usage=self._usage,
            model=self._model,
            context_management=self._context_management,
        )
        return _require_something(reply, self.finish_reason)


class _CallDraft:
    """A tool call whose arguments come in pieces."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []

    def add(self, call_id: str, function: Any) -> None:
        self.id = self.id or call_id
        # The name comes whole, with the first piece; a few servers repeat it with each one.
        self._name = self._name or _text_of(getattr(function, "name", None))
        self._arguments.append(_text_of(getattr(function, "arguments", None)))

    def whole(self) -> dict[str, Any]:
        function = {"name": self._name, "arguments": "".join(self._arguments)}
        return {"id": self.id, "type": "function", "function": function}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _joined(parts: list[Any]) -> Any:
    """Reasoning as it would be in one piece: text joined, lists of blocks one after the other."""
    if not parts:
        return None
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return [block for part in parts for block in (part if isinstance(part, list) else [part])]
