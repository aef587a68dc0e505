"""What makes one part of a sentence depend on another, in every language that sentences are shortened in."""

import pytest

from compaction_app.retention.cautions import is_cautioned, is_reply, takes_back

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "text",
    [
        "Pay Bob until Friday",
        "She hasn't paid",
        "Jonas thinks that Leila paid",
        "We used to pay 25 EUR",
        "Zahle 5 Euro, aber bar",
        "Kaum bezahlt",
        "Il n'a payé",
        "Payez jusqu'à midi",
        "Paga hasta mañana",
        "Pague até amanhã",
        "Paga finché puoi",
        "Betaal tenzij Lena tekent",
        "Плати, пока можно",
        "ادفع حتى الغد",
        "除非莉娜签字",
        "金曜日まで払う",
        "금요일까지 지불",
    ],
)
def test_limits_doubts_and_contrasts_are_seen(text):
    assert is_cautioned(text)


@pytest.mark.parametrize(
    "text", ["Pay Bob 5 EUR on 3 May", "Wir zahlen 5 Euro an Anna", "Le train de Lyon est en gare", "我们去北京"]
)
def test_a_plain_statement_has_none(text):
    assert not is_cautioned(text)


@pytest.mark.parametrize(
    ("text", "back", "reply"),
    [
        ("No, never do that", True, True),
        ("no", True, True),
        ("Nein!", True, True),
        ("Yes please", False, True),
        ("Not before Lena signs", True, False),
        ("But only in Oslo", True, False),
        ("Unless it rains", True, False),
        ("Never do that", True, False),
        ("No silicone anywhere on the lantern", False, False),
        ("Never book a layover in Frankfurt", False, False),
        ("Nobody came", False, False),
        ("Stop sending invoices", False, False),
        ("Noted", False, False),
    ],
)
def test_what_takes_back_and_what_replies_begins_with_it(text, back, reply):
    assert (takes_back(text), is_reply(text)) == (back, reply)
