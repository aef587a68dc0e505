"""Admin pages, API endpoints and a turn in a session of 1,000 messages, and in one of 100,000 among a million rows.

Run as ``python -m benchmarks.speed.pages``, with ``DATABASE_URL`` set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.speed import tables
from benchmarks.speed.on_django import OnDjango, turn_calls
from benchmarks.speed.serving import serve

SMALL, LARGE, TABLE = 1_000, 100_000, 1_000_000
#: A variant of every twelfth message, and the same number of summaries at any length, which fills their lists.
FORK_EVERY, SUMMARIES = 12, 60
#: Messages after the newest summary's anchor.
DISTANCE = 60
ADMIN, API = "/admin/compaction_app", "/api/v1"
#: Every page by its name; in braces what is put in.
PAGES = {
    "admin: app": f"{ADMIN}/",
    "admin: sessions": f"{ADMIN}/chatsession/",
    "admin: session": f"{ADMIN}/chatsession/{{session}}/change/",
    "admin: messages": f"{ADMIN}/chatmessage/",
    "admin: messages of session": f"{ADMIN}/chatmessage/?session={{session}}",
    "admin: message": f"{ADMIN}/chatmessage/{{tip}}/change/",
    "admin: summaries": f"{ADMIN}/chatmessage/?kind=summary",
    "admin: summary": f"{ADMIN}/chatmessage/{{summary}}/change/",
    "admin: runs": f"{ADMIN}/compactionrun/",
    "admin: failed runs": f"{ADMIN}/compactionrun/?status__exact=failed",
    "admin: run": f"{ADMIN}/compactionrun/{{run}}/change/",
    "admin: events": f"{ADMIN}/compactionevent/",
    "admin: event": f"{ADMIN}/compactionevent/{{event}}/change/",
    "API: sessions": f"{API}/sessions",
    "API: session": f"{API}/sessions/{{session}}",
    "API: tree": f"{API}/sessions/{{session}}/tree",
    "API: compactions": f"{API}/sessions/{{session}}/compactions",
    "API: compaction": f"{API}/sessions/{{session}}/compactions/{{generation}}",
    "API: context": f"{API}/messages/{{tip}}/context",
    "API: run": f"{API}/runs/{{run}}",
}


class Pages(OnDjango):
    """A session of ``size`` messages; the large one is in a table of a million."""

    def grow(self, size: int, branches: int) -> None:
        tip = fill(size)
        if size == LARGE:
            for _ in range(9):
                fill_others((TABLE - LARGE) // 9)
        self.grown[size, branches] = tip, tip
        tables.analyze()
        self.stored = tables.stored_bytes()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return super().count(call) | self.stored

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        from compaction_app import chat

        tip, client = self.grown[size, branches][0], staff_client()
        summary = chat.find_summary(tip)
        run = summary.made_by.first()
        found = {
            "session": tip.session_id,
            "tip": tip.pk,
            "summary": summary.pk,
            "run": run.pk,
            "event": run.events.first().pk,
            "generation": run.generation,
        }
        return turn_calls(tip, tip) | {name: reading(client, url.format(**found)) for name, url in PAGES.items()}


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
    tables.continue_ids()
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
    serve(Pages())
