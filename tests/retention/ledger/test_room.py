"""How much room a ledger has, what it tells first, and what the next generation carries on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app.messages.transcript import count_summary
from compaction_app.retention.ledger import Kept
from compaction_app.retention.ledger_text import LEDGER_HEADING, ledger_of
from compaction_app.summarizers.prompts import refuse_draft
from compaction_app.values import SummaryDraft
from tests.retention.ledger.ledgers import COUNT, DRAFT, NONCE, keep, message

pytestmark = pytest.mark.pure

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)


class TestPressure:
    """Rules, decisions and preferences of people outlast everything else."""

    rules = (
        "Never write to the county in my name.",
        "Rule for you: never push to main, and keep your hands off the table legacy_guests.",
        "The reserve is not touched before 1 May unless we both say yes.",
        "We decided to keep the old dome.",
        "I prefer plain prose.",
    )
    chatter = (
        "Thirty-one!",
        "WE HAVE IT!",
        "He never does.",
        "Please don't let me order fish.",
        "Birk Aune met Sunniva Hovden at Casa do Lago.",
        "See docs/a_b.md for 2,140 metres and 1,980 steps at 14:00.",
    )

    def test_every_rule_is_told_before_any_chatter(self) -> None:
        text = keep(*self.chatter, *self.rules, *self.chatter, LEDGER_TOKENS=95).text
        assert [rule for rule in self.rules if rule.rstrip(".") not in text] == []

    def test_twenty_generations_of_chatter_cost_no_rule(self) -> None:
        """An entry of the ledger before counts as much as when it was said: the last round loses no more than the
        first."""
        text = keep(*self.rules, LEDGER_TOKENS=95).text
        first = ledger_of(text)
        for number in range(20):
            new = f"Guest{number} Berg{number} took {number + 3} boats to Port{number} for {number}40 kroner."
            text = keep(*self.chatter, new, previous=text, LEDGER_TOKENS=95).text
            assert [rule for rule in self.rules if rule.rstrip(".") not in text] == []
        assert all(entry in ledger_of(text) for entry in first.removeprefix("user: ").split(" · "))


class TestRules:
    """What somebody wants kept outlasts facts, however it is said; what only sounds like it does not."""

    berths = tuple(f"Berth {n} is {n * 3} m long." for n in range(20, 40))

    @pytest.mark.parametrize(
        "said",
        [
            "The reserve is not touched before 1 May",
            "Write plain prose, no bullet lists unless I ask",
            "The form needs to reach Oda by 12 May",
            "I want the draft on Tuesday at the latest",
            "Please answer in Norwegian",
            "必ず鉛のくさびを使う",
        ],
    )
    def test_a_rule_a_decision_and_a_wish_outlast_facts(self, said: str) -> None:
        assert said in ledger_of(keep(*self.berths[:10], f"{said}.", *self.berths[10:], LEDGER_TOKENS=40).text)

    @pytest.mark.parametrize(
        "said",
        [
            "We had to wait in the rain with the goat",
            "Nobody knows what it is",
            "He never does",
        ],
    )
    def test_what_only_has_words_of_one_does_not(self, said: str) -> None:
        assert said not in keep(*self.berths[:10], f"{said}.", *self.berths[10:], LEDGER_TOKENS=40).text


class TestGenerations:
    def test_the_next_ledger_carries_the_facts_of_the_one_before(self) -> None:
        first = keep("Never push to main.", "Booking SNF-2605-017 is ours.").text
        second = keep("Let us speak of something else.", previous=first).text
        assert ledger_of(second) == ledger_of(first)

    def test_twenty_generations_lose_nothing_that_the_ledger_has_room_for(self) -> None:
        text = ""
        for number in range(20):
            text = keep(
                f"Room {number} is for Guest{number}a Berg{number}, booking XY-{number:04}.",
                previous=text,
                LEDGER_TOKENS=900,
            ).text
        assert all(f"XY-{number:04}" in text for number in range(20))

    def test_a_value_of_the_ledger_goes_once_it_is_replaced(self) -> None:
        first = keep("The budget is 2,000 euros.").text
        second = keep("The budget is 2,400 euros now.", previous=first).text
        assert ledger_of(second) == "user: The budget is 2,400 euros now"

    def test_a_full_tail_does_not_cost_what_the_ledger_had(self) -> None:
        """The tail is over the target for a moment; what is let go is gone for ever."""
        first = keep(*(f"Booking XY-{n:04} is for room {n}." for n in range(40)), LEDGER_TOKENS=800).text
        second = keep("Go on.", previous=first, budget=10, LEDGER_TOKENS=800).text
        assert ledger_of(second).count("XY-") == 40


class TestRoom:
    told = tuple(f"Booking XY-{n:04} is for Guest{n}a Berg{n} in room {n}." for n in range(60))

    def ledger_tokens(self, kept: Kept) -> int:
        return COUNT([f"{LEDGER_HEADING}\n{ledger_of(kept.text)}"])[0] if ledger_of(kept.text) else 0

    def test_it_has_a_fifth_of_the_summarys_target(self) -> None:
        assert 170 <= self.ledger_tokens(keep(*self.told, target=1000)) <= 202

    def test_it_has_what_the_setting_says(self) -> None:
        assert 370 <= self.ledger_tokens(keep(*self.told, LEDGER_TOKENS=400)) <= 402

    def test_nothing_turns_it_off(self) -> None:
        kept = keep(*self.told, LEDGER_TOKENS=0)
        assert kept.text == DRAFT
        assert kept.before is kept.after is None

    def test_the_branch_stays_at_its_target(self) -> None:
        """So that one compaction is not followed by the next; a fifth of the summary's target it always has."""
        tail = [message(100 + n, "Go on.") for n in range(10)]
        kept = keep(*self.told, kept=tail, target=100, budget=900, LEDGER_TOKENS=2000)
        assert 500 + count_summary(kept.text, COUNT) <= 900
        kept = keep(*self.told, kept=tail, target=300, budget=500, LEDGER_TOKENS=2000)
        assert 40 < self.ledger_tokens(kept) <= 60

    def test_the_summary_still_saves_what_it_must(self) -> None:
        kept = keep(*self.told, replaced=300, LEDGER_TOKENS=2000)
        assert ledger_of(kept.text)
        assert count_summary(kept.text, COUNT) <= 270

    def test_where_the_draft_alone_saves_just_enough_there_is_no_ledger(self) -> None:
        replaced = -(-count_summary(DRAFT, COUNT) * 10 // 9)
        assert keep(*self.told, replaced=replaced).text == DRAFT

    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXT, min_size=1, max_size=8), TEXT, st.integers(0, 300), st.integers(100, 700))
    def test_no_ledger_makes_an_accepted_draft_unfit(
        self, told: list[str], previous: str, tokens: int, replaced: int
    ) -> None:
        """Whatever was said: it still saves, and holds neither tags of the wrapper nor the marker."""
        kept = keep(*told, previous=previous, replaced=replaced, LEDGER_TOKENS=tokens)
        refused = refuse_draft(
            SummaryDraft(text=kept.text),
            target_tokens=10_000,
            replaced_tokens=replaced,
            count=COUNT,
            min_chars=30,
            min_saving_ratio=0.1,
            nonce=NONCE,
        )
        alone = count_summary(DRAFT, COUNT) <= 0.9 * replaced
        assert refused is None or not alone
        assert self.ledger_tokens(kept) <= tokens + 2
        assert tokens == 0 or 0 <= kept.before <= kept.after <= 1
