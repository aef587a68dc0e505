"""What a model proposes and a person accepts is a decision of that person, told with both."""

from __future__ import annotations

import pytest

from compaction_app.retention.ledger_text import ledger_of
from compaction_app.values import Message, Role
from tests.retention.ledger.ledgers import keep, message

pytestmark = pytest.mark.pure

PROPOSAL = "I would take the blue varnish for the mast."


def decided(proposal: str, *answer: str) -> str:
    """The ledger of a proposal and of what a person says to it."""
    return ledger_of(keep(*said(proposal, *answer)).text)


def said(proposal: str, *answer: str) -> list[Message]:
    told = [message(1, "What now with it?"), message(2, proposal, Role.ASSISTANT)]
    return [*told, *(message(n, text) for n, text in enumerate(answer, start=3))]


class TestAcceptance:
    @pytest.mark.parametrize(
        "answer",
        [
            "Agreed.",
            "yes",
            "Sounds good.",
            "Great, good idea!",
            "einverstanden",
            "同意",
        ],
    )
    def test_what_was_proposed_and_accepted_is_one_entry(self, answer: str) -> None:
        accepted = answer.rstrip(".")
        assert decided(PROPOSAL, answer) == f"assistant: {PROPOSAL.rstrip('.')} (user: {accepted})"

    @pytest.mark.parametrize(
        "answer",
        [
            "ok",
            "Agreed?",
            "yes, the harbour is closed",
            "Sounds good, but only after Easter.",
            "good idea, yet I doubt it",
        ],
    )
    def test_what_accepts_nothing_or_not_all_of_it_decides_nothing(self, answer: str) -> None:
        assert "mast (user" not in decided(PROPOSAL, answer)

    def test_what_a_model_only_explains_is_not_accepted(self) -> None:
        assert decided("The blue varnish dries slowly on a mast.", "Agreed.") == ""
        assert "(user" not in decided("I would guess that Oda likes the blue varnish.", "Agreed.")

    def test_a_model_accepts_nothing_for_a_person(self) -> None:
        told = [message(1, PROPOSAL, Role.ASSISTANT), message(2, "Agreed.", Role.ASSISTANT)]
        assert "(" not in ledger_of(keep(*told).text)

    def test_a_plain_yes_answers_the_question_alone(self) -> None:
        ledger = decided("I would sell the dinghy. Is Oda back on 3 April?", "yes")
        assert "Is Oda back on 3 April? (user: yes)" in ledger
        assert "dinghy (user" not in ledger


class TestStanding:
    def test_it_outlasts_facts_and_is_read_back_as_a_decision(self) -> None:
        facts = [f"Berth {n} is {n * 3} m long." for n in range(20, 40)]
        told = [*said(PROPOSAL, "Agreed."), *(message(n, text) for n, text in enumerate(facts, start=4))]
        expected = "I would take the blue varnish for the mast (user: Agreed)"
        text = keep(*told, LEDGER_TOKENS=40).text
        assert expected in ledger_of(text)
        more = [f"Berth {n} is {n * 3} m long." for n in range(50, 80)]
        assert expected in ledger_of(keep(*more, previous=text, LEDGER_TOKENS=40).text)

    def test_rules_of_people_still_come_first(self) -> None:
        told = [message(9, "Never sand the mast of the Vega in the rain."), *said(PROPOSAL, "Agreed.")]
        assert ledger_of(keep(*told, LEDGER_TOKENS=22).text) == "user: Never sand the mast of the Vega in the rain"


@pytest.mark.parametrize("role", [Role.ASSISTANT, Role.TOOL])
@pytest.mark.parametrize("by", ["user", "user Ana", "assistant"])
def test_nobody_accepts_for_a_person(role: str, by: str) -> None:
    """What a model or a tool writes in the form of an answer is no answer, and would be read as one from then on."""
    told = [message(1, "What now?"), message(2, f"{PROPOSAL[:-1]} ({by}: agreed)", role), message(3, "Hm.")]
    assert "agreed" not in ledger_of(keep(*told).text)
