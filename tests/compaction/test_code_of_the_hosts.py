"""Whatever a host's code does during a compaction, the run is over or put off, and the conversation as it was."""

import asyncio
import contextlib
import threading
import time
from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError
from django.db.models.signals import post_save
from django.utils import timezone

from compaction_app import chat
from compaction_app.compaction import leases
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, CompactionRefused, SummarizerError
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.summarizers import Summarizer
from compaction_app.values import SummaryDraft
from tests.builders import WordTokenCounter
from tests.compaction.world import kinds
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "the code is teal-heron-7391"


def recap(request):
    return SummaryDraft(text="## Recap\n\nAll that was asked was answered, and nothing of it is open.", model="fake")


ANSWERS = {
    "None": lambda request: None,
    "a text": lambda request: recap(request).text,
    "a draft without a text": lambda request: SummaryDraft(text=None),
    "a draft of a nameless model": lambda request: replace(recap(request), model=None),
    "an odd code": lambda request: raising(SummarizerError("a\x00b \ud83d", error_code=["odd"] * 20)),
    "an error": lambda request: raising(KeyError(SECRET)),
}


def raising(error):
    raise error


def away(*_):
    raise InterfaceError("already closed")


class Answering(Summarizer):
    """A host's summarizer that gives back what it should not."""

    answer = None

    def summarize(self, request):
        return ANSWERS[self.answer](request)

    async def asummarize(self, request):
        return self.summarize(request)


class Miscounting(WordTokenCounter):
    """A host's token counter that fails on drafts."""

    def __call__(self, texts):
        if any("is open." in text for text in texts):
            raise ArithmeticError(texts)
        return super().__call__(texts)


class Counted(FakeSummarizer):
    def summarize(self, request):
        return replace(recap(request), input_tokens=700, output_tokens=20)


class TestCodeOfTheHosts:
    """Whatever a host's code does between claim and commit, the run is over or put off, and says so."""

    def ended(self, session):
        """The one run is over, the conversation as it was, and the next run finds nothing in its way."""
        run = CompactionRun.objects.get(session=session)
        assert (run.status, run.claim_token, run.lease_expires_at) == ("failed", None, None)
        assert run.finished_at is not None
        assert kinds(session)[-1] == "failed"
        assert "teal-heron" not in f"{run.error_detail} {run.error_code}"
        assert ChatMessage.objects.summaries().count() == 0
        return run

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("answer", "compact"),
        [*((answer, chat.compact) for answer in ANSWERS), ("an error", async_to_sync(chat.acompact))],
    )
    def test_what_a_summarizer_should_not_give_back_ends_the_run(
        self, session, branch, settings, monkeypatch, compact, answer, caplog
    ):
        monkeypatch.setattr(Answering, "answer", answer)
        settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": f"{__name__}.Answering"}})
        with pytest.raises(CompactionFailed):
            compact(branch[-1])
        run = self.ended(session)
        assert run.error_code == ("provider_error" if answer != "an odd code" else str(["odd"] * 20)[:30])
        assert run.error_detail
        assert "teal-heron" not in caplog.text
        settings.COMPACTION = small()
        assert compact(branch[-1]).status == "succeeded"

    def test_what_raises_while_a_draft_is_judged_ends_the_run_and_its_call_is_paid(self, session, branch, settings):
        settings.COMPACTION = small(
            SUMMARIZERS={"default": {"BACKEND": f"{__name__}.Counted"}}, TOKEN_COUNTER=f"{__name__}.Miscounting"
        )
        with pytest.raises(CompactionFailed):
            chat.compact(branch[-1])
        run = self.ended(session)
        assert (run.error_code, run.input_tokens, run.output_tokens) == ("provider_error", 700, 20)
        assert run.error_detail == "Counted wrote a draft whose check raised ArithmeticError"

    def test_what_raises_once_the_summary_is_stored_loses_nothing(self, branch, settings, monkeypatch, caplog):
        """It was called before, and threw a paid summary away."""
        monkeypatch.setattr(Counted, "learn", lambda self, code="": raising(KeyError(SECRET)))
        settings.COMPACTION = small(asked={"BACKEND": f"{__name__}.Counted"})
        run = chat.compact(branch[-1])
        assert (run.status, run.input_tokens) == ("succeeded", 700)
        assert "step=learn" in caplog.text
        assert SECRET not in caplog.text

    def test_what_raises_inside_the_commit_ends_the_run_and_leaves_nothing(self, session, branch, caplog):
        with commits_raising(LookupError(SECRET)), pytest.raises(CompactionFailed) as caught:
            chat.compact(branch[-1])
        run = self.ended(session)
        assert (run.error_code, run.summary_id, run.generation) == ("provider_error", None, None)
        assert caught.value.error_detail == run.error_detail == "LookupError while the summary was made"
        assert "error run=" in caplog.text
        assert "teal-heron" not in caplog.text
        assert chat.compact(branch[-1]).generation == 1

    def test_a_database_that_is_briefly_away_puts_a_background_run_off(self, session, branch):
        run = chat.request_compaction(branch[-1])
        with commits_raising(OperationalError("the connection is lost")):
            outcome = compact_chat_history(run.pk)
        assert (outcome.run.status, outcome.run.error_code) == ("ready", "provider_error")
        assert outcome.run.next_attempt_at > timezone.now()
        assert (outcome.run.claim_token, outcome.run.attempts) == (None, 1)
        CompactionRun.objects.update(next_attempt_at=None)
        assert compact_chat_history(run.pk).run.status == "succeeded"

    def test_whoever_is_cancelled_leaves_the_run_to_the_next(self, session, branch, monkeypatch):
        monkeypatch.setattr(FakeSummarizer, "delay", 1.0)

        async def leave():
            async with asyncio.timeout(0.4):
                await chat.acompact(branch[-1])

        with pytest.raises(TimeoutError):
            async_to_sync(leave)()
        run = CompactionRun.objects.get(session=session)
        assert (run.status, run.claim_token, run.next_attempt_at, run.enqueued_at) == ("ready", None, None, None)
        monkeypatch.setattr(FakeSummarizer, "delay", 0.0)
        with pytest.raises(CompactionRefused) as refused:
            chat.compact(branch[-1], instructions="Keep the prices.")
        assert refused.value.run_id == run.pk
        again = chat.compact(branch[-1])
        assert (again.pk, again.status, again.attempts) == (run.pk, "succeeded", 2)

    def test_whoever_is_cancelled_while_the_run_is_taken_leaves_it_too(self, session, branch, monkeypatch):
        """It was kept until its time limit by a lease that nobody ended."""
        keep, kept, begun = leases.keep, [], threading.Event()

        def late(run):
            begun.set()
            time.sleep(0.3)
            kept.append(keep(run))
            return kept[0]

        async def leave():
            task = asyncio.create_task(chat.acompact(branch[-1]))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            await task

        monkeypatch.setattr(leases, "keep", late)
        with pytest.raises(asyncio.CancelledError):
            async_to_sync(leave)()
        assert CompactionRun.objects.get(session=session).status == "ready"
        assert [held.is_ended for held in kept] == [True]


@contextlib.contextmanager
def commits_raising(error, before=lambda: None):
    """A receiver of the host's, on every message that is stored, fails where it is a summary."""

    def receive(instance, **kwargs):
        if instance.kind == "summary":
            before()
            raise error

    post_save.connect(receive, sender=ChatMessage)
    try:
        yield
    finally:
        post_save.disconnect(receive, sender=ChatMessage)
