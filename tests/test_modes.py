"""Modes with their presets and overrides, and a model changed in the middle of a session."""

from __future__ import annotations

import openai
import pytest

from compaction_app import chat
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.summarizers.prompts import PROMPT_VERSION
from compaction_app.testing import steps
from compaction_app.testing.builders import grow
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.testing.summarizers import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class TestPresets:
    @pytest.mark.parametrize(
        ("mode", "kept"), [("standard", 14), ("conservative", 8), ("aggressive", 14), ("deterministic", 14)]
    )
    def test_a_compaction_keeps_the_presets_share_of_the_history(self, settings, mode, kept):
        """Of 7,000 tokens a fifth, or a tenth, rounded to whole turns."""
        settings.COMPACTION = small(MODE=mode)
        tip = grow(chat.start_session(), None, "u a " * 35)[-1]
        assert chat.compact(tip).status == "succeeded"
        assert len([m for m in chat.get_context(tip).messages if m.origin == "verbatim"]) in (kept, kept - 2)

    def test_one_conversation_may_have_a_mode_of_its_own(self, settings):
        settings.COMPACTION = small()
        contexts = {
            mode: chat.get_context(grow(chat.start_session(settings={"MODE": mode}), None, "u a " * 60)[-1])
            for mode in ("standard", "aggressive", "off")
        }
        assert (contexts["standard"].threshold, contexts["aggressive"].threshold) == (6_000, 4_800)
        assert [contexts[mode].strategy for mode in contexts] == ["truncated", "truncated", "none"]
        assert len(contexts["off"].messages) == 120


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
    def conversation(self) -> ChatMessage:
        session = chat.start_session(model="m")
        messages = [
            {"role": role, "content": f"On day {n} the {who} of the Ada paid {n * 7} guilders at berth {n}. " * 3}
            for n in range(1, 41)
            for role, who in (("user", "master"), ("assistant", "mate"))
        ]
        return chat.append_messages(session, None, messages)[-1]

    def test_it_compacts_inline_without_a_worker_or_a_model(self, settings):
        settings.COMPACTION = {"MODE": "deterministic", "CONTEXT_WINDOW": 4_000, "RESERVED_TOKENS": 500}
        tip = self.conversation()
        run = chat.request_compaction(tip)
        assert run is not None
        run.refresh_from_db()
        assert (run.status, run.trigger, run.generation) == ("succeeded", "threshold", 1)
        context = chat.get_context(tip)
        assert context.strategy == "auto_compact"
        assert context.history_tokens <= context.threshold

    def test_a_turn_is_compacted_before_the_next_one_begins(self, settings):
        settings.COMPACTION = {"MODE": "deterministic", "CONTEXT_WINDOW": 4_000, "RESERVED_TOKENS": 500}
        tip = self.conversation()
        with ScriptedOpenAIServer(default=steps.reply("Noted.")) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
            question = chat.append_message(tip.session, tip, role="user", content="Who paid?")
            reply = chat.complete(question, client=client)
            list(chat.stream(chat.append_message(tip.session, reply, role="user", content="And when?"), client=client))
        first, second = server.requests
        assert "[Conversation Summary]" not in str(first)
        assert second["messages"][0]["content"].startswith("[Conversation Summary]")
        assert CompactionRun.objects.get().status == "succeeded"


def test_a_hosts_own_wording_is_in_the_prompt_and_on_the_record(settings):
    settings.COMPACTION = small(asked={"PROMPT": "Write it as a ship's log."})
    tip = grow(chat.start_session(), None, "u a " * 35)[-1]
    run = chat.compact(tip)
    [asked] = FakeSummarizer.requests
    assert asked.system.startswith("Write it as a ship's log.")
    assert run.prompt_version.startswith(f"{PROMPT_VERSION}+")
    own = chat.start_session(settings={"SUMMARIZER": {"PROMPT": "Write it as a letter."}})
    again = chat.compact(grow(own, None, "u a " * 35)[-1])
    assert FakeSummarizer.requests[1].system.startswith("Write it as a letter.")
    assert again.prompt_version != run.prompt_version


class TestModelChanged:
    """A session moves to a model with a smaller window: the very next prompt fits."""

    @pytest.fixture(autouse=True)
    def windows(self, settings):
        settings.COMPACTION = {
            **small(MODELS={"ocean": {"window": 40_000}, "pond": {"window": 6_000}, "puddle": {"window": 1_500}}),
            "CONTEXT_WINDOW": None,
            "RESERVED_TOKENS": 1_000,
        }

    def session(self, shorthand: str = "u a " * 120) -> tuple[ChatSession, ChatMessage]:
        session = chat.start_session(model="ocean-1")
        return session, grow(session, None, shorthand + "u")[-1]

    @pytest.mark.parametrize("shorthand", ["u a " * 120, "u " + "c t(400) " * 50, "u(300) " + "a(900) u " * 25])
    @pytest.mark.parametrize("model", ["pond-1", "puddle-1"])
    def test_the_next_prompt_fits(self, shorthand, model):
        _, tip = self.session(shorthand)
        assert chat.get_context(tip).dropped == 0
        context = chat.get_context(tip, model=model)
        assert (context.strategy, context.window) == ("truncated", 6_000 if model == "pond-1" else 1_500)
        assert context.history_tokens <= context.available_tokens
        assert context.messages[-1].message_id == tip.pk

    @pytest.mark.parametrize("is_stored", [True, False], ids=["on the session", "as an argument"])
    def test_a_turn_is_answered_at_once_and_compacted_for_the_new_window(self, is_stored):
        session, tip = self.session()
        options = {} if is_stored else {"model": "pond-1"}
        if is_stored:
            ChatSession.objects.filter(pk=session.pk).update(model="pond-1")
        with ScriptedOpenAIServer(default=steps.reply("Aye.")) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
            reply = chat.complete(tip, client=client, **options)
        [sent] = server.requests
        assert sent["model"] == "pond-1"
        assert sum(4 + len(m["content"].split()) for m in sent["messages"]) <= 5_000
        run = CompactionRun.objects.get()
        assert (run.trigger, run.budget["window"], reply.sent_context["strategy"]) == ("threshold", 6_000, "truncated")
