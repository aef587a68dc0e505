"""What the model is shown: the layers from free to paid, stopping as soon as the history fits. Pure.

The chat turn, the admin and the API all call :func:`assemble`, so an inspection shows what the model sees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from compaction_app.conf import Mode, PruneWhen, Settings
from compaction_app.context.budget import CALIBRATION_RANGE
from compaction_app.context.pruning import Fitted, Pruned, fit, micro_compact, prune
from compaction_app.messages.summary import count_summary, summary_message
from compaction_app.redaction import Redact, guarded_redactor_of, redact_branch
from compaction_app.tokens import Count, count_messages
from compaction_app.values import Branch, Budget, ChatContext, ContextMessage, Message, Origin, Role, Strategy


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What is sent around the history: counted, never stored, never compacted."""

    system_prompt: str = ""
    contributions: tuple[Mapping[str, Any], ...] = ()
    #: Tokens of system prompt, contributions and tool schemas.
    tokens: int = 0
    contribution_tokens: tuple[int, ...] = ()
    system_tokens: int = 0
    #: Tokens kept free for the reply.
    reply_tokens: int = 0

    @property
    def reserved(self) -> int:
        return self.tokens + self.reply_tokens


@dataclass(frozen=True)
class Shown:
    """The history after the layers."""

    tail: tuple[Message, ...]
    left_out: dict[int, int]
    dropped: int
    strategy: Strategy
    summary: bool
    pinned: bool


def history_after_pruning(branch: Branch, budget: Budget, settings: Settings, count: Count) -> tuple[Pruned, Strategy]:
    """The free layers: what is left of the tail, and how far the ladder went."""
    untouched = Pruned(messages=branch.tail), Strategy.NONE
    over = branch.history_tokens > budget.threshold
    if settings.mode == Mode.OFF or not (over or settings.prune == PruneWhen.ALWAYS):
        return untouched
    pruned = prune(
        branch.tail,
        keep_turns=settings.prune_keep_turns,
        max_bytes=settings.prune_tool_result_bytes,
        count=count,
    )
    strategy = Strategy.TOOL_RESULT_BUDGET if pruned.left_out else Strategy.NONE
    if settings.micro_compact and history_tokens(branch, pruned.messages) > budget.threshold:
        collapsed = micro_compact(pruned.messages, keep_turns=settings.prune_keep_turns, count=count)
        if collapsed.left_out:
            strategy = Strategy.MICRO_COMPACT
            left_out = dict(pruned.left_out)
            for message_id, size in collapsed.left_out.items():
                left_out[message_id] = left_out.get(message_id, 0) + size
            pruned = Pruned(messages=collapsed.messages, left_out=left_out)
    return pruned, strategy


def tokens_after_free_layers(branch: Branch, budget: Budget, settings: Settings, count: Count) -> int:
    """What the free layers leave of the history: a summary is wanted where this is over the threshold."""
    pruned, _ = history_after_pruning(branch, budget, settings, count)
    return history_tokens(branch, pruned.messages)


def history_tokens(branch: Branch, tail: Sequence[Message]) -> int:
    summary = branch.base.tokens if branch.base else 0
    return summary + branch.pinned_tokens + branch.unread_tokens + sum(message.tokens for message in tail)


def climb(branch: Branch, budget: Budget, settings: Settings, count: Count) -> Shown:
    """All layers for a branch; raises ContextOverflow only where nothing helps."""
    pruned, strategy = history_after_pruning(branch, budget, settings, count)
    tokens = history_tokens(branch, pruned.messages)
    if settings.mode != Mode.OFF and (branch.base or tokens > budget.threshold):
        strategy = Strategy.AUTO_COMPACT
    if settings.mode == Mode.OFF or (tokens <= budget.available and not branch.unread):
        pinned = bool(branch.base and branch.base.pinned)
        return Shown(pruned.messages, pruned.left_out, 0, strategy, branch.base is not None, pinned)
    fitted: Fitted = fit(
        pruned.messages,
        summary_tokens=branch.base.tokens if branch.base else 0,
        pinned=branch.base.pinned if branch.base else None,
        available=budget.available,
        target=budget.target,
        preserve=settings.preserve_recent_messages,
        max_bytes=settings.prune_tool_result_bytes,
        count=count,
        unread=branch.unread,
    )
    kept = [message.id for message in fitted.messages]
    left_out = {key: pruned.left_out[key] for key in pruned.left_out if key in kept}
    for message_id, size in fitted.left_out.items():
        if message_id in kept:
            left_out[message_id] = left_out.get(message_id, 0) + size
    return Shown(
        fitted.messages,
        left_out,
        fitted.dropped,
        Strategy.TRUNCATED,
        fitted.summary and branch.base is not None,
        fitted.pinned,
    )


def assemble(
    branch: Branch, surroundings: Surroundings, budget: Budget, settings: Settings, count: Count
) -> ChatContext:
    """The context at the branch's tip, with every figure behind it.

    ``REDACTOR`` comes first, so that what is counted, shortened and left out is what is sent, and half a key is
    never shown because the other half was cut away.
    """
    if redact := guarded_redactor_of(settings):
        branch = redact_branch(branch, redact, count, partial(count_summary, count=count))
        surroundings, budget = _redact_surroundings(surroundings, budget, redact, count)
    shown = climb(branch, budget, settings, count)
    messages = list(_around(surroundings))
    if branch.base and shown.summary:
        messages.append(
            ContextMessage(
                role=settings.summary_role,
                content=summary_message(branch.base.content),
                origin=Origin.SUMMARY,
                tokens=branch.base.tokens,
                message_id=branch.base.id,
            )
        )
    if branch.base and branch.base.pinned and shown.pinned:
        messages.append(as_sent(branch.base.pinned, Origin.PINNED))
    messages += [
        as_sent(m, Origin.PRUNED if m.id in shown.left_out else Origin.VERBATIM, shown.left_out.get(m.id, 0))
        for m in shown.tail
    ]
    history = sum(message.tokens for message in messages) - surroundings.system_tokens
    history -= sum(surroundings.contribution_tokens)
    return ChatContext(
        messages=tuple(messages),
        tokens=history + surroundings.tokens,
        history_tokens=history,
        available_tokens=budget.available,
        reserved_tokens=surroundings.reserved,
        window=budget.window,
        threshold=budget.threshold,
        target=budget.target,
        summary_id=branch.base.id if branch.base and shown.summary else None,
        cutoff_id=branch.base.cutoff_id if branch.base and shown.summary else None,
        pinned_id=branch.base.pinned.id if branch.base and branch.base.pinned and shown.pinned else None,
        strategy=shown.strategy,
        pruned=len(shown.left_out),
        dropped=shown.dropped,
        tip_id=branch.tip_id,
        first_shown_depth=shown.tail[0].depth if shown.tail else None,
    )


def _redact_surroundings(
    surroundings: Surroundings, budget: Budget, redact: Redact, count: Count
) -> tuple[Surroundings, Budget]:
    """What surrounds the history as it may be sent, and the budget with what it grew by taken off."""
    contributions = tuple(
        {**c, **{name: redact(str(c[name])) for name in ("content", "name") if c.get(name)}}
        for c in surroundings.contributions
    )
    system_prompt = redact(surroundings.system_prompt)
    if (system_prompt, contributions) == (surroundings.system_prompt, surroundings.contributions):
        return surroundings, budget
    system, *counts = count_messages([{"content": system_prompt}, *contributions], count)
    system = system if system_prompt else 0
    before = surroundings.system_tokens + sum(surroundings.contribution_tokens)
    grown = system + sum(counts) - before
    # In the provider's tokens it may be more than in ours: the smallest calibration is the most of ours for one.
    taken = math.ceil(max(grown, 0) / CALIBRATION_RANGE[0])
    redacted = replace(
        surroundings,
        system_prompt=system_prompt,
        contributions=contributions,
        tokens=surroundings.tokens + grown,
        system_tokens=system,
        contribution_tokens=tuple(counts),
    )
    return redacted, replace(budget, available=budget.available - taken)


def _around(surroundings: Surroundings) -> list[ContextMessage]:
    messages = []
    if surroundings.system_prompt:
        messages.append(
            ContextMessage(
                role=Role.SYSTEM,
                content=surroundings.system_prompt,
                origin=Origin.SYSTEM,
                tokens=surroundings.system_tokens,
            )
        )
    for contribution, tokens in zip(surroundings.contributions, surroundings.contribution_tokens, strict=True):
        messages.append(
            ContextMessage(
                role=str(contribution["role"]),
                content=str(contribution.get("content") or ""),
                origin=Origin.CONTRIBUTION,
                tokens=tokens,
                name=str(contribution.get("name") or ""),
            )
        )
    return messages


def as_sent(message: Message, origin: Origin, left_out_bytes: int = 0) -> ContextMessage:
    """A message of the tail, or a pinned one, as a model is sent it."""
    return ContextMessage(
        role=message.role,
        content=message.content,
        origin=origin,
        tokens=message.tokens,
        message_id=message.id,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        reasoning=message.reasoning,
        attachments=message.attachments,
        left_out_bytes=left_out_bytes,
    )
