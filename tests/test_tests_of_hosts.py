"""A host's own tests: Django's ``TestCase`` and pytest-django's ``db``, which put a transaction around each test."""

import openai
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase, override_settings

from compaction_app import chat, tasks
from compaction_app.exceptions import DurableTransactionRequired
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer

EXTRACTS = {"SUMMARIZER": "extractive", "CONTEXT_WINDOW": 4_000}


def long_branch():
    words = "The pump in cellar 4 was checked on Monday, and it lost 12 litres. " * 12
    session = chat.start_session()
    messages = [{"role": "assistant" if n % 2 else "user", "content": f"{n}: {words}"} for n in range(30)]
    return chat.append_messages(session, None, messages)[-1]


@override_settings(COMPACTION=EXTRACTS)
class TestOfAHost(TestCase):
    def test_a_turn(self):
        with ScriptedOpenAIServer([steps.reply("Aye."), steps.reply("Aye, aye.")]) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none")
            question = chat.append_message(chat.start_session(), role="user", content="Ready?")
            reply = chat.complete(question, client=client, model="any")
            again = chat.append_message(reply.session, reply, role="user", content="Sure?")
            with chat.stream(again, client=client, model="any") as stream:
                assert len(list(stream)) > 0
        told = [message.content for message in chat.get_branch(chat.tips(reply.session)[-1])]
        assert told == ["Ready?", "Aye.", "Sure?", "Aye, aye."]

    def test_a_compaction(self):
        for compact in (chat.compact, async_to_sync(chat.acompact)):
            tip = long_branch()
            assert compact(tip).status == "succeeded"
            assert chat.get_context(tip).summary_id == chat.find_summary(tip).pk

    def test_a_compaction_in_the_background(self):
        """Django runs what waits for the commit when it is told to; the task is then called as a worker would."""
        tip = long_branch()
        run = chat.request_compaction(tip)
        tasks.compact_branch(run.pk)
        assert chat.find_summary(tip) is not None

    def test_a_transaction_of_the_host_is_refused(self):
        tip = long_branch()
        with transaction.atomic(), pytest.raises(DurableTransactionRequired):
            chat.compact(tip)
        assert chat.find_summary(tip) is None


@pytest.mark.django_db
def test_pytest_djangos_db(settings):
    settings.COMPACTION = EXTRACTS
    assert chat.compact(long_branch()).status == "succeeded"
