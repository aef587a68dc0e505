"""Behaviours that came over from the five systems and belong to no module's own tests: see docs/origins.md."""

from __future__ import annotations

import json
import logging
from typing import Any

import openai
import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.compaction.planning import get_messages_to_summarize
from compaction_app.conf import Settings
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.summarizers.openai import model_entries
from compaction_app.testing.builders import grow
from compaction_app.testing.summarizers import FakeSummarizer
from tests.small import anchored_summary, messages_of, shown_ids, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


THOUGHT = "the tide turns at four"


@pytest.fixture
def session():
    return chat.start_session(model="house-model", system_prompt="You keep the harbour's books.")


def events(session: Any) -> list[CompactionEvent]:
    return list(CompactionEvent.objects.filter(session=session).order_by("id"))


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
    def test_a_run_tells_its_story_in_numbers(self, session, branch):
        """Threshold, start and completion, each with the turn it belongs to, and none with a word of it."""
        run = chat.request_compaction(branch[-1])
        assert run is not None
        compact_chat_history(run.pk)
        run.refresh_from_db()
        told = events(session)
        assert [event.kind for event in told] == ["threshold_hit", "started", "completed"]
        assert [(event.run_id, event.message_id) for event in told] == [(run.pk, branch[-1].pk)] * 3
        _, started, completed = (event.payload for event in told)
        assert started["messages"] == completed["messages"] == run.messages_compacted
        assert (completed["tokens_before"], completed["tokens_after"]) == (run.tokens_before, run.tokens_after)
        assert "word" not in json.dumps([event.payload for event in told])

    def test_a_run_records_its_model_and_what_it_used(self, settings, server, branch, monkeypatch):
        """And of the environment the names of variables only."""
        secret = "a-key-that-is-nobodys-business"
        monkeypatch.setenv("HARBOUR_KEY", secret)
        model = {"model": "small-model", "base_url": server.url, "api_key_env": "HARBOUR_KEY"}
        settings.COMPACTION = small(SUMMARIZERS={"default": {"MODELS": [model]}})
        run = chat.compact(branch[-1])
        usage = server.calls[0]
        assert usage.headers["authorization"] == f"Bearer {secret}"
        assert run.summarizer_model == "small-model"
        assert run.input_tokens > 1_000
        assert run.output_tokens > 10
        assert run.created_at <= run.started_at <= run.finished_at
        stored = str([*CompactionRun.objects.values(), *CompactionEvent.objects.values()])
        assert "HARBOUR_KEY" in stored
        assert secret not in stored

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


def test_the_providers_own_editing_is_passed_on(session, server):
    """It edits a request on its way; what is stored, and what the next context holds, stays this app's."""
    tip = grow(session, None, "u a u")[-1]
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    reply = chat.complete(tip, client=client, extra_body={"context_management": {"clear_thinking": True}})
    assert server.requests[0]["context_management"] == {"clear_thinking": True}
    assert [m.message_id for m in chat.get_context(reply).messages[1:]] == [m.pk for m in chat.get_branch(reply)]


def test_hint_and_length_are_in_the_user_message_behind_the_material(session):
    first = grow(session, None, "u a " * 10)[-1]
    chat.compact(first)
    chat.compact(grow(session, first, "u a " * 10)[-1])
    asked = FakeSummarizer.requests[-1]
    behind = asked.user[asked.user.rindex("</user>") :]
    for said in (f"about {asked.target_tokens} tokens", "keep all of it"):
        assert said in behind
        assert said not in asked.system


def test_by_default_one_small_model_is_asked_and_no_chat_model():
    assert [one.model for one in model_entries(Settings(), "house-model")] == ["gpt-5.4-nano"]


def test_summary_pins_request_and_tail_are_shown_in_this_order(session):
    messages = grow(session, None, "u u c t c t c t")
    chat.pin_message(messages[0])
    summary = anchored_summary(messages[5], messages[5], pinned=messages[1])
    assert shown_ids(messages[-1]) == [summary.pk, *(messages[n].pk for n in (0, 1, 6, 7))]
