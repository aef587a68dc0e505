"""How fast the extract and the ledger are, in tokens a second of processor time on one core, and how they grow.

Measured are the demo, every file of real conversations that is present, texts and numbers of messages that grow, and
texts that are made to be slow. Exits 1 if the total is under AIM, or if anything that grows takes over LIMIT times as
long for each token as where it is smallest.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.evaluate import systems  # noqa: E402  # the path above makes them importable
from compaction_app.memory.extractive import summarize_extractively  # noqa: E402
from compaction_app.transfer.formats import Conversation, read_file  # noqa: E402
from compaction_app.values import Message  # noqa: E402

AIM = 60_000
LIMIT = 2.0
TARGET = 7_500
RUNS = 3
TOKENS = (20_000, 50_000, 100_000, 200_000, 400_000)
MESSAGES = (1_000, 5_000, 20_000, 50_000)
COUNT = systems.counter()

#: Of about 60,000 tokens in one message.
ADVERSARIAL = {
    "one line of a minified script": "function(a,b){return a.b(c)};" * 5_500,
    "semicolons": "a;" * 40_000,
    "an identifier that never ends": "__a" + " b" * 60_000,
    "distinct rules": "\n".join(
        f"Never open hatch {n * 7919} before Anna{n} has signed form {n}B." for n in range(3_500)
    ),
    "items of one list": "\n".join(f"- entry {n}: the value of {n * 7}" for n in range(5_000)),
    "the same words again": "word " * 60_000,
    "a sign that never ends": "預算三千歐元，" * 6_000,
    "questions": "Really? " * 30_000,
    "numbers": " ".join(str(n) for n in range(20_000)),
    "quotation marks": '"' * 60_000,
}


def main() -> int:
    texts = {path.name: numbered(messages_of(path)) for path in files()}
    everything = [message for messages in texts.values() for message in messages]
    print(f"{'tokens a second':>34}  {'tokens':>9} {'messages':>9} {'extract':>9} {'ledger':>9}")
    for name, messages in texts.items():
        report(name, messages)
    rates = report("all of them", everything)
    grown = [report(f"{tokens:,} tokens", of_size(everything, tokens)) for tokens in TOKENS]
    brief = [report(f"{number:,} short messages", of_number(number)) for number in MESSAGES]
    for name, content in ADVERSARIAL.items():
        report(name, [Message(id=1, depth=1, role="user", tokens=0, content=content)], runs=1)
    slower = max(first / last for rows in (grown, brief) for first, last in zip(rows[0], rows[-1], strict=True))
    print(f"slowest of both on real conversations {min(rates):,.0f} a second (aim {AIM:,})")
    print(f"a token costs at most {slower:.2f} times as much in the largest as in the smallest (at most {LIMIT})")
    return 0 if min(rates) >= AIM and slower <= LIMIT else 1


def report(name: str, messages: Sequence[Message], runs: int = RUNS) -> tuple[float, float]:
    """Tokens a second of the extract and of the ledger."""
    tokens = sum(COUNT([message.content for message in messages]))
    plan, request = systems.plan_of(messages, "", TARGET)
    rates = (
        tokens / best(lambda: extract(messages), runs),
        tokens / best(lambda: systems.completed("They went on.", plan, request, ledger=TARGET), runs),
    )
    print(f"{name:>34}: {tokens:>9,} {len(messages):>9,} {rates[0]:>9,.0f} {rates[1]:>9,.0f}", flush=True)
    return rates


def extract(messages: Sequence[Message]) -> None:
    summarize_extractively(covered=messages, previous_summary="", target_tokens=TARGET, count=COUNT)


def best(work: Callable[[], object], runs: int) -> float:
    """Processor seconds of the fastest: other load can only add to them."""
    spent = []
    for _ in range(runs):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def of_size(messages: Sequence[Message], tokens: int) -> list[Message]:
    """So many tokens of the same kind, whatever the number."""
    found, size, place = [], 0, 0
    while size < tokens:
        message = messages[place * 7919 % len(messages)]
        found.append(message)
        size += COUNT([message.content])[0]
        place += 1
    return numbered(found)


def of_number(number: int) -> list[Message]:
    """Short ones, none like another."""
    roles = ("user", "assistant")
    return [
        Message(id=n, depth=n, role=roles[n % 2], tokens=0, content=f"Crate {n} of Berg{n % 977} weighs {n * 7} kg.")
        for n in range(1, number + 1)
    ]


def numbered(messages: Iterable[Message]) -> list[Message]:
    return [replace(message, id=n, depth=n) for n, message in enumerate(messages, start=1)]


def files() -> list[Path]:
    folder = Path(os.environ.get("COMPACTION_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    found = [REPOSITORY / "project" / "demo_conversation.json"]
    if folder.is_dir():
        found += [path for path in sorted(folder.iterdir()) if path.suffix in {".json", ".jsonl"}]
    return found


def messages_of(path: Path) -> list[Message]:
    """All messages of a file, branches one after another."""
    return [
        Message(
            id=0,
            depth=0,
            role=message.fields["role"],
            tokens=0,
            content=message.fields.get("content") or "",
            tool_calls=tuple(message.fields.get("tool_calls") or ()),
            tool_call_id=message.fields.get("tool_call_id") or "",
            created_at=message.fields.get("created_at"),
        )
        for conversation in read(path)
        for message in conversation.messages
    ]


def read(path: Path) -> list[Conversation]:
    return read_file(path.read_bytes(), is_lines=path.suffix == ".jsonl", max_bytes=1 << 22)


if __name__ == "__main__":
    raise SystemExit(main())
