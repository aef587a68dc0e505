"""How fast the extractive summarizer is: tokens a second on one core, and whether a token costs more in a long text.

Prints the best of a few runs in processor time, for the demo and every file of real conversations that is present, and
the cost of a token in a long text compared to a short one. Exits 1 if the total is under AIM, or if a token of the long
text costs over LIMIT times one of the short.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from compaction_app.retention.extractive import summarize_extractively  # noqa: E402  # the path above makes them importable
from compaction_app.tokens import ExactTokenCounter  # noqa: E402
from compaction_app.transfer.formats import Conversation  # noqa: E402
from compaction_app.values import Message  # noqa: E402

AIM = 80_000
LIMIT = 1.5
TARGET = 7_500
RUNS = 3
#: Messages of the short and of the long text.
SHORT, LONG = 250, 4_000

COUNT = ExactTokenCounter()


def main() -> int:
    texts = {path.name: messages_of(path) for path in files()}
    tokens, seconds = 0, 0.0
    for name, messages in texts.items():
        size, spent = size_of(messages), best(messages)
        tokens, seconds = tokens + size, seconds + spent
        print(f"{name:>30}: {size:>8,} tokens, {size / spent:>9,.0f} a second")
    rate = tokens / seconds
    print(f"{'total':>30}: {tokens:>8,} tokens, {rate:>9,.0f} a second (aim {AIM:,})")
    ratio = cost_of_length([message for messages in texts.values() for message in messages])
    print(f"a token of {LONG:,} messages costs {ratio:.2f} times one of {SHORT:,} (at most {LIMIT})")
    return 0 if rate >= AIM and ratio <= LIMIT else 1


def files() -> list[Path]:
    folder = Path(os.environ.get("COMPACTION_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    found = [REPOSITORY / "project" / "demo_conversation.json"]
    if folder.is_dir():
        found += [path for path in sorted(folder.iterdir()) if path.suffix in {".json", ".jsonl"}]
    return found


def messages_of(path: Path) -> list[Message]:
    """All messages of a file, branches one after another."""
    conversations: list[Conversation] = read(path)
    found: list[Message] = []
    for conversation in conversations:
        for message in conversation.messages:
            fields = message.fields
            found.append(
                Message(
                    id=len(found) + 1,
                    depth=len(found) + 1,
                    role=fields["role"],
                    tokens=0,
                    content=fields.get("content") or "",
                    tool_calls=tuple(fields.get("tool_calls") or ()),
                    tool_call_id=fields.get("tool_call_id") or "",
                    created_at=fields.get("created_at"),
                )
            )
    return found


def read(path: Path) -> list[Conversation]:
    from compaction_app.transfer.formats import read_json, read_lines

    if path.suffix == ".jsonl":
        return read_lines(enumerate(path.read_bytes().splitlines(keepends=True), start=1), max_bytes=1 << 22)
    return read_json(path.read_bytes(), max_bytes=1 << 22)


def size_of(messages: Sequence[Message]) -> int:
    return sum(COUNT([message.content for message in messages]))


def best(messages: Sequence[Message]) -> float:
    """Processor seconds of the fastest of RUNS: other load can only add to them."""
    spent = []
    for _ in range(RUNS):
        started = time.process_time()
        summarize_extractively(covered=messages, previous_summary="", target_tokens=TARGET, count=COUNT)
        spent.append(time.process_time() - started)
    return min(spent)


def cost_of_length(messages: Sequence[Message]) -> float:
    """The cost of a token in a long text, divided by that in a short text of the same kind."""
    repeated = [messages[i * 7919 % len(messages)] for i in range(LONG)]
    # Every sixteenth message, so that both have the same kind of content.
    short = repeated[:: LONG // SHORT]
    return (best(repeated) / size_of(repeated)) / (best(short) / size_of(short))


if __name__ == "__main__":
    raise SystemExit(main())
