"""Taking things out: retire, redact, delete (design §10)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage, MessageNotFound, NotASummary
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing.builders import grow
from compaction_app.testing.summarizers import FakeSummarizer
from compaction_app.tree.verify import verify_session
from tests.small import anchored_summary, shown_ids

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small_world(small_window: None) -> None:
    """Before the fixtures of a class, which change some of it: a mark would come after them."""


SECRET = "4242-4242"


@pytest.fixture
def session():
    return chat.start_session()


def everything_stored():
    """Every text in every table of the app."""
    texts = []
    for model in (ChatSession, ChatMessage, CompactionRun, CompactionEvent):
        texts += [str(row) for row in model.objects.values()]
    return "\n".join(texts)


class TestRetire:
    def chain(self, session):
        """Three generations down one branch."""
        tip, made = None, []
        for _ in range(3):
            tip = grow(session, tip, "u a " * 35)[-1]
            made.append(chat.compact(tip).summary)
        return tip, made

    def test_the_originals_are_back_on_the_next_read(self, session):
        tip = grow(session, None, "u a " * 35)[-1]
        summary = chat.compact(tip).summary
        assert chat.retire_summary(summary, reason="it got the date wrong") == [summary.pk]
        assert chat.find_summary(tip) is None
        summary.refresh_from_db()
        assert summary.retired_reason == "it got the date wrong"
        assert summary.content

    def test_every_summary_built_on_it_goes_with_it(self, session):
        tip, (first, second, third) = self.chain(session)
        assert chat.retire_summary(second) == [second.pk, third.pk]
        assert chat.find_summary(tip) == first
        event = CompactionEvent.objects.get(session=session, kind="retired")
        assert event.payload == {"summaries": 2, "summary": second.pk}

    def test_chatting_and_compacting_go_on_afterwards(self, session):
        tip, (first, second, _) = self.chain(session)
        chat.retire_summary(second)
        run = chat.compact(tip)
        assert run.base_id == first.pk
        assert chat.find_summary(tip) == run.summary

    def test_retiring_twice_changes_nothing(self, session):
        tip = grow(session, None, "u a " * 35)[-1]
        summary = chat.compact(tip).summary
        chat.retire_summary(summary)
        assert chat.retire_summary(summary) == []

    def test_only_summaries_are_retired(self, session):
        with pytest.raises(NotASummary):
            chat.retire_summary(grow(session, None, "u")[0])


class TestRedact:
    def secretive(self, session):
        head = grow(session, None, "u a " * 3)
        call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": f'{{"card": "{SECRET}"}}'}}
        told = chat.append_message(
            session,
            head[-1],
            role="assistant",
            content=f"the card is {SECRET}",
            tool_calls=[call],
            reasoning=[{"type": "thinking", "thinking": SECRET}],
            attachments=[{"type": "file", "name": f"{SECRET}.pdf"}],
        )
        return told, grow(session, told, "u a " * 32)[-1]

    def test_the_text_is_nowhere_in_the_database(self, session, monkeypatch):
        told, tip = self.secretive(session)
        FakeSummarizer.text = f"## Payment\n\nThe user paid with {SECRET} and was content."
        first = chat.compact(tip, instructions=f"keep {SECRET}")
        chat.retire_summary(first.summary)
        chat.compact(tip)
        assert SECRET in everything_stored()
        chat.redact_message(told)
        assert SECRET not in everything_stored()

    def test_counts_and_prefix_sums_stay_true(self, session):
        told, tip = self.secretive(session)
        chat.compact(tip)
        other = grow(session, told, "u a u")
        chat.redact_message(told)
        assert verify_session(session).problems == []
        assert other[-1] in chat.tips(session)

    def test_the_call_keeps_its_id_so_that_its_result_still_answers_it(self, session):
        told, _ = self.secretive(session)
        answer = chat.append_message(session, told, role="tool", content="paid", tool_call_id="c1")
        redacted = chat.redact_message(told)
        assert redacted.tool_calls[0]["id"] == "c1"
        sent = chat.get_context(answer).to_openai()
        assert sent[-2]["tool_calls"][0]["function"] == {"name": "pay", "arguments": "{}"}

    def test_summaries_below_are_retired_and_emptied_and_others_stay(self, session):
        told, tip = self.secretive(session)
        below = chat.compact(tip).summary
        root = chat.get_branch(tip)[0]
        elsewhere_tip = grow(session, root, "a " + "u a " * 35)[-1]
        elsewhere = chat.compact(elsewhere_tip).summary
        chat.redact_message(told)
        below.refresh_from_db()
        elsewhere.refresh_from_db()
        assert (below.content, below.retired_reason) == ("", "redaction")
        assert below.retired_at is not None
        assert elsewhere.retired_at is None
        assert chat.find_summary(elsewhere_tip) == elsewhere

    def test_a_summary_is_not_redacted(self, session):
        messages = grow(session, None, "u a")
        with pytest.raises(InvalidMessage, match="retire"):
            chat.redact_message(anchored_summary(messages[1], messages[0]))


class TestDelete:
    def test_a_subtree_goes_with_its_summaries_and_the_rest_stays(self, session):
        trunk = grow(session, None, "u a " * 5)
        tip = grow(session, trunk[-1], "u a " * 35)[-1]
        other = grow(session, trunk[-1], "u a")[-1]
        chat.compact(tip)
        doomed = chat.get_branch(tip)[10]
        assert chat.delete_message(doomed) == 71
        assert shown_ids(other) == [m.pk for m in chat.get_branch(other)]
        assert not ChatMessage.objects.filter(session=session).summaries().exists()
        run = CompactionRun.objects.get(session=session)
        assert (run.tip_id, run.summary_id, run.status) == (None, None, "succeeded")
        session.refresh_from_db()
        assert session.erasures == 1

    def test_a_deep_subtree_takes_as_many_statements_as_a_small_one(self, session):
        counts = []
        for turns in (2, 400):
            top = grow(session, None, "u a " * turns)[0]
            with CaptureQueriesContext(connection) as captured:
                chat.delete_message(top)
            counts.append(len(captured))
        assert counts[1] - counts[0] <= 2, "one blanking of runs for every 500 messages"

    def test_a_message_that_is_gone_says_so(self, session):
        message = grow(session, None, "u")[0]
        copy = ChatMessage.objects.get(pk=message.pk)
        chat.delete_message(message)
        with pytest.raises(MessageNotFound):
            chat.delete_message(copy)

    def test_deleting_a_summary_raises(self, session):
        messages = grow(session, None, "u a")
        with pytest.raises(InvalidMessage, match="retire"):
            chat.delete_message(anchored_summary(messages[1], messages[0]))
