"""An external_id that is taken is a typed conflict."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from compaction_app import chat
from compaction_app.conversation import append
from compaction_app.exceptions import DuplicateExternalId, InvalidMessage
from compaction_app.models import ChatMessage, ChatSession

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_of_the_same_session(session: ChatSession):
    first = chat.append_message(session, role="user", content="one", external_id="m-1")
    with pytest.raises(DuplicateExternalId, match="'m-1'") as caught:
        chat.append_message(session, first, role="assistant", content="two", external_id="m-1")
    assert isinstance(caught.value, InvalidMessage)
    assert (caught.value.code, caught.value.field) == ("duplicate", "external_id")
    assert ChatMessage.objects.count() == 1
    assert chat.append_message(chat.start_session(), role="user", content="one", external_id="m-1").pk


def test_a_transaction_around_it_can_go_on(session):
    chat.append_message(session, role="user", content="one", external_id="m-1")
    with transaction.atomic():
        with pytest.raises(DuplicateExternalId):
            chat.append_message(session, role="user", content="two", external_id="m-1")
        chat.append_message(session, role="user", content="two", external_id="m-2")
    assert ChatMessage.objects.count() == 2


@pytest.mark.parametrize("ids", [["m-2", "m-1", "m-3"], ["m-4", "m-5", "m-4"]])
def test_a_chain_names_the_one_that_is_taken_and_stores_nothing(session, ids):
    taken = chat.append_message(session, role="user", content="one", external_id="m-1")
    chain = [{"role": "user", "content": one, "external_id": one} for one in ids]
    with pytest.raises(DuplicateExternalId, match=f"'{'m-1' if 'm-1' in ids else 'm-4'}'"):
        chat.append_messages(session, taken, chain)
    assert ChatMessage.objects.count() == 1


@pytest.mark.parametrize("owned", [True, False])
def test_a_session_of_the_same_owner(owned):
    ann, bob = (get_user_model().objects.create_user(name) for name in ("ann", "bob"))
    chat.start_session(owner=ann if owned else None, external_id="crm-7")
    with pytest.raises(DuplicateExternalId, match="'crm-7'"):
        chat.start_session(owner=ann if owned else None, external_id="crm-7")
    chat.start_session(owner=bob, external_id="crm-7")
    assert ChatSession.objects.count() == 2


def test_another_integrity_error_is_raised_as_it_is(session, monkeypatch):
    """A key of the same message that was stored meanwhile, say; nobody may take it for a duplicate."""

    def broken(*_: object) -> None:
        raise IntegrityError("another constraint")

    monkeypatch.setattr("compaction_app.conversation.append.record_reply", broken)
    with pytest.raises(IntegrityError, match="another constraint"):
        chat.append_message(session, role="user", content="one", external_id="m-1")


def test_the_same_message_sent_twice_at_once_is_no_duplicate_of_itself(session, monkeypatch):
    """Both requests find nothing stored with their idempotency key; the second one then gets the first one's."""
    sent = {"role": "user", "content": "x", "external_id": "m-1", "idempotency_key": "k"}
    first, looks = chat.append_message(session, **sent), [None]
    real = append._stored_before
    monkeypatch.setattr(append, "_stored_before", lambda *given: looks.pop() if looks else real(*given))
    assert chat.append_message(session, **sent) == first
