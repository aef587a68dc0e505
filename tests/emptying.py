"""Emptying a database after a test that committed: rows are deleted, where there are any.

Django's own flush truncates every table and then makes every content type and permission anew. Both cost more than
most of the tests here that commit.
"""

from collections.abc import Iterable
from functools import cache

from django.db import connections, transaction
from django.test import TransactionTestCase

#: Made by the migrations, and the same for every test.
KEPT = frozenset({"auth_permission", "django_content_type", "django_migrations"})
#: Rows of one table. With more, PostgreSQL truncates sooner than it deletes.
MANY_ROWS = 2000

_flush = TransactionTestCase._fixture_teardown


def empty_databases(self: TransactionTestCase) -> None:
    """In place of ``TransactionTestCase._fixture_teardown``."""
    for alias in self._databases_names(include_mirrors=False):
        rows = _count_rows(alias)
        if any(count > MANY_ROWS for count in rows.values()):
            _flush(self)
            return
        _delete_all(alias, [table for table, count in rows.items() if count])


def _count_rows(alias: str) -> dict[str, int]:
    """Rows of each table, as far as the first beyond ``MANY_ROWS``."""
    counts = [
        f"SELECT '{table}', count(*) FROM (SELECT 1 FROM {quoted} LIMIT {MANY_ROWS + 1}) AS found"
        for table, quoted in _tables(alias)
    ]
    with connections[alias].cursor() as cursor:
        cursor.execute(" UNION ALL ".join(counts))
        return dict(cursor.fetchall())


def _delete_all(alias: str, tables: Iterable[str]) -> None:
    # Foreign keys are checked at the end of the transaction, so the order is free.
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        for table in tables:
            cursor.execute(f"DELETE FROM {connections[alias].ops.quote_name(table)}")


@cache
def _tables(alias: str) -> list[tuple[str, str]]:
    connection = connections[alias]
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return [(name, connection.ops.quote_name(name)) for name in sorted(set(names) - KEPT)]
