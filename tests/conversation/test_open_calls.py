"""A tip with open tool calls is refused: the prompt would contain "[no result]" for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage
from compaction_app.testing.builders import grow
from tests.conversation.asking import EACH

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


def call(number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def asked(session) -> ChatMessage:
    """A reply with two calls."""
    [question] = grow(session, None, "u")
    return chat.append_message(session, question, role="assistant", tool_calls=[call(1), call(2)])


def result(parent: ChatMessage, number: int) -> ChatMessage:
    return chat.append_message(parent.session, parent, role="tool", content="reef", tool_call_id=f"c{number}")


@EACH
def test_every_door_refuses_until_each_call_has_its_result(ask, asked, server):
    with pytest.raises(InvalidMessage, match="c1, c2 have no result yet") as caught:
        ask(asked, server)
    assert caught.value.field == "tip"
    first = result(asked, 2)
    with pytest.raises(InvalidMessage, match="The tool calls c1 have no result yet"):
        ask(first, server)
    assert server.requests == []
    last = result(first, 1)
    ask(last, server)
    assert len(server.requests) == 1
    assert ChatMessage.objects.get(parent=last).content == "Aye."


def test_calls_that_a_user_message_closed_wait_for_nothing(asked, client, server):
    tip = chat.append_message(asked.session, asked, role="user", content="Never mind the reef.")
    chat.complete(tip, client=client)
    assert [m["content"] for m in server.requests[0]["messages"] if m["role"] == "tool"] == ["[no result]"] * 2


def test_an_id_that_an_earlier_call_had_too_is_not_taken_for_answered(asked, client):
    """Providers number the calls of a request, so ids repeat along a branch."""
    answered = result(result(asked, 1), 2)
    again = chat.append_message(asked.session, answered, role="assistant", tool_calls=[call(1)])
    with pytest.raises(InvalidMessage, match="c1 have no result yet"):
        chat.complete(again, client=client)
