"""Writes every compaction of a database as a replay bundle, and an index that says what could not be rebuilt.

The database may be a copy of a SQLite file, opened for reading only. A session's messages are read once, to look for
text of other branches in all of its summaries.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Count, Q, QuerySet

from compaction_app.exceptions import ConfigurationError
from compaction_app.messages.transcript import leaks_wrapper
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.transfer import bundles
from compaction_app.transfer.rebuild import NotRebuilt, Proof, Rebuilt, rebuild, succeeded_runs
from compaction_app.tree import branches
from compaction_app.values import Kind

#: Characters of a title in the name of a folder. File systems allow 255 bytes; a character has up to four.
TITLE_CHARACTERS = 50
_BATCH = 500
#: Words in a row that two texts do not share by chance.
RUN_OF_WORDS = 8
#: A token with a digit is distinctive from this length on: "7391-alpha", not "2024".
DISTINCTIVE_CHARACTERS = 6

#: Not allowed in the names of folders everywhere, or with a meaning there or in a shell.
_NOT_IN_NAMES = frozenset("-<>:\"/\\|?*.,;!&$`'()[]{}#%~")
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w(?:[\w./:@-]*\w)?")
_SQLITE_MAGIC = b"SQLite format 3\0"
#: Byte of the header with the write version; 2 is a write-ahead log.
_WRITE_VERSION, _WAL = 18, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One summary in the index."""

    session: str
    title: str
    #: Within the export; None if nothing was written.
    folder: str | None = None
    generation: int | None = None
    run: int | None = None
    summary: int | None
    #: :class:`rebuild.Proof`, or "" if the prompt was not rebuilt.
    proof: str = ""
    #: :class:`rebuild.NotRebuilt`, or "" if it was.
    reason: str = ""
    #: The summary contains a tag of the wrapper, the marker or another branch's text.
    leaks: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether the prompt is proved, or was erased on purpose."""
        return self.proof == Proof.PROVED or self.reason in (NotRebuilt.REDACTED, NotRebuilt.DELETED)


def chosen_sessions(using: str, *, min_messages: int = 0, session_id: UUID | None = None) -> QuerySet[ChatSession]:
    """Sessions with at least one summary or succeeded run, the oldest first."""
    sessions = ChatSession.objects.using(using).filter(
        Q(pk__in=succeeded_runs(using).order_by().values("session_id"))
        | Q(pk__in=ChatMessage.objects.using(using).filter(kind=Kind.SUMMARY).values("session_id"))
    )
    if session_id is not None:
        sessions = sessions.filter(pk=session_id)
    if min_messages:
        messages = Count("messages", filter=Q(messages__kind=Kind.MESSAGE))
        sessions = sessions.annotate(message_count=messages).filter(message_count__gte=min_messages)
    return sessions.order_by("created_at", "pk")


def export_sessions(
    sessions: QuerySet[ChatSession], folder: Path, on_done: Callable[[], object] = lambda: None
) -> list[Entry]:
    """Write the bundles of each session into ``folder``; returns the entries of the index in order."""
    chosen = list(sessions.only("id", "title"))
    width = max(3, len(str(len(chosen))))
    entries: list[Entry] = []
    for number, session in enumerate(chosen, start=1):
        name = f"{number:0{width}d}-{safe_name(session.title)}"
        entries += _export(session, folder, name, on_done)
    return entries


def index_of(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "format": bundles.FORMAT,
        "bundles": sum(entry.folder is not None for entry in entries),
        "proved": sum(entry.proof == Proof.PROVED for entry in entries),
        "not_rebuilt": sum(entry.folder is None for entry in entries),
        "leaks": sum(entry.leaks for entry in entries),
        "summaries": [asdict(entry) for entry in entries],
    }


def safe_name(title: str) -> str:
    """A title as part of a folder's name on any system; letters of every script are kept."""
    text = unicodedata.normalize("NFC", title)
    kept = (character if character.isprintable() and character not in _NOT_IN_NAMES else " " for character in text)
    return "-".join("".join(kept).split())[:TITLE_CHARACTERS].rstrip("-") or "untitled"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """What is kept of a bundle until its session's messages have been searched."""

    folder: Path
    metadata: dict[str, Any]
    #: By the id and depth of a message: what nothing at or above it explains. Of the text the anchor, of the extract
    #: the cutoff.
    foreign_pieces: dict[tuple[int, int], set[str]]
    leaks_wrapper: bool


def _export(session: ChatSession, folder: Path, name: str, on_done: Callable[[], object]) -> list[Entry]:
    """The bundles of one session: written as they are rebuilt, then checked for other branches' text in one pass."""
    # Not where it is written: this may be a copy that the host has named.
    using = session._state.db or DEFAULT_DB_ALIAS
    of_session: dict[str, Any] = {"session": str(session.pk), "title": session.title}
    entries: list[Entry] = []
    written: dict[int, _Written] = {}
    for run in succeeded_runs(using).filter(session=session).iterator(chunk_size=_BATCH):
        of_run = {**of_session, "generation": run.generation, "run": run.pk, "summary": run.summary_id}
        rebuilt = rebuild(run)
        if isinstance(rebuilt, NotRebuilt):
            entries.append(Entry(**of_run, reason=rebuilt))
        else:
            place = f"{name}/compaction-{run.generation:03d}"
            assert run.summary_id is not None
            written[run.summary_id] = _write(folder / place, rebuilt)
            entries.append(Entry(**of_run, folder=place, proof=rebuilt.proof))
        on_done()
    runs = CompactionRun.objects.using(using).filter(session=session, summary__isnull=False)
    summaries = ChatMessage.objects.using(using).summaries().filter(session=session)
    by_hand = summaries.exclude(pk__in=runs.values("summary_id")).order_by("pk").values_list("pk", flat=True)
    entries += [Entry(**of_session, summary=pk, reason=NotRebuilt.NO_RUN) for pk in by_hand]
    leaking = set()
    quoted = _find_quoted_messages(session, using, written)
    for pk, one in written.items():
        leaks = {"wrapper": one.leaks_wrapper, "other_branch": sorted(quoted[pk])}
        content = bundles.as_json({**one.metadata, "leaks": leaks})
        bundles.write_texts(one.folder, {bundles.METADATA: content})
        if any(leaks.values()):
            leaking.add(pk)
    return [replace(entry, leaks=entry.summary in leaking) for entry in entries]


def _write(folder: Path, rebuilt: Rebuilt) -> _Written:
    texts = bundles.texts_of(rebuilt)
    bundles.write_texts(folder, texts)
    plan, request = rebuilt.plan, rebuilt.request
    # Whole messages as well: the ledger quotes what the prompt showed head-and-tail.
    covered = [request.previous_extract, *(message.content for message in request.covered)]
    extract = _foreign_pieces(texts[bundles.EXTRACT], covered)
    text = _foreign_pieces(texts[bundles.OUTPUT], [request.system, request.user, *covered])
    return _Written(
        folder=folder,
        metadata=bundles.metadata_of(rebuilt, texts),
        foreign_pieces={(plan.cutoff.id, plan.cutoff.depth): extract, (plan.anchor_id, plan.anchor_depth): text},
        leaks_wrapper=leaks_wrapper(texts[bundles.OUTPUT], rebuilt.run.nonce),
    )


def _find_quoted_messages(session: ChatSession, using: str, written: Mapping[int, _Written]) -> dict[int, list[int]]:
    """For each summary the messages with text of it that it cannot have from its own branch."""
    looking: dict[str, list[tuple[int, int, int]]] = {}
    for pk, one in written.items():
        for (end, end_depth), pieces in one.foreign_pieces.items():
            for piece in pieces:
                looking.setdefault(piece, []).append((pk, end, end_depth))
    found: dict[int, list[int]] = {pk: [] for pk in written}
    if not looking:
        return found
    rows = ChatMessage.objects.using(using).messages().filter(session=session)
    for message, depth, text in rows.values_list("pk", "depth", "content").iterator(chunk_size=_BATCH):
        for pk, end, end_depth in {place for piece in _pieces(text) for place in looking.get(piece, ())}:
            # A message that is newer than the summary may quote it, on any branch.
            if message > pk or message in found[pk]:
                continue
            if depth > end_depth or not branches.is_on_branch(message, depth, end, using):
                found[pk].append(message)
    return found


def _foreign_pieces(text: str, sources: Iterable[str]) -> set[str]:
    """Runs of words and distinctive tokens of ``text`` that are in none of the ``sources``."""
    found = set(_pieces(text))
    for source in sources:
        if not found:
            break
        # As it was sent and as it was written: a prompt is escaped, a summary is not.
        found.difference_update(_pieces(source), _pieces(html.unescape(source)))
    return found


def _pieces(text: str) -> Iterator[str]:
    lowered = text.lower()
    words = _WORD.findall(lowered)
    for start in range(len(words) - RUN_OF_WORDS + 1):
        yield " ".join(words[start : start + RUN_OF_WORDS])
    for match in _TOKEN.finditer(lowered):
        token = match[0]
        if len(token) >= DISTINCTIVE_CHARACTERS and any(map(str.isdigit, token)):
            yield token


@contextmanager
def database_alias(name: str) -> Iterator[str]:
    """An alias in ``DATABASES`` as it is, or a temporary alias of the SQLite file at a path, opened for reading only.

    Raises :class:`ConfigurationError` if ``name`` is neither.
    """
    if name in connections.settings:
        yield name
        return
    path = Path(name)
    if not path.is_file() or not _header(path).startswith(_SQLITE_MAGIC):
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
    quiet = _header(path)[_WRITE_VERSION] == _WAL and not in_use
    options = "mode=ro&immutable=1" if quiet else "mode=ro"
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": f"file:{quote(str(path))}?{options}"}


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100).ljust(100, b"\0")
