"""``manage.py replay_compactions DIR``: what would another model, endpoint or prompt have written?"""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from compaction_app.conf import RULES, Settings, get_settings, get_token_counter
from compaction_app.exceptions import BundleError, ConfigurationError
from compaction_app.management.arguments import FAILED, NOT_FOUND, add_json, number_from, tell_left
from compaction_app.summarizers.cascade import ExtractiveSummarizer, make_summarizer
from compaction_app.summarizers.openai import Failure
from compaction_app.transfer import bundles
from compaction_app.transfer.bundles import (
    INDEX,
    Bundle,
    Contents,
    find_bundles,
    missing_bundles,
    new_folder,
    read_bundle,
    require_apart,
)
from compaction_app.transfer.replay import (
    Ask,
    Replay,
    Scores,
    ask_model,
    ask_summarizer,
    entry_for,
    replay,
    with_prompt,
)
from compaction_app.values import EXTRACTIVE_MODEL, SummaryDraft

SCORES, REPLAYED, CHANGES = "scores.json", "replayed-output.md", "changes.diff"
REPLAYS = Contents(
    name="a replay",
    format="compaction-replay/1",
    entries="bundles",
    folder="bundle",
    files=(SCORES, REPLAYED, CHANGES),
)


class Command(BaseCommand):
    help = (
        "Send the bundles of export_compactions to another model, endpoint, summarizer or prompt, once each, and print "
        "how the answers differ and score. Without an option that names one, the SUMMARIZER of the settings is asked. "
        "Keys are read from the environment. Exit code 0: every draft would be accepted; 1: one would be refused or "
        "did not come; 2: called wrongly."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="an export, a part of one, or one bundle")
        parser.add_argument(
            "--model", metavar="NAME", help="the model to ask (with --base-url: by default the one that was)"
        )
        parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible endpoint")
        parser.add_argument(
            "--api-key-env",
            metavar="VARIABLE",
            help="the environment variable with the key of --base-url; OPENAI_API_KEY goes to the default address only",
        )
        parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for one answer (SUMMARIZER_TIMEOUT)")
        parser.add_argument(
            "--prompt", type=Path, metavar="FILE", help="a wording to try, as SUMMARY_PROMPT would hold it"
        )
        parser.add_argument("--summarizer", metavar="DOTTED", help="a class to ask, as SUMMARIZER would name it")
        parser.add_argument("--limit", type=number_from(1), metavar="N", help="the first N bundles only")
        parser.add_argument("--out", type=Path, metavar="DIR2", help="keep answers, diffs and scores in a new folder")
        parser.add_argument("--force", action="store_true", help="replace an earlier replay in DIR2, and nothing else")
        add_json(parser)

    def handle(self, *, folder: Path, as_json: bool, **options: Any) -> None:
        try:
            if options["out"]:
                require_apart(options["out"], folder)
            found = _bundles(folder, options["limit"], _prompt(options["prompt"]))
            ask = _asker(options, get_settings(), found)
            for gone in missing_bundles(folder):
                self.stderr.write(f"Listed in {INDEX} and not there: {_plain(gone)}")
            if options["out"]:
                left = partial(tell_left, self.stderr)
                with new_folder(options["out"], REPLAYS, force=options["force"], on_left=left) as kept:
                    replays = _replay(found, ask)
                    _keep(kept, folder, replays)
            else:
                replays = _replay(found, ask)
        except (BundleError, ConfigurationError) as error:
            raise CommandError(str(error), returncode=NOT_FOUND) from error
        if as_json:
            self.stdout.write(bundles.as_json(_index(folder, replays)).rstrip("\n"))
        else:
            self._tell(folder, replays)
        if any(one.code for one in replays):
            raise SystemExit(FAILED)

    def _tell(self, folder: Path, replays: Sequence[Replay]) -> None:
        for one in replays:
            self.stdout.write(self.style.MIGRATE_HEADING(_plain(f"{_name(folder, one.bundle)}  {one.model}")))
            for line in one.diff if one.after else ():
                self.stdout.write(self._coloured(_plain(line)))
            self.stdout.write(f"  before  {_words(one.before)}")
            if one.after:
                self.stdout.write(f"  after   {_words(one.after)}")
            verdict = f"refused: {one.code} {_plain(one.detail)}".rstrip() if one.code else "accepted"
            self.stdout.write("  " + (self.style.ERROR if one.code else self.style.SUCCESS)(verdict))
        refused = sum(bool(one.code) for one in replays)
        self.stdout.write(f"{len(replays):,} replayed, {len(replays) - refused:,} accepted, {refused:,} refused.")

    def _coloured(self, line: str) -> str:
        styles = {"+": self.style.SUCCESS, "-": self.style.ERROR, "@": self.style.HTTP_INFO}
        return str(styles[line[0]](line)) if line[:1] in styles else line


def _bundles(folder: Path, limit: int | None, prompt: str | None) -> list[Bundle]:
    """All of them read before the first is sent: a broken one should not be found after an hour of answers."""
    if not folder.is_dir():
        raise BundleError(f"There is no folder {folder}.")
    found = [read_bundle(path) for path in find_bundles(folder)[:limit]]
    if not found:
        raise BundleError(f"There is no bundle in {folder}: export_compactions makes them.")
    return [with_prompt(bundle, prompt) for bundle in found] if prompt else found


def _prompt(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path} can not be read as text in UTF-8: {type(error).__name__}.") from error
    if not text.strip():
        raise BundleError(f"{path} is empty.")
    return text


def _asker(options: dict[str, Any], settings: Settings, found: Sequence[Bundle]) -> Ask:
    """Whom to ask, from what was named on the command line."""
    model, base_url, dotted = options["model"], options["base_url"], options["summarizer"]
    if dotted and (model or base_url):
        raise ConfigurationError("Name --summarizer, or --model and --base-url, not both.")
    if not (model or base_url):
        if options["api_key_env"] or options["timeout"]:
            raise ConfigurationError("--api-key-env and --timeout go with --model or --base-url.")
        return _summarizer(dotted, settings, reworded=options["prompt"] is not None)
    if not model and (quoted := [bundle for bundle in found if bundle.model in ("", EXTRACTIVE_MODEL)]):
        raise ConfigurationError(f"No model wrote {quoted[0].folder}: name the one to ask with --model.")

    def ask(bundle: Bundle) -> SummaryDraft | Failure:
        entry = entry_for(
            settings,
            model or bundle.model,
            base_url=base_url,
            api_key_env=options["api_key_env"],
            timeout=options["timeout"],
        )
        return ask_model(entry, bundle.request)

    return ask


def _summarizer(dotted: str | None, settings: Settings, *, reworded: bool) -> Ask:
    if dotted:
        if wrong := RULES["SUMMARIZER"](dotted):
            raise ConfigurationError(f"--summarizer {wrong}, not {dotted!r}.")
        settings = replace(settings, summarizer=dotted)
    summarizer = make_summarizer(settings)
    if reworded and isinstance(summarizer, ExtractiveSummarizer):
        raise ConfigurationError(f"--prompt goes with a model: {settings.summarizer} quotes, and reads no wording.")
    return lambda bundle: ask_summarizer(summarizer, bundle.request)


def _replay(found: Sequence[Bundle], ask: Ask) -> list[Replay]:
    # disable=None: shown on a terminal only.
    with tqdm(found, unit=" bundles", disable=None, leave=False) as bar:
        return [replay(bundle, ask, get_token_counter()) for bundle in bar]


def _keep(kept: Path, folder: Path, replays: Sequence[Replay]) -> None:
    for one in replays:
        texts = {SCORES: bundles.as_json(_scores(folder, one))}
        if one.after:
            texts |= {REPLAYED: one.text, CHANGES: "\n".join([*one.diff, ""])}
        bundles.write_texts(kept / _name(folder, one.bundle), texts)
    bundles.write_texts(kept, {INDEX: bundles.as_json(_index(folder, replays))})


def _index(folder: Path, replays: Sequence[Replay]) -> dict[str, Any]:
    return {
        "format": REPLAYS.format,
        "replayed": len(replays),
        "accepted": sum(not one.code for one in replays),
        "bundles": [{**_scores(folder, one), "diff": one.diff if one.after else None} for one in replays],
    }


def _scores(folder: Path, one: Replay) -> dict[str, Any]:
    return {
        "bundle": _name(folder, one.bundle),
        "model": one.model,
        "accepted": not one.code,
        "code": one.code,
        "detail": one.detail,
        "target_tokens": one.bundle.target_tokens,
        "before": asdict(one.before),
        "after": asdict(one.after) if one.after else None,
        "input_tokens": one.input_tokens,
        "output_tokens": one.output_tokens,
    }


def _name(folder: Path, bundle: Bundle) -> str:
    return bundle.folder.name if bundle.folder == folder else bundle.folder.relative_to(folder).as_posix()


def _words(scores: Scores) -> str:
    leaks = [name for name, found in asdict(scores.leaks).items() if found]
    size = f"{scores.tokens:,} tokens, {scores.share_of_target:.0%} of the target"
    return f"{size}, {scores.retention:.0%} retained, " + (f"leaks {', '.join(leaks)}" if leaks else "no leaks")


def _plain(text: str) -> str:
    """Models write what they like: what steers a terminal stays out of it."""
    return "".join(character if character.isprintable() or character == "\t" else "�" for character in text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise ArgumentTypeError("a number of seconds is wanted") from error
    if not (0 < seconds < math.inf):
        raise ArgumentTypeError("a number of seconds over 0 is wanted")
    return seconds
