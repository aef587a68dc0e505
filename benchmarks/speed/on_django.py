"""What is measured on the app's own tables: the app, the bare database, and the access pattern of Onyx.

Run as ``python -m benchmarks.speed.on_django app``, with ``DATABASE_URL`` set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import count
from typing import Any

from benchmarks.speed import tables
from benchmarks.speed.serving import System, message, serve

Calls = dict[str, Callable[[], Any]]
_COLUMNS = (
    "id, parent_message_id, depth, role, content, tool_calls, tool_call_id, name, reasoning, attachments, token_count,"
    " path_tokens, created_at"
)


class OnDjango(System):
    """A system on the app's tables. What is timed for writing goes to a second conversation of the same size."""

    def __init__(self, *, has_summary: bool = True) -> None:
        import django
        from django.core.management import call_command

        os.environ |= {"DJANGO_SETTINGS_MODULE": "project.settings", "DEBUG": "false", "SECRET_KEY": "benchmark"}
        django.setup()
        call_command("migrate", verbosity=0)
        self.has_summary = has_summary
        self.grown: dict[tuple[int, int], tuple[Any, Any]] = {}

    def about(self) -> dict[str, Any]:
        from django.db import connection

        packages, settings = "django", "journal_mode synchronous"
        show, ask_version = "PRAGMA", "SELECT sqlite_version()"
        if connection.vendor == "postgresql":
            packages, settings = "django psycopg", "fsync synchronous_commit full_page_writes"
            show, ask_version = "SHOW", "SELECT version()"
        with connection.cursor() as cursor:
            read = {}
            for name in settings.split():
                cursor.execute(f"{show} {name}")
                read[name] = cursor.fetchone()[0]
            cursor.execute(ask_version)
            database = cursor.fetchone()[0]
        return {
            "versions": {name: version(name) for name in packages.split()} | {"database": database},
            "durability": ", ".join(f"{name} {value}" for name, value in read.items()),
        }

    def grow(self, size: int, branches: int) -> None:
        one, other = (tables.grow(size, branches, has_summary=self.has_summary) for _ in range(2))
        self.grown[size, branches] = one, other
        tables.analyze()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        from django.db import connection
        from django.db.backends.utils import CursorWrapper
        from django.test.utils import CaptureQueriesContext

        rows = 0

        class Counting(CursorWrapper):
            """Counts the rows that are fetched."""

            def __iter__(self) -> Any:
                return iter(self.fetchall())

            def __getattr__(self, name: str) -> Any:
                found = super().__getattr__(name)
                return partial(self._fetched, found) if name.startswith("fetch") else found

            def _fetched(self, fetch: Callable[..., Any], *arguments: Any) -> Any:
                nonlocal rows
                fetched = fetch(*arguments)
                rows += len(fetched) if isinstance(fetched, list) else fetched is not None
                return fetched

        call()
        make, connection.make_cursor = connection.make_cursor, lambda cursor: Counting(cursor, connection)
        try:
            call()
        finally:
            connection.make_cursor = make
        with CaptureQueriesContext(connection) as captured:
            call()
        return {"statements": len(captured), "rows": rows}


class App(OnDjango):
    """The app, by its public functions."""

    def calls(self, size: int, branches: int) -> Calls:
        return turn_calls(*self.grown[size, branches])


def turn_calls(read: Any, written: Any) -> Calls:
    """A turn and its parts, by the app: what is read is below one tip, and what is written below another."""
    from compaction_app import chat
    from compaction_app.models import ChatMessage

    middle = ChatMessage.objects.get(session=written.session_id, lane_id=written.lane_id, depth=written.depth // 2)

    def append(parent: Any, role: str) -> Any:
        return chat.append_message(written.session, parent, role=role, content=message(0)["content"])

    def turn() -> Any:
        question = append(written, "user")
        chat.get_context(question)
        return append(question, "assistant")

    return {
        "read": lambda: chat.get_context(read),
        "append": lambda: append(written, "user"),
        "turn": turn,
        "requested turn": lambda: chat.request_compaction(turn()),
        "request": lambda: chat.request_compaction(read),
        "fork": lambda: append(middle, "user"),
    }


class Bare(OnDjango):
    """The least that the same rows cost: the driver and the ORM without the app; and a loop over all rows."""

    def calls(self, size: int, branches: int) -> Calls:
        from django.db import connection

        from compaction_app import chat
        from compaction_app.models import ChatMessage

        read, written = self.grown[size, branches]
        context = chat.get_context(read)
        branch = chat.get_branch(read)
        shown = [message.pk for message in branch[-(len(context.messages) - 1) :]] + [context.summary_id]
        by_key = f"SELECT {_COLUMNS} FROM {ChatMessage._meta.db_table} WHERE id IN ({', '.join(['%s'] * len(shown))})"
        orders = count(10**6)
        table = ChatMessage._meta.db_table
        copied = ", ".join(f.column for f in ChatMessage._meta.concrete_fields if f.name not in ("id", "sib_order"))
        insert = f"INSERT INTO {table} ({copied}, sib_order) SELECT {copied}, %s FROM {table} WHERE id = {written.pk}"

        def driver() -> None:
            with connection.cursor() as cursor:
                cursor.execute(by_key, shown)
                cursor.fetchall()

        def bare_insert() -> None:
            with connection.cursor() as cursor:
                cursor.execute(insert, [next(orders)])

        def orm_read() -> list[Any]:
            return list(ChatMessage.objects.filter(pk__in=shown))

        def create() -> None:
            values = {"token_count": tables.TOKENS, "path_tokens": tables.TOKENS, "depth": 1} | message(0)
            ChatMessage(session=written.session, sib_order=next(orders), **values).save_base(force_insert=True)

        def turn() -> None:
            create()
            orm_read()
            create()

        def all_rows() -> list[dict[str, str]]:
            """What a chat without branches does: all rows of the session, in order."""
            rows = ChatMessage.objects.filter(session_id=read.session_id, kind="message").order_by("depth")
            return [{"role": row.role, "content": row.content} for row in rows]

        return {
            "driver": driver,
            "insert": bare_insert,
            "create": create,
            "ORM read": orm_read,
            "ORM turn": turn,
            "all rows": all_rows,
        }


class OnyxPattern(OnDjango):
    """How Onyx reads: every message of the session, by the session's index, linked to a branch in Python.

    Its summaries are messages of the session too, and the newest one whose parent is on the branch applies. Equal
    tables with the index on the session that Onyx has; written with Django's ORM where Onyx has SQLAlchemy's.
    """

    def calls(self, size: int, branches: int) -> Calls:
        from compaction_app.models import ChatMessage

        read, written = self.grown[size, branches]
        orders = count(10**6)

        def context(tip_id: int, session_id: Any) -> list[dict[str, str]]:
            rows = {row.pk: row for row in ChatMessage.objects.filter(session_id=session_id)}
            branch, at = [], tip_id
            while at is not None:
                branch.append(rows[at])
                at = rows[at].parent_message_id
            branch.reverse()
            ids = {row.pk for row in branch}
            summaries = [row for row in rows.values() if row.kind == "summary" and row.parent_message_id in ids]
            summary = max(summaries, key=lambda row: row.pk, default=None)
            cutoff = rows[summary.last_summarized_message_id].depth if summary else 0
            shown = ([summary] if summary else []) + [row for row in branch if row.depth > cutoff]
            return [{"role": row.role, "content": row.content} for row in shown]

        def append(parent: Any, role: str) -> Any:
            row = ChatMessage(
                session=written.session,
                parent_message_id=parent.pk,
                sib_order=next(orders),
                depth=parent.depth + 1,
                token_count=tables.TOKENS,
                path_tokens=parent.path_tokens + tables.TOKENS,
                role=role,
                content=message(0)["content"],
            )
            row.save_base(force_insert=True)
            return row

        def turn() -> None:
            question = append(written, "user")
            context(question.pk, written.session_id)
            append(question, "assistant")

        middle = ChatMessage.objects.get(pk=written.pk - size // 2)

        return {
            "read": lambda: context(read.pk, read.session_id),
            "append": lambda: append(written, "user"),
            "turn": turn,
            "fork": lambda: append(middle, "user"),
        }


SYSTEMS = {"app": App, "no summary": partial(App, has_summary=False), "bare": Bare, "onyx": OnyxPattern}

if __name__ == "__main__":
    serve(SYSTEMS[sys.argv[1]]())
