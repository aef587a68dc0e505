"""The page of a run: everything that is stored of it, and what that means."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from compaction_app.admin import runs
from compaction_app.values import ErrorCode, RunStatus
from tests.admin.pages import url
from tests.admin.records import run_of, succeeded
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db


def page_text(client, run):
    """The page of a run without markup, white space evened out."""
    page = client.get(url("compactionrun_change", run.pk)).text
    return " ".join(re.sub("<[^>]*>", " ", page).split())


class TestPage:
    def test_it_shows_everything_that_is_stored(self, viewer):
        """Every column of a run's row, filled with what is found nowhere else on the page."""
        nodes = chain(start_session(title="Harbour"), 5)
        summary, base = summarize(nodes[3], nodes[2]), summarize(nodes[1], nodes[0])
        before = run_of(nodes[4], status="skipped")
        opened = datetime(2026, 11, 3, 8, 0, 0, tzinfo=UTC)
        run = succeeded(
            nodes[4],
            17,
            96_210,
            41_208,
            anchor=nodes[3],
            cutoff=nodes[2],
            base=base,
            summary=summary,
            previous_run=before,
            skip_reason="base_changed",
            error_code=ErrorCode.TIMEOUT,
            error_detail="no answer within 31 s",
            instructions="Keep the prices.",
            policy_line="Keep the names.",
            summarizer_model="quick-model",
            prompt_version="p-42",
            nonce="a1b2c3d4",
            settings={"MODE": "aggressive"},
            budget={"window": 128_111},
            shortened_inputs=[nodes[0].pk],
            request={"digest": "abc123"},
            reserved_tokens=8191,
            input_tokens=60_211,
            output_tokens=2_217,
            cached_tokens=11_003,
            cost="0.01480000",
            messages_compacted=113,
            retention_before=0.621,
            retention_after=0.944,
            attempts=3,
            erasures_seen=4321,
            task_id="task-77",
            created_at=opened,
            enqueued_at=opened + timedelta(seconds=1),
            started_at=opened + timedelta(seconds=61),
            finished_at=opened + timedelta(seconds=73.4),
            next_attempt_at=opened + timedelta(seconds=90),
            lease_expires_at=opened + timedelta(seconds=361),
        )
        after = run_of(nodes[4], previous_run=run)
        page = page_text(viewer, run)
        for shown in (
            *(
                "Succeeded",
                "base changed",
                "timeout",
                "no answer within 31 s",
                "Threshold",
                "Auto compact",
                "17",
            ),
            *(f"Message {nodes[4].pk}", f"Message {nodes[3].pk}", f"Message {nodes[2].pk}"),
            *(
                f"Summary {base.pk}",
                f"Summary {summary.pk}",
                f"Continues Run {before.pk}",
                f"Continued by Run {after.pk}",
            ),
            *(
                "96,210 → 41,208",
                "55,002 (57%)",
                "113",
                "62.1% in the text alone, 94.4% with the ledger",
                f"Shortened inputs Message {nodes[0].pk}",
            ),
            *("quick-model", "p-42", "Keep the prices.", "Keep the names.", "60,211", "2,217", "11,003", "0.0148"),
            *("12.4 s", "3 of at most 8", "Nov. 3, 2026, 08:00:00 UTC", "08:00:01", "08:01:01", "08:01:13", "08:01:30"),
            *("Nov. 3, 2026, 08:06:01 UTC", "task-77", "8,191", "4,321", "a1b2c3d4"),
            *("&quot;MODE&quot;: &quot;aggressive&quot;", "128111", "abc123"),
        ):
            assert shown in page, shown

    def test_a_code_that_does_not_say_enough_is_explained(self, viewer, tip):
        name = "a-provider/of-models/with-a-name-that-no-list-has-room-for-2026-01-01"
        run = run_of(tip, status=RunStatus.FAILED, error_code=ErrorCode.ERROR_TEXT, summarizer_model=name)
        page = page_text(viewer, run)
        assert "error text (the model answered with an error message or a refusal instead of a summary)" in page
        assert name in page
        run = run_of(tip, status=RunStatus.FAILED, error_code=ErrorCode.TIME_LIMIT)
        assert "not finished within RUN_TIME_LIMIT" in page_text(viewer, run)

    def test_a_run_that_waits_says_for_how_long(self, viewer, tip):
        late = run_of(tip, status="ready", created_at=timezone.now() - timedelta(hours=2), enqueued_at=timezone.now())
        assert "It has been due for 2 hours." in page_text(viewer, late)

    def test_a_run_that_is_put_off_says_until_when_and_what_the_attempt_before_met(self, viewer, tip):
        due = timezone.now() + timedelta(minutes=2)
        run = run_of(tip, status="ready", next_attempt_at=due, attempts=1, error_code="timeout")
        page = page_text(viewer, run)
        assert "The next attempt is at" in page
        assert "Previous attempt: timeout." in page

    def test_a_claim_that_died_is_told(self, viewer, tip):
        run = run_of(tip, status="running", lease_expires_at=timezone.now() - timedelta(hours=1))
        assert "Its worker is gone" in page_text(viewer, run)

    def test_a_cost_that_is_not_known_says_why(self, viewer, tip):
        assert "Unknown: MODELS has no price for the model" in page_text(viewer, run_of(tip, input_tokens=5))

    def test_every_status_has_its_words(self):
        assert set(runs._STATUS_WORDS) == set(RunStatus)
