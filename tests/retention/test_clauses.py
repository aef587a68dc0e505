"""Text is divided where a part stands by itself, and a part is shortened without saying something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.retention.cautions import is_cautioned
from compaction_app.retention.clauses import Clause, clip, read_clause
from compaction_app.retention.facts import is_negation, weigh
from compaction_app.retention.sentences import split_clauses

pytestmark = pytest.mark.pure


#: All that may be missing inside a form.
SMALL = {"the", "really", "very", "literally", "honestly", "please", "kindly", "furthermore", "moreover"}
FRAGMENTS = (
    "Anna pays 300 EUR to Bob",
    "the ship Vega sails to the port of Hanko",
    "because the harbour of Oulu is closed",
    "which the crew really liked",
    "and we have the big crane on 3 May",
    "and Carl",
    "so they took the train",
    "but the valve is open",
    "until Friday",
    "und wir zahlen die Rechnung",
    "Lena says the pump runs",
    "no longer",
    "the deadline is 4 June",
    "who (the owner, they say) paid",
    'where a "very small, and the only" boat lies',
    "in src/a.py and the shed",
)
JOINTS = (", ", "; ", " — ", ": ", " and ", ". ", " ")


def telling(text: str) -> list[str]:
    words = [word.strip(",.;:") for word in text.split()]
    return [word for word in words if word.lower() not in SMALL]


def test_a_form_is_the_beginning_of_its_sentence_without_some_small_words():
    said = "Please tell the crew of the Vega to really clean the tank on 3 May, because the harbour master is coming"
    assert forms_of(said) == [
        said,
        "tell the crew of the Vega to clean the tank on 3 May, because the harbour master is coming",
        "tell crew of the Vega to clean tank on 3 May, because harbour master is coming",
        "tell crew of the Vega to clean tank on 3 May",
    ]


@given(
    # What is said three times in a row is told once.
    st.lists(
        st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(JOINTS)), min_size=1, max_size=6, unique_by=lambda p: p[0]
    )
)
def test_whatever_is_told_stood_there_in_one_piece(parts):
    """Each clause is a piece of its text; each form is the beginning of its clause but for small words."""
    text = "".join(fragment + joint for fragment, joint in parts).strip(" ,;:—")
    for clause, _ in split_clauses(text):
        assert clause in text
        for form in forms_of(clause):
            assert telling(form) == telling(clause)[: len(telling(form))]
            if is_cautioned(clause):
                assert form == clause


@given(st.permutations(FRAGMENTS), st.lists(st.sampled_from((", ", "; ", " — ", ": ")), min_size=1, max_size=5))
def test_one_sentence_with_a_limit_in_it_is_one_clause(fragments, joints):
    before = "".join(fragment + joint for fragment, joint in zip(fragments, joints, strict=False))
    text = f"{before}unless Lena Ortiz signs form 7B"
    assert [clause for clause, _ in split_clauses(text)] == [text]


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
        ("The whole group of people has more than 12 bags with Finnair", "more than 12 bags"),
        ("Whoever lights the lamp in Hanko has to give notice 48 hours ahead by phone", "48 hours ahead"),
    ],
)
def test_conditions_doubts_and_bounds_stay(text, kept):
    """Without them a sentence would claim more than was said."""
    assert all(kept in read_clause(text, weigh).shortened(level) for level in range(6))


def clauses_of(text: str) -> list[str]:
    return [clause for clause, _ in split_clauses(text)]


def forms_of(text: str) -> list[str]:
    clause: Clause = read_clause(text, weigh)
    return list(dict.fromkeys(clause.shortened(level) for level in range(6)))


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Dr. Virtanen called. He is 3.5 km away!", ["Dr. Virtanen called", "He is 3.5 km away!"]),
        ("天気がいい。行きますか？はい。", ["天気がいい", "行きますか？はい"]),
        ("My name is Ana and my budget is 3,000.", ["My name is Ana", "my budget is 3,000"]),
        ("-10 degrees\n1. **Pack** it\n---\n| a | b |", ["-10 degrees", "1. Pack it", "a | b"]),
        ("1. Shall I delete db7?\n2. We go to Oslo.\n3. no", ["1. Shall I delete db7?", "We go to Oslo", "3. no"]),
        ("line 11 value 407 km " * 20, ["line 11 value 407 km"]),
        ("!!!\n\n***", []),
    ],
)
def test_text_is_divided_where_a_part_stands_by_itself(text, clauses):
    assert clauses_of(text) == clauses


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("## Rejected\n- domes\n- bars\n\n## Agreed\n- lamps", ["Rejected: domes", "Rejected: bars", "Agreed: lamps"]),
        ("禁止事項:\n- 猫\n\n許可:\n- 犬", ["禁止事項: 猫", "許可: 犬"]),
        ("Bob wrote:\n> I will pay 900.", ["Bob wrote: I will pay 900"]),
        ("Don't do this:\n```\nrm -rf /var\n```\nThen rest.", ["Don't do this: rm -rf /var", "Then rest"]),
    ],
)
def test_an_item_is_told_with_what_stands_above_it(text, clauses):
    assert clauses_of(text) == clauses


@pytest.mark.parametrize(
    "text",
    [
        # A negation and what it denies.
        "It is not true that the pump is on and the valve is open",
        'He said "Do not go. Stay here with us." to me',
        # Stars and lines of code, which are no bold print.
        "Never rename pkg/__init__.py or __main__.py, and keep super().__init__(**kwargs) as it is; 2**10 items",
        # Ordinals, abbreviations, ranks and dates, which end no sentence.
        "Wir treffen uns im 2. Stock, z. B. um 14.30 Uhr, bei der Fa. Müller GmbH, Nr. 7, St. Gallen",
        "Wir treffen uns am Fr., 5. 6. 2026, um 10 Uhr in Köln",
        # What could turn or frame the rest.
        "You may delete the table on db7, and you have to ask Priya for a backup first",
        "According to Bob, the fee is 30 EUR and the deadline is 5 May",
        "In the film the bank of Oslo is robbed; the hero Bob is shot on 3 May",
        # What takes back.
        "Bob pays 900 EUR on 3 May. This is wrong",
        "Bob pays 900 EUR on 3 May. Just kidding!",
        "Bob pays 900 EUR on 3 May. Provided that Lena agrees",
    ],
)
def test_what_would_mislead_in_parts_is_one_clause(text):
    assert clauses_of(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Delete table orders_2019 on server db7; no, never do that, Priya Nair would kill us",
        "Anna takes 20 mg Metoprolol daily — no longer, since 4 May, she takes 10 mg",
        "Everyone may use room 7B - except Jonas Lian",
        "Der Vertrag wurde am 3. Mai kaum geprüft, und wir zahlen 4.000 Euro an die Müller GmbH",
        "Pay Bob 500 EUR on 3 May. But only in Oslo",
        "Should we delete the server db7 in Oslo on 5 May? No",
    ],
)
def test_what_is_denied_limited_or_taken_back_is_one_clause_with_one_form(text):
    assert clauses_of(f"{text}.") == forms_of(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so",
        "My key [secret removed: Google key] and the token [secret removed: JWT] are on the server in Oulu",
        "我们下周一去北京，不坐飞机，坐火车",
        # Languages whose small words are not known.
        "Nikdy nevolej Anně před osmou hodinou ranní",
        "لطفا پیش از ساعت هشت صبح به آنا زنگ نزن",
    ],
)
def test_what_a_missing_word_could_turn_round_is_told_as_it_was_said(text):
    assert forms_of(text) == [text]


def test_a_question_is_never_told_as_a_statement():
    text = "Did the ship Vega sail to Hanko, because the harbour of Oulu is full?"
    assert all(form.endswith("?") for form in forms_of(text))


def test_clipping_never_cuts_inside_a_joined_emoji_or_accent():
    family = "👩‍👩‍👧"
    for limit in range(1, 60):
        clipped = clip(family * 20, limit)
        assert len(clipped) <= limit
        assert clipped.replace(family, "").replace("…", "") in ("", "👩", "👧", "👩‍👧", "👩‍👩")
        assert not clipped.startswith("\u200d")
        assert "\u200d…" not in clipped
