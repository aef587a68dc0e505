"""Text is divided where a part stands by itself, and a part is shortened without saying something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.clauses import Clause, clip, read_clause
from compaction_app.facts import is_negation, weigh
from compaction_app.sentences import split_clauses

pytestmark = pytest.mark.pure

SENTENCE = "Well, I really do not want to stay at the Hotel Lumen because it was very loud on 3 May"


def test_each_form_is_an_in_order_part_of_its_sentence_with_its_negation():
    clause = read_clause(SENTENCE, weigh)
    source = SENTENCE.split()
    for level in range(6):
        words = iter(source)
        kept = clause.shortened(level).split()
        assert all(any(word.strip(",") == other.strip(",") for other in words) for word in kept)
        assert "not" in kept
        assert "Hotel Lumen" in clause.shortened(level)
        assert "3 May" in clause.shortened(level)


@given(st.lists(st.sampled_from("the not never a 12 Anna budget must is don't quick <user> · of".split())))
def test_no_form_loses_a_negation(words):
    clause = read_clause(" ".join(words), weigh)
    negations = [word for word in words if is_negation(word)]
    for level in range(6):
        assert [word for word in clause.shortened(level).split() if is_negation(word)] == negations


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("If the load on Vega goes over 80 then start the second machine in Oulu", "If"),
        ("Maybe the whole family will travel to Rome with Finnair in June", "Maybe"),
        ("Only the people from the Turku office are coming with Anna", "Only"),
        ("The whole group of people has more than 12 bags with Finnair", "more than 12 bags"),
        ("Somewhere near Hanko there were at least 40 boats", "at least 40 boats"),
        ("Whoever lights the lamp in Hanko has to give notice 48 hours ahead by phone", "48 hours ahead"),
        ("The children had a wonderful time and will watch the ceremony at 14:00 then", "ceremony at 14:00"),
    ],
)
def test_conditions_doubts_and_bounds_stay(text, kept):
    """Without them a sentence would claim more than was said."""
    assert all(kept in read_clause(text, weigh).shortened(level) for level in range(6))


def test_an_item_of_a_list_keeps_the_never_above_it():
    assert [text for text, _ in split_clauses("Never:\n- deploy on Fridays\n- touch prod\n\nFine.")] == [
        "Never: deploy on Fridays",
        "Never: touch prod",
        "Fine",
    ]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Dr. Virtanen called. He is 3.5 km away!", ["Dr. Virtanen called", "He is 3.5 km away!"]),
        ("天気がいい。行きますか？はい。", ["天気がいい", "行きますか？", "はい"]),
        ("كيف حالك؟ بخير.", ["كيف حالك؟", "بخير"]),
        ("My name is Ana and my budget is 3,000.", ["My name is Ana", "my budget is 3,000"]),
        ("If it rains and my boat is wet, wait.", ["If it rains and my boat is wet, wait"]),
        ("-10 degrees\n1. **Pack** it\n---\n| a | b |", ["-10 degrees", "Pack it", "a | b"]),
        ("!!!\n\n***", []),
    ],
)
def test_text_is_divided_where_a_part_stands_by_itself(text, clauses):
    assert [clause for clause, _ in split_clauses(text)] == clauses


def test_clipping_never_cuts_inside_a_joined_emoji_or_accent():
    family = "👩‍👩‍👧"
    for limit in range(1, 60):
        clipped = clip(family * 20, limit)
        assert len(clipped) <= limit
        assert clipped.replace(family, "").replace("…", "") in ("", "👩", "👧", "👩‍👧", "👩‍👩")
        assert not clipped.startswith("\u200d")
        assert "\u200d…" not in clipped


def forms_of(text: str) -> list[str]:
    clause: Clause = read_clause(text, weigh)
    return list(dict.fromkeys(clause.shortened(level) for level in range(6)))


@pytest.mark.parametrize(
    "text",
    [
        "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so",
        "The crane 1 is [not working: broken pump] and berth 1 is [closed: ice]",
        "Ship 1 does not carry grain any more, it carries 3 tons of coal",
        "My key [secret removed: Google key] and the token [secret removed: JWT] are on the server in Oulu",
        "The ferry to Oslo on 3 May was cancelled by the harbour of Turku",
        "Wir laden am Montag in Hamburg mit dem Kran keine Kohle",
        'He measured the 5" pipe of the ship Vega in the harbour of Hanko',
        "我们下周一去北京，不坐飞机，坐火车",
    ],
)
def test_what_a_missing_word_could_turn_round_is_told_as_it_was_said(text):
    assert forms_of(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Nikdy nevolej Anně před osmou hodinou ranní",
        "Anna'yı saat sekizden önce ofisten arama lütfen",
        "Μην τηλεφωνήσεις στην Άννα πριν από τις οκτώ το πρωί",
        "Jangan pernah menelepon Anna sebelum jam delapan pagi",
        "Đừng bao giờ gọi cho Anna trước tám giờ sáng",
        "لطفا پیش از ساعت هشت صبح به آنا زنگ نزن",
        "Soitathan Annalle vasta kello kahdeksan jälkeen aamulla Helsingistä",
    ],
)
def test_a_language_whose_small_words_are_not_known_is_not_shortened(text):
    assert forms_of(text) == [text]


def test_a_bracket_stays_whole_or_goes_whole():
    text = "The great ship Vega (built in Oulu 1999, painted blue) sails to the port of Hanko with coal every summer"
    forms = forms_of(text)
    assert len(forms) > 2
    assert all("(built in Oulu 1999, painted blue)" in form or "(" not in form for form in forms)
    aside = "The ship Vega (so they say here) sails to the port of Hanko with coal"
    assert {"(so they say here)" in form for form in forms_of(aside)} == {True, False}
    assert all(form.count("(") == form.count("they say here") == form.count(")") for form in forms_of(aside))


@pytest.mark.parametrize(
    "text",
    [
        "It is not true that the pump is on and the valve is open",
        'He said "Do not go. Stay here with us." to me',
        "The card [removed; see the policy] was mine",
        "Nobody here may ever use these two browsers — the old Chrome and the Opera that Ana has",
        "We must never at any time on this ship in any weather open the following: the valve of the tank, the door",
    ],
)
def test_a_negation_is_not_divided_from_what_it_denies(text):
    assert [clause for clause, _ in split_clauses(text)] == [text]


def test_what_a_line_says_over_and_over_it_says_once():
    assert [clause for clause, _ in split_clauses("line 11 value 407 km " * 20)] == ["line 11 value 407 km"]
    assert [clause for clause, _ in split_clauses("a very very very good day, and no no no rain")] == [
        "a very very very good day, and no no no rain"
    ]
