"""Random trees, random accidents: what never breaks, against a slow, obvious model."""

import sys

import pytest
from django.db import connection

from tests.state_machine.running import run_batch, run_until, site_of_the_machine
from tests.state_machine.tally import executed, seen

SEED = 20300101
#: What every run carries out on each database, from a seed of its own.
A_FEW_MACHINES, A_FEW_RULES, A_FEW = 1, 32, 30
#: A database's share of the 5,000 that are carried out at length.
LEAST_EXECUTED = 2_500
#: What has to have happened, or the machine proves less than it says. What is rarer is in ``fuzz``.
MUST_HAPPEN = (
    "summary with base, summary with pin, pin inherited, pin let go, follow-up generation, shown shortened, "
    "anchor below cutoff, summary with extract, summary passed over, context truncated, context shared_extract, "
    "context tool_result_budget, context overflow, context with request, context with pins, context with own summary, "
    "retired, emptied, deleted, copied with summary, redacted in a copy, "
    "run skipped base_changed, run skipped branch_gone, suppressed: open_run, suppressed: irreducible"
).split(", ")


@pytest.mark.twice
@pytest.mark.django_db(transaction=True)
def test_a_few_hundred_random_operations_keep_the_rules() -> None:
    executed.clear()
    with site_of_the_machine():
        run_batch(SEED + (connection.vendor == "postgresql"), machines=A_FEW_MACHINES, rules=A_FEW_RULES)
    assert executed.total() >= A_FEW


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_whatever_happens_in_whatever_order_the_rules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    executed.clear()
    seen.clear()
    run_until(LEAST_EXECUTED, SEED)
    with capsys.disabled():
        sys.stdout.write(f"\nstate machine: {executed.total():,} rules carried out from seed {SEED}\n")
    assert executed.total() >= LEAST_EXECUTED
    assert [what for what in MUST_HAPPEN if not seen[what]] == [], dict(seen)
