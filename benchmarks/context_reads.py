"""Reading a context at 500 and at 50,000 messages, a live summary at equal distance from both tips.

Prints the medians of 500 interleaved reads each and their ratio; exits 1 if the ratio is over 1.5 or the
queries differ. Also the queries of an append beside 50,000 messages: a child of the tip, of the root, a root.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from _database import on_both_databases

READS = 500
SMALL, LARGE = 500, 50_000
DISTANCE = 60
LIMIT = 1.5


def main() -> int:
    tips = {size: grow(size) for size in (SMALL, LARGE)}
    analyze()
    queries = {size: count_queries(lambda tip=tip: read(tip)) for size, tip in tips.items()}
    seconds: dict[int, list[float]] = {size: [] for size in tips}
    for _ in range(READS):
        for size, tip in tips.items():
            started = time.perf_counter()
            read(tip)
            seconds[size].append(time.perf_counter() - started)
    medians = {size: statistics.median(values) * 1000 for size, values in seconds.items()}
    ratio = medians[LARGE] / medians[SMALL]
    for size in tips:
        print(f"{size:>7,} messages: {medians[size]:.2f} ms, {queries[size]} queries")
    print(f"ratio of the medians: {ratio:.2f} (at most {LIMIT})")
    appends = append_queries(tips[LARGE])
    print("queries of an append beside 50,000 messages:", ", ".join(f"{k} {v}" for k, v in appends.items()))
    same = len(set(queries.values())) == 1 and len(set(appends.values())) == 1
    return 0 if ratio <= LIMIT and same else 1


def grow(size: int) -> Any:
    """A chain of ``size`` messages, a summary anchored DISTANCE messages above its tip; returns the tip."""
    from compaction_app import chat
    from compaction_app.models import ChatMessage

    session = chat.start_session(title=f"{size} messages")
    first = (ChatMessage.objects.order_by("-id").values_list("id", flat=True).first() or 0) + 1
    nodes = [
        ChatMessage(
            id=first + n,
            session=session,
            parent_message_id=first + n - 1 if n else None,
            lane_id=first if n else None,
            role="assistant" if n % 2 else "user",
            content=f"message {n} " + "word " * 20,
            token_count=30,
            path_tokens=30 * (n + 1),
            depth=n + 1,
        )
        for n in range(size)
    ]
    ChatMessage.objects.bulk_create(nodes, batch_size=2_000)
    reset_sequence()
    anchor, cutoff = nodes[size - DISTANCE], nodes[size - DISTANCE - 4]
    summary = ChatMessage(
        session=session,
        kind="summary",
        role="user",
        content="## Recap\n\nWhat came before.",
        last_summarized_message=cutoff,
        token_count=80,
    )
    ChatMessage.objects.add_child(anchor, instance=summary)
    return nodes[-1]


def reset_sequence() -> None:
    """Ids were given by hand, so the database must be told where to go on."""
    from django.core.management.color import no_style
    from django.db import connection

    from compaction_app.models import ChatMessage

    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [ChatMessage]):
            cursor.execute(statement)


def analyze() -> None:
    """Statistics as a running server has them."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def read(tip: Any) -> None:
    from compaction_app import chat

    context = chat.get_context(tip)
    if context.summary_id is None or len(context.messages) != DISTANCE + 4:
        raise AssertionError("the summary was not used")


def count_queries(call: Any) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        call()
    return len(captured)


def append_queries(tip: Any) -> dict[str, int]:
    from compaction_app import chat

    session, root = tip.session, chat.get_branch(tip)[0]
    places = {"below the tip": tip, "below the root": root, "a new root": None}
    return {
        name: count_queries(lambda parent=parent: chat.append_message(session, parent, role="user", content="x"))
        for name, parent in places.items()
    }


if __name__ == "__main__":
    sys.exit(on_both_databases(__file__, main))
