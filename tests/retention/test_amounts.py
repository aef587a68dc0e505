"""Amounts, hours, weekdays and names that were told again: the older is told only together with the newest."""

from __future__ import annotations

import pytest

from compaction_app.retention.amounts import newer_amounts, renewed_amounts

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("older", "newer", "old", "new"),
    [
        ("46 guests for dinner", "It's 52 guests for dinner now, six more", "46 guests", "52 guests"),
        ("Ceremony at 14:00 on the lawn", "Ceremony at 15:30 then", "Ceremony at 14:00", "Ceremony at 15:30"),
        ("Boat home at 21:30", "the boat leaves at 03:00", "Boat home at 21:30", "boat leaves at 03:00"),
        (
            "She runs out to us on Thursdays",
            "He comes out to us on Tuesdays, because on Thursdays he fishes",
            "out to us on Thursdays",
            "out to us on Tuesdays",
        ),
        (
            "I work on the branch feature/rates",
            "I've made a new branch release/may",
            "branch feature/rates",
            "new branch release/may",
        ),
        (
            "The couple sleeps in Krykkje",
            "so the couple moves to Teist",
            "The couple sleeps in Krykkje",
            "the couple moves to Teist",
        ),
        ("Lamp room 214,000", "214,000 plus 24,500 for the prism makes 238,500", "214,000", "238,500"),
        ("Reserve | 173,000 | 9 %", "it grows from 173,000 to 212,000", "173,000", "212,000"),
    ],
)
def test_what_was_told_again_is_bound_to_the_newest(older: str, newer: str, old: str, new: str) -> None:
    ((position, (renewal,)),) = renewed_amounts([older, "Fine.", newer]).items()
    assert (position, renewal.at) == (0, 2)
    assert (renewal.old.casefold(), renewal.new.casefold()) == (old.casefold(), new.casefold())
    assert newer_amounts([older, "Fine.", newer]) == {0: 2}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("46 guests for dinner", "46 guests, as I said"),
        ("46 guests for dinner", "52 chairs for dinner"),
        ("It takes 20 minutes", "It takes 30 minutes"),
        ("I work on the branch feature/rates", "I looked at the branch feature/seals"),
        ("The bill is 2,140 euros", "The other is 2,385 euros"),
    ],
)
def test_what_only_looks_alike_stays_on_its_own(older: str, newer: str) -> None:
    assert newer_amounts([older, newer]) == {}


def test_an_amount_of_a_models_is_no_newer_one_than_a_persons() -> None:
    texts = ["46 guests for dinner", "So 52 guests for dinner"]
    assert newer_amounts(texts, ["user", "assistant"]) == {}
    assert newer_amounts(texts, ["assistant", "user"]) == {0: 1}
    assert newer_amounts(texts, ["assistant", "assistant"]) == {0: 1}


def test_whoever_names_the_old_value_with_the_new_one_makes_the_old_one_mislead_alone() -> None:
    texts = ["Lamp room 214,000", "214,000 plus 24,500 for the prism makes 238,500"]
    assert newer_amounts(texts, ["user", "assistant"]) == {0: 1}
