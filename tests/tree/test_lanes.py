"""Lanes: what is drawn of a session is read by its forks, and says the same as a walk through its messages."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.exceptions import InvalidParent, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import TipHistory, histories_at, history_at
from compaction_app.tree.lanes import read_lanes, tips_at_or_below
from compaction_app.tree.verify import Finding, verify_session
from compaction_app.values import Kind
from tests.trees import chain, deep_chain, start_session, summarize

pytestmark = pytest.mark.django_db

#: What is done to a tree, one after the other; each number names a message.
Acts = list[tuple[str, int]]
ACTS = st.lists(
    st.tuples(st.sampled_from(["child", "child", "child", "root", "summary", "retire", "delete"]), st.integers(0, 60)),
    max_size=30,
)


def grown(acts: Acts) -> ChatSession:
    session = start_session()
    for act, number in acts:
        messages = list(session.messages.filter(kind=Kind.MESSAGE).order_by("id"))
        if act == "root" or not messages:
            chain(session, 1)
            continue
        chosen = messages[number % len(messages)]
        if act == "child":
            chain(session, 1, chosen)
        elif act == "summary" and not live_at(chosen):
            summarize(chosen, ChatMessage.objects.get_path(chosen)[-2:][0])
        elif act == "retire" and live_at(chosen):
            chat.retire_summary(live_at(chosen)[0])
        elif act == "delete" and number % 4 == 0:
            chat.delete_message(chosen)
    return session


def live_at(anchor: ChatMessage) -> list[ChatMessage]:
    return list(ChatMessage.objects.live().filter(parent=anchor))


def tips_by_walking(session: ChatSession) -> list[int]:
    messages = list(session.messages.filter(kind=Kind.MESSAGE).order_by("id"))
    followed = {message.parent_message_id for message in messages}
    return [message.pk for message in messages if message.pk not in followed]


def history_by_walking(tip: ChatMessage) -> TipHistory:
    """Rule 4: the first live summary on the way up, the newest at one anchor; what counts is it and what follows."""
    path = ChatMessage.objects.get_path(tip)
    for anchor in reversed(path):
        if found := sorted(live_at(anchor), key=lambda summary: summary.pk):
            cutoff = found[-1].last_summarized_message
            tail = [message for message in path if message.depth > cutoff.depth]
            tokens = found[-1].token_count + sum(message.token_count for message in tail)
            return TipHistory(tip_id=tip.pk, tokens=tokens, summary_id=found[-1].pk)
    return TipHistory(tip_id=tip.pk, tokens=sum(message.token_count for message in path), summary_id=None)


#: Forks of forks, a second root, summaries of which one is retired, and a message that is deleted with all below it.
FORKED: Acts = [
    *(("child", number) for number in (0, 0, 1, 2, 1, 4, 0, 6, 3)),
    *(("summary", 5), ("root", 0), ("child", 9), ("retire", 5), ("summary", 3), ("delete", 8)),
]


@pytest.mark.twice
@settings(max_examples=8, deadline=None)
@example(acts=FORKED)
@given(acts=ACTS)
def test_lanes_say_of_every_tree_what_walking_through_it_says(acts: Acts) -> None:
    with transaction.atomic():
        session = grown(acts)
        lanes = read_lanes(session, limit=1000)
        tips = tips_by_walking(session)
        assert sorted(lane.end_id for lane in lanes if lane.is_tip) == tips
        for message in session.messages.filter(kind=Kind.MESSAGE):
            below = [tip for tip in tips if message in ChatMessage.objects.get_path(ChatMessage.objects.get(pk=tip))]
            assert chat.newest_tip(message).pk == max(below)
            assert tips_at_or_below(message.pk, tips, session) == set(below)
        assert [tip.pk for tip in chat.tips(session)] == tips
        rows = [ChatMessage.objects.get(pk=pk) for pk in tips]
        walked = {row.pk: history_by_walking(row) for row in rows}
        assert histories_at(tips, session) == {row.pk: history_at(row) for row in rows} == walked
        assert Finding.LANE not in {wrong.finding for wrong in verify_session(session).problems}
        # Every message stands on one lane, which is a line.
        by_lane: dict[int, list[ChatMessage]] = {}
        for message in session.messages.filter(kind=Kind.MESSAGE).order_by("depth"):
            by_lane.setdefault(message.lane_id or message.pk, []).append(message)
        assert set(by_lane) == {lane.start_id for lane in lanes}
        for lane in lanes:
            assert_line(by_lane[lane.start_id], lane)
        transaction.set_rollback(True)


def assert_line(line: Sequence[ChatMessage], lane: Any) -> None:
    first, last = line[0], line[-1]
    assert (lane.start_id, lane.start_depth, lane.parent_id) == (first.pk, first.depth, first.parent_message_id)
    assert (lane.end_id, lane.end_depth, lane.end_path_tokens) == (last.pk, last.depth, last.path_tokens)
    assert [message.parent_message_id for message in line[1:]] == [message.pk for message in line[:-1]]
    above = first.parent_message_id and ChatMessage.objects.get(pk=first.parent_message_id)
    assert lane.parent_lane_id == (above.lane_id or above.pk if above else None)


def test_the_newest_tip_below_a_message_is_found_by_forks_and_not_by_messages(django_assert_num_queries) -> None:
    session = start_session()
    nodes = deep_chain(session, 500)
    variant = chain(session, 1, nodes[100])[0]
    tip = chain(session, 3, nodes[300])[-1]
    for message, newest in (
        (nodes[0], tip),
        (nodes[200], tip),
        (nodes[400], nodes[-1]),
        (variant, variant),
        (tip, tip),
    ):
        with django_assert_num_queries(2):
            found = chat.newest_tip(message)
            assert (found, found.session.pk) == (newest, session.pk)


def test_a_message_that_is_gone_has_no_newest_tip_even_if_others_took_its_place() -> None:
    root, second = chain(start_session(), 2)
    chat.delete_message(ChatMessage.objects.get(pk=second.pk))
    chain(root.session, 2, root)
    with pytest.raises(MessageNotFound, match=f"Message {second.pk} does not exist any more"):
        chat.newest_tip(second)
    with pytest.raises(InvalidParent):
        chat.newest_tip(summarize(root, root))


def test_lanes_are_paged_from_the_newest_on() -> None:
    session = start_session()
    root = chain(session, 1)[0]
    chain(session, 1, root)
    starts = [chain(session, 1, root)[0].pk for _ in range(5)]
    assert [lane.start_id for lane in read_lanes(session, limit=2)] == [starts[4], starts[3]]
    assert [lane.start_id for lane in read_lanes(session, limit=2, before=starts[3])] == [starts[2], starts[1]]
    assert [lane.start_id for lane in read_lanes(session, limit=9, before=starts[0])] == [root.pk]
    assert read_lanes(start_session()) == (), "another session has no part in it"


def test_drawing_takes_the_same_queries_however_long_the_conversation_is() -> None:
    short, long = chain(start_session(), 3), deep_chain(start_session(), 500)
    for messages in (short, long):
        chain(messages[0].session, 1, messages[1])
        session = messages[0].session
        with CaptureQueriesContext(connection) as queries:
            lanes = read_lanes(session)
            filled = histories_at([lane.end_id for lane in lanes], session)
            chat.tips(session)
        assert len(queries) == 3
        assert sorted(filled) == sorted([messages[-1].pk, lanes[0].end_id])
