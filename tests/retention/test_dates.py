"""Relative dates are resolved where they have one meaning, and once."""

from datetime import UTC, date, datetime

import pytest

from compaction_app.retention.dates import resolve_dates
from compaction_app.retention.extractive import summarize_extractively
from compaction_app.retention.sayings import read_messages
from compaction_app.tokens import CharacterTokenCounter
from compaction_app.values import Message, Role

pytestmark = pytest.mark.pure

WEDNESDAY = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("the day after tomorrow", "the day after tomorrow (2026-03-06)"),
        ("two months ago", "two months ago (2026-01)"),
        ("last Monday's invoice", "last Monday's (2026-03-02) invoice"),
        ("Gestern kam er, morgen geht er", "Gestern (2026-03-03) kam er, morgen (2026-03-05) geht er"),
        ("أول أمس دفعت 300 دينار", "أول أمس (2026-03-02) دفعت 300 دينار"),
        ("大后天付100元", "大后天 (2026-03-07)付100元"),
        ("We sail **tomorrow** at 9.", "We sail **tomorrow (2026-03-05)** at 9."),
        # Of two days in a report only the first is relative to today.
        ("He said yesterday that he pays tomorrow", "He said yesterday (2026-03-03) that he pays tomorrow"),
        ("The invoice of 3 May came today", "The invoice of 3 May came today (2026-03-04)"),
    ],
)
def test_a_date_with_one_meaning_is_resolved_once(text, resolved):
    assert resolve_dates(text, WEDNESDAY) == resolved
    assert resolve_dates(resolved, WEDNESDAY) == resolved


@pytest.mark.parametrize(
    "text",
    [
        # No meaning, or two.
        "next Friday",
        "as if I were born yesterday",
        "por la mañana",
        # A duration, a guess, and what repeats.
        "about 3 weeks ago",
        "It takes one in two weeks",
        # Part of another word or phrase.
        "明日香さんに300円払った",
        "Am Dienstag morgen kommt Frau Weber",
        # Paths, addresses, options and code.
        "git log --since=yesterday",
        "https://x.org/today/news.html",
        "yesterday=5; x = tomorrow + 3",
    ],
)
def test_other_text_stays_as_it_was_said(text):
    assert resolve_dates(text, WEDNESDAY) == text


@pytest.mark.parametrize(
    "text",
    [
        "On 3 February Bob said that he comes tomorrow",
        "In the story, the king says that tomorrow the ship sails",
        "2026-03-03: today we paid",
        "From: Bob\nDate: Mon, 2 Mar 2026\n\nI come tomorrow",
        "On Mon, Bob wrote:\n> I come tomorrow",
    ],
)
def test_what_was_said_on_another_day_is_not_relative_to_this_one(text):
    assert resolve_dates(text, WEDNESDAY) == text
    # Nor is a clause of that message alone.
    assert resolve_dates("tomorrow we sail", WEDNESDAY, text) == "tomorrow we sail"


def test_an_old_year_elsewhere_in_the_message_hides_nothing():
    said = "I was born in 1995. Tomorrow I fly"
    assert resolve_dates("Tomorrow I fly", WEDNESDAY, said) == "Tomorrow (2026-03-05) I fly"


def test_a_document_is_left_alone():
    """A text longer than anybody writes as a message was pasted, and has a day of its own."""
    text = "I pay tomorrow. " * 20_000
    assert resolve_dates(text, WEDNESDAY) == text
    assert "tomorrow (2026-03-05)" in resolve_dates(text[:40_000], WEDNESDAY)


def test_code_tool_results_and_logs_keep_their_own_time():
    told = [
        (Role.USER, "I pay Bob 300 EUR tomorrow."),
        (Role.USER, "Run this in Oslo:\n```\nbackup tomorrow --to /srv/17\n```"),
        (Role.TOOL, '{"due": "tomorrow", "berth": 17}'),
        (Role.USER, "On 14 November 1941 Anton Brevik wrote in the logbook: the lamp burnt. Tomorrow we sail."),
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
