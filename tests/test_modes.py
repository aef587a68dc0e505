"""Modes with their presets and overrides, and a model changed in the middle of a session."""

from __future__ import annotations

import openai
import pytest

from compaction_app import chat
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class TestOff:
    def test_the_whole_branch_verbatim_and_no_run_ever(self, settings):
        settings.COMPACTION = small()
        session = chat.start_session()
        tip = grow(session, None, "u c t(3000) " + "u a " * 40)[-1]
        assert chat.compact(tip).status == "succeeded"
        settings.COMPACTION = small(MODE="off", PRUNE="always")
        context = chat.get_context(tip)
        assert [m.message_id for m in context.messages] == [m.pk for m in chat.get_branch(tip)]
        assert [m.content for m in context.messages] == [m.content for m in chat.get_branch(tip)]
        assert (context.strategy, context.pruned, context.dropped, context.summary_id) == ("none", 0, 0, None)
        assert not chat.should_compact(tip)
        assert chat.request_compaction(tip) is None
        with pytest.raises(CompactionRefused) as caught:
            chat.compact(tip)
        assert caught.value.reason == "mode_off"
        assert CompactionRun.objects.count() == 1


class TestDeterministic:
    @pytest.fixture
    def tip(self, settings) -> ChatMessage:
        settings.COMPACTION = {"MODE": "deterministic", "CONTEXT_WINDOW": 4_000, "RESERVED_TOKENS": 500}
        session = chat.start_session(model="m")
        messages = [
            {"role": role, "content": f"On day {n} the {who} of the Ada paid {n * 7} guilders at berth {n}. " * 3}
            for n in range(1, 41)
            for role, who in (("user", "master"), ("assistant", "mate"))
        ]
        return chat.append_messages(session, None, messages)[-1]

    def test_a_turn_is_compacted_before_the_next_one_begins(self, tip):
        with ScriptedOpenAIServer(default=steps.reply("Noted.")) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
            question = chat.append_message(tip.session, tip, role="user", content="Who paid?")
            reply = chat.complete(question, client=client)
            list(chat.stream(chat.append_message(tip.session, reply, role="user", content="And when?"), client=client))
        first, second = server.requests
        assert "[Conversation Summary]" not in str(first)
        assert second["messages"][0]["content"].startswith("[Conversation Summary]")
        assert CompactionRun.objects.get().status == "succeeded"
