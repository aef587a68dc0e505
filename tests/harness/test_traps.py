"""The traps of the evaluation are what they say they are, else its figures mean nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from benchmarks.evaluate import traps_held_out, traps_tuned
from benchmarks.evaluate.traps import Trap, grow

pytestmark = pytest.mark.pure

Traps = Callable[[int], list[Trap]]
EACH: dict[str, Traps] = {
    "tuned": partial(grow, "tuned", traps_tuned.TEMPLATES, traps_tuned.SYLLABLES),
    "held out": partial(grow, "held-out", traps_held_out.TEMPLATES, traps_held_out.SYLLABLES),
}
each = pytest.mark.parametrize("traps", EACH.values(), ids=EACH)


@each
@pytest.mark.parametrize("seed", range(3))
def test_the_claim_misleads_alone_and_is_true_with_the_rest(traps: Traps, seed: int) -> None:
    for trap in traps(seed):
        assert re.search(trap.claim, trap.told), trap.id
        assert re.search(trap.kept_true_by, trap.told), trap.id
        assert re.search(trap.claim, trap.claim_text), trap.id
        assert not re.search(trap.kept_true_by, trap.claim_text), trap.id
        assert not re.search(trap.claim, trap.correction), trap.id


@pytest.mark.long
@each
def test_no_trap_is_found_in_the_words_of_the_others(traps: Traps) -> None:
    texts = {trap.id: trap.told for trap in traps(0)}
    for trap in traps(0):
        others = "\n".join(text for name, text in texts.items() if name != trap.id)
        assert not re.search(trap.claim, others), trap.id
        assert not re.search(trap.kept_true_by, others), trap.id
