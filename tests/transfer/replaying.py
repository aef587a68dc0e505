"""Conversations replayed down one branch in deterministic mode, and a digest of every byte that comes of it.

Shared by the tests of replay and of survival and by the measurements in ``benchmarks``. Everything goes through the
public door, and nothing depends on the clock: a message without a date is given one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.transfer import importing
from compaction_app.transfer.formats import Conversation
from compaction_app.values import ChatContext

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEMO = REPOSITORY / "project" / "demo_conversation.json"
DEMO_TIP = json.loads((REPOSITORY / "project" / "demo_plants.json").read_text())["main_tip"]
#: The demo's window, small enough to be filled many times over.
WINDOW = 4_000
_FIRST_MOMENT = datetime(2025, 1, 6, 9, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One branch of a conversation, its messages as ``chat.append_messages`` takes them."""

    name: str
    model: str
    system_prompt: str
    messages: Sequence[Mapping[str, Any]]

    def first(self, number: int | None) -> Line:
        return replace(self, messages=self.messages[:number])


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A compaction that just happened, and what is shown at its tip."""

    number: int
    #: Messages of the line that are appended by now, and those of them that the summary covers.
    appended: int
    covered: int
    summary: ChatMessage
    context: ChatContext


def lines(shared_data: Path | None = None) -> list[Line]:
    """The demo's main branch, and the longest branch of every file of the real conversations."""
    found = [read_line(DEMO, tip=DEMO_TIP)]
    if shared_data is not None:
        found += [read_line(path) for path in sorted(shared_data.iterdir()) if path.suffix in {".json", ".jsonl"}]
    return found


def read_line(path: Path, *, tip: str | None = None) -> Line:
    """The branch down to the message with the id ``tip``, or to the deepest message of a file."""
    (conversation,) = importing.read(path, join=path.suffix == ".jsonl")
    messages = [dict(conversation.messages[index].fields) for index in _positions(conversation, tip)]
    for number, message in enumerate(messages):
        # A file may have the key and no date; the moment of storing would make a replay of tomorrow another one.
        message["created_at"] = message.get("created_at") or _FIRST_MOMENT + timedelta(minutes=11 * number)
    return Line(name=path.name, model=conversation.model, system_prompt=conversation.system_prompt, messages=messages)


def _positions(conversation: Conversation, tip: str | None) -> list[int]:
    depths: list[int] = []
    last = 0
    for index, message in enumerate(conversation.messages):
        depths.append(1 if message.parent is None else depths[message.parent] + 1)
        is_tip = message.fields.get("external_id") == tip if tip else depths[index] > depths[last]
        last = index if is_tip else last
    path: list[int] = []
    following: int | None = last
    while following is not None:
        path.append(following)
        following = conversation.messages[following].parent
    return path[::-1]


def replay(line: Line, *, window: int = WINDOW, **settings: Any) -> Iterator[Generation | ChatContext]:
    """Append message by message, compacting wherever it is due: each generation, and the last context."""
    session = chat.start_session(
        model=line.model,
        system_prompt=line.system_prompt,
        settings={"MODE": "deterministic", "CONTEXT_WINDOW": window, **settings},
    )
    tip: ChatMessage | None = None
    number = 0
    for appended, message in enumerate(line.messages, start=1):
        tip = chat.append_messages(session, tip, [message])[-1]
        run = chat.request_compaction(tip)
        if run is None or run.summary is None:
            continue
        number += 1
        yield Generation(
            number=number,
            appended=appended,
            covered=ChatMessage.objects.get(pk=run.summary.last_summarized_message_id).depth,
            summary=run.summary,
            context=chat.get_context(tip),
        )
    assert tip is not None
    yield chat.get_context(tip)


def digest(line: Line, **options: Any) -> tuple[int, str]:
    """How many generations there were; and the digest of each one's summary and context and of the last context."""
    sha, number = hashlib.sha256(), 0
    for step in replay(line, **options):
        context = step
        if isinstance(step, Generation):
            number, context = step.number, step.context
            sha.update(step.summary.text.encode())
        sha.update(json.dumps(context.to_openai(), ensure_ascii=False).encode())
    return number, sha.hexdigest()
