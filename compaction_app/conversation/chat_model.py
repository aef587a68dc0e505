"""Asking the chat model for a reply: the request goes out, the reply comes back whole or chunk by chunk.

The client checks little of what it receives: any part may be missing, or the whole may be a page of HTML. Anything
but a reply raises :class:`InvalidReply`; a prompt that is too long raises :class:`ProviderOverflow`, however the
provider says so.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from compaction_app.conf import site_setting
from compaction_app.context import windows
from compaction_app.context.overflow import Overflow, overflow_of_error, overflow_of_report
from compaction_app.exceptions import ContextOverflow, EmptyReply, InvalidMessage, InvalidReply
from compaction_app.messages.openai_format import parse_arguments
from compaction_app.messages.originals import bounded, fields_of, is_name, merged, read_message
from compaction_app.messages.validation import MAX_JSON_DEPTH, make_storable, sizes_of, storable, token_count
from compaction_app.summarizers.endpoint import MOST_BYTES, async_http_client, http_client, is_unreadable, openai
from compaction_app.summarizers.waiting import Way

#: In place of a chunk: there are no more.
END = object()
_UNREADABLE = "The chat model's endpoint answered with something that is not a chat completion; nothing was stored."


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's reply."""

    #: In the keywords of ``append_message``.
    fields: dict[str, Any]
    #: What the provider reports about its own context management, None where it reports nothing.
    context_management: Any = None
    #: The client's own object; None for a reply that was streamed.
    completion: Any = None

    @property
    def as_attributes(self) -> dict[str, Any]:
        """The attributes of the :class:`InvalidReply` that carries it."""
        return {"reply": self.fields, "completion": self.completion, "finish_reason": self.fields["finish_reason"]}

    def without_calls(self, *of: str) -> ModelReply:
        """Without its calls ``of`` some tools, or of all."""
        called = self.fields["tool_calls"] or []
        kept = [call for call in called if of and call["function"]["name"] not in of]
        return replace(self, fields={**self.fields, "tool_calls": kept, "original": None}) if kept != called else self

    def nonempty(self) -> ModelReply:
        """Raises :class:`EmptyReply`: an empty reply would be an empty message in every later prompt."""
        if any(self.fields[name] for name in ("tool_calls", "attachments")) or self.fields["content"].strip():
            return self
        ending = f" (finish_reason {self.fields['finish_reason']})" if self.fields["finish_reason"] else ""
        raise EmptyReply(
            f"The model's reply is empty: neither content nor a tool call{ending}.",
            usage=self.fields["usage"],
            **self.as_attributes,
        )


class ProviderOverflow(ContextOverflow):
    """The prompt is too long for this model.

    Its provider says so; the cause is the provider's own error.
    """

    overflow: Overflow


def endpoint_of_client(client: Any) -> str:
    """Where a client (None: the default one) asks: its address without query and last slash, "" where it has none."""
    if client is None:
        return windows.endpoint_of()
    url = getattr(client, "base_url", None)
    return windows.endpoint_of(str(url)) if url else ""


#: The client reads these when it is made.
_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


@lru_cache(maxsize=1)
def _client_for(*_environment: Any) -> openai.OpenAI:
    """One for each process, so that its connections are kept; another where the environment has changed."""
    return openai.OpenAI(http_client=http_client())


class _AsyncClient(threading.local):
    """The asynchronous client of a thread's event loop. Its connections belong to that loop, and a thread runs one."""

    made_for: Any = None
    client: openai.AsyncOpenAI
    #: Open as long as the client is.
    opened: AsyncGenerator[openai.AsyncOpenAI]


_async_client = _AsyncClient()


async def _default_client(way: Way) -> Any:
    environment = map(os.environ.get, _VARIABLES)
    if not way.is_awaited:
        return _client_for(os.getpid(), *environment)
    wanted = (asyncio.get_running_loop(), *environment)
    if _async_client.made_for != wanted:
        opened = _open_async_client()
        _async_client.client = await anext(opened)
        _async_client.opened, _async_client.made_for = opened, wanted
    return _async_client.client


async def _open_async_client() -> AsyncGenerator[openai.AsyncOpenAI]:
    """A generator because ``asyncio.run`` ends those of its loop, and only that loop can close the connections."""
    async with openai.AsyncOpenAI(http_client=async_http_client()) as client:
        yield client


async def ask(client: Any, request: Mapping[str, Any], way: Way) -> ModelReply:
    """One call of ``client.chat.completions.create``; :class:`ProviderOverflow` if the prompt is too long."""
    with _errors_translated():
        client = client or await _default_client(way)
        completion = await way.call(client.chat.completions.create, **request)
    return PartialReply(endpoint_of_client(client), request["model"]).whole(completion)


#: Where a text is in a chunk: keys and indexes.
TextPlace = tuple[str | int, ...]


def _of_whole_characters(chunk: Any, held: dict[TextPlace, str]) -> list[Any]:
    """The chunk, behind another one for each half of a character that is left of a choice that ends.

    JSON may write an emoji as two escapes, and servers that count in such halves cut between them. The first half is
    ``held`` back, by the place of its text, until the other half comes: each text of each choice is put together by
    itself. A half that stays alone is U+FFFD, at the latest before its choice ends.
    """
    ended = {number for number, one in _numbered(getattr(chunk, "choices", None)) if getattr(one, "finish_reason", "")}

    def join(value: Any, place: TextPlace) -> Any:
        if isinstance(value, str):
            text = held.pop(place, "") + value if value else ""
            goes_on = place[2:3] == ("delta",) and place[1] not in ended and not is_name(str(place[-1]))
            if goes_on and "\ud800" <= text[-1:] <= "\udbff":
                text, held[place] = text[:-1], text[-1]
            return make_storable(text)
        if len(place) > MAX_JSON_DEPTH:
            return value
        if isinstance(value, list):
            return [join(item, (*place, number)) for number, item in _numbered(value)]
        if isinstance(value, Mapping):
            return {key: join(item, (*place, key)) for key, item in value.items()}
        for name, item in {**getattr(value, "__dict__", {}), **(getattr(value, "model_extra", None) or {})}.items():
            # What did not come must not look as if it had.
            if (whole := join(item, (*place, name))) != item:
                setattr(value, name, whole)
        return value

    join(chunk, ())
    return [*(_chunk_at(place, chunk) for place in [*held] if place[1] in ended and held.pop(place)), chunk]


def _numbered(items: Any) -> list[tuple[int, Any]]:
    """Parts of a chunk with the index that they name, else with their position."""
    parts = items if isinstance(items, list) else []
    named = [(item.get("index") if isinstance(item, Mapping) else getattr(item, "index", None)) for item in parts]
    return [(own if isinstance(own, int) else at, parts[at]) for at, own in enumerate(named)]


def _chunk_at(place: TextPlace, like: Any) -> Any:
    """A chunk of the same reply with one U+FFFD at a place."""
    made: Any = "\N{REPLACEMENT CHARACTER}"
    for step in reversed(place):
        made = {step: made} if isinstance(step, str) else [{"index": step, **made} if isinstance(made, dict) else made]
    shared = {name: getattr(like, name, None) for name in ("id", "object", "created", "model")}
    return openai.types.chat.ChatCompletionChunk.construct(**shared, **made)


@dataclass(slots=True)
class OpenedStream:
    """A provider's stream with its first chunk read: an overflow is reported before it, or never."""

    #: A client without a reference closes its connections.
    client: Any
    source: Any
    way: Way
    #: Chunks that were received and not taken; after the last one :data:`END`.
    ready: deque[Any] = field(default_factory=deque)
    #: Halves of characters.
    _held: dict[TextPlace, str] = field(default_factory=dict)
    #: Held by a thread while it waits for a chunk.
    _being_read: threading.Lock = field(default_factory=threading.Lock)

    async def read(self) -> Any:
        """The next chunk; :data:`END` after the last one."""
        if not self.ready:
            self.ready.extend(_of_whole_characters(await self._receive(), self._held))
        return self.ready.popleft()

    async def _receive(self) -> Any:
        if self.way.is_awaited:
            return await anext(self.source, END)
        with self._being_read:
            return next(self.source, END)

    async def close(self) -> None:
        if self._being_read.locked() and _hang_up(self.source):
            # Closed before the reader has left, the socket's number may at once be that of another connection, a
            # database's for example, and the reader would go on waiting for that one.
            with self._being_read:
                pass
        await self.way.call(self.source.close)


def _hang_up(source: Any) -> bool:
    """End the connection of a stream that another thread reads; False where it cannot be reached.

    Closing a socket neither wakes a thread that waits for it nor tells the other side, as long as the thread waits.
    """
    response: Any = getattr(source, "response", None)
    connection = getattr(response, "extensions", {}).get("network_stream")
    raw = connection.get_extra_info("socket") if connection else None
    # Of HTTP/2 other requests have the same socket; so may they, where the response was read to its end.
    if not isinstance(raw, socket.socket) or response.http_version != "HTTP/1.1" or response.is_closed:
        return False
    with suppress(OSError):
        # Not that of an SSLSocket, which would have its reader read what is encrypted.
        socket.socket.shutdown(raw, socket.SHUT_RDWR)
    return True


async def open_stream(client: Any, request: Mapping[str, Any], way: Way) -> OpenedStream:
    """Send the request as a stream; the errors are those of :func:`ask`."""
    with _errors_translated():
        client = client or await _default_client(way)
        # With usage at its end, unless the caller sets ``stream_options``; None is not sent.
        asked = {"stream_options": {"include_usage": True}, **request, "stream": True}
        if asked["stream_options"] is None:
            del asked["stream_options"]
        source = await way.call(client.chat.completions.create, **asked)
        opened = OpenedStream(client, source, way)
        try:
            opened.ready.appendleft(await opened.read())
        except BaseException:
            await opened.close()
            raise
        return opened


#: Words in a finish_reason of a reply that is none: the provider failed, or took back what the model wrote.
_NO_END = re.compile(
    r"error|filter|safety|sensitive|abort|cancel|fail|malformed|prohibited|recitation|insufficient|block"
)


#: Of a report that is larger only the counts are kept, as many as providers give.
_MOST_USAGE_BYTES = 20_000


def _usage_of(part: Any) -> dict[str, Any]:
    """The usage that a completion or a chunk reports; empty if it reports none."""
    usage = getattr(part, "usage", None)
    if not isinstance(usage, openai.BaseModel):
        return {}
    reported = dict(storable(usage.model_dump(exclude_none=True, warnings=False)))
    if sum(sizes_of(reported).values()) <= _MOST_USAGE_BYTES:
        return reported
    counts = ((name, count) for name, count in reported.items() if token_count(count) is not None and len(name) < 100)
    return dict(islice(counts, 20))


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
        if isinstance(error, openai.APIError) and (overflow := overflow_of_error(error)):
            raise ProviderOverflow(overflow=overflow) from error
        if isinstance(error, openai.APIResponseValidationError):
            raise InvalidReply(f"{error.message} Nothing was stored.") from error
        if is_unreadable(error):
            raise InvalidReply(_UNREADABLE) from error
        raise


#: Characters of an id that is made: every provider accepts it.
_MADE_ID = 9
#: Arguments of one call, of which each piece may be the last, are not read again and again for ever.
_MOST_REREAD = 5_000_000
#: To read a piece again costs as much as reading this many characters more.
_PIECE = 20


class PartialReply:
    """A reply put together from chunks. Chunks of any shape are accepted: unknown parts are ignored."""

    def __init__(self, endpoint: str = "", model: str = "") -> None:
        #: Of the first choice; "" until the provider says how the reply ended.
        self.finish_reason = ""
        self._source = {"endpoint": endpoint, "model": model}
        self._id = ""
        self._error: Any = None
        self._deltas: list[dict[str, Any]] = []
        #: Characters that may still come. The default client bounds its bytes; a host's own may not.
        self._room = MOST_BYTES
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[_CallDraft] = []
        self._ids: set[str] = set()
        #: By index, and by index and id; under None whatever index they have.
        self._newest: dict[Any, _CallDraft] = {}
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._context_management: Any = None

    @property
    def text(self) -> str:
        """The content so far; where there is none, the refusal."""
        return "".join(self._texts["content"]) or "".join(self._texts["refusal"])

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def add(self, chunk: Any) -> None:
        is_over = bool(self.finish_reason)
        delta = self._note(chunk, "delta")
        # After the end only reports are expected: more text would be of a reply that nobody was shown.
        if delta is not None and not is_over:
            drafts = self._add_delta(storable(delta))
            pieces = getattr(delta, "tool_calls", None)
            for piece, draft in zip(pieces if isinstance(pieces, list) else (), drafts, strict=False):
                if isinstance(piece, openai.BaseModel) and draft is not None:
                    draft.show_id(piece)

    def whole(self, completion: Any) -> ModelReply:
        """The reply of a completion; :class:`InvalidReply` or :class:`EmptyReply` with what was received."""
        message = self._note(completion, "message")
        if not self._error and (message is None or not hasattr(message, "content")):
            raise InvalidReply(_UNREADABLE, completion=completion)
        # Of a stream it is no overflow any more: a part of the answer was read.
        if overflow := overflow_of_report(self._error):
            raise ProviderOverflow(overflow=overflow)
        return self._checked(self._reply_of(storable(message) if message is not None else {}, completion))

    def _note(self, part: Any, name: str) -> Any:
        """What a completion or a chunk says beside the text; returns the message, or the delta, of its first choice."""
        choices = getattr(part, "choices", None)
        numbered = choices if isinstance(choices, list) else ()
        choice = next((one for one in numbered if (getattr(one, "index", 0) or 0) == 0), None)
        message = getattr(choice, name, None)
        self.finish_reason = self.finish_reason or _text_of(getattr(choice, "finish_reason", None))
        self._usage = _usage_of(part) or self._usage
        self._model = self._model or _text_of(getattr(part, "model", None))
        self._id = self._id or _text_of(getattr(part, "id", None))
        self._error = self._error or getattr(part, "error", None) or getattr(choice, "error", None)
        # LiteLLM puts it on the message, or the delta.
        reported = getattr(part, "context_management", None) or getattr(message, "provider_specific_fields", None)
        self._context_management = reported or self._context_management
        return message

    def _add_delta(self, delta: Any) -> list[_CallDraft | None]:
        """Returns the call of each piece of one."""
        if not isinstance(delta, Mapping):
            return []
        self._room -= len(str(delta))
        if self._room < 0:
            raise InvalidReply(f"The model's reply has more than {MOST_BYTES} characters; nothing was stored.")
        calls = delta.get("tool_calls") or ()
        self._deltas.append({key: value for key, value in delta.items() if key != "tool_calls"})
        for key, texts in self._texts.items():
            texts.append(read_message({"role": "user", "content": delta.get(key)}, writer="model").text())
        pieces = [calls] if isinstance(calls, Mapping) else calls if isinstance(calls, list) else ()
        return [self._add_call(one) if isinstance(one, Mapping) else None for one in pieces]

    def _add_call(self, piece: Mapping[str, Any]) -> _CallDraft:
        """A chunk has at most one piece of each call."""
        index, call_id, chunk = piece.get("index"), _text_of(piece.get("id")), len(self._deltas)
        index = index if isinstance(index, int | str) else None
        current = (self._newest.get((index, call_id)) if call_id else None) or self._newest.get(index)
        if current is None or current.is_followed_by(piece, in_one_chunk=current.chunk == chunk):
            is_free = bool(call_id.strip()) and call_id not in self._ids
            current = _CallDraft(chunk, call_id if is_free else uuid.uuid4().hex[:_MADE_ID])
            self._ids.add(current.stored_id)
            self._calls.append(current)
            self._newest |= {index: current, None: current}
        current.add(piece)
        self._newest |= {(index, current.id): current, (None, current.id): current}
        return current

    def reply(self) -> ModelReply:
        """The whole reply; raises where it is none, with what was received: :class:`EmptyReply` if that is nothing."""
        return self._checked(self.so_far())

    def so_far(self) -> ModelReply:
        data = merged(self._deltas) or {}
        if self._calls:
            data["tool_calls"] = [call.whole() for call in self._calls]
        return self._reply_of({"role": "assistant", **data})

    def _reply_of(self, data: Mapping[str, Any], completion: Any = None) -> ModelReply:
        fields = {
            **fields_of(data, source=self._source, salt=self._id),
            "usage": self._usage,
            "model": make_storable(self._model)[:255],
            "finish_reason": make_storable(self.finish_reason)[:255],
        }
        # The rest is for what is stored with it.
        fields = bounded(fields, site_setting("MAX_MESSAGE_BYTES") * 9 // 10)
        return ModelReply(fields, self._context_management, completion)

    def _checked(self, reply: ModelReply) -> ModelReply:
        reason = reply.fields["finish_reason"]
        ending = f" (finish_reason {reason})" if reason else ""
        if self._error or _NO_END.search(reason.lower()):
            raise InvalidReply(f"The model's reply ended in an error or was taken back{ending}.", **reply.as_attributes)
        return reply.nonempty()


class _CallDraft:
    """A tool call that comes in pieces, in any of the ways in which servers cut it.

    Its arguments come as parts of a text, as a text that grows with each piece, as one text, or as an object.
    """

    def __init__(self, chunk: int, stored_id: str) -> None:
        #: In which it began.
        self.chunk = chunk
        #: That of its first piece, or one that is made where that has none, or another call's.
        self.stored_id = stored_id
        self.id = ""
        self.name = ""
        self._pieces: list[dict[str, Any]] = []
        self._arguments: list[Any] = []
        #: Characters, keys and pieces in them, and how many more are read to see whether they are complete.
        self._size, self._room = 0, _MOST_REREAD

    def add(self, piece: Mapping[str, Any]) -> None:
        inner = _inner(piece)
        self.id = self.id or _text_of(piece.get("id"))
        self.name = self.name or _text_of(inner.get("name"))
        arguments = inner.get("arguments")
        if arguments not in (None, "") and not self._is_repeated_by(arguments, _text_of(piece.get("id"))):
            self._arguments.append(arguments)
            self._size += _PIECE + (len(arguments) if isinstance(arguments, str | Mapping) else 0)
        function = (
            {"function": {key: inner[key] for key in inner if key != "arguments"}} if "custom" not in piece else {}
        )
        self._pieces.append({**{key: piece[key] for key in piece if key != "function"}, **function})

    def show_id(self, piece: Any) -> None:
        """Have a reader of the stream see the id that is stored, and no other that comes later."""
        if len(self._pieces) == 1:
            piece.id = self.stored_id
        elif piece.id and piece.id != self.stored_id:
            piece.id = None

    def is_followed_by(self, piece: Mapping[str, Any], *, in_one_chunk: bool) -> bool:
        """Whether a piece under the same index begins another call: some servers number none, or all of them 0."""
        inner = _inner(piece)
        name, arguments, call_id = _text_of(inner.get("name")), inner.get("arguments"), _text_of(piece.get("id"))
        if call_id and self.id and call_id != self.id:
            # A few servers make a new id for each piece of one call.
            return bool(name) or in_one_chunk or self._is_complete
        if in_one_chunk or (name and self.name and name != self.name):
            return not (call_id and call_id == self.id and name == self.name and not arguments)
        if arguments in (None, "") or not self._is_complete:
            return False
        # An object or a text that has grown enough.
        grows = isinstance(arguments, Mapping) and not name
        begins = isinstance(arguments, Mapping) or str(arguments).lstrip()[:1] == "{"
        return begins and not grows and not self._is_repeated_by(arguments, call_id)

    def _is_repeated_by(self, arguments: Any, call_id: str) -> bool:
        """Whether a piece is the whole again, as some servers end a call; one piece may be that of an equal call."""
        surely = len(self._arguments) > 1 or bool(call_id and call_id == self.id)
        return surely and self._is_complete and arguments == self._whole_arguments

    @property
    def _is_complete(self) -> bool:
        if not self._arguments:
            return False
        last = self._arguments[-1]
        if self._room < 0 or (isinstance(last, str) and last.rstrip()[-1:] != "}"):
            return False
        self._room -= self._size
        return not isinstance(last, str) or parse_arguments(self._whole_arguments) is not None

    @property
    def _whole_arguments(self) -> Any:
        pieces = self._arguments
        if not all(isinstance(piece, str) for piece in pieces):
            objects = [piece for piece in pieces if isinstance(piece, Mapping)]
            return {key: value for piece in objects for key, value in piece.items()} if objects else pieces[-1]
        text = "".join(pieces)
        grows = len(pieces) > 1 and all(after.startswith(before) for before, after in pairwise(pieces))
        return pieces[-1] if grows and parse_arguments(text) is None else text

    def whole(self) -> dict[str, Any]:
        data: dict[str, Any] = merged(self._pieces)
        data.pop("index", None)
        if "function" in data:
            data["function"] = {**(data["function"] or {}), "name": self.name, "arguments": self._whole_arguments}
        return {"type": "function", **data, "id": self.stored_id}


def _inner(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = piece.get("function") or piece.get("custom")
    return inner if isinstance(inner, Mapping) else {}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
