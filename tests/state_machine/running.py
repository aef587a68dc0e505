"""Running the machine until it has carried out enough, in batches with a seed each."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.test import override_settings
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.state_machine.machine import ConversationMachine
from tests.state_machine.tally import executed

COMPACTION = {
    "TOKEN_COUNTER": "tests.state_machine.model.QuarterTokenCounter",
    "SUMMARIZER": "default",
    "SUMMARIZERS": {"default": {"BACKEND": "tests.state_machine.teller.TellingSummarizer"}},
}
MACHINES_A_BATCH = 21
RULES_A_MACHINE = 45


@contextmanager
def site_of_the_machine() -> Iterator[None]:
    logger = logging.getLogger("compaction_app")
    level = logger.level
    # Some hundred thousand lines otherwise, all kept for a report that nobody could read.
    logger.setLevel(logging.CRITICAL)
    try:
        with override_settings(COMPACTION=COMPACTION):
            yield
    finally:
        logger.setLevel(level)


def run_until(least: int, first_seed: int, on_batch: Callable[[int], object] = lambda batch_seed: None) -> None:
    """Run batches with consecutive seeds until at least this many rules were carried out.

    ``on_batch`` is told each seed before its batch. A batch fails the same way whenever its seed is run alone.
    """
    enough = executed.total() + least
    batch_seed = first_seed
    with site_of_the_machine():
        while executed.total() < enough:
            on_batch(batch_seed)
            run_batch(batch_seed)
            batch_seed += 1


def run_batch(batch_seed: int, machines: int = MACHINES_A_BATCH, rules: int = RULES_A_MACHINE) -> None:
    run_state_machine_as_test(
        seed(batch_seed)(ConversationMachine),
        settings=settings(
            max_examples=machines,
            stateful_step_count=rules,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
