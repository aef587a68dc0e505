"""What belongs together is told together or not at all: at any target, and a generation later."""

from __future__ import annotations

import json

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
        (["We meet in Oslo on 5 May.", (MODEL, "Noted."), "Oh wait, 6 May."], "meet in Oslo", "6 May"),
        ([(MODEL, "The capital is Sydney."), "That's not true."], "Sydney", "not true"),
        ([(MODEL, "We agreed to hire Carl Moe."), "I never said that."], "Carl Moe", "never said"),
        ([(MODEL, "I will delete table orders."), "Halt, warte!"], "orders", "warte"),
        ([(MODEL, "I will pay Bob 900 EUR unless you object."), "I object."], "900 EUR", "I object"),
        ([(MODEL, "So the deadline is 5 May?"), "Nonsense."], "5 May?", "Nonsense"),
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
        (["保险柜的密码是4711。", (MODEL, "好的。"), "不对，是4171。"], "4711", "4171"),
        ([(MODEL, "Mr. Jones gets 500 mg of penicillin."), "He is allergic!"], "500 mg", "allergic"),
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
        (["The red car is Anna's. The blue car belongs to Carl Moe. It must stay in Oslo."], "It must", "blue car"),
        (["Frau Weber wohnt in Köln. Sie zahlt 900 Euro an Bob."], "Sie zahlt", "Weber"),
        (["Mme Lefèvre habite à Lyon. Elle paie 900 EUR à Bob."], "Elle paie", "Lefèvre"),
        (["Room 7 of Anna has two windows. Never paint it before 5 May."], "paint it", "Room 7"),
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
    many = "1. Shall I delete db7?\n2. Shall I push 4.2?\n3. Shall I email bob@example.com?"
    for text in told(chat("Hello.", many, "1. no\n2. yes\n3. no")):
        assert text.count("?") == 3 * text.count("(user: 1. no) (user: 2. yes) (user: 3. no)")


def test_the_same_question_keeps_its_newest_answer() -> None:
    text = summarize(chat("Hello.", "Deploy to Oulu?", "no", "Deploy to Oulu?", "yes", "Deploy to Oulu?", "no"))
    assert text.endswith("Deploy to Oulu? (user: no)")


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
        "Wir treffen uns im 2. Stock, z. B. um 14.30 Uhr, bei der Fa. Müller GmbH, Nr. 7, St. Gallen",
        "The plant no. 7 of Dr. Virtanen is 3.5 km away",
        "My key [secret removed: Google key] and the token [secret removed: JWT] are on the server in Oulu",
        "Delete table orders_2019 on server db7; no, never do that, Priya Nair would kill us",
        "You may delete the table on db7, and you have to ask Priya for a backup first",
        "لطفا پیش از ساعت هشت صبح به آنا زنگ نزن",
        "aws_secret_access_key = [secret removed: AWS secret access key] belongs to the server in Oulu",
        "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so",
        "Jonas is absolutely convinced, and has told everyone here, that Leila Brandt stole 500 EUR on 3 May",
        "Version 1.2.3-rc.1+build.5 of pkg @scope/name@^4.5.6 needs Node >=18 <21",
        "Nikdy nevolej Anně Novákové před osmou hodinou ranní",
        "Бюджет 3000 евро и больше ни копейки",
        "تشحن في 14 نيسان 2026 من بيروت",
    ],
)  # fmt: skip
def test_a_sentence_is_told_whole_or_not_at_all(text: str) -> None:
    for shown in told(among_others(f"{text}.")):
        words = [word for word in text.split() if len(word) > 3]
        assert text in shown or sum(word in shown for word in words) < len(words) / 2


@pytest.mark.parametrize("target", [60, 200, 400])
def test_the_values_of_a_record_stand_together(target: int) -> None:
    rows = [{"name": "Anna", "paid": True}, {"name": "Bob", "paid": False}, {"name": "Carl", "paid": True}]
    text = summarize([message(1, Role.TOOL, json.dumps(rows), name="look")], target)
    assert text.endswith("name: Anna, paid: true · name: Bob, paid: false · name: Carl, paid: true")
    assert summarize([], target, text) == text


def test_what_only_says_that_it_was_heard_changes_nothing() -> None:
    """No "Noted." stands between a statement and its correction, nor does it take a comment that is not for it."""
    for heard in ("Noted.", "All right, thank you!", "Okay, sounds good.", "Verstanden, danke.", "好的。"):
        text = summarize(turns("We meet in Oslo on 5 May.", (MODEL, heard), "Wait, 6 May."))
        assert "We meet in Oslo on 5 May. Wait, 6 May." in text


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_said_last_stands_last(target: int) -> None:
    """Also where it was said before, and where there is no room for both."""
    for first, second in (("Turn the pump P-7 on", "Turn the pump P-7 off"), ("打开泵P-7", "关闭泵P-7")):
        text = summarize(among_others(f"{first}.", f"{second}.", f"{first}."), target)
        assert second not in text or text.rindex(first) > text.rindex(second)


def test_numbered_answers_on_one_line_stay_whole() -> None:
    said = [message(1, MODEL, "Shall I delete the archive?\nShall I email Tom?"), message(2, content="1. no 2. yes")]
    assert summarize(said, 400).endswith("(user: 1. no 2. yes)")


def test_a_rule_of_one_word_is_told() -> None:
    said = chat("I'm vegan.", "ok", "What's for dinner at Rosa's on Sunday?")
    assert "I'm vegan" in summarize(said, 300)


def test_an_acknowledgement_is_never_told_whoever_is_named_in_it() -> None:
    said = [
        message(1, content="I painted the boat in Turku.", name="Ana"),
        message(2, MODEL, "Wow, thanks Ana!", name="Melanie"),
        message(3, content="I know, Melanie.", name="Ana"),
    ]
    assert summarize(said).splitlines()[1:] == ["user Ana: I painted the boat in Turku"]


def test_what_a_model_says_after_thanks_is_no_comment_on_what_was_said() -> None:
    said = chat("Never sand the mast of the boat.", day=None)[:1]
    said.append(message(2, MODEL, "Fine. Two coats take 750 ml of varnish."))
    text = summarize(said)
    assert "user: Never sand the mast of the boat\n" in text
    assert "assistant: Two coats take 750 ml" in text
