"""Admin pages and API endpoints of a session of 1,000 messages, and of one of 100,000 in a table of 1,000,000 rows.

Each has its own database, and they are read in turns, so that a slow machine affects both. Prints the median of each
page, its queries and the ratio; exits 1 if a ratio is over 1.5 or the queries differ.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from _database import Process, side_by_side
from context_reads import analyze, count_queries, reset_sequence

READS = 30
SMALL, LARGE, TABLE = 1_000, 100_000, 1_000_000
#: A variant of every twelfth message, and the same number of summaries at any length, which fills their lists.
FORK_EVERY, SUMMARIES = 12, 60
#: Messages after the newest summary's anchor.
DISTANCE = 60
LIMIT = 1.5


def compare(processes: Mapping[str, Process]) -> int:
    """Ask each process in turn to read all its pages; print the result."""
    for process in processes.values():
        # Filled one after the other: two at once would compete for the disk.
        answer_of(process)
    queries = {part: ask(process) for part, process in processes.items()}
    seconds: dict[str, dict[str, list[float]]] = {part: {name: [] for name in queries[part]} for part in processes}
    for _ in range(READS):
        for part, process in processes.items():
            for name, taken in ask(process).items():
                seconds[part][name].append(taken)
    for process in processes.values():
        process.communicate()
    worst = 0.0
    print(f"{'page':<28}{f'at {SMALL:,}':>12}{f'at {LARGE:,}':>14}{'ratio':>8}{'queries':>9}")
    for name in queries["small"]:
        before, after = (statistics.median(seconds[part][name]) * 1000 for part in ("small", "large"))
        worst = max(worst, after / before)
        count = queries["large"][name]
        print(f"{name:<28}{before:>9.1f} ms{after:>11.1f} ms{after / before:>8.2f}{count:>9}")
    different = [name for name, count in queries["small"].items() if queries["large"][name] != count]
    print(f"largest ratio: {worst:.2f} (at most {LIMIT})" + (f"; queries differ: {different}" if different else ""))
    return 0 if worst <= LIMIT and not different else 1


def ask(process: Process) -> dict[str, Any]:
    """A number for each page: its queries on the first call, then the seconds of a reading."""
    assert process.stdin is not None
    process.stdin.write("read\n")
    process.stdin.flush()
    return answer_of(process)


def answer_of(process: Process) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the benchmark ended with exit code {process.wait()}; see above")
    return json.loads(line)


def serve(part: str) -> int:
    """Fill this process's database, then answer each line with numbers for all pages."""
    client = staff_client()
    tip = fill(SMALL if part == "small" else LARGE)
    if part == "large":
        for _ in range(9):
            fill_others((TABLE - LARGE) // 9)
    analyze()
    pages = {name: reading(client, url) for name, url in urls(tip).items()}
    say("filled")
    asked = iter(sys.stdin)
    next(asked)
    say({name: count_queries(read) for name, read in pages.items()})
    for _ in asked:
        say({name: seconds_of(read) for name, read in pages.items()})
    return 0


def say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def seconds_of(read: Callable[[], None]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started


def staff_client() -> Any:
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


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

    from compaction_app.models import sql

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
    sys.exit(side_by_side(__file__, ("small", "large"), serve, compare))
