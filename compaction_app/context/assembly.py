"""What the model is shown. Layers make the history fit, the cheapest first; each one only if it is needed. Pure.

The chat turn, the admin and the API all call :func:`assemble`, so an inspection shows what the model sees.
``REDACTOR`` comes first, then pruning, then the summary. If the prompt would still not fit now, because compaction is
late or failing, ``pruning.fit`` leaves out the oldest turns; ``context.reading`` looks for a shared extract before.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from compaction_app.conf import Settings, load_function
from compaction_app.context.budget import CALIBRATION_RANGE, ReservedParts
from compaction_app.context.pruning import ShownHistory, apply_layers
from compaction_app.messages.openai_format import strings
from compaction_app.messages.transcript import RECALL_NOTE, RECALL_TOOL, summary_message
from compaction_app.messages.validation import is_storable
from compaction_app.redaction import Redact, redact_and_recount, redact_branch, redactor_of
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count, attachment_tokens
from compaction_app.values import Branch, Budget, ChatContext, ContextMessage, Json, Origin, Role

logger = logging.getLogger("compaction_app.sendings")


def assemble(
    branch: Branch, reserved_parts: ReservedParts, budget: Budget, settings: Settings, count: Count
) -> ChatContext:
    """The context at the branch's tip, with every figure behind it.

    Redacting comes first, so that what is counted, shortened and left out is what is sent, and half a key is never
    shown because the other half was cut away.
    """
    if settings.redactor and (redact := redactor_of(settings)):
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
        reserved_tokens=budget.reserved,
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
        attachment_tokens=sum(
            attachment_tokens(one.attachments, sent=one.role == Role.USER) for one in history if one.attachments
        ),
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
    available, limit = budget.available - taken, budget.limit - taken
    budget = replace(budget, reserved=budget.reserved + grown, available=available, limit=limit)
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
