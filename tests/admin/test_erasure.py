"""Compacting, redacting, retiring and deleting from the admin: who may, what it says first, what it leaves behind."""

import json
import re
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.messages import get_messages
from django.utils import timezone
from django.utils.html import escape

from compaction_app import chat
from compaction_app.models import ChatMessage, CompactionRun
from tests.admin.pages import MARKUP, VIEW, log_in, page_of, queries_of, told, url
from tests.admin.records import run_for, summarized, talk
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db

SECRET = "the secret of the harbour"


@pytest.fixture
def eraser(client):
    return log_in(client, *VIEW, "redact_chatmessage", "delete_chatmessage", "retire_summary", "compact_chatsession")


@pytest.fixture
def hung():
    """A message on which hang: two live summaries, one retired, an ended run for each live one, a run at work."""
    nodes, first = summarized(8)
    second = summarize(nodes[5], nodes[4], content=SECRET, token_count=5)
    summarize(nodes[6], nodes[4], content=SECRET, token_count=5, retired_at=timezone.now(), retired_reason=SECRET)
    run_for(second, nodes[-1], 2, base=first, instructions=SECRET)
    CompactionRun.objects.create(
        session=nodes[0].session, tip=nodes[-1], anchor=nodes[-1], trigger="manual", status="ready"
    )
    return nodes, first, second


# -- redacting ----------------------------------------------------------------------------------------------


def test_redacting_says_first_what_goes_along(eraser, hung):
    nodes, first, second = hung
    page = eraser.get(url("chatmessage_redact", nodes[1].pk)).text
    for line in (
        "Live summaries that are retired and emptied: 2",
        "Retired summaries that are emptied: 1",
        "Runs that lose their instructions and error details: 2",
        "Open runs that read the branch again: 1",
    ):
        assert line in page
    for summary in (first, second):
        assert f'<a href="{page_of(summary)}">{summary}</a>' in page
    assert SECRET not in page
    assert ChatMessage.objects.get(pk=nodes[1].pk).redacted_at is None


def test_what_is_said_is_what_happens(eraser, hung):
    nodes, *_ = hung
    response = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": "[on request]"})
    [run] = CompactionRun.objects.open()
    assert told(response) == (
        f"Redacted: {nodes[1]}. Only these messages are erased. Replies, edits and other branches may repeat them: "
        f"search this session. Open runs: Run {run.pk} (waiting)."
    )
    assert response.headers["Location"] == page_of(nodes[1])
    row = ChatMessage.objects.get(pk=nodes[1].pk)
    assert (row.content, row.redacted_at is None) == ("[on request]", False)
    summaries = ChatMessage.objects.filter(kind="summary")
    assert set(summaries.values_list("content", flat=True)) == {""}
    assert not summaries.filter(retired_at__isnull=True).exists()
    assert not CompactionRun.objects.exclude(instructions="").exists()


def test_a_message_below_every_anchor_takes_no_summary_along(eraser, hung):
    nodes, *_ = hung
    assert "Live summaries" not in eraser.get(url("chatmessage_redact", nodes[-1].pk)).text
    eraser.post(url("chatmessage_redact", nodes[-1].pk), {"replacement": "x"})
    assert ChatMessage.objects.live().count() == 2


def test_no_word_of_a_conversation_reaches_the_admins_log(eraser):
    """It outlives an erasure, and no erasure empties it."""
    session = start_session(title=SECRET)
    nodes = talk(session, [f"{SECRET} {n}" for n in range(6)])
    summary = summarize(nodes[2], nodes[1], content=SECRET)
    eraser.post(url("chatmessage_compact", nodes[-1].pk), {"instructions": SECRET})
    eraser.post(url("chatmessage_retire", summary.pk), {"reason": SECRET})
    eraser.post(url("chatmessage_redact", nodes[0].pk), {"replacement": SECRET})
    eraser.post(url("chatmessage_delete", nodes[3].pk), {"post": "yes"})
    entries = list(LogEntry.objects.values_list("object_repr", "change_message"))
    assert len(entries) >= 3
    assert SECRET not in json.dumps(entries)


def test_that_copies_stay_is_said_with_a_way_to_find_them(eraser, hung):
    """The address has no text of the message: a browser would keep it."""
    nodes, *_ = hung
    search = f'<a href="{url("chatmessage_changelist", session=nodes[0].session_id)}">search this session</a>'
    page = eraser.get(url("chatmessage_redact", nodes[1].pk)).text
    assert (
        "Only the messages named here are erased.</strong> Replies, edits and other branches may repeat them: " + search
        in page
    )
    response = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": "x"})
    assert search in str(next(iter(get_messages(response.wsgi_request))))


def test_a_title_is_said_to_be_cleared_where_it_is(eraser):
    session = start_session(title="Where does the  Anna lie…")
    first = talk(session, ["Where does the Anna lie today?", "At berth 7."])
    assert "the beginning of what goes, it is cleared too." in eraser.get(url("chatmessage_redact", first[0].pk)).text
    other = talk(session, ["Where does the Anna lie tomorrow?"])
    both = url("chatmessage_redact_selected", session=session.pk, ids=f"{first[0].pk},{other[0].pk}")
    eraser.post(both, {"replacement": "x"})
    session.refresh_from_db()
    assert session.title == ""


# -- redacting several ----------------------------------------------------------------------------------------


def select(client, rows, **query):
    chosen = {"action": "redact_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(url("chatmessage_changelist", **query), chosen)


def test_selected_messages_of_a_session_are_redacted_after_one_page(eraser, hung):
    nodes, *_ = hung
    session = nodes[0].session_id
    page = select(eraser, (nodes[1], nodes[3]), session=session).headers["Location"]
    text = eraser.get(page).text
    for node in (nodes[1], nodes[3]):
        assert f'<a href="{page_of(node)}">{node}</a>' in text
    assert text.count(f'<span dir="auto">{nodes[1].content[:20]}') == 1
    for line in ("Only the messages named here are erased.", "retired and emptied: 2", "error details: 2"):
        assert line in text
    assert not ChatMessage.objects.filter(redacted_at__isnull=False).exists()
    response = eraser.post(page, {"replacement": "[on request]"})
    assert told(response).startswith(f"Redacted: {nodes[1]}, {nodes[3]}. Only these messages are erased.")
    assert response.headers["Location"] == url("chatmessage_changelist", session=session)
    redacted = ChatMessage.objects.messages().filter(redacted_at__isnull=False)
    assert {row.pk: row.content for row in redacted} == dict.fromkeys((nodes[1].pk, nodes[3].pk), "[on request]")
    assert LogEntry.objects.count() == 2


def test_more_than_a_hundred_at_once_are_refused(eraser):
    nodes = chain(start_session(), 101)
    assert "at most 100" in told(select(eraser, nodes, session=nodes[0].session_id))


def test_what_could_not_be_redacted_is_named(eraser, hung, monkeypatch):
    nodes, *_ = hung
    redact = chat.redact_message

    def late(message, **kwargs):
        if message.pk == nodes[3].pk:
            chat.delete_message(ChatMessage.objects.get(pk=message.pk))
        return redact(message, **kwargs)

    monkeypatch.setattr(chat, "redact_message", late)
    page = select(eraser, (nodes[1], nodes[3]), session=nodes[0].session_id).headers["Location"]
    response = eraser.post(page, {"replacement": "x"})
    assert f"{nodes[3]} has been deleted in the meantime." in told(response)
    assert f"Redacted: {nodes[1]}." in told(response)


def test_several_are_redacted_within_one_session_by_those_who_may(client, eraser, hung):
    nodes, first, _ = hung
    (stranger,) = chain(start_session(), 1)
    session = nodes[0].session_id
    ids = f"{nodes[1].pk},{stranger.pk},{first.pk},no-id"
    page = url("chatmessage_redact_selected", session=session, ids=ids)
    eraser.post(page, {"replacement": "x"})
    redacted = ChatMessage.objects.messages().filter(redacted_at__isnull=False)
    assert list(redacted) == [nodes[1]], "neither one of another session nor a summary by hand"
    for nothing in ({}, {"ids": nodes[2].pk}, {"ids": "x", "session": session}):
        assert "Nothing to redact" in told(eraser.get(url("chatmessage_redact_selected", **nothing)))
    action = 'value="redact_selected"'
    assert action in eraser.get(url("chatmessage_changelist", session=session)).text
    for query in ({}, {"session": session, "kind": "summary"}):
        assert action not in eraser.get(url("chatmessage_changelist", **query)).text
    client.logout()
    get_user_model().objects.all().delete()
    log_in(client, *VIEW)
    assert action not in client.get(url("chatmessage_changelist", session=session)).text
    assert client.get(page).status_code == client.post(page, {"replacement": "y"}).status_code == 403


@pytest.mark.parametrize("replacement", ["", "  ", "x" * 1001, "\x00"])
def test_redacting_without_a_proper_replacement_asks_again(eraser, hung, replacement):
    nodes, *_ = hung
    page = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": replacement})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert "retired and emptied: 2" in page.text
    assert not ChatMessage.objects.filter(redacted_at__isnull=False).exists()


def test_a_summary_is_not_redacted(eraser, hung):
    *_, second = hung
    assert eraser.post(url("chatmessage_redact", second.pk), {"replacement": "x"}).status_code == 404
    assert ChatMessage.objects.get(pk=second.pk).content == SECRET
    assert url("chatmessage_redact", second.pk) not in eraser.get(page_of(second)).text


@pytest.mark.parametrize(
    ("codenames", "may"),
    [
        (("redact_chatmessage", "view_chatmessage"), True),
        (("redact_chatmessage",), False),
        (("view_chatmessage", "delete_chatmessage", "change_chatmessage", "retire_summary"), False),
    ],
)
def test_redacting_has_a_permission_of_its_own(client, hung, codenames, may):
    nodes, *_ = hung
    log_in(client, *codenames)
    page = url("chatmessage_redact", nodes[1].pk)
    assert client.get(page).status_code == (200 if may else 403)
    assert client.post(page, {"replacement": "x"}).status_code == (302 if may else 403)
    if "view_chatmessage" in codenames:
        assert (f'href="{page}"' in client.get(page_of(nodes[1])).text) == may


def test_redacting_what_goes_at_that_very_moment_is_told(eraser, hung, monkeypatch):
    nodes, *_ = hung
    redact = chat.redact_message

    def late(message, **kwargs):
        chat.delete_message(ChatMessage.objects.get(pk=message.pk))
        return redact(message, **kwargs)

    monkeypatch.setattr(chat, "redact_message", late)
    response = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": "x"})
    assert "has been deleted in the meantime" in told(response)


# -- deleting -----------------------------------------------------------------------------------------------


def parts_of(page):
    """The lists of the page before a deletion without markup, by their headings."""
    found = re.findall(r"<h3>([\w ]+)</h3>(.*?)(?=<h3>|<form)", page, re.DOTALL)
    return {name: " ".join(unescape(re.sub("<[^>]*>", " ", text)).split()) for name, text in found}


def test_deleting_says_in_numbers_what_goes_along(eraser, hung):
    nodes, first, second = hung
    page = eraser.get(url("chatmessage_delete", nodes[1].pk)).text
    parts = parts_of(page)
    assert list(parts) == ["What changes", "What is kept"]
    for line in ("Messages after it: 6", "Ends of branches: 1", "Live summaries: 2", "Retired summaries: 1"):
        assert line in parts["What changes"]
    assert parts["What is kept"].endswith("Runs, without instructions and links to the messages: 3")
    assert "Open runs, which write no summary: 1" in parts["What changes"]
    for summary in (first, second):
        assert f'<a href="{page_of(summary)}">{summary}</a>' in page
    way_out = f'To remove only this text, use <a href="{url("chatmessage_redact", nodes[1].pk)}">Redact</a>.'
    assert f"This cannot be undone. {way_out}" in page


def test_deleting_counts_branches_and_leaves_out_what_is_none(eraser):
    session = start_session(title="Where does the Anna lie?")
    nodes = talk(session, ["Where does the Anna lie?", "At berth 7.", "And the Bella?"])
    talk(session, ["Again?"], nodes[1])
    parts = parts_of(eraser.get(url("chatmessage_delete", nodes[0].pk)).text)
    title = "If the title of the session was made of the beginning of what goes, it is cleared too."
    assert parts["What changes"] == f"{nodes[0]} Messages after it: 3 Ends of branches: 2 {title}"
    last = parts_of(eraser.get(url("chatmessage_delete", nodes[2].pk)).text)
    assert last == {"What changes": f"{nodes[2]} Ends of branches: 1 {title}", "What is kept": "Every other message."}


def test_more_summaries_than_a_page_names_are_counted(eraser):
    nodes = chain(start_session(), 60)
    for n in range(58):
        summarize(nodes[n + 1], nodes[n], token_count=5)
    page = eraser.get(url("chatmessage_delete", nodes[0].pk)).text
    assert "Live summaries: 58" in page
    assert page.count(">Summary ") == 50


def test_deleting_what_is_gone_already_is_no_error(eraser, hung, monkeypatch):
    nodes, *_ = hung
    delete = chat.delete_message

    def twice(message):
        delete(ChatMessage.objects.get(pk=message.pk))
        return delete(message)

    monkeypatch.setattr(chat, "delete_message", twice)
    response = eraser.post(url("chatmessage_delete", nodes[1].pk), {"post": "yes"})
    assert "Perhaps it was deleted?" in told(response)


def test_the_pages_before_an_erasure_take_the_same_queries_at_20_and_at_500_messages(superuser):
    """Django's own would load every row below to list it, and recurse once a level."""
    counts = []
    for length in (20, 500):
        nodes = chain(start_session(), length)
        for n in range(2, length - 2, 10):
            run_for(summarize(nodes[n + 1], nodes[n], token_count=5), nodes[-1], n)
        pages = [url(page, nodes[0].pk) for page in ("chatmessage_redact", "chatmessage_delete")]
        ids = ",".join(str(node.pk) for node in nodes[: length // 5])
        pages.append(url("chatmessage_redact_selected", session=nodes[0].session_id, ids=ids))
        pages.append(url("chatsession_delete", nodes[0].session_id))
        counts.append([len(queries_of(superuser, page)) for page in pages])
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 10, counts


# -- compacting ---------------------------------------------------------------------------------------------


def test_instructions_over_two_thousand_characters_are_refused_with_a_clear_word(eraser, window_of_4000):
    tip = talk(start_session(), ["hi", "hello"])[-1]
    text = MARKUP.ljust(2001, "ä")
    page = eraser.post(url("chatmessage_compact", tip.pk), {"instructions": text}).text
    assert "at most 2000 characters (it has 2001)" in page
    assert escape(text) in page, "what was written is not lost, and stays text"
    assert "<script>alert" not in page
    assert not CompactionRun.objects.exists()
