"""A short answer and its question are told together or not at all, in every generation."""

import itertools

import pytest

from compaction_app.values import Role
from tests.retention.test_extractive import chat, message, summarize

pytestmark = pytest.mark.pure

ASKED = (
    ("Shall I push release 4.2 to main?", "No!"),
    ("Delete table legacy_guests?", "no"),
    ("Email bob@example.com?", "yes"),
    ("Pay INV-7 of 900 EUR?", "no"),
)


def asked_and_answered():
    texts = ["Let us go through the release.", *itertools.chain.from_iterable(ASKED)]
    filling = itertools.chain.from_iterable((f"Fruit {n} is apples and pears from Turku.", "fine") for n in range(9))
    return chat(*texts, *filling)


def told_pairs(text):
    """(Question, what stands on the line after it) of a summary."""
    lines = [line for line in text.splitlines() if not line.startswith("## ")]
    return {
        line.removeprefix("assistant: ").rsplit(" · ", 1)[-1]: following.removeprefix("user: ").split(" · ")[0]
        for line, following in itertools.pairwise([*lines, ""])
        if line.endswith("?")
    }


@pytest.mark.parametrize("target", [*range(12, 80, 2), 300])
def test_an_answer_goes_with_its_question_or_both_go(target):
    text = summarize(asked_and_answered(), target)
    for _ in range(3):
        told = told_pairs(text)
        assert {question: answer for question, answer in ASKED if question in text} == told
        clauses = [clause for line in text.splitlines() for clause in line.removeprefix("user: ").split(" · ")]
        assert sum(clause in ("no", "No!", "yes") for clause in clauses) == len(told)
        text = summarize(chat(f"The boat {target} is blue.", "Good."), target, text)


def test_each_answer_is_told_where_there_is_room():
    assert told_pairs(summarize(asked_and_answered(), 400)) == dict(ASKED)


def test_the_same_answer_again_is_no_repeat():
    text = summarize(chat("Hello.", "Deploy to Oulu?", "no", "Deploy to Oulu?", "yes", "Deploy to Oulu?", "no"), 200)
    assert text.count("Deploy to Oulu?\nuser: no") == 2
    assert text.rindex("user: no") > text.index("user: yes")


def test_a_figure_is_an_answer_too():
    covered = chat("Hello.", "How many guests come to Turku on 3 May?", "52 guests")
    assert "3 May?\nuser: 52 guests" in summarize(covered, 200)


@pytest.mark.parametrize("target", range(6, 60))
def test_no_is_told_with_what_it_denies(target):
    """Also where nothing was asked, and by the same person."""
    text = summarize([message(1, content="Pay Bob 900 EUR."), message(2, content="No, wait for Lena.")], target)
    assert ("Pay Bob" in text) == ("No, wait for Lena" in text)
    after = summarize(chat("Hi.", "I will delete the table now.", "No!"), target)
    assert ("No!" in after) <= ("I will delete the table now" in after)


def test_an_answer_to_what_a_summary_does_not_hold_is_left_out():
    previous = "## 2025-03-10\nassistant: Email bob@example.com now?\nuser: My boat is blue and lies in Turku harbour"
    assert "no" not in summarize(chat("no", "Good."), 200, previous).split()
    open_question = "## 2025-03-10\nuser: My boat is blue\nassistant: Email bob@example.com now?"
    assert "now?\nuser: no" in summarize(chat("no", "Good."), 200, open_question)


def test_the_last_question_stays_for_the_answer_that_comes():
    covered = [
        *chat(*(f"Guest {n} is Anna Lind{n} from Turku, room {n}." for n in range(40))),
        message(99, content="So?"),
    ]
    covered.append(message(100, Role.ASSISTANT, "Shall I lock the door?"))
    assert summarize(covered, 120).endswith("Shall I lock the door?")


def test_an_answer_counts_more_than_the_question_it_makes_needless():
    texts = [
        text
        for n in range(40)
        for text in (
            f"What is the price of item {n}?",
            f"The price of item {n} is {n * 3} euros, and it ships on 3 May.",
        )
    ]
    text = summarize(chat(*texts), 300)
    assert text.count("euros, and it ships on 3 May") > 2 * text.count("?")
