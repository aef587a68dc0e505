"""A compaction as a folder of files that people and other programs read: its replay bundle.

``system-prompt.md`` and ``user-message.md`` are the prompt. ``compact-history.xml`` is its covered part,
``actual-output.md`` the summary, ``extract.md`` its extract, ``metadata.json`` all figures, and ``request.json`` the
request in its parts, for summarizers that read messages. An ``index.json`` lists the bundles of an export.

Bundles contain conversations in plain text, and no erasure reaches them: folders are readable by their owner alone.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from compaction_app.exceptions import BundleError
from compaction_app.messages.transcript import leaks_wrapper, render_messages
from compaction_app.models import CompactionRun
from compaction_app.models.columns import names
from compaction_app.summarizers.prompts import WRITING
from compaction_app.transfer.rebuild import Rebuilt
from compaction_app.values import SummaryRequest, with_ledger

#: Changes when an older bundle cannot be read any more.
FORMAT = "compaction-bundle/1"

SYSTEM, USER, HISTORY, OUTPUT = "system-prompt.md", "user-message.md", "compact-history.xml", "actual-output.md"
EXTRACT, METADATA, REQUEST = "extract.md", "metadata.json", "request.json"
FILES = (SYSTEM, USER, HISTORY, OUTPUT, EXTRACT, METADATA, REQUEST)
INDEX = "index.json"

_REQUEST = TypeAdapter(SummaryRequest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A bundle as it was read: the request, and the answer that became a summary."""

    folder: Path
    request: SummaryRequest
    #: The text of the summary without its ledger: what the summarizer wrote.
    written: str
    #: The target of the first request; the request's own target is lower if it was the tighter retry.
    target_tokens: int
    #: Tokens that the summary replaced.
    replaced_tokens: int
    min_saving_ratio: float
    #: Length of the part of the system prompt that says how to write.
    writing_characters: int


def texts_of(rebuilt: Rebuilt) -> dict[str, str]:
    """The texts of a bundle by file name, without the metadata."""
    assert rebuilt.run.summary is not None
    request, summary = rebuilt.request, rebuilt.run.summary
    history = render_messages(request.covered, reasoning=rebuilt.settings.reasoning, limits=rebuilt.limits)
    parts = asdict(request)
    # Files of their own, where people may edit them.
    del parts["system"], parts["user"]
    return {
        SYSTEM: request.system,
        USER: request.user,
        HISTORY: "\n".join(history),
        OUTPUT: summary.text,
        EXTRACT: summary.extract,
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
        "ids": {
            "run": run.pk,
            "summary": summary.pk,
            "anchor": plan.anchor_id,
            "cutoff": plan.cutoff.id,
            "pinned": plan.turn_request.id if plan.turn_request else None,
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
            "pinned_tokens": plan.turn_request.tokens if plan.turn_request else 0,
            "replaced_tokens": plan.replaced_tokens,
            "summary_tokens": summary.token_count,
            "ledger_characters": len(summary.ledger),
        },
        "budget": {
            **run.budget,
            "target_tokens": plan.target_tokens - run.request.get("memory_tokens", 0),
            "asked_tokens": rebuilt.request.target_tokens,
            "max_output_tokens": rebuilt.request.max_output_tokens,
            "max_input_tokens": run.request["max_input_tokens"],
            "shown_bytes": run.request["shown_bytes"],
        },
        "acceptance": {"min_saving_ratio": settings.min_saving_ratio, "nonce": run.nonce},
        "title": run.session.title,
        "tightened": bool(run.request["tightened"]),
        "summarizer": settings.summarizer_entry.backend,
        "reasoning": settings.reasoning,
        # The part of the system prompt that another prompt replaces. The rules of reading follow it.
        "writing_characters": len(settings.summarizer_entry.prompt or WRITING),
        # Its ids, figures, codes and dates as they are stored.
        "run": {name: getattr(run, name) for name in names(CompactionRun, listed=True)},
        "retired_at": summary.retired_at,
        "leaks": leaks_wrapper(texts[OUTPUT], run.nonce),
    }


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        # As bytes: line ends must stay as they are in the conversation.
        with open(folder / name, "wb", opener=private) as file:
            file.write(text.encode())


def private(path: str, flags: int) -> int:
    """The ``opener`` of a file of texts, which its owner alone may read."""
    return os.open(path, flags, 0o600)


def as_json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def find_bundles(folder: Path) -> list[Path]:
    """Every bundle in a folder, itself included, sorted by name; incomplete ones too.

    :class:`BundleError` for a link: what it leads to would be sent to a model.
    """
    if linked := next((path for path in sorted(folder.rglob("*")) if path.is_symlink()), None):
        raise BundleError(f"{linked} is a link, and a bundle has none: replace it by what it should be.")
    return sorted({found.parent for name in FILES for found in folder.rglob(name) if found.is_file()})


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle; :class:`BundleError` if a file is missing or invalid. Prompts may have been edited."""
    try:
        metadata, parts = json.loads(_read(folder, METADATA)), json.loads(_read(folder, REQUEST))
        if metadata["format"] != FORMAT:
            raise BundleError(f"{folder} has the format {metadata['format']}, not {FORMAT}.")
        output = _read(folder, OUTPUT)
        ledger = output[len(output) - int(metadata["counts"]["ledger_characters"]) :]
        return Bundle(
            folder=folder,
            request=_REQUEST.validate_python({**parts, "system": _read(folder, SYSTEM), "user": _read(folder, USER)}),
            written=output.removesuffix(with_ledger("", ledger)),
            target_tokens=int(metadata["budget"]["target_tokens"]),
            replaced_tokens=int(metadata["counts"]["replaced_tokens"]),
            min_saving_ratio=float(metadata["acceptance"]["min_saving_ratio"]),
            writing_characters=int(metadata["writing_characters"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{folder} is not a complete bundle: {type(error).__name__}: {error}") from error


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``target`` at the end; after an error nothing of it remains.

    ``target`` must be new or empty: nothing is ever replaced. Raises :class:`BundleError`.
    """
    target = Path(os.path.realpath(target))
    try:
        if target.exists() and any(target.iterdir()):
            raise BundleError(f"{target} is not empty: choose another folder, or delete it first.")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Errors: of cleaning up what has got its name.
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
        ) as made:
            yield Path(made)
            # Fails if somebody else has put something there meanwhile.
            Path(made).rename(target)
    except OSError as error:
        raise BundleError(f"{target} cannot be written: {error.strerror}.") from error
