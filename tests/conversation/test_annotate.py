"""Metadata of a stored message may be set later, and nothing else of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing.builders import grow
from tests.models.test_concurrent_writes import at_once
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def message(session: ChatSession) -> ChatMessage:
    return chat.append_message(session, role="user", content="Ahoy", metadata={"source": "web", "rating": 1})


def columns(message: ChatMessage) -> dict[str, Any]:
    return ChatMessage.objects.filter(pk=message.pk).values().get()


def test_keys_are_merged_and_none_removes_one(message: ChatMessage) -> None:
    before = columns(message)
    for _ in range(2):
        annotated = chat.annotate_message(message, feedback={"words": "Good."}, rating=None, message="m")
        assert annotated.metadata == {"source": "web", "feedback": {"words": "Good."}, "message": "m"}
        assert columns(message) == {**before, "metadata": annotated.metadata}
    assert async_to_sync(chat.aannotate_message)(message, feedback=None).metadata == {"source": "web", "message": "m"}


def test_what_cannot_be_stored_is_refused_and_changes_nothing(message: ChatMessage, settings: Any) -> None:
    settings.COMPACTION = small(MAX_MESSAGE_BYTES=1000)
    before = columns(message)
    for value in (math.nan, "\0", {1: 2}, object(), "\ud800", "x" * 1000):
        with pytest.raises(InvalidMessage) as caught:
            chat.annotate_message(message, feedback=value)
        assert caught.value.field == "metadata"
    assert columns(message) == before


def test_a_summary_and_a_deleted_message_are_refused(session: ChatSession) -> None:
    tip = grow(session, None, "u(800) a(800) " * 5)[-1]
    with pytest.raises(InvalidMessage):
        chat.annotate_message(chat.compact(tip).summary, feedback="up")
    chat.delete_message(tip)
    with pytest.raises(MessageNotFound):
        chat.annotate_message(tip, feedback="up")


def test_a_message_that_is_sent_again_is_the_annotated_one(session: ChatSession) -> None:
    """It was an ``IdempotencyConflict``: its metadata was no longer what the client had sent."""
    sent: Any = {"role": "user", "content": "Ahoy", "metadata": {"source": "web"}, "idempotency_key": "1"}
    first = chat.annotate_message(chat.append_message(session, **sent), feedback="up")
    assert chat.append_message(session, **sent).metadata == first.metadata


def test_several_at_once_keep_all(message: ChatMessage) -> None:
    keys = [f"by{n}" for n in range(4)]
    assert at_once([lambda key=key: chat.annotate_message(message, **{key: True}) for key in keys]) == []
    assert columns(message)["metadata"].keys() == {"source", "rating", *keys}
