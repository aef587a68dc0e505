"""docs/origins.toml: a row for all that the five systems do, and nothing in it that is not so."""

from collections import Counter
from typing import Any

import pytest

from tests.docs.origins import Document, find_problems, read, rows

pytestmark = pytest.mark.pure


@pytest.fixture
def document() -> Document:
    return read()


def test_everything_it_says_is_there(document: Document) -> None:
    """Every symbol, setting, event, constraint, file and test that it names exists; nothing is held without a test."""
    assert find_problems(document) == []


def test_every_system_has_rows(document: Document) -> None:
    counts = Counter(place.partition(", ")[0] for place, _ in rows(document))
    assert list(counts) == ["stagewise", "@falai/agent", "stud-cli", "Onyx", "Vystak"]
    assert all(count >= 25 for count in counts.values())


@pytest.mark.parametrize(
    ("false", "problem"),
    [
        ({}, None),
        ({"where": ["compaction_app.values.Branch.bass"]}, "compaction_app.values.Branch.bass does not exist"),
        ({"where": ["setting TRIGER_RATIO"]}, "setting TRIGER_RATIO does not exist"),
        ({"tests": ["tests/context/test_budget.py::TestCaps::test_it"]}, "::TestCaps::"),
        ({"differs": ""}, "none of them empty"),
    ],
)
def test_a_row_that_is_not_true_is_found(document: Document, false: dict[str, Any], problem: str | None) -> None:
    row = {
        "there": "a thing",
        "here": "the base",
        "where": ["compaction_app.values.Branch.base", "event started"],
        "tests": ["tests/context/test_budget.py::test_the_trigger_is_capped_for_huge_windows"],
    }
    document["system"][-1]["part"][-1]["row"].append(row | false)
    found = find_problems(document)
    assert len(found) == (1 if problem else 0)
    assert all(str(problem) in one for one in found)


def test_held_wants_a_test(document: Document) -> None:
    document["system"][0]["part"][0]["row"].append({"there": "a thing", "here": "the base"})
    [found] = find_problems(document)
    assert "held, without a name, a place or a test" in found
