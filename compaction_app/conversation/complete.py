"""One turn of the chat model: send the context, recover from a prompt that is too long, append the reply.

:mod:`stream` does the same chunk by chunk, with the same steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from compaction_app.compaction.execute import afinish_now, finish_now
from compaction_app.compaction.runs import give_back_connection, require_no_transaction
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.conf import Mode
from compaction_app.context.assembly import with_reasoning_that_fits
from compaction_app.context.reading import (
    ContextRequest,
    ResolvedRequest,
    context_at,
    resolve_request_at,
    resolve_with_history,
    session_of,
)
from compaction_app.conversation import chat_model
from compaction_app.conversation.append import append_once
from compaction_app.conversation.compact import open_and_enqueue, open_now
from compaction_app.conversation.usage import record_double_configured, report_of
from compaction_app.exceptions import (
    CompactionFailed,
    CompactionRefused,
    ContextOverflow,
    InvalidMessage,
    InvalidParent,
    InvalidReply,
    MessageNotFound,
)
from compaction_app.messages.validation import open_calls_at_end
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import ChatContext, Role, RunStatus, Trigger

Answer = TypeVar("Answer")


def complete(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    include_reasoning: bool = False,
    **params: Any,
) -> ChatMessage:
    """Ask the chat model at ``tip`` and append its reply; the next compaction is requested, not awaited.

    ``client``: an ``openai.OpenAI``, by default one from the environment; ``params`` go to it as they are. Of the
    default client ``timeout`` (600 s) is also the longest that each attempt at a reply may take in all.
    ``include_reasoning`` sends the reasoning blocks of tail messages back, the newest first, while the prompt has
    room for them. A prompt that the provider finds too long is compacted and sent once more, else
    :class:`ContextOverflow`. A reply without content and tool calls raises :class:`EmptyReply`, one that cannot be read
    or stored (arguments of a call that are not JSON) :class:`InvalidReply`, which carries it; nothing is written. So
    does the :class:`MessageNotFound` of a tip that was deleted while the model answered.
    The client's other errors (``openai.APIError``) are raised as they are: ``tip`` is stored, ask again from it.
    ``fallback_used`` of the reply says whether its prompt was cut to fit. A tip with open tool calls raises
    :class:`InvalidMessage`. Must not run inside a transaction: none is held while the model is called.
    """
    chat_model.require_client(client, is_awaited=False)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    turn = start_turn(tip, request, include_reasoning, params)
    turn, reply = ask_with_recovery(turn, lambda asked: chat_model.ask(client, asked.arguments))
    return finish_turn(turn, reply)


async def acomplete(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    include_reasoning: bool = False,
    **params: Any,
) -> ChatMessage:
    """:func:`complete` with an ``openai.AsyncOpenAI``; the model is awaited."""
    chat_model.require_client(client, is_awaited=True)
    request = ContextRequest(model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens)
    turn = await sync_to_async(start_turn)(tip, request, include_reasoning, params)
    turn, reply = await aask_with_recovery(turn, lambda asked: chat_model.aask(client, asked.arguments))
    return await sync_to_async(finish_turn)(turn, reply)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One request to the chat model: the tip, the arguments and the context that is sent."""

    tip: ChatMessage
    model: str
    #: As the caller gave it: the compaction after the reply is measured against the same.
    request: ContextRequest
    params: Mapping[str, Any]
    include_reasoning: bool
    context: ChatContext

    @property
    def using(self) -> str:
        return database_of(self.tip)

    @property
    def arguments(self) -> dict[str, Any]:
        """What ``client.chat.completions.create`` is called with."""
        arguments: dict[str, Any] = {**self.params, "model": self.model}
        arguments["messages"] = self.context.to_openai(include_reasoning=self.include_reasoning)
        if self.request.tools:
            arguments["tools"] = list(self.request.tools)
        return arguments


def start_turn(tip: ChatMessage, request: ContextRequest, include_reasoning: bool, params: Mapping[str, Any]) -> Turn:
    """Read everything that the model's call needs, and give the connection back."""
    check_tip(tip)
    _check_params(params)
    using = database_of(tip)
    require_no_transaction(using)
    resolved = resolve_request_at(tip, request)
    if not resolved.model:
        raise InvalidMessage("Name a model: pass model=, or set it on the session.", field="model")
    context = _context(tip, resolved, include_reasoning)
    _require_answered(context)
    if resolved.settings.mode != Mode.OFF:
        declared = resolved.settings.provider_context_management
        record_double_configured(tip.session_id, params, declared, using)
    turn = Turn(
        tip=tip,
        model=resolved.model,
        request=request,
        params=params,
        include_reasoning=include_reasoning,
        context=context,
    )
    give_back_connection(using)
    return turn


def _require_answered(context: ChatContext) -> None:
    """Refuse a tip with open tool calls: the prompt would contain "[no result]" for each of them."""
    if waiting := open_calls_at_end(context.messages):
        raise InvalidMessage(
            f"The tool calls {', '.join(waiting)} have no result yet. Append each result with role='tool' and the "
            "call's id as tool_call_id, then ask from the last one.",
            field="tip",
        )


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse parameters of a chat completion that would be silently overwritten."""
    if params.get("stream"):
        raise InvalidMessage("complete() returns a whole reply; use stream() to stream one.", field="stream")
    if "messages" in params:
        raise InvalidMessage(
            "The branch at the tip is what is sent: store messages with append_message, pass others as contributions=.",
            field="messages",
        )


def _context(tip: ChatMessage, resolved: ResolvedRequest, include_reasoning: bool) -> ChatContext:
    context = context_at(tip, resolved)
    if not include_reasoning:
        return context
    verbatim = resolved.settings.mode == Mode.OFF
    room = None if verbatim else context.available_tokens - context.history_tokens
    return with_reasoning_that_fits(context, resolved.count, room=room)


def ask_with_recovery(turn: Turn, ask: Callable[[Turn], Answer]) -> tuple[Turn, Answer]:
    """Ask; where the provider finds the prompt too long, compact now and ask once more."""
    try:
        return turn, ask(turn)
    except chat_model.ProviderOverflow as overflow:
        with _raised_as_overflow(turn, CompactionFailed, CompactionRefused):
            run = finish_now(open_now(turn.tip, Trigger.OVERFLOW, turn.request))
        turn = _with_new_context(turn, run, overflow)
    with _raised_as_overflow(turn, chat_model.ProviderOverflow):
        return turn, ask(turn)


async def aask_with_recovery(turn: Turn, ask: Callable[[Turn], Awaitable[Answer]]) -> tuple[Turn, Answer]:
    """:func:`ask_with_recovery` with both models awaited."""
    try:
        return turn, await ask(turn)
    except chat_model.ProviderOverflow as overflow:
        with _raised_as_overflow(turn, CompactionFailed, CompactionRefused):
            run = await afinish_now(await sync_to_async(open_now)(turn.tip, Trigger.OVERFLOW, turn.request))
        turn = await sync_to_async(_with_new_context)(turn, run, overflow)
    with _raised_as_overflow(turn, chat_model.ProviderOverflow):
        return turn, await ask(turn)


def _with_new_context(turn: Turn, run: CompactionRun, overflow: Exception) -> Turn:
    """The turn with the context after the run; :class:`ContextOverflow` where the run made no summary."""
    if run.status != RunStatus.SUCCEEDED:
        raise _overflow(turn) from overflow
    context = _context(turn.tip, resolve_request_at(turn.tip, turn.request), turn.include_reasoning)
    give_back_connection(turn.using)
    return replace(turn, context=context)


@contextmanager
def _raised_as_overflow(turn: Turn, *errors: type[Exception]) -> Iterator[None]:
    """To the caller, any of these errors is a prompt that does not fit."""
    try:
        yield
    except errors as error:
        raise _overflow(turn) from error


def _overflow(turn: Turn) -> ContextOverflow:
    needed = turn.context.tokens
    available = turn.context.window - turn.context.reserved_tokens
    return ContextOverflow(
        f"The provider finds the prompt too long: {needed} tokens by our count, {available} available.",
        needed=needed,
        available=available,
    )


def finish_turn(turn: Turn, reply: chat_model.Reply) -> ChatMessage:
    """Append the reply and request the next compaction."""
    message = {
        "role": Role.ASSISTANT,
        "content": reply.content,
        "tool_calls": reply.tool_calls,
        "reasoning": reply.reasoning,
        "usage": reply.usage,
        "model": reply.model or turn.model,
        "metadata": report_of(reply.context_management) or None,
    }
    try:
        stored = append_once(session_of(turn.tip), turn.tip, message, context=turn.context).message
    except (InvalidParent, MessageNotFound) as error:
        # The branch changed while the model answered; the reply itself is valid, and paid for.
        vars(error).update(reply.as_attributes)
        raise
    except InvalidMessage as error:
        raise InvalidReply(f"The model's reply cannot be stored: {error}", **reply.as_attributes) from error
    resolved = resolve_with_history(stored, turn.request)
    open_and_enqueue(CompactionRequest(tip=stored, trigger=Trigger.THRESHOLD, resolved=resolved))
    return stored
