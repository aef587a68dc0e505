"""``compact`` and ``recover_compactions``, and the commands together on real conversations."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import connection

from compaction_app import chat, tasks
from compaction_app.context.reading import is_over_threshold, resolve_request
from compaction_app.exceptions import SummarizerError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.transfer import importing
from compaction_app.tree.verify import verify_session
from compaction_app.values import RunStatus
from project.demo.loading import read_conversations
from tests.builders import grow
from tests.conftest import StartWorker
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.transfer.bundling import run

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)


def outcomes(printed: str) -> dict[int, str]:
    """What ``compact`` says of each tip."""
    lines = re.findall(r"^#(\d+), depth \d+: [\d,]+ → [\d,]+ tokens, (.*)$", printed, re.MULTILINE)
    return {int(tip): outcome for tip, outcome in lines}


@pytest.mark.usefixtures("small_window")
class TestCompact:
    @pytest.fixture
    def forked(self) -> tuple[ChatSession, list[ChatMessage]]:
        """A trunk of 10,000 tokens, two variants of its last turn, and a branch near its beginning."""
        session = chat.start_session()
        trunk = grow(session, None, "u a(1900) " * 5)
        return session, [trunk[-1], *grow(session, trunk[-3], "u a")[-1:], *grow(session, trunk[1], "u a")[-1:]]

    def test_a_message_names_one_branch(self, forked):
        _, (tip, other, _) = forked
        out, code = run("compact", tip.pk)
        made = CompactionRun.objects.get()
        assert made.trigger == "manual"
        told = f"#{tip.pk}, depth 10: 10,000 → {made.tokens_after:,} tokens, compacted (generation 1)"
        assert (out, code) == (f"threshold 6,000 tokens\n{told}\n", 0)
        assert chat.find_summary(other) is not None

    def test_a_session_names_every_branch_and_a_summary_is_shared(self, forked):
        session, (tip, variant, short) = forked
        out, code = run("compact", session.pk)
        assert outcomes(out) == {
            short.pk: "compacted (generation 1)",
            tip.pk: "compacted (generation 2)",
            variant.pk: "nothing to compact",
        }
        assert code == 0
        assert CompactionRun.objects.count() == 2

    def test_a_failure_is_told_and_ends_with_one(self, forked):
        _, (tip, *_) = forked
        FakeSummarizer.error = SummarizerError("no", error_code="quota")
        out, code = run("compact", tip.pk)
        assert outcomes(out) == {tip.pk: "failed: quota: no"}, "the code, and what the provider said"
        assert code == 1
        assert not ChatMessage.objects.summaries().exists()

    def test_a_run_at_a_worker_and_a_mode_that_is_off_are_failures(self, forked, settings):
        _, (tip, *_) = forked
        settings.COMPACTION = small(MODE="off")
        assert run("compact", tip.pk)[1] == 1
        settings.COMPACTION = small()
        taken = CompactionRun.objects.claim(chat.request_compaction(tip).pk, 60)
        out, code = run("compact", tip.pk)
        assert outcomes(out) == {tip.pk: f"failed: open_run: a worker is executing run {taken.pk}"}
        assert code == 1
        taken.refresh_from_db()
        assert taken.status == RunStatus.RUNNING

    def test_json_for_scripts(self, forked):
        _, (tip, *_) = forked
        (branch,) = json.loads(run("compact", tip.pk, "--json")[0])["branches"]
        made = CompactionRun.objects.get()
        assert branch == {
            "tip": tip.pk,
            "depth": 10,
            "tokens_before": 10_000,
            "tokens_after": made.tokens_after,
            "threshold": 6_000,
            "generations": [1],
            "outcome": "compacted",
            "failed": False,
            "runs": [made.pk],
        }

    def test_what_is_not_there_is_a_wrong_call(self, forked):
        _, (tip, *_) = forked
        run("compact", tip.pk)
        summary = ChatMessage.objects.summaries().get()
        for target in ("0", str(uuid4()), "x", str(summary.pk)):
            with pytest.raises(CommandError) as caught:
                run("compact", target)
            assert caught.value.returncode == 2
        with pytest.raises(CommandError, match="2000 are allowed") as caught:
            run("compact", tip.pk, "--instructions", "x" * 2001)
        assert caught.value.returncode == 2


class TestRecover:
    @pytest.fixture
    def waiting(self, settings: Any) -> CompactionRun:
        """A run that was requested while the broker was away."""
        settings.COMPACTION = small()
        tip = grow(chat.start_session(), None, "u a(1900) " * 5)[-1]
        made = chat.request_compaction(tip)
        assert made is not None
        return made

    def test_it_hands_over_what_the_broker_never_got(self, waiting, broker):
        where = "1 database (public)" if connection.vendor == "postgresql" else "1 database"
        assert run("recover_compactions") == (f"1 requeued, 0 abandoned in {where}.\n", 0)
        printed, code = run("recover_compactions", "--json")
        found = json.loads(printed)
        assert (found["databases"], found["enqueued"], found["given_up"], found["left"], code) == (1, 0, 0, 0, 0)

    def test_a_broker_that_is_still_away_is_a_failure(self, waiting):
        with pytest.raises(CommandError, match="1 could not be requeued") as caught:
            run("recover_compactions")
        assert caught.value.returncode == 1


@pytest.mark.long
def test_every_branch_of_a_joined_file_is_compacted_by_a_worker(
    settings: Any, shared_data: Path, celery_worker: StartWorker
):
    """1,167 messages with 260 forks: one task, and all 527 branches fit."""
    settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "SUMMARIZER": "extractive", "COOLDOWN_SECONDS": 0}
    (one,) = importing.store(read_conversations(shared_data / "oasst_en_100_tree.jsonl", join=True))
    session, resolved = one.session, resolve_request(one.session)
    tips = chat.tips(session)
    assert sum(tip.path_tokens > resolved.budget.threshold for tip in tips) > 400
    worker = celery_worker(env={"COMPACTION_CONTEXT_WINDOW": "4000"})
    assert tasks.enqueue_session(session)
    worker.wait_until(lambda: "compact_session" in worker.said and "succeeded in" in worker.said, seconds=300)
    assert len(tips) == one.tips == 527
    assert [tip.pk for tip in tips if is_over_threshold(tip, resolved)] == []
    assert {made.task_id for made in CompactionRun.objects.all()} != {""}
    assert not CompactionRun.objects.exclude(status="succeeded").exists()
    assert verify_session(session).problems == []
