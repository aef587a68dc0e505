"""A reply that is streamed: the provider's chunks as they are, and the whole of them stored at the end.

The prompt, the overflow recovery and what is stored are those of ``turns.complete``. What differs is what can
happen in between: a stream may be left, cut off or cancelled. The rule is one: **a reply is stored whole or not at
all.** It is whole once the provider has said how it ended (``finish_reason``); until then an aborted stream leaves
the tip as it was, and asking again is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from asgiref.sync import sync_to_async

from compaction_app.compaction.connections import require_no_transaction
from compaction_app.context.request import ContextRequest
from compaction_app.conversation import complete
from compaction_app.conversation.chat_model import AsyncOpenedStream, OpenedStream, Reply, require_client
from compaction_app.conversation.complete import Turn
from compaction_app.conversation.reply_chunks import ReplyDraft
from compaction_app.exceptions import StreamInterrupted
from compaction_app.models import ChatMessage


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
    """Ask the chat model at ``tip`` and hand on its chunks; the reply is appended at the end.

    Parameters, errors and the recovery from a prompt too long are those of :func:`complete`; all of them that the
    provider tells before its first chunk are raised here, so a view can still answer with a status. Usage is asked
    for (``stream_options``) unless the caller says otherwise: a value of their own, or None to send nothing.
    See :class:`ReplyStream` for what is stored when.
    """
    require_client(client, is_awaited=False)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    turn = complete.begin(tip, request, include_reasoning, params)
    turn, opened = complete.with_recovery(turn, lambda asked: OpenedStream.open(client, asked.arguments))
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

    ``await chat.astream(tip)`` opens it first, so that what fails before the first chunk is raised there.
    """

    require_client(client, is_awaited=True)

    async def open_it() -> tuple[Turn, AsyncOpenedStream]:
        request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
        turn = await sync_to_async(complete.begin)(tip, request, include_reasoning, params)
        return await complete.awith_recovery(turn, lambda asked: AsyncOpenedStream.open(client, asked.arguments))

    return AsyncReplyStream(open_it)


#: In place of a chunk: there are no more.
_END = object()


class _Streamed:
    """What both kinds of stream know of the reply."""

    def __init__(self) -> None:
        #: The reply as it was stored; None until it is.
        self.message: ChatMessage | None = None
        self._draft = ReplyDraft()
        self._is_over = False
        #: Chunks from the one with ``finish_reason`` on, to be handed on once the reply is stored.
        self._last: deque[Any] = deque()

    @property
    def text(self) -> str:
        """The content that has come so far."""
        return self._draft.text

    def _is_to_be_handed_on(self, chunk: Any) -> bool:
        return chunk is not _END and not self._draft.finish_reason

    def _interrupted(self, cause: Exception | None = None) -> StreamInterrupted:
        words = "broke off" if cause else "ended without a finish_reason"
        return StreamInterrupted(f"The model's reply {words}; nothing was stored.", partial=self.text)

    def _whole(self) -> Reply:
        if not self._draft.finish_reason:
            raise self._interrupted()
        return self._draft.reply()


class ReplyStream(_Streamed):
    """The chunks of one reply, and what becomes of it.

    - When ``finish_reason`` has come, the rest of the stream (the usage) is read, the reply is appended and the
      next compaction requested; then the last chunks are handed on. Whoever sees a ``finish_reason`` finds the
      stored reply in ``message``, and may stop there.
    - Left before (``break``, :meth:`close`, the end of the ``with`` block): nothing is appended, the connection to
      the provider is closed, at which most of them stop generating.
    - Broken off (the connection, an error inside the stream, an end without ``finish_reason``):
      :class:`StreamInterrupted` with the ``partial`` text, its cause chained; nothing is appended.
    - Nothing in it (no content, no tool call): :class:`EmptyReply`; nothing is appended.
    - Something in it that can not be stored: :class:`InvalidReply` with what came; nothing is appended.

    Neither a transaction nor a database connection is held between the chunks.
    """

    def __init__(self, turn: Turn, opened: OpenedStream) -> None:
        super().__init__()
        self._turn = turn
        self._opened = opened

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if not self._is_over:
            try:
                require_no_transaction(self._turn.using)
                chunk = self._receive()
                if self._is_to_be_handed_on(chunk):
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
            chunk = next(self._opened, _END)
        except Exception as error:
            # Whatever the client raises. A reply that had ended is whole, and its usage not worth losing it for.
            if self._draft.finish_reason:
                return _END
            raise self._interrupted(error) from error
        self._draft.add(chunk)
        return chunk

    def _finish(self, chunk: Any) -> None:
        last = []
        while chunk is not _END:
            last.append(chunk)
            chunk = self._receive()
        self.close()
        self.message = complete.end(self._turn, self._whole())
        self._last.extend(last)

    def close(self) -> None:
        """Leave the stream: what is not stored yet will not be."""
        self._is_over = True
        self._last.clear()
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that breaks drops its iterator, and nobody reads what the provider goes on generating.
        self._opened.close()


class AsyncReplyStream(_Streamed):
    """:class:`ReplyStream`, awaited: the same rules, and two more.

    - Cancelled while it waits for the provider: nothing is appended and the connection to it is closed. Cancelled
      while the reply is being stored, it is stored: a transaction is not stopped halfway.
    - Leave it by ``async with`` or :meth:`aclose`: a loop that only breaks can not await the closing, and the
      connection to the provider stays open until the iterator is collected.
    """

    def __init__(self, open_it: Callable[[], Awaitable[tuple[Turn, AsyncOpenedStream]]]) -> None:
        super().__init__()
        self._open_it = open_it
        self._opened: tuple[Turn, AsyncOpenedStream] | None = None

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begin().__await__()

    async def _begin(self) -> Self:
        await self._open()
        return self

    async def _open(self) -> tuple[Turn, AsyncOpenedStream]:
        if self._opened is None:
            self._opened = await self._open_it()
        return self._opened

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if not self._is_over:
            try:
                turn, opened = await self._open()
                chunk = await self._receive(opened)
                if self._is_to_be_handed_on(chunk):
                    return chunk
                await self._finish(turn, opened, chunk)
            except BaseException:
                await self.aclose()
                raise
        if not self._last:
            raise StopAsyncIteration
        return self._last.popleft()

    async def _receive(self, opened: AsyncOpenedStream) -> Any:
        try:
            chunk = await anext(opened, _END)
        except Exception as error:
            if self._draft.finish_reason:
                return _END
            raise self._interrupted(error) from error
        self._draft.add(chunk)
        return chunk

    async def _finish(self, turn: Turn, opened: AsyncOpenedStream, chunk: Any) -> None:
        last = []
        while chunk is not _END:
            last.append(chunk)
            chunk = await self._receive(opened)
        await self.aclose()
        self.message = await sync_to_async(complete.end)(turn, self._whole())
        self._last.extend(last)

    async def aclose(self) -> None:
        """Leave the stream: what is not stored yet will not be."""
        self._is_over = True
        self._last.clear()
        if self._opened is not None:
            await self._opened[1].close()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
