"""Where a sentence ends, where it begins, and which of its parts may stand alone."""

import pytest

from compaction_app.retention.sentences import split_clauses

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "text",
    [
        ">= 900 EUR needs the signature of Lena",
        "> 80 °C is dangerous for pump P-7",
        "- 5 °C is what the cellar needs",
        "Well 7 must never be opened",
        "ok 12 - login works",
        "3. Stock ist gesperrt",
        "5. 6. 2026 um 10 Uhr in Köln",
        "Wir treffen uns am Fr., 5. 6. 2026, um 10 Uhr in Köln",
        "Treffen am 5.6. um 11 Uhr, am Montag",
        "Heinrich VIII. hatte sechs Frauen",
    ],
)
def test_a_beginning_a_date_and_a_rank_stay_whole(text):
    assert [clause for clause, _ in split_clauses(f"{text}.")] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "You may delete the table on db7, and you have to ask Priya for a backup first",
        "The contract K-77 runs to 2030, and we have terminated it as of 5 May",
        "You may delete the table, and the approval of Priya is required",
        "The fee is 30 EUR, and the fee is waived in May",
        "According to Bob, the fee is 30 EUR and the deadline is 5 May",
        "Under the old contract the fee is 30 EUR and the deadline is 5 May",
        "In the film, the bank is robbed and the hero is shot on 3 May",
        "In the film the bank of Oslo is robbed; the hero Bob is shot on 3 May",
        "Delete the table of orders; ask Priya before that",
        "Laut Herrn Weber kostet es 30 Euro; die Frist ist der 5. Mai",
        "On dit partout que la clé est volée; le contrat est signé à Oslo",
        "Dicen que la llave está perdida; el plazo es el 5 de mayo",
    ],
)
def test_what_could_turn_or_frame_the_rest_stays_with_it(text):
    assert [clause for clause, _ in split_clauses(f"{text}.")] == [text]


@pytest.mark.parametrize(
    "back",
    [
        "This is wrong", "It is a lie", "It's cancelled", "That was a test", "Just kidding!", "I take that back",
        "On reflection, keep it", "Sorry, I mixed up the digits: 4171", "Oh wait, 6 May", "Jonas Lian is the exception",
        "First make a backup", "Provided that Lena agrees", "Das nehme ich zurück", "Stimmt nicht", "C'est faux",
        "Eso no es cierto", "Mejor no", "Неправда", "هذا خطأ",
    ],
)  # fmt: skip
def test_what_takes_back_is_one_with_what_it_takes_back(back):
    said = f"Bob pays 900 EUR on 3 May. {back}"
    assert [clause for clause, _ in split_clauses(said)] == [said]


@pytest.mark.parametrize("assent", ["That's true", "That is right", "It is green and blue", "This works for Anna"])
def test_an_assent_takes_nothing_back(assent):
    assert len(list(split_clauses(f"Bob pays 900 EUR on 3 May. {assent}."))) == 2


def test_a_number_of_a_list_stays_where_it_tells_which_answer_it_is():
    assert [c for c, _ in split_clauses("1. Shall I delete db7?\n2. We go to Oslo by train.\n3. no")] == [
        "1. Shall I delete db7?",
        "We go to Oslo by train",
        "3. no",
    ]
