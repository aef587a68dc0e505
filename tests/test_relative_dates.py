"""Relative dates are resolved where they have one meaning, and once."""

from datetime import date

import pytest

from compaction_app.relative_dates import resolve_dates

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("yesterday", "yesterday (2025-03-09)"),
        ("the day after tomorrow", "the day after tomorrow (2025-03-12)"),
        ("3 days ago", "3 days ago (2025-03-07)"),
        ("a week ago", "a week ago (2025-03-03)"),
        ("two months ago", "two months ago (2025-01)"),
        ("in 2 weeks", "in 2 weeks (2025-03-24)"),
        ("last Friday", "last Friday (2025-03-07)"),
        ("last Monday", "last Monday (2025-03-03)"),
        ("next month", "next month (2025-04)"),
        ("last year", "last year (2024)"),
        ("昨天去了", "昨天 (2025-03-09)去了"),
    ],
)
def test_what_has_one_meaning_is_resolved_once(text, resolved):
    today = date(2025, 3, 10)
    assert resolve_dates(text, today) == resolved
    assert resolve_dates(resolved, today) == resolved


@pytest.mark.parametrize("text", ["next Friday", "on Friday", "today", "in a day of need", "999 years ago"])
def test_what_has_none_or_two_stays_as_it_was_said(text):
    assert resolve_dates(text, date(900, 3, 10)) == text
