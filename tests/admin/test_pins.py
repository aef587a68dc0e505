"""Where the admin's pages say that a message is pinned."""

import pytest

from compaction_app import chat
from tests.admin.pages import page_of, url
from tests.builders import grow, words
from tests.small import anchored_summary, small
from tests.trees import start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]


def test_table_and_transcript_tell_the_pin_from_the_request_of_the_turn(viewer):
    nodes = grow(start_session(), None, "u a u" + " a" * 7)
    anchored_summary(nodes[7], nodes[7], pinned=nodes[2])
    for at in (4, 9):
        chat.pin_message(nodes[at])
    table = viewer.get(page_of(nodes[9])).context["table"]
    origins = [row["origin_words"] for row in table["rows"]]
    assert origins == ["Summary", "Pinned", "The turn's request", "Verbatim", "Verbatim"]
    lines = viewer.get(url("chatmessage_transcript", nodes[9].pk)).context["transcript"]["lines"]
    assert [line.mark for line in lines][2:6] == ["pinned", "summarized", "pin", "summarized"]
    # What was sent for a reply, with the pins that it had.
    context = chat.get_context(nodes[9])
    reply = chat.append_message(nodes[9].session, nodes[9], role="assistant", content=words(50), context=context)
    chat.unpin_message(nodes[4])
    then = viewer.get(page_of(reply)).context["table"]
    assert [row["origin_words"] for row in then["rows"]] == origins


def test_what_was_left_out_is_told_without_the_pins_that_are_sent(viewer, settings):
    settings.COMPACTION = small(CONTEXT_WINDOW=4_000)
    nodes = grow(start_session(), None, "u a " * 40)
    chat.pin_message(nodes[4])
    table = viewer.get(page_of(nodes[-1])).context["table"]
    context = table["context"]
    assert context.pin_ids == (nodes[4].pk,)
    [left_out] = [row for row in table["rows"] if row["origin"] == "dropped"]
    assert left_out["notes"] == [f"{context.dropped} messages"]
