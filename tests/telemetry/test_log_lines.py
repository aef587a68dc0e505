"""Log lines, metrics, and the page that lists them: names, numbers, and no word of a conversation."""

import logging
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import transaction
from django.dispatch import Signal

from compaction_app import chat, signals, telemetry
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.telemetry import log, log_line
from compaction_app.testing import steps
from compaction_app.values import EventKind
from tests.builders import grow
from tests.conftest import REPOSITORY
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.telemetry.world import SECRET, USAGE, over_threshold

pytestmark = pytest.mark.django_db(transaction=True)

LINE = re.compile(r"[a-z_]+( [a-z_]+=(\"([^\"\\]|\\.)*\"|[^\s\"=]+))*")


@pytest.mark.usefixtures("small_window")
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

    def test_a_suppression_says_its_numbers(self, lines, settings, monkeypatch):
        monkeypatch.setattr("compaction_app.compaction.trigger.COVERAGE_RATIO", 0.4)
        settings.COMPACTION = small(COOLDOWN_SECONDS=60)
        branch = over_threshold()
        compact_chat_history(chat.request_compaction(branch[-1]).pk)
        tip = grow(branch[0].session, branch[-1], "u a " * 26)[-1]
        assert chat.request_compaction(tip) is None
        [skip] = lines("skip")
        told = rf"skip session={tip.session_id} tip={tip.pk} reason=cooldown trigger=threshold "
        assert re.fullmatch(told + r"seconds_since=[\d.]+ covered=0\.\d+", skip)

    @pytest.mark.parametrize(
        ("reason", "level"),
        [
            ("under_threshold", "DEBUG"),
            ("mode_off", "INFO"),
            ("open_run", "INFO"),
            ("irreducible", "INFO"),
            ("nothing_to_compact", "INFO"),
        ],
    )
    def test_every_answer_of_none_says_why(self, lines, caplog, settings, reason, level):
        shorthand = {"under_threshold": "u a", "irreducible": "u a(6500)", "nothing_to_compact": "u"}.get(reason)
        tip = grow(chat.start_session(), None, shorthand)[-1] if shorthand else over_threshold()[-1]
        if reason == "mode_off":
            settings.COMPACTION = small(MODE="off")
        elif reason == "open_run":
            chat.request_compaction(tip)
            caplog.clear()
        run = chat.request_compaction(tip, trigger="manual" if reason == "nothing_to_compact" else "threshold")
        assert run is None or run.status == "skipped"
        said = [record for record in caplog.records if record.getMessage().startswith("skip ")]
        assert [(f" reason={reason} " in f"{one.getMessage()} ", one.levelname) for one in said] == [(True, level)]

    def test_a_run_that_is_in_the_way_is_told_once(self, caplog):
        """407 lines and events beside 107 runs, while workers were busy."""
        caplog.set_level(logging.INFO, logger="compaction_app")
        tip = over_threshold()[-1]
        run = chat.request_compaction(tip)
        for _ in range(3):
            tip = grow(tip.session, tip, "u a")[-1]
            assert chat.request_compaction(tip) is None
        [said] = run.events.filter(kind="suppressed")
        assert said.payload == {"reason": "open_run"}
        assert sum(record.getMessage().startswith("skip ") for record in caplog.records) == 1

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"run": 3, "reason": "gone"}, "skip run=3 reason=gone"),
            ({"a": 0.8533, "b": True, "c": [1, 2], "d": []}, "skip a=0.853 b=true c=1,2 d=none"),
            ({"path": 'a "b" c=d'}, 'skip path="a \\"b\\" c=d"'),
            ({"path": "two\nlines"}, 'skip path="two\\nlines"'),
            ({"path": ""}, 'skip path=""'),
            ({"cost": Decimal("0.00048250")}, "skip cost=0.0004825"),
            ({"cost": Decimal("0E-8")}, "skip cost=0"),
            ({"cost": Decimal("1E+2")}, "skip cost=100"),
        ],
    )
    def test_a_value_can_not_break_its_line_and_money_is_written_as_people_write_it(self, caplog, values, said):
        log(logging.getLogger("compaction_app.spending"), logging.WARNING, "skip", **values)
        assert caplog.messages == [said]

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
        told = [(dict(r.compaction), r.getMessage()) for r in records]
        assert all(log_line(values.pop("event"), values) == message for values, message in told)
        assert all(r.filename != "telemetry.py" for r in records), "a line names the place that wrote it"


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

    def test_tokens_are_counted_by_model_refused_drafts_included(self, collected, cascade, server):
        server.script([steps.reply("", usage={**USAGE, "completion_tokens": 7})], model="small-model")
        run = chat.compact(over_threshold()[-1])
        found, layer = collected.metrics(), {"compaction.layer": "auto_compact"}
        for name, figures in (
            ("compaction.input_tokens", {"small-model": 3_000, "large-model": 3_000}),
            ("compaction.output_tokens", {"small-model": 7, "large-model": 50}),
        ):
            assert {a["gen_ai.request.model"]: point.value for a, point in found[name]} == figures
            assert all(a.items() >= {**layer, "compaction.trigger": "manual"}.items() for a, _ in found[name])
        attributes, messages = self.one(found, "compaction.messages_compacted")
        assert attributes == layer
        assert (messages.count, messages.sum) == (1, run.messages_compacted)
        assert SECRET not in str([attributes for points in found.values() for attributes, _ in points])

    def test_a_failure_is_counted_with_its_code_once_it_is_not_tried_again(self, collected, small_window):
        FakeSummarizer.error = SummarizerError("slow", error_code="timeout", transient=True)
        compact_chat_history(chat.request_compaction(over_threshold()[-1]).pk)
        assert "compaction.runs" not in collected.metrics()
        FakeSummarizer.error = SummarizerError("away", error_code="quota")
        with pytest.raises(CompactionFailed):
            chat.compact(over_threshold()[-1])
        attributes, point = self.one(collected.metrics(), "compaction.runs")
        assert (attributes["compaction.outcome"], attributes["error.type"], point.value) == ("failed", "quota", 1)

    def test_suppressions_are_counted_by_reason(self, collected, small_window):
        tip = over_threshold()[-1]
        chat.request_compaction(tip)
        chat.request_compaction(tip)
        chat.request_compaction(grow(chat.start_session(), None, "u a(6500)")[-1])
        found = collected.metrics()["compaction.suppressions"]
        assert {a["compaction.reason"]: point.value for a, point in found} == {"open_run": 1, "irreducible": 1}
        around = {"compaction.layer": "auto_compact", "compaction.trigger": "threshold"}
        assert all(a.items() >= around.items() for a, _ in found)
        assert all(type(value) is str for a, _ in found for value in a.values())

    def test_prompts_are_counted_by_the_layer_they_needed(self, collected, small_window):
        session = chat.start_session()
        short = grow(session, None, "u")[-1]
        long = grow(session, None, "u a " * 60 + "u")[-1]
        for tip in (short, long):
            context = chat.get_context(tip)
            chat.append_message(session, tip, role="assistant", content="x", context=context)
        found = collected.metrics()["compaction.prompts"]
        assert {a["compaction.layer"]: point.value for a, point in found} == {"none": 1, "truncated": 1}

    def test_what_is_rolled_back_is_not_counted(self, collected, small_window):
        session = chat.start_session()
        tip = grow(session, None, "u")[-1]
        with transaction.atomic():
            chat.append_message(session, tip, role="assistant", content="x", context=chat.get_context(tip))
            transaction.set_rollback(True)
        assert collected.metrics() == {}


class TestDocument:
    """docs/telemetry.md names all that there is, and nothing else."""

    @pytest.fixture
    def text(self):
        return (REPOSITORY / "docs" / "telemetry.md").read_text()

    def test_every_metric(self, text):
        source = Path(telemetry.__file__).read_text()
        made = set(re.findall(r"_(?:counter|histogram)\(\s*\"([^\"]+)\"", source))
        table = text[text.index("| metric |") : text.index("A layer is")]
        rows = [row.split("|")[1] for row in table.splitlines()[2:] if row]
        named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
        assert len(made) == 7
        assert named == made

    def test_every_attribute_event_and_signal(self, text):
        source = Path(telemetry.__file__).read_text()
        keys = set(re.findall(r"\"((?:compaction|gen_ai|server|error)\.[a-z_.]+[a-z])\"", source))
        assert {key for key in keys if f"`{key}`" not in text} == set()
        names = [name for name, value in vars(signals).items() if isinstance(value, Signal)]
        assert len(names) == 5
        assert [name for name in names if f"`{name}`" not in text] == []
        assert [name for name in EventKind if f"| `{name}` |" not in text] == []

    def test_every_line(self, text):
        package = Path(telemetry.__file__).parent
        written = {
            event
            for path in package.rglob("*.py")
            for event in re.findall(r"\blog\(\s*logger,\s*(?:level|logging\.\w+),\s*\"(\w+)\"", path.read_text())
        }
        table = text[text.index("| line | level |") : text.index("## Metrics")]
        assert {"skip", "start", "done", "failed", "retry"} < written
        assert {event for event in written if not re.search(rf"`{event}[ `]", table)} == set()


def test_without_an_sdk_nothing_is_needed_and_nothing_happens():
    """The API alone: the same code in a process without a provider."""
    code = (
        "from compaction_app import telemetry\n"
        "telemetry.count_suppression(layer='a', trigger='b', reason='c')\n"
        "import sys\n"
        "assert 'opentelemetry.sdk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
