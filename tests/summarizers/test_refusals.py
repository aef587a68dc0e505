"""Every code of a draft that is no summary and of a model that did not answer, made to happen by a real server.

Through ``chat.compact`` and its awaited twin, and through a background run: the code is on the run and in the event,
the caller is told, and the conversation is as it was. Where nobody waits, an extract stands in after the last attempt.
Then the breaker: seen opening, holding and closing.
"""

from __future__ import annotations

import html
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.compaction.execute import carry_out
from compaction_app.exceptions import CompactionFailed
from compaction_app.memory.ledger import LEDGER_SHARE
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.runs import MAX_ATTEMPTS
from compaction_app.summarizers import ExtractiveSummarizer
from compaction_app.summarizers.waiting import AWAITED
from compaction_app.testing import steps
from compaction_app.testing.exchange import Body, Step, content_text
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.transfer.rebuild import rebuild, succeeded_runs
from compaction_app.tree.verify import verify_session
from compaction_app.values import ErrorCode
from tests.builders import grow
from tests.compaction.world import kinds, suppressed
from tests.small import talk
from tests.steps import cut_off, fill_target, insufficient_quota, unauthorized
from tests.summarizers.summarizing import GOOD, KEY, KEY_VARIABLE

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "The harbour of Vineta lies under the sea."


def repeat_the_marker(body: Body) -> str:
    """A recap that holds the nonce of its run's cutoff marker."""
    [nonce] = set(re.findall(r"\b[0-9a-f]{16}\b", content_text(body["messages"][-1]["content"])))
    return f"{GOOD} {nonce}"


#: Code → what the model does each time that it is asked, and how often it is asked by one attempt.
DRAFTS: dict[str, tuple[Step, int]] = {
    "empty": (steps.reply(""), 1),
    "too_short": (steps.reply("x" * 29), 1),
    "error_text": (steps.reply("Error: Rate limit reached for gpt-4o on tokens per min. Try again in 20 s."), 2),
    "nothing_told": (steps.reply("## Recap\n\n" + "The user asked about it, and the assistant answered. " * 20), 2),
    "error_text of an apology": (steps.reply("I'm sorry, I can't help with that."), 1),
    "truncated": (cut_off(), 1),
    "refused": (steps.refusal(), 1),
    "tool_call": (steps.tool_call(), 1),
    "invalid_text": (steps.reply(f"{GOOD} \x00"), 1),
    "leaked_wrapper by its marker": (steps.reply_with(repeat_the_marker), 1),
    "oversize": (fill_target(3.0), 2),
    # Not too long for what was asked, and no gain over what it replaces.
    "no_progress": (fill_target(1.35), 1),
}
PASSING: dict[str, tuple[Step, int]] = {"provider_error": (steps.server_error(503), 1), "timeout": (steps.hang(), 1)}
LASTING: dict[str, tuple[Step, int]] = {
    "quota": (insufficient_quota(), 1),
    "authentication": (unauthorized(), 1),
    "bad_request": (steps.bad_request(), 1),
    # Asked again with less, as long as there is less to ask with.
    "input_too_large": (steps.context_overflow(), 3),
}
TOO_SMALL = "input_too_large for every model"
ALL = DRAFTS | PASSING | LASTING | {TOO_SMALL: (steps.reply(GOOD), 0)}


def code_of(case: str) -> str:
    return case.partition(" ")[0]


def site(server: ScriptedOpenAIServer, case: str = "first", **changes: Any) -> dict[str, Any]:
    """Settings under which 1,700 tokens are too many, with one model that is named after the case."""
    limits = {"max_input_tokens": 50} if case == TOO_SMALL else {}
    # Long enough for the good reply of a second attempt on a busy machine.
    timeout = 1 if case == "timeout" else 5
    entry = {"model": case, "base_url": server.url, "api_key_env": KEY_VARIABLE, "timeout": timeout, **limits}
    return {
        "CONTEXT_WINDOW": 10_000,
        "RESERVED_TOKENS": 2_000,
        "TRIGGER_TOKENS_CAP": 1_600,
        "RECENT_TOKENS_CAP": 300,
        "COOLDOWN_SECONDS": 0,
        "SUMMARIZERS": {"default": {"MODELS": [entry]}},
        **changes,
    }


@pytest.fixture
def server(monkeypatch, settings):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as running:
        for case, (step, _) in ALL.items():
            running.script(model=case, default=step)
        settings.COMPACTION = site(running)
        yield running


def long_branch(session: ChatSession | None = None) -> ChatMessage:
    """The tip of about 1,700 tokens."""
    session = session or chat.start_session()
    first = chat.append_message(session, None, role="user", content=SECRET)
    return grow(session, first, "a " + "u a " * 8)[-1]


def stored(tip: ChatMessage) -> dict[str, Any]:
    """The conversation as it stands, and what a model would be sent."""
    session = ChatSession.objects.values().get(pk=tip.session_id)
    del session["updated_at"]
    rows = list(ChatMessage.objects.filter(session_id=tip.session_id).order_by("id").values())
    return {"session": session, "rows": rows, "context": chat.get_context(tip)}


def check_record(run: CompactionRun, case: str) -> None:
    """The code on the run and in its last event, and of the conversation not a word."""
    assert (run.status, run.error_code, run.attempts) == ("failed", code_of(case), 1)
    assert run.error_detail.startswith(f"{case}: {code_of(case)}")
    assert (run.summary_id, run.generation, run.claim_token) == (None, None, None)
    extra = {"oversize": ["summary_oversize"], "no_progress": ["no_progress"]}.get(case, [])
    told = list(run.events.order_by("id"))
    assert [event.kind for event in told if event.kind != "threshold_hit"] == ["started", *extra, "failed"]
    assert (told[-1].payload["code"], told[-1].payload["attempts"]) == (code_of(case), 1)
    recorded = str([*CompactionRun.objects.values(), *CompactionEvent.objects.values()])
    assert [word in recorded for word in ("Vineta", KEY, KEY_VARIABLE)] == [False, False, True]


def lines(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(start)]


def test_every_code_is_made_to_happen():
    # A time limit ends a run, not a model: tests/compaction/test_lease.py.
    assert {code_of(case) for case in ALL} == {str(code) for code in ErrorCode} - {"time_limit"}


class TestManual:
    @pytest.mark.few
    @pytest.mark.parametrize(
        ("case", "is_awaited"), [*((case, False) for case in ALL), ("empty", True), ("timeout", True), ("quota", True)]
    )
    def test_each_code_is_on_the_run_and_in_the_event_and_nothing_is_changed(
        self, server, settings, case, is_awaited, caplog
    ):
        """A person who waits is told at once, also where waiting might help."""
        settings.COMPACTION = site(server, case)
        tip = long_branch()
        before = stored(tip)
        compact = async_to_sync(chat.acompact) if is_awaited else chat.compact
        with pytest.raises(CompactionFailed) as caught:
            compact(tip)
        run = CompactionRun.objects.get(session_id=tip.session_id)
        assert (caught.value.error_code, caught.value.run_id) == (code_of(case), run.pk)
        assert caught.value.error_detail == run.error_detail
        check_record(run, case)
        # The smallest request may be known to be too large before it is sent: it depends on the tokens of the day, the
        # hour and the nonce.
        fewest = ALL[case][1] - (case == "input_too_large")
        assert fewest <= server.count(case) <= ALL[case][1]
        assert stored(tip) == before
        told = [
            record for record in caplog.records if f"failed run={run.pk} code={code_of(case)} " in record.getMessage()
        ]
        assert [record.levelno for record in told] == [logging.WARNING]


class TestBackground:
    def carried_out(self, run):
        async_to_sync(carry_out)(CompactionRun.objects.all(), run.pk, AWAITED)
        run.refresh_from_db()
        return run

    @pytest.mark.parametrize("case", ["empty", "oversize", "authentication", TOO_SMALL])
    def test_a_lasting_failure_ends_the_run(self, server, settings, case):
        """Where no extract may stand in."""
        settings.COMPACTION = site(server, case, EXTRACT_FALLBACK=False)
        tip = long_branch()
        before = stored(tip)
        run = self.carried_out(chat.request_compaction(tip))
        check_record(run, case)
        assert kinds(tip.session)[0] == "threshold_hit"
        assert stored(tip) == before

    @pytest.mark.parametrize("case", PASSING)
    def test_a_passing_trouble_puts_the_run_off(self, server, settings, case, caplog):
        """And the next attempt, once it is due, makes the summary of the same run."""
        settings.COMPACTION = site(server, case)
        tip = long_branch()
        before = stored(tip)
        run = self.carried_out(chat.request_compaction(tip))
        assert (run.status, run.error_code, run.attempts, run.claim_token) == ("ready", code_of(case), 1, None)
        assert run.next_attempt_at > timezone.now()
        assert kinds(tip.session) == ["threshold_hit", "started"]
        assert lines(caplog, f"retry run={run.pk} code={code_of(case)} ")
        assert stored(tip) == before
        assert chat.request_compaction(tip) is None, "the run that waits holds its branch"
        server.script(model=case, default=steps.reply(GOOD))
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=timezone.now() - timedelta(seconds=1))
        self.carried_out(run)
        assert (run.status, run.error_code, run.error_detail, run.attempts) == ("succeeded", "", "", 2)
        assert CompactionRun.objects.count() == 1

    def test_it_waits_as_long_as_the_provider_asks(self, server, settings):
        settings.COMPACTION = site(server, "provider_error")
        server.script([steps.rate_limited(60)], model="provider_error")
        run = self.carried_out(chat.request_compaction(long_branch()))
        assert run.status == "ready"
        assert 55 < (run.next_attempt_at - timezone.now()).total_seconds() < 65


@pytest.mark.parametrize("filled", [0.5, 1.0, 1.4])
def test_what_the_model_is_shown_stands_below_its_summary_whatever_that_takes(server, filled):
    """A draft that filled its target left the ledger nothing."""
    server.script(model="first", default=fill_target(filled))
    run = chat.compact(talk(chat.start_session())[-1])
    target, asked = run.request["target_tokens"], content_text(server.requests[-1]["messages"][1]["content"])
    shown = html.unescape(asked.rpartition("<working-memory>")[2].partition("</working-memory>")[0])
    assert 0.8 * LEDGER_SHARE * target < run.request["memory_tokens"] <= LEDGER_SHARE * target
    assert f"aim for about {target - run.request['memory_tokens']} tokens" in asked
    numbers = set(re.findall(r"\d+", shown))
    assert len(numbers) > 5
    assert [number for number in numbers if number not in run.summary.text] == []
    assert run.summary.ledger


class TestExtract:
    """What stands in for a model's summary."""

    @pytest.mark.few
    @pytest.mark.parametrize("case", ["oversize", "no_progress", *PASSING, "quota", TOO_SMALL])
    def test_it_does_after_the_last_attempt_whatever_the_code(self, server, settings, case, caplog, broker):
        settings.COMPACTION = site(server, case)
        tip = long_branch()
        run = chat.request_compaction(tip)
        if case in PASSING:
            # One attempt before the last one it is put off once more.
            CompactionRun.objects.filter(pk=run.pk).update(attempts=MAX_ATTEMPTS - 2)
            assert tasks.compact_branch(run.pk) == "ready"
            *_, again = lines(caplog, f"enqueued run={run.pk} session={tip.session_id} task=")
            assert 64 <= float(again.rpartition(" countdown=")[2]) < 129
            assert chat.find_summary(tip) is None
            CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        assert tasks.compact_branch(run.pk) == "succeeded"
        run.refresh_from_db()
        assert (run.error_code, run.attempts) == (code_of(case), MAX_ATTEMPTS if case in PASSING else 1)
        assert run.error_detail.startswith(f"{case}: {code_of(case)}")
        assert (run.summary.is_extract, run.shortened_inputs) == (True, [])
        assert SECRET.rstrip(".") in run.summary.content
        [told] = run.events.filter(kind="model_failed").values_list("payload", flat=True)
        assert told == {"model": case, "code": code_of(case), "instead": "extract"}
        assert kinds(tip.session).count("no_progress") == (case == "no_progress")
        assert lines(caplog, f"failed run={run.pk} code={code_of(case)} ")[0].endswith(" instead=extract")
        assert verify_session(tip.session).problems == []
        again = rebuild(succeeded_runs(CompactionRun.objects.all()).get(pk=run.pk))
        assert ExtractiveSummarizer(again.settings).summarize(again.request).text.strip() == run.summary.content

    def test_it_covers_at_once_what_a_small_model_would_need_generations_for(self, server, settings):
        settings.COMPACTION = site(server, "authentication")
        [entry] = settings.COMPACTION["SUMMARIZERS"]["default"]["MODELS"]
        entry["max_input_tokens"] = 1_800
        tip = long_branch()
        run = chat.request_compaction(tip)
        cutoff = run.cutoff_id
        assert tasks.compact_branch(run.pk) == "succeeded"
        assert server.count("authentication") == 1
        [run] = CompactionRun.objects.all()
        assert run.cutoff_id == cutoff
        server.script(model="authentication", default=steps.reply(GOOD))
        chat.retire_summary(run.summary)
        again = CompactionRun.objects.open().get()
        assert tasks.compact_branch(again.pk) == "succeeded"
        again.refresh_from_db()
        assert again.cutoff.depth < run.cutoff.depth, "the model would have needed several"

    def test_it_stands_without_a_model_where_the_memory_leaves_little_room(self, server, settings):
        """A model was asked for 26 tokens, with headings. Where a host wants no extract, it still is."""
        settings.COMPACTION = site(server, SUMMARY_TARGET_TOKENS=200)
        run = chat.compact(long_branch())
        assert (run.status, run.error_code, run.summary.is_extract) == ("succeeded", "", True)
        assert (run.summarizer_model, server.requests) == ("extractive", [])
        settings.COMPACTION = site(server, SUMMARY_TARGET_TOKENS=200, EXTRACT_FALLBACK=False)
        assert not chat.compact(long_branch()).summary.is_extract
        settings.COMPACTION = site(server, SUMMARY_TARGET_TOKENS=300)
        assert not chat.compact(long_branch()).summary.is_extract

    @pytest.mark.parametrize("trigger", ["manual", "overflow"])
    def test_nobody_who_waits_is_given_one(self, server, settings, trigger):
        settings.COMPACTION = site(server, "quota")
        tip = long_branch()
        run = chat.request_compaction(tip, trigger=trigger)
        assert tasks.compact_branch(run.pk) == "failed"
        assert chat.find_summary(tip) is None

    def test_three_in_a_row_open_the_breaker_and_a_models_summary_closes_it(self, server, settings):
        settings.COMPACTION = site(server, "authentication")
        tip = long_branch()
        for number in range(3):
            run = chat.request_compaction(tip)
            assert run is not None, number
            assert tasks.compact_branch(run.pk) == "succeeded"
            tip = grow(tip.session, tip, "u a " * 8)[-1]
        assert chat.request_compaction(tip) is None
        assert suppressed(session=tip.session) == [{"reason": "breaker", "failures": 3}]
        server.script(model="authentication", default=steps.reply(GOOD))
        assert chat.compact(tip).error_code == ""
        tip = grow(tip.session, tip, "u a " * 8)[-1]
        assert chat.request_compaction(tip) is not None


class TestBreaker:
    @pytest.fixture
    def server(self, server, settings):
        settings.COMPACTION = site(server, EXTRACT_FALLBACK=False)
        return server

    def fail(self, server: ScriptedOpenAIServer, tip: ChatMessage, step: Step, times: int) -> None:
        for _ in range(times):
            server.script([step])
            run = chat.request_compaction(tip)
            assert run is not None
            assert tasks.compact_branch(run.pk) == "failed"

    def let_its_seconds_pass(self, tip: ChatMessage) -> None:
        earlier = F("finished_at") - timedelta(seconds=301)
        CompactionRun.objects.filter(session_id=tip.session_id).update(finished_at=earlier)

    def test_two_drafts_in_a_row_that_gain_nothing_open_it(self, server, settings):
        """Where the target is most of what is replaced, a draft can be as long as was asked for and gain nothing."""
        settings.COMPACTION = site(server, "no_progress", EXTRACT_FALLBACK=False)
        tip = long_branch()
        for _ in range(2):
            assert tasks.compact_branch(chat.request_compaction(tip).pk) == "failed"
        assert chat.request_compaction(tip) is None
        assert suppressed(session=tip.session) == [{"reason": "breaker", "failures": 2}]
        assert server.count("no_progress") == 2
        server.script([steps.reply(GOOD)], model="no_progress")
        assert chat.compact(tip).status == "succeeded", "a person may still try"

    def test_it_is_the_branchs_own(self, server):
        session = chat.start_session()
        tip = long_branch(session)
        self.fail(server, tip, unauthorized(), 3)
        assert chat.request_compaction(tip) is None
        assert chat.request_compaction(long_branch(session)) is not None
        shared = grow(session, tip, "u a")[-1]
        assert chat.request_compaction(shared) is None

    def test_it_closes_after_its_seconds_and_one_more_failure_opens_it_again(self, server):
        tip = long_branch()
        self.fail(server, tip, unauthorized(), 3)
        assert chat.request_compaction(tip) is None
        self.let_its_seconds_pass(tip)
        self.fail(server, tip, unauthorized(), 1)
        assert chat.request_compaction(tip) is None
        assert suppressed(session=tip.session) == [{"reason": "breaker", "failures": n} for n in (3, 4)]
        self.let_its_seconds_pass(tip)
        run = chat.request_compaction(tip)
        assert run is not None
        assert tasks.compact_branch(run.pk) == "succeeded"
