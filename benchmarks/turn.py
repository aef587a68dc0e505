"""A turn and its parts beside the least that the same rows cost: the bare driver, and the bare ORM.

Every line is measured in turn with the others, ROUNDS times, so that a slow moment of the machine affects all of them.
Prints medians in milliseconds, statements, and the ratios of the two.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from _database import on_both_databases
from context_reads import DISTANCE, analyze, count_queries, grow

SIZES = (100, 1_000, 10_000)
ROUNDS = 200
COLUMNS = (
    "id, parent_message_id, depth, role, content, tool_calls, tool_call_id, name, reasoning, attachments, token_count,"
    " path_tokens, created_at"
)
CONTENT = "word " * 20

Calls = dict[str, Callable[[], Any]]


def main() -> int:
    # What is written goes to a second conversation, so that the first keeps its size.
    conversations = {size: (grow(size), grow(size)) for size in SIZES}
    analyze()
    for size, (read, written) in conversations.items():
        report(size, measure(reads_of(read) | writes_of(written)))
    return 0


def reads_of(tip: Any) -> Calls:
    from django.db import connection

    from compaction_app import chat
    from compaction_app.models import ChatMessage

    branch = chat.get_branch(tip)
    shown = [message.pk for message in branch[-(DISTANCE + 3) :]] + [chat.get_context(tip).summary_id]
    by_key = f"SELECT {COLUMNS} FROM {ChatMessage._meta.db_table} WHERE id IN ({', '.join(['%s'] * len(shown))})"

    def driver() -> None:
        with connection.cursor() as cursor:
            cursor.execute(by_key, shown)
            cursor.fetchall()

    def naive() -> list[dict[str, str]]:
        """What a chat without a tree does: all rows of the session, in order."""
        rows = ChatMessage.objects.filter(session_id=tip.session_id, kind="message").order_by("depth")
        return [{"role": row.role, "content": row.content} for row in rows]

    return {
        "driver": driver,
        "ORM read": lambda: list(ChatMessage.objects.filter(pk__in=shown)),
        "naive loop": naive,
        "read": lambda: chat.get_context(tip),
        "request": lambda: chat.request_compaction(tip),
    }


def writes_of(tip: Any) -> Calls:
    from compaction_app import chat
    from compaction_app.models import ChatMessage

    session, orders = tip.session, count(10**6)

    def create() -> None:
        values = {"role": "user", "content": CONTENT, "token_count": 30, "path_tokens": 30, "depth": 1}
        ChatMessage(session=session, sib_order=next(orders), **values).save(force_insert=True)

    def turn() -> None:
        question = chat.append_message(session, tip, role="user", content=CONTENT)
        chat.get_context(question)
        chat.append_message(session, question, role="assistant", content=CONTENT)

    return {
        "create": create,
        "append": lambda: chat.append_message(session, tip, role="user", content=CONTENT),
        "turn": turn,
    }


def measure(calls: Calls) -> dict[str, tuple[float, int]]:
    """Median milliseconds and statements of each call."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    statements = {name: count_queries(call) for name, call in calls.items()}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return {name: (statistics.median(seconds[name]) * 1000, statements[name]) for name in calls}


def report(size: int, found: dict[str, tuple[float, int]]) -> None:
    print(f"{size:,} messages, {DISTANCE + 4} shown")
    for name, (milliseconds, statements) in found.items():
        print(f"  {name:12} {milliseconds:8.3f} ms  {statements} statements")
    median = {name: milliseconds for name, (milliseconds, _) in found.items()}
    least = 2 * median["create"] + median["ORM read"]
    for title, ratio in {
        "read ÷ driver": median["read"] / median["driver"],
        "read ÷ ORM read": median["read"] / median["ORM read"],
        "turn ÷ (two creates + ORM read)": median["turn"] / least,
        "naive loop ÷ read": median["naive loop"] / median["read"],
    }.items():
        print(f"  {title:32} {ratio:6.2f}")


if __name__ == "__main__":
    sys.exit(on_both_databases(__file__, main))
