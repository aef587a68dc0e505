"""What the model will no longer see is said before an erasure, and its reason afterwards."""

from __future__ import annotations

import re

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.testing.builders import grow
from tests.admin.pages import page_of, queries_of, url
from tests.small import small
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def compacted(session, settings, monkeypatch):
    """240 messages of 100 tokens in a window of 8,000, of which one summary leaves out most."""
    settings.COMPACTION = small()
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda *_: True)
    path = grow(session, None, "u a " * 120)
    chat.compact(path[-1])
    return path


def number_said(page: str) -> int:
    found = re.search(
        r"the oldest ([\d,]+) messages without a summary \(about [\d,]+ tokens\) are not sent to the model", page
    )
    assert found, page
    return int(found[1].replace(",", ""))


def test_the_page_before_a_redaction_says_what_the_model_will_not_see(eraser, compacted):
    page = eraser.get(url("chatmessage_redact", compacted[200].pk)).text
    assert f'<a href="{page_of(compacted[-1])}">' in page
    chat.redact_message(compacted[200])
    dropped = chat.get_context(compacted[-1]).dropped
    assert dropped > 150
    assert number_said(page) == pytest.approx(dropped, rel=0.05)


def test_what_stays_summarized_is_not_counted(eraser, compacted, session):
    """An older summary still applies above the message."""
    tip = grow(session, compacted[-1], "u a " * 60)[-1]
    chat.compact(tip)
    page = eraser.get(url("chatmessage_redact", compacted[-1].pk)).text
    chat.redact_message(compacted[-1])
    context = chat.get_context(tip)
    assert context.summary_id is not None
    assert number_said(page) == pytest.approx(context.dropped, rel=0.1)


@pytest.mark.parametrize(("turns", "mode"), [(4, "standard"), (120, "standard"), (120, "off")])
def test_where_all_of_it_is_sent_or_no_summary_goes_nothing_is_said(eraser, session, settings, turns, mode):
    settings.COMPACTION = small(MODE=mode)
    path = grow(session, None, "u a " * turns)
    if turns == 4 or mode == "off":
        summarize(path[5], path[4])
    assert "not sent to the model" not in eraser.get(url("chatmessage_redact", path[1].pk)).text


def test_the_page_before_a_deletion_says_it_of_the_branch_above(eraser, compacted):
    summary = chat.find_summary(compacted[-1])
    page = eraser.get(url("chatmessage_delete", summary.parent_message_id)).text
    assert "The branch that ends at" in page
    assert "A compaction is requested at once" in page
    chat.delete_message(ChatMessage.objects.get(pk=summary.parent_message_id))
    dropped = chat.get_context(ChatMessage.objects.messages().latest("id")).dropped
    assert number_said(page) == pytest.approx(dropped, rel=0.1)


def test_the_page_before_a_retirement_says_it_too_and_at_a_spending_limit_promises_no_compaction(
    eraser, compacted, settings
):
    settings.COMPACTION = small(SPENDING_LIMITS={"session": ["1 runs/d"]})
    summary = chat.find_summary(compacted[-1])
    page = eraser.get(url("chatmessage_retire", summary.pk)).text
    chat.retire_summary(summary)
    assert number_said(page) == pytest.approx(chat.get_context(compacted[-1]).dropped, rel=0.05)
    assert "No compaction starts now" in page
    assert "SPENDING_LIMITS: 1 (runs per day, of this session); used: 1." in page
    assert "requested at once" not in page


def test_the_page_takes_the_same_queries_at_any_length(eraser, settings):
    settings.COMPACTION = small(CONTEXT_WINDOW=3_000, RESERVED_TOKENS=500)
    counts = set()
    for length in (400, 800):
        nodes = chain(start_session(), length)
        summarize(nodes[-3], nodes[-4])
        assert "not sent to the model" in eraser.get(url("chatmessage_redact", nodes[1].pk)).text
        counts.add(len(queries_of(eraser, url("chatmessage_redact", nodes[1].pk))))
    assert len(counts) == 1


@pytest.mark.parametrize("by", ["emptied by a redaction", "retired"])
def test_context_here_says_that_a_summary_was_taken_out_of_use(eraser, compacted, by):
    """It is not a late compaction that leaves the messages out."""
    if "redaction" in by:
        chat.redact_message(compacted[3])
    else:
        chat.retire_summary(chat.find_summary(compacted[-1]))
    page = eraser.get(page_of(compacted[-1])).text
    assert f"A summary of this branch was {by}" in page
    other = grow(compacted[0].session, None, "u a " * 120)
    assert "no summary covers them yet" in eraser.get(page_of(other[-1])).text
