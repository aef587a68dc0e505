"""How full the window is at a tip, by what, and what compaction does about it: numbers and codes, no text."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Unpack

from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import ContextOptions, ContextRequest
from compaction_app.context.reading import context_at, resolve_and_read
from compaction_app.messages.transcript import RECALL_TOOLS
from compaction_app.models import ChatMessage, sql
from compaction_app.models.database import fetch
from compaction_app.tree.branches import check_tip
from compaction_app.values import (
    OPEN_RUN_STATUSES,
    ChatContext,
    ContextMessage,
    Meter,
    MeterState,
    Origin,
    Role,
    RunStatus,
)

_PARTS: dict[str, str] = {
    Origin.SYSTEM: "system_prompt",
    Origin.CONTRIBUTION: "contributions",
    Origin.SUMMARY: "summary",
    Origin.SHARED_EXTRACT: "summary",
    Origin.PIN: "pins",
    Origin.PINNED: "pins",
}
#: Of what was sent, what its state depends on.
_COMPARED = ("summary_id", "cutoff_id", "dropped", "history_tokens", "threshold")


def measure(tip: ChatMessage, **options: Unpack[ContextOptions]) -> Meter:
    """What :func:`get_context` would take of the window, with the same arguments and errors, and the branch's state.

    Writes nothing. As many queries for a hundred thousand messages as for ten.
    """
    check_tip(tip)
    resolved, branch = resolve_and_read(tip, ContextRequest.of(**options))
    context = context_at(tip, resolved, branch)
    return meter_of(context, tip)


def meter_of(context: ChatContext, tip: ChatMessage) -> Meter:
    """The meter of a context that was read for ``tip``: one query, for the state."""
    sizes = Counter[str]()
    for message in context.messages:
        sizes[_part_of(message)] += message.tokens
    fixed = context.tokens - context.history_tokens
    state, code, run_id = state_at(tip, {name: getattr(context, name) for name in _COMPARED})
    return Meter(
        tip_id=context.tip_id,
        model=context.model,
        state=state,
        code=code,
        run_id=run_id,
        system_prompt=sizes["system_prompt"],
        tools=fixed - sizes["system_prompt"] - sizes["contributions"],
        contributions=sizes["contributions"],
        summary=sizes["summary"],
        pins=sizes["pins"],
        recalled=sizes["recalled"],
        messages=sizes["messages"],
        reserved=context.reserved_tokens - fixed,
        history=context.history_tokens,
        available=context.available_tokens,
        threshold=context.threshold,
        window=context.window,
        fallback_used=context.fallback_used,
        dropped=context.dropped,
    )


def _part_of(message: ContextMessage) -> str:
    if message.role == Role.TOOL and message.name in RECALL_TOOLS:
        return "recalled"
    return _PARTS.get(message.origin, "messages")


def state_at(tip: ChatMessage, sent: Mapping[str, Any]) -> tuple[MeterState, str, int | None]:
    """State, error code and newest run of the branch at ``tip``, where this was ``sent``: figures of a context."""
    summary_id, cutoff_id, dropped, history, threshold = (sent.get(name) for name in _COMPARED)
    found = next(iter(fetch(sql.NEWEST_RUN, {"tip": tip.pk, "cutoff": cutoff_id}, tip)), None)
    run_id, status, code, made = found or (None, "", "", None)
    if status in OPEN_RUN_STATUSES:
        state = MeterState.RUNNING
    elif get_settings(tip.session.settings).mode == Mode.OFF:
        state = MeterState.OK
    elif status == RunStatus.FAILED:
        state = MeterState.FAILED
    elif dropped or (history or 0) > (threshold or 0):
        state = MeterState.DUE
    else:
        state = MeterState.EXTRACT if code and made == summary_id else MeterState.OK
    return state, code, run_id
