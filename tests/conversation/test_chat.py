"""The public door: asking, bad input, the async twins."""

import asyncio

import openai
import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.exceptions import (
    InvalidMessage,
)
from compaction_app.models import ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.builders import grow, words
from compaction_app.testing.summarizers import FakeSummarizer
from tests.conversation.asking import acompleted, completed
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


class TestBadInput:
    def test_instructions_have_a_limit(self, session):
        tip = grow(session, None, "u")[0]
        with pytest.raises(InvalidMessage, match="2000"):
            chat.compact(tip, instructions="x" * 2_001)


class TestContext:
    def test_reading_writes_nothing(self, session):
        tip = grow(session, None, "u a " * 60)[-1]
        context = chat.get_context(tip)
        assert context.strategy == "truncated"
        assert context.dropped > 0
        assert not CompactionEvent.objects.exists()
        assert not CompactionRun.objects.exists()


class TestComplete:
    def test_the_reply_is_appended_and_the_next_compaction_requested(self, session, client, server):
        tip = grow(session, None, "u a " * 34 + "u")[-1]
        reply = chat.complete(tip, client=client)
        assert (reply.role, reply.content, reply.parent_message_id) == ("assistant", "Aye.", tip.pk)
        assert server.requests[0]["messages"][0] == {"role": "system", "content": "You are terse."}
        assert CompactionRun.objects.get(session=session).trigger == "threshold"

    @pytest.mark.parametrize("dialect", ["openai", "llama.cpp"])
    @pytest.mark.parametrize("complete", [completed, acompleted])
    def test_a_prompt_too_long_for_the_provider_is_compacted_and_sent_once_more(
        self, session, server, dialect, complete
    ):
        server.script([steps.context_overflow(dialect=dialect)])
        tip = grow(session, None, "u a " * 20 + "u")[-1]
        reply = complete(tip, server)
        assert reply.content == "Aye."
        run = CompactionRun.objects.get(session=session)
        assert (run.trigger, run.status) == ("overflow", "succeeded")
        assert len(server.requests) == 2
        assert len(server.requests[1]["messages"]) < len(server.requests[0]["messages"])

    def test_a_provider_that_compacts_too_is_noted_once(self, session, client, settings):
        settings.COMPACTION = small(PROVIDER_CONTEXT_MANAGEMENT=True)
        tip = grow(session, None, "u")[0]
        for _ in range(2):
            chat.complete(tip, client=client)
        event = CompactionEvent.objects.get(kind="double_compaction_configured")
        assert event.payload == {"parameters": [], "declared": True}

    def test_a_provider_asked_to_compact_too_is_noted(self, session, client):
        chat.complete(grow(session, None, "u")[0], client=client, extra_body={"truncation": "auto"})
        event = CompactionEvent.objects.get(kind="double_compaction_configured")
        assert event.payload == {"parameters": ["truncation"], "declared": False}


class TestAsync:
    def test_the_twins_do_the_same(self, server, settings):
        settings.COMPACTION = small(LOOKAHEAD="none")

        async def talk():
            session = await chat.astart_session(model="m")
            tip = await chat.aappend_message(session, None, role="user", content=words(100))
            for number in range(70):
                role = "user" if number % 2 else "assistant"
                tip = await chat.aappend_message(session, tip, role=role, content=words(100))
            assert await chat.ashould_compact(tip)
            run = await chat.acompact(tip)
            context = await chat.aget_context(tip)
            assert context.summary_id == run.summary_id == (await chat.afind_summary(tip)).pk
            client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
            reply = await chat.acomplete(tip, client=client)
            assert await chat.arequest_compaction(reply) is None
            assert len(await chat.aget_branch(reply)) == 72
            assert [m.pk for m in await chat.atips(session)] == [reply.pk]
            assert await chat.aretire_summary(run.summary)
            await chat.adelete_session(session)

        async_to_sync(talk)()
        assert not ChatSession.objects.exists()

    def test_the_event_loop_runs_on_while_a_summary_is_made(self, session):
        FakeSummarizer.delay = 0.3
        tip = grow(session, None, "u a " * 35)[-1]
        beats = []

        async def beat(done):
            while not done.is_set():
                beats.append(1)
                await asyncio.sleep(0.01)

        async def main():
            done = asyncio.Event()
            beating = asyncio.create_task(beat(done))
            await chat.acompact(tip)
            done.set()
            await beating

        async_to_sync(main)()
        FakeSummarizer.delay = 0.0
        assert len(beats) > 10
