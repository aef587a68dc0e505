"""What a turn costs where a network is between the app and its database: statements, and waits for an answer."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.speed.network import Network, network
from compaction_app import chat
from compaction_app.models import ChatMessage
from tests.builders import grow
from tests.small import anchored_summary

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def between() -> Iterator[Network | None]:
    """The way to the tests' database leads through a proxy that counts; None where it is a file."""
    if connection.vendor == "sqlite":
        yield None
        return
    near = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    with network(near["HOST"], int(near["PORT"])) as found:
        connection.close()
        connection.settings_dict |= {"HOST": "127.0.0.1", "PORT": str(found.port)}
        yield found
        connection.close()
        connection.settings_dict |= near


def append(parent: ChatMessage, role: str, **options: Any) -> ChatMessage:
    return chat.append_message(parent.session, parent, role=role, content="Ahoy.", **options)


def turn(tip: ChatMessage) -> None:
    question = append(tip, "user")
    chat.get_context(question)
    assert chat.request_compaction(append(question, "assistant")) is None


def recorded(tip: ChatMessage) -> None:
    append(tip, "assistant", context=chat.get_context(tip), usage={"prompt_tokens": 4_000})


#: What is done at the tip of a conversation → statements on SQLite and on PostgreSQL, and how often the latter makes it
#: wait. A lock and its insert are a transaction of their own there, and wait once.
PRICES: dict[str, tuple[Callable[[ChatMessage], Any], int, int, int]] = {
    "append": (lambda tip: append(tip, "user"), 4, 2, 1),
    "context": (chat.get_context, 1, 1, 1),
    "request": (chat.request_compaction, 1, 1, 1),
    "turn": (turn, 10, 6, 4),
    # The calibration is read and written under the same lock.
    "reply that is recorded": (recorded, 7, 7, 6),
}


@pytest.mark.few
@pytest.mark.parametrize("has_summary", [False, True])
@pytest.mark.parametrize("what", PRICES)
def test_it_waits_this_often(what: str, has_summary: bool, between: Network | None) -> None:
    call, on_sqlite, on_postgres, trips = PRICES[what]
    messages = grow(chat.start_session(), None, "u a " * 20)
    if has_summary:
        anchored_summary(messages[-5], messages[-8])
    tip = messages[-1]
    if "prepare_threshold" in connection.settings_dict["OPTIONS"]:
        # To prepare a statement is a wait of its own, once for each connection.
        for _ in range(3):
            call(tip)
    with CaptureQueriesContext(connection) as captured:
        before = between.trips if between else 0
        call(tip)
    assert len(captured) == (on_postgres if between else on_sqlite), captured.captured_queries
    assert between is None or between.trips - before == trips
