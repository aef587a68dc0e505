"""Conversations replayed down one branch in deterministic mode, and a digest of every byte that comes of it.

``python -m tests.transfer.replaying <messages> [<folder>]`` prints the digests: a process of its own has a hash seed of
its own and may use another database (``DATABASE_URL``, an empty one).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEMO = REPOSITORY / "project" / "demo_conversation.json"
DEMO_TIP = json.loads((REPOSITORY / "project" / "demo_plants.json").read_text())["main_tip"]
#: Small enough to be filled many times over.
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


def read_line(path: Path, *, tip: str | None = None) -> Line:
    """The branch down to the message with the id ``tip``, or to the deepest message of a file."""
    from project.demo.loading import read_conversations

    (conversation,) = read_conversations(path, join=path.suffix == ".jsonl")
    paths: list[list[int]] = []
    for index, message in enumerate(conversation.messages):
        paths.append([*(paths[message.parent] if message.parent is not None else []), index])
    if tip is None:
        chosen = max(paths, key=len)
    else:
        chosen = next(path for path in paths if conversation.messages[path[-1]].fields["external_id"] == tip)
    messages = [dict(conversation.messages[index].fields) for index in chosen]
    for number, fields in enumerate(messages):
        # A file may have the key and no date; the moment of storing would make a replay of tomorrow another one.
        fields["created_at"] = fields.get("created_at") or _FIRST_MOMENT + timedelta(minutes=11 * number)
    return Line(name=path.name, model=conversation.model, system_prompt=conversation.system_prompt, messages=messages)


def replay(line: Line, **settings: Any) -> Iterator[tuple[Any, Any]]:
    """Append message by message, compacting wherever it is due: each summary with its context; at the end None with it.

    Everything goes through the public door, and nothing depends on the clock.
    """
    from compaction_app import chat

    settings = {"MODE": "deterministic", "CONTEXT_WINDOW": WINDOW, **settings}
    session = chat.start_session(model=line.model, system_prompt=line.system_prompt, settings=settings)
    tip = None
    for message in line.messages:
        (tip,) = chat.append_messages(session, tip, [message])
        run = chat.request_compaction(tip)
        if run is not None and run.summary is not None:
            yield run.summary, chat.get_context(tip)
    yield None, chat.get_context(tip)


def digest(line: Line, **settings: Any) -> tuple[int, str]:
    """How many generations there were; and the digest of each one's summary and context and of the last context."""
    sha, generations = hashlib.sha256(), 0
    for summary, context in replay(line, **settings):
        if summary is not None:
            generations += 1
            sha.update(summary.text.encode())
        sha.update(json.dumps(context.to_openai(), ensure_ascii=False).encode())
    return generations, sha.hexdigest()


def digests(messages: int, folder: Path | None) -> dict[str, tuple[int, str]]:
    """Of the demo's main branch and the longest branch of every file of a folder, as far as their first messages."""
    files = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".jsonl"}) if folder else []
    lines = [read_line(DEMO, tip=DEMO_TIP), *map(read_line, files)]
    return {line.name: digest(line.first(messages)) for line in lines}


def main(messages: str, folder: str = "") -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    settings.COMPACTION = {}
    call_command("migrate", verbosity=0)
    sys.stdout.write(json.dumps(digests(int(messages), Path(folder) if folder else None)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
