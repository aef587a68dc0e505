"""What the model would be sent at a tip, and whether the branch there is over its threshold.

Every public function makes one :class:`ContextRequest` of its :class:`TurnOptions`. :func:`resolve_request` applies the
session's settings as they are stored now, so context, trigger and run compare the same numbers. Nothing here writes,
enqueues or waits, so anything may inspect with it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypedDict, Unpack

from compaction_app.conf import Mode, Settings, get_settings, get_token_counter
from compaction_app.context import budget, windows
from compaction_app.context.assembly import assemble, prune_branch, reasoning_sizes, with_reasoning_that_fits
from compaction_app.context.budget import ReservedParts
from compaction_app.context.pruning import call_groups, has_its_calls, pins_and_room
from compaction_app.exceptions import ConfigurationError, ContextOverflow, InvalidMessage, MessageNotFound
from compaction_app.messages.transcript import count_summary
from compaction_app.messages.validation import check_budget_arguments, check_list_of_dicts, check_text
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.telemetry import log
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.tree.branches import TipHistory, check_tip
from compaction_app.values import Branch, Budget, ChatContext, Role

logger = logging.getLogger("compaction_app.budget")

_CONTRIBUTION_ROLES = (Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT)


class TurnOptions(TypedDict, total=False):
    """What a turn is asked with beside its tip: the keywords of all that sends, measures or shows a context."""

    model: str | None
    tools: Sequence[Mapping[str, Any]] | None
    contributions: Sequence[Mapping[str, Any]]
    reserved_tokens: int | None
    include_reasoning: bool
    system_prompt: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest:
    """What a caller wants a context for. Creating one checks it: :class:`InvalidMessage` names the argument."""

    #: The chat model; None means the session's.
    model: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    #: Messages that the caller makes anew for each turn: sent and counted, never stored.
    contributions: Sequence[Mapping[str, Any]] = ()
    #: Tokens kept free for the reply; None means ``RESERVED_TOKENS``.
    reserved_tokens: int | None = None
    #: Where the model is asked (:func:`windows.endpoint_of`); None means the client's default.
    endpoint: str | None = None
    #: What the provider has just said that it takes.
    window: int | None = None
    #: Reasoning blocks will be sent back: they are counted.
    include_reasoning: bool = False
    #: In place of the session's, which another request may change meanwhile.
    system_prompt: str | None = None
    #: How long the request lets the reply be; 0 means unknown. It counts where ``reserved_tokens`` is not given.
    reply_tokens: int = 0

    def __post_init__(self) -> None:
        check_budget_arguments(self.model, self.tools, self.reserved_tokens)
        check_text(self.system_prompt or "", "system_prompt")
        check_list_of_dicts(self.contributions, "contributions", "messages (dicts with role and content)")
        for contribution in self.contributions:
            if contribution.get("role") not in _CONTRIBUTION_ROLES:
                raise InvalidMessage(
                    "A contribution is a dict with the role system, developer, user or assistant, and content.",
                    field="contributions",
                )
            if not isinstance(contribution.get("content"), str):
                raise InvalidMessage("A contribution's content is a text.", field="contributions")
            for text in (contribution["content"], str(contribution.get("name") or "")):
                check_text(text, "contributions")


@dataclass(frozen=True, kw_only=True)
class ResolvedRequest:
    """A request with its session's settings applied: everything that deciding and assembling need."""

    session: ChatSession
    settings: Settings
    #: The chat model that the context is meant for.
    model: str
    reserved_parts: ReservedParts
    budget: Budget
    count: Count
    request: ContextRequest = ContextRequest()
    #: Where the model is asked, its name, and what was learned there.
    place: windows.Place = ("", "")
    learned: windows.Learned = windows.NOTHING
    #: The window is what was learned, and smaller than what is configured: it may be a gateway's mistake.
    is_narrowed: bool = False
    #: The history at a tip as it was when the session was read; None if it was not read with it.
    history: TipHistory | None = None


def resolve_request(
    session: ChatSession, request: ContextRequest | None = None, *, believed: bool = True
) -> ResolvedRequest:
    """The request with the settings of a session; ``believed``: the window that was learned counts.

    Raises :class:`ConfigurationError` where nothing is left for the conversation.
    """
    request = request or ContextRequest()
    settings = get_settings(session.settings)
    count = get_token_counter()
    model = request.model or session.model
    if "TRIGGER_RATIO" not in session.settings:
        settings = budget.with_trigger_of(model, settings)
    place = (windows.endpoint_of() if request.endpoint is None else request.endpoint, model)
    learned = windows.learned_of(place)
    learned = replace(learned, window=request.window or learned.window)
    configured = window = budget.window_or_default(model, settings)
    if learned.window and (believed or request.window):
        window = budget.window_or_default(model, settings, learned.window)
    prompt = session.system_prompt if request.system_prompt is None else request.system_prompt
    parts = budget.count_reserved_parts(prompt, request.contributions, request.tools, count)
    reply = budget.reply_reserve(configured, settings, request.reserved_tokens)
    if window < configured:
        reply = min(reply, window // 4)
    limit = window - parts.tokens - reply
    if request.reserved_tokens is None:
        # A client may allow more than any model writes: a quarter of the window stays for the history.
        reply = max(reply, min(request.reply_tokens, window - parts.tokens - window // 4))
    parts = replace(parts, reply_tokens=reply)
    if parts.total > window // 2:
        # Compaction will be frequent.
        values = {"session": session.pk, "reserved": parts.total, "window": window, "reason": "over_half_the_window"}
        log(logger, logging.WARNING, "reserve", once_for=session.pk, **values)
    calibration = budget.calibration_of(session.token_calibration, windows.name_of(place))
    is_narrowed = window < configured and not request.window
    try:
        made = budget.make_budget(window, parts.total, settings, calibration.ratio, calibration.offset, limit)
    except ConfigurationError:
        if not is_narrowed:
            raise
        return resolve_request(session, request, believed=False)
    return ResolvedRequest(
        session=session,
        settings=settings,
        model=model,
        reserved_parts=parts,
        budget=made,
        count=count,
        request=request,
        place=place,
        learned=learned,
        is_narrowed=is_narrowed,
    )


def get_context(tip: ChatMessage, **options: Unpack[TurnOptions]) -> ChatContext:
    """What the model would be sent at ``tip``. Writes nothing and enqueues nothing.

    - ``model``: the chat model's name, by default the session's.
    - ``tools``: schemas that the request will have: they are counted.
    - ``contributions``: messages of this request only, ``[{"role": "system", "content": "…"}]``: they are counted, and
      sent after the system prompt.
    - ``reserved_tokens``: kept free for the reply, by default ``RESERVED_TOKENS``.
    - ``include_reasoning``: send the reasoning blocks of tail messages back, the newest first, while there is room for
      them; they are counted.
    - ``system_prompt``: for this request, in place of the session's.

    ``get_context(tip).to_openai()`` is the list for a client. ``REDACTOR`` has been applied, if one is set; if it
    raises, so does this, with :class:`RedactionFailed`. Raises :class:`ContextOverflow` only if the newest user message
    and the last group alone are too large.
    """
    check_tip(tip)
    return context_at(tip, *resolve_and_read(tip, ContextRequest(**options)))


def should_compact(tip: ChatMessage, **options: Unpack[TurnOptions]) -> bool:
    """Whether the branch is over its threshold, even after old tool results are shortened.

    Arguments are those of :func:`get_context`. It does not say whether a compaction would start now: that also depends
    on cool-down, breaker, policy and limits.
    """
    check_tip(tip)
    return is_over_threshold(tip, resolve_request_at(tip, ContextRequest(**options)))


def resolve_request_at(tip: ChatMessage, request: ContextRequest) -> ResolvedRequest:
    """The request with the tip's session as it is stored now, in memory it may be old, and the history: one query."""
    if (found := branches.session_and_history(tip)) is None:
        raise MessageNotFound(f"Message {tip.pk} does not exist any more, or its session {tip.session_id} does not.")
    session, history = found
    return replace(resolve_request(session, request), history=history)


def resolve_and_read(tip: ChatMessage, request: ContextRequest) -> tuple[ResolvedRequest, Branch | None]:
    """The request, and the branch: in one statement where the tip's session is in memory as it is stored, else None."""
    session = tip._state.fields_cache.get("session")
    if session is not None:
        # Wrong settings may have been corrected since.
        with suppress(ConfigurationError):
            resolved = resolve_request(session, request)
            if resolved.settings.mode != Mode.OFF:
                branch, stored = branches.load_window(tip, **_wanted(resolved))
                if all(getattr(session, name) == value for name, value in stored.items()):
                    return resolved, branch
    return resolve_request_at(tip, request), None


def context_at(tip: ChatMessage, resolved: ResolvedRequest, branch: Branch | None = None) -> ChatContext:
    """``branch``: of :func:`resolve_and_read`."""
    branch = window_at(tip, resolved, branch)
    try:
        context = _assembled(branch, resolved)
    except ContextOverflow:
        if not resolved.is_narrowed:
            raise
        return context_at(tip, resolve_request(resolved.session, resolved.request, believed=False))
    if context.dropped and (shared := _with_shared_extract(branch, tip, resolved)):
        context = shared
    if resolved.request.include_reasoning:
        room = None if resolved.settings.mode == Mode.OFF else context.available_tokens - context.history_tokens
        context = with_reasoning_that_fits(context, resolved.count, room=room)
    return replace(context, model=resolved.model, endpoint=resolved.place[0])


def _assembled(branch: Branch, resolved: ResolvedRequest) -> ChatContext:
    return assemble(branch, resolved.reserved_parts, resolved.budget, resolved.settings, resolved.count)


def _with_shared_extract(branch: Branch, tip: ChatMessage, resolved: ResolvedRequest) -> ChatContext | None:
    """The context in which nothing has to be left out, since the extract of another branch's summary stands for what
    both branches have; None if there is none.

    A fork between a summary's cutoff and its anchor has no part in its text, which may tell of what follows on the
    other branch. The extract tells of the covered messages alone.
    """
    shared = branches.load_shared_extract(
        branch,
        tip,
        limit=resolved.budget.available,
        prune_bytes=resolved.settings.prune_tool_result_bytes,
        count=lambda text: count_summary(text, resolved.count),
    )
    if shared is None or shared.base is None:
        return None
    request = shared.base.turn_request
    # The newest user message is shown verbatim, and a call that was open at the cutoff may be answered on this branch.
    has_user = request is not None or any(message.starts_turn for message in shared.tail)
    if not has_user or not all(map(has_its_calls, call_groups(shared.tail))):
        return None
    context = _assembled(shared, resolved)
    kept = (context.summary_id, context.pinned_id) == (shared.base.id, request.id if request else None)
    return context if kept and not context.dropped else None


def is_over_threshold(tip: ChatMessage, resolved: ResolvedRequest) -> bool:
    """Whether the history at the tip is over its threshold even after the free layers."""
    if resolved.settings.mode == Mode.OFF:
        return False
    return pruned_history_tokens(tip, resolved) > resolved.budget.threshold


def pruned_history_tokens(tip: ChatMessage, resolved: ResolvedRequest) -> int:
    """Tokens of the history, after pruning if they are over the threshold, and of the reasoning sent with it."""
    known = resolved.history
    if known is None or known.tip_id != tip.pk:
        known = branches.history_at(tip)
    tokens = known.tokens
    if tokens <= resolved.budget.threshold and not resolved.request.include_reasoning:
        return tokens
    branch, _ = prune_branch(window_at(tip, resolved), resolved.budget, resolved.settings, resolved.count)
    tokens = branch.history_tokens
    if not resolved.request.include_reasoning:
        return tokens
    sizes = reasoning_sizes(branch.tail, resolved.count, room=resolved.budget.available - tokens)
    return tokens + sum(sizes.values())


def window_at(tip: ChatMessage, resolved: ResolvedRequest, branch: Branch | None = None) -> Branch:
    """The branch at a tip as far back as its window can show it; all of it where the mode is off."""
    if resolved.settings.mode == Mode.OFF:
        return branches.load_verbatim(tip)
    load = partial(branches.load_window, tip, **_wanted(resolved))
    branch = branch or load()[0]
    base = branch.base
    if base is None:
        return branch
    _, room = pins_and_room(branch.tail, base.turn_request, resolved.budget.available, branch.pins)
    if base.tokens <= room:
        return branch
    # Most often it was made for a larger window. Without it older messages are read, as many as fit.
    return replace(load(largest_summary=room)[0], is_without_newest_summary=True)


def _wanted(resolved: ResolvedRequest) -> dict[str, int]:
    """How much of a branch can be shown."""
    settings = resolved.settings
    return {
        "limit": resolved.budget.available,
        "preserve": settings.preserve_recent_messages,
        "prune_bytes": settings.prune_tool_result_bytes,
    }
