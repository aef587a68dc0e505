"""Relative dates are resolved where they have one meaning, and once."""

from datetime import UTC, date, datetime

import pytest

from compaction_app.retention.dates import resolve_dates
from compaction_app.retention.extractive import summarize_extractively
from compaction_app.retention.sayings import read_messages
from compaction_app.tokens import CharacterTokenCounter
from compaction_app.values import Message, Role

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("yesterday", "yesterday (2025-03-09)"),
        ("the day after tomorrow", "the day after tomorrow (2025-03-12)"),
        ("two months ago", "two months ago (2025-01)"),
        ("in 2 weeks", "in 2 weeks (2025-03-24)"),
        ("last year", "last year (2024)"),
        ("last Monday's invoice", "last Monday's (2025-03-03) invoice"),
        ("Gestern kam er, morgen geht er", "Gestern (2025-03-09) kam er, morgen (2025-03-11) geht er"),
        ("أمس ثم غدا", "أمس (2025-03-09) ثم غدا (2025-03-11)"),
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
        "in a day of need",
        "999 years ago",
        "The song 'Yesterday' by Paul is what the Today Show plays",
        "as if I were born yesterday",
        "Morgen, Anna!",
        "por la mañana",
    ],
)
def test_what_has_none_or_two_stays_as_it_was_said(text):
    assert resolve_dates(text, date(900, 3, 10)) == text


WEDNESDAY = date(2026, 3, 4)


@pytest.mark.parametrize(
    "text",
    [
        "git log --since=yesterday",
        "https://x.org/today/news.html",
        "See yesterday.py and today-report.pdf.",
        "yesterday=5; x = tomorrow + 3",
        "show(today) or items[today] or {today} or <today>",
        "a.today",
    ],
)
def test_nothing_is_written_into_paths_addresses_options_and_code(text):
    assert resolve_dates(text, WEDNESDAY) == text


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("We sail **tomorrow** at 9.", "We sail **tomorrow (2026-03-05)** at 9."),
        ("Yesterday: we paid.", "Yesterday (2026-03-03): we paid."),
        ("Is it today? No – tomorrow!", "Is it today (2026-03-04)? No – tomorrow (2026-03-05)!"),
        ("* tomorrow we sail", "* tomorrow (2026-03-05) we sail"),
        # Of two days in a report the first alone is reckoned from today.
        ("He said yesterday that he pays tomorrow", "He said yesterday (2026-03-03) that he pays tomorrow"),
    ],
)
def test_the_marks_of_a_sentence_do_not_hide_a_date(text, resolved):
    assert resolve_dates(text, WEDNESDAY) == resolved
    assert resolve_dates(resolved, WEDNESDAY) == resolved


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("一昨日払った", "一昨日 (2026-03-02)払った"),
        ("大后天付100元", "大后天 (2026-03-07)付100元"),
        ("오늘은 간다", "오늘 (2026-03-04)은 간다"),
        ("أول أمس دفعت 300 دينار", "أول أمس (2026-03-02) دفعت 300 دينار"),
    ],
)
def test_two_and_three_days_away_are_no_one_or_two(text, resolved):
    assert resolve_dates(text, WEDNESDAY) == resolved
    assert resolve_dates(resolved, WEDNESDAY) == resolved


@pytest.mark.parametrize(
    "text",
    [
        "明日香さんに300円払った",
        "李明天天去上海",
        "明天集团欠我们九百元",
        "اليوم الأول من مايو",
        "Hoy en día la cuota es de 30 EUR",
        "Am Dienstag morgen kommt Frau Weber",
    ],
)
def test_a_part_of_another_word_or_phrase_is_no_date(text):
    assert resolve_dates(text, WEDNESDAY) == text


@pytest.mark.parametrize(
    "text",
    [
        "2.5 years ago",
        "about 3 weeks ago",
        "half a year ago",
        "a week ago on Friday",
        "It takes one in two weeks",
        "in the last month",
    ],
)
def test_a_duration_a_guess_and_what_repeats_are_no_day(text):
    assert resolve_dates(text, WEDNESDAY) == text


@pytest.mark.parametrize(
    "text",
    [
        "On 3 February Bob said that he comes tomorrow",
        "Am 3. Februar schrieb Bob, er komme morgen",
        "In 1941 the captain wanted to sail tomorrow",
        "In the story, the king says that tomorrow the ship sails",
        "2026-03-03: today we paid",
        "From: Bob\nDate: Mon, 2 Mar 2026\n\nI come tomorrow",
        "On Mon, Bob wrote:\n> I come tomorrow",
    ],
)
def test_what_was_said_on_another_day_is_not_reckoned_from_this_one(text):
    assert resolve_dates(text, WEDNESDAY) == text
    if "1941 the" not in text:
        # A clause of the message by itself says nothing of it. An old year speaks for its own clause alone.
        assert resolve_dates("tomorrow we sail", WEDNESDAY, text) == "tomorrow we sail"


def test_an_old_year_elsewhere_in_the_message_hides_nothing():
    said = "I was born in 1995. Tomorrow I fly"
    assert resolve_dates("Tomorrow I fly", WEDNESDAY, said) == "Tomorrow (2026-03-05) I fly"


def test_a_date_that_is_no_day_of_saying_hides_nothing():
    for text, resolved in [
        ("The invoice of 3 May came today", "The invoice of 3 May came today (2026-03-04)"),
        ("2026-03-04: today we paid", "2026-03-04: today (2026-03-04) we paid"),
        ("Yesterday Bob paid the fee of 3 May", "Yesterday (2026-03-03) Bob paid the fee of 3 May"),
    ]:
        assert resolve_dates(text, WEDNESDAY) == resolved


def test_a_document_is_left_alone():
    """What is longer than anybody writes as a message was pasted, and has a day of its own."""
    text = "I pay tomorrow. " * 20_000
    assert resolve_dates(text, WEDNESDAY) == text
    assert "tomorrow (2026-03-05)" in resolve_dates(text[:40_000], WEDNESDAY)


def test_code_what_a_tool_gave_back_and_a_log_keep_their_own_time():
    told = [
        (Role.USER, "I pay Bob 300 EUR tomorrow."),
        (Role.USER, "Run this in Oslo:\n```\nbackup tomorrow --to /srv/17\n```"),
        (Role.TOOL, '{"due": "tomorrow", "berth": 17}'),
        (
            Role.USER,
            "On 14 November 1941 Anton Brevik wrote in the logbook: the lamp burnt. Tomorrow we sail.",
        ),
    ]
    messages = [
        Message(id=n, depth=n, role=role, content=content, tokens=9, created_at=datetime(2026, 3, 4, 9, tzinfo=UTC))
        for n, (role, content) in enumerate(told, start=1)
    ]
    extract = summarize_extractively(
        covered=messages, previous_summary="", target_tokens=500, count=CharacterTokenCounter()
    )
    said = "\n".join(saying.text for saying in read_messages(messages))
    for text in (extract, said):
        assert "tomorrow (2026-03-05)" in text
        assert text.count("(2026-03-05)") == 1
        assert "Tomorrow we sail" in text
