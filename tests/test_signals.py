"""Django signals: what is sent, when, and that no receiver can change what a compaction does."""

from contextlib import ExitStack, nullcontext

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

from compaction_app import chat, signals
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.database import after_commit
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


NAMES = ("compaction_started", "compaction_finished", "compaction_failed", "summary_retired")


@pytest.fixture
def connect():
    """Connect receivers for the length of a test."""
    with ExitStack() as stack:

        def connect(signal, receiver):
            signal.connect(receiver, weak=False)
            stack.callback(signal.disconnect, receiver)

        yield connect


@pytest.fixture
def heard(connect):
    """What was sent: (name, arguments), and that no transaction was open."""
    heard = []

    def listen(name):
        def receiver(sender, signal, using, **arguments):
            assert not connections[using].in_atomic_block, "sent from within a transaction"
            heard.append((name, {"sender": sender, "using": using, **arguments}))

        connect(getattr(signals, name), receiver)

    for name in NAMES:
        listen(name)
    return heard


def names(heard):
    return [name for name, _ in heard]


class TestRuns:
    @pytest.mark.parametrize("compact", [chat.compact, async_to_sync(chat.acompact)], ids=["compact", "acompact"])
    def test_a_run_that_succeeds_starts_and_finishes(self, branch, heard, compact):
        run = compact(branch[-1])
        assert names(heard) == ["compaction_started", "compaction_finished"]
        (_, started), (_, finished) = heard
        assert started["sender"] is finished["sender"] is CompactionRun
        assert started["using"] == "default"
        assert (started["run"].pk, started["run"].attempts) == (run.pk, 1)
        told = finished["run"]
        assert (told.status, told.summary_id, told.generation) == ("succeeded", run.summary_id, 1)
        assert (told.tokens_before, told.tokens_after) == (run.tokens_before, run.tokens_after)

    def test_a_run_that_fails_says_so_once(self, branch, heard):
        FakeSummarizer.error = SummarizerError("away", error_code="quota")
        with pytest.raises(CompactionFailed):
            chat.compact(branch[-1])
        assert names(heard) == ["compaction_started", "compaction_failed"]
        failed = heard[-1][1]["run"]
        assert (failed.status, failed.error_code, failed.attempts) == ("failed", "quota", 1)

    def test_an_attempt_that_is_tried_again_has_not_failed(self, branch, heard):
        FakeSummarizer.error = SummarizerError("slow", error_code="timeout", transient=True)
        run = chat.request_compaction(branch[-1])
        compact_chat_history(run.pk)
        assert names(heard) == ["compaction_started"]
        FakeSummarizer.error = None
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        compact_chat_history(run.pk)
        assert names(heard) == ["compaction_started", "compaction_started", "compaction_finished"]
        assert heard[-1][1]["run"].attempts == 2

    def test_a_branch_that_goes_meanwhile_is_a_finish(self, branch, heard, connect, caplog):
        caplog.set_level("INFO", "compaction_app")
        connect(signals.compaction_started, lambda run, **_: chat.delete_message(branch[-2]))
        run = chat.compact(branch[-1])
        assert names(heard) == ["compaction_started", "compaction_finished"]
        assert heard[-1][1]["run"].skip_reason == "branch_gone"
        assert f"skip run={run.pk} session={run.session_id} reason=branch_gone attempts=1" in caplog.text
        heard.clear()
        chat.compact(grow(chat.start_session(), None, "u")[0])
        assert names(heard) == ["compaction_finished"], "nothing to compact is no start"
        assert (heard[0][1]["run"].status, heard[0][1]["run"].skip_reason) == ("skipped", "nothing_to_compact")


class TestRetiring:
    @pytest.mark.parametrize("reason", ["wrong", "redaction"])
    def test_all_that_go_at_once_are_named_together(self, branch, heard, reason):
        """Retired by a person, or because a message was redacted that they may quote."""
        first = chat.compact(branch[-1]).summary
        second = chat.compact(grow(first.session, branch[-1], "u a " * 35)[-1]).summary
        heard.clear()
        if reason == "redaction":
            chat.redact_message(branch[3])
        else:
            chat.retire_summary(first, reason=reason)
        said = {"session_id": first.session_id, "summary_ids": [first.pk, second.pk], "reason": reason}
        assert heard == [("summary_retired", {"sender": ChatMessage, "using": "default", **said})]

    @pytest.mark.parametrize("rolled_back", [False, True])
    def test_the_host_s_own_commit_decides(self, branch, heard, rolled_back):
        summary = chat.compact(branch[-1]).summary
        heard.clear()
        with transaction.atomic():
            chat.retire_summary(summary)
            assert heard == []
            transaction.set_rollback(rolled_back)
        assert names(heard) == ([] if rolled_back else ["summary_retired"])


class TestReceivers:
    @pytest.mark.parametrize("name", NAMES)
    def test_one_that_raises_is_logged_and_changes_nothing(self, branch, connect, caplog, name):
        def refuses(**_):
            raise RuntimeError("a receiver's own trouble")

        after = []
        connect(getattr(signals, name), refuses)
        connect(getattr(signals, name), lambda **_: after.append(name))
        if name == "compaction_failed":
            FakeSummarizer.error = SummarizerError("away", error_code="quota")
            with pytest.raises(CompactionFailed):
                chat.compact(branch[-1])
        else:
            summary = chat.compact(branch[-1]).summary
            chat.retire_summary(summary)
            summary.refresh_from_db()
            assert summary.retired_at
        assert after == [name], "the next receiver is called all the same"
        [record] = [record for record in caplog.records if record.name == "django.dispatch"]
        assert "refuses" in record.getMessage()


@pytest.mark.parametrize("in_transaction", [True, False])
def test_what_fails_after_a_commit_is_logged_and_breaks_no_turn(caplog, in_transaction):
    """Django logs the name of what raised, which a partial does not have."""

    def fail(number, *, word):
        raise ValueError(number, word)

    with transaction.atomic() if in_transaction else nullcontext():
        after_commit(ChatSession(), fail, 1, word="x")
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "fail" in record.getMessage()
