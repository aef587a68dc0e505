"""Behaviours that came over from the five systems and belong to no module's own tests: see docs/origins.md."""

import logging

import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.compaction.planning import get_messages_to_summarize
from compaction_app.models import ChatMessage, CompactionRun
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import messages_of, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def session():
    return chat.start_session(model="house-model", system_prompt="You keep the harbour's books.")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


class TestLogs:
    def test_a_reserve_over_half_the_window_is_warned_of(self, session, caplog):
        tip = grow(session, None, "u")[0]
        chat.get_context(tip, reserved_tokens=4_900)
        assert warnings(caplog) == []
        for _ in range(3):
            reserved = chat.get_context(tip, reserved_tokens=5_000).reserved_tokens
        [said] = [record.compaction for record in caplog.records if record.levelno == logging.WARNING]
        values = {"session": str(session.pk), "reserved": reserved, "window": 10_000}
        assert said == {"event": "reserve", **values, "reason": "over_half_the_window"}, "once, not at every turn"

    def test_a_prompt_that_leaves_messages_out_is_a_warning(self, session, caplog):
        tip = grow(session, None, "u a " * 60)[-1]
        context = chat.get_context(tip)
        assert context.dropped
        assert warnings(caplog) == [], "looking is free"
        chat.append_message(session, tip, role="user", content="x", context=context)
        told = f"fallback session={session.pk} tip={tip.pk} dropped={context.dropped} pruned=0"
        assert warnings(caplog) == [f"{told} tokens=7200 available={8_000 - 9}"]

    @pytest.mark.pure
    def test_a_single_message_over_the_tail_budget_is_kept_and_logged(self, caplog):
        caplog.set_level(logging.INFO, logger="compaction_app.planning")
        _, kept = get_messages_to_summarize(messages_of("u a u a(5000)"), 300)
        assert [message.id for message in kept] == [3, 4]
        [said] = caplog.records
        assert (said.levelno, said.getMessage()) == (logging.INFO, "keep message=4 tokens=5000 budget=300")


class TestRecord:
    def test_a_cool_down_has_its_limits(self, settings, session, branch, monkeypatch):
        """It holds back neither a prompt that would not fit nor a person."""
        monkeypatch.setattr("compaction_app.compaction.trigger.COVERAGE_RATIO", 0.2)
        settings.COMPACTION = small(COOLDOWN_SECONDS=60)
        chat.compact(branch[-1])
        held_back = grow(session, branch[-1], "u a " * 26)[-1]
        too_much = grow(session, branch[-1], "u a " * 45)[-1]
        assert chat.request_compaction(held_back) is None
        assert chat.get_context(too_much).dropped
        assert chat.request_compaction(too_much).trigger == "threshold"
        CompactionRun.objects.filter(status="ready").delete()
        assert chat.compact(held_back).status == "succeeded"

    def test_a_person_needs_no_threshold(self, session):
        tip = grow(session, None, "u a " * 15)[-1]
        assert not chat.should_compact(tip)
        run = chat.compact(tip)
        assert (run.status, run.trigger, run.generation) == ("succeeded", "manual", 1)
        assert run.messages_compacted == 30 - 6


class TestNeverCompacted:
    def test_system_prompt_and_contributions(self, session, branch):
        """The caller makes contributions anew each turn: they are counted, and stored nowhere."""
        contributions = [{"role": "system", "content": "Tide tables of today."}]
        run = chat.request_compaction(branch[-1], contributions=contributions)
        assert run is not None
        compact_chat_history(run.pk)
        [asked] = FakeSummarizer.requests
        for text in ("harbour's books", "Tide tables"):
            assert text not in asked.user
        assert not ChatMessage.objects.filter(content__contains="Tide tables").exists()
        sent = chat.get_context(branch[-1], contributions=contributions).to_openai()
        assert [m["content"] for m in sent[:2]] == ["You keep the harbour's books.", "Tide tables of today."]
        assert sent[2]["content"].startswith("[Conversation Summary]")
        assert "Tide" not in str(chat.get_context(branch[-1]).to_openai())
