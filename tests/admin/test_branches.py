"""The branches on a session's page: indented as they fork, in words and links, page by page."""

import html
import re
from datetime import timedelta

import pytest

from compaction_app import chat
from compaction_app.admin import branches
from compaction_app.admin.display import link
from compaction_app.models import ChatMessage, CompactionEvent
from compaction_app.values import Suppression
from tests.admin.pages import ARABIC, MARKUP, branches_of, page_of, queries_of, url
from tests.admin.records import forked, words
from tests.trees import chain, star, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def message_link(node, label="Message"):
    return link(url("chatmessage_change", node.pk), f"{label} {node.pk} (#{node.depth:,})")


def reasons_of(client, session):
    """Of each branch over its threshold the event that says why it was not compacted, shorter branches first."""
    found = sorted(branches_of(client, session), key=lambda one: one.messages)
    return [one.reason["event"] for one in found if one.reason]


def noted(message, kind, **payload):
    return CompactionEvent.objects.create(session=message.session, message=message, kind=kind, payload=payload)


@pytest.fixture
def over():
    """A message that alone is over the threshold."""
    return chat.append_message(start_session(), role="user", content=words(1000, "harbour"))


def test_a_fork_is_below_the_branch_that_it_leaves_and_says_where(viewer):
    session = start_session()
    main = chain(session, 6)
    side = chain(session, 2, main[3])
    inner = chain(session, 1, side[0])
    other = chain(session, 1)
    found = branches_of(viewer, session)
    assert [(one.lane.start_id, one.level, one.messages) for one in found] == [
        (other[0].pk, 0, 1),
        (main[0].pk, 0, 6),
        (side[0].pk, 1, 2),
        (inner[0].pk, 2, 1),
    ]
    page = viewer.get(page_of(session)).text
    places = ["the start", "the start", message_link(main[3]), message_link(side[0])]
    assert re.findall("<dt>Forks from</dt><dd>(.*?)</dd>", page) == places
    assert [one.is_newest for one in found] == [True, False, False, False]


def test_a_branch_is_known_by_how_its_own_first_message_begins(viewer):
    session = start_session()
    chat.append_message(session, role="user", content=f"\n  {MARKUP} " + "word " * 100_000)
    chat.append_message(session, role="user", content=ARABIC)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    bare = chat.append_message(session, role="assistant", tool_calls=[call])
    page = viewer.get(page_of(session)).text
    texts = [html.unescape(text) for text in re.findall(r'<bdi class="compaction-branch-text">(.*?)</bdi>', page)]
    assert texts[0] == f"Message {bare.pk} (#1)"
    assert texts[1] == ARABIC
    assert texts[2].startswith(MARKUP[:20])
    assert len(texts[2]) == branches.TEXT
    assert "<script>alert" not in page


def test_without_the_permission_to_read_messages_no_text_is_read(login):
    session, main, *_ = forked()
    client = login("view_chatsession", "compact_chatsession")
    assert branches_of(client, session)[0].text == f"Message {main[0].pk} (#1)"
    assert not any('"content"' in sql for sql in queries_of(client, page_of(session)))
    page = client.get(page_of(session)).text
    assert "Transcript" not in page
    assert "/chatmessage/" not in page


def test_the_summary_of_a_branch_is_shaded_with_its_cutoff_and_anchor(viewer):
    session, _, _, live, _gone = forked()
    first, second = branches_of(viewer, session)
    assert (first.summary.pk, second.summary) == (live.pk, None)
    assert "Messages from the root: Messages summarized 3; after them 3; cutoff 3; anchor 5" in first.bar


def test_a_branch_over_its_threshold_says_why_it_was_not_compacted(viewer, login, over):
    for kind, payload in (("failed", {"code": "timeout"}), ("started", {}), ("suppressed", {"reason": "cooldown"})):
        event = noted(over, kind, **payload)
        assert reasons_of(viewer, over.session) == [event]
    below = chat.append_message(start_session(), role="user", content="hi")
    noted(below, "suppressed")
    assert reasons_of(viewer, below.session) == []
    # To those who may not see events no reason is shown.
    page = login("view_chatsession", "view_chatmessage").get(page_of(over.session)).text
    assert ("Over threshold" in page, "Why it was not" in page) == (True, False)


def test_the_reason_may_stand_above_the_tip_since_the_summary_and_on_this_branch(viewer):
    session = start_session()
    main = chain(session, 2)
    summary = summarize(main[1], main[0])
    tip = chat.append_message(session, main[1], role="user", content=words(1000, "harbour"))
    assert reasons_of(viewer, session) == [None]
    event = noted(tip, "failed", code="timeout")
    chain(session, 2, tip)
    for days, found in ((0, event), (1, None), (-1, event)):
        ChatMessage.objects.filter(pk=summary.pk).update(created_at=event.created_at + timedelta(days))
        assert reasons_of(viewer, session) == [found]
    aside = noted(chain(session, 1, tip)[0], "suppressed", reason="policy")
    assert reasons_of(viewer, session) == [aside, event]


def test_what_held_a_compaction_back_is_a_sentence(viewer, over):
    runs = url("compactionrun_changelist", session=over.session_id, status__exact="failed").replace("&", "&amp;")
    for reason in Suppression:
        event = noted(over, "suppressed", reason=reason)
        page = viewer.get(page_of(over.session)).text
        sentence = page.split(f'compacted</dt><dd><a href="{page_of(event)}">')[1].split("</dd>")[0]
        assert re.match(r"[A-Z][A-Za-z_; ]+( \(COOLDOWN_SECONDS\))?\.</a> · <time", sentence), reason
        assert (f'<a href="{runs}">' in sentence) == (reason == "breaker")


def test_the_newest_branches_are_shown_and_the_older_follow_page_by_page(viewer):
    """Each on one page."""
    star(session := start_session(), 150)
    shown, address, pages = set(), page_of(session), 0
    while address:
        response = viewer.get(address)
        here = {branch["lane"].start_id for branch in response.context["branches"]}
        assert not shown & here
        shown |= here
        pages += 1
        assert ("Newest branches" in response.text) == (pages > 1)
        assert "Branches, newest first</h2>" in response.text
        address = response.context["older_url"]
    assert pages == 3
    assert len(shown) == 150
