"""Runs: the list by date, by what occurs, in one line of totals; the page of one."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from compaction_app.admin import runs
from compaction_app.models import CompactionEvent
from compaction_app.models.words import why_it_failed, words
from compaction_app.values import ErrorCode, RunStatus
from tests.admin.pages import listed, runs_page, url
from tests.admin.records import NOON, run_at
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db


def test_runs_and_events_are_narrowed_to_a_year_a_month_and_a_day(viewer, tip):
    day, month, before = (run_at(tip, created_at=NOON - timedelta(days=days)) for days in (0, 2, 400))
    assert listed(viewer, "compactionrun") == [before.pk, month.pk, day.pk]
    narrowed = {"created_at__year": 2026, "created_at__month": 11}
    assert listed(viewer, "compactionrun", **narrowed) == [day.pk, month.pk]
    assert listed(viewer, "compactionrun", **narrowed, created_at__day=3) == [day.pk]
    event = CompactionEvent.objects.create(session=tip.session, kind="failed", created_at=NOON)
    assert listed(viewer, "compactionevent", **narrowed, kind__exact="failed") == [event.pk]


def test_one_line_counts_what_the_date_and_the_filters_leave(viewer, tip):
    run_at(tip, status="succeeded", generation=1, cost="0.0125", input_tokens=1000, output_tokens=10, created_at=NOON)
    run_at(tip, status="succeeded", generation=2, cost="0.01", input_tokens=500, output_tokens=5, created_at=NOON)
    run_at(tip, input_tokens=7, created_at=NOON)
    run_at(tip, created_at=NOON - timedelta(days=400))
    for query, found in (
        ({"created_at__year": "2026"}, (3, 1, 1507, 15, 1, Decimal("0.0225"))),
        ({"status__exact": "failed"}, (2, 2, 7, 0, 1, None)),
        ({"status__exact": "running"}, (0, 0, 0, 0, 0, None)),
    ):
        assert tuple(runs_page(viewer, **query).context["cl"].totals().values()) == found
    days = runs_page(viewer).context["cl"].days
    assert [(day["day"], day["runs"], day["spent"]) for day in days] == [
        (NOON.date(), 3, Decimal("0.0225")),
        ((NOON - timedelta(days=400)).date(), 1, None),
    ]


def page_text(client, run):
    """The page of a run without markup, white space evened out."""
    page = client.get(url("compactionrun_change", run.pk)).text
    return " ".join(re.sub("<[^>]*>", " ", page).split())


class TestPage:
    def test_it_shows_everything_that_is_stored(self, viewer):
        """Every column of a run's row, filled with what is found nowhere else on the page."""
        nodes = chain(start_session(title="Harbour"), 5)
        summary, base = summarize(nodes[3], nodes[2]), summarize(nodes[1], nodes[0])
        before = run_at(nodes[4], status="skipped")
        opened = datetime(2026, 11, 3, 8, 0, 0, tzinfo=UTC)
        moments = {"created_at": 0, "enqueued_at": 1, "started_at": 61, "finished_at": 73, "next_attempt_at": 90}
        moments["lease_expires_at"] = 361
        texts = {
            "error_detail": "no answer within 31 s", "instructions": "Keep the prices.", "task_id": "task-77",
            "policy_line": "Keep the names.", "summarizer_model": "quick-model", "prompt_version": "p-42",
            "nonce": "a1b2c3d4", "error_code": "timeout",
        }  # fmt: skip
        numbers = {
            "reserved_tokens": 8191, "input_tokens": 60_211, "output_tokens": 2_217, "cached_tokens": 11_003,
            "messages_compacted": 113, "erasures_seen": 4321,
        }  # fmt: skip
        # Column → what it holds, and how the page shows that.
        stored = {
            "anchor": (nodes[3], f"Message {nodes[3].pk}"),
            "cutoff": (nodes[2], f"Message {nodes[2].pk}"),
            "base": (base, f"Summary {base.pk}"),
            "summary": (summary, f"Summary {summary.pk}"),
            "previous_run": (before, f"Continues Run {before.pk}"),
            "skip_reason": ("base_changed", "base changed"),
            "settings": ({"MODE": "aggressive"}, "&quot;MODE&quot;: &quot;aggressive&quot;"),
            "budget": ({"window": 128_111}, "128111"),
            "shortened_inputs": ([nodes[0].pk], f"Shortened inputs Message {nodes[0].pk}"),
            "request": ({"digest": "abc123"}, "abc123"),
            "cost": ("0.01480000", "0.0148"),
            "retention_before": (0.621, "62.1% in the text alone, 94.4% with the ledger"),
            "retention_after": (0.944, "94.4% with the ledger"),
            "attempts": (3, "3 of at most 8"),
            **{name: (text, text) for name, text in texts.items()},
            **{name: (number, f"{number:,}") for name, number in numbers.items()},
        }
        for name, seconds in moments.items():
            moment = opened + timedelta(seconds=seconds)
            stored[name] = moment, f"{moment:%H:%M:%S}"
        given = {name: value for name, (value, _) in stored.items()}
        run = run_at(nodes[4], status="succeeded", generation=17, tokens_before=96_210, tokens_after=41_208, **given)
        after = run_at(nodes[4], previous_run=run)
        page = page_text(viewer, run)
        worked_out = ("Succeeded", "Threshold", "Auto compact", "17", f"Message {nodes[4].pk}")
        of_others = (f"Continued by Run {after.pk}", "96,210 → 41,208")
        for shown in (*(shown for _, shown in stored.values()), *worked_out, *of_others):
            assert shown in page, shown

    def test_a_code_that_does_not_say_enough_is_explained_and_a_long_name_is_whole(self, viewer, tip):
        name = "a-provider/of-models/with-a-name-that-no-list-has-room-for-2026-01-01"
        for code in (ErrorCode.ERROR_TEXT, ErrorCode.TIME_LIMIT):
            page = page_text(viewer, run_at(tip, error_code=code, summarizer_model=name))
            assert f"{words(code)} ({why_it_failed(code)})" in page
            assert name in page

    def test_a_run_that_is_open_says_for_how_long_until_when_or_that_its_worker_is_gone(self, viewer, tip):
        now = timezone.now()
        later = {"next_attempt_at": now + timedelta(minutes=2), "attempts": 1, "error_code": "timeout"}
        for shown, fields in (
            ("due for 2 hours.", {"status": "ready", "created_at": now - timedelta(hours=2), "enqueued_at": now}),
            (f"The next attempt is at {timezone.localtime(later['next_attempt_at']):%b}", {"status": "ready", **later}),
            (f"Previous attempt: timeout ({why_it_failed('timeout')}).", {"status": "ready", **later}),
            ("Its worker is gone", {"status": "running", "lease_expires_at": now - timedelta(hours=1)}),
        ):
            assert shown in page_text(viewer, run_at(chain(tip.session, 1)[0], **fields))

    def test_a_failed_run_says_what_was_tried_since_and_what_a_retry_cannot_mend(self, operator, tip):
        lasting, other = (run_at(tip, error_code=code) for code in (ErrorCode.AUTHENTICATION, ErrorCode.TIMEOUT))
        for run, is_lasting in ((lasting, True), (other, False)):
            assert operator.get(url("compactionrun_retry", run.pk)).context["is_lasting"] is is_lasting

    def test_every_status_has_its_words(self):
        assert set(runs._STATUS_WORDS) == set(RunStatus)
