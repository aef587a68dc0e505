"""Figures and words that came over from the five systems: see docs/origins.md."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from compaction_app.compaction.planning import get_messages_to_summarize
from compaction_app.compaction.trigger import COVERAGE_RATIO
from compaction_app.conf import DEFAULTS, SummarizerEntry
from compaction_app.context.catalog import known_window
from compaction_app.summarizers import openai
from compaction_app.summarizers.drafts import MIN_SUMMARY_CHARS
from compaction_app.summarizers.prompts import size_hint
from tests.conftest import REPOSITORY
from tests.small import messages_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("key", "figure"),
    [
        ("MODE", "standard"),
        ("TRIGGER_RATIO", 0.75),
        ("RECENT_MESSAGES_RATIO", 0.20),
        ("TARGET_RATIO", 0.50),
        ("TRIGGER_TOKENS_CAP", 200_000),
        ("RECENT_TOKENS_CAP", 40_000),
        ("PRESERVE_RECENT_MESSAGES", 2),
        ("LOOKAHEAD", "previous_turn"),
        ("PRUNE", "pressure"),
        ("PRUNE_KEEP_TURNS", 3),
        ("PRUNE_TOOL_RESULT_BYTES", 4096),
        ("MICRO_COMPACT", False),
        ("REASONING", "summarize"),
        ("SUMMARY_TARGET_TOKENS", 30_000 // 4),
        ("COOLDOWN_SECONDS", 60),
        ("DEFAULT_CONTEXT_WINDOW", 128_000),
    ],
)
def test_a_default_that_came_over(key: str, figure: Any) -> None:
    assert DEFAULTS[key] == figure


def test_the_figures_of_a_summarizer_that_came_over() -> None:
    entry = SummarizerEntry()
    assert ([one.model for one in entry.models], entry.timeout) == (["gpt-5.4-nano"], 30)
    assert (entry.max_output_tokens, MIN_SUMMARY_CHARS, COVERAGE_RATIO) == (20_000, 30, 0.70)


def test_temperature_and_windows() -> None:
    assert openai.TEMPERATURE == 0.1
    assert known_window("claude-sonnet-4-5") == 200_000
    assert known_window("gpt-4o") == 128_000
    assert known_window("gpt-4.1") == 1_047_576


def test_a_single_message_over_the_tail_budget_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="compaction_app.planning"):
        _, kept = get_messages_to_summarize(messages_of("u a u a(5000)"), 300)
    assert [message.id for message in kept] == [3, 4]
    assert "keep message=4 tokens=5000 budget=300" in caplog.text


@pytest.mark.parametrize(
    ("previous_tokens", "said"),
    [
        (599, ["keep all of it", "do not shorten it"]),
        (600, ["shorten its oldest sections a little", "leave the recent ones as they are"]),
        (850, ["shorten its oldest sections where the topic is fully resolved", "leave recent and open topics"]),
    ],
)
def test_the_hint_says_what_to_shorten(previous_tokens: int, said: list[str]) -> None:
    hint = size_hint(previous_tokens, 1_000)
    assert [part for part in said if part not in hint] == []


def test_the_readme_says_loudly_what_is_not_deterministic() -> None:
    """In bold: who builds replayable workflows must not learn it from the consequences."""
    readme = " ".join((REPOSITORY / "README.md").read_text().split())
    assert "**Important: a model's summaries are not deterministic.**" in readme
    assert "a model says afterwards may differ" in readme
    assert '`MODE = "deterministic"`' in readme
