"""A reply that is streamed: the provider's chunks as they are, and the whole reply stored at the end.

The prompt, the overflow recovery and what is stored are those of :func:`complete`. What differs is what can happen in
between: a stream may be closed early, broken off or cancelled. There is one rule: **a reply is stored whole or not at
all.** It is whole once the provider has sent its ``finish_reason``; until then an aborted stream leaves the tip as it
was, and asking again is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from asgiref.sync import sync_to_async

from compaction_app.compaction.runs import require_no_transaction
from compaction_app.context.reading import ContextRequest
from compaction_app.conversation import chat_model
from compaction_app.conversation.chat_model import END, OpenedStream, Reply, ReplyDraft
from compaction_app.conversation.complete import Turn, aask_with_recovery, ask_with_recovery, finish_turn, start_turn
from compaction_app.exceptions import StreamInterrupted
from compaction_app.models import ChatMessage
from compaction_app.values import ChatContext

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

#: Chunks from the ``finish_reason`` on that are read: it may come a few times, with the usage after it.
_MOST_AFTER_END = 20


def stream(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    include_reasoning: bool = False,
    **params: Any,
) -> ReplyStream:
    """Ask the chat model at ``tip`` and yield its chunks; the reply is appended at the end.

    Parameters, errors and the recovery from a prompt that is too long are those of :func:`complete`; errors that the
    provider reports before its first chunk are raised here, so a view can still answer with a status. Usage is asked
    for (``stream_options``) unless the caller passes a value of their own, or None to send nothing.
    See :class:`ReplyStream` for what is stored when. Of the default client ``timeout`` (600 s) is the longest time
    between two chunks, and a stream ends after an hour, or after ``timeout`` where that is more.
    """
    chat_model.require_client(client, is_awaited=False)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    turn = start_turn(tip, request, include_reasoning, params)
    turn, opened = ask_with_recovery(turn, lambda asked: chat_model.open_stream(client, asked.arguments))
    return ReplyStream(turn, opened)


def astream(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    include_reasoning: bool = False,
    **params: Any,
) -> AsyncReplyStream:
    """:func:`stream` with an ``openai.AsyncOpenAI``: ``async for chunk in chat.astream(tip)``.

    ``await chat.astream(tip)`` opens it first, so that errors before the first chunk are raised there.
    """
    chat_model.require_client(client, is_awaited=True)

    async def open_it() -> tuple[Turn, OpenedStream]:
        request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
        turn = await sync_to_async(start_turn)(tip, request, include_reasoning, params)
        return await aask_with_recovery(turn, lambda asked: chat_model.aopen_stream(client, asked.arguments))

    return AsyncReplyStream(open_it)


class _ReplyCollector:
    """The reply of a stream, sync or async."""

    def __init__(self) -> None:
        #: The stored reply; None until it is stored.
        self.message: ChatMessage | None = None
        #: What was sent; of an asynchronous stream None until it is open.
        self.context: ChatContext | None = None
        self._draft = ReplyDraft()
        self._is_over = False
        #: Chunks from the one with ``finish_reason`` on, yielded once the reply is stored.
        self._last: deque[ChatCompletionChunk] = deque()

    @property
    def fallback_used(self) -> bool:
        """Whether the prompt was cut to fit, because compaction is late or failing."""
        return self.context is not None and self.context.fallback_used

    @property
    def text(self) -> str:
        """The content received so far."""
        return self._draft.text

    def _may_yield(self, chunk: Any) -> bool:
        return chunk is not END and not self._draft.finish_reason

    def _end_at(self, error: Exception) -> Any:
        """Whatever the client raised. If the reply is complete and only the usage report is lost, keep the reply."""
        if self._draft.finish_reason:
            return END
        raise self._interrupted(error) from error

    def _interrupted(self, cause: Exception | None = None) -> StreamInterrupted:
        how = "broke off" if cause else "ended without a finish_reason"
        return StreamInterrupted(f"The model's reply {how}; nothing was stored.", partial=self.text)

    def _whole(self) -> Reply:
        if not self._draft.finish_reason:
            raise self._interrupted()
        return self._draft.reply()


class ReplyStream(_ReplyCollector):
    """The chunks of one reply, which is stored at the end.

    - At ``finish_reason`` the rest of the stream (the usage) is read, the reply is appended and the next compaction
      requested; then the last chunks are yielded. A caller that sees a ``finish_reason`` finds the stored reply in
      ``message``, and may stop there.
    - Closed before (``break``, :meth:`close`, the end of the ``with`` block): nothing is appended. The connection to
      the provider is closed, which makes most of them stop generating.
    - Broken off (the connection, an error inside the stream, an end without ``finish_reason``):
      :class:`StreamInterrupted` with the ``partial`` text, its cause chained; nothing is appended.
    - Empty (no content, no tool call): :class:`EmptyReply`; nothing is appended.
    - Not storable: :class:`InvalidReply` with what was received; nothing is appended.

    Neither a transaction nor a database connection is held between the chunks.
    """

    def __init__(self, turn: Turn, opened: OpenedStream) -> None:
        super().__init__()
        self._turn = turn
        self.context = turn.context
        self._opened = opened

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatCompletionChunk:
        if not self._is_over:
            try:
                require_no_transaction(self._turn.using)
                chunk: ChatCompletionChunk = self._receive()
                if self._may_yield(chunk):
                    return chunk
                self._finish(chunk)
            except BaseException:
                self.close()
                raise
        if not self._last:
            raise StopIteration
        return self._last.popleft()

    def _receive(self) -> Any:
        try:
            opened = self._opened
            chunk = opened.first.pop() if opened.first else next(opened.source, END)
        except Exception as error:
            return self._end_at(error)
        self._draft.add(chunk)
        return chunk

    def _finish(self, chunk: Any) -> None:
        last: list[Any] = []
        while chunk is not END and len(last) < _MOST_AFTER_END:
            last.append(chunk)
            chunk = self._receive()
        self.close()
        self.message = finish_turn(self._turn, self._whole())
        self._last.extend(last)

    def close(self) -> None:
        """End the stream; a reply that is not stored yet will not be."""
        self._is_over = True
        self._last.clear()
        self._opened.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that breaks drops its iterator, and the provider would go on generating for no reader.
        self._opened.source.close()


class AsyncReplyStream(_ReplyCollector):
    """:class:`ReplyStream`, awaited: the same rules, and two more.

    - Cancelled while it waits for the provider: nothing is appended and the connection to it is closed. Cancelled
      while the reply is being stored: it is stored, since a transaction is not stopped halfway.
    - Close it with ``async with`` or :meth:`aclose`: a loop that only breaks cannot await the closing, and the
      connection to the provider stays open until the iterator is collected.
    """

    def __init__(self, open_it: Callable[[], Awaitable[tuple[Turn, OpenedStream]]]) -> None:
        super().__init__()
        self._open_it = open_it
        self._opened: tuple[Turn, OpenedStream] | None = None

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begin().__await__()

    async def _begin(self) -> Self:
        await self._open()
        return self

    async def _open(self) -> tuple[Turn, OpenedStream]:
        if self._opened is None:
            self._opened = await self._open_it()
            self.context = self._opened[0].context
        return self._opened

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        if not self._is_over:
            try:
                turn, opened = await self._open()
                chunk: ChatCompletionChunk = await self._receive(opened)
                if self._may_yield(chunk):
                    return chunk
                await self._finish(turn, opened, chunk)
            except BaseException:
                await self.aclose()
                raise
        if not self._last:
            raise StopAsyncIteration
        return self._last.popleft()

    async def _receive(self, opened: OpenedStream) -> Any:
        try:
            chunk = opened.first.pop() if opened.first else await anext(opened.source, END)
        except Exception as error:
            return self._end_at(error)
        self._draft.add(chunk)
        return chunk

    async def _finish(self, turn: Turn, opened: OpenedStream, chunk: Any) -> None:
        last: list[Any] = []
        while chunk is not END and len(last) < _MOST_AFTER_END:
            last.append(chunk)
            chunk = await self._receive(opened)
        await self.aclose()
        self.message = await sync_to_async(finish_turn)(turn, self._whole())
        self._last.extend(last)

    async def aclose(self) -> None:
        """End the stream; a reply that is not stored yet will not be."""
        self._is_over = True
        self._last.clear()
        if self._opened is not None:
            await self._opened[1].source.close()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
