"""Log lines: names, numbers, and no word of a conversation."""

import logging
import re
from decimal import Decimal

import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.telemetry import log, log_line
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.telemetry.world import SECRET, over_threshold

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
