"""The state machine with a fresh seed, on both databases side by side: ``make fuzz STEPS=100000``.

Ends when at least so many rules were carried out in all, or when something does not hold: it is then shown with
the seed that finds it again (``python -m tests.fuzz --seed N --database sqlite``).

pytest runs this file too, once a database, when it is named to it: that is where a test database comes from.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

DATABASES = ("sqlite", "postgres")
DEFAULT_STEPS = 10_000
#: What happens once in a thousand rules or less, and has to have happened in so many.
RARE, MANY_STEPS = ("meanwhile: reach_the_time_limit", "run failed time_limit", "manual taken over"), 20_000
STEPS_VARIABLE, SEED_VARIABLE = "FUZZ_STEPS", "FUZZ_SEED"


@pytest.mark.django_db(transaction=True)
def test_fuzz() -> None:
    from tests.state_machine.running import run_until
    from tests.state_machine.tally import executed, seen

    database, started = os.environ["TEST_DATABASE"], time.monotonic()

    def say(batch_seed: int) -> None:
        seconds = time.monotonic() - started
        print(f"{database}: {executed.total():,} rules in {seconds:,.0f} s, next seed {batch_seed}", flush=True)

    run_until(int(os.environ[STEPS_VARIABLE]), int(os.environ[SEED_VARIABLE]), say)
    seconds = time.monotonic() - started
    print(f"{database}: done, {executed.total():,} rules in {seconds:,.0f} s", flush=True)
    print(f"{database}: {', '.join(f'{name} {count}' for name, count in sorted(seen.items()))}", flush=True)
    if executed.total() >= MANY_STEPS:
        assert [what for what in RARE if not seen[what]] == []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    steps = int(os.environ.get("STEPS") or DEFAULT_STEPS)
    parser.add_argument("--steps", type=int, default=steps, help=f"rules to carry out in all (now {steps:,})")
    parser.add_argument("--seed", type=int, help="where to begin; a random one if not given")
    parser.add_argument("--database", action="append", choices=DATABASES, help="one only; both if not given")
    options = parser.parse_args(arguments)
    first_seed = random.randrange(10**9) if options.seed is None else options.seed
    databases = options.database or DATABASES
    print(f"fuzzing {', '.join(databases)} for {options.steps:,} rules from seed {first_seed}", flush=True)
    share = -(-options.steps // len(databases))
    runs = {name: _start(name, share, first_seed) for name in databases}
    failed = [name for name, process in runs.items() if process.wait() != 0]
    print(f"seed {first_seed}: {'failed on ' + ', '.join(failed) if failed else 'every rule held'}", flush=True)
    return 1 if failed else 0


def _start(database: str, steps: int, first_seed: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TEST_DATABASE": database, STEPS_VARIABLE: str(steps), SEED_VARIABLE: str(first_seed)}
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-s", "--tb=short", "-p", "no:cacheprovider"]
    return subprocess.Popen(command, env=environment, cwd=Path(__file__).resolve().parent.parent)


if __name__ == "__main__":
    sys.exit(main())
