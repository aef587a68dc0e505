"""One turn of the chat model: send the context, recover from a prompt that is too long, append the reply.

:mod:`stream` does the same chunk by chunk, with the same steps.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from django.db import DatabaseError, InterfaceError

from compaction_app.compaction.execute import wait_for_end
from compaction_app.compaction.leases import Claim
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.compaction.warm import mark_of
from compaction_app.conf import Mode, get_settings
from compaction_app.context import windows
from compaction_app.context.budget import ContextRequest, TurnOptions
from compaction_app.context.overflow import Overflow, theirs_for_ours
from compaction_app.context.reading import ResolvedRequest, context_at, resolve_and_read, resolve_request_at
from compaction_app.conversation import chat_model
from compaction_app.conversation.append import append_once
from compaction_app.conversation.compact import open_and_enqueue, open_now, start
from compaction_app.conversation.recall import answer_recalls, open_tool, other_calls, prefetched, recall_tool
from compaction_app.conversation.usage import record_double_configured, report_of
from compaction_app.exceptions import (
    CompactionError,
    ConfigurationError,
    ContextOverflow,
    InvalidMessage,
    InvalidParent,
    InvalidReply,
    ReplyNotStored,
)
from compaction_app.messages.open_calls import open_calls_at_end
from compaction_app.messages.openai_format import strings
from compaction_app.messages.tool_calls import name_and_arguments
from compaction_app.messages.transcript import RECALL_TOOLS
from compaction_app.messages.validation import token_count
from compaction_app.models import ChatMessage
from compaction_app.models.database import give_back_connection
from compaction_app.redaction import redact_parameters, redactor_of
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, takes_the_arguments_of, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.values import Capacity, ChatContext, Role, Trigger

Answer = TypeVar("Answer")

logger = logging.getLogger("compaction_app.complete")

#: Refused prompts that are fitted anew: to what the provider names, once more where it then names less, and at last to
#: the newest turn alone.
_MOST_REFUSALS = 3
#: Rounds of searches that are offered. One more that a model makes all the same is answered, and then no tool is sent.
_MOST_SEARCHES = 3
#: Adds what a search for the question finds to the request, for models and servers without tools.
PREFETCH = "prefetch"
_REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def complete(
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
    at_once: int | None = None,
    **params: Any,
) -> ChatMessage:
    """Ask the chat model at ``tip`` and append its reply; the next compaction is requested, not awaited.

    ``client``: an ``openai.OpenAI``, by default one from the environment; ``params`` go to it as they are. Where
    ``reserved_tokens`` is not given, a ``max_tokens`` above ``RESERVED_TOKENS`` is reserved. Of the
    default client ``timeout`` (600 s) is also the longest that each attempt at a reply may take in all.
    ``include_reasoning`` sends the reasoning blocks of tail messages back, the newest first, while the prompt has
    room for them. ``system_prompt`` takes the place of the session's. A prompt that the provider finds too long is
    compacted and sent again, at most three times, else :class:`ContextOverflow`. A reply is stored however it is
    written: arguments of a call need not be JSON. One without content and tool calls raises :class:`EmptyReply`, one
    that ended in an error or is none :class:`InvalidReply`, which carries it; nothing is written. So do the
    :class:`ReplyNotStored` of a database that is away, and whatever else is raised after the reply came, such as the
    :class:`MessageNotFound` of a tip that was deleted meanwhile.
    ``recall`` offers the model :func:`recall_tool` and :func:`open_tool`, unless the setting ``RECALL`` is off: its
    searches are answered and stored like any tool call, and the reply after them is returned. Where a reply calls your
    tools too, append their results below :func:`answer_recalls`, which returns the stored result of the search.
    ``recall="prefetch"``, for models without tools: the best finds for the question go along as a contribution.
    While another call asks a model at ``tip``, :class:`ReplyUnderWay` is raised. Where the reply of an earlier call is
    stored, that is returned and no model is asked; ``regenerate=True`` asks for another one beside it.
    With ``at_once``, :class:`TooManyReplies` is raised where so many replies to the session's owner are under way.
    The client's other errors (``openai.APIError``) are raised as they are: ``tip`` is stored, ask again from it.
    ``fallback_used`` of the reply says whether its prompt was cut to fit. A tip with open tool calls raises
    :class:`InvalidMessage`. Must not run inside a transaction: none is held while the model is called.
    """
    # The signature is the one list of what may be asked.
    asked = dict(locals())
    return without_waiting(_complete(Question.of(BLOCKING, **asked.pop("params"), **asked)))


@takes_the_arguments_of(complete)
async def acomplete(tip: ChatMessage, **options: Any) -> ChatMessage:
    """:func:`complete` with an ``openai.AsyncOpenAI``; the model is awaited."""
    return await _complete(Question.of(AWAITED, tip, **options))


async def _complete(question: Question) -> ChatMessage:
    reply = await _reply_to(question)
    while question.may_search and (following := await question.way.do(question.after_searches, reply)):
        question, reply = following, await _reply_to(following)
    return reply


async def _reply_to(question: Question) -> ChatMessage:
    claim, do = question.claim(), question.way.do
    try:
        found = await claim_and_ask(question, claim, chat_model.ask)
        stored: ChatMessage = found if isinstance(found, ChatMessage) else await do(finish_turn, *found)
        return stored
    finally:
        await do(claim.release)


@dataclass(frozen=True)
class Question:
    """What a caller asks at a tip, and how it waits."""

    tip: ChatMessage
    way: Way
    client: Any
    request: ContextRequest
    #: For the provider, as they are.
    params: Mapping[str, Any]
    regenerate: bool = False
    #: The model may search what is summarized.
    recall: bool | Literal["prefetch"] = False
    #: Replies to the session's owner that may be under way; None: any number.
    at_once: int | None = None
    #: How often it has searched.
    searches: int = 0

    def __post_init__(self) -> None:
        chat_model.require_client(self.client, is_awaited=self.way.is_awaited)
        if isinstance(self.recall, str) and self.recall != PREFETCH:
            raise InvalidMessage(f'recall must be True, False or "{PREFETCH}", not {self.recall!r}.', field="recall")

    @classmethod
    def of(cls, way: Way, /, tip: ChatMessage, client: Any = None, **options: Any) -> Question:
        """``options``: those of :func:`complete`, and of the provider."""
        turn: Any = {name: options.pop(name) for name in TurnOptions.__annotations__ if name in options}
        own = {name: options.pop(name) for name in ("regenerate", "recall", "at_once") if name in options}
        return cls(tip, way, client, ContextRequest.of(**turn), params=options, **own)

    def claim(self) -> Claim:
        return Claim(self.tip, self.params.get("timeout"), self.at_once)

    @property
    def may_search(self) -> bool:
        """Its calls of the app's tools are answered here; else they are its caller's."""
        return bool(self.recall) and self.recall != PREFETCH

    @property
    def is_last(self) -> bool:
        return self.searches > _MOST_SEARCHES

    def as_sent(self) -> tuple[ContextRequest, Mapping[str, Any]]:
        """The request, with the tool for searches as long as it is offered, and the parameters that go with its tools.

        What the caller says about its own tools stays.
        """
        if self.recall == PREFETCH and get_settings(self.tip.session.settings).recall:
            contributions = (*self.request.contributions, *prefetched(self.tip))
            return replace(self.request, contributions=contributions), self.params
        if not self.may_search:
            return self.request, self.params
        own, params = [recall_tool(), open_tool()], dict(self.params)
        tools = [one for one in self.request.tools or () if one not in own]
        if taken := [name for one in tools if (name := name_and_arguments(one)[0]) in RECALL_TOOLS]:
            words = f"With recall=True, {taken[0]} is the app's own: give your tool another name."
            raise InvalidMessage(words, field="tools")
        is_offered = self.searches < _MOST_SEARCHES and bool(get_settings(self.tip.session.settings).recall)
        tools = [] if self.is_last else [*tools, *own * is_offered]
        choice = params.pop("tool_choice", None)
        if not is_offered or self.searches:
            # Of one search that the caller demands, the model is free after it.
            choice = _without_search(choice)
        # Providers refuse both where no tool is sent.
        if not tools:
            params.pop("parallel_tool_calls", None)
        elif choice is not None:
            params["tool_choice"] = choice
        return replace(self.request, tools=tools), params

    def after_searches(self, reply: ChatMessage) -> Question | None:
        """The question below the results of the searches that a reply calls for; None where a caller goes on."""
        if self.is_last or (tip := answer_recalls(reply)) is None or other_calls(reply):
            return None
        return replace(self, tip=tip, regenerate=False, searches=self.searches + 1)


def _without_search(choice: Any) -> Any:
    """A ``tool_choice`` that does not name the tool for searches; None where it names nothing else."""
    allowed = choice.get("allowed_tools") if isinstance(choice, Mapping) else None
    if isinstance(allowed, Mapping):
        tools = [one for one in allowed.get("tools") or () if not _is_search(one)]
        return {**choice, "allowed_tools": {**allowed, "tools": tools}} if tools else None
    return None if _is_search(choice) else choice


def _is_search(value: Any) -> bool:
    return not {*RECALL_TOOLS}.isdisjoint(strings(value))


@dataclass(frozen=True, kw_only=True)
class AskedTurn:
    """One request to the chat model: the tip, the arguments and the context that is sent."""

    tip: ChatMessage
    #: As the caller gave it, with the window that a refusal named: the compaction after the reply is measured against
    #: the same.
    request: ContextRequest
    resolved: ResolvedRequest
    params: Mapping[str, Any]
    context: ChatContext
    #: A search that is called all the same would be answered by nobody.
    ends_searches: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """What ``client.chat.completions.create`` is called with."""
        arguments: dict[str, Any] = {**self.params, "model": self.resolved.model}
        arguments["messages"] = self.context.to_openai(endpoint=self.request.endpoint)
        if self.request.tools:
            arguments["tools"] = list(self.request.tools)
        return arguments


async def claim_and_ask(
    question: Question, claim: Claim, ask: Callable[..., Awaitable[Answer]]
) -> ChatMessage | tuple[AskedTurn, Answer]:
    """Take the claim, and ask; or the reply that is stored. ``ask``: takes client, arguments and the way to wait."""
    way = question.way
    stored: ChatMessage | None = await way.do(claim.take, regenerate=question.regenerate)
    if stored is not None:
        return stored
    turn: AskedTurn = await way.do(start_turn, question)
    return await ask_with_recovery(turn, lambda asked: ask(question.client, asked.arguments, way), way)


def start_turn(question: Question) -> AskedTurn:
    """Read everything that the model's call needs, and give the connection back."""
    tip, (request, params) = question.tip, question.as_sent()
    # Parameters of a chat completion that would be silently overwritten.
    if params.get("stream"):
        raise InvalidMessage(
            "stream is no parameter: chat.stream() streams a reply, chat.complete() does not.", field="stream"
        )
    if "messages" in params:
        raise InvalidMessage(
            "The branch at the tip is what is sent: store messages with append_message, pass others as contributions=.",
            field="messages",
        )
    endpoint = chat_model.endpoint_of_client(question.client)
    request = replace(request, endpoint=endpoint, reply_tokens=_longest_reply(params))
    resolved, branch = resolve_and_read(tip, request)
    if not resolved.model:
        raise InvalidMessage("Name a model: pass model=, or set it on the session.", field="model")
    # Here and not when it is sent: ``ATTACHMENT_URL`` may wait, which an event loop must not.
    context = context_at(tip, resolved, branch).with_addresses()
    if waiting := open_calls_at_end(context.messages):
        # The prompt would contain "[no result]" for each of them.
        raise InvalidMessage(
            f"The tool calls {', '.join(waiting)} have no result yet. Append each result with role='tool' and the "
            "call's id as tool_call_id, then ask from the last one.",
            field="tip",
        )
    if resolved.settings.mode != Mode.OFF:
        declared = resolved.settings.provider_context_management
        record_double_configured(tip, params, declared)
    redact = redactor_of(resolved.settings)
    params = redact_parameters({**params, "tools": request.tools}, redact)
    request = replace(request, tools=params.pop("tools"))
    give_back_connection(tip)
    ends = question.is_last
    return AskedTurn(tip=tip, request=request, resolved=resolved, params=params, context=context, ends_searches=ends)


def _longest_reply(params: Mapping[str, Any]) -> int:
    """The tokens that the request lets the reply have, under any name that providers use; 0 if it does not say."""
    body = params.get("extra_body")
    sent = {**params, **body} if isinstance(body, Mapping) else params
    return max(token_count(sent.get(name)) or 0 for name in _REPLY_LIMITS)


async def ask_with_recovery(
    turn: AskedTurn, ask: Callable[[AskedTurn], Awaitable[Answer]], way: Way
) -> tuple[AskedTurn, Answer]:
    """Ask; where the provider finds the prompt too long, compact now, fit to what it says, and ask again.

    A compaction that fails changes nothing of that. Asked at most four times, each time with less; at last the newest
    turn goes alone. Where that does not fit either, :class:`ContextOverflow` with the provider's numbers.
    """
    for refusals in range(_MOST_REFUSALS):
        try:
            return turn, await ask(turn)
        except chat_model.ProviderOverflow as refusal:
            turn, capacity = await way.do(_believe, turn, refusal)
            if not refusals:
                window = turn.request.window or capacity.window
                try:
                    run = await way.do(open_now, turn.tip, Trigger.OVERFLOW, replace(turn.request, window=window))
                    # A summarizer with a small window needs many generations: a turn waits for one.
                    await wait_for_end(run, way, start)
                except CompactionError as error:
                    # Its run and the log say what became of it. The turn goes on with what fits.
                    values = {"session": turn.tip.session_id, "tip": turn.tip.pk, "code": error.code}
                    log(logger, logging.WARNING, "recovery", **values)
            most = 0 if refusals == _MOST_REFUSALS - 1 else capacity.input_tokens
            turn = await way.do(_fitted, turn, refusal, most)
    try:
        return turn, await ask(turn)
    except chat_model.ProviderOverflow as refusal:
        raise _overflow(turn, refusal.overflow) from refusal


def _believe(turn: AskedTurn, refusal: chat_model.ProviderOverflow) -> tuple[AskedTurn, Capacity]:
    """The turn with the window that its provider names, if it does; and a capacity that is less than what was refused.

    That is by our count. The window is remembered for this endpoint and model, except where the limit is one of a rate.
    """
    overflow, sent, resolved = refusal.overflow, turn.context.tokens, turn.resolved
    if resolved.settings.mode == Mode.OFF:
        # Shown verbatim or not at all.
        raise _overflow(turn, overflow) from refusal
    # By our count it would have fitted: the provider counts more, and does not say how much.
    silent = overflow.sent is None and overflow.window is not None and overflow.window > sent
    reply = turn.context.reserved_tokens - (sent - turn.context.history_tokens)
    known = (Overflow() if silent else overflow).left_of(Capacity(sent, max(1, reply)), sent)
    # A refusal without a number may be a proxy's, of a body with a picture: only this recovery is measured against it.
    if overflow.window and not overflow.is_rate:
        windows.remember_window(resolved.place, overflow.window, resolved.learned)
    request = replace(turn.request, window=overflow.window or turn.request.window)
    return replace(turn, request=request), known.below(sent)


def _fitted(turn: AskedTurn, refusal: chat_model.ProviderOverflow, most: int) -> AskedTurn:
    """The turn with a prompt of at most that many tokens; 0: nothing but the newest turn."""
    overflow, sent = refusal.overflow, turn.context.tokens
    try:
        resolved = resolve_request_at(turn.tip, turn.request)
        fixed = resolved.reserved_parts.tokens
        try:
            context = _context_within(turn, resolved, most - fixed)
        except ContextOverflow as error:
            # Too large with the room for a reply that is usual. It may still fit with a shorter one.
            needed = error.needed + fixed
            theirs = needed * theirs_for_ours(overflow.sent, sent)
            if needed >= sent or (overflow.window and theirs >= overflow.window):
                raise _overflow(turn, overflow, int(theirs)) from refusal
            context = _context_within(turn, resolved, error.needed)
    except ConfigurationError:
        # System prompt, tools and contributions alone fill the window that the provider names.
        raise _overflow(turn, overflow) from refusal
    give_back_connection(turn.tip)
    return replace(turn, resolved=resolved, context=context)


def _context_within(turn: AskedTurn, resolved: ResolvedRequest, available: int) -> ChatContext:
    available = max(1, available)
    threshold = min(resolved.budget.threshold, available)
    budget = replace(resolved.budget, available=available, threshold=threshold, limit=available)
    return context_at(turn.tip, replace(resolved, budget=budget)).with_addresses()


def _overflow(turn: AskedTurn, overflow: Overflow, needed: int = 0) -> ContextOverflow:
    needed = needed or overflow.sent or turn.context.tokens
    available = overflow.window or turn.context.window - turn.context.reserved_tokens
    named = "fit by its own account" if overflow.window else "are configured, and it names no window"
    is_off = turn.resolved.settings.mode == Mode.OFF
    what = "the prompt, of which MODE off sends all," if is_off else "even the newest turn alone"
    return ContextOverflow(
        f"The provider finds {what} too long: {needed} tokens, of which {available} {named}.",
        needed=needed,
        available=available,
    )


def finish_turn(turn: AskedTurn, reply: chat_model.ModelReply, finish_reason: str = "") -> ChatMessage:
    """Append the reply and request the next compaction. ``finish_reason``: in place of the provider's."""
    if turn.params.get("tool_choice") == "none" and reply.fields["tool_calls"]:
        # There are models that call nevertheless. Nobody would answer, and the branch could not go on.
        reply = reply.without_calls().nonempty()
    if turn.ends_searches:
        reply = reply.without_calls(*RECALL_TOOLS).nonempty()
    message = {
        **reply.fields,
        "role": Role.ASSISTANT,
        "model": reply.fields["model"] or turn.resolved.model,
        "finish_reason": finish_reason or reply.fields["finish_reason"],
        "metadata": report_of(reply.context_management) or None,
    }
    context = turn.context
    if turn.resolved.settings.summarizer_entry.warm:
        context = replace(context, prompt=mark_of(turn.arguments, turn.resolved.place))
    try:
        stored = append_once(turn.resolved.session, turn.tip, message, context=context)
    except Exception as error:
        # Whatever went wrong, the reply was paid for, and the error has it.
        if isinstance(error, DatabaseError | InterfaceError):
            raise ReplyNotStored(**reply.as_attributes) from error
        if isinstance(error, InvalidMessage) and not isinstance(error, InvalidParent):
            raise InvalidReply(f"The model's reply cannot be stored: {error}", **reply.as_attributes) from error
        vars(error).update(reply.as_attributes)
        raise
    try:
        resolved = resolve_request_at(stored, turn.request)
        # Some gateways report the sum of several prompts.
        taken = min((stored.sent_context or {}).get("provider_tokens", 0), 2 * turn.context.tokens)
        windows.remember_accepted(resolved.place, taken, resolved.learned, turn.request.window)
        open_and_enqueue(CompactionRequest(tip=stored, trigger=Trigger.THRESHOLD, resolved=resolved))
    except Exception as error:
        # The reply is stored; the next turn asks for the compaction again.
        log_error(logger, error, session=stored.session_id, message=stored.pk, step="request")
    return stored
