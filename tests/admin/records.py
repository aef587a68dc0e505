"""Rows for the admin to show, most of them written straight into their tables."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind
from tests.small import tool_call
from tests.trees import chain, start_session, summarize

#: What runs are dated from where the day matters, whatever day it is.
NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)


def run_for(summary: ChatMessage, tip: ChatMessage, generation: int, **fields: Any) -> CompactionRun:
    """The run that made a summary, written straight into its table."""
    ends = {"anchor_id": summary.parent_message_id, "cutoff_id": summary.last_summarized_message_id}
    return run_at(tip, **{"status": "succeeded", "generation": generation, "summary": summary} | ends | fields)


def summarized(
    length: int = 6, *, content: str = "What was said.", **texts: str
) -> tuple[list[ChatMessage], ChatMessage]:
    """A chain, and a summary of its first two messages anchored at the third."""
    nodes = chain(start_session(title="Harbour"), length)
    summary = summarize(nodes[2], nodes[1], content=content, token_count=8, **texts)
    run_for(summary, nodes[-1], 1, tokens_before=60, tokens_after=48, messages_compacted=2)
    return nodes, summary


def talk(session: ChatSession, contents: Iterable[str], parent: ChatMessage | None = None) -> list[ChatMessage]:
    """Messages of user and assistant by turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]
    return chat.append_messages(session, parent, messages)


def words(count: int, about: str = "the harbour") -> str:
    return " ".join(f"{about} {n}" for n in range(count))


def conversation(turns: int = 12, size: int = 60, **fields: Any) -> tuple[ChatSession, ChatMessage]:
    """A session and its tip, over its threshold."""
    session = chat.start_session(title="Harbour", **fields)
    said = (f"{what} {turn}: {words(size)}." for turn in range(turns) for what in ("Question", "Answer"))
    return session, talk(session, said)[-1]


def compacted(
    length: int = 4, **fields: Any
) -> tuple[ChatSession, list[ChatMessage], ChatMessage, CompactionRun, CompactionEvent]:
    """A session with one summary and the run and event that made it, written straight into the tables."""
    session = start_session(title="Harbour")
    nodes = chain(session, length)
    summary = summarize(nodes[2], nodes[1], **fields)
    run = run_for(summary, nodes[-1], 1, tokens_before=3000, tokens_after=1200, summarizer_model="quick-model")
    event = CompactionEvent.objects.create(session=session, run=run, message=nodes[-1], kind=EventKind.COMPLETED)
    return session, nodes, summary, run, event


def run_at(tip: ChatMessage, **fields: Any) -> CompactionRun:
    """A run at this tip, written straight into its table; it failed, where nothing else is given."""
    given = {"session_id": tip.session_id, "tip": tip, "trigger": "threshold", "status": "failed"}
    return CompactionRun.objects.create(**(given | fields))


def reply_to(tip: ChatMessage, content: str = "aye", **fields: Any) -> ChatMessage:
    """A reply with the record of what was sent for it."""
    context = chat.get_context(tip)
    return chat.append_message(tip.session, tip, role="assistant", content=content, context=context, **fields)


def long_words(about: str, count: int = 1500) -> str:
    return " ".join(f"{about}{n}" for n in range(count))


def calls(*ids: str) -> list[dict[str, Any]]:
    """Tool calls with these ids."""
    return [tool_call(pk, name="read") for pk in ids]


def with_tool_result() -> list[ChatMessage]:
    """The third message is a tool result of 1,200 bytes, two turns above the tip."""
    return chat.append_messages(
        start_session(),
        None,
        [
            {"role": "user", "content": "read it"},
            {"role": "assistant", "tool_calls": calls("c1")},
            {"role": "tool", "tool_call_id": "c1", "content": "x" * 1200},
            {"role": "user", "content": "and?"},
            {"role": "user", "content": "well?"},
        ],
    )


def forked() -> tuple[ChatSession, list[ChatMessage], list[ChatMessage], ChatMessage, ChatMessage]:
    """Trunk of six, a fork of two below the fourth; a live summary in use on the trunk, and a retired one."""
    session = start_session(title="Harbour")
    main = chain(session, 6)
    side = chain(session, 2, main[3])
    live = summarize(main[4], main[2], content="What was agreed.")
    gone = summarize(main[5], main[4], retired_at=timezone.now())
    return session, main, side, live, gone
