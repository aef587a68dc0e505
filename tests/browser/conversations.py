"""Conversations as they come about: written, compacted, forked and mended through the app's own functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.urls import reverse

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


def chat_pages(harbour: Harbour) -> list[str]:
    """The example's pages about it."""
    branch = reverse("chat:branch", args=[harbour.session.pk, harbour.tip.pk])
    new, delete = reverse("chat:sessions"), reverse("chat:delete", args=[harbour.session.pk])
    return [branch, f"{branch}?compactions", f"{branch}?edit={harbour.first.pk}", f"{new}?q=e", new, delete]


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


def marked(name: str) -> str:
    """A text that does its worst: markup, handlers, ends of elements, templates, an override of direction."""
    worst = (
        f"<script>window.pwned='{name}'</script><img src=x onerror=\"window.pwned='{name}'\">",
        "</textarea></pre></title><svg onload=window.pwned=1>{{ 7|add:7 }}{% now 'Y' %}\u202egnp.exe",
        "\"'><a href=javascript:window.pwned=1>",
    )
    return name + "".join(worst)


def filled_harbour(text: Callable[[str], str]) -> tuple[Any, Harbour]:
    """Its owner, and rows whose every text is ``text(name)``; written past the checks, which might refuse one."""
    user = get_user_model().objects.create_superuser(text("username")[:150])
    filled = harbour(owner=user)
    ChatSession.objects.filter(pk=filled.session.pk).update(
        title=text("title")[:255],
        model=text("session_model")[:255],
        external_id=text("session_external_id")[:255],
        system_prompt=text("system_prompt"),
        metadata={text("session_metadata_key"): text("session_metadata")},
        token_calibration={text("calibrated_model"): 1.2},
    )
    message = {
        "content": text("content"),
        "name": text("name")[:255],
        "model": text("message_model")[:255],
        "external_id": text("external_id")[:255],
        "idempotency_key": text("idempotency_key")[:255],
        "metadata": {text("metadata_key"): text("metadata")},
        "usage": {text("usage"): 1},
        "attachments": [{"type": text("attachment_type"), "name": text("attachment_name"), "url": "javascript:x"}],
        "reasoning": [{"text": text("reasoning")}],
    }
    ChatMessage.objects.filter(pk=filled.tip.pk).update(**message)
    ChatMessage.objects.filter(pk=filled.first.pk).update(content=text("first_words"))
    result = filled.tool_result
    ChatMessage.objects.filter(pk=result.pk).update(content=text("tool_result"), name=text("result_of")[:255])
    function = {"name": text("tool_name"), "arguments": '{"' + text("tool_key").replace('"', "'") + '": 1}'}
    call = {"id": result.tool_call_id, "type": "function", "function": function}
    ChatMessage.objects.filter(pk=result.parent_message_id).update(tool_calls=[call])
    for summary, name in zip(filled.generations, ("summary_before", "summary"), strict=True):
        ChatMessage.objects.filter(pk=summary.pk).update(content=text(name))
    ChatMessage.objects.filter(pk=filled.retired.pk).update(retired_reason=text("retired_reason")[:255])
    run = {
        "instructions": text("instructions"),
        "policy_line": text("policy_line"),
        "summarizer_model": text("summarizer_model")[:255],
        "prompt_version": text("prompt_version")[:50],
        "task_id": text("task_id")[:255],
    }
    CompactionRun.objects.filter(pk=filled.run.pk).update(**run)
    CompactionRun.objects.filter(pk=filled.failed.pk).update(error_detail=text("error_detail"))
    CompactionEvent.objects.filter(pk=filled.event.pk).update(payload={text("payload_key"): text("payload")})
    return user, filled
