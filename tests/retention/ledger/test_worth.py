"""What is worth its room: which of two things a ledger tells that has room for one."""

from __future__ import annotations

import pytest

from compaction_app.retention.ledger_entries import Entry, read_entries
from compaction_app.retention.meaning import is_field, reads_like_prose
from compaction_app.retention.needs import read_needs
from compaction_app.retention.sayings import NOBODY, Saying
from compaction_app.values import Role
from tests.retention.ledger.ledgers import entries

pytestmark = pytest.mark.pure


def told(text: str, role: str = Role.USER) -> list[Entry]:
    clause = read_needs(Saying(role, text), {})
    return read_entries([clause], {need.key: need for need in clause.needs}, "", lambda form: True)


def weight(text: str, role: str = Role.USER) -> float:
    return sum(entry.weight for entry in told(text, role))


class TestOutlines:
    @pytest.mark.parametrize(
        ("numbered", "plain"),
        [
            ("12.4 The mooring fee is paid to Oda Lien", "The mooring fee is paid to Oda Lien"),
            ("Lamps and sails: 1.4, 2.2, 3.1, 3.7", "Lamps and sails"),
            ("The fee is in the leaflet, see Annex IV", "The fee is in the leaflet, see there"),
            ("The winch is shown in Fig 7 of the leaflet", "The winch is shown in the leaflet"),
        ],
    )
    def test_the_number_of_an_item_adds_next_to_nothing(self, numbered: str, plain: str) -> None:
        assert weight(numbered, NOBODY) - weight(plain, NOBODY) < 1

    @pytest.mark.parametrize(
        ("said", "plain"),
        [
            ("The mast carries 12.4 metres of line", "The mast carries some metres of line"),
            ("We sail from the Table Bay harbour", "We sail from the harbour"),
        ],
    )
    def test_a_figure_and_a_name_are_none(self, said: str, plain: str) -> None:
        assert weight(said, NOBODY) - weight(plain, NOBODY) >= 1

    def test_a_row_of_figures_tells_little(self) -> None:
        assert weight("North 41 52 63", Role.TOOL) < weight("41 52 63 77 is the phone of the north quay", Role.TOOL)

    def test_the_heads_of_columns_rule_nothing(self) -> None:
        assert weight("Boat | Budget | Now") < 1 < weight("Boat | Budget at most 40 | paid")


class TestDocuments:
    @pytest.mark.parametrize(
        "line",
        ["Keys of the boat house: 9 May", "Return of the rented mast + sail: Oda", "Place for the winter: quay four"],
    )
    def test_a_value_behind_a_label_in_words_is_a_field(self, line: str) -> None:
        assert is_field(line)
        assert reads_like_prose(line)

    @pytest.mark.parametrize(
        "line", ["HTTP Status: 200", "Total: 45", "Error at line 7 of it: 12", "if of the: x", "Name of it: {key}"]
    )
    def test_output_is_none(self, line: str) -> None:
        assert not is_field(line)

    def test_its_label_is_told_with_it(self) -> None:
        entry = told("Return of the rented mast and of both of its long sails: 9 May", Role.TOOL)[0]
        assert all(form.startswith("Return of the") for form in entry.forms)

    @pytest.mark.parametrize(
        "line",
        [
            "the hull is set by fit(hull, weights = ship@mast$load, limit = top)",
            "boats <- load the list of boats from the shed",
            "sum(abs(hull)) is the length of the boat in the list",
        ],
    )
    def test_code_is_no_prose(self, line: str) -> None:
        assert not reads_like_prose(line)

    @pytest.mark.parametrize(
        "line", ["the boat (the long one) lies at the quay", "a = b is how the boat lies at the quay now"]
    )
    def test_brackets_and_a_sign_are_no_code(self, line: str) -> None:
        assert reads_like_prose(line)

    def test_a_quotation_in_its_prose_counts_more_than_one_in_code(self) -> None:
        prose = 'The harbour master calls the mast "a broom with ideas"'
        assert weight(prose, Role.TOOL) > 2 * weight('hull <- name("a broom with ideas")', Role.TOOL)

    @pytest.mark.parametrize("rule", ["The mast shall not exceed 14 metres", "Old lines may not be used on deck"])
    def test_what_shall_not_be_is_a_rule(self, rule: str) -> None:
        assert any(need.fact is None for need in read_needs(Saying(Role.TOOL, rule), {}).needs)

    def test_what_may_not_happen_is_none(self) -> None:
        assert not read_needs(Saying(Role.TOOL, "Oda may not come on deck"), {}).needs


class TestCalls:
    def test_the_code_of_a_call_counts_less_than_its_address(self) -> None:
        code = "[tool-run_lisp: code=(load 'boats/mast.lisp)]"
        assert weight(code, Role.TOOL) < weight("[tool-send_mail: to=boats/mast.lisp]", Role.TOOL)


class TestWhatAModelCallsOut:
    @pytest.mark.parametrize(
        ("said", "plain"),
        [
            ("That comes to 4,310 screws for the deck", "There are 4,310 screws for the deck"),
            ("The deck holds 4,310 screws, that goes into the form", "The deck holds 4,310 screws and some tar"),
            ("I'll keep the list of screws at ~/boats/screws.md", "The list of screws is ~/boats/screws.md"),
            ("I've saved the list in ~/boats/screws.md", "Maybe the list is ~/boats/screws.md"),
        ],
    )
    def test_results_and_places_count_like_what_people_say(self, said: str, plain: str) -> None:
        assert weight(said, Role.ASSISTANT) == 2 * weight(plain, Role.ASSISTANT)

    def test_what_it_adds_up_without_a_figure_does_not(self) -> None:
        assert weight("That adds up, Oda Lien has the key", Role.ASSISTANT) == weight(
            "That is odd, Oda Lien has the key", Role.ASSISTANT
        )

    def test_it_outlasts_an_aside_of_its_own(self) -> None:
        said = (Role.ASSISTANT, "There are 7,120 nails in it. That adds up to 4,310 screws.")
        assert entries(said, LEDGER_TOKENS=24) == "assistant: That adds up to 4,310 screws"
