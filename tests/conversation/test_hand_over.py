"""A branch that goes on in a new session, with the summary and the tail alone."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.conf import get_token_counter
from compaction_app.exceptions import CompactionRefused, InvalidMessage
from compaction_app.messages.transcript import RECALL_TOOL, count_summary
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.conversation.asking import say
from tests.fake_summarizer import FakeSummarizer
from tests.small import anchored_summary, small, tool_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

SAID = ["The invoice 4711 is due in March.", "Noted: 4711.", "The boat is called Albatross.", "A fine name."]
TAIL = ["Who paints it?", "The keeper does.", "And when?", "In May."]


@pytest.fixture
def owner():
    return get_user_model().objects.create_user("ida")


@pytest.fixture
def nodes(owner) -> list[ChatMessage]:
    """A branch of which the first four messages are summarized, and the summarizer saw the fifth."""
    session = chat.start_session(owner=owner, title="harbour", model="m", system_prompt="You know the harbour.")
    nodes = say(session, None, *SAID, *TAIL)
    summarize(nodes[4], nodes[3], content="An invoice and a boat.", extract="Invoice 4711.")
    return nodes


def summarize(anchor, cutoff, content="what was said before", **more):
    return anchored_summary(anchor, cutoff, content=content, tokens=count_summary(content, get_token_counter()), **more)


def newest(session: ChatSession) -> ChatMessage:
    return chat.tips(session)[-1]


def prompt(tip: ChatMessage) -> list:
    return chat.get_context(tip).to_openai(include_reasoning=True)


def texts(session: ChatSession) -> str:
    rows = [f"{row.content} {row.extract} {row.ledger} {row.memory}" for row in session.messages.all()]
    return "\n".join([session.title, *rows])


def contents(session: ChatSession) -> list[str]:
    return [row.content for row in session.messages.messages().order_by("depth")]


def searched(session: ChatSession, query: str) -> ChatMessage:
    """The tip, after a search by the model."""
    tip = say(session, newest(session), "Which?")[-1]
    call = tool_call("s1", json.dumps({"query": query}), RECALL_TOOL)
    reply = chat.append_message(session, tip, role="assistant", tool_calls=[call])
    found = chat.answer_recalls(reply)
    assert found is not None
    return found


class TestTheNewSession:
    def test_its_first_prompt_is_the_next_one_of_the_first(self, nodes):
        new = chat.hand_over(nodes[-1])
        assert prompt(newest(new)) == prompt(nodes[-1])
        assert (new.title, new.model, new.owner_id) == ("harbour", "m", nodes[0].session.owner_id)
        assert verify_session(new).problems == []
        assert chat.find_summary(newest(new)).extract == "Invoice 4711."

    def test_no_summarized_message_is_copied(self, nodes):
        new = chat.hand_over(nodes[-1])
        assert contents(new) == ["The conversation before this message was in another chat.", *TAIL]
        assert not any(text in texts(new) for text in SAID)

    def test_what_is_shown_beside_the_summary_goes_along(self, owner):
        session = chat.start_session(owner=owner)
        nodes = grow(session, None, "u a u c t c t c t")
        chat.pin_message(nodes[1])
        summarize(nodes[6], nodes[4], pinned=nodes[2])
        new = chat.hand_over(nodes[-1])
        assert prompt(newest(new)) == prompt(nodes[-1])
        assert verify_session(new).problems == []
        # It is compacted on as the first one is.
        more = grow(new, newest(new), "c t " * 40 + "a u a")
        assert chat.compact(more[-1]).status == "succeeded"
        assert verify_session(new).problems == []

    def test_a_cutoff_that_is_pinned_above_its_request(self, owner):
        nodes = grow(chat.start_session(owner=owner), None, "u a a c t c t")
        chat.pin_message(nodes[2])
        summarize(nodes[2], nodes[2], pinned=nodes[0])
        new = chat.hand_over(nodes[-1])
        assert prompt(newest(new)) == prompt(nodes[-1])
        assert verify_session(new).problems == []

    def test_a_request_that_is_pinned_too_stands_behind_the_pins(self, owner):
        nodes = grow(chat.start_session(owner=owner), None, "u a u a c t c t")
        for node in (nodes[2], nodes[3]):
            chat.pin_message(node)
        summarize(nodes[3], nodes[3], pinned=nodes[2])
        new = chat.hand_over(nodes[-1])
        assert prompt(newest(new)) == prompt(nodes[-1])
        copied = [row.copy_of for row in chat.get_branch(newest(new))]
        assert copied == [None, nodes[3].pk, nodes[2].pk, *(node.pk for node in nodes[4:])]
        assert verify_session(new).problems == []
        with pytest.raises(InvalidMessage, match="owner must be a stored user"):
            chat.hand_over(nodes[-1], owner="ann")

    def test_what_came_is_sent_as_it_came(self, owner):
        session = chat.start_session(owner=owner)
        nodes = say(session, None, *SAID)
        summarize(nodes[1], nodes[1])
        message = {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [tool_call("c1", extra_content={"google": {"thought_signature": "abc"}})],
            "reasoning": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        }
        tip = chat.append_messages(session, nodes[3], [{"role": "user", "content": "Look."}, message])[-1]
        tip = chat.append_message(session, tip, role="tool", tool_call_id="c1", content="found")
        new = chat.hand_over(tip)
        assert prompt(newest(new)) == prompt(tip)
        assert "thought_signature" in str(prompt(newest(new)))

    def test_without_a_summary_one_is_made_first(self, session):
        nodes = grow(session, None, "u a " * 35)
        new = asyncio.run(chat.ahand_over(nodes[-1]))
        assert chat.find_summary(nodes[-1]) is not None
        assert prompt(newest(new)) == prompt(nodes[-1])
        assert len(FakeSummarizer.requests) == 1

    def test_with_nothing_to_summarize_it_is_refused_and_nothing_is_left(self, session):
        nodes = grow(session, None, "u a")
        with pytest.raises(CompactionRefused, match="nothing to hand over but a copy") as caught:
            chat.hand_over(nodes[-1])
        assert caught.value.reason == "nothing_to_compact"
        assert ChatSession.objects.count() == 1

    def test_where_whole_branches_are_sent_it_is_refused(self, nodes, settings):
        settings.COMPACTION = small(MODE="off")
        with pytest.raises(CompactionRefused):
            chat.hand_over(nodes[-1])

    def test_a_limit_that_was_lowered_since_is_none(self, owner, settings):
        session = chat.start_session(owner=owner)
        nodes = say(session, None, *SAID, "long " * 2_000, "So it is.")
        summarize(nodes[1], nodes[1])
        settings.COMPACTION = small(MAX_MESSAGE_BYTES=100)
        assert prompt(newest(chat.hand_over(nodes[-1]))) == prompt(nodes[-1])

    def test_where_an_older_summary_is_shown_another_one_is_made_first(self, owner, settings):
        session = chat.start_session(owner=owner)
        nodes = grow(session, None, "u a " * 30)
        anchored_summary(nodes[1], nodes[1], tokens=30)
        anchored_summary(nodes[9], nodes[9], tokens=3_000)
        settings.COMPACTION = small(CONTEXT_WINDOW=3_000)
        before = chat.find_summary(nodes[-1])
        new = chat.hand_over(nodes[-1])
        assert chat.find_summary(nodes[-1]) != before
        assert prompt(newest(new)) == prompt(nodes[-1])

    def test_with_the_same_key_it_is_made_once(self, nodes, settings):
        first = chat.hand_over(nodes[-1], idempotency_key="k")
        assert chat.hand_over(nodes[-1], idempotency_key="k") == first
        # A client's own key is another one, and another tip another session.
        chat.append_message(nodes[0].session, None, role="user", content="hi", idempotency_key="m")
        assert chat.hand_over(nodes[-1], idempotency_key="m") != first
        more = say(nodes[0].session, nodes[-1], "And then?")
        assert contents(chat.hand_over(more[-1], idempotency_key="k"))[-1] == "And then?"
        # Sent again it is found, whatever has become of the summary.
        chat.retire_summary(chat.find_summary(nodes[-1]))
        assert asyncio.run(chat.ahand_over(nodes[-1], idempotency_key="k")) == first
        settings.COMPACTION = small(MODE="off")
        assert chat.hand_over(nodes[-1], idempotency_key="k") == first
        settings.COMPACTION = small()
        summarize(nodes[4], nodes[3])
        assert chat.hand_over(nodes[-1], idempotency_key="l") != first
        other = get_user_model().objects.create_user("bo")
        assert chat.hand_over(nodes[-1], owner=other, idempotency_key="k").owner == other
        with pytest.raises(InvalidMessage, match="app's own"):
            chat.hand_over(nodes[-1], idempotency_key=f"compaction_app:{1}")

    def test_it_takes_as_many_queries_for_a_long_branch(self, session):
        counts = []
        parent = None
        for length in ("u a " * 3, "u a " * 300):
            nodes = grow(session, parent, length)
            summarize(nodes[-2], nodes[-5])
            with CaptureQueriesContext(connection) as queries:
                chat.hand_over(nodes[-1])
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_what_is_handed_over_is_handed_over_again(self, nodes):
        second = chat.hand_over(nodes[-1])
        third = chat.hand_over(newest(second))
        assert prompt(newest(third)) == prompt(nodes[-1])
        assert verify_session(third).problems == []


class TestErasures:
    def test_a_redaction_of_what_is_summarized_empties_the_summary(self, nodes):
        second = chat.hand_over(nodes[-1])
        third = chat.hand_over(newest(second))
        chat.redact_message(nodes[0])
        for new in (second, third):
            new.refresh_from_db()
            assert "4711" not in texts(new)
            assert chat.find_summary(newest(new)) is None
            assert contents(new)[1:] == TAIL
            assert verify_session(new).problems == []

    def test_a_redaction_of_the_tail_reaches_its_copy_and_what_is_below(self, nodes):
        second = chat.hand_over(nodes[-1])
        more = say(second, newest(second), "Then in June?", "Yes.")
        third = chat.hand_over(more[-1])
        chat.redact_message(nodes[6])
        for new in (second, third):
            assert contents(new)[1:5] == ["Who paints it?", "The keeper does.", "[redacted]", "In May."]
            assert contents(new)[5:] == ["Then in June?", "Yes."]
            # The summary was made before this message was shown to any summarizer.
            assert chat.find_summary(newest(new)).content == "An invoice and a boat."
            assert verify_session(new).problems == []
        chat.redact_message(nodes[4])
        assert [chat.find_summary(newest(new)) for new in (second, third)] == [None, None]

    def test_a_deletion_empties_what_is_copied_of_it(self, nodes):
        second = chat.hand_over(nodes[-1])
        say(second, newest(second), "Then in June?")
        chat.delete_message(nodes[5])
        assert contents(second)[1:] == ["Who paints it?", "[redacted]", "[redacted]", "[redacted]", "Then in June?"]
        assert chat.find_summary(newest(second)) is not None
        chat.delete_message(nodes[2])
        assert chat.find_summary(newest(second)) is None
        second.refresh_from_db()
        assert second.continues_id == nodes[1].pk
        # What is left of it is found by later ones.
        chat.redact_message(nodes[0])
        assert verify_session(second).problems == []

    @pytest.mark.parametrize("how", ["session", "owner"])
    def test_with_the_first_session_all_goes_that_was_said_in_it(self, nodes, owner, how):
        other = get_user_model().objects.create_user("bo")
        second = chat.hand_over(nodes[-1], owner=other)
        chat.pin_message(second.messages.get(content=TAIL[0]))
        say(second, newest(second), "Then in June?")
        third = chat.hand_over(newest(second))
        if how == "session":
            chat.delete_session(nodes[0].session)
        else:
            chat.delete_owner(owner)
        for new in (second, third):
            new.refresh_from_db()
            assert contents(new)[1:] == ["[redacted]"] * 4 + ["Then in June?"]
            assert "4711" not in texts(new)
            assert "invoice" not in texts(new)
            assert verify_session(new).problems == []
        assert second.continues_id is None

    def test_a_text_is_redacted_there_too(self, nodes):
        second = chat.hand_over(nodes[-1])
        chat.redact_text(nodes[0].session, "harbour")
        second.refresh_from_db()
        assert (second.title, second.system_prompt) == ("", "")
        chat.redact_text(nodes[0].session, "the keeper does")
        assert contents(second)[2] == "[redacted]"

    def test_another_branch_of_the_first_session_is_nothing_to_it(self, nodes):
        second = chat.hand_over(nodes[-1])
        other = say(nodes[0].session, nodes[1], "And the rope?", "It is new.")
        chat.redact_message(other[0])
        chat.delete_message(other[0])
        assert contents(second)[1:] == TAIL
        assert chat.find_summary(newest(second)) is not None

    def test_a_copy_of_it_is_reached_too(self, nodes):
        second = chat.hand_over(nodes[-1])
        copy = chat.copy_branch(newest(second))
        chat.redact_message(nodes[0])
        assert "4711" not in texts(copy)
        chat.delete_session(second)
        chat.redact_message(nodes[4])
        assert contents(copy)[1] == "[redacted]"

    def test_a_session_between_that_is_deleted_cuts_no_line(self, nodes):
        second = chat.hand_over(nodes[-1])
        third = chat.hand_over(newest(second))
        searched(third, "invoice")
        chat.delete_session(second)
        third.refresh_from_db()
        assert (third.continues_id, third.continues_session) == (nodes[3].pk, nodes[0].session_id)
        assert "4711" in texts(third)
        chat.redact_message(nodes[0])
        assert "4711" not in texts(third)
        assert verify_session(third).problems == []

    def test_a_second_root_is_reached_and_its_summaries(self, nodes):
        """Nothing is looked up above from there; a client may still send a result that quotes what is."""
        second = chat.hand_over(nodes[-1])
        quoted = chat.recall_text(newest(second), "invoice")
        tip = say(second, None, "Which invoice?")[-1]
        assert chat.recall(tip, "invoice") == []
        tip = chat.append_message(second, tip, role="assistant", tool_calls=[tool_call("c1", "{}", RECALL_TOOL)])
        tip = chat.append_message(second, tip, role="tool", tool_call_id="c1", name=RECALL_TOOL, content="…")
        ChatMessage.objects.filter(pk=tip.pk).update(content=quoted, token_count=tip.token_count)
        more = say(second, tip, "One.", "Two.", "Three.")
        summarize(more[1], more[0], content="They asked about invoice 4711.")
        chat.redact_message(nodes[0])
        assert "4711" not in texts(second)
        assert chat.find_summary(more[-1]) is None

    def test_of_a_second_root_a_copy_is_an_ordinary_one(self, nodes):
        second = chat.hand_over(nodes[-1])
        tip = say(second, None, "An albatross of mine.", "Fine.")[-1]
        copy = chat.copy_branch(tip)
        assert (copy.is_handed_over, copy.continues) == (False, None)
        assert not copy.stands_for_others(copy.messages.get(parent=None))

    def test_a_title_of_another_branch_does_not_go_along(self, owner):
        session = chat.start_session(owner=owner, title="My password is hunter2")
        first = say(session, None, "My password is hunter2", "Keep it.")[0]
        edited = say(session, None, *SAID, *TAIL)
        summarize(edited[4], edited[3])
        assert chat.hand_over(edited[-1]).title == ""
        session.title_of = first
        session.save()
        assert chat.hand_over(edited[-1]).title == ""

    def test_copies_are_known_as_the_same_whatever_their_place(self, nodes):
        second = chat.hand_over(nodes[-1])
        [copy] = chat.copies_of(nodes[5])
        assert (copy.session, chat.copies_of(copy)) == (second, [nodes[5]])
        # What stands for others is no copy of the cutoff.
        first = second.messages.get(parent=None)
        assert chat.copies_of(first) == chat.copies_of(nodes[3]) == []

    def test_a_prompt_that_was_reworded_since_is_searched_for_the_text(self, nodes):
        second = chat.hand_over(nodes[-1])
        source = nodes[0].session
        source.system_prompt = "You know the Harbour well."
        source.save()
        chat.redact_text(source, "harbour")
        second.refresh_from_db()
        assert (second.title, second.system_prompt) == ("", "")

    def test_a_title_goes_with_its_message(self, owner):
        session = chat.start_session(owner=owner, title=SAID[0])
        nodes = say(session, None, *SAID, *TAIL)
        summarize(nodes[4], nodes[3])
        new = chat.hand_over(nodes[-1])
        assert new.title == SAID[0]
        chat.redact_message(nodes[0])
        new.refresh_from_db()
        assert new.title == ""


class TestSearches:
    def quoted(self, tip: ChatMessage, query: str) -> list[int]:
        return [one.position for one in chat.recall(tip, query)]

    def test_they_look_back_into_the_first_one_by_its_numbers(self, nodes):
        second = chat.hand_over(nodes[-1])
        assert self.quoted(newest(second), "albatross") == self.quoted(nodes[-1], "albatross") == [3]
        assert "The boat is called Albatross." in chat.recall_message(newest(second), 3)
        assert "No summarized message has the number 5." in chat.recall_message(newest(second), 5)
        third = chat.hand_over(newest(second))
        assert self.quoted(newest(third), "albatross") == [3]
        assert SAID[0] in chat.recall_message(newest(third), 1)

    def test_they_go_on_counting(self, nodes):
        second = chat.hand_over(nodes[-1])
        more = say(second, newest(second), "The pier is old.", "So it is.", "More.", "Yes.")
        summarize(more[1], more[0])
        # The ninth: eight were there before.
        assert self.quoted(more[-1], "pier") == [9]
        assert self.quoted(more[-1], "keeper") == [6]
        assert self.quoted(more[-1], "conversation before another chat") == []
        opened = chat.recall_message(more[-1], 9)
        assert "<recalled message=8 " in opened
        assert "<recalled message=9 " in opened
        assert self.quoted(more[-1], "albatross pier") == [9, 3]

    def test_what_stands_beside_the_summary_has_its_own_number(self, owner):
        session = chat.start_session(owner=owner)
        nodes = say(session, None, "One.", "Two.", "The xylophone, please.")
        nodes += grow(session, nodes[-1], "c t c t c t")
        summarize(nodes[6], nodes[4], pinned=nodes[2])
        second = chat.hand_over(nodes[-1])
        assert self.quoted(newest(second), "xylophone") == self.quoted(nodes[-1], "xylophone") == [3]
        assert "xylophone" in chat.recall_message(newest(second), 3)
        late = chat.recall_text(newest(second), "xylophone")
        third = chat.hand_over(newest(second))
        assert "xylophone" in searched(third, "xylophone").content
        # Redacted here, it is not quoted from there.
        chat.redact_message(second.messages.get(content__contains="xylophone"))
        assert self.quoted(newest(second), "xylophone") == []
        assert "xylophone" not in texts(third)
        assert "No summarized message" in chat.recall_message(newest(second), 3)
        chat.redact_message(nodes[2])
        tip = chat.append_message(second, newest(second), role="user", content="Which?")
        tip = chat.append_message(second, tip, role="assistant", tool_calls=[tool_call("late", "{}", RECALL_TOOL)])
        tip = chat.append_message(second, tip, role="tool", tool_call_id="late", name=RECALL_TOOL, content=late)
        assert "xylophone" not in tip.content

    def test_what_stands_for_others_is_quoted_by_none(self, nodes):
        other = get_user_model().objects.create_user("bo")
        for new in (chat.hand_over(nodes[-1]), chat.hand_over(nodes[-1], owner=other)):
            more = say(new, newest(new), "The pier.", "Old.", "More.")
            summarize(more[1], more[0])
            assert "another chat" not in chat.recall_message(more[-1], 5)
            assert len(chat.recall(more[-1], "who paints", limit=1)) == 1

    def test_where_one_message_is_summarized_it_is_handed_over_too(self, owner):
        session = chat.start_session(owner=owner)
        nodes = say(session, None, *SAID)
        summarize(nodes[0], nodes[0])
        second = chat.hand_over(nodes[-1])
        late = chat.recall_text(newest(second), "invoice")
        assert (second.numbered_from, "4711" in late) == (0, True)
        chat.delete_session(session)
        second.refresh_from_db()
        assert second.stands_for_others(second.messages.get(parent=None))
        tip = chat.append_message(second, newest(second), role="user", content="Which?")
        tip = chat.append_message(second, tip, role="assistant", tool_calls=[tool_call("c1", "{}", RECALL_TOOL)])
        tip = chat.append_message(second, tip, role="tool", tool_call_id="c1", name=RECALL_TOOL, content=late)
        assert "4711" not in tip.content

    def test_who_is_no_owner_of_the_first_one_finds_nothing_there(self, nodes):
        other = get_user_model().objects.create_user("bo")
        second = chat.hand_over(nodes[-1], owner=other)
        assert self.quoted(newest(second), "albatross") == []
        assert "No summarized message" in chat.recall_message(newest(second), 3)

    def test_what_quotes_an_erased_message_of_the_first_one_goes_with_it(self, nodes):
        second = chat.hand_over(nodes[-1])
        calls = [
            tool_call("c1", '{"query": "invoice"}', RECALL_TOOL),
            tool_call("c2", '{"query": "boat"}', RECALL_TOOL),
        ]
        tip = say(second, newest(second), "Which invoice?")[-1]
        reply = chat.append_message(second, tip, role="assistant", tool_calls=calls)
        tip = chat.answer_recalls(reply)
        third = chat.hand_over(tip)
        chat.redact_message(nodes[0])
        for new in (second, third):
            kept = [row.content for row in new.messages.filter(role="tool").order_by("depth")]
            assert kept[0] == "[redacted]"
            assert "Albatross" in kept[1]
            assert verify_session(new).problems == []
        chat.delete_message(nodes[2])
        assert "Albatross" not in texts(second) + texts(third)

    @pytest.mark.few
    @pytest.mark.parametrize("how", ["redacted", "deleted", "gone"])
    @pytest.mark.parametrize("word", ["invoice", "fine name"])
    def test_a_result_that_comes_after_the_erasure_is_emptied(self, nodes, how, word):
        second = chat.hand_over(nodes[-1])
        tip = say(second, newest(second), "Which invoice?")[-1]
        tip = chat.append_message(second, tip, role="assistant", tool_calls=[tool_call("c1", "{}", RECALL_TOOL)])
        late = chat.recall_text(tip, word)
        assert word.split()[-1] in late
        if how == "redacted":
            chat.redact_message(nodes[0 if word == "invoice" else 3])
        elif how == "deleted":
            chat.delete_message(nodes[0])
        else:
            chat.delete_session(nodes[0].session)
        stored = chat.append_message(second, tip, role="tool", tool_call_id="c1", name=RECALL_TOOL, content=late)
        assert stored.content == "[redacted]"
