"""The public door: everything a chat product calls.

A turn appends the user's message, calls a model with ``get_context(tip).to_openai()`` (or lets
:func:`complete` do it), appends the reply and calls :func:`request_compaction`, which decides, opens a run and
enqueues it after the commit. Nothing here waits for a summary except :func:`compact`.

Each function that does I/O has an async twin of the same name with an ``a`` in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from compaction_app import branches, erasure, replies, sendings, tasks
from compaction_app.allowances import Allowances, allowances_for
from compaction_app.branches import require_tip, using_of
from compaction_app.compaction import (
    Outcome,
    acompact_chat_history,
    compact_chat_history,
    next_now,
    raise_for,
)
from compaction_app.connections import give_back_connection, require_no_transaction
from compaction_app.exceptions import CompactionFailed, CompactionRefused, ContextOverflow, InvalidMessage
from compaction_app.ladder import assemble
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.opening import Request, is_over_threshold, open_run, window_at
from compaction_app.validation import check_json
from compaction_app.values import ChatContext, Mode, Role, RunStatus, Trigger

MAX_INSTRUCTIONS = 2000

#: Keys of a message dict that ``append_messages`` knows, in the OpenAI chat format and this app's additions.
_MESSAGE_KEYS = (
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "reasoning",
    "attachments",
    "usage",
    "model",
    "metadata",
    "created_at",
    "external_id",
)


def start_session(
    *,
    owner: Any = None,
    title: str = "",
    model: str = "",
    system_prompt: str = "",
    settings: Mapping[str, Any] | None = None,
    external_id: str | None = None,
    using: str | None = None,
) -> ChatSession:
    """Begin a conversation. ``settings`` overrides keys of ``COMPACTION`` for it; wrong ones raise."""
    check_json(system_prompt, "system_prompt")
    check_json(title, "title")
    session = ChatSession(
        owner=owner,
        title=title,
        model=model,
        system_prompt=system_prompt,
        settings=dict(settings or {}),
        external_id=external_id or "",
    )
    session.save(using=using)
    return session


def append_message(
    session: ChatSession,
    parent: ChatMessage | None = None,
    *,
    role: str,
    content: str = "",
    tool_calls: Sequence[Mapping[str, Any]] | None = None,
    tool_call_id: str = "",
    name: str = "",
    reasoning: Any = None,
    attachments: Sequence[Mapping[str, Any]] | None = None,
    usage: Mapping[str, Any] | None = None,
    model: str = "",
    metadata: Mapping[str, Any] | None = None,
    context: ChatContext | None = None,
    created_at: Any = None,
    external_id: str | None = None,
) -> ChatMessage:
    """Store one message below ``parent`` (None: a new root). A second child of one parent is a fork.

    ``context``: what was sent to get this reply; it is recorded, with an event where messages had to be left
    out, and with ``usage`` it calibrates the token estimate for ``model``. Raises :class:`InvalidMessage`
    (nothing is written) for what can not be stored.
    """
    node = _node(
        session,
        {
            "role": role,
            "content": content,
            "tool_calls": tool_calls,
            "tool_call_id": tool_call_id,
            "name": name,
            "reasoning": reasoning,
            "attachments": attachments,
            "usage": usage,
            "model": model,
            "metadata": metadata,
            "created_at": created_at,
            "external_id": external_id,
        },
    )
    if context is not None:
        node.sent_context = sendings.sent_context(context)
    using = using_of(session)
    with transaction.atomic(using=using):
        stored = ChatMessage.objects.db_manager(using).append_chain(parent, [node])[0]
        if context is not None:
            sendings.note_fallback(stored, context, using)
        if context is not None and usage:
            sendings.calibrate(session, model or session.model, usage, context, using)
    return stored


def append_messages(
    session: ChatSession, parent: ChatMessage | None, messages: Sequence[Mapping[str, Any]]
) -> list[ChatMessage]:
    """Store a chain of messages (dicts in the OpenAI chat format): all of them or none.

    A system message that opens a conversation without a system prompt becomes the session's system prompt.
    """
    messages = list(messages)
    using = using_of(session)
    with transaction.atomic(using=using):
        if parent is None and messages and messages[0].get("role") == Role.SYSTEM and not session.system_prompt:
            opening = messages.pop(0)
            check_json(opening.get("content"), "system_prompt")
            session.system_prompt = str(opening.get("content") or "")
            session.save(using=using, update_fields=["system_prompt"])
        nodes = [_node(session, message) for message in messages]
        return ChatMessage.objects.db_manager(using).append_chain(parent, nodes)


def _node(session: ChatSession, message: Mapping[str, Any]) -> ChatMessage:
    if unknown := sorted(set(message) - set(_MESSAGE_KEYS)):
        raise InvalidMessage(f"Unknown message keys {unknown}; known are {list(_MESSAGE_KEYS)}.", field=unknown[0])
    values = {key: message[key] for key in _MESSAGE_KEYS if message.get(key) not in (None, "")}
    for key in ("tool_calls", "attachments"):
        if key in values and isinstance(values[key], list | tuple):
            values[key] = list(values[key]) or None
    for key in ("metadata", "usage"):
        if key in values and isinstance(values[key], Mapping):
            values[key] = dict(values[key])
    values.setdefault("role", message.get("role"))
    return ChatMessage(session=session, **values)


def get_branch(tip: ChatMessage) -> list[ChatMessage]:
    """Root → tip, without summaries: the transcript that people see."""
    require_tip(tip)
    return branches.get_path(tip)


def get_context(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> ChatContext:
    """What the model is to be sent at ``tip``. Writes nothing and enqueues nothing: inspect freely.

    Raises :class:`ContextOverflow` only if the newest user message and the last group alone are too large.
    """
    require_tip(tip)
    return _context(tip, _allowances(tip, model, tools, contributions, reserved_tokens))


def _allowances(
    tip: ChatMessage,
    model: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    contributions: Sequence[Mapping[str, Any]],
    reserved_tokens: int | None,
) -> Allowances:
    # Read anew: a session object in memory may not know today's calibration or settings.
    session = ChatSession.objects.using(using_of(tip)).get(pk=tip.session_id)
    return allowances_for(
        session, model=model, tools=tools, contributions=contributions, reserved_tokens=reserved_tokens
    )


def _context(tip: ChatMessage, allowances: Allowances) -> ChatContext:
    branch = window_at(tip, allowances)
    return assemble(branch, allowances.surroundings, allowances.budget, allowances.settings, allowances.count)


def find_summary(tip: ChatMessage) -> ChatMessage | None:
    """The newest summary that applies to this branch."""
    require_tip(tip)
    return branches.find_summary_for_branch(tip)


def should_compact(
    tip: ChatMessage,
    *,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> bool:
    """Whether the branch is over its threshold even after the free layers."""
    require_tip(tip)
    return is_over_threshold(tip, _allowances(tip, model, tools, contributions, reserved_tokens))


def request_compaction(
    tip: ChatMessage,
    *,
    trigger: str = Trigger.THRESHOLD,
    instructions: str = "",
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
) -> CompactionRun | None:
    """Compact in the background if it is needed: opens a run and enqueues it after the commit.

    None: not needed, or suppressed. Never waits for a model and never raises for a broker that is away.
    """
    require_tip(tip)
    _check_instructions(instructions)
    allowances = _allowances(tip, model, tools, contributions, reserved_tokens)
    request = Request(tip=tip, trigger=Trigger(trigger), allowances=allowances, instructions=instructions)
    run = open_run(request).run
    if run is not None and run.is_open:
        inline = allowances.settings.mode == Mode.DETERMINISTIC
        transaction.on_commit(partial(_start, run, inline), using=using_of(tip), robust=True)
    return run


def _start(run: CompactionRun, inline: bool) -> None:
    # A worker's timing would break replay: deterministic mode compacts before the next turn can begin.
    if inline:
        _carry_out(run)
        run.refresh_from_db()
    else:
        tasks.enqueue(run)


def compact(tip: ChatMessage, *, instructions: str = "") -> CompactionRun:
    """Compact now and wait for it. Returns the run: ``succeeded``, or ``skipped`` with nothing to compact.

    Raises :class:`CompactionRefused` where a run is open or the mode is off, :class:`CompactionFailed` where
    no summary could be made; nothing is changed then.
    """
    run = _open_now(tip, Trigger.MANUAL, instructions)
    return _finish_now(run) if run.is_open else run


def _finish_now(run: CompactionRun) -> CompactionRun:
    return raise_for(_carry_out(run))


def _carry_out(run: CompactionRun) -> Outcome | None:
    using = run._state.db or "default"
    outcome = compact_chat_history(run.pk, using)
    while (following := next_now(outcome)) is not None:
        outcome = compact_chat_history(following.pk, using)
    return outcome


def _open_now(tip: ChatMessage, trigger: Trigger, instructions: str, **options: Any) -> CompactionRun:
    require_tip(tip)
    require_no_transaction(using_of(tip))
    _check_instructions(instructions)
    allowances = _allowances(
        tip,
        options.get("model"),
        options.get("tools"),
        options.get("contributions", ()),
        options.get("reserved_tokens"),
    )
    opening = open_run(Request(tip=tip, trigger=trigger, allowances=allowances, instructions=instructions))
    if opening.run is None:
        raise CompactionRefused(f"No compaction was started: {opening.reason}.", reason=opening.reason)
    return opening.run


def _check_instructions(instructions: str) -> None:
    if len(instructions) > MAX_INSTRUCTIONS:
        raise InvalidMessage(
            f"instructions have {len(instructions)} characters; {MAX_INSTRUCTIONS} are allowed.", field="instructions"
        )
    check_json(instructions, "instructions")


def retire_summary(summary: ChatMessage, *, reason: str = "") -> list[int]:
    """Take a summary, and every live one built on it, out of use; the originals are back on the next read."""
    return erasure.retire_summary(summary, reason=reason)


def redact_message(message: ChatMessage, *, replacement: str = "[redacted]") -> ChatMessage:
    """Take a message's text out for good, and empty every summary that may hold it."""
    return erasure.redact_message(message, replacement=replacement)


def delete_message(message: ChatMessage) -> int:
    """Delete a message and everything below it; returns how many rows went."""
    return erasure.delete_message(message)


def delete_session(session: ChatSession) -> None:
    """Delete a conversation and all that compaction recorded about it."""
    erasure.delete_session(session)


def tips(session: ChatSession) -> list[ChatMessage]:
    """The last message of every branch, oldest first; summaries are not counted."""
    return branches.tips(session)


def variants(message: ChatMessage) -> list[ChatMessage]:
    """The message and its siblings in order: an edit or a regeneration is one more."""
    return branches.variants(message)


def complete(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    **params: Any,
) -> ChatMessage:
    """Ask the chat model at ``tip`` and append its reply; the next compaction is requested, not awaited.

    ``client``: an ``openai.OpenAI``, by default one from the environment; ``params`` go to it as they are. A
    prompt that the provider finds too long is compacted and sent once more, else :class:`ContextOverflow`.
    Must not run inside a transaction: none is held while the model is called.
    """
    turn = _begin_turn(tip, model, tools, contributions, reserved_tokens, params)
    try:
        reply = replies.ask(client, turn.context, model=turn.model, tools=tools, params=params)
    except replies.ProviderOverflow as overflow:
        turn = _after_overflow(turn, lambda: _finish_now(_open_overflow(turn)), overflow)
        try:
            reply = replies.ask(client, turn.context, model=turn.model, tools=tools, params=params)
        except replies.ProviderOverflow as again:
            raise _overflow(turn) from again
    return _end_turn(turn, reply)


async def acomplete(
    tip: ChatMessage,
    *,
    client: Any = None,
    model: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    contributions: Sequence[Mapping[str, Any]] = (),
    reserved_tokens: int | None = None,
    **params: Any,
) -> ChatMessage:
    """:func:`complete` with an ``openai.AsyncOpenAI``; the model is awaited."""
    turn = await sync_to_async(_begin_turn)(tip, model, tools, contributions, reserved_tokens, params)
    try:
        reply = await replies.aask(client, turn.context, model=turn.model, tools=tools, params=params)
    except replies.ProviderOverflow as overflow:
        turn = await _aafter_overflow(turn, overflow)
        try:
            reply = await replies.aask(client, turn.context, model=turn.model, tools=tools, params=params)
        except replies.ProviderOverflow as again:
            raise _overflow(turn) from again
    return await sync_to_async(_end_turn)(turn, reply)


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """One asking: where, with what, and the context that was sent."""

    tip: ChatMessage
    model: str
    options: dict[str, Any]
    context: ChatContext

    @property
    def using(self) -> str:
        return using_of(self.tip)


def _begin_turn(
    tip: ChatMessage,
    model: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    contributions: Sequence[Mapping[str, Any]],
    reserved_tokens: int | None,
    params: Mapping[str, Any],
) -> _Turn:
    require_tip(tip)
    using = using_of(tip)
    require_no_transaction(using)
    allowances = _allowances(tip, model, tools, contributions, reserved_tokens)
    if not allowances.model:
        raise InvalidMessage("Name a model: pass model=, or set it on the session.", field="model")
    if allowances.settings.mode != Mode.OFF:
        declared = allowances.settings.provider_context_management
        sendings.note_double_compaction(tip.session_id, params, declared, using)
    options = {
        "model": model,
        "tools": tools,
        "contributions": contributions,
        "reserved_tokens": reserved_tokens,
    }
    turn = _Turn(tip=tip, model=allowances.model, options=options, context=_context(tip, allowances))
    give_back_connection(using)
    return turn


def _open_overflow(turn: _Turn) -> CompactionRun:
    return _open_now(turn.tip, Trigger.OVERFLOW, "", **turn.options)


def _after_overflow(turn: _Turn, compact_now: Callable[[], CompactionRun], overflow: Exception) -> _Turn:
    try:
        run = compact_now()
    except (CompactionFailed, CompactionRefused) as error:
        raise _overflow(turn) from error
    if run.status != RunStatus.SUCCEEDED:
        raise _overflow(turn) from overflow
    return _sent_again(turn)


async def _aafter_overflow(turn: _Turn, overflow: Exception) -> _Turn:
    try:
        run = await sync_to_async(_open_overflow)(turn)
        if run.is_open:
            run = await _afinish_now(run)
    except (CompactionFailed, CompactionRefused) as error:
        raise _overflow(turn) from error
    if run.status != RunStatus.SUCCEEDED:
        raise _overflow(turn) from overflow
    return await sync_to_async(_sent_again)(turn)


def _sent_again(turn: _Turn) -> _Turn:
    context = get_context(turn.tip, **turn.options)
    give_back_connection(turn.using)
    return replace(turn, context=context)


def _overflow(turn: _Turn) -> ContextOverflow:
    numbers = sendings.overflow_numbers(turn.context)
    return ContextOverflow(
        f"The provider finds the prompt too long: {numbers['needed']} tokens by our count, "
        f"{numbers['available']} available.",
        **numbers,
    )


def _end_turn(turn: _Turn, reply: replies.Reply) -> ChatMessage:
    session = ChatSession.objects.using(turn.using).get(pk=turn.tip.session_id)
    stored = append_message(
        session,
        turn.tip,
        role=Role.ASSISTANT,
        content=reply.content,
        tool_calls=reply.tool_calls,
        reasoning=reply.reasoning,
        usage=reply.usage,
        model=reply.model or turn.model,
        context=turn.context,
    )
    request_compaction(stored, **turn.options)
    return stored


# Each database step is whole in one sync_to_async: half a transaction in another thread would be none.
astart_session = sync_to_async(start_session)
aappend_message = sync_to_async(append_message)
aappend_messages = sync_to_async(append_messages)
aget_branch = sync_to_async(get_branch)
aget_context = sync_to_async(get_context)
afind_summary = sync_to_async(find_summary)
ashould_compact = sync_to_async(should_compact)
aretire_summary = sync_to_async(retire_summary)
aredact_message = sync_to_async(redact_message)
adelete_message = sync_to_async(delete_message)
adelete_session = sync_to_async(delete_session)
atips = sync_to_async(tips)
avariants = sync_to_async(variants)
arequest_compaction = sync_to_async(request_compaction)


async def acompact(tip: ChatMessage, *, instructions: str = "") -> CompactionRun:
    """:func:`compact` with the model awaited: the event loop and the database thread stay free meanwhile."""
    run = await sync_to_async(_open_now)(tip, Trigger.MANUAL, instructions)
    return await _afinish_now(run) if run.is_open else run


async def _afinish_now(run: CompactionRun) -> CompactionRun:
    using = run._state.db or "default"
    outcome = await acompact_chat_history(run.pk, using)
    while (following := next_now(outcome)) is not None:
        outcome = await acompact_chat_history(following.pk, using)
    return raise_for(outcome)
