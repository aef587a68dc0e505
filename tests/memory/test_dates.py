"""Relative dates are resolved where they have one meaning, and once."""

from datetime import UTC, date, datetime

import pytest

from compaction_app.memory.dates import resolve_dates
from compaction_app.tokens import CharacterTokenCounter
from compaction_app.values import Role
from tests.memory.telling import message, summarize

pytestmark = pytest.mark.pure

WEDNESDAY = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("the day after tomorrow", "the day after tomorrow (2026-03-06)"),
        ("Gestern kam er, morgen geht er", "Gestern (2026-03-03) kam er, morgen geht er"),
        ("后天付100元", "后天 (2026-03-06)付100元"),
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
        "last Monday",
        # A duration, a guess, and what repeats.
        "about 3 weeks ago",
        "It takes one in two weeks",
        # Part of another word or phrase.
        "明日香さんに300円払った",
        "Am Dienstag morgen kommt Frau Weber",
        # Paths, addresses, options and code.
        "git log --since=yesterday",
        "https://x.org/today/news.html",
        "yesterday=5; x=tomorrow+3",
    ],
)
def test_other_text_stays_as_it_was_said(text):
    assert resolve_dates(text, WEDNESDAY) == text


def test_an_old_year_elsewhere_in_the_message_hides_nothing():
    assert "Tomorrow (2026-03-05) I fly" in told((Role.USER, "I was born in 1995. Tomorrow I fly to Oslo."))


def test_code_tool_results_and_quotations_keep_their_own_time():
    text = told(
        (Role.USER, "I pay Bob 300 EUR tomorrow."),
        (Role.USER, "Run this in Oslo:\n```\nbackup tomorrow --to /srv/17\n```"),
        (Role.TOOL, '{"due": "tomorrow", "berth": 17}'),
        (Role.USER, 'Lena said "I come tomorrow with Anna" to me.'),
    )
    assert "tomorrow (2026-03-05)" in text
    assert text.count("(2026-03-05)") == 1


def told(*said: tuple[str, str]) -> str:
    """The extract of what was said on that Wednesday."""
    moment = datetime(2026, 3, 4, 9, tzinfo=UTC)
    messages = [message(n, role, content, created_at=moment) for n, (role, content) in enumerate(said, start=1)]
    return summarize(messages, 500, count=CharacterTokenCounter())
