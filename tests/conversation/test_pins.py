"""A pinned message: shown verbatim beside the summary on every branch that has it, counted, and gone with its text."""

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage, MessageNotFound, PinsTooLarge
from compaction_app.models import ChatMessage, MessagePin
from compaction_app.tree.branches import histories_at
from tests.builders import grow, words
from tests.fake_summarizer import FakeSummarizer
from tests.small import anchored_summary, shown_ids, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

RECAP = "## Recap\n\nEarlier matter was told and settled, all of it."


@pytest.fixture
def session(small_window):
    """Without a system prompt."""
    return chat.start_session()


def pinned_ids(session):
    return list(MessagePin.objects.filter(session=session).order_by("depth").values_list("pk", flat=True))


def assert_counted(tip, tokens):
    context = chat.get_context(tip)
    assert context.history_tokens == tokens == sum(m.tokens for m in context.messages)
    assert histories_at([tip.pk], tip)[tip.pk].tokens == tokens
    return context


class TestShown:
    def test_what_the_summary_covers_stands_after_it_in_order_and_is_counted(self, session):
        """Ten messages, cutoff at the 8th, summary of 30: 230; with two pins of 100: 430."""
        messages = grow(session, None, "u a " * 5)
        summary = anchored_summary(messages[7], messages[7])
        for at in (5, 2, 2):
            chat.pin_message(messages[at])
        context = assert_counted(messages[-1], 430)
        pins = [messages[2].pk, messages[5].pk]
        assert shown_ids(messages[-1]) == [summary.pk, *pins, messages[8].pk, messages[9].pk]
        assert [m.origin for m in context.messages] == ["summary", "pin", "pin", "verbatim", "verbatim"]
        assert context.messages[1].content == messages[2].content
        assert (context.pin_ids, context.pinned_id, context.dropped) == (tuple(pins), None, 0)
        chat.unpin_message(messages[2])
        chat.unpin_message(messages[2])
        assert_counted(messages[-1], 330)

    def test_reasoning_is_sent_with_the_tail_alone(self, session):
        first = grow(session, None, "u")[0]
        said = chat.append_message(session, first, role="assistant", content="so", reasoning="because")
        tip = grow(session, said, "u a")[-1]
        anchored_summary(said, said)
        chat.pin_message(said)
        context = chat.get_context(tip, include_reasoning=True)
        assert [m.reasoning for m in context.messages] == [None] * 4
        assert [m.content for m in context.messages][1] == "so"

    def test_the_redactor_reads_it(self, session, settings):
        settings.COMPACTION = small(REDACTOR="tests.context.test_shared_extract.without_masts")
        first = chat.append_message(session, None, role="user", content="never sand the mast")
        tip = grow(session, first, "a u a")[-1]
        anchored_summary(first, first)
        chat.pin_message(first)
        assert chat.get_context(tip).messages[1].content == "never sand the [gone]"

    @pytest.mark.parametrize("mode", ["standard", "off"])
    def test_a_read_with_pins_is_as_many_queries(self, session, settings, mode):
        settings.COMPACTION = small(MODE=mode)
        messages = grow(session, None, "u a " * 5)
        anchored_summary(messages[7], messages[7])
        tip = ChatMessage.objects.select_related("session").get(pk=messages[-1].pk)
        with CaptureQueriesContext(connection) as without:
            chat.get_context(tip)
        chat.pin_message(messages[2])
        with CaptureQueriesContext(connection) as queries:
            assert chat.get_context(tip).pin_ids == ((messages[2].pk,) if mode == "standard" else ())
        assert len(queries) == len(without)


class TestCompacted:
    def test_it_survives_three_generations_and_each_ends_under_its_target(self, session):
        FakeSummarizer.text = RECAP
        pin, *others = grow(session, None, "u(900) a " + "u a " * 32)
        chat.pin_message(pin)
        tip, shown = others[-1], pin.content
        for _ in range(3):
            run = chat.compact(tip)
            assert run.status == "succeeded"
            context = assert_counted(tip, run.tokens_after)
            assert context.messages[1].content == shown
            assert context.messages[1].origin == "pin"
            assert context.history_tokens <= context.target
            assert not chat.should_compact(tip)
            tip = grow(session, tip, "u a " * 25)[-1]
        covered = [message.id for asked in FakeSummarizer.requests for message in asked.covered]
        assert covered.count(pin.pk) == 1, "covered like any other, so unpinning loses nothing"


class TestFit:
    def test_pins_stay_where_turns_are_left_out_read_or_not(self, session):
        messages = grow(session, None, "u(900) a " + "u a " * 60)
        chat.pin_message(messages[0])
        chat.pin_message(messages[80])
        context = chat.get_context(messages[-1], reserved_tokens=10_000 - 2_500)
        shown = [m.message_id for m in context.messages]
        assert context.strategy == "truncated"
        assert shown[:2] == [messages[0].pk, messages[80].pk]
        assert context.pin_ids == tuple(shown[:2])
        assert context.dropped == len(messages) - len(shown)
        assert context.history_tokens <= 2_500

    def test_in_the_tail_one_stays_in_its_place_where_another_has_to_go(self, small_window):
        session = chat.start_session(settings={"PRESERVE_RECENT_MESSAGES": 3})
        _, question, _, pinned, last = grow(session, None, "a u(10) a(4000) a(900) a(3500)")
        chat.pin_message(pinned)
        assert shown_ids(last) == [question.pk, pinned.pk, last.pk]


class TestRefused:
    def test_what_cannot_be_pinned(self, session):
        messages = grow(session, None, "u c t a")
        summary = anchored_summary(messages[3], messages[3])
        chat.redact_message(messages[3])
        for message, why in zip((summary, *messages[1:]), ("summary", "tool", "tool", "redacted"), strict=True):
            with pytest.raises(InvalidMessage, match=why):
                chat.pin_message(message)
        with pytest.raises(InvalidMessage, match="message must be"):
            chat.pin_message(None)
        chat.delete_message(messages[1])
        with pytest.raises(MessageNotFound):
            chat.pin_message(messages[1])
        assert not MessagePin.objects.exists()

    def test_all_pins_together_may_take_a_quarter_of_what_is_available(self, session):
        """Of 8,000 tokens 2,000, on whichever branch they are."""
        first, *_ = grow(session, None, "u(1500)")
        second, third = grow(session, None, "u(500) u(5)")
        chat.pin_message(first)
        chat.pin_message(second)
        with pytest.raises(PinsTooLarge, match="2005 tokens; 2000 are allowed") as refused:
            chat.pin_message(third)
        assert (refused.value.needed, refused.value.allowed) == (2_005, 2_000)
        chat.pin_message(first)
        assert pinned_ids(session) == [first.pk, second.pk]
        chat.unpin_message(second)
        chat.pin_message(third)


class TestErased:
    def test_a_redaction_removes_the_pin_with_the_text(self, session):
        messages = grow(session, None, "u a u a")
        secret = chat.append_message(session, messages[-1], role="user", content="the key is Xylophon")
        for message in (messages[0], messages[1], secret):
            chat.pin_message(message)
        chat.redact_message(messages[0])
        assert pinned_ids(session) == [messages[1].pk, secret.pk]
        chat.redact_text(session, "xylophon")
        assert pinned_ids(session) == [messages[1].pk]
        chat.unpin_message(secret)

    def test_it_is_deleted_with_the_message_and_with_the_session(self, session):
        messages = grow(session, None, "u a u a")
        other = grow(chat.start_session(), None, "u")[0]
        for message in (messages[1], messages[3], other):
            chat.pin_message(message)
        chat.delete_message(messages[2])
        assert pinned_ids(session) == [messages[1].pk]
        chat.delete_session(session)
        assert list(MessagePin.objects.values_list("pk", flat=True)) == [other.pk]


def test_a_reply_keeps_which_pins_were_sent(session):
    messages = grow(session, None, "u a u")
    anchored_summary(messages[1], messages[1])
    async_to_sync(chat.apin_message)(messages[0])
    context = chat.get_context(messages[-1])
    reply = chat.append_message(session, messages[-1], role="assistant", content=words(50), context=context)
    reply.refresh_from_db()
    assert reply.sent_context["pin_ids"] == [messages[0].pk]
    async_to_sync(chat.aunpin_message)(messages[0])
    assert pinned_ids(session) == []
