"""What the model will no longer see is said before an erasure, and its reason afterwards."""

from __future__ import annotations

import re

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.testing.builders import grow
from tests.admin.pages import ids, page_of, queries_of, table_of, url
from tests.small import anchored_summary, small
from tests.trees import chain, summarize

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
    said = r"its oldest messages without a summary are not sent to the model: ([\d,]+) messages?, about [\d,]+ tokens"
    found = re.search(said, page)
    assert found, page
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("way", ["redact", "delete", "retire"])
def test_the_page_before_an_erasure_says_what_the_model_will_not_see(eraser, compacted, way):
    """Of a deletion it is the branch above."""
    summary = chat.find_summary(compacted[-1])
    about = {"redact": compacted[200], "delete": ChatMessage.objects.get(pk=summary.parent_message_id)}
    message = about.get(way, summary)
    page = eraser.get(url(f"chatmessage_{way}", message.pk)).text
    erase = {"redact": chat.redact_message, "delete": chat.delete_message, "retire": chat.retire_summary}
    erase[way](message)
    tip = ChatMessage.objects.messages().latest("id")
    assert "The branch that ends at" in page
    assert (f'<a href="{page_of(compacted[-1])}">' in page) == (way != "delete")
    dropped = chat.get_context(tip).dropped
    assert dropped > 150
    assert number_said(page) == pytest.approx(dropped, rel=0.1 if way == "delete" else 0.05)
    assert "A compaction is requested at once" in page


@pytest.mark.parametrize("way", ["redact", "retire"])
def test_of_several_branches_the_longest_is_told(eraser, compacted, session, way):
    """Not the newest, which may be short, nor one that another summary covers."""
    summary = chat.find_summary(compacted[-1])
    tip = grow(session, compacted[-1], "u a " * 5)[-1]
    chat.compact(grow(session, compacted[2], "u a " * 130)[-1])
    grow(session, ChatMessage.objects.get(pk=summary.parent_message_id), "u a")
    about = {"redact": compacted[200], "retire": summary}
    page = eraser.get(url(f"chatmessage_{way}", about[way].pk)).text
    assert "the longest of the branches that lose a summary" in page
    said = page.partition("The branch that ends at")[2].partition("</strong>")[0]
    assert page_of(tip) in said


@pytest.mark.parametrize("way", ["redact", "retire"])
@pytest.mark.parametrize("before", [None, "summary", "too large"])
def test_it_is_said_before_and_after_which_summary_the_model_reads_then(eraser, session, settings, way, before):
    settings.COMPACTION = small()
    path = grow(session, None, "u a " * 20)
    older = summarize(path[5], path[3], token_count=7_950 if before == "too large" else 30) if before else None
    summary = summarize(path[21], path[19], token_count=30)
    about = {"redact": path[20], "retire": summary}[way]
    given = {"redact": {"replacement": "x"}, "retire": {"reason": "poor"}}[way]
    said = [eraser.get(url(f"chatmessage_{way}", about.pk)).text]
    assert ChatMessage.objects.filter(retired_at__isnull=False).count() == 0
    said += [eraser.post(url(f"chatmessage_{way}", about.pk), given, follow=True).text]
    context = chat.get_context(path[-1])
    assert context.summary_id == (older.pk if before == "summary" else None)
    for page in said[: 1 if way == "redact" else 2]:
        assert ("the model reads the messages themselves" in page) == (context.summary_id is None)
        assert (
            f"{url('chatmessage_change', older.pk)}" in page.partition("the model reads")[2][:200] if older else 0
        ) == (before == "summary")


def test_what_does_not_fit_by_less_than_a_message_is_told_too(eraser, session, settings):
    settings.COMPACTION = small()
    tip = grow(session, None, "u a " * 20)[-1]
    summary = summarize(*reversed(list(session.messages.order_by("id")[4:6])))
    left = chat.get_context(tip).available_tokens - tip.path_tokens
    chat.append_message(session, tip, role="user", content="x " * (left + 5))
    said = number_said(eraser.get(url("chatmessage_retire", summary.pk)).text)
    chat.retire_summary(summary)
    assert said == chat.get_context(ChatMessage.objects.latest("id")).dropped > 0


def test_at_a_spending_limit_the_page_promises_no_compaction(eraser, compacted, settings):
    settings.COMPACTION = small(SPENDING_LIMITS={"session": ["1 runs/d"]})
    page = eraser.get(url("chatmessage_retire", chat.find_summary(compacted[-1]).pk)).text
    assert "No compaction starts now" in page
    assert "SPENDING_LIMITS: 1 (runs per day, of this session); used: 1." in page
    assert "requested at once" not in page


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


@pytest.fixture
def borrowed(session, settings, monkeypatch):
    """A branch with a summary, and three forks of it: between cutoff and anchor, below the anchor, and a short one."""
    settings.COMPACTION = small()
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda *_: True)
    path = grow(session, None, "u a " * 100)
    summary = anchored_summary(path[155], path[149], extract="user: never sand the mast")
    forks = [grow(session, path[at], "u")[0] for at in (152, 170, 2)]
    return path, summary, forks


BORROWED = "Branches that are shown an extract of theirs"


def test_before_a_summary_goes_the_branches_that_borrow_its_extract_are_named(eraser, borrowed):
    path, summary, (fork, *others) = borrowed
    assert chat.get_context(fork).strategy == "shared_extract"
    for address in (
        url("chatmessage_retire", summary.pk),
        url("chatmessage_redact", path[100].pk),
        url("chatmessage_delete", path[153].pk),
    ):
        page = eraser.get(address).text
        assert BORROWED in page
        said = page.partition(BORROWED)[2].partition("</ul>")[0]
        assert page_of(fork) in said
        assert not any(page_of(other) in said for other in (*others, path[-1]))
    # With the fork itself nothing is lost.
    assert BORROWED not in eraser.get(url("chatmessage_delete", path[152].pk)).text


def test_many_forks_cost_the_page_no_more_queries(eraser, session, settings):
    settings.COMPACTION = small(CONTEXT_WINDOW=2_100)
    path = chain(session, 20)
    summary = anchored_summary(path[15], path[10], extract="user: never sand the mast")
    queries = []
    for more in (1, 55):
        for _ in range(more):
            chat.append_message(session, path[12], role="user", content="x " * 1_700)
        queries.append(len(queries_of(eraser, url("chatmessage_retire", summary.pk))))
    page = eraser.get(url("chatmessage_retire", summary.pk)).text
    assert page.partition(BORROWED)[2].partition("</ul>")[0].count("<a ") == 50
    assert queries[0] == queries[1]


def test_the_page_of_a_message_says_that_an_extract_is_shown_now_and_was_then(eraser, borrowed, session):
    path, summary, (fork, *_) = borrowed
    context = chat.get_context(fork)
    reply = chat.append_message(session, fork, role="assistant", content="aye", context=context)
    for shown in (table_of(eraser, fork), table_of(eraser, reply)):
        first = shown.rows[0]
        assert (first.origin, first.tokens, ids(first)) == ("shared_extract", context.messages[0].tokens, (summary.pk,))
        assert "never sand the mast" in first.whole
        assert first.notes == [f"Summarizes everything up to message {path[149].pk} (#150)"]
        assert shown.figures["Strategy"] == "The extract of another branch's summary is used"
    link = f'<td class="compaction-original"><a href="{page_of(summary)}">Summary {summary.pk}</a></td>'
    assert link in eraser.get(page_of(fork)).text
    chat.retire_summary(summary)
    assert f"Summary {summary.pk} was in use then, and has been retired since." in table_of(eraser, reply).notes
