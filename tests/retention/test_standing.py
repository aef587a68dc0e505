"""How long a statement is meant to hold: what outlasts facts, and what does not."""

from __future__ import annotations

import pytest

from compaction_app.retention.standing import Standing, find_cues, standing_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "stated",
    [
        "Rule for you: never push to main",
        "hands off the table legacy_guests",
        "the reserve is not touched before 1 May",
        "And never write to the county in my name",
        "no chlorine in this house, ever",
        "and only hammer and hand chisel, no breaker",
        "Write plain prose, no bullet lists unless I ask for one",
        "nobody publishes the logbook before the family has seen it",
        "the envelope stays closed until Jonas holds it",
        "Decision: we keep the old dome",
        "We decided to keep the old dome",
        "I prefer tea",
        "Mme Salma is badly allergic to sesame",
        "And don't write storm, write south-westerly",
        "the deadline is 27 March now",
        "Schicke niemals Post an Frau Weber",
        "Никогда не звони Ивану до 9 утра",
        "必ず鉛のくさびを使う",
    ],
)  # fmt: skip
def test_rules_decisions_and_wishes_are_there_to_be_kept_to(stated: str) -> None:
    assert find_cues(stated) or not stated.isascii()
    assert standing_of(stated) is Standing.RULE


def test_a_limit_of_somebody_elses_is_firm() -> None:
    assert standing_of("She can't come alongside in a north-westerly above 14 m/s") is Standing.FIRM


@pytest.mark.parametrize(
    "stated",
    [
        "He never does",
        "WE HAVE IT AND WE NEVER LOSE IT",
        "Please don't let me order fish",
        "Sleeping out here tonight, Birk won't take the boat any more",
    ],
)
def test_cries_and_requests_of_the_moment_pass(stated: str) -> None:
    assert standing_of(stated) is Standing.PASSING


@pytest.mark.parametrize(
    "stated",
    [
        "Birk, who never says anything, went outside",
        "and never said his first name again, though she kept the other",
        "as a child was not allowed to look at the light",
        "The bridal couple sleeps in Krykkje",
        "he always makes a silly wide swing round Trollflua",
    ],
)
def test_what_is_told_of_others_is_no_rule(stated: str) -> None:
    assert standing_of(stated) is Standing.STATE
