"""``manage.py replay_compactions DIR``: compare what another model or prompt would have written."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from compaction_app.conf import AskedModel, Choice, get_settings, get_token_counter
from compaction_app.exceptions import BundleError, ConfigurationError
from compaction_app.management.console import FAILED, WrongCall, add_json, printable, progress
from compaction_app.summarizers import ExtractiveSummarizer
from compaction_app.summarizers.base import Summarizer, make_summarizer
from compaction_app.transfer.bundles import Bundle, as_json, find_bundles, read_bundle
from compaction_app.transfer.replay import Replay, Scores, replay, with_prompt


class Command(BaseCommand):
    help = (
        "Send each bundle of export_compactions once to another summarizer or model, or with another prompt, and print "
        "the difference and the scores of the output. Exit code 0: every output would be accepted; 1: one would be "
        "refused, or there was no output; 2: wrong call."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="an export, a folder in it, or one bundle")
        parser.add_argument("--summarizer", metavar="NAME", help="an entry of SUMMARIZERS (default: SUMMARIZER)")
        parser.add_argument(
            "--model", metavar="NAME", help="a model to use in place of those of the entry, at the address of its first"
        )
        parser.add_argument("--prompt", type=Path, metavar="FILE", help="a prompt to try, as in PROMPT")
        add_json(parser)

    def handle(self, *, folder: Path, as_json: bool, **options: Any) -> None:
        try:
            found = _bundles(folder, options["prompt"])
            summarizer = _summarizer(options["summarizer"], options["model"])
            if isinstance(summarizer, ExtractiveSummarizer) and (options["prompt"] or options["model"]):
                raise WrongCall("--prompt and --model need a model: the extract quotes sentences and uses no prompt.")
            with progress(found, label="bundles") as bar:
                replays = [replay(bundle, summarizer, get_token_counter()) for bundle in bar]
        except (BundleError, ConfigurationError) as error:
            raise WrongCall(error) from error
        places = [one.folder.relative_to(folder).as_posix() for one in found]
        # Of the folder itself, where that is the bundle.
        names = [folder.name if place == "." else place for place in places]
        self.stdout.write(_as_json(names, replays) if as_json else self._as_text(names, replays))
        if any(one.code for one in replays):
            raise SystemExit(FAILED)

    def _as_text(self, names: Sequence[str], replays: Sequence[Replay]) -> str:
        styles = {"+": self.style.SUCCESS, "-": self.style.ERROR, "@": self.style.HTTP_INFO}
        lines: list[str] = []
        for name, one in zip(names, replays, strict=True):
            lines.append(self.style.MIGRATE_HEADING(printable(f"{name}  {one.model}")))
            lines += [styles.get(line[:1], str)(printable(line)) for line in one.diff]
            lines.append(f"  before  {_describe(one.before)}")
            if one.after:
                lines.append(f"  after   {_describe(one.after)}")
            verdict = f"refused: {one.code} {printable(one.detail)}".rstrip() if one.code else "accepted"
            lines.append("  " + (self.style.ERROR if one.code else self.style.SUCCESS)(verdict))
        refused = sum(bool(one.code) for one in replays)
        lines.append(f"{len(replays):,} replayed, {len(replays) - refused:,} accepted, {refused:,} refused.")
        return "\n".join(lines)


def _bundles(folder: Path, prompt: Path | None) -> list[Bundle]:
    """Read every bundle before the first is sent: an invalid one should not show up after an hour of requests."""
    found = [read_bundle(path) for path in find_bundles(folder)]
    if not found:
        raise BundleError(f"There is no bundle in {folder}; export_compactions writes them.")
    if prompt is None:
        return found
    try:
        text = prompt.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{prompt} cannot be read as UTF-8 text: {type(error).__name__}.") from error
    return [with_prompt(bundle, text) for bundle in found]


def _summarizer(name: str | None, model: str | None) -> Summarizer:
    settings = get_settings()
    if name is not None:
        if name not in settings.summarizers:
            raise WrongCall(f"SUMMARIZERS has {', '.join(settings.summarizers)}, and no {name!r}.")
        settings = settings.but(summarizer=Choice.model_validate({"NAME": name}))
    if model:
        first, *_ = settings.summarizer_entry.models or [AskedModel(model=model)]
        asked = first.model_copy(update={"model": model, "max_input_tokens": None})
        # Alone: otherwise the next model would answer if it fails.
        alone = settings.summarizer_entry.model_copy(update={"models": (asked,), "chat_models": ()})
        settings = settings.but(summarizers={**settings.summarizers, settings.summarizer.name: alone})
    return make_summarizer(settings)


def _as_json(names: Sequence[str], replays: Sequence[Replay]) -> str:
    found = [
        {"bundle": name, "accepted": not one.code, **asdict(one)} for name, one in zip(names, replays, strict=True)
    ]
    accepted = sum(one["accepted"] for one in found)
    return as_json({"replayed": len(found), "accepted": accepted, "bundles": found}).rstrip("\n")


def _describe(scores: Scores) -> str:
    size = f"{scores.tokens:,} tokens, {scores.share_of_target:.0%} of the target"
    return f"{size}, {scores.retention:.0%} of facts kept, {'leaks' if scores.leaks else 'no leaks'}"
