"""A caller sees while it happens that a prompt was cut to fit."""

from __future__ import annotations

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage, CompactionEvent
from compaction_app.testing.builders import grow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture(params=[False, True], ids=["fits", "late"])
def late(request) -> bool:
    return request.param


@pytest.fixture
def tip(session, late) -> ChatMessage:
    """500 tokens, or 9,100 where 8,000 are available and no worker has compacted them."""
    return grow(session, None, "u a " * (45 if late else 2) + "u")[-1]


def test_on_the_reply_of_complete(tip, client, late):
    reply = chat.complete(tip, client=client)
    assert reply.fallback_used is chat.get_context(tip).fallback_used is late
    assert ChatMessage.objects.get(pk=reply.pk).fallback_used is late
    assert CompactionEvent.objects.filter(kind="fallback_used").exists() is late
    assert not tip.fallback_used


def test_on_a_stream_from_its_first_chunk(tip, client, late):
    with chat.stream(tip, client=client) as stream:
        assert stream.fallback_used is late
        next(stream)
    assert stream.context is not None
    assert (stream.context.dropped > 0) is late


def test_also_where_it_only_shortened_tool_results(session, client):
    """No message is left out, but the model does not see all of the newest result: the event says so too."""
    [question] = grow(session, None, "u")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = chat.append_message(session, question, role="assistant", tool_calls=[call])
    result = chat.append_message(session, asked, role="tool", tool_call_id="c1", content="reef " * 9_000)
    tip = chat.append_message(session, result, role="user", content="And?")
    reply = chat.complete(tip, client=client)
    assert reply.sent_context["dropped"] == 0
    assert reply.sent_context["pruned"] == 1
    assert reply.fallback_used
    assert CompactionEvent.objects.filter(kind="fallback_used").exists()
