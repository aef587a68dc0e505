"""Test databases: each is a copy of one that the first process that needs any has migrated."""

import copy
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.db import OperationalError, connections
from django.db.backends.signals import connection_created

from tests.plugin import FOLDER_VARIABLE


def copy_migrated(alias: str) -> None:
    """Let the test database of this alias begin as a copy. Django migrates it again, and finds nothing to do."""
    described = connections.settings[alias]
    migrated = _migrated()
    if connections[alias].vendor == "sqlite":
        shutil.copyfile(migrated, described["TEST"]["NAME"])
    else:
        described["TEST"]["TEMPLATE"] = migrated


def _migrated() -> str:
    """The name of the database that is copied. The others wait while one process makes it."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    name = str(folder / "migrated.sqlite3") if connections["default"].vendor == "sqlite" else "migrated"
    made = folder / "migrated"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with _described("migrated", name) as alias:
                # A field that refers to a table is two commands, which cannot be prepared at their first use.
                connections.settings[alias].get("OPTIONS", {}).pop("prepare_threshold", None)
                connections[alias].creation.create_test_db(verbosity=0, autoclobber=True)
            made.touch()
    return name


@contextmanager
def second_database(alias: str, django_db_blocker: Any, *, migrated: bool = True) -> Iterator[str]:
    """Migrated or without tables, and empty, under this alias; it is gone afterwards."""
    default = connections.settings["default"]
    # Of this process alone: pytest-xdist gives each its own test database.
    with _described(alias, f"{default['TEST']['NAME'] or default['NAME']}_{alias}"), django_db_blocker.unblock():
        creation = connections[alias].creation
        if migrated:
            copy_migrated(alias)
            creation.create_test_db(verbosity=0, keepdb=True)
        else:
            connections[alias].settings_dict["NAME"] = creation._create_test_db(0, autoclobber=True)
        yield alias
        connections[alias].creation.destroy_test_db(default["NAME"], verbosity=0)


@contextmanager
def _described(alias: str, test_name: str) -> Iterator[str]:
    """While the block runs, a database of the same kind as the default one."""
    connections.settings[alias] = described = copy.deepcopy(connections.settings["default"])
    described["TEST"]["NAME"] = test_name
    yield alias
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


@contextmanager
def failing(fails: Callable[[str], bool]) -> Iterator[None]:
    """The database is away where ``fails`` says so of a statement: in all threads but that of the leases."""

    def execute(execute: Any, sql: str, *others: Any) -> Any:
        if not threading.current_thread().name.startswith("leases") and fails(sql):
            raise OperationalError("the connection is lost")
        return execute(sql, *others)

    def listen(connection: Any, **_: Any) -> None:
        if execute not in connection.execute_wrappers:
            connection.execute_wrappers.append(execute)
            stack.callback(connection.execute_wrappers.remove, execute)

    with ExitStack() as stack:
        connection_created.connect(listen)
        stack.callback(connection_created.disconnect, listen)
        listen(connections["default"])
        yield
