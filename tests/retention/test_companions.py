"""What is told only together: nothing of it says what nobody said, at any target and in the next generation."""

import json

import pytest

from compaction_app.values import Role
from tests.retention.test_extractive import chat, message, summarize

pytestmark = pytest.mark.pure

TARGETS = [*range(12, 90, 3), 200, 400]


def among_others(*said):
    """Turns of both sides between a few that tell of other things; a user's where no side is named."""
    turns = [turn if isinstance(turn, tuple) else (Role.USER, turn) for turn in said]
    before = [(Role.USER, f"Guest {n} is Anna Lind{n} from Turku, room {n}.") for n in range(3)]
    after = [(Role.USER, f"Crate {n} of Carl Berg{n} goes to Hanko on {n + 3} May.") for n in range(3)]
    return [message(n, role, text) for n, (role, text) in enumerate([*before, *turns, *after], start=1)]


def told(said, generations=2):
    """Every summary of them, at every target, and what is made of it a generation later."""
    for target in TARGETS:
        text = ""
        for generation in range(generations):
            text = summarize(among_others(*said) if not generation else [], target, text)
            yield text


@pytest.mark.parametrize(
    ("said", "claim", "back"),
    [
        (["Call 555-0192 for Bob.", (Role.ASSISTANT, "OK."), "That number is wrong."], "555-0192", "wrong"),
        (["The code is 4711.", (Role.ASSISTANT, "Noted."), "Sorry, I mixed up: 4171."], "4711", "4171"),
        (["We meet in Oslo on 5 May.", (Role.ASSISTANT, "Noted."), "It's cancelled."], "meet in Oslo", "cancelled"),
        (["We meet in Oslo on 5 May.", (Role.ASSISTANT, "Noted."), "Oh wait, 6 May."], "meet in Oslo", "6 May"),
        (["We meet in Oslo on 5 May.", (Role.ASSISTANT, "Noted."), "*6 May"], "meet in Oslo", "*6 May"),
        ([(Role.ASSISTANT, "The capital is Sydney."), "That's not true."], "Sydney", "not true"),
        ([(Role.ASSISTANT, "We agreed to hire Carl Moe."), "I never said that."], "Carl Moe", "never said"),
        ([(Role.ASSISTANT, "I will delete table orders."), "Halt, warte!"], "orders", "warte"),
        (
            [
                (Role.ASSISTANT, "I have deleted table orders."),
                "Did you?",
                (Role.ASSISTANT, "I did not delete anything."),
            ],
            "have deleted",
            "did not",
        ),
        (["金庫の暗証番号は4711です。", (Role.ASSISTANT, "はい。"), "間違えました、4171です。"], "4711", "4171"),
        (["保险柜的密码是4711。", (Role.ASSISTANT, "好的。"), "不对，是4171。"], "4711", "4171"),
        ([(Role.ASSISTANT, "Mr. Jones gets 500 mg of penicillin."), "He is allergic!"], "500 mg", "allergic"),
    ],
)  # fmt: skip
def test_a_claim_and_what_takes_it_back_are_both_told_or_neither(said, claim, back):
    texts = list(told(said))
    assert [text for text in texts if (claim in text) != (back in text)] == []
    assert claim in texts[-1]


@pytest.mark.parametrize(
    ("said", "pronoun", "subject"),
    [
        (["Mr. Brown is allergic.", "Mr. Green coughs; he gets 20 mg of codeine."], "he gets", "Green"),
        (["The red car is Anna's. The blue car belongs to Carl Moe. It must stay in Oslo."], "It must", "blue car"),
        (["Frau Weber wohnt in Köln. Sie zahlt 900 Euro an Bob."], "Sie zahlt", "Weber"),
        (["Mme Lefèvre habite à Lyon. Elle paie 900 EUR à Bob."], "Elle paie", "Lefèvre"),
        (["There is the new cook.", "He is allergic to nuts and to Anna Nowak's cake."], "He is", "cook"),
        (["The pump of Bob is fine.", "There is the old valve.", "It must never be opened."], "It must", "valve"),
        (["Imagine the following for the exam. Bob kills Lena in Oslo. Ruiz finds him."], "Bob kills", "Imagine"),
    ],
)  # fmt: skip
def test_a_pronoun_is_told_with_its_subject_and_a_fiction_with_its_frame(said, pronoun, subject):
    texts = list(told(said))
    assert [text for text in texts if pronoun in text and subject not in text] == []
    assert pronoun in texts[-1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Turn the pump P-7 on", "Turn the pump P-7 off"),
        ("Don't push to main", "You may push to main now"),
        ("Schalte die Pumpe P-7 ein", "Schalte die Pumpe P-7 aus"),
        ("Ouvre la vanne V-3", "Ferme la vanne V-3"),
        ("打开泵P-7", "关闭泵P-7"),
        ("Status: deployed", "Status: rolled back"),
    ],
)
def test_what_was_said_last_stands_last(first, second):
    """Also where it was said before, and where there is no room for both."""
    for text in told([first, second, first]):
        if second in text.replace("Turn pump", "Turn the pump"):
            assert text.rindex(first) > text.rindex(second)


def test_one_side_of_an_opposite_is_not_told_without_the_newer():
    for text in told(["Turn the pump P-7 on.", "Turn the pump P-7 off."]):
        assert "P-7 on" not in text or "P-7 off" in text


def test_numbered_answers_go_with_the_questions_of_their_numbers():
    asked = "1. Shall I delete db7?\n2. Shall I push 4.2?\n3. Shall I email bob@example.com?"
    said = chat("Hello.", asked, "1. no\n2. yes\n3. no")
    text = summarize(said, 300)
    assert "1. Shall I delete db7?\nuser: 1. no\n" in text
    assert "3. Shall I email bob@example.com?\nuser: 3. no" in text
    for target in TARGETS:
        text = summarize([], target, summarize(said, target))
        assert text.count("?") == text.count("user: 1.") + text.count("user: 2.") + text.count("user: 3.")


def test_several_answers_at_once_go_with_all_that_was_asked():
    said = chat(
        "Hello.", "Shall I delete db7? Shall I push 4.2 to main? Shall I email bob@example.com?", "No, yes, no."
    )
    for target in TARGETS:
        text = summarize([], target, summarize(said, target))
        assert text.count("?") == (3 if "No, yes, no" in text else 0)


@pytest.mark.parametrize("target", [60, 200, 400])
def test_the_values_of_a_record_stand_together(target):
    rows = [{"name": "Anna", "paid": True}, {"name": "Bob", "paid": False}, {"name": "Carl", "paid": True}]
    text = summarize([message(1, Role.TOOL, json.dumps(rows), name="look")], target)
    assert text.endswith("name: Anna, paid: true · name: Bob, paid: false · name: Carl, paid: true")
    assert summarize([], target, text) == text


def test_a_long_record_says_in_each_part_whose_it_is():
    row = {"note": "x " * 120, "id": "INV-7", "other": "y " * 120, "status": "paid"}
    text = summarize([message(1, Role.TOOL, json.dumps([row]), name="look")], 900)
    parts = text.removeprefix("## Conversation\ntool look: ").split(" · ")
    assert len(parts) > 1
    assert all("INV-7" in part for part in parts[1:])


@pytest.mark.parametrize("target", [30, 45, 58])
def test_a_heading_that_is_no_day_stays_where_the_target_is_tiny(target):
    previous = "## Rejected\n\nHire Jonas Lian in June.\n\n## Accepted\n\nHire Lena Ortiz in May."
    text = summarize([], target, previous)
    assert "Jonas Lian" not in text or "Rejected" in text
