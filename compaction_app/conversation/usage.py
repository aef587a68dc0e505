"""What a reply reports about its own prompt, and what this app records of it.

A host stores in ``usage`` and ``metadata`` what the provider reported. That it compacted the prompt is known by:

- Anthropic's ``context_management.applied_edits``: ``clear_tool_uses_…``, ``clear_thinking_…``, ``compact_…``; its
  ``usage.iterations``; content blocks and the stop reason ``compaction``;
- output items of the type ``compaction`` in OpenAI's Responses API (xAI's is the same);
- LiteLLM's ``provider_specific_fields``: ``compaction_blocks`` and ``context_management``.

OpenAI's ``truncation: auto`` leaves messages out silently, so a reply cannot show it. A number that is no count of
tokens (negative, a text, beyond ``MAX_REPORTED``) is ignored: a reply has been paid for, and is stored.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from compaction_app import telemetry
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import calibration_of, observe_calibration
from compaction_app.context.windows import name_of
from compaction_app.messages.originals import is_compaction
from compaction_app.messages.validation import token_count
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent
from compaction_app.models.database import after_commit
from compaction_app.models.runs import record_event
from compaction_app.telemetry import log
from compaction_app.values import ChatContext, EventKind

logger = logging.getLogger("compaction_app.sendings")

#: Parameters of a request that make the provider compact too.
PROVIDER_COMPACTION = ("context_management", "truncation")
#: Of an edit: what it cleared, tool results, turns with reasoning, tokens.
_CLEARED = ("cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens")
#: Where replies keep their content: Anthropic's blocks, OpenAI's output items, LiteLLM's blocks.
_BLOCK_FIELDS = ("content", "output", "compaction_blocks")
#: A prompt of which attachments are more than this share does not show how text is counted.
_MOST_ATTACHED = 0.1
#: Of a context, what a reply keeps of it.
_SENT = (
    "summary_id cutoff_id pinned_id pin_ids own_summary_id first_shown_depth strategy pruned dropped tokens "
    "history_tokens available_tokens threshold window".split()
)
_NO_WORD = re.compile(r"[^A-Za-z0-9_.-]")


def prompt_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Tokens of the whole prompt, cached ones included; None where the usage does not report them."""
    if not isinstance(usage, Mapping):
        return None
    if (tokens := token_count(usage.get("prompt_tokens"))) is not None:
        return tokens
    if (tokens := token_count(usage.get("input_tokens"))) is None:
        return None
    # Anthropic leaves what it read from or wrote to its cache out of them.
    return tokens + sum(_sum([usage], f"cache_{kind}_input_tokens") for kind in ("read", "creation"))


def provider_compaction(usage: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> dict[str, int]:
    """What a reply's usage and metadata report about the provider's own compaction, in numbers; {} if it did nothing.

    ``extra_input_tokens`` and ``extra_output_tokens`` are those of its own summarizing, on top of what the turn used.
    """
    reported = [part for part in (usage, metadata) if isinstance(part, Mapping)]
    reported += [inner for part in reported if isinstance(inner := part.get("provider_specific_fields"), Mapping)]
    edits = _edits_in(*(part.get("context_management") for part in reported))
    iterations = [step for part in reported for step in _mappings(part.get("iterations")) if is_compaction(step)]
    blocks = sum(
        is_compaction(block) for part in reported for name in _BLOCK_FIELDS for block in _mappings(part.get(name))
    )
    stopped = any(part.get("stop_reason") == "compaction" for part in reported)
    compacted = sum(str(edit.get("type", "")).startswith("compact") for edit in edits)
    numbers = {
        # The same reply may report one compaction in several places.
        "compactions": max(len(iterations), blocks, compacted, int(stopped)),
        **{name: _sum(edits, name) for name in _CLEARED},
        "extra_input_tokens": _sum(iterations, "input_tokens"),
        "extra_output_tokens": _sum(iterations, "output_tokens"),
    }
    return {name: number for name, number in numbers.items() if number}


def report_of(reported: Any) -> dict[str, Any]:
    """Numbers and types of a provider's ``context_management``, or LiteLLM's fields, in the form of ``metadata``."""
    fields = reported if isinstance(reported, Mapping) else {}
    edits = [_without_text(edit) for edit in _edits_in(fields, fields.get("context_management"))]
    blocks = sum(is_compaction(block) for block in _mappings(fields.get("compaction_blocks")))
    report: dict[str, Any] = {"context_management": {"applied_edits": edits}} if edits else {}
    return report | ({"compaction_blocks": [{"type": "compaction"}] * blocks} if blocks else {})


def _without_text(edit: Mapping[str, Any]) -> dict[str, Any]:
    """Its type and its numbers, without characters that are in no identifier (a NUL, which no database takes)."""
    kind = {"type": _NO_WORD.sub("", str(edit.get("type", "")))[:60]}
    numbers = {name: n for name, value in edit.items() if (n := token_count(value)) is not None}
    return kind | {name: n for name, n in numbers.items() if name and not _NO_WORD.search(name)}


def _edits_in(*parts: Any) -> list[Mapping[str, Any]]:
    found = (_mappings(part.get("applied_edits")) for part in parts if isinstance(part, Mapping))
    return [edit for edits in found for edit in edits]


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []


def _sum(items: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(token_count(item.get(name)) or 0 for item in items)


def sent_context(context: ChatContext, counted: int | None, calibrations: Mapping[str, Any]) -> dict[str, Any]:
    """What a reply keeps of the context it was given: ids and numbers, no text.

    ``provider_tokens`` and ``estimate_error`` (a share of them, negative where the estimate was too low) are there if
    the provider counted what was sent.
    """
    kept = {name: getattr(context, name) for name in _SENT} | ({"prompt": context.prompt} if context.prompt else {})
    if not counted:
        return kept
    estimate = calibration_of(calibrations, name_of((context.endpoint, context.model))).of(context.tokens)
    return kept | {"provider_tokens": counted, "estimate_error": round((estimate - counted) / counted, 4)}


def record_reply(
    session: ChatSession,
    reply: ChatMessage,
    compaction: Mapping[str, int],
    counted: int | None,
    context: ChatContext | None,
) -> None:
    """Write the events, metrics and calibration of a reply, in the transaction that stores it."""
    if context is not None:
        after_commit(reply, telemetry.count_prompt, layer=str(context.strategy))
    if context is not None and context.fallback_used:
        # Compaction is late or failing.
        left_out = {"dropped": context.dropped, "pruned": context.pruned}
        sizes = {"tokens": context.history_tokens, "available": context.available_tokens}
        log(logger, logging.WARNING, "fallback", session=session.pk, tip=context.tip_id, **left_out, **sizes)
        payload: dict[str, Any] = {**left_out, "tokens": context.tokens}
        record_event(reply, EventKind.FALLBACK_USED, message_id=context.tip_id, payload=payload)
    if compaction:
        stored = ChatSession.objects.in_database_of(reply).only("settings").get(pk=reply.session_id)
        if get_settings(stored.settings).mode != Mode.OFF:
            # This app's record is the one that counts: what the provider left out is still in the branch.
            record_event(reply, EventKind.DOUBLE_RAN, message_id=reply.pk, payload=compaction)
            log(logger, logging.WARNING, "double", session=reply.session_id, message=reply.pk, **compaction)
    if context is not None and counted:
        error = (reply.sent_context or {}).get("estimate_error")
        values = {"session": session.pk, "model": context.model, "counted": counted, "estimated": context.tokens}
        log(logger, logging.DEBUG, "estimate", **values, error=error)
        if context.tokens > 0 and context.attachment_tokens <= _MOST_ATTACHED * context.tokens:
            _calibrate(session, counted, context)


def _calibrate(session: ChatSession, counted: int, context: ChatContext) -> None:
    """Learn how the context's model counts, from the prompt tokens that its provider reports."""
    # Under the lock of the append.
    stored = ChatSession.objects.in_database_of(session).filter(pk=session.pk)
    row = stored.only("token_calibration").get()
    name = name_of((context.endpoint, context.model))
    session.token_calibration = observe_calibration(row.token_calibration, name, counted, context.tokens)
    stored.update(token_calibration=session.token_calibration)


def record_double_configured(tip: ChatMessage, params: Mapping[str, Any], declared: bool) -> None:
    """One event a session where the provider is asked, or declared, to compact as well."""
    body = params.get("extra_body")
    sent = {**params, **body} if isinstance(body, Mapping) else params
    asked = [name for name in PROVIDER_COMPACTION if sent.get(name)]
    if not asked and not declared:
        return
    kind = EventKind.DOUBLE_COMPACTION_CONFIGURED
    if not CompactionEvent.objects.in_database_of(tip).filter(session=tip.session_id, kind=kind).exists():
        record_event(tip, kind, payload={"parameters": asked, "declared": declared})
