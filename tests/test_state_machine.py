"""Random trees, random accidents: rules 1 to 10 of the design against a slow, obvious model."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.state_machine.machine import COMPACTION, ConversationMachine, executed
from tests.state_machine.world import seen

SEED = int(os.environ.get("STATE_MACHINE_SEED", "20301"))
EXAMPLES, STEPS = 65, 45
#: A database's share of the 5,000 that CI has to carry out.
LEAST_EXECUTED = 2_500
#: What has to have happened, or the machine proves less than it says.
MUST_HAPPEN = (
    "summary with base",
    "summary with pin",
    "pin inherited",
    "pin let go",
    "follow-up generation",
    "anchor below cutoff",
    "context truncated",
    "context overflow",
    "retired",
    "emptied",
    "deleted",
)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_whatever_happens_in_whatever_order_the_rules_hold(settings_of_the_machine: None) -> None:
    executed.clear()
    seen.clear()
    run_state_machine_as_test(
        seed(SEED)(ConversationMachine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"\nseed {SEED}: {executed.total()} rules executed\n{dict(executed)}\n{dict(seen)}")
    assert executed.total() >= LEAST_EXECUTED
    assert [what for what in MUST_HAPPEN if not seen[what]] == []


@pytest.fixture
def settings_of_the_machine(settings: object) -> Iterator[None]:
    settings.COMPACTION = COMPACTION  # type: ignore[attr-defined]
    # Some hundred thousand lines otherwise, all kept for a report that nobody could read.
    logging.getLogger("compaction_app").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("compaction_app").setLevel(logging.NOTSET)
