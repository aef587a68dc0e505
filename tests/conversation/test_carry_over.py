"""What a branch has below a fork, summarized for another branch of the same conversation."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.compaction.leases import Claim
from compaction_app.exceptions import CompactionFailed, CompactionRefused, InvalidMessage, ReplyUnderWay
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.spending import session_spending
from compaction_app.transfer.export import export_sessions
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.conversation.asking import say
from tests.fake_summarizer import FakeSummarizer
from tests.small import anchored_summary, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

ASKED = ["Which boat do we take?", "Two are free."]
THERE = ["The Albatross?", "Cracked, see invoice 4711.", "So not her?", "No, the Petrel is sound."]
HERE = ["Look at the Petrel.", "She is sound."]


@pytest.fixture
def branches() -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Two branches below the same two messages."""
    session = chat.start_session(owner=get_user_model().objects.create_user("ida"), model="m")
    top = say(session, None, *ASKED)
    return [*top, *say(session, top[-1], *THERE)], [*top, *say(session, top[-1], *HERE)]


def fresh(message: ChatMessage) -> ChatMessage:
    return ChatMessage.objects.get(pk=message.pk)


class TestWhatIsCarriedOver:
    def test_a_message_tells_what_the_other_branch_has_below_the_fork(self, branches):
        there, here = branches
        before = chat.get_context(there[-1]).to_openai()
        message = chat.carry_over(there[-1], here[-1])
        assert (message.parent_id, message.role, chat.tips(message.session)[-1]) == (here[-1].pk, "user", message)
        [request] = FakeSummarizer.requests
        assert [one.content for one in request.covered] == THERE
        text = chat.get_context(message).to_openai()[-1]["content"]
        assert "a record, not instructions" in text
        assert "<conversation-summary>\n## Recap\n\n4 messages" in text
        # The other branch is shown as before.
        assert chat.get_context(there[-1]).to_openai() == before
        assert chat.find_summary(there[-1]) is None
        assert verify_session(message.session).problems == []

    def test_it_is_paid_for_once_and_told_in_the_spending(self, branches):
        there, here = branches
        first, again = (chat.carry_over(there[-1], here[-1]) for _ in range(2))
        assert (first.content, len(FakeSummarizer.requests)) == (again.content, 1)
        assert first.pk != again.pk
        run = CompactionRun.objects.get()
        assert (run.trigger, run.status, run.messages_compacted) == ("carry_over", "succeeded", 4)
        assert session_spending(first.session).runs == 1
        # From another fork, or further down, it is another one.
        chat.carry_over(say(first.session, there[-1], "And when?")[-1], here[-1])
        assert len(FakeSummarizer.requests[-1].covered) == 5

    def test_with_the_same_key_it_is_stored_once(self, branches):
        there, here = branches
        first = chat.carry_over(there[-1], here[-1], idempotency_key="k")
        assert asyncio.run(chat.acarry_over(there[-1], here[-1], idempotency_key="k")) == first
        assert chat.carry_over(there[-1], here[-2], idempotency_key="k") != first
        with pytest.raises(InvalidMessage, match="app's own"):
            chat.carry_over(there[-1], here[-1], idempotency_key="compaction_app:1")

    @pytest.mark.twice
    def test_a_long_one_is_summarized_in_several_steps(self, branches, monkeypatch):
        _, here = branches
        there = grow(here[0].session, here[1], "u a " * 60)
        monkeypatch.setattr(FakeSummarizer, "max_input_tokens", 2_500)
        message = asyncio.run(chat.acarry_over(there[-1], here[-1]))
        runs = list(CompactionRun.objects.order_by("id"))
        assert len(runs) > 1
        covered = [one.id for request in FakeSummarizer.requests for one in request.covered]
        assert sorted(covered) == [one.pk for one in there]
        assert (runs[0].base_id, runs[1].base_id) == (None, runs[0].summary_id)
        assert message.copy_of == runs[-1].summary_id
        assert chat.find_summary(there[-1]) is None
        assert verify_session(message.session).problems == []

    def test_of_another_first_message_it_is_the_whole_branch(self, branches):
        there, here = branches
        other = say(here[0].session, None, *ASKED)
        chat.carry_over(other[-1], here[-1])
        assert [one.content for one in FakeSummarizer.requests[-1].covered] == ASKED
        assert chat.carry_over(there[-1], other[-1]).parent_id == other[-1].pk

    def test_its_prompt_can_be_built_again(self, branches, tmp_path):
        there, here = branches
        chat.carry_over(there[-1], here[-1])
        [entry] = export_sessions(ChatSession.objects.all(), tmp_path)
        assert (entry.reason, entry.is_sound) == ("", True)

    @pytest.mark.twice
    def test_it_takes_as_many_queries_for_a_long_branch(self, branches):
        counts = []
        for length in ("u a " * 3, "u a " * 300):
            there, here = (grow(branches[0][0].session, branches[0][1], length) for _ in range(2))
            with CaptureQueriesContext(connection) as queries:
                chat.carry_over(there[-1], here[-1])
            counts.append(len(queries))
        assert counts[0] == counts[1]


class TestRefusals:
    def test_one_branch(self, branches):
        there, _ = branches
        for source, tip in ((there[-1], there[2]), (there[2], there[-1]), (there[-1], there[-1])):
            with pytest.raises(InvalidMessage, match="another branch"):
                chat.carry_over(source, tip)
        assert not CompactionRun.objects.exists()

    def test_another_session(self, branches):
        there, _ = branches
        other = say(chat.start_session(owner=there[0].session.owner), None, "Hello.")
        with pytest.raises(InvalidMessage, match="of the session of tip"):
            chat.carry_over(there[-1], other[-1])

    def test_in_the_mode_off(self, branches, settings):
        there, here = branches
        settings.COMPACTION = small(MODE="off")
        with pytest.raises(CompactionRefused) as caught:
            chat.carry_over(there[-1], here[-1])
        assert caught.value.reason == "mode_off"

    def test_while_a_reply_is_under_way(self, branches):
        there, here = branches
        claim = Claim(here[-1])
        claim.take(regenerate=True)
        with pytest.raises(ReplyUnderWay):
            chat.carry_over(there[-1], here[-1])
        claim.release()
        assert not FakeSummarizer.requests

    def test_where_no_summary_is_made_nothing_is_stored(self, branches, monkeypatch):
        there, here = branches
        monkeypatch.setattr(FakeSummarizer, "error", ValueError("away"))
        with pytest.raises(CompactionFailed):
            chat.carry_over(there[-1], here[-1])
        assert chat.tips(here[-1].session)[-1] == here[-1]
        # Of the branch's own compaction it says nothing.
        assert chat.measure(there[-1]).state == "ok"


class TestErasures:
    @pytest.fixture
    def carried(self, branches) -> ChatMessage:
        there, here = branches
        message = chat.carry_over(there[-1], here[-1])
        assert "4711" in message.content
        return message

    def test_a_redaction_there_reaches_it(self, branches, carried):
        chat.redact_message(branches[0][3])
        assert (fresh(carried).content, fresh(carried).redacted_at is None) == ("[redacted]", False)
        assert verify_session(carried.session).problems == []
        # What is brought then knows nothing of it.
        assert "4711" not in chat.carry_over(branches[0][-1], branches[1][-1]).content

    def test_a_deletion_and_a_redacted_text_reach_it(self, branches, carried):
        other = chat.carry_over(branches[0][-1], branches[1][-2])
        chat.delete_message(branches[0][4])
        assert {fresh(one).content for one in (carried, other)} == {"[redacted]"}
        there = branches[0][3]
        message = chat.carry_over(there, branches[1][-1])
        chat.redact_text(message.session, "invoice 4711")
        assert fresh(message).content == "[redacted]"
        assert verify_session(message.session).problems == []

    def test_here_nothing_is_erased_by_what_is_not_told(self, branches, carried):
        chat.redact_message(branches[1][-1])
        assert "4711" in fresh(carried).content

    @pytest.mark.twice
    def test_it_is_reached_in_what_tells_of_it(self, branches, carried, monkeypatch):
        """A summary of the branch, what is carried over from there, a copy, and what was handed over."""
        more = grow(carried.session, carried, "a u a " * 20)
        monkeypatch.setattr(FakeSummarizer, "text", "The keel is cracked, as invoice 4711 says; so it is the Petrel.")
        summary = chat.compact(more[-1]).summary
        third = grow(carried.session, branches[1][1], "u a")
        brought = chat.carry_over(carried, third[-1])
        copies = [chat.copy_branch(more[-1]), chat.copy_branch(brought)]
        copies.append(chat.copy_branch(chat.tips(copies[0])[-1]))
        new = chat.hand_over(more[-1])
        later = chat.hand_over(carried) if chat.find_summary(carried) else None
        chat.redact_message(branches[0][3])
        for session in (carried.session, *copies, new, later):
            if session:
                said = [*session.messages.values_list("content", "extract", "ledger", "memory")]
                assert "4711" not in str(said)
                assert verify_session(session).problems == []
        assert fresh(summary).content == ""
        assert fresh(brought).content == "[redacted]"

    def test_what_continues_it_is_erased_once(self, branches, carried):
        """A summary, and the message that carries it over, may be of one moment: this is no copy of that."""
        anchored_summary(branches[1][-1], branches[1][1], content="Two boats.")
        new = chat.hand_over(grow(carried.session, carried, "u a")[-1])
        chat.redact_message(branches[0][3])
        summary = ChatMessage.objects.get(pk=carried.copy_of)
        of_one_moment = ChatMessage.objects.filter(copy_of=summary.pk)
        assert of_one_moment.update(created_at=summary.created_at) == 2
        new.refresh_from_db()
        before = new.erasures
        chat.delete_message(branches[0][-1])
        assert not ChatMessage.objects.filter(pk=summary.pk).exists()
        new.refresh_from_db()
        assert new.erasures == before > 0

    def test_with_its_session_goes_what_others_have_of_it(self, branches, carried):
        copy = chat.copy_branch(carried)
        chat.delete_session(carried.session)
        assert [one.content for one in chat.get_branch(chat.tips(copy)[-1])] == [*ASKED, *HERE, "[redacted]"]

    def test_erased_while_it_is_made_it_is_made_of_what_is_left(self, branches, monkeypatch):
        there, here = branches
        write = FakeSummarizer.summarize

        def erased_meanwhile(summarizer, request):
            if not fresh(there[3]).redacted_at:
                chat.redact_message(there[3])
            return write(summarizer, request)

        monkeypatch.setattr(FakeSummarizer, "summarize", erased_meanwhile)
        message = chat.carry_over(there[-1], here[-1])
        assert "4711" not in message.content
