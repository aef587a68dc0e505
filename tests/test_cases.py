"""The cases with numbers that only a whole turn can show.

What planning, pruning, fitting and the choice of a summary answer by themselves is tested there, on values; here the
same numbers go through the public door and a database.
"""

import pytest

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.builders import grow, words
from tests.fake_summarizer import FakeSummarizer
from tests.small import anchored_summary, shown_ids, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

#: A recap without a ledger's worth of facts in it.
RECAP = "## Recap\n\nEarlier matter was told and settled, all of it."


class TestBudget:
    @pytest.mark.parametrize(("last", "wanted"), [(100, False), (101, True)])
    def test_compaction_is_wanted_strictly_over_the_threshold(self, session, last, wanted):
        tip = grow(session, None, "u a " * 29 + f"u a({last})")[-1]
        assert chat.should_compact(tip) is wanted
        assert (chat.request_compaction(tip) is not None) is wanted

    @pytest.mark.parametrize(
        ("mode", "window", "reserved", "threshold", "target"),
        [
            ("standard", 200_000, 8_192, 143_856, 100_000),
            ("conservative", 200_000, 8_192, 143_856, 100_000),
            ("aggressive", 200_000, 8_192, 115_084, 50_000),
            ("standard", 5_000, 1_250, 2_812, 2_500),
            ("conservative", 5_000, 1_250, 2_812, 2_500),
            ("aggressive", 5_000, 1_250, 2_250, 1_250),
        ],
    )
    def test_the_presets_have_their_numbers(self, settings, session, mode, window, reserved, threshold, target):
        settings.COMPACTION = {"MODE": mode, "CONTEXT_WINDOW": window}
        context = chat.get_context(grow(session, None, "u")[0])
        assert (context.reserved_tokens, context.threshold, context.target) == (reserved, threshold, target)

    def test_a_model_that_counts_more_triggers_earlier(self):
        session = chat.start_session(model="wordy")
        tip = grow(session, None, "u a " * 24 + "u")[-1]
        assert not chat.should_compact(tip)
        ChatSession.objects.filter(pk=session.pk).update(token_calibration={"wordy": 1.5})
        context = chat.get_context(tip)
        assert (context.history_tokens, context.threshold) == (4_900, 4_000)
        assert chat.should_compact(tip)
        assert not chat.should_compact(tip, model="another")


class TestCut:
    @pytest.mark.long
    def test_the_request_of_a_tool_loop_is_pinned_inherited_and_in_the_end_covered_once(self, session):
        """No pair is split on the way, and no compaction follows one that was enough."""
        FakeSummarizer.text = RECAP
        messages = grow(session, None, "u " + "c t " * 200)
        request, tip = messages[0], messages[-1]
        first = self.compacted(tip)
        assert first.summary.pinned_message_id == request.pk
        tip = grow(session, tip, "c t " * 200)[-1]
        second = self.compacted(tip)
        assert second.base_id == first.summary_id
        assert second.summary.pinned_message_id == request.pk
        tip = grow(session, tip, "u " + "a u " * 60)[-1]
        third = self.compacted(tip)
        assert third.summary.pinned_message_id is None
        covered = [message.id for asked in FakeSummarizer.requests for message in asked.covered]
        assert covered.count(request.pk) == 1
        assert FakeSummarizer.requests[-1].covered[0].id == request.pk
        others = [pk for pk in covered if pk != request.pk]
        path = [message.pk for message in chat.get_branch(tip)]
        assert others == path[1 : len(others) + 1]
        assert shown_ids(tip) == [third.summary_id, *path[len(others) + 1 :]]

    def compacted(self, tip: ChatMessage) -> CompactionRun:
        run = chat.request_compaction(tip)
        assert run is not None
        tasks.compact_branch(run.pk)
        run.refresh_from_db()
        assert run.status == "succeeded"
        assert run.cutoff.role in ("tool", "assistant")
        context = chat.get_context(tip)
        assert context.history_tokens <= context.target
        sent = context.to_openai()
        calls = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
        assert calls == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
        assert not chat.should_compact(tip)
        return run


class TestAnchors:
    #: Four turns; the last three are so small that they stay verbatim when this share of the history may.
    TURNS = "u a " + "u(50) a(50) " * 3
    RECENT = 0.6

    @pytest.fixture
    def turns(self, settings, session):
        settings.COMPACTION = small(RECENT_MESSAGES_RATIO=self.RECENT, MIN_SAVING_RATIO=0.01)
        FakeSummarizer.text = RECAP
        return grow(session, None, self.TURNS)

    def test_after_the_last_turn_is_deleted_the_new_anchor_is_not_above_the_old_one(self, turns):
        """By itself the second would be anchored at its cutoff, the 4th, above what its base was told."""
        first = chat.compact(turns[7])
        assert (first.cutoff_id, first.anchor_id) == (turns[1].pk, turns[5].pk)
        chat.delete_message(turns[6])
        second = chat.compact(turns[5])
        assert second.base_id == first.summary_id
        assert (second.cutoff_id, second.anchor_id) == (turns[3].pk, turns[5].pk)
        assert chat.find_summary(turns[5]) == second.summary
        fork = grow(second.session, turns[4], "a")[0]
        assert chat.find_summary(fork) is None, "the 6th was shown to the base: nothing of it may get here"

    def test_a_look_ahead_that_was_shortened_does_not_bring_the_older_summary_back(self, settings, session, turns):
        settings.COMPACTION = {**settings.COMPACTION, "LOOKAHEAD": "tip"}
        first = chat.compact(turns[7])
        assert first.anchor_id == turns[7].pk
        settings.COMPACTION = {**settings.COMPACTION, "LOOKAHEAD": "none"}
        tip = grow(session, turns[7], "u(50) a(50)")[-1]
        second = chat.compact(tip)
        assert second.cutoff.depth < first.anchor.depth
        assert second.anchor_id == first.anchor_id
        assert chat.find_summary(tip) == second.summary

    def test_a_call_open_at_the_cutoff_and_answered_elsewhere_leaves_no_orphan_result(self, settings, session):
        settings.COMPACTION = small(LOOKAHEAD="none", RECENT_MESSAGES_RATIO=0.0625)
        call = grow(session, None, "u a " * 30 + "u c")[-1]
        here = grow(session, call, "u a u a")[-1]
        run = chat.compact(here)
        assert run.cutoff_id == call.pk
        there = chat.append_message(
            session, call, role="tool", content=words(100), tool_call_id=call.tool_calls[0]["id"]
        )
        tip = grow(session, there, "a u a")[-1]
        assert chat.find_summary(here) == run.summary
        assert chat.find_summary(tip) is None
        for branch in (here, there, tip):
            sent = chat.get_context(branch).to_openai()
            called = [c["id"] for message in sent for c in message.get("tool_calls") or ()]
            answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
            assert called == answered
        shown = [message["role"] for message in chat.get_context(here).to_openai()]
        assert shown == ["user", "user", "assistant", "user", "assistant"]


class TestFit:
    def test_a_smaller_chat_model_is_shown_the_newest_turns_until_a_summary_fits(self, settings):
        """One message of 7 tokens was shown of 6,144, and nothing made it better."""
        windows = {"large": 128_000, "little": 8_192}
        settings.COMPACTION = small(
            CONTEXT_WINDOW=None,
            MODELS={model: {"window": window} for model, window in windows.items()},
            RESERVED_TOKENS=2_048,
        )
        session = chat.start_session(model="large")
        rows = grow(session, None, "u a " * 100 + "u(500) a(500) " * 10 + "u(7)")
        summary = anchored_summary(rows[210], rows[199], tokens=7_570)
        assert chat.get_context(rows[-1]).summary_id == summary.pk
        context = chat.get_context(rows[-1], model="little")
        assert (context.summary_id, context.strategy) == (None, "truncated")
        assert 5_000 < context.history_tokens <= context.available_tokens == 6_144
        assert context.messages[-1].message_id == rows[-1].pk
        assert context.dropped == len(rows) - len(context.messages)
        assert chat.should_compact(rows[-1], model="little")
        run = chat.request_compaction(rows[-1], model="little")
        tasks.compact_branch(run.pk)
        run.refresh_from_db()
        assert run.base_id == summary.pk
        context = chat.get_context(rows[-1], model="little")
        assert context.summary_id == run.summary_id is not None
        assert (context.strategy, context.dropped) == ("auto_compact", 0)

    def test_a_tip_that_is_cutoff_and_anchor_is_shown_where_its_summary_cannot_be(self, session):
        """The prompt was empty, nothing was dropped, and there was no error."""
        rows = grow(session, None, "u a u a u a")
        anchored_summary(rows[3], rows[3], tokens=900)
        assert shown_ids(rows[3])[0] not in {row.pk for row in rows}
        context = chat.get_context(rows[3], reserved_tokens=9_500)
        assert [message.message_id for message in context.messages] == [row.pk for row in rows[:4]]
        assert len(context.to_openai()) == 4


class TestDrafts:
    def test_what_can_not_be_made_smaller_is_said_once_until_a_message_is_appended(self, session):
        tip = grow(session, None, "u a(6500)")[-1]
        for _ in range(3):
            assert chat.request_compaction(tip) is None
        assert self.reasons(session) == ["irreducible"]
        told = tasks.compact_session(str(session.pk))
        assert told == {"tips": 1, "runs": 0, "waiting": 0}
        assert self.reasons(session) == ["irreducible"]
        tip = chat.append_message(session, tip, role="assistant", content=words(10))
        assert chat.request_compaction(tip) is None
        assert chat.request_compaction(tip) is None
        assert self.reasons(session) == ["irreducible"] * 2
        assert FakeSummarizer.requests == []
        assert not CompactionRun.objects.exists()

    def reasons(self, session: ChatSession) -> list[str]:
        events = CompactionEvent.objects.filter(session=session).order_by("id")
        assert {event.kind for event in events} == {"suppressed"}
        return [event.payload["reason"] for event in events]
