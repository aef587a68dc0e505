"""The examples in the OpenAPI document. They show one conversation, and their ids and token counts agree.

It has 41 messages on one branch. A compaction at message 41 covered the first 39 (run 3, summary 42). Then the user
asked a question (message 43) and the model answered (message 44).
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

_AT = "2026-01-05T09:00:00Z"
_SESSION_ID = "0b9c7f5e-7c41-4b0e-9d3f-3f0a3b8f6a10"
_QUESTION = "When is the tide in?"
_SUMMARY_TEXT = "## Tide tables\n\nThe user plans a crossing to the island; the ferry…"


def shown(*examples: Any) -> ConfigDict:
    """Return the configuration of a schema that has these examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


# -- sessions --------------------------------------------------------------------------------------------

SESSION_IN: dict[str, Any] = {
    "title": "Tide tables",
    "model": "gpt-4o-mini",
    "system_prompt": "You know the harbour.",
    "settings": {"MODE": "standard"},
    "external_id": "crm-7",
    "metadata": {"team": "harbour"},
}
SESSION_PATCH = {"title": "Tides"}
SESSION_LISTED = {
    "id": _SESSION_ID,
    **{name: SESSION_IN[name] for name in ("title", "model", "external_id")},
    "created_at": _AT,
    "updated_at": "2026-01-05T09:04:00Z",
}
SESSION_OUT = {**SESSION_LISTED, **SESSION_IN}

# -- contexts --------------------------------------------------------------------------------------------

FIGURES = {
    "tip_id": 43,
    "model": "gpt-4o-mini",
    "tokens": 3_055,
    "history_tokens": 3_046,
    "available_tokens": 119_799,
    "reserved_tokens": 8_201,
    "window": 128_000,
    "threshold": 89_849,
    "target": 64_000,
    "summary_id": 42,
    "cutoff_id": 39,
    "pinned_id": None,
    "strategy": "none",
    "pruned": 0,
    "dropped": 0,
    "first_shown_depth": 40,
}


def _sent(origin: str, message_id: int | None, role: str, content: str, tokens: int) -> dict[str, Any]:
    return {
        "origin": origin,
        "message_id": message_id,
        "role": role,
        "content": content,
        "tokens": tokens,
        "left_out_bytes": 0,
        "tool_calls": [],
        "tool_call_id": "",
        "name": "",
        "reasoning": None,
        "attachments": [],
    }


CONTEXT_MESSAGE = _sent("verbatim", 43, "user", _QUESTION, 10)
_SENT = [
    _sent("system", None, "system", "You know the harbour.", 9),
    _sent("summary", 42, "user", _SUMMARY_TEXT, 3_012),
    _sent("verbatim", 40, "user", "Does the ferry run on Sundays?", 11),
    _sent("verbatim", 41, "assistant", "Twice: at nine and at four.", 13),
    CONTEXT_MESSAGE,
]
CONTEXT = {
    "figures": FIGURES,
    "fallback_used": False,
    "messages": _SENT,
    "openai": [{"role": message["role"], "content": message["content"]} for message in _SENT],
}

# -- messages --------------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 3_302, "completion_tokens": 6, "total_tokens": 3_308}
QUESTION_IN = {"parent_id": 41, "role": "user", "content": _QUESTION}
REPLY_IN = {
    "parent_id": 43,
    "role": "assistant",
    "content": "At four.",
    "model": "gpt-4o-mini",
    "usage": USAGE,
    "context": FIGURES,
}
_NODE = {
    "id": 43,
    "parent_id": 41,
    "kind": "message",
    "role": "user",
    "depth": 42,
    "token_count": 10,
    "path_tokens": 90_122,
    "redacted_at": None,
    "created_at": _AT,
}
MESSAGE = {
    **_NODE,
    "session_id": _SESSION_ID,
    "content": _QUESTION,
    "tool_calls": None,
    "tool_call_id": "",
    "name": "",
    "reasoning": None,
    "attachments": None,
    "usage": None,
    "model": "",
    "metadata": {},
    "external_id": "",
}
MESSAGE_CREATED = {"message": MESSAGE, "compaction_requested": False, "run_id": None, "fallback_used": False}
NODE = {**_NODE, "sib_order": 2, "cutoff_id": None, "pinned_id": None, "retired_at": None}
SUMMARY_NODE = {**NODE, "id": 42, "kind": "summary", "sib_order": 1, "token_count": 3_012, "path_tokens": 90_112} | {
    "cutoff_id": 39
}
FEEDBACK = {"feedback": {"rating": "up", "words": "Just what I asked."}}
REDACT = {"replacement": "[removed at the author's request]"}

# -- compactions -----------------------------------------------------------------------------------------

COMPACT = {"message_id": 41, "instructions": "Keep the prices.", "wait": True}
_OPENED = {
    "run_id": 3,
    "tip_id": 41,
    "anchor_id": 41,
    "cutoff_id": 39,
    "base_id": None,
    "summary_id": None,
    "tokens_before": 90_112,
    "tokens_after": None,
    "messages_compacted": None,
    "input_tokens": None,
    "output_tokens": None,
    "cached_tokens": None,
    "cost": None,
}
_MADE = {
    **_OPENED,
    "generation": 1,
    "summary_id": 42,
    "tokens_after": 3_036,
    "messages_compacted": 39,
    "input_tokens": 90_940,
    "output_tokens": 3_105,
    "cached_tokens": 0,
    "cost": "0.02207",
}
COMPACTED = {**_MADE, "summary_preview": _SUMMARY_TEXT}
#: Just opened. When it has ended, most of the nulls are filled in.
RUN = {
    **_OPENED,
    "session_id": _SESSION_ID,
    "status": "ready",
    "trigger": "manual",
    "generation": None,
    "skip_reason": "",
    "error_code": "",
    "attempts": 0,
    "next_attempt_at": None,
    "created_at": _AT,
    "enqueued_at": _AT,
    "started_at": None,
    "finished_at": None,
}
GENERATION = {
    **_MADE,
    "trigger": "manual",
    "summarizer_model": "gpt-5.4-nano",
    "prompt_version": "6f1d0c2a",
    "retention_before": 0.82,
    "retention_after": 0.97,
    "retired_at": None,
    "created_at": _AT,
    "finished_at": "2026-01-05T09:00:09Z",
}
GENERATION_IN_FULL = {
    **GENERATION,
    "summary": _SUMMARY_TEXT,
    "instructions": COMPACT["instructions"],
    "pinned_id": None,
}
RETIRED = {"retired": [42]}

# -- errors ----------------------------------------------------------------------------------------------

NOT_FOUND = {"code": "not_found", "detail": "It does not exist, or this user may not view it."}
OPEN_RUN = {
    "code": "open_run",
    "detail": "A compaction of this branch is already open; `run_id` is the run to poll.",
    "run_id": 3,
}
