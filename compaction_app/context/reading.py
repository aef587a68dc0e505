"""What the model would be sent at a tip, and whether the branch there is over its threshold.

Every public function makes one :class:`ContextRequest` of its :class:`ContextOptions`. :func:`resolve_request` applies
the session's settings as they are stored now, so context, trigger and run compare the same numbers. Nothing here
writes, enqueues or waits, so anything may inspect with it.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

from compaction_app.conf import Mode, get_settings, get_token_counter
from compaction_app.context import budget, windows
from compaction_app.context.assembly import assemble, reasoning_sizes, with_reasoning_that_fits
from compaction_app.context.budget import ContextOptions, ContextRequest, Room
from compaction_app.context.own_summary import with_own_summary
from compaction_app.context.pruning import call_groups, has_its_calls, pins_and_room, prune_branch
from compaction_app.exceptions import ConfigurationError, ContextOverflow, MessageNotFound
from compaction_app.messages.transcript import count_summary
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.redaction import redactor_of
from compaction_app.tokens import Count
from compaction_app.tree import branches
from compaction_app.tree.branches import TipHistory, check_tip
from compaction_app.values import Branch, ChatContext

logger = logging.getLogger("compaction_app.budget")


@dataclass(frozen=True, kw_only=True)
class ResolvedRequest(Room):
    """A request with its session's settings applied: everything that deciding and assembling need."""

    session: ChatSession
    count: Count
    #: Where the model is asked, its name, and what was learned there.
    place: windows.ModelPlace = ("", "")
    learned: windows.Learned = windows.NOTHING
    #: The history at a tip as it was when the session was read; None if it was not read with it.
    history: TipHistory | None = None


def resolve_request(
    session: ChatSession, request: ContextRequest | None = None, *, believed: bool = True
) -> ResolvedRequest:
    """The request with the settings of a session; ``believed``: the window that was learned counts.

    Raises :class:`ConfigurationError` where nothing is left for the conversation.
    """
    request = request or ContextRequest()
    settings, count, model = get_settings(session.settings), get_token_counter(), request.model or session.model
    place, learned = windows.learned_at(request.endpoint, model)
    window, name = learned.window if believed else None, windows.name_of(place)
    room = budget.room_for(session, request, settings, count, model, window=window, counted_as=name)
    return ResolvedRequest(**vars(room), session=session, count=count, place=place, learned=learned)


def get_context(tip: ChatMessage, **options: Unpack[ContextOptions]) -> ChatContext:
    """What the model would be sent at ``tip``. Writes nothing and enqueues nothing.

    - ``model``: the chat model's name, by default the session's.
    - ``tools``: schemas that the request will have: they are counted.
    - ``contributions``: messages of this request only, ``[{"role": "system", "content": "…"}]``: they are counted, and
      sent after the system prompt.
    - ``reserved_tokens``: kept free for the reply, by default ``RESERVED_TOKENS``.
    - ``include_reasoning``: send the reasoning blocks of tail messages back, the newest first, while there is room for
      them; they are counted.
    - ``system_prompt``: for this request, in place of the session's.
    - ``sends``: the format in which ``original`` goes out, if you send it as it came; ``endpoint``: where, as
      ``original`` has it. What is above a provider's own summary that came from there and from ``model`` is left out
      (``own_summary_id``), since that goes along; for any other model it is cut out.

    ``get_context(tip).to_openai()`` is the list for a client. ``REDACTOR`` has been applied, if one is set; if it
    raises, so does this, with :class:`RedactionFailed`. Raises :class:`ContextOverflow` only if the newest user message
    and the last group alone are too large.
    """
    check_tip(tip)
    return context_at(tip, *resolve_and_read(tip, ContextRequest.of(**options)))


def should_compact(tip: ChatMessage, **options: Unpack[ContextOptions]) -> bool:
    """Whether the branch is over its threshold, even after old tool results are shortened.

    Arguments are those of :func:`get_context`. It does not say whether a compaction would start now: that also depends
    on cool-down, breaker, policy and limits.
    """
    check_tip(tip)
    return is_over_threshold(tip, resolve_request_at(tip, ContextRequest.of(**options)))


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
                branch, stored = _load(tip, resolved)
                if all(getattr(session, name) == value for name, value in stored.items()):
                    return resolved, branch
    return resolve_request_at(tip, request), None


def context_at(
    tip: ChatMessage, resolved: ResolvedRequest, read: Branch | None = None, *, uses_own: bool = True
) -> ChatContext:
    """``read``: of :func:`resolve_and_read`. ``uses_own``: a provider's own summary may stand for what is above it."""
    branch = window_at(tip, resolved, read, uses_own=uses_own)
    try:
        context = _assembled(branch, resolved)
        if branch.own_summary_id:
            # Without it nothing would stand for what is above, and no prompt lacks the newest user message.
            newest_user = [one.id for one in (*branch.pins, *branch.tail) if one.starts_turn][-1:]
            if not {branch.own_summary_id, *newest_user} <= {one.id for one in context.messages}:
                return context_at(tip, resolved, read, uses_own=False)
    except ContextOverflow:
        if branch.own_summary_id:
            return context_at(tip, resolved, read, uses_own=False)
        if not resolved.is_narrowed:
            raise
        return context_at(tip, resolve_request(resolved.session, resolved.request, believed=False))
    if context.dropped and not branch.own_summary_id and (shared := _with_shared_extract(branch, tip, resolved)):
        context = shared
    if resolved.request.include_reasoning:
        room = None if resolved.settings.mode == Mode.OFF else context.available_tokens - context.history_tokens
        context = with_reasoning_that_fits(context, resolved.count, room=room)
    own = branch.own_summary_id
    return replace(context, model=resolved.model, endpoint=resolved.place[0], own_summary_id=own)


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


def window_at(
    tip: ChatMessage, resolved: ResolvedRequest, branch: Branch | None = None, *, uses_own: bool = True
) -> Branch:
    """The branch at a tip as far back as its window can show it; all of it where the mode is off."""
    if resolved.settings.mode == Mode.OFF:
        return branches.load_verbatim(tip)
    asked, redact = resolved.request, redactor_of(resolved.settings)
    made_here = {"format": asked.sends, "endpoint": asked.endpoint or "", "model": resolved.model}
    with_own = partial(with_own_summary, made_here=made_here, redact=redact, is_used=uses_own)
    branch = with_own(branch or _load(tip, resolved)[0])
    base = branch.base
    if base is None:
        return branch
    _, room = pins_and_room(branch.tail, base.turn_request, resolved.budget.available, branch.pins)
    if base.tokens <= room:
        return branch
    # Most often it was made for a larger window. Without it older messages are read, as many as fit.
    return replace(with_own(_load(tip, resolved, largest_summary=room)[0]), is_without_newest_summary=True)


def _load(tip: ChatMessage, resolved: ResolvedRequest, **narrower: int) -> tuple[Branch, dict[str, Any]]:
    """As much of the branch as can be shown, and its session as it is stored."""
    return branches.load_window(
        tip,
        limit=resolved.budget.available,
        preserve=resolved.settings.preserve_recent_messages,
        prune_bytes=resolved.settings.prune_tool_result_bytes,
        **narrower,
    )
