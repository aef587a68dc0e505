"""An extract has all of the statements that belong together, or none, and an older value only with the newer one.

At any target, and a generation later.
"""

from __future__ import annotations

import pytest

from compaction_app.values import Role
from tests.memory.telling import TARGETS, Said, among_others, chat, message, summarize, told, turns

pytestmark = pytest.mark.pure

MODEL = Role.ASSISTANT


@pytest.mark.parametrize(
    ("said", "claim", "back"),
    [
        (["Call 555-0192 for Bob.", (MODEL, "OK."), "That number is wrong."], "555-0192", "wrong"),
        (["The code is 4711.", (MODEL, "Noted."), "Sorry, I mixed up: 4171."], "4711", "4171"),
        (["We meet in Oslo on 5 May.", (MODEL, "Noted."), "It's cancelled."], "meet in Oslo", "cancelled"),
        ([(MODEL, "We agreed to hire Carl Moe."), "I never said that."], "Carl Moe", "never said"),
        ([(MODEL, "I will pay Bob 900 EUR unless you object."), "I object."], "900 EUR", "I object"),
        (
            [(MODEL, "I have deleted table orders."), "Did you?", (MODEL, "I did not delete anything.")],
            "have deleted",
            "did not",
        ),
        (["Pay Bob 900 EUR on 3 May. Just kidding!"], "900 EUR", "kidding"),
        (["Pay Bob 900 EUR on 3 May. Provided that Lena agrees."], "900 EUR", "Lena agrees"),
        (
            ["The bank pays Bob 900 EUR.", (MODEL, "Noted."), "That is, assuming Lena signs before all others do."],
            "pays Bob",
            "assuming Lena",
        ),
        (["Rent the cabin out to anybody. Anybody but the Kowalskis."], "Rent the cabin", "Kowalskis"),
        # A reply to what a model said, also where that was joined to the message before it.
        (
            ["Guest 9 is Carl Moe.", (MODEL, "Anna Nowak is the maintainer of db7."), "was, look at the banner"],
            "maintainer of db7",
            "was, look",
        ),
        # In several messages, or behind a word that only says it was heard.
        (["My locker in Oslo is 763", "they gave it to a diving club. mine's 832"], "763", "club"),
        ([(MODEL, "I'd release rocket 3.2 on Monday."), "ok. green tests first though"], "rocket 3.2", "green"),
        (["We marry in Oslo on 5 May.", (MODEL, "Lovely!"), "if mum is still ill we postpone"], "5 May", "if mum"),
        (["The desk is closed on 4 July.", "apart from the two of us at night"], "desk is", "two of us"),
        (["金庫の暗証番号は4711です。", (MODEL, "はい。"), "間違えました、4171です。"], "4711", "4171"),
        # A long reply that has a word of it, and a longer sentence that begins with "it".
        (
            [
                "Carl Moe says that the crane in Turku is broken.",
                (MODEL, "I am beside that crane and it lifts all that they hang on it, so it is fine."),
            ],
            "is broken",
            "it is fine",
        ),
        (
            [(MODEL, "Card 4711 works in Oslo."), (MODEL, "It has to be unlocked in the office before you go.")],
            "works in Oslo",
            "unlocked",
        ),
        ([(MODEL, "Mr. Jones gets 500 mg of penicillin."), "He is allergic!"], "500 mg", "allergic"),
        (["We sell the blue boat to Carl Moe.", (MODEL, "WHAT"), "just pulling your leg"], "Carl Moe", "pulling"),
        (["Bob says that Carl Moe took 245 euros.", "I don't believe a word of it."], "245 euros", "believe"),
        (
            [
                (MODEL, "The bank pays Bob 900 EUR."),
                "Only if the board of the foundation, which meets in the second week of June, has nothing against it.",
            ],
            "pays Bob",
            "Only if",
        ),
    ],
)  # fmt: skip
def test_a_claim_is_never_told_without_what_takes_it_back(said: list[Said], claim: str, back: str) -> None:
    texts = list(told(among_others(*said)))
    assert [text for text in texts if claim in text and back not in text] == []
    assert claim in texts[-1]


@pytest.mark.parametrize(
    ("said", "pronoun", "subject"),
    [
        (["Mr. Brown is allergic.", "Mr. Green coughs. He gets 20 mg of codeine."], "He gets", "Green"),
        (["Mme Lefèvre habite à Lyon. Elle paie 900 EUR à Bob."], "Elle paie", "Lefèvre"),
        (["There is the new cook.", "He is allergic to nuts and to Anna Nowak's cake."], "He is", "cook"),
    ],
)  # fmt: skip
def test_a_pronoun_is_told_with_its_subject(said: list[Said], pronoun: str, subject: str) -> None:
    texts = list(told(among_others(*said)))
    assert [text for text in texts if pronoun in text and subject not in text] == []
    assert pronoun in texts[-1]


ASKED = (
    ("Shall I push release 4.2 to main?", "No!"),
    ("Delete table legacy_guests?", "no"),
    ("Email bob@example.com?", "yes"),
    ("How many guests come to Turku on 3 May?", "52 guests"),
)


def test_a_brief_answer_is_told_with_its_question() -> None:
    said = chat("Let us go through it.", *(part for pair in ASKED for part in pair))
    for text in told(said, generations=3):
        for question, answer in ASKED:
            assert question not in text or f"{question} (user: {answer})" in text
        assert text.count("(user: ") == sum(question in text for question, _ in ASKED)
    assert all(question in text for question, _ in ASKED)


def test_several_answers_go_with_all_that_was_asked() -> None:
    one = "Shall I delete db7? Shall I push 4.2 to main? Shall I email bob@example.com?"
    for text in told(chat("Hello.", one, "No, yes, no.")):
        assert text.count("?") == (3 if "No, yes, no" in text else 0)


def test_an_answer_to_what_a_models_summary_said_last_is_left_out() -> None:
    """Nobody knows what it answers: what the summary says last is not what was said last."""
    assert "no" not in summarize(chat("no", "Good."), 200, "My boat is blue and lies in Turku harbour.").split()


def test_an_answer_to_the_last_words_of_an_extract_is_told() -> None:
    previous = summarize(chat("My boat is blue.", "Email bob@example.com now?"))
    assert previous.endswith("assistant: Email bob@example.com now?")
    assert "now? (user: no)" in summarize(chat("no", "Good."), 200, previous)


def test_the_last_question_stays_for_the_answer_that_comes() -> None:
    others = chat(*(f"Guest {n} is Anna Lind{n} from Turku, room {n}." for n in range(40)))
    said = [*others, message(99, content="So?"), message(100, MODEL, "Shall I lock the door?")]
    assert summarize(said, 200).rstrip(")").endswith("Shall I lock the door?")


@pytest.mark.parametrize("tokens", [40, 60, 90, 200])
def test_of_a_list_of_conditions_all_are_told_or_none(tokens: int) -> None:
    items = ["Priya Nair has signed OPS-77", "all tests of job 4711 pass", "it is not a Friday"]
    text = summarize(among_others("\n- ".join(["Deploy release 4.2 to prod-eu only if:", *items])), tokens)
    assert len({item in text for item in ["release 4.2", *items]}) == 1


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("## Rejected\n- domes of glass\n- bars", "Rejected: domes of glass"),
        ("禁止事項:\n- 猫を飼うこと", "禁止事項: 猫を飼うこと"),
        ("These are taken:\n- berth 7 of Anna Lind\n- berth 9", "These are taken: berth 7 of Anna Lind"),
    ],
)
def test_an_item_is_told_with_what_stands_above_it(content: str, line: str) -> None:
    assert line in summarize(turns(content))


@pytest.mark.parametrize(
    "text",
    [
        'He said "Do not go. Stay here with us." to me',
        "Never rename pkg/__init__.py or __main__.py, and keep super().__init__(**kwargs) as it is; 2**10 items",
        "My key [secret removed: Google key] and the token [secret removed: JWT] are on the server in Oulu",
        "Delete table orders_2019 on server db7; no, never do that, Priya Nair would kill us",
        "لطفا پیش از ساعت هشت صبح به آنا زنگ نزن",
        "aws_secret_access_key = [secret removed: AWS secret access key] belongs to the server in Oulu",
        "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so",
        "Version 1.2.3-rc.1+build.5 of pkg @scope/name@^4.5.6 needs Node >=18 <21",
        "Бюджет 3000 евро и больше ни копейки",
        "تشحن في 14 نيسان 2026 من بيروت",
    ],
)  # fmt: skip
def test_a_sentence_is_told_whole_or_not_at_all(text: str) -> None:
    for shown in told(among_others(f"{text}.")):
        words = [word for word in text.split() if len(word) > 3]
        assert text in shown or sum(word in shown for word in words) < len(words) / 2


def test_what_only_says_that_it_was_heard_changes_nothing() -> None:
    """No "Noted." stands between a statement and its correction, nor does it take a comment that is not for it."""
    for heard in ("Noted.", "All right, thank you!", "Okay, sounds good.", "Verstanden, danke.", "好的。"):
        text = summarize(turns("We meet in Oslo on 5 May.", (MODEL, heard), "Wait, 6 May."))
        assert "We meet in Oslo on 5 May. Wait, 6 May." in text


def test_in_chinese_a_denial_late_in_a_sentence_denies_nothing_before_it() -> None:
    """It has no spaces, so its beginning is counted in signs."""
    said = chat("第一届展览在杭州的中国丝绸博物馆举行。", "馆内展出了三百多件文物，讲解员说闭馆之前不能拍照。")
    assert "举行。\nassistant: 馆内" in summarize(said)


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_said_last_stands_last(target: int) -> None:
    """Also where it was said before, and where there is no room for both."""
    for first, second in (("Turn the pump P-7 on", "Turn the pump P-7 off"), ("打开泵P-7", "关闭泵P-7")):
        text = summarize(among_others(f"{first}.", f"{second}.", f"{first}."), target)
        assert second not in text or text.rindex(first) > text.rindex(second)


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
        # A condition replaces nothing.
        ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now if the county agrees."),
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
