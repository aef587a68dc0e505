"""What runs cost: the arithmetic, the setting that it stands on, and the sums over attempts and sessions."""

import logging
from decimal import Decimal

import pytest
from django.db import connections

from compaction_app import chat, telemetry
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.conf import settings_from_snapshot
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.messages.transcript import count_summary
from compaction_app.models import CompactionRun
from compaction_app.spending import add_spending, cost_of, session_spending
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import ModelCall, SummaryDraft
from tests.builders import grow, words
from tests.fake_summarizer import FakeSummarizer
from tests.small import anchored_summary, small

pytestmark = pytest.mark.django_db(transaction=True)

LISTED = {
    "small-model": {"price": {"input": 0.2, "cached": 0.02, "output": 1.25}},
    "large-model": {"price": {"input": 2, "output": 10}},
}
PRICES = settings_from_snapshot({"MODELS": LISTED}).stated("price")
GOOD = "## Recap\n\nThe user keeps the harbour's books, and you help with it."


def call(model="small-model", **tokens):
    return ModelCall(model=model, **{f"{name}_tokens": number for name, number in tokens.items()})


class TestCost:
    @pytest.mark.parametrize(
        ("calls", "cost"),
        [
            ([call(input=1_000_000)], "0.2"),
            ([call(input=1_000_000, cached=250_000, output=1_000)], "0.15625"),
            ([call("large-model", input=1_000, cached=400)], "0.002"),
            ([call(input=10, output=10), call("large-model", input=10, output=10)], "0.0001345"),
            ([call("extractive")], "0"),
            ([], "0"),
        ],
        ids=["input", "partly cached", "cached without a price", "two", "extract", "none"],
    )
    def test_the_sum_of_all_calls_by_the_million(self, calls, cost):
        assert cost_of(calls, PRICES) == Decimal(cost)

    @pytest.mark.parametrize("unknown", [call("small-model-2026", input=5), call(), call("SMALL-MODEL", input=5)])
    def test_one_call_of_unknown_cost_makes_the_sum_unknown(self, unknown):
        """A part of a sum is no cost. Names are exact; a provider that reports no usage leaves the cost open."""
        assert cost_of([call(input=5), unknown], PRICES) is None


@pytest.fixture
def server(monkeypatch):
    """Its usage is in round numbers, fewer than were sent: no prompt was cut for that."""
    monkeypatch.setattr("compaction_app.context.overflow._SMALLEST_CUT", 10**9)
    with ScriptedOpenAIServer(default=steps.reply(GOOD, usage=usage(100, 20))) as running:
        yield running


def usage(prompt, completion, cached=0):
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@pytest.fixture
def priced(settings, server):
    models = [{"model": name, "base_url": server.url} for name in ("small-model", "large-model")]
    settings.COMPACTION = small(asked={"MODELS": models}, MODELS=LISTED)


@pytest.fixture
def branch(priced, branch):
    return branch


def spent(run):
    run.refresh_from_db()
    return run.input_tokens, run.output_tokens, run.cached_tokens, run.cost


class TestRuns:
    def test_refused_and_retried_drafts_are_paid_for_too(self, server, branch):
        """An empty draft of the first model, an oversize one and its tighter retry of the second: one sum."""
        server.script([steps.reply("", usage=usage(3_000, 0))], model="small-model")
        long = [steps.reply(words(6_000), usage=usage(3_000, 5_996)), steps.reply(GOOD, usage=usage(3_010, 40))]
        server.script(long, model="large-model")
        run = chat.compact(branch[-1])
        assert server.count("large-model") == 2
        assert spent(run)[:3] == (9_010, 6_036, 0)
        assert run.cost == Decimal("0.0006") + Decimal("0.01202") + Decimal("0.06036")
        assert run.summarizer_model == "large-model"
        told = run.events.get(kind="completed").payload
        assert (told["input_tokens"], told["tokens_before"], told["tokens_after"]) == (9_010, 7_000, run.tokens_after)

    def test_attempts_add_up(self, server, branch):
        """The first attempt gets a refused draft and a 500, which waits; the second a summary."""
        server.script([steps.reply("", usage=usage(3_000, 0))], model="small-model")
        server.script([steps.server_error()], model="large-model")
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        assert spent(run)[:2] == (3_000, 0)
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        compact_chat_history(run.pk)
        assert spent(run) == (3_100, 20, 0, Decimal("0.0006") + Decimal("0.000045"))
        assert (run.status, run.attempts) == ("succeeded", 2)

    def test_a_cost_once_unknown_stays_unknown(self, branch):
        run = chat.request_compaction(branch[-1])
        for calls in ([call(input=10)], [call("nobody", input=10)], [call(input=10)]):
            add_spending(run, calls, PRICES)
        assert (run.input_tokens, run.cost) == (30, None)
        assert spent(run)[3] is None

    def test_a_worker_that_lost_its_claim_has_paid_too(self, server, branch, monkeypatch):
        """Its calls are added while the other worker commits, and that commit does not overwrite them."""
        run = chat.request_compaction(branch[-1])
        late = CompactionRun.objects.get(pk=run.pk)

        def meanwhile(text, count):
            add_spending(late, [call(input=1_000)], PRICES)
            return count_summary(text, count)

        monkeypatch.setattr("compaction_app.compaction.execute.count_summary", meanwhile)
        compact_chat_history(run.pk)
        assert spent(run) == (1_100, 20, 0, Decimal("0.0002") + Decimal("0.000045"))
        assert run.status == "succeeded"

    def test_a_draft_that_another_run_made_useless_is_paid_for(self, server, branch):
        def meanwhile(body):
            anchored_summary(branch[60], branch[40])
            # Of the server's own thread, which nobody else would close.
            connections.close_all()
            return GOOD

        server.script([steps.reply_with(meanwhile, usage=usage(3_000, 10))])
        run = chat.compact(branch[-1])
        assert (run.status, run.skip_reason) == ("skipped", "base_changed")
        assert spent(run)[:2] == (3_000, 10)

    def test_a_model_without_a_price_is_logged_once(self, settings, server, branch, caplog, monkeypatch):
        monkeypatch.setattr(telemetry, "_said", set())
        settings.COMPACTION = {**settings.COMPACTION, "MODELS": {}}
        with caplog.at_level(logging.INFO, logger="compaction_app.spending"):
            first = chat.compact(branch[-1])
            chat.compact(grow(first.session, branch[-1], "u a " * 35)[-1])
        assert first.cost is None
        assert caplog.text.count("unpriced model=small-model reason=not_in_prices") == 1


def test_a_host_s_draft_is_one_call_and_its_error_may_bring_more(settings, branch, monkeypatch):
    settings.COMPACTION = small(MODELS=LISTED)
    drafts = [
        SummaryDraft(text=words(6_000), model="small-model", input_tokens=100, output_tokens=10),
        SummarizerError("gone", error_code="quota", calls=[call(input=7)]),
    ]

    def summarize(self, request):
        answer = drafts.pop(0)
        if isinstance(answer, SummarizerError):
            raise answer
        return answer

    monkeypatch.setattr(FakeSummarizer, "summarize", summarize)
    with pytest.raises(CompactionFailed):
        chat.compact(branch[-1])
    assert spent(CompactionRun.objects.get())[:2] == (107, 10)


def test_a_session_s_sum_is_one_query(server, branch, django_assert_num_queries):
    session = branch[0].session
    server.script([steps.reply("", usage=usage(1_000, 0))] * 2)
    with pytest.raises(CompactionFailed):
        chat.compact(branch[-1])
    chat.compact(branch[-1])
    tip = grow(session, branch[-1], "u a " * 35)[-1]
    unpriced = chat.compact(tip)
    CompactionRun.objects.filter(pk=unpriced.pk).update(cost=None)
    chat.compact(tip)  # nothing to compact: no model was asked
    other = grow(chat.start_session(), None, "u a " * 35)[-1]
    chat.compact(other)
    with django_assert_num_queries(1):
        total = session_spending(session)
    assert (total.runs, total.unpriced_runs) == (3, 1)
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (2_200, 40, 0)
    assert total.cost == Decimal("0.0022") + Decimal("0.000045")
