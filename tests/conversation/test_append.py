"""Storing: a system prompt, ids that are taken, and metadata, which alone may be set later."""

import math
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import post_save

from compaction_app import chat
from compaction_app.conversation import append
from compaction_app.exceptions import DuplicateExternalId, InvalidMessage, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from tests.builders import grow
from tests.models.test_concurrent_writes import at_once
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def session():
    return chat.start_session()


class TestAppend:
    def test_a_receiver_of_the_host_may_refuse_it(self, session):
        """A signal is sent in the transaction of the message."""
        tip = grow(session, None, "u")[0]

        def refuse(sender, instance, **_):
            raise ValueError(f"{instance.pk and instance.content} refused")

        post_save.connect(refuse, sender=ChatMessage)
        try:
            with pytest.raises(ValueError, match="hello refused"):
                chat.append_message(session, tip, role="assistant", content="hello")
        finally:
            post_save.disconnect(refuse, sender=ChatMessage)
        assert list(ChatMessage.objects.all()) == [tip]

    def test_it_is_checked_and_read_like_any_other(self, session):
        for wrong in ({"content": 5}, {"content": {"a": 1}}, {"content": "a\x00b"}, {"content": "x", "contnt": 1}):
            with pytest.raises(InvalidMessage):
                chat.append_messages(session, None, [{"role": "system", **wrong}])
        parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]
        assert chat.append_messages(session, None, [{"role": "system", "content": parts}]) == []
        session.refresh_from_db()
        assert session.system_prompt == "Be kind.\n\nBe brief."

    @pytest.mark.parametrize(
        ("more", "named"),
        [
            ({"external_id": "m-1", "metadata": {"a": 1}}, "metadata, external_id"),
            ({"content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}, "attachments"),
        ],
    )
    def test_it_may_have_nothing_that_a_system_prompt_cannot_keep(self, session, more, named):
        with pytest.raises(InvalidMessage, match=f"leave out {named}"):
            chat.append_messages(session, None, [{"role": "system", "content": "Be kind.", **more}])
        session.refresh_from_db()
        assert session.system_prompt == ""

    def test_a_prompt_that_another_request_stored_meanwhile_stays(self, session):
        """Then the system message is one of the conversation, with all that it has."""
        ChatSession.objects.filter(pk=session.pk).update(system_prompt="Be brief.")
        opening = {"role": "system", "content": "Be kind.", "external_id": "m-1"}
        stored = chat.append_messages(session, None, [opening])
        assert [(m.role, m.external_id) for m in stored] == [("system", "m-1")]
        session.refresh_from_db()
        assert session.system_prompt == "Be brief."

    @pytest.mark.parametrize(("name", "value"), [("title", None), ("model", 5), ("system_prompt", {"a": 1})])
    def test_a_session_has_texts(self, name, value):
        with pytest.raises(InvalidMessage, match=f"{name} must be a string"):
            chat.start_session(**{name: value})


class TestExternalIds:
    """One that is taken is a typed conflict."""

    def test_a_message_of_the_same_session(self, session: ChatSession):
        first = chat.append_message(session, role="user", content="one", external_id="m-1")
        with pytest.raises(DuplicateExternalId, match="'m-1'") as caught:
            chat.append_message(session, first, role="assistant", content="two", external_id="m-1")
        assert isinstance(caught.value, InvalidMessage)
        assert (caught.value.code, caught.value.field) == ("duplicate", "external_id")
        assert ChatMessage.objects.count() == 1
        assert chat.append_message(chat.start_session(), role="user", content="one", external_id="m-1").pk

    def test_a_transaction_around_it_can_go_on(self, session):
        chat.append_message(session, role="user", content="one", external_id="m-1")
        with transaction.atomic():
            with pytest.raises(DuplicateExternalId):
                chat.append_message(session, role="user", content="two", external_id="m-1")
            chat.append_message(session, role="user", content="two", external_id="m-2")
        assert ChatMessage.objects.count() == 2

    @pytest.mark.parametrize("ids", [["m-2", "m-1", "m-3"], ["m-4", "m-5", "m-4"]])
    def test_a_chain_names_the_one_that_is_taken_and_stores_nothing(self, session, ids):
        taken = chat.append_message(session, role="user", content="one", external_id="m-1")
        chain = [{"role": "user", "content": one, "external_id": one} for one in ids]
        with pytest.raises(DuplicateExternalId, match=f"'{'m-1' if 'm-1' in ids else 'm-4'}'"):
            chat.append_messages(session, taken, chain)
        assert ChatMessage.objects.count() == 1

    @pytest.mark.parametrize("owned", [True, False])
    def test_a_session_of_the_same_owner(self, owned):
        ann, bob = (get_user_model().objects.create_user(name) for name in ("ann", "bob"))
        chat.start_session(owner=ann if owned else None, external_id="crm-7")
        with pytest.raises(DuplicateExternalId, match="'crm-7'"):
            chat.start_session(owner=ann if owned else None, external_id="crm-7")
        chat.start_session(owner=bob, external_id="crm-7")
        assert ChatSession.objects.count() == 2

    def test_the_same_message_sent_twice_at_once_is_no_duplicate_of_itself(self, session, monkeypatch):
        """Both requests find nothing stored with their idempotency key; the second one then gets the first one's."""
        sent = {"role": "user", "content": "x", "external_id": "m-1", "idempotency_key": "k"}
        first, looks = chat.append_message(session, **sent), [None]
        real = append._stored_before
        monkeypatch.setattr(append, "_stored_before", lambda *given: looks.pop() if looks else real(*given))
        assert chat.append_message(session, **sent) == first


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
