"""A ledger keeps the order of saying: what is newer, what lifts, takes back or frames what was said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from compaction_app.retention.ledger_text import ledger_of
from compaction_app.values import Role
from tests.retention.ledger.ledgers import DRAFT, entries, keep, message, tell

pytestmark = pytest.mark.pure


class TestTime:
    """What matters most decides what is told; it is told in the order in which it was said."""

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("46 guests for dinner, the ones without a bed go home by boat", "It's 52 guests for dinner now, six more"),
            ("The couple sleeps in Krykkje, top floor", "so the couple moves to Teist"),
            ("I prefer tea", "I prefer coffee"),
            ("She runs out to us on Thursdays with gas", "He comes out to us on Tuesdays from next week"),
        ],
    )
    def test_the_newer_of_two_values_comes_after_the_older_in_every_generation(self, older: str, newer: str) -> None:
        text = keep(f"{older}.", "Never sand the mast.", f"{newer}.").text
        for _ in range(4):
            assert 0 < ledger_of(text).find(older) < ledger_of(text).find(newer)
            text = keep("Go on.", previous=text).text

    @pytest.mark.parametrize("tokens", [14, 18, 22, 26, 30, 40, 60])
    def test_no_old_value_is_told_without_its_newer_one(self, tokens: int) -> None:
        told = ["46 guests for dinner in the hall.", "Never sand the mast.", "It's 52 guests for dinner now, six more."]
        ledger = ledger_of(keep(*told, LEDGER_TOKENS=tokens).text)
        assert "46 guests" not in ledger or "52 guests" in ledger

    def test_an_old_value_leaves_with_its_newer_one_in_whatever_generation_the_room_ends(self) -> None:
        makes = message(2, "Lamp room 214,000 plus 24,500 for the prism makes 238,500.", Role.ASSISTANT)
        text = keep("Lamp room 214,000. Museum 148,000.", makes, "Never sand the mast.", LEDGER_TOKENS=120).text
        assert "238,500" in text
        for tokens in (110, 90, 70, 50, 40, 30, 25, 20):
            text = keep("Go on.", previous=text, LEDGER_TOKENS=tokens).text
            assert "214,000" not in text or "238,500" in text
        assert "238,500" not in text

    def test_a_newer_value_that_the_summary_tells_is_told_again_behind_the_old_one(self) -> None:
        told = ["46 guests for dinner, the ones without a bed go home by boat.", "It's 52 guests for dinner now."]
        text = keep(*told, draft=f"{DRAFT} It's 52 guests for dinner now.").text
        assert "46 guests" not in text or text.rindex("46 guests") < text.rindex("52 guests")

    def test_what_is_said_of_today_keeps_its_day(self) -> None:
        told = message(1, "Never open the hatch tonight.", created_at=datetime(2026, 3, 30, 12, tzinfo=UTC))
        text = keep(told).text
        for _ in range(3):
            assert ledger_of(text).count("2026-03-30") == 1
            text = keep("Go on.", previous=text).text


class TestLifting:
    @pytest.mark.parametrize(
        ("told", "lifted"),
        [
            (("Never email Bob Berg.", "You may email Bob Berg again."), "You may email Bob Berg again"),
            (("Never push on Fridays.", "Well, this Friday you may push."), "this Friday you may push"),
            (("Our server is db7.", "Our server is db8 now.", "We went back to db7."), "We went back to db7"),
        ],
    )  # fmt: skip
    def test_what_lifts_an_older_entry_is_told_behind_it_or_neither_is(
        self, told: tuple[str, ...], lifted: str
    ) -> None:
        text = tell(*told)
        for _ in range(3):
            assert ledger_of(text).endswith(lifted)
            text = tell("That was a nice walk.", previous=text)
        tight = entries(*told, LEDGER_TOKENS=22)
        assert not tight or lifted in tight

    def test_what_says_the_opposite_of_another_subject_lifts_nothing(self) -> None:
        assert entries("Never email Bob Berg.", "You may delete the logs of db7.").startswith(
            "user: Never email Bob Berg"
        )
        assert entries("Never email Bob Berg.", "You may call Lena.", LEDGER_TOKENS=16) == "user: Never email Bob Berg"

    def test_no_model_lifts_what_a_person_forbade(self) -> None:
        told = ["Never email Bob Berg.", ("a", "You may email Bob Berg again.")]
        assert entries(*told) == "user: Never email Bob Berg"

    def test_the_newest_of_three_values_is_told_even_if_it_is_the_oldest_again(self) -> None:
        told = ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now.", "The budget is 2,000 EUR again.")
        assert entries(*told) == "user: The budget is 2,000 EUR again"
        told = ("The door code is 4711.", "The door code is 8222 now.", "The door code is 4711 once more.")
        assert entries(*told) == "user: The door code is 4711 once more"

    def test_of_a_list_of_conditions_all_are_told_or_none(self) -> None:
        items = ["Priya Nair has signed OPS-77", "all tests of job 4711 pass", "it is not a Friday"]
        told = "\n- ".join(["Deploy release 4.2 to prod-eu only if:", *items])
        for tokens in range(20, 120, 10):
            ledger = entries(told, LEDGER_TOKENS=tokens)
            assert not ledger or all(item in ledger for item in items)
        assert ledger


class TestTakingBack:
    ORDER = "Delete the server db7 in Oslo and pay Bob Berg 900 EUR on 5 May."

    @pytest.mark.parametrize(
        "told",
        [
            (f"{ORDER} Just kidding!",),
            (f"{ORDER} Provided that Lena agrees.",),
            (ORDER, "Wait, no."),
            ("Call 555-0192 for Bob Berg in Oslo.", ("a", "OK."), "That number is wrong."),
            ("The budget is 3,000 EUR now.", "Scrap that, keep the old one."),
            (("a", "I will pay Bob Berg 900 EUR on 5 May unless you object."), "I object."),
            (("a", "So the deadline is 5 May and you never want to see Oslo again?"), "Nonsense."),
            ("密码是4711。", "不对，是4171。"),
        ],
    )  # fmt: skip
    def test_what_is_taken_back_is_told_with_what_takes_it_back_or_not_at_all(self, told: tuple[Any, ...]) -> None:
        last = told[-1] if isinstance(told[-1], str) else told[-1][1]
        back = last.removeprefix(self.ORDER).strip().rstrip(".!。")
        first = told[0] if isinstance(told[0], str) else told[0][1]
        for tokens in (20, 30, 45, 60, 300):
            ledger = entries(*told, LEDGER_TOKENS=tokens)
            assert not ledger or (back in ledger and first.split(" ", 1)[0].rstrip(".。") in ledger)
        again = ledger_of(tell("That was a nice walk.", previous=tell(*told)))
        assert back in again

    def test_an_answer_to_a_model_stands_behind_what_it_answers(self) -> None:
        ledger = entries(("a", "Shall I push release 4.2.1 to main?"), "No!")
        assert ledger == "assistant: Shall I push release 4.2.1 to main? (user: No!)"

    def test_a_value_that_was_taken_back_replaces_nothing(self) -> None:
        told = ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now.", "Scrap that, keep the old one.")
        assert entries(*told) == (
            "user: The budget is 2,000 EUR · The budget is 3,000 EUR now. Scrap that, keep the old one"
        )


class TestFrames:
    @pytest.mark.parametrize(
        "said",
        [
            "Jonas is absolutely convinced, and has told everyone here, that Leila Brandt stole 500 EUR on 3 May",
            "Suppose for a moment that we win the lottery in June: then we buy the dome of Pier 9 for 168,000 NOK",
            "Under the old contract of the county with the harbour the fee is 30 EUR and the deadline is 5 May",
        ],
    )
    @pytest.mark.parametrize("tokens", [20, 30, 45, 300])
    def test_no_excerpt_begins_inside_what_a_frame_governs(self, said: str, tokens: int) -> None:
        ledger = entries(f"{said}.", LEDGER_TOKENS=tokens)
        assert not ledger or ledger.startswith(f"user: {said[:20]}")
