"""The database that a row is in: which one, its time, its locks, its transactions.

Functions take a row, or a queryset, and ask the database that it is written to. Every write of a tree begins with an
UPDATE of its session's row: on SQLite ``select_for_update`` does nothing, and on PostgreSQL ``FOR UPDATE`` would block
plain inserts that point at the session. No transaction and no connection is held while a model is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, models, router, transaction
from django.db.transaction import Atomic
from django.dispatch import Signal
from django.utils import timezone

from compaction_app.exceptions import DurableTransactionRequired, MessageNotFound
from compaction_app.models import sql

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage

AnyRow = TypeVar("AnyRow", bound=models.Model)
Read = TypeVar("Read")
Stored = TypeVar("Stored")
#: What is in a database: a row, or a queryset.
Near = models.Model | models.QuerySet[Any]


class RowQuerySet(models.QuerySet[AnyRow]):
    """Of all tables of this app."""

    def in_database_of(self, near: Near) -> Self:
        """The rows in the database that ``near`` is written to."""
        return self.using(database_of(near))


def database_of(near: Near) -> str:
    """The alias that a conversation is written to, whichever it was read from; it is read there too.

    The router decides; where it says nothing, it is the alias that the row came from. A replica may not have yet what
    was written a moment ago.
    """
    return near.db if isinstance(near, models.QuerySet) else router.db_for_write(type(near), instance=near)


def connection_of(near: Near) -> Any:
    return connections[database_of(near)]


def atomic(near: Near, **options: bool) -> Atomic:
    """A transaction in the database of ``near``."""
    return transaction.atomic(using=database_of(near), **options)


def fetch(statement: str, parameters: Mapping[str, Any] | Sequence[Any], near: Near) -> list[Any]:
    """The rows of a statement as tuples."""
    with connection_of(near).cursor() as cursor:
        cursor.execute(statement, parameters)
        found: list[Any] = cursor.fetchall()
        return found


def now_of(near: Near) -> datetime:
    """The time by the database's clock: what a host writes another one compares, and their own clocks differ."""
    if connection_of(near).vendor == "postgresql":
        [(now,)] = fetch("SELECT statement_timestamp()", [], near)
    else:
        [(text,)] = fetch("SELECT strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", [], near)
        now = datetime.fromisoformat(text).replace(tzinfo=UTC)
        now = now if settings.USE_TZ else timezone.make_naive(now, timezone.get_default_timezone())
    return cast(datetime, now)


@contextmanager
def locked(row: Any, *, durable: bool = False) -> Iterator[None]:
    """A transaction that is the only writer of the row's session until it ends."""
    with atomic(row, durable=durable):
        lock_session(row)
        yield


def lock_session(row: Any) -> None:
    """Make this transaction the only writer of the row's session until it ends."""
    lock_and_read(row)


def locked_message(message: ChatMessage) -> ChatMessage:
    """The message as it is stored now, with its session, which is locked until the transaction ends."""
    lock_session(message)
    row = type(message).objects.in_database_of(message).select_related("session").filter(pk=message.pk).first()
    if row is None:
        raise MessageNotFound(f"Message {message.pk} does not exist any more.")
    return row


def lock_and_read(
    row: Any,
    statement: str = "",
    parameters: Mapping[str, Any] | None = None,
    *,
    appended: Sequence[ChatMessage] = (),
) -> list[dict[str, Any]]:
    """Lock the row's session until the transaction ends; the rows of a statement that is executed under the lock.

    ``appended``: the messages and summaries that follow, by whose dates the session began and was used; nothing else
    moves these.
    """
    from compaction_app.models import ChatSession

    connection, moment = connection_of(row), ChatSession._meta.get_field("updated_at")
    dates = [node.created_at for node in appended]
    times = {"now": min(timezone.now(), max(dates)), "first": min(dates)} if dates else {}
    values = {name: moment.get_db_prep_value(time, connection) for name, time in times.items()}
    values["session"] = ChatSession._meta.pk.get_db_prep_value(row.session_id, connection)
    with connection.cursor() as lock, connection.cursor() as other, _in_one_trip(connection) as end:
        lock.execute(sql.LOCK_TO_APPEND if dates else sql.LOCK, values)
        if statement:
            other.execute(statement, parameters)
        end()
        found, rows = lock.rowcount, list[dict[str, Any]]()
        if statement:
            names = [column[0] for column in other.description]
            rows = [dict(zip(names, row, strict=True)) for row in other.fetchall()]
    if not found:
        raise MessageNotFound(f"Session {row.session_id} does not exist any more.")
    return rows


@contextmanager
def _in_one_trip(connection: Any) -> Iterator[Callable[[], None]]:
    """What is executed inside goes to a PostgreSQL server together, which is waited for once, at the ``end``.

    The server takes one after the other, so a statement sees what the lock before it waited for. Without a transaction
    around it, all of it is one.
    """
    with ExitStack() as stack:
        connection.ensure_connection()
        # Neither SQLite nor psycopg 2 has one, nor has an old libpq.
        if hasattr(connection.connection, "pipeline") and connection.Database.Pipeline.is_supported():
            stack.enter_context(connection.wrap_database_errors)
            stack.enter_context(connection.connection.pipeline())
            yield stack.close
        else:
            stack.enter_context(transaction.atomic(using=connection.alias, savepoint=False))
            yield lambda: None


def lock_name(name: str, near: Near) -> None:
    """Make this transaction the only one that has the name, until it ends: on SQLite, as the only one that writes."""
    if connection_of(near).vendor == "postgresql":
        fetch("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name], near)


def read_and_store(row: Any, read: Callable[[], Read], store: Callable[[Read], Stored]) -> Stored:
    """What ``store`` returns for what was read, with the row's session locked.

    What is read may take long, so nothing is locked meanwhile. Where something of the session was erased before it is
    stored, it may have the erased text, and it is read again under the lock.
    """
    erasures = erasures_of(row)
    found = read()
    with locked(row):
        return store(found if erasures_of(row) == erasures else read())


def erasures_of(row: Any) -> int | None:
    """How often something of the row's session was redacted or deleted; None where the session is gone."""
    from compaction_app.models import ChatSession

    sessions = ChatSession.objects.in_database_of(row).filter(pk=row.session_id)
    return sessions.values_list("erasures", flat=True).first()


def require_no_transaction(near: Near) -> None:
    """Claims and commits are durable, and no transaction may wait for a model."""
    if not connection_of(near).in_atomic_block:
        return
    try:
        # Django decides what counts: the transaction that a TestCase puts around a test does not.
        with atomic(near, durable=True, savepoint=False):
            pass
    except RuntimeError as error:
        alias = connection_of(near).alias
        which = "" if alias == DEFAULT_DB_ALIAS else f"(using={alias!r})"
        raise DurableTransactionRequired(
            "This calls a model and must not run inside transaction.atomic(). With ATOMIC_REQUESTS, decorate the "
            f"view with transaction.non_atomic_requests{which}, or use request_compaction, which does not wait."
        ) from error


def give_back_connection(near: Near) -> None:
    """Close this thread's connection (a pool takes it back): none is held while a model is called."""
    release(connection_of(near))


def release(connection: Any) -> None:
    """Close it, unless a transaction is open on it: that of a caller, or of a test."""
    if not connection.in_atomic_block:
        connection.close()


def after_commit(near: Near, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
    """Call a function after the commit of the open transaction; at once if there is none. What it raises is logged."""

    def call() -> None:
        function(*arguments, **named)

    # Django logs the name of what raised, which a partial does not have: it would raise into the chat turn instead.
    call.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
    transaction.on_commit(call, using=database_of(near), robust=True)


def send_after_commit(near: Near, signal: Signal, sender: type[models.Model], **arguments: Any) -> None:
    """Send after the commit of the transaction that this thread has open; at once if there is none."""
    using = database_of(near)
    after_commit(near, lambda: signal.send_robust(sender, using=using, **arguments))
