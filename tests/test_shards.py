"""Conversations on four databases, by the router of docs/production.md: one that is away stops no other one."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import OperationalError, connections

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.database import database_of
from tests.builders import grow
from tests.databases import second_database

pytestmark = [
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.usefixtures("small_window", "routed"),
]

SHARDS = ["default", "shard1", "shard2", "shard3"]


def shard_of(session_id: Any) -> str:
    return SHARDS[session_id.int % len(SHARDS)]


class SessionRouter:
    """As docs/production.md writes it."""

    def db_for_write(self, model: Any, instance: Any = None, **hints: Any) -> str | None:
        if model._meta.app_label != "compaction_app":
            return None
        session_id = getattr(instance, "session_id", None) or (isinstance(instance, ChatSession) and instance.pk)
        return shard_of(session_id) if session_id else None

    db_for_read = db_for_write


@pytest.fixture(scope="module", autouse=True)
def shards(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for alias in SHARDS[1:]:
            stack.enter_context(second_database(alias, django_db_blocker))
        yield


@pytest.fixture
def routed(transactional_db: None, settings: Any) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.SessionRouter"]


def tips() -> dict[str, ChatMessage]:
    """The tip of a long branch on each."""
    found: dict[str, ChatMessage] = {}
    while len(found) < len(SHARDS):
        session = chat.start_session()
        if (alias := database_of(session)) not in found:
            found[alias] = grow(session, None, "u(800) a(800) " * 5)[-1]
    return found


def test_one_that_is_away_stops_no_other_one(caplog: pytest.LogCaptureFixture) -> None:
    """The sweep goes on behind it, and so do turns and runs."""
    opened = {alias: chat.request_compaction(tip) for alias, tip in tips().items()}
    for alias in SHARDS:
        CompactionRun.objects.using(alias).update(attempts=9, enqueued_at=None)

    def away(*_: Any) -> None:
        raise OperationalError("the server is away")

    with connections["shard1"].execute_wrapper(away):
        found = tasks.recover_compactions()
        assert (found["databases"], found["given_up"]) == (3, 3)
        assert [record for record in caplog.messages if "step=sweep" in record and "database=shard1" in record]
        for alias in ("default", "shard2", "shard3"):
            run = opened[alias]
            assert run is not None
            assert chat.request_compaction(run.tip) is not None
    assert tasks.recover_compactions().items() >= {"databases": 4, "given_up": 1}.items()
