"""A reply that is streamed: the provider's chunks as they are, and the whole reply stored at the end.

The prompt, the overflow recovery and what is stored are those of :func:`complete`. What differs is what can happen in
between: a stream may be closed early, broken off or cancelled. There is one rule: **a reply is stored whole or not at
all.** It is whole once the provider has sent its ``finish_reason``; until then an aborted stream leaves the tip as it
was, and asking again is safe. The exception is asked for: with ``on_stop="keep"`` a reply that its reader stops is
stored as far as it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from compaction_app.conversation import chat_model
from compaction_app.conversation.chat_model import END, ModelReply, OpenedStream, PartialReply
from compaction_app.conversation.complete import AskedTurn, Question, claim_and_ask, finish_turn
from compaction_app.conversation.usage import sent_context
from compaction_app.exceptions import InvalidMessage, InvalidReply, StreamInterrupted
from compaction_app.messages.transcript import RECALL_TOOLS
from compaction_app.models import ChatMessage
from compaction_app.models.database import require_no_transaction
from compaction_app.summarizers.endpoint import openai
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, takes_the_arguments_of, without_waiting
from compaction_app.values import ChatContext, Strategy

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

#: Of a reply that its reader stopped, in place of the provider's ``finish_reason``.
STOPPED = "stopped"
OnStop = Literal["discard", "keep"]
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
    system_prompt: str | None = None,
    regenerate: bool = False,
    recall: bool | Literal["prefetch"] = False,
    on_stop: OnStop = "discard",
    at_once: int | None = None,
    **params: Any,
) -> ReplyStream:
    """Ask the chat model at ``tip`` and yield its chunks; the reply is appended at the end.

    Parameters, errors and the recovery from a prompt that is too long are those of :func:`complete`; errors that the
    provider reports before its first chunk are raised here, so a view can still answer with a status. Usage is asked
    for (``stream_options``) unless the caller passes a value of their own, or None to send nothing.
    With ``recall`` the chunks of searches are not yielded: after them come those of the next reply.
    See :class:`ReplyStream` for what is stored when, and for ``on_stop``. A reply that is stored already comes in two
    chunks; ``regenerate=True`` asks for another one. Of the default client ``timeout`` (600 s) is the longest time
    between two chunks, and a stream ends after an hour, or after ``timeout`` where that is more.
    """
    asked = dict(locals())
    del asked["on_stop"]
    return ReplyStream(Question.of(BLOCKING, **asked.pop("params"), **asked), on_stop)


@takes_the_arguments_of(stream)
def astream(tip: ChatMessage, *, on_stop: OnStop = "discard", **options: Any) -> AsyncReplyStream:
    """:func:`stream` with an ``openai.AsyncOpenAI``: ``async for chunk in chat.astream(tip)``.

    ``await chat.astream(tip)`` opens it first, so that errors before the first chunk are raised there.
    """
    return AsyncReplyStream(Question.of(AWAITED, tip, **options), on_stop)


def chunks_of(stored: ChatMessage) -> list[ChatCompletionChunk]:
    """A stored reply as a provider streams one: all of it, then its ``finish_reason``."""
    delta: dict[str, Any] = {"role": stored.role, "content": stored.content}
    if stored.tool_calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(stored.tool_calls)]
    if stored.reasoning:
        delta["reasoning"] = stored.reasoning
    ending = stored.finish_reason or ("tool_calls" if stored.tool_calls else "stop")
    return [
        openai.types.chat.ChatCompletionChunk.construct(
            id=f"message-{stored.pk}",
            object="chat.completion.chunk",
            created=int(stored.created_at.timestamp()),
            model=stored.model,
            choices=[{"index": 0, "delta": part, "finish_reason": reason}],
        )
        for part, reason in ((delta, None), ({}, ending))
    ]


def _without_searches(chunks: list[Any]) -> list[Any]:
    """The chunks of a reply that has other calls, too. A name comes with the first piece of its call."""
    searches = set[int]()
    for choice in (choice for chunk in chunks for choice in getattr(chunk, "choices", None) or ()):
        if pieces := getattr(getattr(choice, "delta", None), "tool_calls", None):
            searches |= {one.index for one in pieces if one.function and one.function.name in RECALL_TOOLS}
            choice.delta.tool_calls = [one for one in pieces if one.index not in searches]
            for one in choice.delta.tool_calls:
                one.index -= sum(search < one.index for search in searches)
    return chunks


class _ReplyCollector:
    """The reply of a stream, sync or async."""

    _opened: OpenedStream | None = None
    _turn: AskedTurn

    def __init__(self, question: Question, on_stop: OnStop) -> None:
        if on_stop not in ("discard", "keep"):
            raise InvalidMessage(f'on_stop must be "discard" or "keep", not {on_stop!r}.', field="on_stop")
        self._do, self.on_stop = question.way.do, on_stop
        self._take(question)
        #: The stored reply; None until it is stored.
        self.message: ChatMessage | None = None
        #: What was sent. None where the reply was stored before, and of an asynchronous stream until it is open.
        self.context: ChatContext | None = None
        self._is_over = False

    def _take(self, question: Question) -> None:
        self._question = question
        self._claim = question.claim()
        self._draft = PartialReply()
        #: Chunks that are yielded once the reply is stored: from the one with ``finish_reason`` on, and calls before it
        #: that may be searches.
        self._last: deque[ChatCompletionChunk] = deque()

    @property
    def sent(self) -> Mapping[str, Any]:
        """What was sent, as a reply keeps it in ``sent_context``: ids and numbers; empty where nothing is known."""
        if self.context is not None:
            return sent_context(self.context, None, {})
        return (self.message and self.message.sent_context) or {}

    @property
    def fallback_used(self) -> bool:
        """Whether the prompt was cut to fit, because compaction is late or failing."""
        return self.sent.get("strategy") == Strategy.TRUNCATED

    @property
    def text(self) -> str:
        """The content received so far."""
        return self._draft.text

    async def _start(self) -> None:
        """Ask the model, unless the reply is stored."""
        try:
            found = await claim_and_ask(self._question, self._claim, chat_model.open_stream)
        except BaseException:
            await self._do(self._claim.release)
            raise
        # From here on the stream has the claim, until it ends. It may have been closed while it was opened.
        is_closed = self._is_over
        if isinstance(found, ChatMessage):
            self._is_over, self.message = True, found
            self._last.extend(chunks_of(found))
            for chunk in self._last:
                self._draft.add(chunk)
            if not is_closed:
                await self._go_on()
        else:
            self._turn, self._opened = found
            self.context = self._turn.context
            self._draft = PartialReply(self._turn.request.endpoint or "", self._turn.resolved.model)
        if is_closed:
            await self._end()

    def _kept(self) -> tuple[ModelReply, str] | None:
        """What is stored of a reply that its reader stops, and its ``finish_reason``; None: nothing is.

        Without tool calls: the last may be half of one, and nobody is left to answer the others.
        """
        if self.on_stop != "keep" or self._is_over:
            return None
        try:
            reply = self._draft.reply()
        except InvalidReply:
            # Empty, or it ended in an error: not stored either if it were read to its end.
            return None
        if self._draft.finish_reason:
            return reply, ""
        return (reply.without_calls(), STOPPED) if self.text.strip() else None

    async def _advance(self) -> Any:
        """The next chunk; :data:`END` after the last one."""
        try:
            if self._opened is None and not self._is_over:
                await self._start()
            while self._opened is not None and not self._is_over:
                if not self._question.way.is_awaited:
                    require_no_transaction(self._turn.tip)
                chunk = await self._receive(self._opened)
                # Another task or thread may have closed it meanwhile.
                if chunk is END or self._draft.finish_reason or self._is_over:
                    await self._finish(self._opened, chunk)
                elif self._question.may_search and self._draft.has_calls:
                    self._last.append(chunk)
                else:
                    return chunk
        except Exception as error:
            if self._opened and not hasattr(error, "reply"):
                # Of a transaction, say, that the reader has opened between two chunks.
                vars(error).update(self._draft.so_far().as_attributes)
            await self._end()
            raise
        except BaseException:
            await self._close()
            raise
        return self._last.popleft() if self._last else END

    async def _receive(self, opened: OpenedStream) -> Any:
        try:
            chunk = await opened.read()
        except Exception as error:
            # Whatever the client raised. If the reply is complete and only the usage report is lost, it is kept.
            if self._draft.finish_reason or self._is_over:
                return END
            raise self._interrupted(error) from error
        self._draft.add(chunk)
        if self._question.searches:
            # It came with the reply that searched; clients that put the chunks together would have it twice.
            for choice in getattr(chunk, "choices", None) or ():
                if delta := getattr(choice, "delta", None):
                    delta.role = None
        return chunk

    async def _finish(self, opened: OpenedStream, chunk: Any) -> None:
        last: list[Any] = []
        while chunk is not END and len(last) < _MOST_AFTER_END and not self._is_over:
            last.append(chunk)
            chunk = await self._receive(opened)
        if self._is_over:
            return
        if not self._draft.finish_reason:
            raise self._interrupted()
        await self._store(self._draft.reply())
        held = [*self._last, *last]
        await self._end()
        self._last.extend(_without_searches(held) if self._question.may_search else held)
        await self._go_on()

    async def _go_on(self) -> None:
        """Where the stored reply calls for a search: answer it, and open the stream of the next reply."""
        if self._question.may_search and (following := await self._do(self._question.after_searches, self.message)):
            self._take(following)
            self._opened, self._is_over, self.message = None, False, None
            await self._start()

    async def _store(self, reply: ModelReply, finish_reason: str = "") -> None:
        self._is_over = True
        self.message = await self._do(finish_turn, self._turn, reply, finish_reason)

    async def _end(self) -> None:
        self._is_over = True
        self._last.clear()
        if self._opened is not None:
            try:
                await self._opened.close()
            finally:
                await self._do(self._claim.release)

    async def _close(self) -> None:
        try:
            if self._opened and (kept := self._kept()):
                await self._store(*kept)
        finally:
            await self._end()

    def _interrupted(self, cause: Exception | None = None) -> StreamInterrupted:
        how = "broke off" if cause else "ended without a finish_reason"
        came = self._draft.so_far().as_attributes
        return StreamInterrupted(f"The model's reply {how}; nothing was stored.", partial=self.text, **came)


class ReplyStream(_ReplyCollector):
    """The chunks of one reply, which is stored at the end.

    - At ``finish_reason`` the rest of the stream (the usage) is read, the reply is appended and the next compaction
      requested; then the last chunks are yielded. A caller that sees a ``finish_reason`` finds the stored reply in
      ``message``, and may stop there.
    - Closed before (:meth:`close`, the end of the ``with`` block, an exception that is no ``Exception``): nothing is
      appended. The connection to the provider is closed, which makes most of them stop generating. With
      ``on_stop="keep"`` the text so far is appended instead, without tool calls, with ``finish_reason="stopped"``; if
      there is none, or an error came with it, nothing, and closing does not raise for that. A later call at the same
      tip gets that reply: pass ``regenerate=True``.
    - Dropped without closing (a loop that breaks): as closed, and nothing is kept. The question is free a moment later.
    - Broken off (the connection, an error inside the stream, an end without ``finish_reason``):
      :class:`StreamInterrupted` with the ``partial`` text, its cause chained; nothing is appended, whatever ``on_stop``
      says: nobody wanted it to end there.
    - Empty (no content, no tool call): :class:`EmptyReply`; nothing is appended.
    - Not storable: :class:`InvalidReply` with what was received; nothing is appended.

    Neither a transaction nor a database connection is held between the chunks.
    """

    def __init__(self, question: Question, on_stop: OnStop = "discard") -> None:
        super().__init__(question, on_stop)
        without_waiting(self._start())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatCompletionChunk:
        chunk: ChatCompletionChunk = without_waiting(self._advance())
        if chunk is END:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """End the stream. A reply that is not stored yet is stored only with ``on_stop="keep"``, as far as it came."""
        without_waiting(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that breaks drops its iterator, and the provider would go on generating for no reader. Nothing is
        # stored: this may run in any thread, and in the middle of a query.
        if self._opened is not None:
            self._opened.source.close()


class AsyncReplyStream(_ReplyCollector):
    """:class:`ReplyStream`, awaited: the same rules, and two more.

    - Cancelled while it waits for the provider: as closed. Cancelled while the reply is being stored: it is stored,
      since a transaction is not stopped halfway.
    - Close it with ``async with`` or :meth:`aclose`: a loop that only breaks cannot await the closing, and the
      connection to the provider stays open until the iterator is collected.
    """

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begin().__await__()

    async def _begin(self) -> Self:
        if self._opened is None and not self._is_over:
            await self._start()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        chunk: ChatCompletionChunk = await self._advance()
        if chunk is END:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """End the stream. A reply that is not stored yet is stored only with ``on_stop="keep"``, as far as it came."""
        await self._close()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
