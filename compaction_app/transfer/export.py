"""Writes every compaction of a database as a replay bundle, and an index that says what could not be rebuilt.

The database may be a copy of a SQLite file, opened for reading only.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connections
from django.db.models import Count, Q, QuerySet

from compaction_app.exceptions import ConfigurationError
from compaction_app.models import ChatSession
from compaction_app.transfer import bundles
from compaction_app.transfer.rebuild import NotRebuilt, rebuild, succeeded_runs
from compaction_app.values import Kind

#: Characters of a title in the name of a folder. File systems allow 255 bytes; a character has up to four.
TITLE_CHARACTERS = 50
_BATCH = 500

#: Not allowed in the names of folders everywhere, or with a meaning there or in a shell.
_NOT_IN_NAMES = frozenset("-<>:\"/\\|?*.,;!&$`'()[]{}#%~")
#: Byte of a SQLite file's header with the write version; 2 is a write-ahead log.
_WRITE_VERSION, _WAL = 18, b"\2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One compaction in the index."""

    session: str
    title: str
    #: Within the export; None if nothing was written.
    folder: str | None = None
    generation: int
    run: int
    summary: int | None
    #: :class:`rebuild.NotRebuilt`, or "" if it was.
    reason: str = ""
    #: The summary contains a tag of the wrapper, or the marker.
    leaks: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether the prompt was rebuilt, or was erased on purpose, or there was none."""
        return self.reason in ("", NotRebuilt.REDACTED, NotRebuilt.DELETED, NotRebuilt.BY_PERSON)


def chosen_sessions(sessions: QuerySet[ChatSession], *, min_messages: int = 0) -> QuerySet[ChatSession]:
    """Those with at least one succeeded run, the oldest first."""
    sessions = sessions.filter(pk__in=succeeded_runs(sessions).order_by().values("session_id"))
    if min_messages:
        messages = Count("messages", filter=Q(messages__kind=Kind.MESSAGE))
        sessions = sessions.annotate(message_count=messages).filter(message_count__gte=min_messages)
    return sessions.order_by("created_at", "pk")


def export_sessions(sessions: QuerySet[ChatSession], folder: Path) -> Iterator[Entry]:
    """Write the bundles of each session into ``folder``, and yield the entry of each in the index."""
    chosen = list(sessions.only("id", "title"))
    width = max(3, len(str(len(chosen))))
    for number, session in enumerate(chosen, start=1):
        name = f"{number:0{width}d}-{safe_name(session.title)}"
        for run in succeeded_runs(sessions).filter(session=session).iterator(chunk_size=_BATCH):
            of_run: dict[str, Any] = {"session": str(session.pk), "title": session.title}
            of_run |= {"generation": run.generation, "run": run.pk, "summary": run.summary_id}
            rebuilt = rebuild(run)
            if isinstance(rebuilt, NotRebuilt):
                yield Entry(**of_run, reason=rebuilt)
            else:
                place = f"{name}/compaction-{run.generation:03d}"
                texts = bundles.texts_of(rebuilt)
                metadata = bundles.metadata_of(rebuilt, texts)
                bundles.write_texts(folder / place, {**texts, bundles.METADATA: bundles.as_json(metadata)})
                yield Entry(**of_run, folder=place, leaks=metadata["leaks"])


def index_of(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "format": bundles.FORMAT,
        "bundles": sum(entry.folder is not None for entry in entries),
        "not_rebuilt": sum(entry.folder is None for entry in entries),
        "leaks": sum(entry.leaks for entry in entries),
        "summaries": [asdict(entry) for entry in entries],
    }


def safe_name(title: str) -> str:
    """A title as part of a folder's name on any system; letters of every script are kept."""
    text = unicodedata.normalize("NFC", title)
    kept = (character if character.isprintable() and character not in _NOT_IN_NAMES else " " for character in text)
    return "-".join("".join(kept).split())[:TITLE_CHARACTERS].rstrip("-") or "untitled"


@contextmanager
def database_alias(name: str) -> Iterator[str]:
    """An alias in ``DATABASES`` as it is, or a temporary alias of the SQLite file at a path, for reading only."""
    if name in connections.settings:
        yield name
        return
    path = Path(name)
    if not path.is_file():
        aliases = ", ".join(connections.settings)
        raise ConfigurationError(f"{name!r} is neither a database alias ({aliases}) nor a SQLite file.")
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
    # To read a file with a write-ahead log, SQLite creates that log and its index beside it, even when reading only,
    # unless the connection declares the file immutable. That is true if neither exists: nobody writes to it.
    in_use = index.exists() or (log.exists() and log.stat().st_size > 0)
    with path.open("rb") as file:
        file.seek(_WRITE_VERSION)
        quiet = file.read(1) == _WAL and not in_use
    options = "mode=ro&immutable=1" if quiet else "mode=ro"
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": f"file:{quote(str(path))}?{options}"}
