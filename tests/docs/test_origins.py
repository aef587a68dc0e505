"""docs/origins.md: a row for all that the five systems do, and nothing in it that is not so."""

from collections import Counter

import pytest

from tests.docs.origins import DOCUMENT, NAMES, SECTIONS, find_problems, rows

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text()


def test_everything_it_says_is_there(text: str) -> None:
    """Every symbol, setting, event, constraint, file and test that it names exists; nothing is held without a test."""
    assert find_problems(text) == []


def test_every_system_has_rows(text: str) -> None:
    counts = Counter(row.system for row in rows(text))
    assert set(counts) == set(SECTIONS) == set(NAMES)
    assert all(count >= 25 for count in counts.values())


TRUE_ROW = (
    "| a thing | the base | held | `compaction_app.values.Branch.base`<br>event `started` | "
    "`tests/context/test_budget.py::test_the_trigger_is_capped_for_huge_windows` |"
)


def new_problems(text: str, changed: str) -> list[str]:
    """What is wrong only once the document has been changed."""
    before = find_problems(text)
    return [problem for problem in find_problems(changed) if problem not in before]


def with_row(text: str, *more: str) -> str:
    """The document with rows more at the end of its last table."""
    return "\n".join([text.rstrip("\n"), *more]) + "\n"


@pytest.mark.parametrize(
    ("true", "false", "problem"),
    [
        ("values.Branch.base", "values.Branch.bass", "`compaction_app.values.Branch.bass` does not exist"),
        ("compaction_app.values.Branch.base", 'COMPACTION["TRIGER_RATIO"]', "does not exist"),
        ("event `started`", "event `begun`", "event `begun` does not exist"),
        ("event `started`", "constraint `compaction_two_open_runs`", "does not exist"),
        ("tests/context/test_budget.py", "tests/test_purse.py", "the test `tests/test_purse.py::"),
        ("tests/context/test_budget.py::", "tests/context/test_budget.py::TestCaps::", "::TestCaps::"),
        ("| held |", "| held, mostly |", "unknown status 'held, mostly'"),
        ("| the base |", "| the base | twice |", "5 cells are wanted"),
    ],
)
def test_a_row_that_is_not_true_is_found(text: str, true: str, false: str, problem: str) -> None:
    assert true in TRUE_ROW
    [found] = new_problems(text, with_row(text, TRUE_ROW.replace(true, false)))
    assert problem in found
