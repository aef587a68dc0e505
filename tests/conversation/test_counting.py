"""What a turn counts is what it sends: overheads, pictures, reasoning and the room for a reply."""

from typing import Any

import pytest

from compaction_app import chat
from compaction_app.conversation.append import append_once
from compaction_app.messages.originals import fields_of
from tests.builders import grow, words

pytestmark = pytest.mark.django_db(transaction=True)


def replied(session: Any, tip: Any, tokens: int, **context: Any) -> Any:
    """A reply whose provider counted so many tokens of its prompt."""
    context = {"context": chat.get_context(tip, **context), "usage": {"prompt_tokens": tokens}}
    return chat.append_message(session, tip, role="assistant", content="x", **context)


class TestCalibration:
    """vellum-ai/vellum-assistant#27111"""

    def test_a_greeting_does_not_make_a_long_message_overflow(self, settings):
        settings.COMPACTION = {"TOKEN_COUNTER": "tests.builders.WordTokenCounter"}
        session = chat.start_session(model="gpt-4o")
        tip = replied(session, chat.append_message(session, role="user", content="Hi"), 35)
        tip = chat.append_message(session, tip, role="user", content=words(87_000))
        context = chat.get_context(tip)
        assert (context.strategy, context.dropped) == ("none", 0)
        assert context.threshold == int((128_000 - 8_192 - 30) * 0.75)

    def test_the_price_of_a_picture_teaches_nothing_about_text(self, small_window):
        session = chat.start_session(model="m")
        picture = {"type": "image", "url": "https://boats.example/1.png"}
        tip = chat.append_message(session, role="user", content=words(3_000), attachments=[picture])
        assert chat.get_context(tip).attachment_tokens == 1_000
        replied(session, tip, 8_000)
        session.refresh_from_db()
        assert session.token_calibration == {}

    def test_an_estimate_of_a_file_does_not_make_a_turn_fail(self, small_window):
        session = chat.start_session()
        scan = {"type": "file", "url": "data:application/pdf;base64," + "JVBER" * 60_000}
        tip = chat.append_message(session, role="user", content="Read it.", attachments=[scan])
        assert tip.token_count == 4 + 2 + 3 * 2_000
        tip = chat.append_message(session, role="user", content="Read both.", attachments=[scan, scan])
        assert tip.token_count > 8_000
        assert len(chat.get_context(tip).to_openai()[-1]["content"]) == 3


@pytest.mark.usefixtures("small_window")
class TestReplyRoom:
    @pytest.mark.parametrize(
        ("params", "reserved"),
        [
            ({}, 2_000),
            ({"max_tokens": 100}, 2_000),
            ({"max_tokens": 4_000}, 4_000),
            ({"max_completion_tokens": 4_000}, 4_000),
            ({"extra_body": {"max_output_tokens": 4_000}}, 4_000),
            ({"max_tokens": 100_000}, 7_500),
            ({"max_tokens": 4_000, "reserved_tokens": 1_000}, 1_000),
        ],
    )
    def test_the_longest_reply_of_a_request_is_reserved(self, client, params, reserved):
        tip = grow(chat.start_session(model="m"), None, "u")[-1]
        with chat.stream(tip, client=client, **params) as stream:
            assert stream.context.reserved_tokens == reserved

    def test_a_turn_that_fits_the_usual_reserve_is_tried(self, session, client):
        tip = grow(session, None, "u(7900)")[-1]
        assert chat.complete(tip, client=client, max_tokens=6_000).pk


class TestReasoning:
    def reasoned(self, session: Any, turns: int) -> Any:
        tip = None
        for _ in range(turns):
            tip = grow(session, tip, "u")[-1]
            tip = chat.append_message(session, tip, role="assistant", content=words(100), reasoning=words(1_004))
        return tip

    def test_reasoning_that_is_sent_back_is_counted_everywhere(self, small_window):
        session = chat.start_session()
        tip = self.reasoned(session, 6)
        plain, whole = chat.get_context(tip), chat.get_context(tip, include_reasoning=True)
        assert (plain.history_tokens, whole.history_tokens) == (1_200, 7_200)
        assert sum("reasoning" in message for message in whole.to_openai()) == 6
        assert not any("reasoning" in message for message in plain.to_openai())
        assert (chat.should_compact(tip), chat.should_compact(tip, include_reasoning=True)) == (False, True)

    def test_what_is_over_the_threshold_by_reasoning_alone_is_not_irreducible(self, small_window):
        session = chat.start_session()
        question = grow(session, None, "u")[-1]
        tip = chat.append_message(session, question, role="assistant", content="Aye.", reasoning=words(6_500))
        assert chat.should_compact(tip, include_reasoning=True)
        assert chat.request_compaction(tip, include_reasoning=True) is None
        assert not session.events.exists()

    def test_reasoning_that_goes_back_with_the_original_is_counted_and_sent_once(self, small_window):
        """It is text in what came: the message's own count has it, at the endpoint that wrote it and at any other."""
        session, endpoint = chat.start_session(model="m"), "https://models.example/v1"
        came = {"role": "assistant", "content": words(100), "reasoning_content": words(900), "extra": "x"}
        fields = fields_of(came, source={"endpoint": endpoint, "model": "m"})
        tip = append_once(session, grow(session, None, "u")[-1], {"role": "assistant", **fields})
        assert tip.token_count == 4 + 96 + 896 + 1
        plain, whole = chat.get_context(tip), chat.get_context(tip, include_reasoning=True)
        assert plain.tokens == whole.tokens == 100 + tip.token_count
        for sent_to, key in ((endpoint, "reasoning_content"), ("https://others.example/v1", "reasoning")):
            reply = whole.to_openai(endpoint=sent_to)[-1]
            assert {name for name, value in reply.items() if value == words(900)} == {key}

    def test_the_compaction_after_a_reply_measures_what_was_sent(self, session, client, small_window):
        tip = grow(session, self.reasoned(session, 7), "u")[-1]
        chat.complete(tip, client=client)
        assert not session.runs.exists()
        chat.complete(tip, client=client, include_reasoning=True, regenerate=True)
        run = session.runs.get()
        assert run.trigger == "threshold"
