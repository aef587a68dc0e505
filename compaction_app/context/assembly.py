"""What the model is shown. Layers make the history fit, the cheapest first; each one only if it is needed. Pure.

The chat turn, the admin and the API all call :func:`assemble`, so an inspection shows what the model sees.
``REDACTOR`` comes first, then pruning, then the summary. If the prompt would still not fit now, because compaction is
late or failing, ``pruning.fit`` leaves out the oldest turns; ``context.reading`` looks for a shared extract before.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from compaction_app.conf import Mode, PruneWhen, Settings, load_function
from compaction_app.context.budget import CALIBRATION_RANGE, ReservedParts
from compaction_app.context.pruning import ShownHistory, fit, micro_compact, prune
from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.openai_format import strings
from compaction_app.messages.transcript import RECALL_NOTE, RECALL_TOOL, summary_message
from compaction_app.messages.validation import is_storable
from compaction_app.redaction import Redact, redact_and_recount, redact_branch, redactor_of
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count, attachment_tokens
from compaction_app.values import Branch, Budget, ChatContext, ContextMessage, Json, Origin, Role, Strategy, pins_beside

logger = logging.getLogger("compaction_app.sendings")


def assemble(
    branch: Branch, reserved_parts: ReservedParts, budget: Budget, settings: Settings, count: Count
) -> ChatContext:
    """The context at the branch's tip, with every figure behind it.

    Redacting comes first, so that what is counted, shortened and left out is what is sent, and half a key is never
    shown because the other half was cut away.
    """
    if redact := redactor_of(settings):
        branch = redact_branch(branch, redact, count)
        reserved_parts, budget = _redact_reserved_parts(reserved_parts, budget, redact, count)
    shown = apply_layers(branch, budget, settings, count)
    note = RECALL_NOTE if RECALL_TOOL in reserved_parts.tool_names else ""
    history = (*_before_the_tail(shown, note), *shown.tail)
    history_tokens = shown.tokens
    return ChatContext(
        messages=(*reserved_parts.messages, *history),
        tokens=history_tokens + reserved_parts.tokens,
        history_tokens=history_tokens,
        available_tokens=budget.available,
        reserved_tokens=reserved_parts.total,
        window=budget.window,
        threshold=budget.threshold,
        target=budget.target,
        summary_id=shown.summary.id if shown.summary else None,
        cutoff_id=shown.summary.cutoff_id if shown.summary else None,
        pinned_id=shown.turn_request.id if shown.turn_request else None,
        pin_ids=tuple(pin.id for pin in shown.pins),
        strategy=shown.strategy,
        pruned=shown.pruned_messages,
        dropped=shown.dropped,
        tip_id=branch.tip_id,
        first_shown_depth=shown.tail[0].depth if shown.tail else None,
        tool_names=reserved_parts.tool_names,
        alternate_roles=settings.alternate_roles,
        attachment_tokens=sum(attachment_tokens(one.attachments, sent=one.role == Role.USER) for one in history),
        address_of=partial(address_of, settings.attachment_url) if settings.attachment_url else None,
    )


def address_of(path: str, attachment: Mapping[str, Json]) -> str | None:
    """What the site's ``ATTACHMENT_URL`` says; where it fails "", so that a turn goes on without the attachment."""
    try:
        address = load_function(path)(attachment)
    except Exception as error:
        log_error(logger, error, step="attachment_url")
        return ""
    if address is None or (isinstance(address, str) and is_storable(address)):
        return address
    log(logger, logging.ERROR, "error", step="attachment_url", answered=type(address).__name__, known="str")
    return ""


def apply_layers(branch: Branch, budget: Budget, settings: Settings, count: Count) -> ShownHistory:
    """All layers for a branch; raises :class:`ContextOverflow` only if the newest turn alone is too large."""
    branch, strategy = prune_branch(branch, budget, settings, count)
    base, request = branch.base, branch.turn_request
    pins = pins_beside(branch.pins, request, branch.tail)
    whole = ShownHistory(summary=base, turn_request=request, pins=pins, tail=branch.tail)
    if settings.mode == Mode.OFF:
        return whole
    shown = whole
    if whole.tokens > budget.available or branch.unread:
        shown = _fitted(branch, whole, budget, settings, count)
    if shown != whole or branch.is_without_newest_summary:
        strategy = Strategy.TRUNCATED
    elif base:
        strategy = Strategy.SHARED_EXTRACT if base.is_shared else Strategy.AUTO_COMPACT
    return replace(shown, strategy=strategy)


def _fitted(branch: Branch, whole: ShownHistory, budget: Budget, settings: Settings, count: Count) -> ShownHistory:
    fit_to = partial(
        fit, branch, preserve=settings.preserve_recent_messages, max_bytes=settings.prune_tool_result_bytes, count=count
    )
    try:
        return fit_to(available=budget.available)
    except ContextOverflow as overflow:
        # What is learned and what is estimated may be wrong, and the provider knows: the newest turn is tried alone.
        always = (*whole.pins, *whole.tail, *filter(None, [whole.turn_request]))
        estimated = sum(attachment_tokens(message.attachments) for message in always)
        return fit_to(available=max(budget.available, min(overflow.needed, budget.limit + estimated)))


def prune_branch(branch: Branch, budget: Budget, settings: Settings, count: Count) -> tuple[Branch, Strategy]:
    """The branch after the free layers, and the last one that changed it."""
    history, strategy = branch.history_tokens, Strategy.NONE
    if settings.mode == Mode.OFF or not (history > budget.threshold or settings.prune == PruneWhen.ALWAYS):
        return branch, strategy
    # What the messages of the tail may take: up to the threshold if that can be, or else up to what is available.
    around = history - sum(message.tokens for message in branch.tail)
    rooms = (budget.threshold - around, budget.available - around)
    about: dict[str, Any] = {"keep_turns": settings.prune_keep_turns, "count": count, "rooms": rooms}
    pruned = replace(branch, tail=prune(branch.tail, max_bytes=settings.prune_tool_result_bytes, **about))
    if pruned != branch:
        branch, strategy = pruned, Strategy.TOOL_RESULT_BUDGET
    if settings.micro_compact and branch.history_tokens > budget.threshold:
        collapsed = replace(branch, tail=micro_compact(branch.tail, **about))
        if collapsed != branch:
            branch, strategy = collapsed, Strategy.MICRO_COMPACT
    return branch, strategy


def _before_the_tail(shown: ShownHistory, note: str) -> Iterator[ContextMessage]:
    if shown.summary:
        yield ContextMessage(
            # Untrusted text: it never has the system role.
            role=Role.USER,
            content=summary_message(shown.summary.text, note),
            origin=Origin.SHARED_EXTRACT if shown.summary.is_shared else Origin.SUMMARY,
            tokens=shown.summary.tokens,
            id=shown.summary.id,
        )
    yield from shown.pins
    if shown.turn_request:
        yield replace(shown.turn_request, origin=Origin.PINNED)


def _redact_reserved_parts(
    parts: ReservedParts, budget: Budget, redact: Redact, count: Count
) -> tuple[ReservedParts, Budget]:
    """System prompt and contributions redacted; what they grew by is taken off the budget."""
    redacted = [redact_and_recount(one, redact, count) for one in parts.messages]
    messages = tuple(one for one in redacted if one.content or one.origin != Origin.SYSTEM)
    if messages == parts.messages:
        return parts, budget
    grown = sum(one.tokens for one in messages) - sum(one.tokens for one in parts.messages)
    # A provider may count more tokens than we do: the smallest calibration gives the most that this can be.
    taken = math.ceil(max(grown, 0) / CALIBRATION_RANGE[0])
    budget = replace(budget, available=budget.available - taken, limit=budget.limit - taken)
    return replace(parts, messages=messages, tokens=parts.tokens + grown), budget


def with_reasoning_that_fits(context: ChatContext, count: Count, *, room: int | None) -> ChatContext:
    """The context with the newest reasoning blocks that fit ``room`` tokens, counted; None: all of them.

    A message's own count leaves its reasoning out, since most requests do.
    """
    sizes = reasoning_sizes(context.messages, count, room=room)
    messages = [
        replace(one, tokens=one.tokens + sizes[place]) if place in sizes else replace(one, reasoning=None)
        for place, one in enumerate(context.messages)
    ]
    added = sum(sizes.values())
    return replace(
        context,
        messages=tuple(messages),
        tokens=context.tokens + added,
        history_tokens=context.history_tokens + added,
        include_reasoning=True,
    )


def reasoning_sizes(messages: Sequence[ContextMessage], count: Count, *, room: int | None) -> dict[int, int]:
    """Tokens that reasoning adds, by the place of its message, with ``room`` for all of them; without what is not sent.

    A message's reasoning is sent whole and as it came, or not at all; once one does not fit, no older one is sent. What
    is in the message's ``original`` was counted with it, and adds nothing.
    """
    places = [place for place, message in enumerate(messages) if message.reasoning is not None]
    texts = []
    for place in places:
        reasoning = messages[place].reasoning
        is_counted = set(strings(reasoning)) <= set(strings(messages[place].original))
        as_text = reasoning if isinstance(reasoning, str) else json.dumps(reasoning, ensure_ascii=False, sort_keys=True)
        texts.append("" if is_counted else as_text)
    newest = list(zip(places, count(texts), strict=True))[::-1]
    totals = accumulate(size for _, size in newest)
    return {place: size for (place, size), total in zip(newest, totals, strict=True) if room is None or total <= room}
