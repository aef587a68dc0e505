"""A compaction as a folder of files that people and other programs read: its replay bundle.

``system-prompt.md`` and ``user-message.md`` are the prompt, byte for byte; ``compact-history.xml`` the covered part of
it alone; ``actual-output.md`` the summary that came of it; ``metadata.json`` all figures; ``request.json`` the same
request in its parts, for summarizers that read messages and not prose.

Bundles hold conversations in plain text, and no erasure reaches them: folders are made for their owner alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from compaction_app.exceptions import BundleError
from compaction_app.messages.transcript import render_messages
from compaction_app.retention.ledger import following_messages
from compaction_app.retention.ledger_text import ledger_of
from compaction_app.summarizers.prompts import WRITING
from compaction_app.transfer.bundle_folders import Contents
from compaction_app.transfer.rebuild import Rebuilt
from compaction_app.values import Message, SummaryRequest

#: Rises when a bundle of before can not be read any more.
FORMAT = "compaction-bundle/1"

SYSTEM, USER, HISTORY, OUTPUT = "system-prompt.md", "user-message.md", "compact-history.xml", "actual-output.md"
METADATA, REQUEST = "metadata.json", "request.json"
FILES = (SYSTEM, USER, HISTORY, OUTPUT, METADATA, REQUEST)

EXPORT = Contents(name="an export", format=FORMAT, entries="summaries", folder="folder", files=FILES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A bundle as it was read: what to ask again, and what it was answered."""

    folder: Path
    request: SummaryRequest
    #: What stays verbatim after the summary on every branch that shares it: it vouches for what a summary leaves out.
    following: tuple[Message, ...]
    #: The summary that was made.
    output: str
    metadata: Mapping[str, Any]
    #: The model that made it.
    model: str
    #: What the first question asked for; the request's own target is lower where it was the tighter retry.
    target_tokens: int
    #: Tokens that the summary took the place of.
    replaced_tokens: int
    min_chars: int
    min_saving_ratio: float
    #: How much of the system prompt says how to write.
    writing_characters: int


def texts_of(rebuilt: Rebuilt) -> dict[str, str]:
    """The texts of a bundle by the names of their files; the metadata is :func:`metadata_of`."""
    assert rebuilt.run.summary is not None
    request, output = rebuilt.request, rebuilt.run.summary.content
    history = render_messages(request.covered, reasoning=rebuilt.settings.reasoning, limits=rebuilt.limits)
    texts = {SYSTEM: request.system, USER: request.user, HISTORY: "\n".join(history), OUTPUT: output}
    following = following_messages(rebuilt.plan, rebuilt.settings)
    return {**texts, REQUEST: as_json(_parts(request, following))}


def metadata_of(rebuilt: Rebuilt, texts: Mapping[str, str]) -> dict[str, Any]:
    """Ids, positions, counts and budgets of a compaction; tokens are this app's own counter's."""
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
            "ledger_characters": len(ledger_of(summary.content)),
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
            "min_chars": settings.min_summary_chars,
            "min_saving_ratio": settings.min_saving_ratio,
            "nonce": run.nonce,
        },
        "title": run.session.title,
        "generation": run.generation,
        "trigger": run.trigger,
        "tightened": run.request["tightened"],
        "attempts": run.attempts,
        "summarizer": settings.summarizer,
        "model": run.summarizer_model,
        "prompt_version": run.prompt_version,
        "reasoning": settings.reasoning,
        # Of the system prompt: how to write, which another prompt replaces. The rules of reading follow it.
        "writing_characters": len(settings.summary_prompt or WRITING),
        "usage": {
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cached_tokens": run.cached_tokens,
            "cost": None if run.cost is None else format(run.cost, "f"),
        },
        "retention": {"before_ledger": run.retention_before, "after_ledger": run.retention_after},
        "files": {name: {"characters": len(text), "bytes": len(text.encode())} for name, text in texts.items()},
        "created_at": _moment(run.created_at),
        "finished_at": _moment(run.finished_at),
        "retired_at": _moment(summary.retired_at),
    }


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        # As bytes: a line end of the conversation's is not to become one of this machine's.
        (folder / name).write_bytes(text.encode())


def find_bundles(folder: Path) -> list[Path]:
    """Every bundle in a folder, itself included, in the order of names; also those of which only a part is there."""
    return sorted({found.parent for name in FILES for found in folder.rglob(name) if found.is_file()})


def missing_bundles(folder: Path) -> list[str]:
    """What the index of an export lists and of which nothing is there any more."""
    listed = EXPORT.folders_in(folder) or []
    return [name for name in listed if not any((folder / name / file).is_file() for file in FILES)]


def read_bundle(folder: Path) -> Bundle:
    """A bundle; :class:`BundleError` where a file is missing or makes no sense. Prompts may have been edited."""
    try:
        metadata, parts = json.loads(_read(folder, METADATA)), json.loads(_read(folder, REQUEST))
        if metadata["format"] != FORMAT:
            raise BundleError(f"{folder} is a bundle of another format: {metadata['format']}, not {FORMAT}.")
        # Bundles of before do not hold it: the look-ahead is what they know of it.
        following = parts.pop("following", parts["lookahead"])
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
            output=_read(folder, OUTPUT),
            metadata=metadata,
            model=str(metadata["model"]),
            target_tokens=int(metadata["budget"]["target_tokens"]),
            replaced_tokens=int(metadata["counts"]["replaced_tokens"]),
            min_chars=int(metadata["acceptance"]["min_chars"]),
            min_saving_ratio=float(metadata["acceptance"]["min_saving_ratio"]),
            writing_characters=int(metadata["writing_characters"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{folder} is no whole bundle: {type(error).__name__}: {error}") from error


def as_json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode()


def _parts(request: SummaryRequest, following: Sequence[Message]) -> dict[str, Any]:
    """All of a request but its two texts, which have files of their own; and what follows the summary."""
    return {
        "target_tokens": request.target_tokens,
        "max_output_tokens": request.max_output_tokens,
        "instructions": request.instructions,
        "nonce": request.nonce,
        "previous_summary": request.previous_summary,
        "covered": [_as_json(message) for message in request.covered],
        "lookahead": [_as_json(message) for message in request.lookahead],
        "following": [_as_json(message) for message in following],
    }


def _as_json(message: Message) -> dict[str, Any]:
    return {**asdict(message), "created_at": _moment(message.created_at)}


_FIELDS = frozenset(field.name for field in fields(Message))


def _message(part: Mapping[str, Any]) -> Message:
    values = {name: value for name, value in part.items() if name in _FIELDS}
    for name in ("tool_calls", "attachments"):
        values[name] = tuple(values[name])
    moment = values["created_at"]
    return Message(**{**values, "created_at": datetime.fromisoformat(moment) if moment else None})


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
