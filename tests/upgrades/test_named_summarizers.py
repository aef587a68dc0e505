"""What the settings of sessions and of runs become where summarizers are named entries, and what they were before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.conf import settings_from_snapshot
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.testing.builders import grow
from compaction_app.testing.summarizers import FakeSummarizer
from tests.small import small

migration = import_module("compaction_app.migrations.0004_named_summarizers")

pytestmark = pytest.mark.django_db(transaction=True)

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
    "SUMMARY_ROLE": "user",
    "COVERAGE_RATIO": 0.7,
    "BREAKER_FAILURES": 3,
    "BREAKER_SECONDS": 300,
    "MIN_SUMMARY_CHARS": 30,
    "LOOKAHEAD_TOKENS": 4000,
}


def rewrite(way: Any) -> None:
    with connection.schema_editor() as editor:
        way(apps, editor)


def test_a_waiting_run_asks_whom_it_would_have_asked(session: ChatSession) -> None:
    run = CompactionRun.objects.create(session=session, trigger="threshold", settings=OLD_RUN)
    rewrite(migration.forwards)
    run.refresh_from_db()
    read = settings_from_snapshot(run.settings)
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
    rewrite(migration.forwards)
    run.refresh_from_db()
    assert settings_from_snapshot(run.settings) == read, "a second time changes nothing"


def test_a_run_goes_back_as_it_came(session: ChatSession) -> None:
    run = CompactionRun.objects.create(session=session, trigger="threshold", settings=OLD_RUN)
    rewrite(migration.forwards)
    rewrite(migration.backwards)
    run.refresh_from_db()
    constants = set(migration._FIXED)
    back = {key: value for key, value in OLD_RUN.items() if key not in constants}
    # Of the entry the snapshot had what was resolved; models that were written as names are dicts.
    back |= {"SUMMARIZER_MODELS": [OURS, {"model": "second"}], "SUMMARIZERS": {"private": {}}}
    assert run.settings == back


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"SUMMARIZER_NAME": "private", "MODE": "aggressive"}, {"SUMMARIZER": "private", "MODE": "aggressive"}),
        ({"SUMMARY_PROMPT": "Auf Deutsch."}, {"SUMMARIZER": {"PROMPT": "Auf Deutsch."}}),
        (
            {"SUMMARIZER_NAME": "private", "SUMMARIZER_TIMEOUT": 9, "SUMMARIZER_MAX_OUTPUT_TOKENS": 99},
            {"SUMMARIZER": {"NAME": "private", "TIMEOUT": 9, "MAX_OUTPUT_TOKENS": 99}},
        ),
        # Stored by new code before the migration ran: a choice that is lost may send a conversation elsewhere.
        ({"SUMMARIZER": {"NAME": "private", "PROMPT": "x"}}, {"SUMMARIZER": {"NAME": "private", "PROMPT": "x"}}),
    ],
)
def test_a_session_keeps_what_it_chose(old: Any, new: Any) -> None:
    session = chat.start_session()
    ChatSession.objects.filter(pk=session.pk).update(settings=old)
    rewrite(migration.forwards)
    session.refresh_from_db()
    assert session.settings == new
    if old != new:
        rewrite(migration.backwards)
        session.refresh_from_db()
        assert session.settings == old


@pytest.mark.parametrize("broken", [{"PRIVATE_ENDPOINT": "http://10.0.0.7"}, {"SUMMARIZERS": {"default": 7}}, OLD_RUN])
def test_a_run_whose_settings_can_not_be_read_fails_and_asks_nobody(settings: Any, broken: Any) -> None:
    """A key that is not known may have said where the conversation may be sent."""
    settings.COMPACTION = small()
    tip = grow(chat.start_session(), None, "u a " * 35)[-1]
    run = chat.request_compaction(tip)
    CompactionRun.objects.filter(pk=run.pk).update(settings={**run.settings, **broken})
    compact_chat_history(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "bad_request")
    assert run.error_detail.startswith("The run's settings cannot be read: ")
    assert FakeSummarizer.requests == []
