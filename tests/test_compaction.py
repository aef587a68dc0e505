"""Making summaries: claim, plan, draft, commit; and everything that may happen meanwhile (design §8, §10, §17)."""

import asyncio
import contextlib
import threading
import uuid
import warnings
from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection, connections, transaction
from django.db.models.signals import post_save
from django.utils import timezone

from compaction_app import chat, runs
from compaction_app.compaction import compact_chat_history
from compaction_app.conf import load
from compaction_app.exceptions import (
    CompactionFailed,
    CompactionRefused,
    DurableTransactionRequired,
    SummarizerError,
)
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing.builders import WordTokenCounter, grow, words
from compaction_app.testing.summarizers import FakeSummarizer
from compaction_app.values import PolicyDecision, SummaryDraft
from tests.small import shown_ids, small

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small_world(small_window: None) -> None:
    """Before the fixtures of a class, which change some of it: a mark would come after them."""


@pytest.fixture
def session():
    return chat.start_session(title="a conversation")


@pytest.fixture
def branch(session):
    """Over the threshold of 6,000."""
    return grow(session, None, "u a " * 35)


def kinds(session):
    return list(CompactionEvent.objects.filter(session=session).order_by("id").values_list("kind", flat=True))


class Interfering(FakeSummarizer):
    """Does something else while the model is being called."""

    action = None

    def summarize(self, request):
        action, type(self).action = type(self).action, None
        if action:
            action()
        return super().summarize(request)


@pytest.fixture
def meanwhile(settings):
    settings.COMPACTION = small(SUMMARIZER="tests.test_compaction.Interfering")

    def do(action):
        Interfering.action = staticmethod(action)

    yield do
    Interfering.action = None


class TestOneSummary:
    def test_a_compaction_writes_one_node_that_the_next_context_uses(self, session, branch):
        run = chat.compact(branch[-1])
        summary = run.summary
        assert (run.status, run.generation, run.trigger) == ("succeeded", 1, "manual")
        assert summary.kind == "summary"
        assert summary.parent_message_id == run.anchor_id
        assert summary.last_summarized_message_id == run.cutoff_id
        context = chat.get_context(branch[-1])
        assert context.summary_id == summary.pk
        assert context.strategy == "auto_compact"
        assert context.history_tokens == run.tokens_after < run.tokens_before == 7_000
        assert context.history_tokens <= context.target

    def test_the_originals_are_untouched(self, session, branch):
        before = list(ChatMessage.objects.filter(session=session).order_by("id").values())
        chat.compact(branch[-1])
        assert list(ChatMessage.objects.filter(session=session).messages().order_by("id").values()) == before

    def test_compacting_twice_is_compacting_once(self, session, branch):
        chat.compact(branch[-1])
        calls = len(FakeSummarizer.requests)
        again = chat.compact(branch[-1])
        assert (again.status, again.skip_reason) == ("skipped", "nothing_to_compact")
        assert len(FakeSummarizer.requests) == calls
        assert ChatMessage.objects.filter(session=session).summaries().count() == 1

    def test_an_empty_history_calls_no_model(self, session):
        tip = grow(session, None, "u")[0]
        assert chat.compact(tip).skip_reason == "nothing_to_compact"
        assert FakeSummarizer.requests == []

    def test_five_generations_rise_and_stay_readable(self, session):
        FakeSummarizer.fill = 0.5
        tip, cutoffs = None, []
        for _ in range(5):
            tip = grow(session, tip, "u a " * 35)[-1]
            cutoffs.append(chat.compact(tip).cutoff.depth)
        generations = CompactionRun.objects.filter(session=session, status="succeeded").order_by("-generation")
        assert [run.generation for run in generations] == [5, 4, 3, 2, 1]
        assert cutoffs == sorted(set(cutoffs))
        assert generations.last().summary.content
        assert [run.base_id for run in generations][:-1] == [run.summary_id for run in generations][1:]

    def test_each_message_is_covered_once_along_the_chain(self, session):
        FakeSummarizer.fill = 0.5
        tip = None
        for _ in range(4):
            tip = grow(session, tip, "u a " * 35)[-1]
            chat.compact(tip)
        covered = [message.id for request in FakeSummarizer.requests for message in request.covered]
        path = [message.pk for message in chat.get_branch(tip)]
        assert covered == path[: len(covered)]
        assert shown_ids(tip)[1:] == path[len(covered) :]

    def test_instructions_reach_the_prompt_and_move_the_anchor_to_the_tip(self, session, branch):
        run = chat.compact(branch[-1], instructions="Dwell on the harbour.")
        assert "Dwell on the harbour." in FakeSummarizer.requests[0].user
        assert run.anchor_id == branch[-1].pk

    def test_a_base_that_was_anchored_deeper_never_loses_to_its_successor(self, session, branch):
        """LOOKAHEAD changed from tip to none between two compactions: the second still wins."""
        session.settings = {"LOOKAHEAD": "tip"}
        session.save()
        chat.compact(branch[-1])
        session.settings = {"LOOKAHEAD": "none"}
        session.save()
        tip = grow(session, branch[-1], "u a " * 35)[-1]
        second = chat.compact(tip)
        assert chat.find_summary(tip) == second.summary

    def test_after_the_last_turn_is_deleted_the_new_anchor_is_not_above_the_old_one(self, session):
        FakeSummarizer.fill = 0.2
        messages = grow(session, None, "u a " * 35)
        first = chat.compact(messages[-1])
        tip = grow(session, messages[-1], "u a " * 35)[-1]
        extra = grow(session, tip, "u a")
        chat.delete_message(extra[0])
        second = chat.compact(tip)
        assert second.anchor.depth >= first.anchor.depth
        assert second.base_id == first.summary_id


class TestLimits:
    def test_a_small_summarizer_takes_several_generations(self, session, settings, monkeypatch):
        monkeypatch.setattr(FakeSummarizer, "max_input_tokens", 3_500)
        tip = grow(session, None, "u a " * 60)[-1]
        last = chat.compact(tip)
        done = CompactionRun.objects.filter(session=session, status="succeeded").order_by("generation")
        assert done.count() > 2
        assert [run.previous_run_id for run in done] == [None, *(run.pk for run in done)][: done.count()]
        assert last.tokens_after <= 5_000
        covered = [message.id for request in FakeSummarizer.requests for message in request.covered]
        assert covered == [m.pk for m in chat.get_branch(tip)][: len(covered)]

    def test_a_message_too_large_for_any_request_is_shown_head_and_tail(self, session, monkeypatch):
        monkeypatch.setattr(FakeSummarizer, "max_input_tokens", 2_500)
        tip = grow(session, None, "u(5000) a " + "u a " * 10)[-1]
        chat.compact(tip)
        first = CompactionRun.objects.filter(session=session).order_by("id").first()
        assert first.shortened_inputs == [chat.get_branch(tip)[0].pk]
        assert "truncated" in FakeSummarizer.requests[0].user


class TestRefusals:
    def test_no_compaction_inside_a_transaction(self, branch):
        with pytest.raises(DurableTransactionRequired), transaction.atomic():
            chat.compact(branch[-1])

    def test_mode_off_refuses(self, branch, settings):
        settings.COMPACTION = small(MODE="off")
        with pytest.raises(CompactionRefused) as caught:
            chat.compact(branch[-1])
        assert caught.value.reason == "mode_off"
        assert shown_ids(branch[-1]) == [message.pk for message in branch]

    def test_one_open_run_a_branch(self, session, branch):
        assert chat.request_compaction(branch[-1]).status == "ready"
        assert chat.request_compaction(branch[-1]) is None
        with pytest.raises(CompactionRefused) as caught:
            chat.compact(branch[-1])
        assert caught.value.reason == "open_run"

    @pytest.mark.parametrize(
        ("draft", "code"),
        [
            (SummaryDraft(text=""), "empty"),
            (SummaryDraft(text="x" * 29), "too_short"),
            (SummaryDraft(text="y" * 60, finish_reason="length"), "truncated"),
            (SummaryDraft(text="y" * 60, refused=True), "refused"),
            (SummaryDraft(text="y" * 60, tool_called=True), "tool_call"),
            (SummaryDraft(text="<previous-summary> and then more words"), "leaked_wrapper"),
            (SummaryDraft(text=words(6_000)), "oversize"),
        ],
    )
    def test_a_draft_that_is_no_summary_changes_nothing(self, session, branch, monkeypatch, draft, code):
        monkeypatch.setattr(FakeSummarizer, "summarize", lambda self, request: draft)
        before = shown_ids(branch[-1])
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(branch[-1])
        assert caught.value.error_code == code
        assert CompactionRun.objects.get(session=session).status == "failed"
        assert shown_ids(branch[-1]) == before

    def test_thirty_characters_are_a_summary(self, session, branch):
        FakeSummarizer.text = "z" * 30
        assert chat.compact(branch[-1]).status == "succeeded"

    def test_a_summary_must_be_smaller_than_what_it_replaces(self, session, branch, monkeypatch):
        tip = grow(session, None, "u a u a")[-1]
        FakeSummarizer.text = words(190)
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(tip, instructions="now")
        assert caught.value.error_code in ("no_progress", "oversize")


class TestMeanwhile:
    def test_a_turn_appended_meanwhile_stays_in_the_tail(self, session, branch, meanwhile):
        added = []
        meanwhile(lambda: added.extend(grow(session, branch[-1], "u a")))
        run = chat.compact(branch[-1])
        assert run.status == "succeeded"
        assert shown_ids(added[-1])[-2:] == [message.pk for message in added]

    def test_a_tip_deleted_meanwhile_leaves_nothing(self, session, branch, meanwhile):
        meanwhile(lambda: chat.delete_message(branch[-2]))
        run = chat.compact(branch[-1])
        assert (run.status, run.skip_reason) == ("skipped", "branch_gone")
        assert not ChatMessage.objects.summaries().exists()

    def test_a_session_deleted_meanwhile_leaves_nothing(self, session, branch, meanwhile):
        run = chat.request_compaction(branch[-1])
        meanwhile(lambda: chat.delete_session(session))
        compact_chat_history(run.pk)
        assert not ChatSession.objects.filter(pk=session.pk).exists()
        assert not ChatMessage.objects.exists()
        assert not CompactionRun.objects.exists()

    def test_another_summary_meanwhile_wins(self, session, branch, meanwhile):
        from tests.small import anchored_summary

        meanwhile(lambda: anchored_summary(branch[60], branch[40]))
        run = chat.compact(branch[-1])
        assert (run.status, run.skip_reason) == ("skipped", "base_changed")
        assert ChatMessage.objects.summaries().count() == 1

    def test_a_base_retired_meanwhile_defeats_the_run(self, session, branch, meanwhile):
        first = chat.compact(branch[-1])
        tip = grow(session, branch[-1], "u a " * 35)[-1]
        meanwhile(lambda: chat.retire_summary(first.summary))
        run = chat.compact(tip)
        assert (run.status, run.skip_reason) == ("skipped", "base_changed")
        assert chat.find_summary(tip) is None

    def test_a_redaction_meanwhile_makes_it_read_again(self, session, branch, meanwhile):
        """What the model was shown holds the erased text: that draft is thrown away."""
        run = chat.request_compaction(branch[-1])
        secret = branch[3]
        meanwhile(lambda: chat.redact_message(secret))
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert run.status == "ready"
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert run.status == "succeeded"
        assert "[redacted]" in FakeSummarizer.requests[-1].user

    def test_no_connection_and_no_transaction_are_held_during_the_call(self, branch, meanwhile):
        seen = []
        meanwhile(lambda: seen.append((connection.in_atomic_block, connection.connection)))
        chat.compact(branch[-1])
        assert seen == [(False, None)]

    def test_a_second_worker_with_the_same_run_returns_quietly(self, session, branch, meanwhile):
        run = chat.request_compaction(branch[-1])
        others = []
        meanwhile(lambda: others.append(compact_chat_history(run.pk)))
        compact_chat_history(run.pk)
        assert others == [None]
        assert ChatMessage.objects.summaries().count() == 1

    def test_a_worker_whose_lease_ran_out_can_not_commit(self, session, branch, meanwhile, monkeypatch):
        """The lease expires by itself while the first worker waits for its model; another makes the summary."""
        monkeypatch.setattr("compaction_app.preparing.lease_seconds", lambda *_: 0.05)
        run = chat.request_compaction(branch[-1])

        def takeover():
            threading.Event().wait(0.1)
            monkeypatch.setattr("compaction_app.preparing.lease_seconds", lambda *_: 60)
            assert compact_chat_history(run.pk).run.status == "succeeded"

        meanwhile(takeover)
        compact_chat_history(run.pk)
        run.refresh_from_db()
        assert (run.status, run.attempts, run.generation) == ("succeeded", 2, 1)
        assert ChatMessage.objects.summaries().count() == 1


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

    def test_a_host_s_summarizer_that_raises_is_recorded_without_its_text(self, branch, monkeypatch):
        monkeypatch.setattr(FakeSummarizer, "error", RuntimeError("quoting the secret conversation"))
        with pytest.raises(CompactionFailed):
            chat.compact(branch[-1])
        run = CompactionRun.objects.get()
        assert run.error_code == "provider_error"
        assert "secret" not in run.error_detail

    def test_a_redactor_that_raises_ends_the_run_and_says_so(self, branch, settings):
        """Left claimed, the run would block its branch until the lease ends, again and again."""
        settings.COMPACTION = small(REDACTOR="tests.test_compaction.refusing_redactor")
        with pytest.raises(CompactionFailed):
            chat.compact(branch[-1])
        run = CompactionRun.objects.get()
        assert (run.status, run.error_code) == ("failed", "provider_error")
        assert run.error_detail == "REDACTOR raised UnicodeError; nothing was sent."

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

    def test_the_breaker_closes_with_time(self, branch, monkeypatch, settings):
        settings.COMPACTION = small(BREAKER_SECONDS=0)
        self.failing(monkeypatch, error_code="authentication")
        for _ in range(3):
            compact_chat_history(chat.request_compaction(branch[-1]).pk)
        assert chat.request_compaction(branch[-1]) is not None

    def test_two_drafts_without_progress_open_the_breaker(self, session, branch, monkeypatch):
        self.failing(monkeypatch, error_code="no_progress")
        for _ in range(2):
            compact_chat_history(chat.request_compaction(branch[-1]).pk)
        assert chat.request_compaction(branch[-1]) is None
        assert kinds(session).count("no_progress") == 2


class TestTrigger:
    def test_under_the_threshold_nothing_is_wanted(self, session):
        tip = grow(session, None, "u a " * 30)[-1]
        assert not chat.should_compact(tip)
        assert chat.request_compaction(tip) is None
        assert kinds(session) == []

    def test_over_the_threshold_a_run_is_opened_and_noted(self, session, branch):
        assert chat.should_compact(branch[-1])
        run = chat.request_compaction(branch[-1])
        assert (run.status, run.trigger) == ("ready", "threshold")
        event = CompactionEvent.objects.get(session=session)
        assert event.kind == "threshold_hit"
        assert event.payload == {"history_tokens": 7_000, "threshold": 6_000, "window": 10_000}

    def test_old_tool_results_that_pruning_shortens_need_no_summary(self, session, settings):
        settings.COMPACTION = small(PRUNE_TOOL_RESULT_BYTES=500)
        tip = grow(session, None, "u c t(6000) a u a u a u a")[-1]
        assert not chat.should_compact(tip)
        context = chat.get_context(tip)
        assert (context.strategy, context.pruned, context.dropped) == ("tool_result_budget", 1, 0)

    def test_the_cool_down_holds_back_what_just_ran(self, session, settings, branch):
        settings.COMPACTION = small(COOLDOWN_SECONDS=60, COVERAGE_RATIO=0.4)
        compact_chat_history(chat.request_compaction(branch[-1]).pk)
        tip = grow(session, branch[-1], "u a " * 26)[-1]
        assert chat.should_compact(tip)
        assert chat.request_compaction(tip) is None
        event = CompactionEvent.objects.filter(kind="suppressed").latest("id")
        assert event.payload["reason"] == "cooldown"

    def test_what_can_not_be_made_smaller_is_said_once(self, session):
        tip = grow(session, None, "u a(6500)")[-1]
        assert chat.request_compaction(tip) is None
        assert chat.request_compaction(tip) is None
        events = CompactionEvent.objects.filter(session=session)
        assert [event.payload["reason"] for event in events] == ["irreducible"]

    def test_deterministic_mode_compacts_inline(self, branch, settings):
        settings.COMPACTION = small(MODE="deterministic")
        assert chat.request_compaction(branch[-1]).status == "succeeded"

    def test_a_shared_anchor_is_compacted_by_one_of_two_tips(self, session):
        trunk = grow(session, None, "u a " * 40)
        left = grow(session, trunk[-1], "u a")[-1]
        right = grow(session, trunk[-1], "u a")[-1]
        assert chat.request_compaction(left) is not None
        assert chat.request_compaction(right) is None

    def test_branches_that_share_nothing_uncompacted_run_side_by_side(self, session):
        trunk = grow(session, None, "u a")
        left = grow(session, trunk[-1], "u a " * 40)[-1]
        right = grow(session, trunk[-1], "u a " * 40)[-1]
        first, second = chat.request_compaction(left), chat.request_compaction(right)
        for run in (second, first):
            compact_chat_history(run.pk)
        assert CompactionRun.objects.filter(status="succeeded").count() == 2
        assert chat.find_summary(left) != chat.find_summary(right)


SECRET = "the code is teal-heron-7391"


def recap(request):
    return SummaryDraft(text="## Recap\n\nAll that was asked was answered, and nothing of it is open.", model="fake")


async def summarize_later(request):
    return recap(request)


ANSWERS = {
    "None": lambda request: None,
    "a text": lambda request: recap(request).text,
    "a dict": lambda request: {"text": recap(request).text},
    "a coroutine": summarize_later,
    "a draft without a text": lambda request: SummaryDraft(text=None),
    "a draft of a nameless model": lambda request: replace(recap(request), model=None),
    "an odd code": lambda request: raising(SummarizerError("a\x00b \ud83d", error_code=["odd"] * 20)),
    "an error": lambda request: raising(KeyError(SECRET)),
}


def raising(error):
    raise error


class Answering:
    """A host's summarizer that gives back what it should not."""

    answer = None
    max_input_tokens = None

    def summarize(self, request):
        return ANSWERS[self.answer](request)


class Judging(Answering):
    """The same, told how drafts are judged."""

    def summarize(self, request, accept=None, on_event=None):
        return super().summarize(request)


class AwaitedJudging(Judging):
    async def asummarize(self, request, accept=None, on_event=None):
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

    @pytest.fixture(params=[chat.compact, async_to_sync(chat.acompact)], ids=["compact", "acompact"])
    def compact(self, request):
        return request.param

    def ended(self, session):
        """The one run is over, the conversation as it was, and the next run finds nothing in its way."""
        run = CompactionRun.objects.get(session=session)
        assert (run.status, run.claim_token, run.lease_expires_at) == ("failed", None, None)
        assert run.finished_at is not None
        assert kinds(session)[-1] == "failed"
        assert "teal-heron" not in f"{run.error_detail} {run.error_code}"
        assert ChatMessage.objects.summaries().count() == 0
        return run

    @pytest.mark.parametrize("named", ["Answering", "Judging", "AwaitedJudging"])
    @pytest.mark.parametrize("answer", ANSWERS)
    def test_what_a_summarizer_should_not_give_back_ends_the_run(
        self, session, branch, settings, monkeypatch, compact, answer, named, caplog
    ):
        monkeypatch.setattr(Answering, "answer", answer)
        settings.COMPACTION = small(SUMMARIZER=f"{__name__}.{named}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(CompactionFailed):
                compact(branch[-1])
        run = self.ended(session)
        assert run.error_code == ("provider_error" if answer != "an odd code" else str(["odd"] * 20)[:30])
        assert run.error_detail
        assert "teal-heron" not in caplog.text
        settings.COMPACTION = small()
        assert compact(branch[-1]).status == "succeeded"

    def test_what_raises_while_a_draft_is_judged_ends_the_run_and_its_call_is_paid(
        self, session, branch, settings, compact
    ):
        settings.COMPACTION = small(SUMMARIZER=f"{__name__}.Counted", TOKEN_COUNTER=f"{__name__}.Miscounting")
        with pytest.raises(CompactionFailed):
            compact(branch[-1])
        run = self.ended(session)
        assert (run.error_code, run.input_tokens, run.output_tokens) == ("provider_error", 700, 20)
        assert run.error_detail == "Counted was being judged, which raised ArithmeticError"

    def test_what_raises_inside_the_commit_ends_the_run_and_leaves_nothing(self, session, branch, compact, caplog):
        """A receiver of the host's on every message that is stored."""

        def receive(instance, **kwargs):
            if instance.kind == "summary":
                raise LookupError(SECRET)

        with receiving(post_save, receive, ChatMessage), pytest.raises(CompactionFailed) as caught:
            compact(branch[-1])
        run = self.ended(session)
        assert (run.error_code, run.summary_id, run.generation) == ("provider_error", None, None)
        assert caught.value.error_detail == run.error_detail == "LookupError while the summary was made"
        assert "error run=" in caplog.text
        assert "teal-heron" not in caplog.text
        assert compact(branch[-1]).generation == 1

    def test_a_database_that_is_briefly_away_puts_a_background_run_off(self, session, branch):
        went = []

        def receive(instance, **kwargs):
            if instance.kind == "summary" and not went:
                went.append(instance)
                raise OperationalError("the connection is lost")

        run = chat.request_compaction(branch[-1])
        with receiving(post_save, receive, ChatMessage):
            outcome = compact_chat_history(run.pk)
            assert (outcome.run.status, outcome.run.error_code) == ("ready", "provider_error")
            assert outcome.run.next_attempt_at > timezone.now()
            assert (outcome.run.claim_token, outcome.run.attempts) == (None, 1)
            CompactionRun.objects.update(next_attempt_at=None)
            assert compact_chat_history(run.pk).run.status == "succeeded"

    def test_a_start_that_can_not_be_recorded_ends_the_run(self, session, branch, compact):
        def receive(instance, **kwargs):
            if instance.kind == "started":
                raise LookupError

        with receiving(post_save, receive, CompactionEvent), pytest.raises(CompactionFailed):
            compact(branch[-1])
        assert self.ended(session).error_detail == "LookupError while the summary was made"

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

    def test_an_interrupt_leaves_it_too(self, session, branch, settings):
        def interrupt():
            raise KeyboardInterrupt

        settings.COMPACTION = small(SUMMARIZER=f"{__name__}.Interfering")
        Interfering.action = staticmethod(interrupt)
        with pytest.raises(KeyboardInterrupt):
            chat.compact(branch[-1])
        run = CompactionRun.objects.get(session=session)
        assert (run.status, run.claim_token) == ("ready", None)
        assert compact_chat_history(run.pk).run.status == "succeeded"

    def test_a_claim_that_another_worker_took_meanwhile_stays_theirs(self, session, branch):
        """What fails after the lease ended does not end the work of whoever has the run now."""
        theirs = uuid.uuid4()

        def receive(instance, **kwargs):
            if instance.kind == "started":
                CompactionRun.objects.filter(session=session).update(claim_token=theirs)
                raise LookupError

        run = chat.request_compaction(branch[-1])
        with receiving(post_save, receive, CompactionEvent):
            compact_chat_history(run.pk)
        # The receiver's own update went with the transaction that it broke, if it stood in one.
        run.refresh_from_db()
        assert (run.status, run.claim_token) == ("running", theirs)


@contextlib.contextmanager
def receiving(signal, receiver, sender):
    signal.connect(receiver, sender=sender)
    try:
        yield
    finally:
        signal.disconnect(receiver, sender=sender)


class TestPolicy:
    """A host's POLICY: asked only where a compaction is wanted, and never the reason why a turn fails."""

    @pytest.mark.parametrize("answer", ["raises", "unknown"])
    def test_a_policy_that_errs_counts_as_allow(self, branch, settings, monkeypatch, answer):
        def erring(tip, budget):
            if answer == "raises":
                raise RuntimeError
            return PolicyDecision(action="perhaps")

        monkeypatch.setattr("tests.test_compaction.policy", erring)
        load.cache_clear()
        settings.COMPACTION = small(POLICY="tests.test_compaction.policy")
        assert chat.request_compaction(branch[-1]).status == "ready"
        load.cache_clear()


def refusing_redactor(text):
    raise UnicodeError(text)


def policy(tip, budget):
    return PolicyDecision()


def test_claims_are_won_by_exactly_one_of_many_threads(session, branch):
    run = chat.request_compaction(branch[-1])
    won, barrier = [], threading.Barrier(8)

    def contend():
        try:
            barrier.wait()
            if runs.claim(run.pk, "default", 60):
                won.append(threading.get_ident())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
