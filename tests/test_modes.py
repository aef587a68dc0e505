"""Modes with their presets and overrides, and a model changed in the middle of a session."""

import openai
import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class TestManual:
    def test_only_a_person_compacts_and_prompts_still_fit(self, settings):
        settings.COMPACTION = small(MODE="manual", POLICY="tests.compaction.test_policies.always_asked")
        session = chat.start_session(model="m")
        tip = grow(session, None, "u a " * 60)[-1]
        for _ in range(3):
            assert chat.request_compaction(tip) is None
            tip = grow(session, tip, "u a")[-1]
        context = chat.get_context(tip)
        assert context.dropped
        assert context.history_tokens <= context.available_tokens
        event = CompactionEvent.objects.get(kind="suppressed")
        assert event.payload == {"reason": "manual_mode", "summary_id": None}
        assert chat.should_compact(tip)
        assert chat.measure(tip).state == "due"
        assert chat.compact(tip).status == "succeeded"
        assert not chat.get_context(tip).dropped
        # What was said is over with the summary: the next time it is due is another one.
        tip = grow(session, tip, "u a " * 60)[-1]
        assert chat.request_compaction(tip) is None
        assert [one.payload["summary_id"] for one in CompactionEvent.objects.filter(kind="suppressed")] == [
            None,
            chat.find_summary(tip).pk,
        ]
        assert CompactionRun.objects.count() == 1

    def test_a_prompt_that_the_provider_refuses_is_fitted_and_not_compacted(self, settings):
        settings.COMPACTION = small(MODE="manual", CONTEXT_WINDOW=32_000)
        session = chat.start_session(model="m")
        question = grow(session, None, "u a " * 30 + "u")[-1]
        with ScriptedOpenAIServer(
            [steps.context_overflow(n_prompt_tokens=9_000, n_ctx=4_000), steps.reply("Noted.")]
        ) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
            assert chat.complete(question, client=client).content == "Noted."
        assert not CompactionRun.objects.exists()


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
