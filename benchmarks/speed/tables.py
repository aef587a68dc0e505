"""Conversations of any size, written straight into the app's tables: what is measured is reading and going on.

A conversation of 1,000 messages and 50 branches has 1,000 messages on the branch that is read, and 49 branches more,
which fork from it at equal distances and have 20 messages each. A live summary covers the branch up to 63 messages
above its tip, so a context has 64 messages with it; without a summary it has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from benchmarks.speed.serving import message

#: From the tip to the summary's anchor, and from there to its cutoff.
TO_ANCHOR, TO_CUTOFF = 60, 3
TOKENS = 30
_BATCH = 5_000


def grow(size: int, branches: int = 1, *, length: int = 0, has_summary: bool = True) -> Any:
    """Store a conversation; returns the tip of the branch that is read. ``length``: of each other branch."""
    from django.core.management.color import no_style
    from django.db import connection

    from compaction_app import chat
    from compaction_app.models import ChatMessage

    session = chat.start_session(title=f"{size:,} messages, {branches} branches")
    first = (ChatMessage.objects.order_by("-id").values_list("id", flat=True).first() or 0) + 1
    nodes = _nodes(session, first, size, branches, length or max(1, size // 50))
    while batch := list(islice(nodes, _BATCH)):
        ChatMessage.objects.bulk_create(batch)
    with connection.cursor() as cursor:
        # The database numbers the next message after those that were stored with ids of ours.
        for statement in connection.ops.sequence_reset_sql(no_style(), [ChatMessage]):
            cursor.execute(statement)
    if has_summary:
        anchor = ChatMessage.objects.get(pk=first + size - 1 - TO_ANCHOR)
        summarize(anchor, anchor.pk - TO_CUTOFF, "## Recap\n\nWhat came before.", tokens=80)
    return ChatMessage.objects.select_related("session").get(pk=first + size - 1)


def summarize(anchor: Any, cutoff_id: int, text: str, *, tokens: int) -> Any:
    from compaction_app.models import ChatMessage

    about = {"session": anchor.session, "kind": "summary", "role": "user"}
    summary = ChatMessage(**about, content=text, last_summarized_message_id=cutoff_id, token_count=tokens)
    return ChatMessage.objects.add_child(anchor, instance=summary)


def _nodes(session: Any, first: int, size: int, branches: int, length: int) -> Iterator[Any]:
    """The messages of the branch that is read, with consecutive ids, and then those of the other branches."""
    from compaction_app.models import ChatMessage

    def node(pk: int, number: int, parent: int | None, lane: int | None) -> Any:
        return ChatMessage(
            id=pk,
            session=session,
            parent_message_id=parent,
            sib_order=1 if parent is None or parent == pk - 1 else 2,
            lane_id=lane,
            depth=number + 1,
            token_count=TOKENS,
            path_tokens=TOKENS * (number + 1),
            **message(number),
        )

    for number in range(size):
        yield node(first + number, number, first + number - 1 if number else None, first if number else None)
    free = first + size
    for fork in range(1, branches):
        parent = first + fork * size // branches - 1
        for number in range(length):
            above, lane = (free + number - 1, free) if number else (parent, None)
            yield node(free + number, parent - first + 1 + number, above, lane)
        free += length


def stored_bytes() -> dict[str, int]:
    """Messages, and the bytes of their texts, of their table and of its indexes."""
    from django.db import connection

    from compaction_app.models import ChatMessage

    table = ChatMessage._meta.db_table
    length = "octet_length(content)" if connection.vendor == "postgresql" else "length(CAST(content AS BLOB))"
    sizes = (
        f"SELECT pg_table_size('{table}'), pg_indexes_size('{table}')"
        if connection.vendor == "postgresql"
        else f"""
        SELECT SUM(pgsize) FILTER (WHERE name = '{table}'), SUM(pgsize) FILTER (WHERE name <> '{table}')
        FROM dbstat WHERE aggregate = TRUE AND name IN (SELECT name FROM sqlite_master WHERE tbl_name = '{table}')
        """
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*), COALESCE(SUM({length}), 0) FROM {table}")
        messages, texts = cursor.fetchone()
        cursor.execute(sizes)
        rows, indexes = cursor.fetchone()
    return {"messages": int(messages), "text_bytes": int(texts), "table_bytes": int(rows), "index_bytes": int(indexes)}


def analyze() -> None:
    """Statistics as a running server has them."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
