"""The transcript of a branch: its messages, how each is marked, where it was summarized, what a search finds."""

import pytest

from compaction_app import chat
from tests.admin.pages import page_of, url
from tests.admin.records import conversation, summarized
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def page(client, tip, **query):
    return client.get(url("chatmessage_transcript", tip.pk, **query))


def marks(response):
    """Depth → mark of each message on the page."""
    return {line.depth: line.mark for line in response.context["transcript"]["lines"]}


def test_messages_are_in_order_with_what_the_model_sees_of_them(viewer):
    _, full = conversation(turns=20, size=80)
    found = marks(page(viewer, full))
    assert (found[1], found[40]) == ("dropped", "verbatim")
    _, tip = conversation()
    assert chat.compact(tip).status == "succeeded"
    context = chat.get_context(tip)
    shown = page(viewer, tip)
    origins = {message.message_id: message.origin for message in context.messages}
    found = marks(shown)
    assert list(found) == list(range(1, 25))
    branch = chat.get_branch(tip)
    cutoff = next(message.depth for message in branch if message.pk == context.cutoff_id)
    assert found == {
        message.depth: origins.get(message.pk, "summarized" if message.depth <= cutoff else "dropped")
        for message in branch
    }
    assert {"summarized", "verbatim"} <= set(found.values())
    assert shown.text.count('class="compaction-cutoff"') == 1
    assert f"Messages #1 to #{cutoff} are summarized here: <a" in shown.text


def test_a_page_has_fifty_messages_and_leads_to_the_others(viewer):
    nodes = chain(start_session(), 120)
    for end, first, links in ((None, 71, ("end=70", "end=50")), (70, 21, ("end=20", "end=120")), (20, 1, ("end=70",))):
        shown = page(viewer, nodes[-1], **({"end": end} if end else {}))
        assert list(marks(shown)) == list(range(first, (end or 120) + 1))
        assert all(f'<a href="?{link}"' in shown.text for link in links)


def test_it_follows_the_branch_through_its_forks(viewer):
    nodes = chain(start_session(), 80)
    fork = chain(nodes[0].session, 30, parent=nodes[39])
    shown = page(viewer, fork[-1], end=60).context["transcript"]["lines"]
    assert [line.pk for line in shown] == [one.pk for one in [*nodes[10:40], *fork[:20]]]


def test_a_summary_and_a_message_that_is_gone_have_none(viewer):
    _, summary = summarized()
    assert page(viewer, summary).status_code == 404
    assert viewer.get(url("chatmessage_transcript", 10**9)).status_code in (302, 404)


def test_where_messages_follow_its_page_and_its_transcript_lead_to_the_newest_branch_and_say_what_is_sent_there(viewer):
    """There an old message may be summarized; on a branch that ended at it, it would be sent in full."""
    nodes, summary = summarized()
    chain(nodes[0].session, 1, parent=nodes[0])
    fork = chain(nodes[0].session, 2, parent=nodes[4])
    instead = f'the model sees <a href="{page_of(summary)}">Summary {summary.pk}</a> instead.'
    for node, is_summarized in ((nodes[1], True), (nodes[3], False)):
        there = f"{url('chatmessage_transcript', fork[-1].pk, end=7)}#m{node.pk}"
        for text in (page(viewer, node).text, viewer.get(page_of(node)).text):
            assert f'<a href="{there}">' in text
            assert (instead in text) == is_summarized
        assert f'id="m{node.pk}"' in viewer.get(there).text
    tip = page(viewer, fork[-1])
    assert (tip.context["transcript"]["goes_on"], viewer.get(page_of(fork[-1])).context["goes_on"]) == ({}, {})
    assert "The end of the branch" in tip.text


def test_a_pinned_message_is_not_said_to_be_summarized(viewer):
    nodes = chain(start_session(), 4)
    summarize(nodes[2], nodes[1], pinned_message=nodes[0])
    found = viewer.get(page_of(nodes[0])).context["goes_on"]
    assert (found["tip"], found["summary_id"]) == (nodes[-1].pk, None)
