"""benchmarks/speed: its conversations are what the app would have stored, its README says how they commit."""

import pytest
from django.core.management import call_command

from benchmarks.speed import pages, tables
from compaction_app import chat
from compaction_app.models import ChatMessage


@pytest.mark.django_db
@pytest.mark.parametrize("branches", [1, 5])
def test_a_grown_conversation_is_one(branches):
    tip = tables.grow(200, branches)
    assert len(chat.get_branch(tip)) == 200
    assert len(chat.tips(tip.session)) == branches
    assert len(chat.get_context(tip).messages) == 64
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.append_message(tip.session, tip, role="user", content="Next.").depth == 201
    assert len(chat.get_context(tables.grow(200, has_summary=False)).messages) == 200


@pytest.mark.django_db
def test_a_conversation_of_the_pages_is_one():
    tip = pages.fill(2_400)
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.find_summary(tip) is not None
    assert ChatMessage.objects.filter(session=tip.session_id, kind="message").count() == 2_400
    stored = tables.stored_bytes()
    assert stored["messages"] == ChatMessage.objects.count()
    assert stored["table_bytes"] > stored["text_bytes"] > 100_000
