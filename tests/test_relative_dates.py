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
        ("today", "today (2025-03-10)"),
        ("last Monday's invoice", "last Monday's (2025-03-03) invoice"),
        ("Gestern kam er, morgen geht er", "Gestern (2025-03-09) kam er, morgen (2025-03-11) geht er"),
        ("Hier j'ai payé, demain je dors", "Hier (2025-03-09) j'ai payé, demain (2025-03-11) je dors"),
        ("ayer, hoy y mañana", "ayer (2025-03-09), hoy (2025-03-10) y mañana (2025-03-11)"),
        ("ontem, hoje e amanhã", "ontem (2025-03-09), hoje (2025-03-10) e amanhã (2025-03-11)"),
        ("ieri, oggi e domani", "ieri (2025-03-09), oggi (2025-03-10) e domani (2025-03-11)"),
        ("gisteren, vandaag en overmorgen", "gisteren (2025-03-09), vandaag (2025-03-10) en overmorgen (2025-03-12)"),
        ("вчера, сегодня и послезавтра", "вчера (2025-03-09), сегодня (2025-03-10) и послезавтра (2025-03-12)"),
        ("أمس ثم غدا", "أمس (2025-03-09) ثم غدا (2025-03-11)"),
        ("어제 갔다", "어제 (2025-03-09) 갔다"),
    ],
)
def test_what_has_one_meaning_is_resolved_once(text, resolved):
    today = date(2025, 3, 10)
    assert resolve_dates(text, today) == resolved
    assert resolve_dates(resolved, today) == resolved


@pytest.mark.parametrize(
    "text",
    [
        "next Friday",
        "on Friday",
        "in a day of need",
        "999 years ago",
        "The song 'Yesterday' by Paul is what the Today Show plays",
        "He said „ich komme morgen“ and “not tomorrow”",
        "as if I were born yesterday",
        "Guten Morgen",
        "Morgen, Anna!",
        "Ich bin hier",
        "Er kommt am Morgen",
        "por la mañana",
    ],
)
def test_what_has_none_or_two_stays_as_it_was_said(text):
    assert resolve_dates(text, date(900, 3, 10)) == text
