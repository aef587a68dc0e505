"""A compaction as a folder of files that people and other programs read: its replay bundle.

``system-prompt.md`` and ``user-message.md`` are the prompt, byte for byte. ``compact-history.xml`` is its covered part,
``actual-output.md`` the summary, ``metadata.json`` all figures, and ``request.json`` the request in its parts, for
summarizers that read messages. An ``index.json`` lists the bundles of an export.

Bundles contain conversations in plain text, and no erasure reaches them: folders are readable by their owner alone.
A folder is written under another name and put in its place at once; what others put beside the bundles stays.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from compaction_app.exceptions import BundleError
from compaction_app.memory.ledger import following_messages
from compaction_app.messages.transcript import leaks_wrapper, render_messages
from compaction_app.summarizers.prompts import WRITING
from compaction_app.transfer.rebuild import Rebuilt
from compaction_app.values import Message, SummaryRequest, with_ledger

#: Changes when an older bundle cannot be read any more.
FORMAT = "compaction-bundle/1"

SYSTEM, USER, HISTORY, OUTPUT = "system-prompt.md", "user-message.md", "compact-history.xml", "actual-output.md"
METADATA, REQUEST = "metadata.json", "request.json"
FILES = (SYSTEM, USER, HISTORY, OUTPUT, METADATA, REQUEST)
INDEX = "index.json"

_PREVIOUS = re.compile(r"</?\s*previous-(?:summary|chat-history)\b", re.IGNORECASE)
_MESSAGE_FIELDS = frozenset(field.name for field in fields(Message))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A bundle as it was read: the request, and the answer that became a summary."""

    folder: Path
    request: SummaryRequest
    #: Messages that follow the summary verbatim on every branch that shares it: a fact in them is not lost.
    following: tuple[Message, ...]
    #: The text of the summary, and the ledger at its end.
    output: str
    ledger: str
    #: The model that wrote it.
    model: str
    #: The target of the first request; the request's own target is lower if it was the tighter retry.
    target_tokens: int
    #: Tokens that the summary replaced.
    replaced_tokens: int
    min_saving_ratio: float
    #: Length of the part of the system prompt that says how to write.
    writing_characters: int

    @property
    def written(self) -> str:
        """What the summarizer wrote."""
        return self.output.removesuffix(with_ledger("", self.ledger))


def texts_of(rebuilt: Rebuilt) -> dict[str, str]:
    """The texts of a bundle by file name, without the metadata."""
    assert rebuilt.run.summary is not None
    request, output = rebuilt.request, rebuilt.run.summary.text
    history = render_messages(request.covered, reasoning=rebuilt.settings.reasoning, limits=rebuilt.limits)
    parts = {
        "target_tokens": request.target_tokens,
        "max_output_tokens": request.max_output_tokens,
        "instructions": request.instructions,
        "nonce": request.nonce,
        "previous_summary": request.previous_summary,
        "previous_ledger": request.previous_ledger,
        "previous_is_extract": request.previous_is_extract,
        "covered": [asdict(message) for message in request.covered],
        "lookahead": [asdict(message) for message in request.lookahead],
        "following": [asdict(message) for message in following_messages(rebuilt.plan, rebuilt.settings)],
    }
    return {
        SYSTEM: request.system,
        USER: request.user,
        HISTORY: "\n".join(history),
        OUTPUT: output,
        REQUEST: as_json(parts),
    }


def metadata_of(rebuilt: Rebuilt, texts: Mapping[str, str]) -> dict[str, Any]:
    """Ids, positions, counts and budgets of a compaction; tokens by this app's counter."""
    run, plan, settings = rebuilt.run, rebuilt.plan, rebuilt.settings
    summary = run.summary
    assert summary is not None
    covered, shown = plan.covered, plan.lookahead
    return {
        "format": FORMAT,
        "proof": rebuilt.proof,
        "proved": rebuilt.proof == "proved",
        "ids": {
            "session": str(run.session_id),
            "run": run.pk,
            "summary": summary.pk,
            "base": run.base_id,
            "previous_run": run.previous_run_id,
            "tip": run.tip_id,
            "anchor": plan.anchor_id,
            "cutoff": plan.cutoff.id,
            "pinned": plan.pinned.id if plan.pinned else None,
            "covered": [message.id for message in covered],
            "lookahead": [message.id for message in shown],
            "shortened": sorted(rebuilt.limits),
        },
        "indices": {
            "first_covered_depth": min((message.depth for message in covered), default=None),
            "cutoff_depth": plan.cutoff.depth,
            "anchor_depth": plan.anchor_depth,
            "base_cutoff_depth": plan.base.cutoff_depth if plan.base else None,
        },
        "counts": {
            "covered_messages": len(covered),
            "covered_tokens": sum(message.tokens for message in covered),
            "lookahead_messages": len(shown),
            "lookahead_tokens": sum(message.tokens for message in shown),
            "base_tokens": plan.base.tokens if plan.base else 0,
            "pinned_tokens": plan.pinned.tokens if plan.pinned else 0,
            "replaced_tokens": plan.replaced_tokens,
            "summary_tokens": summary.token_count,
            "ledger_characters": len(summary.ledger),
            "tokens_before": run.tokens_before,
            "tokens_after": run.tokens_after,
        },
        "budget": {
            **run.budget,
            "target_tokens": plan.target_tokens,
            "asked_tokens": rebuilt.request.target_tokens,
            "max_output_tokens": rebuilt.request.max_output_tokens,
            "max_input_tokens": run.request["max_input_tokens"],
            "shown_bytes": run.request["shown_bytes"],
        },
        "acceptance": {
            "min_saving_ratio": settings.min_saving_ratio,
            "nonce": run.nonce,
        },
        "title": run.session.title,
        "generation": run.generation,
        "trigger": run.trigger,
        "tightened": run.request["tightened"],
        "attempts": run.attempts,
        "summarizer": settings.summarizer_entry.backend,
        "model": run.summarizer_model,
        "prompt_version": run.prompt_version,
        "reasoning": settings.reasoning,
        # The part of the system prompt that another prompt replaces. The rules of reading follow it.
        "writing_characters": len(settings.summarizer_entry.prompt or WRITING),
        "usage": {
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cached_tokens": run.cached_tokens,
            "cost": None if run.cost is None else format(run.cost, "f"),
        },
        "retention": {"before_ledger": run.retention_before, "after_ledger": run.retention_after},
        "files": {name: {"characters": len(text), "bytes": len(text.encode())} for name, text in texts.items()},
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "retired_at": summary.retired_at,
    }


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        # As bytes: line ends must stay as they are in the conversation.
        (folder / name).write_bytes(text.encode())


def as_json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, default=datetime.isoformat) + "\n"


def find_bundles(folder: Path) -> list[Path]:
    """Every bundle in a folder, itself included, sorted by name; incomplete ones too.

    :class:`BundleError` for a link: what it leads to would be sent to a model.
    """
    if linked := next((path for path in sorted(folder.rglob("*")) if path.is_symlink()), None):
        raise BundleError(f"{linked} is a link, and a bundle has none: replace it by what it should be.")
    return sorted({found.parent for name in FILES for found in folder.rglob(name) if found.is_file()})


def missing_bundles(folder: Path) -> list[str]:
    """Bundles that the index of an export lists and of which no file exists."""
    listed = EXPORT.folders_in(folder) or []
    return [name for name in listed if not any((folder / name / file).is_file() for file in FILES)]


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle; :class:`BundleError` if a file is missing or invalid. Prompts may have been edited."""
    try:
        metadata, parts = json.loads(_read(folder, METADATA)), json.loads(_read(folder, REQUEST))
        if metadata["format"] != FORMAT:
            raise BundleError(f"{folder} has the format {metadata['format']}, not {FORMAT}.")
        # Older bundles do not have it: the look-ahead is the part that they know.
        following = parts.pop("following", parts["lookahead"])
        output = _read(folder, OUTPUT)
        request = SummaryRequest(
            system=_read(folder, SYSTEM),
            user=_read(folder, USER),
            covered=tuple(_message(part) for part in parts.pop("covered")),
            lookahead=tuple(_message(part) for part in parts.pop("lookahead")),
            **parts,
        )
        return Bundle(
            folder=folder,
            request=request,
            following=tuple(_message(part) for part in following),
            output=output,
            ledger=output[len(output) - int(metadata["counts"]["ledger_characters"]) :],
            model=str(metadata["model"]),
            target_tokens=int(metadata["budget"]["target_tokens"]),
            replaced_tokens=int(metadata["counts"]["replaced_tokens"]),
            min_saving_ratio=float(metadata["acceptance"]["min_saving_ratio"]),
            writing_characters=int(metadata["writing_characters"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{folder} is not a complete bundle: {type(error).__name__}: {error}") from error


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode()


def _message(part: Mapping[str, Any]) -> Message:
    values = {name: value for name, value in part.items() if name in _MESSAGE_FIELDS}
    for name in ("tool_calls", "attachments"):
        values[name] = tuple(values[name])
    moment = values["created_at"]
    return Message(**{**values, "created_at": datetime.fromisoformat(moment) if moment else None})


# -- Leaks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaks:
    """What a summary must not contain and does."""

    #: Tags of the wrapper, the marker or the nonce, in whatever form: the draft would be refused.
    wrapper_tags: bool
    #: The cutoff marker's nonce.
    marker: bool
    #: The tag of the previous summary.
    previous_summary_tag: bool
    #: Ids of other branches' messages whose text it contains; None where there was nothing to compare with.
    other_branch: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return self.wrapper_tags or self.marker or self.previous_summary_tag or bool(self.other_branch)


def find_leaks(text: str, nonce: str) -> Leaks:
    """The leaks that the text alone shows."""
    return Leaks(
        wrapper_tags=leaks_wrapper(text, nonce),
        marker=bool(nonce) and nonce in text,
        previous_summary_tag=_PREVIOUS.search(text) is not None,
    )


# -- Folders --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What a command writes into a folder, and how the folder's index describes it."""

    #: For error messages: "an export".
    name: str
    #: The index's ``"format"``.
    format: str
    #: Where the index lists folders: ``index[entries][…][folder]``.
    entries: str
    folder: str
    #: The files that each of these folders may contain.
    files: tuple[str, ...]

    def folders_in(self, target: Path) -> list[str] | None:
        """The folders that the index of ``target`` lists; None without an index of this kind."""
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


EXPORT = Contents(name="an export", format=FORMAT, entries="summaries", folder="folder", files=FILES)


@contextmanager
def new_folder(
    target: Path, contents: Contents, *, force: bool = False, on_left: Callable[[list[str]], object] = lambda left: None
) -> Iterator[Path]:
    """A folder to fill, which becomes ``target`` at the end; after an error nothing of it remains.

    ``target`` must be new or empty, or with ``force`` what an earlier call made of the same contents. Other files in
    it stay, and are passed to ``on_left``. Raises :class:`BundleError`.
    """
    target = Path(os.path.realpath(target))
    _check_replaceable(target, contents, force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise BundleError(f"{target} cannot be made: {error.strerror}.") from error
    try:
        yield made
        if left := _put_in_place(made, target, contents, force):
            on_left(left)
    except OSError as error:
        raise BundleError(f"{target} could not be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def require_apart(out: Path, source: Path) -> None:
    """:class:`BundleError` if one folder is in the other: writing one would replace what is read."""
    one, other = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise BundleError(f"One of {out} and {source} is inside the other: write the answers to a separate folder.")


def _check_replaceable(target: Path, contents: Contents, force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise BundleError(f"{target} is a file, not a folder.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not force:
        raise BundleError(f"{target} is not empty: choose another folder, or replace it with --force.")
    if contents.files_in(target) is None:
        raise BundleError(f"{target} is not {contents.name} (no {INDEX} with {contents.format}): it is not replaced.")


def _put_in_place(made: Path, target: Path, contents: Contents, force: bool) -> list[str]:
    """Replace ``target`` with ``made``; returns the paths that are not ours, which stay in it."""
    if not (force and target.exists()):
        with suppress(FileNotFoundError):
            # Fails if somebody else has put something there meanwhile.
            target.rmdir()
        made.rename(target)
        return []
    before = made.with_name(f"{made.name}.before")
    # Moved to a name that nobody else writes to, so that no file is added while it is searched.
    target.rename(before)
    try:
        foreign = _foreign_paths(before, contents)
        _check_no_collision(foreign, made, target)
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
        raise BundleError(f"Other files of {target} are now in {before}: {error.strerror}.") from error
    shutil.rmtree(before, ignore_errors=True)
    return foreign


def _foreign_paths(folder: Path, contents: Contents) -> list[str]:
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


def _check_no_collision(foreign: list[str], made: Path, target: Path) -> None:
    for path in foreign:
        parents = [made / parent for parent in Path(path).parents]
        if os.path.lexists(made / path) or any(parent.exists() and not parent.is_dir() for parent in parents):
            raise BundleError(f"{target / path} is another program's and in the way: nothing is replaced.")
