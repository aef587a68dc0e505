"""What the model will no longer see is said before an erasure, and its reason afterwards."""

import re

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from tests.admin.pages import ids, page_of, queries_of, table_of, url
from tests.builders import grow
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


def before(client, way, record):
    """The page before a record is erased in this way, and what it says that the model will not see."""
    page = client.get(url(f"chatmessage_{way}", record.pk))
    unseen = page.context.get("unseen", {})
    if unseen:
        assert f'<a href="{page_of(unseen["tip"])}">' in page.text
        assert f"{unseen['dropped']:,} message" in page.text
    assert ("not sent to the model" in page.text) == bool(unseen)
    return page, unseen


@pytest.mark.parametrize("way", ["redact", "delete", "retire"])
def test_the_page_before_an_erasure_says_what_the_model_will_not_see(eraser, compacted, way):
    """Of a deletion it is the branch above."""
    summary = chat.find_summary(compacted[-1])
    about = {"redact": compacted[200], "delete": ChatMessage.objects.get(pk=summary.parent_message_id)}
    message = about.get(way, summary)
    _, unseen = before(eraser, way, message)
    {"redact": chat.redact_message, "delete": chat.delete_message, "retire": chat.retire_summary}[way](message)
    dropped = chat.get_context(ChatMessage.objects.messages().latest("id")).dropped
    assert dropped > 150
    assert unseen["dropped"] == pytest.approx(dropped, rel=0.1 if way == "delete" else 0.05)
    assert (unseen["tip"] == compacted[-1], unseen["limit"]) == (way != "delete", "")


@pytest.mark.parametrize("way", ["redact", "retire"])
def test_of_several_branches_the_longest_is_told(eraser, compacted, session, way):
    """Not the newest, which may be short, nor one that another summary covers."""
    summary = chat.find_summary(compacted[-1])
    tip = grow(session, compacted[-1], "u a " * 5)[-1]
    chat.compact(grow(session, compacted[2], "u a " * 130)[-1])
    grow(session, ChatMessage.objects.get(pk=summary.parent_message_id), "u a")
    page, unseen = before(eraser, way, {"redact": compacted[200], "retire": summary}[way])
    assert (unseen["tip"], page.context["is_longest"]) == (tip, True)


@pytest.mark.few
@pytest.mark.parametrize("way", ["redact", "retire"])
@pytest.mark.parametrize("above", [None, "summary", "too large"])
def test_it_is_said_before_and_after_which_summary_the_model_reads_then(eraser, session, settings, way, above):
    settings.COMPACTION = small()
    path = grow(session, None, "u a " * 20)
    older = summarize(path[5], path[3], token_count=7_950 if above == "too large" else 30) if above else None
    summary = summarize(path[21], path[19], token_count=30)
    about = {"redact": path[20], "retire": summary}[way]
    given = {"redact": {"replacement": "x"}, "retire": {"reason": "poor"}}[way]
    said = [eraser.get(url(f"chatmessage_{way}", about.pk)).text]
    assert ChatMessage.objects.filter(retired_at__isnull=False).count() == 0
    said += [eraser.post(url(f"chatmessage_{way}", about.pk), given, follow=True).text]
    context = chat.get_context(path[-1])
    assert context.summary_id == (older.pk if above == "summary" else None)
    for page in said[: 1 if way == "redact" else 2]:
        read = re.search(r"the model reads (?:the messages themselves|<a href=\"([^\"]*)\")", page)
        assert read[1] == (page_of(older) if above == "summary" else None)


def test_what_does_not_fit_by_less_than_a_message_is_told_too(eraser, session, settings):
    settings.COMPACTION = small()
    tip = grow(session, None, "u a " * 20)[-1]
    summary = summarize(*reversed(list(session.messages.order_by("id")[4:6])))
    left = chat.get_context(tip).available_tokens - tip.path_tokens
    chat.append_message(session, tip, role="user", content="x " * (left + 5))
    _, unseen = before(eraser, "retire", summary)
    chat.retire_summary(summary)
    assert unseen["dropped"] == chat.get_context(ChatMessage.objects.latest("id")).dropped > 0


def test_at_a_spending_limit_the_page_promises_no_compaction(eraser, compacted, settings):
    settings.COMPACTION = small(SPENDING_LIMITS={"session": ["1 runs/d"]})
    page, unseen = before(eraser, "retire", chat.find_summary(compacted[-1]))
    assert unseen["limit"] in page.text
    assert "SPENDING_LIMITS: 1 (runs per day, of this session); used: 1." in unseen["limit"]
    assert "requested at once" not in page.text


def test_what_stays_summarized_is_not_counted(eraser, compacted, session):
    """An older summary still applies above the message."""
    tip = grow(session, compacted[-1], "u a " * 60)[-1]
    chat.compact(tip)
    _, unseen = before(eraser, "redact", compacted[-1])
    chat.redact_message(compacted[-1])
    context = chat.get_context(tip)
    assert context.summary_id is not None
    assert unseen["dropped"] == pytest.approx(context.dropped, rel=0.1)


@pytest.mark.parametrize(("turns", "mode"), [(4, "standard"), (120, "standard"), (120, "off")])
def test_where_all_of_it_is_sent_or_no_summary_goes_nothing_is_said(eraser, session, settings, turns, mode):
    settings.COMPACTION = small(MODE=mode)
    path = grow(session, None, "u a " * turns)
    if turns == 4 or mode == "off":
        summarize(path[5], path[4])
    assert not before(eraser, "redact", path[1])[1]


@pytest.fixture
def borrowed(session, settings, monkeypatch):
    """A branch with a summary, and three forks of it: between cutoff and anchor, below the anchor, and a short one."""
    settings.COMPACTION = small()
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda *_: True)
    path = grow(session, None, "u a " * 100)
    summary = anchored_summary(path[155], path[149], extract="user: never sand the mast")
    forks = [grow(session, path[at], "u")[0] for at in (152, 170, 2)]
    return path, summary, forks


def test_many_forks_cost_the_page_no_more_queries(eraser, session, settings):
    settings.COMPACTION = small(CONTEXT_WINDOW=2_100)
    path = chain(session, 20)
    summary = anchored_summary(path[15], path[10], extract="user: never sand the mast")
    queries = []
    for more in (1, 55):
        for _ in range(more):
            chat.append_message(session, path[12], role="user", content="x " * 1_700)
        queries.append(len(queries_of(eraser, url("chatmessage_retire", summary.pk))))
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
        assert shown.sent["strategy"] == "shared_extract"
    link = f'<td class="compaction-original"><a href="{page_of(summary)}">Summary {summary.pk}</a></td>'
    assert link in eraser.get(page_of(fork)).text
    chat.retire_summary(summary)
    assert f"Summary {summary.pk} was in use then, and has been retired since." in table_of(eraser, reply).notes
