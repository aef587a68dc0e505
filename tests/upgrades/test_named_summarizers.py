"""What the settings of sessions and of runs became where summarizers are named entries, read by the code of now.

The migration itself is never edited (tests/models/test_migrations.py).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from compaction_app.conf import find_session_error, settings_from_snapshot

migration = import_module("compaction_app.migrations.0004_named_summarizers")

pytestmark = pytest.mark.pure

OURS = {"model": "ours", "base_url": "http://10.0.0.7/v1", "api_key_env": "OUR_KEY"}
#: As version 0.1 stored it, without the keys that are the same now.
OLD_RUN: dict[str, Any] = {
    "MODE": "standard",
    "CONTEXT_WINDOW": 9_000,
    "CONTEXT_WINDOWS": {"house-": 32_000},
    "TRIGGER_RATIOS": {"house-": 0.6},
    "PRICES": {"ours": {"input": 0.2, "output": 1.25}},
    "SUMMARIZER": "compaction_app.summarizers.OpenAISummarizer",
    "SUMMARIZER_MODELS": [OURS, "second"],
    "SUMMARIZER_CHAT_MODELS": [{"model": "gpt-4o", "base_url": "http://10.0.0.8/v1"}],
    "SUMMARIZER_TIMEOUT": 45,
    "SUMMARIZER_MAX_OUTPUT_TOKENS": 900,
    "SUMMARY_PROMPT": "Write short.",
    "SUMMARIZERS": {"private": {"SUMMARIZER_MODELS": [OURS]}},
    "SUMMARIZER_NAME": "private",
    "COVERAGE_RATIO": 0.7,
}


def test_a_waiting_run_asks_whom_it_would_have_asked() -> None:
    read = settings_from_snapshot(migration.of_run(OLD_RUN))
    entry = read.summarizer_entry
    assert read.summarizer.name == "private"
    assert [(one.model, one.base_url, one.api_key_env) for one in entry.models] == [
        ("ours", "http://10.0.0.7/v1", "OUR_KEY"),
        ("second", None, None),
    ]
    assert [(one.model, one.base_url) for one in entry.chat_models] == [("gpt-4o", "http://10.0.0.8/v1")]
    assert (entry.timeout, entry.max_output_tokens, entry.prompt) == (45, 900, "Write short.")
    assert (read.stated("window"), read.stated("trigger_ratio")) == ({"house-": 32_000}, {"house-": 0.6})
    assert str(read.stated("price")["ours"].output) == "1.25"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"SUMMARIZER_NAME": "private", "MODE": "aggressive"}, {"SUMMARIZER": "private", "MODE": "aggressive"}),
        (
            {"SUMMARIZER_NAME": "private", "SUMMARIZER_TIMEOUT": 9, "SUMMARY_PROMPT": "Auf Deutsch."},
            {"SUMMARIZER": {"NAME": "private", "TIMEOUT": 9, "PROMPT": "Auf Deutsch."}},
        ),
    ],
)
def test_a_session_keeps_what_it_chose(settings: Any, old: Any, new: Any) -> None:
    settings.COMPACTION = {"SUMMARIZERS": {"private": {"MODELS": [OURS]}}}
    assert migration.of_session(old) == new
    assert find_session_error(new) is None
