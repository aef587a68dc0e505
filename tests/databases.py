"""A second database of the same kind as the tests' own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def second_database(alias: str, django_db_blocker: Any, *, migrated: bool = True) -> Iterator[str]:
    """Migrated or without tables, and empty, under this alias; it is gone afterwards."""
    described = copy.deepcopy(connections.settings["default"])
    # Of this process alone: pytest-xdist gives each its own test database.
    described["TEST"]["NAME"] = f"{described['TEST']['NAME'] or described['NAME']}_{alias}"
    connections.settings[alias] = described
    with django_db_blocker.unblock():
        creation = connections[alias].creation
        if migrated:
            creation.create_test_db(verbosity=0, autoclobber=True)
        else:
            connections[alias].settings_dict["NAME"] = creation._create_test_db(0, autoclobber=True)
        yield alias
        creation.destroy_test_db(described["NAME"], verbosity=0)
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]
