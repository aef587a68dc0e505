"""An erasure that brings messages back asks for the compaction that is now needed."""

import pytest
from django.db import transaction

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from tests.builders import grow
from tests.small import small, talk

pytestmark = pytest.mark.django_db(transaction=True)

TURNS = "u(300) a(300) "


@pytest.fixture(autouse=True)
def small_world(small_window):
    """Some tests change it."""


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What the broker took: the session and the message below which branches are compacted."""
    taken: list[tuple[str, int]] = []
    monkeypatch.setattr(tasks, "enqueue_session", lambda session, below: taken.append((session.pk, below)) or True)
    return taken


@pytest.fixture
def compacted(session: ChatSession) -> list[ChatMessage]:
    """A branch with a summary that leaves most of it out."""
    path = grow(session, None, TURNS * 15)
    chat.compact(path[-1])
    return path


def test_the_broker_is_asked_after_the_commit_and_once(compacted, requested):
    with transaction.atomic():
        chat.redact_message(compacted[3])
        transaction.set_rollback(True)
    with transaction.atomic():
        chat.redact_message(compacted[3])
        chat.redact_message(compacted[4])
        assert requested == []
    assert requested == [(compacted[0].session_id, compacted[3].pk)]


def test_a_retired_summary_asks_below_its_anchor(compacted, requested):
    summary = chat.find_summary(compacted[-1])
    chat.retire_summary(summary)
    assert requested == [(summary.session_id, summary.parent_message_id)]
    assert chat.retire_summary(summary) == []
    assert len(requested) == 1


def test_where_compaction_is_off_nothing_is_asked_for(compacted, requested, settings):
    settings.COMPACTION = small(MODE="off")
    chat.redact_message(compacted[3])
    assert requested == []
    assert not CompactionRun.objects.filter(status="ready").exists()


def test_without_a_broker_a_run_is_the_record_of_what_is_needed(compacted):
    """The sweep finds it: nothing that an erasure brought back waits for the next turn."""
    chat.redact_message(compacted[3])
    run = CompactionRun.objects.get(status="ready")
    assert (run.tip_id, run.trigger, run.enqueued_at) == (compacted[-1].pk, "threshold", None)
    assert tasks.compact_branch(run.pk) == "succeeded"
    assert chat.get_context(compacted[-1]).dropped == 0


def test_in_deterministic_mode_it_is_done_at_once(session, settings):
    settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "MODE": "deterministic", "COOLDOWN_SECONDS": 0}
    path = talk(session, None, 40)
    chat.compact(path[-1])
    first = chat.find_summary(path[-1])
    chat.redact_message(path[3])
    again = chat.find_summary(path[-1])
    assert again is not None
    assert again != first
    assert chat.get_context(path[-1]).dropped == 0


def test_a_deletion_asks_for_the_branch_that_now_ends_above_it(session):
    """Its only summary is anchored in what is deleted, and goes with it."""
    above = grow(session, None, TURNS * 15)
    below = grow(session, above[-1], "u a u a")
    chat.compact(below[-1])
    anchor = chat.find_summary(below[-1]).parent
    chat.delete_message(anchor)
    tip = anchor.parent
    run = CompactionRun.objects.get(status="ready")
    assert run.tip_id == tip.pk
    tasks.compact_branch(run.pk)
    assert chat.find_summary(tip) is not None


def test_a_deletion_beside_another_branch_asks_for_nothing(session):
    above = grow(session, None, TURNS * 15)
    first, second = (grow(session, above[-1], "u a") for _ in range(2))
    chat.delete_message(first[0])
    assert not CompactionRun.objects.exists()
    chat.delete_message(second[0])
    assert CompactionRun.objects.get().tip_id == above[-1].pk


def test_only_branches_with_the_message_are_compacted(session):
    mine, other = (grow(session, None, TURNS * 15) for _ in range(2))
    told = tasks.compact_session(str(session.pk), "default", mine[3].pk)
    assert told["tips"] == 1
    assert chat.find_summary(mine[-1]) is not None
    assert chat.find_summary(other[-1]) is None
