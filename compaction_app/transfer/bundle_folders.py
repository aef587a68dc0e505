"""Folders that the replay commands fill: made beside their place, put there at once, replaced with care.

Only what a command has written is replaced, and its index says what that is: a folder without one, or with another
program's, is refused, and what people have put beside their bundles stays where it is.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from compaction_app.exceptions import BundleError

INDEX = "index.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What a command writes into a folder, and how its index tells of it."""

    #: For error messages: "an export".
    name: str
    #: The index's ``"format"``.
    format: str
    #: Where the index lists folders: ``index[entries][…][folder]``.
    entries: str
    folder: str
    #: What may stand in each of these folders.
    files: tuple[str, ...]

    def folders_in(self, target: Path) -> list[str] | None:
        """The folders that the index of ``target`` lists; None where it has no index of this kind."""
        try:
            index = json.loads((target / INDEX).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(index, Mapping) or index.get("format") != self.format:
            return None
        entries = index.get(self.entries)
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            return None
        return [entry[self.folder] for entry in entries if isinstance(entry.get(self.folder), str)]

    def files_in(self, target: Path) -> set[str] | None:
        """The files that the index accounts for, itself included, as paths below ``target``."""
        folders = self.folders_in(target)
        if folders is None:
            return None
        return {INDEX, *(str(PurePosixPath(folder) / name) for folder in folders for name in self.files)}


@contextmanager
def new_folder(
    target: Path, contents: Contents, *, force: bool = False, on_left: Callable[[list[str]], object] = lambda left: None
) -> Iterator[Path]:
    """A folder to be filled, which becomes ``target`` all at once; after an error nothing is left of it.

    ``target`` must be new or empty, or with ``force`` what an earlier call has made of the same contents. What stands
    there besides stays, and is told to ``on_left``. Raises :class:`BundleError`.
    """
    target = Path(os.path.realpath(target))
    _require_free(target, contents, force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise BundleError(f"{target} can not be made: {error.strerror}.") from error
    try:
        yield made
        if left := _take_place(made, target, contents, force):
            on_left(left)
    except OSError as error:
        raise BundleError(f"{target} could not be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def require_apart(out: Path, source: Path) -> None:
    """:class:`BundleError` where one folder is the other or stands in it: writing one would replace what is read."""
    one, other = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise BundleError(f"{out} and {source} lie within each other: keep the answers in a folder of their own.")


def _require_free(target: Path, contents: Contents, force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise BundleError(f"{target} is a file; name a folder.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not force:
        raise BundleError(f"{target} is not empty: name another folder, or replace it with --force.")
    if contents.files_in(target) is None:
        raise BundleError(
            f"{target} holds something else than {contents.name} (no {INDEX} that says {contents.format}): "
            "it is not replaced."
        )


def _take_place(made: Path, target: Path, contents: Contents, force: bool) -> list[str]:
    """Put ``made`` where ``target`` is; returns what stood there and is not ours, which stays."""
    if not (force and target.exists()):
        with suppress(FileNotFoundError):
            # Fails where somebody else has put something there meanwhile.
            target.rmdir()
        made.rename(target)
        return []
    before = made.with_name(f"{made.name}.before")
    # Looked through under a name that nobody else writes to, so what is found is all that there is.
    target.rename(before)
    try:
        foreign = _foreign(before, contents)
        _require_room(foreign, made, target)
        made.rename(target)
    except (OSError, BundleError):
        with suppress(OSError):
            before.rename(target)
        raise
    try:
        for path in foreign:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (before / path).rename(target / path)
    except OSError as error:
        raise BundleError(f"What else stood in {target} is in {before} now: {error.strerror}.") from error
    shutil.rmtree(before, ignore_errors=True)
    return foreign


def _foreign(folder: Path, contents: Contents) -> list[str]:
    """Files, links and empty folders that the folder's index does not account for, as paths below it, sorted."""
    ours = contents.files_in(folder) or set()
    found = []
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [(below / name).as_posix() for name in (*links, *files)]
        if not folders and not files and not any(path.startswith(f"{below.as_posix()}/") for path in ours):
            found.append(below.as_posix())
    return sorted(path for path in found if path not in ours and path != ".")


def _require_room(foreign: list[str], made: Path, target: Path) -> None:
    for path in foreign:
        parents = [made / parent for parent in Path(path).parents]
        if os.path.lexists(made / path) or any(parent.exists() and not parent.is_dir() for parent in parents):
            raise BundleError(f"{target / path} is not ours and stands where a new file belongs: nothing is replaced.")
