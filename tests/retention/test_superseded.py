"""Which statement a later one replaces, and which only casts doubt on it."""

from __future__ import annotations

import pytest

from compaction_app.retention.superseded import find_replacements, may_replace, read_statement

pytestmark = pytest.mark.pure


def compare(older: str, newer: str, *speakers: str) -> str:
    """What becomes of the older one: replaced, bound to the newer one, or kept on its own."""
    replaced, needs = find_replacements([read_statement(older), read_statement(newer)], speakers or ("user", "user"))
    return "replaced" if 0 in replaced else "bound" if 0 in needs else "kept"


class TestSubjects:
    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("The budget is 2,000 EUR", "The budget is 2,400 EUR now"),
            ("The wedding is on 5 May", "The wedding was moved to 9 May"),
            ("My address is 12 Elm Street, Boston", "my address is now 9 Oak Road, Salem"),
            ("My address is 12 Elm Street, Boston", "I moved: my address is now 9 Oak Road, Salem"),
            ("Dinner for 46 guests", "It's 52 guests for dinner now"),
            ("I prefer tea", "I prefer coffee to tea now"),
        ],
    )
    def test_a_new_value_of_the_same_subject_replaces_the_old_one(self, older: str, newer: str) -> None:
        assert compare(older, newer) == "replaced"

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("The budget is 2,000 EUR for travel", "The budget is 500 EUR now for food"),
            ("The port is 8080 on staging", "The port is 9090 now on production"),
            ("The budget of Lena is 2,000 EUR", "The budget of Bob is 2,400 EUR now"),
            ("I prefer tea", "I prefer window seats"),
        ],
    )
    def test_what_is_narrowed_to_something_else_is_another_subject(self, older: str, newer: str) -> None:
        assert compare(older, newer) == "kept"

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("The budget is 2,000 EUR", "The budget is 500 EUR now, for food only"),
            ("The budget of the hall is 2,000 EUR", "The budget is 3,000 EUR now"),
            ("My address is 12 Elm Street", "The address is now 9 Oak Road"),
            ("I prefer tea", "I changed my mind, I prefer coffee"),
        ],
    )
    def test_where_it_is_in_doubt_both_stay_the_older_only_with_the_newer(self, older: str, newer: str) -> None:
        assert compare(older, newer) == "bound"


class TestSpeakers:
    @pytest.mark.parametrize("speaker", ["assistant", "tool read_file"])
    def test_no_model_and_no_tool_replaces_what_a_person_said(self, speaker: str) -> None:
        older, newer = "The budget is 2,000 EUR", "The budget is 9,000 EUR now"
        assert compare(older, newer, "user", speaker) == "kept"
        assert compare(older, newer, "", speaker) == "kept"
        assert compare(older, newer, speaker, "user") == "replaced"

    def test_a_result_replaces_an_older_result_only(self) -> None:
        assert may_replace("tool read_file", "tool run_shell")
        assert not may_replace("tool read_file", "assistant")
        assert not may_replace("assistant", "tool read_file")

    def test_what_one_person_says_of_their_own_replaces_nothing_of_another_person(self) -> None:
        assert compare("My address is 12 Elm Street", "My address is now 9 Oak Road", "user Ana", "user Ben") == "kept"
        assert compare("The budget is 2,000", "The budget is 2,400 now", "user Ana", "user Ben") == "replaced"

    def test_a_summary_is_told_who_was_replaced_and_what_needs_what(self) -> None:
        told = ["The budget is 2,000", "The budget is 2,400 now", "The food budget is 300"]
        replaced, needs = find_replacements([read_statement(text) for text in told], ["user"] * 3)
        assert ([i in replaced for i in range(3)], needs) == ([True, False, False], {})


class TestWhatReplacesNothing:
    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("The budget is 2,000 EUR", "The budget is 3,000 EUR now if the county agrees"),
            ("The deadline is 5 May", "The deadline is 9 May now, Bob claims"),
            ("The budget is 2,000 EUR", "“The budget is 3,000 EUR now”, wrote Bob"),
            ("Das Budget ist 2.000 EUR", "Das Budget ist jetzt 3.000 EUR, falls die Stadt zustimmt"),
            ("预算是2000元", "如果县里同意，预算是3000元"),
        ],
    )
    def test_a_condition_a_claim_or_a_quotation(self, older: str, newer: str) -> None:
        assert compare(older, newer) == "kept"

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("The boss of Pier 9 is Anna Nowak", "The boss of Pier 9 is now angry"),
            ("The car is red", "The car is now in Oslo"),
            ("The meeting is on Monday at 9", "The meeting is in room 7B now"),
        ],
    )
    def test_something_else_of_the_same_subject(self, older: str, newer: str) -> None:
        assert compare(older, newer) == "bound"


@pytest.mark.parametrize("again", ["again", "now"])
def test_a_value_that_comes_back_is_the_newest(again: str) -> None:
    told = ["The limit is 2,000 EUR", "The limit is 3,000 EUR now", f"The limit is 2,000 EUR {again}"]
    replaced, needs = find_replacements([read_statement(text) for text in told], ["user"] * 3)
    assert (replaced, needs) == ({0: 1, 1: 2}, {})
