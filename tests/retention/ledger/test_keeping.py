"""What a ledger tells of what the summary lost: whole statements, by how much they matter, in any language."""

from __future__ import annotations

import pytest

from compaction_app.retention.ledger import Kept
from compaction_app.retention.ledger_text import LEDGER_HEADING, ledger_of
from compaction_app.values import Role
from tests.retention.ledger.ledgers import DRAFT, entries, keep, message

pytestmark = pytest.mark.pure


class TestContent:
    def test_what_the_summary_lost_stands_at_its_end(self) -> None:
        kept = keep("Never push to main.", "Booking SNF-2605-017 is ours.")
        assert kept.text == f"{DRAFT}\n\n{LEDGER_HEADING}\nuser: Never push to main · Booking SNF-2605-017 is ours"
        assert (kept.before, kept.after) == (0, 1)

    def test_what_the_summary_tells_is_not_told_again(self) -> None:
        kept = keep("Never push to main.", "Booking SNF-2605-017 is ours.", draft=f"{DRAFT} Booking: SNF-2605-017.")
        assert "SNF" not in ledger_of(kept.text)
        assert (kept.before, kept.after) == (0.5, 1)

    def test_a_summary_that_lost_nothing_has_no_ledger(self) -> None:
        kept = keep("That was a nice walk.")
        assert kept == Kept(DRAFT, 1, 1)

    def test_a_tight_ledger_tells_the_most_important_first(self) -> None:
        told = ["Never sand the mast of the boat.", message(2, "Two coats take 750 ml of varnish.", Role.ASSISTANT)]
        kept = keep(*told, LEDGER_TOKENS=20)
        assert ledger_of(kept.text) == "user: Never sand the mast of the boat"
        assert 0 < kept.after < 1

    def test_reasoning_is_never_told(self) -> None:
        thought = [{"type": "thinking", "thinking": "The key is SNF-2605-017."}]
        assert keep(message(1, "Well.", Role.ASSISTANT, reasoning=thought)).text == DRAFT

    def test_a_rule_said_twice_is_told_once_and_another_one_too(self) -> None:
        rules = [
            "Never enter room 4 with wet boots.",
            "And never enter room 4 with wet boots!",
            "Never enter room 5 with wet boots.",
        ]
        ledger = ledger_of(keep(*rules).text)
        assert ledger.count("room 4") == ledger.count("room 5") == 1


class TestExcerpts:
    @pytest.mark.parametrize("tokens", [30, 60, 200])
    @pytest.mark.parametrize(
        "said",
        [
            "aws_secret_access_key = [secret removed: AWS secret access key] belongs to the server in Oulu",
            "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so",
            "Nobody believes that, as Anna Lind said in May, the ship Vega carries 3 tons of coal",
            "Nikdy nevolej Anně Novákové před osmou hodinou ranní",
        ],
    )
    def test_none_says_the_opposite_or_ends_inside_a_bracket(self, said: str, tokens: int) -> None:
        ledger = ledger_of(keep(f"{said}.", LEDGER_TOKENS=tokens).text)
        assert ledger in ("", f"user: {said}")
        assert ledger or tokens < 60


class TestWhatCounts:
    def test_the_messages_from_cutoff_to_anchor_hold_what_they_say(self) -> None:
        tail = message(5, "As I said, booking SNF-2605-017.")
        assert keep("Booking SNF-2605-017 is ours.", kept=[tail], anchor_depth=5).text == DRAFT

    def test_a_message_after_the_anchor_decides_nothing(self) -> None:
        """Another branch shares the summary and not that message."""
        tail = message(5, "As I said, booking SNF-2605-017.")
        assert "SNF-2605-017" in keep("Booking SNF-2605-017 is ours.", kept=[tail], anchor_depth=4).text

    def test_the_pinned_message_holds_what_it_says(self) -> None:
        pin = message(3, "Fix booking SNF-2605-017.")
        assert keep("Booking SNF-2605-017 is ours.", pinned=pin).text == DRAFT

    def test_a_value_that_was_replaced_is_let_go_and_the_new_one_kept(self) -> None:
        kept = keep("The budget is 2,000 euros.", "Noted.", "The budget is 2,400 euros now.")
        assert ledger_of(kept.text) == "user: The budget is 2,400 euros now"

    def test_a_draft_with_the_old_value_gets_the_new_one(self) -> None:
        """No superseded value without its newer one, and the newer one comes first."""
        told = ["The budget is 2,000 euros.", "Never sand the mast.", "The budget is 2,400 euros now."]
        kept = keep(*told, draft=f"{DRAFT} The budget is 2,000 euros.", LEDGER_TOKENS=22)
        assert ledger_of(kept.text) == "user: The budget is 2,400 euros now"


class TestIdentifiers:
    @pytest.mark.parametrize(
        "said",
        [
            "Version 1.2.3-rc.1+build.5 of pkg @scope/name@^4.5.6 needs Node >=18 <21",
            "The lamp has the number 123e4567-e89b-12d3-a456-426614174000 and the bus 00:1A:2B:3C:4D:5E",
        ],
    )
    def test_none_is_cut(self, said: str) -> None:
        assert entries(f"{said}.") == f"user: {said}"
        for tokens in (20, 30, 45):
            assert entries(f"{said}.", LEDGER_TOKENS=tokens) in ("", f"user: {said}")


class TestLanguages:
    @pytest.mark.parametrize(
        ("told", "fact"),
        [
            ("يجب ألا توضع شموع حقيقية في الفوانيس. تشحن في 14 نيسان 2026 من بيروت.", "14 نيسان 2026"),
            ("Бюджет 3000 евро. Никогда не звоните утром.", "Никогда не звоните утром"),
        ],
    )
    def test_facts_of_any_language_are_kept(self, told: str, fact: str) -> None:
        assert fact in ledger_of(keep(told).text)
