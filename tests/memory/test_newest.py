"""Newest mention: an older value goes, or is told only together with the newer one."""

from __future__ import annotations

import pytest

from compaction_app.values import Role
from tests.memory.telling import Said, among_others, summarize, told, turns

pytestmark = pytest.mark.pure

MODEL = Role.ASSISTANT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The budget is 2,000 euros.", "The budget is 2,400 euros now."),
        ("预算是3000欧元。", "现在预算是2400欧元。"),
        ("The meeting with Anna Lind is at 3 pm.", "The meeting with Anna Lind is at 5 pm."),
    ],
)
def test_a_value_is_replaced_by_the_newer_one(old: str, new: str) -> None:
    text = summarize(turns(old, (MODEL, "Fine."), new))
    assert old.rstrip(".。") not in text
    assert new.rstrip(".。") in text


@pytest.mark.parametrize(
    ("old", "new", "outdated", "valid"),
    [
        ("Our port is 80.", "We changed the port from 80 to 81.", "port is 80", "to 81"),
        ("The deadline is 4 June.", "The deadline moved to 18 June.", "4 June", "18 June"),
        ("Our trip budget is 3,000.", "The budget is 2,400 now.", "3,000", "2,400"),
        ("For dinner we expect 46 guests.", "So 52 guests for dinner it is, no more.", "46 guests", "52 guests"),
        ("We take deposit_percent = 25 here.", "It says deposit_percent = 30 now.", "= 25", "= 30"),
        ("Never email Bob Berg.", "You may email Bob Berg again.", "Never email", "again"),
        ("Never push on Fridays.", "Well, this Friday you may push.", "Never push", "you may push"),
        ("Our server is db7.", "We went back to db6 instead of db7.", "server is db7", "back to db6"),
        ("Turn the pump P-7 on.", "Turn the pump P-7 off.", "P-7 on", "P-7 off"),
    ],
)
def test_an_older_value_is_never_told_without_the_newer_one(old: str, new: str, outdated: str, valid: str) -> None:
    texts = list(told(among_others(old, (MODEL, "Fine."), new)))
    assert [text for text in texts if outdated in text and valid not in text] == []
    assert valid in texts[-1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The food budget is 300 euros.", "The budget is 2,400 euros now."),
        ("The budget is 3,000 euros.", "The budget is now tight."),
        ("The budget is not 3,000.", "The budget is 2,400 now."),
        # A condition, a claim and a guess replace nothing.
        ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now if the county agrees."),
        ("The budget is 2,000 EUR.", "I think the budget is 3,000 EUR now."),
        # Nor does a value that was taken back.
        ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now. Scrap that, keep the old one."),
    ],
)
def test_two_subjects_or_a_doubt_replace_nothing(one: str, other: str) -> None:
    text = summarize(turns(one, (MODEL, "Fine."), other))
    assert one.rstrip(".") in text
    assert other.rstrip(".") in text


@pytest.mark.parametrize("said", [(MODEL, "The budget is 3,000 EUR now."), (Role.TOOL, "The budget is 3,000 EUR now.")])
def test_nobody_replaces_what_a_person_said(said: Said) -> None:
    text = summarize(turns("The budget is 2,000 EUR for all of us. We are nine.", (MODEL, "Fine."), said))
    assert "2,000 EUR" in text


def test_the_newest_of_three_values_is_told_even_if_it_is_the_oldest_again() -> None:
    told = ["The door code is 4711.", "The door code is 8222 now.", "The door code is 4711 once more."]
    text = summarize(turns(*(one for said in told for one in (said, (MODEL, "Noted.")))))
    assert "The door code is 4711 once more" in text
    assert "8222" not in text


def test_what_was_said_twice_is_told_once_where_it_was_said_last() -> None:
    said = ("Never push to main.", (MODEL, "Fine."), "The boat of Anna Lind is blue.", (MODEL, "Fine."))
    text = summarize(turns(*said, "Never push to main."))
    assert text.count("Never push to main") == 1
    assert text.index("blue") < text.index("Never push")


def test_equal_numbers_are_not_one_subject() -> None:
    text = summarize(turns(*(f"Station {n} lies {n + 3} miles from Harbour{n}." for n in range(12))), 1000)
    assert all(f"Harbour{n}" in text for n in range(12))
    text = summarize(turns("Berth db7 is free for Anna.", "Berth db8 is taken by Bob."))
    assert "db7" in text
    assert "db8" in text


def test_a_decision_that_was_taken_back_is_never_told_alone_however_often_its_subject_is_named() -> None:
    sent = ("an invoice", "a manual", "two cables", "the contract", "a calendar", "the logins", "a mug", "the slides")
    between = [f"For the branch in Turku{n} Vetoris sent {thing}." for n, thing in enumerate(sent)]
    texts = list(told(turns("We'll go with Vetoris.", *between, "Scrap Vetoris, PawLedger it is.")))
    assert [text for text in texts if "go with Vetoris" in text and "Scrap Vetoris" not in text] == []
    assert "go with Vetoris" in texts[-1]
