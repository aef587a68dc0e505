"""Conversations as they come about: written, compacted, forked and mended through the app's own functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import ErrorCode, RunStatus, Strategy, Trigger

#: Small enough that a dozen turns want a compaction.
SMALL_WINDOW = {"CONTEXT_WINDOW": 4000, "RESERVED_TOKENS": 200, "SUMMARY_TARGET_TOKENS": 300, "COOLDOWN_SECONDS": 0}
PASSWORD = "wet-gloves-1"


def superuser(name: str = "root") -> Any:
    return get_user_model().objects.create_superuser(name, password=PASSWORD)


def turns(first: int, count: int, *, size: int = 40) -> list[dict[str, Any]]:
    """Questions and answers about a harbour, each different from all others."""
    messages: list[dict[str, Any]] = []
    for turn in range(first, first + count):
        words = " ".join(f"berth {turn * size + n}" for n in range(size))
        messages.append({"role": "user", "content": f"Question {turn}: which ship lies at {words}?"})
        messages.append({"role": "assistant", "content": f"Answer {turn}: ship {turn} lies at {words}."})
    return messages


def tool_turn(number: int, *, lines: int = 120) -> list[dict[str, Any]]:
    """A question whose answer needs a tool with a long result."""
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "tide_table", "arguments": '{"port": "Ystad"}'},
    }
    result = "\n".join(f"{hour:03d} high water {hour % 9} m" for hour in range(lines))
    return [
        {"role": "user", "content": f"What does the tide do, take {number}?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        {"role": "assistant", "content": f"It rises, take {number}."},
    ]


@dataclass(frozen=True, slots=True)
class Harbour:
    """A session with two generations on one branch, a third one retired, a fork, a failed run."""

    session: ChatSession
    first: ChatMessage
    tip: ChatMessage
    fork: ChatMessage
    tool_result: ChatMessage
    generations: tuple[ChatMessage, ...]
    retired: ChatMessage
    run: CompactionRun
    failed: CompactionRun
    event: CompactionEvent


def harbour(**fields: Any) -> Harbour:
    session = chat.start_session(
        title="Harbour", model="gpt-5-mini", system_prompt="Answer like a pilot.", settings=SMALL_WINDOW, **fields
    )
    tip = chat.append_messages(session, None, turns(1, 6))[-1]
    runs = [chat.compact(tip)]
    tip = chat.append_messages(session, tip, turns(7, 6))[-1]
    runs.append(chat.compact(tip, instructions="Keep every number of a berth."))
    last = chat.append_messages(session, tip, [*tool_turn(1), *turns(13, 2)])
    tip = last[-1]
    fork = chat.append_message(session, last[-2].parent, role="user", content="And at night?")
    fork = chat.append_messages(session, fork, [{"role": "assistant", "content": "At night, too."}, *turns(20, 6)])[-1]
    runs.append(chat.compact(fork))
    summaries = [run.summary for run in runs]
    assert all(summaries), [(run.status, run.skip_reason) for run in runs]
    chat.retire_summary(summaries[-1], reason="It names the wrong ship.")
    for summary in summaries:
        summary.refresh_from_db()
    return Harbour(
        session=session,
        first=chat.get_branch(tip)[0],
        tip=tip,
        fork=fork,
        tool_result=last[2],
        generations=tuple(summaries[:-1]),
        retired=summaries[-1],
        run=runs[1],
        failed=failed_run(tip),
        event=runs[1].events.latest("id"),
    )


def failed_run(tip: ChatMessage, **fields: Any) -> CompactionRun:
    """An attempt whose model did not answer."""
    given = {
        "session_id": tip.session_id,
        "tip": tip,
        "anchor": tip,
        "trigger": Trigger.MANUAL,
        "status": RunStatus.FAILED,
        "strategy": Strategy.AUTO_COMPACT,
        "error_code": ErrorCode.PROVIDER_ERROR,
        "error_detail": "503 from the model's endpoint, three times.",
        "summarizer_model": "quick-model",
    }
    return CompactionRun.objects.create(**(given | fields))
