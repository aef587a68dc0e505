"""What survives the extractive summarizer: plants of four conversations, and everything that a summary held once."""

from __future__ import annotations

import pytest

from compaction_app.retention.extractive import summarize_extractively
from compaction_app.tokens import ExactTokenCounter
from tests.retention.survival import (
    Conversation,
    assert_survived,
    demo,
    generations_of,
    told_and_searched,
    written_blind,
)

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = ExactTokenCounter()
GENERATIONS = 5
#: At a window of 4,000 a summary is to have 431 tokens; the plants of five generations alone, without a word
#: between them, take more. Their ledger gets the room that a compaction leaves empty anyway.
LEDGER_TOKENS = 1200


def compacted(settings, told: Conversation, **changes):
    """A conversation, turn by turn until five summaries were made; what a search finds, and the context."""
    settings.COMPACTION = {
        "MODE": "deterministic",
        "CONTEXT_WINDOW": 4000,
        "LEDGER_TOKENS": LEDGER_TOKENS,
        **changes,
    }
    return told_and_searched(told, GENERATIONS)


def test_what_still_holds_is_found_by_a_plain_search_five_compactions_deep(settings):
    session, found, context = compacted(settings, demo())
    assert_survived(found, context, least=0.95, plants=50)
    assert [run.generation for run in generations_of(session)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("name", "least"), [("clinic", 0.82), ("pipeline", 0.96), ("thesis", 0.9)])
def test_in_conversations_that_were_written_blind(settings, name, least):
    """What is to be expected of a conversation that nobody has looked at: docs/retention.md has the figures."""
    _, found, context = compacted(settings, written_blind(name))
    assert_survived(found, context, least=least, plants=25)


def test_the_summary_alone_keeps_what_its_target_has_room_for(settings):
    """Without a ledger 22 of 75 live plants are found, since sentences are told whole or not at all; a summary of bare
    plants would hold fewer than 60."""
    session, found, context = compacted(settings, demo(), LEDGER_TOKENS=0)
    assert found.share >= 0.28, [plant.text for plant in found.missing]
    for run in generations_of(session):
        assert COUNT([run.summary.content])[0] <= 431
    assert context.history_tokens <= context.available_tokens


def test_a_summary_that_is_summarized_again_loses_nothing(settings):
    """Twenty times over, with nothing new: the text is all that is known, and all of it is kept."""
    session, _, _ = compacted(settings, demo(), LEDGER_TOKENS=0)
    text = list(generations_of(session))[-1].summary.content
    again = text
    for _ in range(20):
        again = summarize_extractively(
            covered=[], previous_summary=again, target_tokens=COUNT([text])[0] + 1, count=COUNT
        )
    kept = [plant.text for plant in demo().plants if plant.text.lower() in text.lower()]
    assert len(kept) >= 20
    assert [plant for plant in kept if plant.lower() not in again.lower()] == []
