"""Chats kept in a database of their own: every read and write goes there, and none to the default one.

A query that strays to the default database raises.
"""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from django.core.management import call_command
from django.db import connections

from compaction_app import chat, signals, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.spending import session_spending
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tree.branches import histories_at
from compaction_app.tree.lanes import read_lanes
from compaction_app.tree.verify import verify_session
from compaction_app.values import RunStatus
from tests.builders import grow
from tests.databases import second_database

pytestmark = pytest.mark.usefixtures("small_window", "other")


@pytest.fixture(scope="module")
def other_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """A second database of the same kind for as long as these tests last: the sweep goes through all there are."""
    with second_database("other", django_db_blocker) as alias:
        yield alias


@pytest.fixture
def other(other_database: str) -> Iterator[str]:
    def refuse(execute: Any, statement: str, *arguments: Any) -> Any:
        raise AssertionError(f"asked of the default database: {statement}")

    with connections["default"].execute_wrapper(refuse):
        yield other_database
    call_command("flush", database=other_database, interactive=False, verbosity=0, allow_cascade=True)


@pytest.fixture
def session(other: str) -> ChatSession:
    return chat.start_session(title="elsewhere", using=other)


def long_branch(session: ChatSession) -> ChatMessage:
    return grow(session, None, "u(800) a(800) " * 5)[-1]


def test_a_branch_is_compacted_where_it_lives(session: ChatSession) -> None:
    tip = long_branch(session)
    run = chat.compact(tip, instructions="keep the figures")
    assert (run._state.db, run.status) == ("other", RunStatus.SUCCEEDED)
    assert chat.get_context(tip).summary_id == run.summary_id == chat.find_summary(tip).pk
    assert not chat.should_compact(tip)
    assert {event._state.db for event in CompactionEvent.objects.using("other").all()} == {"other"}
    assert session_spending(session).runs == 1
    variant = grow(session, chat.get_branch(tip)[-2], "a")[0]
    assert [lane.end_id for lane in read_lanes(session)] == [variant.pk, tip.pk]
    assert histories_at([tip.pk], tip)[tip.pk].summary_id == run.summary_id


def test_a_task_carries_the_database_that_its_run_is_in(session: ChatSession) -> None:
    """No broker answers here: the run waits, and a worker that is given its id and its database carries it out."""
    tip = long_branch(session)
    run = chat.request_compaction(tip)
    assert run is not None
    assert tasks.compact_branch(run.pk, "other") == RunStatus.SUCCEEDED
    assert tasks.compact_session(str(session.pk), "other")["tips"] == 1


def test_signals_name_the_database(session: ChatSession) -> None:
    heard: list[str] = []

    def hear(sender: Any, using: str, **kwargs: Any) -> None:
        heard.append(using)

    # Known weakly: it is gone with this test.
    for signal in (signals.compaction_started, signals.compaction_finished, signals.summary_retired):
        signal.connect(hear)
    chat.retire_summary(chat.compact(long_branch(session)).summary)
    assert heard == ["other"] * 3


def test_a_model_is_asked_and_its_reply_is_stored_there(session: ChatSession) -> None:
    question = grow(session, None, "u")[0]
    with ScriptedOpenAIServer([steps.reply("Aye.")]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none")
        reply = chat.complete(question, client=client, model="any")
    assert (reply._state.db, reply.content) == ("other", "Aye.")


def test_erasing_retiring_and_deleting_stay_there(session: ChatSession) -> None:
    tip = long_branch(session)
    run = chat.compact(tip)
    covered = ChatMessage.objects.using("other").get(pk=run.cutoff_id)
    chat.redact_message(covered)
    assert ChatMessage.objects.using("other").get(pk=run.summary_id).retired_at is not None
    assert verify_session(session).problems == []
    chat.delete_message(tip)
    assert [message.pk for message in chat.tips(session)] == [tip.parent_message_id]
    chat.delete_session(session)
    assert not ChatMessage.objects.using("other").exists()
    assert not CompactionRun.objects.using("other").exists()


def test_the_commands_are_told_by_an_option(session: ChatSession, capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    tip = long_branch(session)
    call_command("compact", str(tip.pk), database="other")
    call_command("verify_chats", database="other")
    call_command("export_compactions", database="other", out=str(tmp_path / "bundles"))
    assert len(list((tmp_path / "bundles").rglob("actual-output.md"))) == 1
