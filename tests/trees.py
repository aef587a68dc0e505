"""Trees for the tests of storage: quick to build, of any depth and width."""

from typing import Any

from django.db import connection, models
from django.db.models import F

from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import Kind, Role

#: From here on it matters that a database knows how many rows there are.
LONG = 500


def start_session(**fields: Any) -> ChatSession:
    return ChatSession.objects.create(**fields)


def chain(session: ChatSession, length: int, parent: ChatMessage | None = None) -> list[ChatMessage]:
    """``length`` user messages, each below the one before. Their count is given, so none is tokenized."""
    nodes = [ChatMessage(session=session, role=Role.USER, content=f"m{n}", token_count=10) for n in range(length)]
    appended = ChatMessage.objects.append_chain(parent, nodes)
    if length >= LONG:
        analyze()
    return appended


def deep_chain(session: ChatSession, length: int) -> list[ChatMessage]:
    """As ``chain`` in a new session, but written past the manager, in bulk: for thousands of levels."""
    rows = [ChatMessage(session=session, role=Role.USER, token_count=10, sib_order=n + 1) for n in range(length)]
    first, *below = [row.pk for row in ChatMessage.objects.bulk_create(rows)]
    assert below == list(range(first + 1, first + length)), "each is to stand below the row written before it"
    depth = F("id") - first + 1
    nodes = ChatMessage.objects.filter(session=session)
    nodes.update(depth=depth, path_tokens=depth * 10, sib_order=1, parent=F("id") - 1, lane=first)
    nodes.filter(pk=first).update(parent=None, lane=None)
    analyze()
    return list(nodes.order_by("depth"))


def star(session: ChatSession, width: int) -> list[ChatMessage]:
    """A root and ``width`` children of it, the root first; written past the manager, which is tested elsewhere."""
    root = chain(session, 1)[0]
    children = [
        ChatMessage(
            session=session,
            parent=root,
            role=Role.USER,
            token_count=10,
            path_tokens=20,
            depth=2,
            sib_order=n + 1,
            lane=None if n else root,
        )
        for n in range(width)
    ]
    nodes = [root, *ChatMessage.objects.bulk_create(children)]
    analyze()
    return nodes


def summarize(anchor: ChatMessage, cutoff: ChatMessage, **fields: Any) -> ChatMessage:
    """A summary at ``anchor`` that covers everything up to ``cutoff``."""
    given = {"kind": Kind.SUMMARY, "role": Role.USER, "content": "What was said.", "last_summarized_message": cutoff}
    return ChatMessage.objects.add_child(anchor, given | fields)


def analyze(model: type[models.Model] = ChatMessage) -> None:
    """What autovacuum does within a minute; without statistics PostgreSQL scans a new table once a level."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {model._meta.db_table}")
