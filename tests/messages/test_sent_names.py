"""A name is stored as people are called, and sent as providers take it: no blanks, none of ``<|/>``, and short."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.messages.openai_format import sent_name
from compaction_app.tokens import ExactTokenCounter, count_messages

TAKEN = re.compile(r"[^\s<|\\/>]{1,64}")


@pytest.mark.pure
@given(name=st.text(min_size=1, max_size=255))
def test_every_name_is_sent_so_that_it_is_taken(name):
    sent = sent_name(name)
    assert TAKEN.fullmatch(sent)
    assert sent_name(sent) == sent


@pytest.mark.pure
@given(name=st.text(max_size=255))
def test_it_is_counted_as_it_is_sent(name):
    count = ExactTokenCounter()
    message = {"role": "user", "content": "When?"}
    expected = sum(count(["When?", *([sent_name(name)] if name else [])])) + 4
    assert count_messages([{**message, "name": name}], count) == [expected]


@pytest.mark.django_db
def test_the_branch_keeps_what_was_said_and_the_model_is_sent_what_it_takes():
    session = chat.start_session()
    tip = chat.append_message(session, role="user", content="When?", name="a b< c")
    tip.refresh_from_db()
    assert tip.name == "a b< c"
    context = chat.get_context(tip)
    assert context.messages[0].name == "a b< c"
    assert context.to_openai() == [{"role": "user", "content": "When?", "name": "a_b_c"}]
    assert context.tokens == tip.token_count == sum(ExactTokenCounter()(["When?", "a_b_c"])) + 4
