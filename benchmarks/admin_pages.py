"""Admin pages and API endpoints of a session of 1,000 messages, and of one of 100,000 in a table of 1,000,000 rows.

The small session is measured first, in a small table; then the table is filled and the large one measured. Prints
the median of each page, its queries and the ratio; exits 1 if a ratio is over 1.5 or the queries differ.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _database import on_both_databases
from context_reads import analyze, count_queries, reset_sequence

READS = 30
SMALL, LARGE, TABLE = 1_000, 100_000, 1_000_000
#: A variant of every twelfth message, and as many summaries whatever the length: the pages that list them are full.
FORK_EVERY, SUMMARIES = 12, 60
#: Messages after the newest summary's anchor.
DISTANCE = 60
LIMIT = 1.5


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One page: its median in ms and its queries."""

    milliseconds: float
    queries: int


def main() -> int:
    client = staff_client()
    small = measure(client, fill(SMALL))
    for _ in range(9):
        fill_others((TABLE - LARGE) // 9)
    large = measure(client, fill(LARGE))
    worst = 0.0
    print(f"{'page':<28}{f'at {SMALL:,}':>12}{f'at {LARGE:,}':>14}{'ratio':>8}{'queries':>9}")
    for name, before in small.items():
        after = large[name]
        ratio = after.milliseconds / before.milliseconds
        worst = max(worst, ratio)
        print(f"{name:<28}{before.milliseconds:>9.1f} ms{after.milliseconds:>11.1f} ms{ratio:>8.2f}{after.queries:>9}")
    different = [name for name in small if small[name].queries != large[name].queries]
    print(f"largest ratio: {worst:.2f} (at most {LIMIT})" + (f"; queries differ: {different}" if different else ""))
    return 0 if worst <= LIMIT and not different else 1


def staff_client() -> Any:
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def measure(client: Any, tip: Any) -> dict[str, Measured]:
    """Every page, read in turns so that no page has the quiet minute for itself."""
    analyze()
    pages = {name: reading(client, url) for name, url in urls(tip).items()}
    queries = {name: count_queries(read) for name, read in pages.items()}
    seconds: dict[str, list[float]] = {name: [] for name in pages}
    for _ in range(READS):
        for name, read in pages.items():
            started = time.perf_counter()
            read()
            seconds[name].append(time.perf_counter() - started)
    return {
        name: Measured(milliseconds=statistics.median(taken) * 1000, queries=queries[name])
        for name, taken in seconds.items()
    }


def reading(client: Any, url: str) -> Callable[[], None]:
    def read() -> None:
        response = client.get(url)
        if response.status_code != 200:
            raise AssertionError(f"{url} answered {response.status_code}")

    read()
    return read


def urls(tip: Any) -> dict[str, str]:
    from compaction_app import chat

    summary = chat.find_summary(tip)
    run = summary.made_by.first()
    admin, session = "/admin/compaction_app", tip.session_id
    api = f"/api/v1/sessions/{session}"
    return {
        "admin: app": f"{admin}/",
        "admin: sessions": f"{admin}/chatsession/",
        "admin: session": f"{admin}/chatsession/{session}/change/",
        "admin: messages": f"{admin}/chatmessage/",
        "admin: messages of session": f"{admin}/chatmessage/?session={session}",
        "admin: tips of session": f"{admin}/chatmessage/?session={session}&place=tip",
        "admin: message": f"{admin}/chatmessage/{tip.pk}/change/",
        "admin: summaries": f"{admin}/chatmessage/?kind=summary",
        "admin: summary": f"{admin}/chatmessage/{summary.pk}/change/",
        "admin: runs": f"{admin}/compactionrun/",
        "admin: failed runs": f"{admin}/compactionrun/?status__exact=failed",
        "admin: run": f"{admin}/compactionrun/{run.pk}/change/",
        "admin: events": f"{admin}/compactionevent/",
        "admin: event": f"{admin}/compactionevent/{run.events.first().pk}/change/",
        "API: sessions": "/api/v1/sessions",
        "API: session": api,
        "API: tree": f"{api}/tree",
        "API: compactions": f"{api}/compactions",
        "API: compaction": f"{api}/compactions/{run.generation}",
        "API: context": f"/api/v1/messages/{tip.pk}/context",
        "API: run": f"/api/v1/runs/{run.pk}",
    }


def fill(size: int) -> Any:
    """A session of ``size`` messages with forks, summaries, runs and events; returns its newest tip."""
    from compaction_app.models import ChatMessage

    session, first = fill_others(size)
    trunk = size - size // FORK_EVERY
    step = (trunk - DISTANCE) // SUMMARIES
    for number in range(1, SUMMARIES + 1):
        summarize(session, number, first + number * step - 1)
    add_runs(session, max(100, size // 50), trunk, first)
    return ChatMessage.objects.get(pk=first + trunk - 1)


def fill_others(size: int) -> tuple[Any, int]:
    """A trunk and a variant of every twelfth of its messages, by one statement each."""
    from django.db import connection

    from compaction_app import chat
    from compaction_app.models import ChatMessage

    session = chat.start_session(title=f"{size:,} messages")
    key = type(session)._meta.pk.get_db_prep_value(session.pk, connection)
    first = (ChatMessage.objects.order_by("-id").values_list("id", flat=True).first() or 0) + 1
    variants = size // FORK_EVERY
    trunk = size - variants
    insert(
        key,
        trunk,
        id="%s + i - 1",
        parent="CASE WHEN i = 1 THEN NULL ELSE %s + i - 2 END",
        lane="CASE WHEN i = 1 THEN NULL ELSE %s END",
        depth="i",
        order="1",
        first=first,
    )
    insert(
        key,
        variants,
        id=f"%s + {trunk} + i - 1",
        parent=f"%s + (i - 1) * {FORK_EVERY - 1}",
        lane="NULL",
        depth=f"(i - 1) * {FORK_EVERY - 1} + 2",
        order="2",
        first=first,
    )
    reset_sequence()
    return session, first


def insert(key: Any, count: int, *, first: int, **columns: str) -> None:
    """``count`` messages; each column is SQL over i = 1, 2, …, in which %s stands for the first id."""
    from django.db import connection

    from compaction_app import sql

    columns = {name: text.replace("%s", str(first)) for name, text in columns.items()}
    words = "'message ' || i || ' " + "word " * 20 + "'"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
            INSERT INTO {sql.MESSAGES} (id, session_id, parent_message_id, lane_id, kind, role, content, tool_call_id,
                name, token_count, path_tokens, depth, sib_order, model, metadata, external_id, idempotency_key,
                retired_reason, created_at)
            SELECT {columns["id"]}, %s, {columns["parent"]}, {columns["lane"]}, 'message',
                CASE WHEN {columns["depth"]} % 2 = 1 THEN 'user' ELSE 'assistant' END, {words}, '', '',
                30, 30 * ({columns["depth"]}), {columns["depth"]}, {columns["order"]}, '', '{{}}', '', '', '',
                CURRENT_TIMESTAMP
            FROM n
            """.replace("% 2", "%% 2"),
            [key],
        )


def summarize(session: Any, number: int, anchor_id: int) -> None:
    from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun

    anchor = ChatMessage.objects.get(pk=anchor_id)
    summary = ChatMessage(
        session=session,
        kind="summary",
        role="user",
        content=f"## Recap {number}\n\nWhat came before.\n" + "It was said that this matters.\n" * 20,
        last_summarized_message_id=anchor_id - 4,
        token_count=200,
    )
    ChatMessage.objects.add_child(anchor, instance=summary)
    base = CompactionRun.objects.filter(session=session, generation=number - 1).first()
    run = CompactionRun.objects.create(
        session=session,
        tip=anchor,
        anchor=anchor,
        cutoff_id=anchor_id - 4,
        summary=summary,
        status="succeeded",
        trigger="threshold",
        generation=number,
        base=base.summary if base else None,
        tokens_before=20_000,
        tokens_after=5_000,
        messages_compacted=60,
        input_tokens=15_000,
        output_tokens=200,
    )
    for kind in ("threshold_hit", "started", "completed"):
        CompactionEvent.objects.create(session=session, run=run, message=anchor, kind=kind, payload={"tokens": 20_000})


def add_runs(session: Any, count: int, trunk: int, first: int) -> None:
    """Failed runs, each with an event."""
    from compaction_app.models import CompactionEvent, CompactionRun

    runs = CompactionRun.objects.bulk_create(
        (
            CompactionRun(
                session=session, tip_id=first + n % trunk, trigger="threshold", status="failed", error_code="timeout"
            )
            for n in range(count)
        ),
        batch_size=2_000,
    )
    CompactionEvent.objects.bulk_create(
        (CompactionEvent(session=session, run=run, kind="failed", payload={"attempt": 1}) for run in runs),
        batch_size=2_000,
    )


if __name__ == "__main__":
    sys.exit(on_both_databases(__file__, main))
