"""Spans and metrics as a real SDK collects them, and log lines: names, numbers, and no word of a conversation."""

import asyncio
import logging
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import openai
import pytest
from django.db import transaction
from django.dispatch import Signal
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from compaction_app import chat, signals, telemetry
from compaction_app.compaction import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.log_lines import line, log
from compaction_app.models import CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.builders import grow
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.testing.summarizers import FakeSummarizer
from compaction_app.values import EventKind, PolicyDecision
from tests.conftest import REPOSITORY
from tests.small import anchored_summary, small

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "pelican"
GOOD = f"## Recap\n\nThe {SECRET} keeps the harbour's books, and you help with it."
USAGE = {
    "prompt_tokens": 3_000,
    "completion_tokens": 50,
    "total_tokens": 3_050,
    "prompt_tokens_details": {"cached_tokens": 1_000},
}


class Collected:
    """What the SDK of this process has collected since the last look."""

    def __init__(self):
        self.spans = InMemorySpanExporter()
        delta = AggregationTemporality.DELTA
        self._reader = InMemoryMetricReader(preferred_temporality={Counter: delta, Histogram: delta})
        self._tracers, self._meters = TracerProvider(), MeterProvider([self._reader])
        self._tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        # Set once a process, as in a host's: what the app made before it is bound to it now.
        trace.set_tracer_provider(self._tracers)
        metrics.set_meter_provider(self._meters)

    def clear(self):
        self.spans.clear()
        self._reader.get_metrics_data()

    def shut_down(self):
        """The modules that follow collect nothing more."""
        self._tracers.shutdown()
        self._meters.shutdown()

    def metrics(self):
        """Name → points, each as its attributes and its value: a sum, or how many were recorded and their sum."""
        data = self._reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "compaction_app"
                for metric in scope.metrics:
                    found[metric.name] = [(dict(point.attributes), point) for point in metric.data.data_points]
        return found


@pytest.fixture(scope="module")
def sdk():
    collected = Collected()
    yield collected
    collected.shut_down()


@pytest.fixture
def collected(sdk):
    sdk.clear()
    return sdk


@pytest.fixture
def server():
    with ScriptedOpenAIServer(default=steps.reply(GOOD, usage=USAGE)) as running:
        yield running


@pytest.fixture
def cascade(settings, server):
    models = [{"model": name, "base_url": server.url} for name in ("small-model", "large-model")]
    settings.COMPACTION = small(SUMMARIZER="compaction_app.summarizers.OpenAISummarizer", SUMMARIZER_MODELS=models)


@pytest.fixture
def fake(settings):
    settings.COMPACTION = small()
    FakeSummarizer.reset()
    yield
    FakeSummarizer.reset()


def over_threshold(session=None):
    session = session or chat.start_session(title=SECRET)
    return grow(session, None, "u a " * 35, word=SECRET)


@pytest.mark.usefixtures("cascade")
class TestSpans:
    def spans(self, collected):
        """By start, so that a run stands before its calls."""
        return sorted(collected.spans.get_finished_spans(), key=lambda span: span.start_time)

    def test_a_run_is_a_span_and_each_call_of_a_model_one_below_it(self, collected, server):
        server.script([steps.reply("", usage={**USAGE, "completion_tokens": 0})], model="small-model")
        run = chat.compact(over_threshold()[-1])
        whole, first, second = self.spans(collected)
        assert [span.name for span in (whole, first, second)] == [
            "compaction.run",
            "chat small-model",
            "chat large-model",
        ]
        assert first.parent.span_id == second.parent.span_id == whole.context.span_id
        assert (whole.kind, first.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
        assert dict(whole.attributes) == {
            "compaction.run.id": run.pk,
            "compaction.layer": "auto_compact",
            "compaction.trigger": "manual",
            "compaction.attempt": 1,
            "gen_ai.conversation.id": str(run.session_id),
            "compaction.outcome": "succeeded",
            "compaction.generation": 1,
            "compaction.messages_compacted": run.messages_compacted,
            "compaction.tokens_before": run.tokens_before,
            "compaction.tokens_after": run.tokens_after,
        }
        port = int(server.url.split(":")[2].split("/")[0])
        assert dict(second.attributes) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "large-model",
            "gen_ai.request.max_tokens": 20_000,
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 3_000,
            "gen_ai.usage.output_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 1_000,
            "server.address": "127.0.0.1",
            "server.port": port,
        }
        assert whole.status.status_code is StatusCode.UNSET

    def test_awaited_and_from_a_running_loop_the_calls_stand_below_their_run(self, collected):
        """Synchronously from a loop the call is made in another thread, which is given the context."""

        async def both(first, second):
            await chat.acompact(first[-1])
            await asyncio.to_thread(chat.compact, second[-1])

        asyncio.run(both(over_threshold(), over_threshold()))
        first, _, second, _ = spans = self.spans(collected)
        for run, call in (spans[:2], spans[2:]):
            assert call.parent.span_id == run.context.span_id
        assert first.context.trace_id != second.context.trace_id

    def test_a_call_that_fails_and_the_run_that_fails_with_it_carry_the_code(self, collected, server):
        server.script([steps.insufficient_quota()] * 2)
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        whole, *calls = self.spans(collected)
        assert [span.attributes["error.type"] for span in (whole, *calls)] == ["quota"] * 3
        assert {type(span.attributes["error.type"]) for span in (whole, *calls)} == {str}
        assert {span.status.status_code for span in (whole, *calls)} == {StatusCode.ERROR}
        assert whole.attributes["compaction.outcome"] == "failed"

    def test_an_attempt_that_waits_for_the_next_is_an_error_span_with_the_outcome_ready(self, collected, server):
        server.script([steps.server_error()] * 2)
        run = chat.request_compaction(over_threshold()[-1])
        compact_chat_history(run.pk)
        whole = self.spans(collected)[0]
        assert (whole.attributes["compaction.outcome"], whole.attributes["error.type"]) == ("ready", "provider_error")

    def test_a_run_without_a_call_is_a_span_alone(self, collected):
        branch = over_threshold()
        run = chat.request_compaction(branch[-1])
        anchored_summary(branch[60], branch[40])
        compact_chat_history(run.pk)
        [whole] = self.spans(collected)
        assert whole.attributes["compaction.skip_reason"] == "base_changed"

    def test_a_second_delivery_leaves_no_span(self, collected):
        run = chat.request_compaction(over_threshold()[-1])
        compact_chat_history(run.pk)
        collected.clear()
        assert compact_chat_history(run.pk) is None
        assert self.spans(collected) == []

    @pytest.mark.parametrize(
        "step",
        [steps.reply(GOOD), steps.echoing_validation_error(), steps.unauthorized(), steps.drop(), steps.refusal()],
    )
    def test_no_word_of_the_conversation_is_in_a_span_or_a_metric(self, collected, server, step):
        server.script([step], model="small-model")
        chat.compact(over_threshold()[-1], instructions=f"Dwell on the {SECRET}.")
        told = [
            (span.name, dict(span.attributes), events_of(span), span.status.description)
            for span in self.spans(collected)
        ]
        points = [attributes for points in collected.metrics().values() for attributes, _ in points]
        assert told
        assert points
        assert SECRET not in str(told) + str(points)

    def test_what_a_host_s_code_raises_is_named_and_not_quoted(self, collected, settings):
        settings.COMPACTION = small(REDACTOR="tests.test_telemetry.telling_redactor")
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        [whole] = self.spans(collected)
        assert whole.attributes["error.type"] == "provider_error"
        with pytest.raises(KeyError), telemetry.run_span(CompactionRun.objects.get()):
            raise KeyError(SECRET)
        cut_short = self.spans(collected)[-1]
        assert cut_short.attributes["error.type"] == "KeyError"
        assert SECRET not in str(
            [(dict(s.attributes), events_of(s), s.status.description) for s in self.spans(collected)]
        )

    @pytest.mark.parametrize(
        ("url", "provider"),
        [
            ("https://api.openai.com/v1", "openai"),
            ("https://us.openai.azure.com/openai", "azure.ai.openai"),
            ("http://127.0.0.1:8000/v1", "openai"),
        ],
    )
    def test_a_provider_is_named_by_its_address(self, url, provider):
        assert telemetry.provider_of(url) == provider


def events_of(span):
    """With their attributes, which an event does not show by itself."""
    return [(event.name, dict(event.attributes)) for event in span.events]


def telling_redactor(text):
    raise UnicodeError(text)


class TestMetrics:
    def one(self, found, name):
        [(attributes, point)] = found[name]
        return attributes, point

    def test_a_run_is_counted_by_layer_trigger_and_outcome(self, collected, cascade):
        chat.compact(over_threshold()[-1])
        chat.compact(grow(chat.start_session(), None, "u")[0])
        found = collected.metrics()
        layer = {"compaction.layer": "auto_compact", "compaction.trigger": "manual"}
        assert {(a["compaction.outcome"], point.value) for a, point in found["compaction.runs"]} == {
            ("succeeded", 1),
            ("skipped", 1),
        }
        assert all(attributes.items() >= layer.items() for attributes, _ in found["compaction.runs"])
        attributes, point = self.one(found, "compaction.run.duration")
        assert attributes == {**layer, "compaction.outcome": "succeeded"}
        assert point.count == 1
        assert 0 < point.sum < 60

    def test_tokens_are_counted_by_model_refused_drafts_included(self, collected, cascade, server):
        server.script([steps.reply("", usage={**USAGE, "completion_tokens": 7})], model="small-model")
        run = chat.compact(over_threshold()[-1])
        found = collected.metrics()
        for name, figures in (
            ("compaction.input_tokens", {"small-model": 3_000, "large-model": 3_000}),
            ("compaction.output_tokens", {"small-model": 7, "large-model": 50}),
        ):
            assert {a["gen_ai.request.model"]: point.value for a, point in found[name]} == figures
            assert all(a["compaction.trigger"] == "manual" for a, _ in found[name])
        _, messages = self.one(found, "compaction.messages_compacted")
        assert (messages.count, messages.sum) == (1, run.messages_compacted)
        usage = {
            (a["gen_ai.request.model"], a["gen_ai.token.type"]): p.sum for a, p in found["gen_ai.client.token.usage"]
        }
        assert usage[("small-model", "output")] == 7
        assert usage[("large-model", "input")] == 3_000
        assert sum(point.count for _, point in found["gen_ai.client.operation.duration"]) == 2

    def test_a_failure_is_counted_with_its_code(self, collected, fake):
        FakeSummarizer.error = SummarizerError("away", error_code="quota")
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        attributes, point = self.one(collected.metrics(), "compaction.runs")
        assert (attributes["compaction.outcome"], attributes["error.type"], point.value) == ("failed", "quota", 1)

    def test_an_attempt_that_is_tried_again_is_no_run_yet(self, collected, fake):
        FakeSummarizer.error = SummarizerError("slow", error_code="timeout", transient=True)
        compact_chat_history(chat.request_compaction(over_threshold()[-1]).pk)
        assert "compaction.runs" not in collected.metrics()

    def test_suppressions_are_counted_by_reason(self, collected, fake):
        tip = over_threshold()[-1]
        chat.request_compaction(tip)
        chat.request_compaction(tip)
        chat.request_compaction(grow(chat.start_session(), None, "u a(6500)")[-1])
        found = collected.metrics()["compaction.suppressions"]
        assert {a["compaction.reason"]: point.value for a, point in found} == {"open_run": 1, "irreducible": 1}
        assert all(a["compaction.layer"] == "auto_compact" for a, _ in found)
        assert all(a["compaction.trigger"] == "threshold" for a, _ in found)
        assert all(type(value) is str for a, _ in found for value in a.values())

    def test_prompts_are_counted_by_the_layer_they_needed(self, collected, fake):
        session = chat.start_session()
        short = grow(session, None, "u")[-1]
        long = grow(session, None, "u a " * 60 + "u")[-1]
        for tip in (short, long):
            context = chat.get_context(tip)
            chat.append_message(session, tip, role="assistant", content="x", context=context)
        found = collected.metrics()["compaction.prompts"]
        assert {a["compaction.layer"]: point.value for a, point in found} == {"none": 1, "truncated": 1}

    def test_the_estimate_s_error_is_recorded_by_model(self, collected, fake):
        session = chat.start_session(model="house-model")
        tip = grow(session, None, "u(1000)")[-1]
        context = chat.get_context(tip)
        usage = {"prompt_tokens": 1_250}
        chat.append_message(session, tip, role="assistant", content="x", context=context, usage=usage)
        attributes, point = self.one(collected.metrics(), "compaction.estimate_error")
        assert attributes == {"gen_ai.request.model": "house-model", "compaction.direction": "under"}
        assert (point.count, point.sum) == (1, pytest.approx(0.2))

    def test_what_is_rolled_back_is_not_counted(self, collected, fake):
        session = chat.start_session(model="house-model")
        tip = grow(session, None, "u(1000)")[-1]
        context = chat.get_context(tip)
        with transaction.atomic():
            usage = {"prompt_tokens": 1_250}
            chat.append_message(session, tip, role="assistant", content="x", context=context, usage=usage)
            transaction.set_rollback(True)
        assert collected.metrics() == {}


LINE = re.compile(r"[a-z_]+( [a-z_]+=(\"([^\"\\]|\\.)*\"|[^\s\"=]+))*")


@pytest.mark.usefixtures("fake")
class TestLogs:
    """``event key=value …``: skip, start, done, failed with ids and counts, in one format."""

    @pytest.fixture
    def lines(self, caplog):
        caplog.set_level(logging.DEBUG, logger="compaction_app")

        def lines(first=""):
            found = [r.getMessage() for r in caplog.records if r.name.startswith("compaction_app")]
            return [said for said in found if said.split()[0].startswith(first)]

        return lines

    def test_a_run_says_start_and_done_with_counts_and_ids(self, lines):
        run = chat.compact(over_threshold()[-1])
        [start] = lines("start")
        assert start == (
            f"start run={run.pk} session={run.session_id} trigger=manual attempt=1 "
            f"messages={run.messages_compacted} tokens={run.messages_compacted * 100} target=1200"
        )
        done = [said for said in lines("done") if f"run={run.pk}" in said]
        told = f"done run={run.pk} session={run.session_id} summary={run.summary_id} generation=1 "
        told += f"messages={run.messages_compacted} before=7000 after={run.tokens_after} "
        assert done == [told + "input_tokens=0 output_tokens=0 retention=1.0"]

    def test_a_failure_says_failed_and_a_waiting_one_retry(self, lines):
        FakeSummarizer.error = SummarizerError(f"the {SECRET}", error_code="timeout", transient=True)
        tip = over_threshold()[-1]
        run = chat.request_compaction(tip)
        compact_chat_history(run.pk)
        [retry] = lines("retry")
        assert re.fullmatch(rf"retry run={run.pk} code=timeout attempt=1 delay=[\d.]+ session={run.session_id}", retry)
        FakeSummarizer.error = SummarizerError(f"the {SECRET}", error_code="quota")
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        compact_chat_history(run.pk)
        [failed] = [said for said in lines("failed") if "code=" in said]
        assert failed == f"failed run={run.pk} code=quota attempts=2 session={run.session_id}"

    def test_a_suppression_says_its_numbers(self, lines, settings):
        settings.COMPACTION = small(COOLDOWN_SECONDS=60, COVERAGE_RATIO=0.4)
        branch = over_threshold()
        compact_chat_history(chat.request_compaction(branch[-1]).pk)
        tip = grow(branch[0].session, branch[-1], "u a " * 26)[-1]
        assert chat.request_compaction(tip) is None
        [skip] = lines("skip")
        told = rf"skip session={tip.session_id} tip={tip.pk} reason=cooldown trigger=threshold "
        assert re.fullmatch(told + r"seconds_since=[\d.]+ covered=0\.\d+", skip)

    def skipped(self, lines, caplog):
        """Reason and level of every line that says why there is no run."""
        said = [r for r in caplog.records if r.getMessage().startswith("skip ") and "reason=" in r.getMessage()]
        return [(re.search(r"reason=(\w+)", r.getMessage())[1], r.levelname) for r in said]

    @pytest.mark.parametrize(
        ("reason", "level"),
        [
            ("under_threshold", "DEBUG"),
            ("mode_off", "INFO"),
            ("policy", "INFO"),
            ("open_run", "INFO"),
            ("breaker", "INFO"),
            ("cooldown", "INFO"),
            ("irreducible", "INFO"),
            ("nothing_to_compact", "INFO"),
        ],
    )
    def test_every_answer_of_none_says_why(self, lines, caplog, settings, reason, level):
        trigger, tip = getattr(self, f"_{reason}", lambda _: ("threshold", over_threshold()[-1]))(settings)
        caplog.clear()
        run = chat.request_compaction(tip, trigger=trigger)
        assert run is None or run.status == "skipped"
        assert self.skipped(lines, caplog) == [(reason, level)]

    def _under_threshold(self, settings):
        return "threshold", grow(chat.start_session(), None, "u a")[-1]

    def _mode_off(self, settings):
        settings.COMPACTION = small(MODE="off")
        return "threshold", over_threshold()[-1]

    def _policy(self, settings):
        settings.COMPACTION = small(POLICY="tests.test_telemetry.deferring_policy")
        return "threshold", over_threshold()[-1]

    def _open_run(self, settings):
        tip = over_threshold()[-1]
        chat.request_compaction(tip)
        return "threshold", tip

    def _breaker(self, settings):
        FakeSummarizer.error = SummarizerError("away", error_code="quota")
        tip = over_threshold()[-1]
        for _ in range(3):
            compact_chat_history(chat.request_compaction(tip).pk)
        return "threshold", tip

    def _cooldown(self, settings):
        settings.COMPACTION = small(COOLDOWN_SECONDS=60, COVERAGE_RATIO=0.4)
        branch = over_threshold()
        compact_chat_history(chat.request_compaction(branch[-1]).pk)
        return "threshold", grow(branch[0].session, branch[-1], "u a " * 26)[-1]

    def _irreducible(self, settings):
        return "threshold", grow(chat.start_session(), None, "u a(6500)")[-1]

    def _nothing_to_compact(self, settings):
        return "manual", grow(chat.start_session(), None, "u")[-1]

    def test_what_can_not_be_made_smaller_is_repeated_quietly(self, lines, caplog):
        tip = grow(chat.start_session(), None, "u a(6500)")[-1]
        for _ in range(2):
            chat.request_compaction(tip)
        assert self.skipped(lines, caplog) == [("irreducible", "INFO"), ("irreducible", "DEBUG")]

    def test_every_line_has_the_one_format_and_no_word_of_the_conversation(self, lines, caplog):
        """A life with all that can go wrong: every line in the format, and the record has the same as a dict."""
        branch = over_threshold()
        session = branch[0].session
        chat.request_compaction(branch[0])
        FakeSummarizer.error = SummarizerError(f"the {SECRET}", error_code="timeout", transient=True)
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        compact_chat_history(run.pk)
        FakeSummarizer.error = None
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        compact_chat_history(run.pk)
        compact_chat_history(10**6)
        long = grow(session, branch[-1], "u a " * 40 + "u", word=SECRET)[-1]
        context = chat.get_context(long)
        chat.append_message(
            session, long, role="assistant", content=SECRET, context=context, usage={"prompt_tokens": 9}
        )
        chat.retire_summary(chat.find_summary(long), reason=SECRET)
        chat.redact_message(branch[5])
        chat.delete_message(branch[8])
        said = lines()
        assert {one.split()[0] for one in said} >= {"skip", "start", "done", "retry", "fallback", "retired", "erased"}
        assert [one for one in said if not LINE.fullmatch(one)] == []
        assert SECRET not in " ".join(said)
        records = [r for r in caplog.records if hasattr(r, "compaction")]
        assert all(line(r.compaction["event"], self.rest(r.compaction)) == r.getMessage() for r in records)
        assert all(r.filename != "log_lines.py" for r in records), "a line names the place that wrote it"

    def rest(self, told):
        return {name: value for name, value in told.items() if name != "event"}

    @pytest.mark.parametrize("setting", ["REDACTOR", "POLICY"])
    def test_what_a_host_s_code_raises_is_located_and_not_quoted(self, lines, settings, setting):
        settings.COMPACTION = small(**{setting: f"tests.test_telemetry.telling_{setting.lower()}"})
        tip = over_threshold()[-1]
        if setting == "POLICY":
            assert chat.request_compaction(tip).status == "ready"
        else:
            with pytest.raises(CompactionFailed):
                chat.compact(tip)
        [error] = lines("error")
        assert "type=UnicodeError" in error
        assert f"in telling_{setting.lower()}" in error
        assert SECRET not in error.replace(f'"{SECRET}"', "")

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"run": 3, "reason": "gone"}, "skip run=3 reason=gone"),
            ({"a": 0.8533, "b": True, "c": [1, 2], "d": []}, "skip a=0.8533 b=true c=1,2 d=none"),
            ({"path": 'a "b" c=d'}, 'skip path="a \\"b\\" c=d"'),
            ({"path": "two\nlines"}, 'skip path="two\\nlines"'),
            ({"path": ""}, 'skip path=""'),
        ],
    )
    def test_a_value_can_not_break_its_line(self, values, said):
        assert line("skip", values) == said

    @pytest.mark.parametrize(
        ("cost", "said"),
        [("0E-8", "0"), ("0.00048250", "0.0004825"), ("1E-7", "0.0000001"), ("12.00", "12"), ("1E+2", "100")],
    )
    def test_money_is_written_as_people_write_it(self, caplog, cost, said):
        with caplog.at_level(logging.INFO, logger="compaction_app.spending"):
            log(logging.getLogger("compaction_app.spending"), logging.INFO, "done", cost=Decimal(cost))
        [record] = caplog.records
        assert (record.getMessage(), record.compaction["cost"]) == (f"done cost={said}", said)


def deferring_policy(tip, budget):
    return PolicyDecision(action="defer", reason="later")


def telling_policy(tip, budget):
    raise UnicodeError(tip.content or SECRET)


class TestDocument:
    """docs/telemetry.md names all that there is, and nothing else."""

    @pytest.fixture
    def text(self):
        return (REPOSITORY / "docs" / "telemetry.md").read_text()

    def test_every_metric(self, text):
        source = Path(telemetry.__file__).read_text()
        made = set(re.findall(r"create_(?:counter|histogram)\(\s*\"([^\"]+)\"", source))
        table = text[text.index("| metric |") : text.index("A layer is")]
        rows = [row.split("|")[1] for row in table.splitlines()[2:] if row]
        named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
        assert len(made) == 10
        assert named == made

    def test_every_attribute(self, text):
        source = Path(telemetry.__file__).read_text()
        keys = set(re.findall(r"\"((?:compaction|gen_ai|server|error)\.[a-z_.]+[a-z])\"", source))
        assert {key for key in keys if f"`{key}`" not in text} == set()

    def test_every_kind_of_event_and_every_signal(self, text):
        assert [str(kind) for kind in EventKind if f"| `{kind}` |" not in text] == []
        names = [name for name, value in vars(signals).items() if isinstance(value, Signal)]
        assert len(names) == 4
        assert [name for name in names if f"| `{name}` |" not in text] == []

    def test_every_line(self, text):
        package = Path(telemetry.__file__).parent
        written = {
            event
            for path in package.glob("*.py")
            for event in re.findall(r"\blog\(\s*logger,\s*(?:level|logging\.\w+),\s*\"(\w+)\"", path.read_text())
        }
        table = text[text.index("| line | level |") : text.index("## Spans and metrics")]
        assert {"skip", "start", "done", "failed", "retry"} < written
        assert {event for event in written if not re.search(rf"`{event}[ `]", table)} == set()


def test_without_an_sdk_nothing_is_needed_and_nothing_happens():
    """The API alone: the same code in a process without a provider."""
    code = (
        "from compaction_app import telemetry\n"
        "from opentelemetry import trace\n"
        "with telemetry.model_call('m', 'https://api.openai.com/v1') as call:\n"
        "    call.failed('timeout')\n"
        "assert not trace.get_current_span().get_span_context().is_valid\n"
        "telemetry.count_suppression(layer='a', trigger='b', reason='c')\n"
        "import sys\n"
        "assert 'opentelemetry.sdk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_chat_turn_is_not_traced(collected, server, fake):
    """The app traces its own calls alone; the host's client is the host's to trace."""
    tip = grow(chat.start_session(model="m"), None, "u")[-1]
    client = openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)
    assert chat.complete(tip, client=client).content == GOOD
    assert collected.spans.get_finished_spans() == ()
