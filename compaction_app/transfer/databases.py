"""A database by its alias, or a copy of a SQLite file as one: opened for reading only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from django.db import connections

from compaction_app.exceptions import ConfigurationError

_MAGIC = b"SQLite format 3\0"
#: Byte of the header that says how the file is written; 2 is with a write-ahead log.
_WRITE_VERSION, _WAL = 18, 2


@contextmanager
def opened(name: str) -> Iterator[str]:
    """The alias of a database: of one in ``DATABASES``, or for as long as this lasts of a SQLite file at a path.

    Raises :class:`ConfigurationError` where ``name`` is neither.
    """
    if name in connections.settings:
        yield name
        return
    path = Path(name)
    if not path.is_file() or _header(path)[: len(_MAGIC)] != _MAGIC:
        aliases = ", ".join(connections.settings)
        raise ConfigurationError(f"{name!r} is neither an alias of a database ({aliases}) nor a SQLite file.")
    alias = f"file:{path.resolve()}"
    settings = {"default": {"ENGINE": "django.db.backends.dummy"}, alias: _read_only(path.resolve())}
    connections.settings[alias] = connections.configure_settings(settings)[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def _read_only(path: Path) -> dict[str, str]:
    log, index = (path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))
    # To read a file with a write-ahead log, SQLite makes that log and its index beside it, even for reading only,
    # unless it is told that nobody writes. That is so where there is neither: then nothing is made.
    in_use = index.exists() or (log.exists() and log.stat().st_size > 0)
    quiet = _header(path)[_WRITE_VERSION] == _WAL and not in_use
    options = "mode=ro&immutable=1" if quiet else "mode=ro"
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": f"file:{quote(str(path))}?{options}"}


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100).ljust(100, b"\0")
