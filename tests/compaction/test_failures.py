"""Compactions that fail: at once, to be tried again, and too often (design §17)."""

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionEvent
from compaction_app.testing.summarizers import FakeSummarizer
from tests.compaction.world import kinds

pytestmark = pytest.mark.django_db(transaction=True)


class TestFailures:
    def failing(self, monkeypatch, **attributes):
        error = SummarizerError("the model is away", **attributes)
        monkeypatch.setattr(FakeSummarizer, "error", error)

    def test_a_passing_trouble_in_the_background_is_tried_again_later(self, branch, monkeypatch):
        self.failing(monkeypatch, error_code="timeout", transient=True, retry_after=40.0)
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert (run.status, run.attempts) == ("ready", 1)
        assert run.next_attempt_at > timezone.now() + timezone.timedelta(seconds=35)
        assert compact_chat_history(run.pk) is None, "not before it is due"

    def test_a_manual_compaction_fails_at_once(self, branch, monkeypatch):
        self.failing(monkeypatch, error_code="timeout", transient=True)
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(branch[-1])
        assert caught.value.error_code == "timeout"

    def test_a_lasting_trouble_fails_and_says_why(self, session, branch, monkeypatch):
        self.failing(monkeypatch, error_code="authentication")
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert (run.status, run.error_code) == ("failed", "authentication")
        assert "failed" in kinds(session)

    def test_the_breaker_opens_after_failures_in_a_row_and_a_manual_compaction_passes_it(
        self, session, branch, monkeypatch
    ):
        self.failing(monkeypatch, error_code="authentication")
        for _ in range(3):
            compact_chat_history(chat.request_compaction(branch[-1]).pk)
        assert chat.request_compaction(branch[-1]) is None
        event = CompactionEvent.objects.filter(session=session, kind="suppressed").latest("id")
        assert event.payload == {"reason": "breaker", "failures": 3}
        monkeypatch.setattr(FakeSummarizer, "error", None)
        assert chat.compact(branch[-1]).status == "succeeded"

    def test_two_drafts_without_progress_open_the_breaker(self, session, branch, monkeypatch):
        self.failing(monkeypatch, error_code="no_progress")
        for _ in range(2):
            compact_chat_history(chat.request_compaction(branch[-1]).pk)
        assert chat.request_compaction(branch[-1]) is None
        assert kinds(session).count("no_progress") == 2
