"""What survives the extractive summarizer, and whether its bytes are the same everywhere: the figures behind the tests.

The demo's main branch and the longest branch of every file of real conversations are compacted at every threshold.
Measured is the share that the summary contains of the planted facts, and of everything in the covered messages that
looks like a fact: an address, a path, an identifier, a date, a number, a name of several words. Both databases are
used, with two hash seeds each. Exits 1 if the bytes differ.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from project.embedded import EmbeddedPostgres  # noqa: E402  # the path above makes it importable
from tests.transfer.replay_process import Digests, elsewhere, result_of  # noqa: E402

WINDOWS = (4_000, 8_000)
SEEDS = (0, 1)

_FACTS = re.compile(
    r"https?://[^\s<>()\"'`|]+"
    r"|(?<![\w/])(?:[\w.-]+/)+[\w.-]+\.\w{1,5}\b"
    r"|\b[A-Za-z]+[\w-]*\d[\w-]*\b|\b\w+_\w+\b"
    r"|\b\d{4}-\d\d-\d\d\b"
    r"|(?<![\w.,])\d[\d.,:]*\d(?:\s?(?:%|€|°C|kg|km|cm|mm|m|ms|s|MB|GB|kWh|euros?|dollars?|kroner)\b)?"
    r"|\b[A-ZÄÖÜØÆÅ][\w'’]+(?: (?:of |de |al-)?[A-ZÄÖÜØÆÅ][\w'’]+)+"
)


def main() -> int:
    folder = Path(os.environ.get("COMPACTION_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    data = folder if folder.is_dir() else None
    status = compare(data)
    with tempfile.TemporaryDirectory() as temporary:
        environment = {"DATABASE_URL": f"sqlite:///{temporary}/survival.sqlite3", "SURVIVAL_DATA": str(data or "")}
        command = [sys.executable, __file__, "measure"]
        return status | subprocess.run(command, env=os.environ | environment, check=False).returncode


def compare(data: Path | None) -> int:
    """0 if all digests are the same, with two seeds on each database; else 1."""
    digests: dict[str, Digests] = {}
    for seed in SEEDS:
        with elsewhere(None, data, seed=seed) as process:
            digests[f"SQLite, seed {seed}"] = result_of(process)
        with (
            EmbeddedPostgres() as server,
            elsewhere(None, data, seed=seed, database_url=server.database_url()) as other,
        ):
            digests[f"PostgreSQL, seed {seed}"] = result_of(other)
    first = next(iter(digests.values()))
    for name, (generations, digest) in first.items():
        found = {where: result[name][1] for where, result in digests.items()}
        same = all(other == digest for other in found.values())
        print(f"{name:>30}: {generations:>3} generations, {'the same bytes' if same else f'DIFFERENT: {found}'}")
    return 0 if all(result == first for result in digests.values()) else 1


def measure() -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": "project.settings", "SECRET_KEY": "benchmark"}
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    settings.COMPACTION = {}
    settings.LOGGING_CONFIG = None
    import logging

    logging.disable(logging.CRITICAL)
    call_command("migrate", verbosity=0)
    from tests.transfer.replaying import DEMO, lines

    for line in lines(Path(os.environ["SURVIVAL_DATA"]) if os.environ["SURVIVAL_DATA"] else None):
        for window in WINDOWS:
            if line.name == DEMO.name:
                for ledger in (0, None, 1100):
                    report(line, window, LEDGER_TOKENS=ledger)
            else:
                report(line, window, LEDGER_TOKENS=0)


def report(line: Any, window: int, **options: Any) -> None:
    from tests.retention.survival import demo, history_text, search
    from tests.transfer.replaying import DEMO, Generation, replay

    shares, plants, misleading = [], [], 0
    planted = demo().plants
    for step in replay(line, window=window, **options):
        if not isinstance(step, Generation):
            continue
        if line.name == DEMO.name:
            sent = [message["external_id"] for message in line.messages[: step.appended]]
            found = search(step.context, planted, sent)
            plants.append(found.share)
            misleading += len(found.misleading)
        facts: dict[str, None] = {}
        for message in line.messages[: step.covered]:
            facts.update(facts_of(message))
        text = history_text(step.context).lower()
        shares.append(sum(fact in text for fact in facts) / max(len(facts), 1))
    words = f"{line.name:>30} at {window:,}, ledger {options['LEDGER_TOKENS']}: {len(shares)} generations"
    if shares:
        words += f", facts kept {mean(shares):.1%} (last {shares[-1]:.1%})"
    if plants:
        deep = plants[4:] or plants
        words += f", plants {' '.join(f'{share:.0%}' for share in plants)}; from the fifth on {mean(deep):.1%}"
        words += f"; outdated without the newer {misleading}"
    print(words, flush=True)


def mean(shares: list[float]) -> float:
    return sum(shares) / len(shares)


def facts_of(message: Mapping[str, Any]) -> dict[str, None]:
    """Everything in a message of a person or model that looks like a fact; tool results are left out."""
    if message["role"] == "tool":
        return {}
    calls = [str(call["function"].get("arguments") or "") for call in message.get("tool_calls") or ()]
    texts = "\n".join([str(message.get("content") or ""), *calls])
    return dict.fromkeys(match.group().lower().rstrip(".,:") for match in _FACTS.finditer(texts))


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        raise SystemExit(main())
