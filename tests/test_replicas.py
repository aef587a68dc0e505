"""Conversations that a router reads from a replica, through a connection that really cannot write.

The replica is the test's own database. After a row was read there, no statement may go there any more: a real replica
would be behind, and what was just written is not found on it.
"""

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import openai
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import InternalError, OperationalError, connections
from django.test import Client
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import RunStatus
from tests.builders import grow
from tests.databases import second_database

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.usefixtures("small_window", "replica"),
]


class ReplicaRouter:
    """As a host writes one: nothing is said of relations."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model._meta.app_label == "compaction_app" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default" if model._meta.app_label == "compaction_app" else None


@pytest.fixture(scope="module", autouse=True)
def replica_alias(django_db_setup: None) -> Iterator[str]:
    default = connections["default"].settings_dict
    described = copy.deepcopy(default)
    # Of the same rows, so they are not emptied twice.
    described["TEST"]["MIRROR"] = "default"
    if connections["default"].vendor == "sqlite":
        described["NAME"] = f"file:{quote(str(default['NAME']))}?mode=ro"
        described["OPTIONS"] = {"uri": True}
    else:
        described["OPTIONS"] = {**described["OPTIONS"], "options": "-c default_transaction_read_only=on"}
    connections.settings["replica"] = described
    yield "replica"
    del connections.settings["replica"]


@pytest.fixture
def replica(replica_alias: str, settings: Any, transactional_db: None) -> Iterator[str]:
    settings.DATABASE_ROUTERS = [f"{__name__}.ReplicaRouter"]
    yield replica_alias
    connections[replica_alias].close()
    del connections[replica_alias]


@pytest.fixture
def session(replica: str) -> ChatSession:
    """Read from the replica, which is not asked again."""
    found = ChatSession.objects.get(pk=chat.start_session(title="a conversation", owner=owner()).pk)
    assert found._state.db == replica
    return found


def _refuse(execute: Any, statement: str, *arguments: Any) -> Any:
    raise AssertionError(f"asked of the replica: {statement}")


@pytest.fixture(scope="module")
def backup(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    with second_database("backup", django_db_blocker) as alias:
        yield alias


@pytest.fixture
def behind(session: ChatSession) -> Iterator[None]:
    """The replica has nothing of what comes now."""
    with connections["replica"].execute_wrapper(_refuse):
        yield


def owner() -> Any:
    return get_user_model().objects.get_or_create(username="rosa")[0]


def replicated(message: ChatMessage) -> ChatMessage:
    """The same message as a request finds it later."""
    read = ChatMessage.objects.get(pk=message.pk)
    assert read._state.db == "replica"
    return read


def long_branch(session: ChatSession) -> ChatMessage:
    return replicated(grow(session, None, "u(800) a(800) " * 5)[-1])


def test_the_replica_cannot_write(session: ChatSession) -> None:
    with pytest.raises((OperationalError, InternalError), match=r"read.?only"):
        ChatSession.objects.using("replica").filter(pk=session.pk).update(title="changed")


def test_a_message_is_appended_to_a_session_that_was_read_there(session: ChatSession, behind: None) -> None:
    """jazzband/django-auditlog#357: "attempt to write a readonly database"."""
    first = chat.append_message(session, role="user", content="Ahoy", idempotency_key="1")
    second = chat.append_messages(session, first, [{"role": "assistant", "content": "Aye"}])[0]
    assert [message.pk for message in chat.get_branch(second)] == [first.pk, second.pk]
    assert chat.append_message(session, role="user", content="Ahoy", idempotency_key="1").pk == first.pk
    assert [tip.pk for tip in chat.tips(session)] == [second.pk]
    assert chat.newest_tip(first).pk == second.pk
    assert first.is_leaf() is False
    assert first.session is session


def test_a_message_that_was_read_there_is_answered(session: ChatSession) -> None:
    question = replicated(grow(session, None, "u")[0])
    with ScriptedOpenAIServer(default=steps.reply("Aye.")) as server, connections["replica"].execute_wrapper(_refuse):
        client = openai.OpenAI(base_url=server.url, api_key="none")
        reply = chat.complete(question, client=client, model="any")

        async def answered() -> ChatMessage:
            async with openai.AsyncOpenAI(base_url=server.url, api_key="none") as client:
                another = await chat.aappend_message(session, reply, role="user", content="And then?")
                return await chat.acomplete(another, client=client, model="any")

        assert async_to_sync(answered)().depth == 4


def test_a_branch_that_was_read_there_is_compacted_and_erased(session: ChatSession) -> None:
    tip = long_branch(session)
    above = replicated(ChatMessage.objects.get(pk=tip.parent_message_id))
    with connections["replica"].execute_wrapper(_refuse):
        run = chat.compact(tip)
        assert run.status == RunStatus.SUCCEEDED
        assert chat.get_context(tip).summary_id == run.summary_id == chat.find_summary(tip).pk
        assert not chat.should_compact(tip)
        assert chat.request_compaction(tip) is None
    summary = replicated(run.summary)
    with connections["replica"].execute_wrapper(_refuse):
        assert chat.retire_summary(summary) == [summary.pk]
        assert CompactionRun.objects.using("default").open().get().tip_id == tip.pk
        assert chat.redact_message(tip).content == "[redacted]"
        assert chat.delete_message(above) == 2
        chat.delete_session(session)
    assert not CompactionRun.objects.using("default").exists()


def test_deterministic_mode_reads_its_run_again_where_it_was_written(session: ChatSession, behind: None) -> None:
    session.settings = {"MODE": "deterministic"}
    session.save()
    tip = grow(session, None, "u(800) a(800) " * 5)[-1]
    assert chat.request_compaction(tip).status == RunStatus.SUCCEEDED


def test_the_api_finds_what_it_has_just_stored(session: ChatSession, behind: None, client: Client) -> None:
    client.force_login(owner())
    url = f"/api/v1/sessions/{session.pk}/messages"
    stored = client.post(url, {"role": "user", "content": "Ahoy"}, content_type="application/json").json()
    assert client.get(f"/api/v1/messages/{stored['message']['id']}").json()["content"] == "Ahoy"
    redacted = client.post(f"/api/v1/messages/{stored['message']['id']}/redact", {}, content_type="application/json")
    assert redacted.json()["content"] == "[redacted]"


def test_the_admin_acts_on_what_it_read_there(session: ChatSession, admin_client: Client) -> None:
    tip = long_branch(session)
    chat.compact(tip)
    admin = "/admin/compaction_app"
    assert admin_client.get(f"{admin}/chatsession/{session.pk}/change/").status_code == 200
    assert admin_client.post(f"{admin}/chatmessage/{tip.pk}/redact/", {"replacement": "gone"}).status_code == 302
    assert replicated(tip).content == "gone"
    assert admin_client.post(f"{admin}/chatmessage/{tip.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not ChatMessage.objects.filter(pk=tip.pk).exists()


def test_the_sweep_leaves_a_replica_alone(session: ChatSession, behind: None, settings: Any) -> None:
    """As in Django's documentation, the router lets both migrate. It ended with "cannot execute UPDATE"."""
    settings.COMPACTION = {**settings.COMPACTION, "EVENTS_KEPT_DAYS": 1}
    run = chat.request_compaction(grow(session, None, "u(800) a(800) " * 5)[-1])
    CompactionRun.objects.using("default").filter(pk=run.pk).update(attempts=9, enqueued_at=None)
    CompactionEvent.objects.using("default").update(created_at=timezone.now() - timedelta(days=3))
    assert tasks.recover_compactions().items() >= {"databases": 1, "runs": 1, "given_up": 1, "events": 1}.items()


def test_a_conversation_stays_when_its_copy_in_a_backup_is_deleted(backup: str) -> None:
    """It lost its messages and runs: the router said where they are."""
    session = chat.start_session()
    chat.compact(long_branch(session))
    rows = [rows.using("default").order_by("pk") for rows in (ChatMessage.objects, CompactionRun.objects)]
    live = [list(queryset) for queryset in rows]
    for row in (ChatSession.objects.using("default").get(pk=session.pk), *live[0], *live[1]):
        row.save_base(using=backup, force_insert=True)
    ChatSession.objects.using(backup).filter(pk=session.pk).delete()
    assert [list(queryset.all()) for queryset in rows] == live
    assert not any(model.objects.using(backup).exists() for model in (ChatSession, ChatMessage, CompactionRun))
