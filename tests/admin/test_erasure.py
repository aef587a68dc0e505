"""Compacting, redacting, retiring and deleting from the admin: who may, what it says first, what it leaves behind."""

import json
import re

import pytest
from django.contrib.admin.models import LogEntry
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
        "2 summaries are retired and emptied",
        "1 retired summary is emptied as well",
        "2 runs lose their instructions",
        "1 open run reads the branch again",
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
    assert told(response) == f"{nodes[1]} is redacted. Being compacted now: Run {run.pk} (waiting)."
    assert response.headers["Location"] == page_of(nodes[1])
    row = ChatMessage.objects.get(pk=nodes[1].pk)
    assert (row.content, row.redacted_at is None) == ("[on request]", False)
    summaries = ChatMessage.objects.filter(kind="summary")
    assert set(summaries.values_list("content", flat=True)) == {""}
    assert not summaries.filter(retired_at__isnull=True).exists()
    assert not CompactionRun.objects.exclude(instructions="").exists()


def test_a_message_below_every_anchor_takes_no_summary_along(eraser, hung):
    nodes, *_ = hung
    assert "No live summary covers it." in eraser.get(url("chatmessage_redact", nodes[-1].pk)).text
    eraser.post(url("chatmessage_redact", nodes[-1].pk), {"replacement": "x"})
    assert ChatMessage.objects.live().count() == 2


def test_no_word_of_a_conversation_reaches_the_admins_log(eraser):
    """It outlives an erasure, and no erasure empties it."""
    session = start_session(title=SECRET)
    nodes = talk(session, [f"{SECRET} {n}" for n in range(6)])
    summary = summarize(nodes[2], nodes[1], content=SECRET)
    eraser.post(url("chatmessage_compact", nodes[-1].pk), {"instructions": SECRET})
    eraser.post(url("chatmessage_retire", ids=summary.pk), {"reason": SECRET})
    eraser.post(url("chatmessage_redact", nodes[0].pk), {"replacement": SECRET})
    eraser.post(url("chatmessage_delete", nodes[3].pk), {"post": "yes"})
    entries = list(LogEntry.objects.values_list("object_repr", "change_message"))
    assert len(entries) >= 3
    assert SECRET not in json.dumps(entries)


@pytest.mark.parametrize("replacement", ["", "  ", "x" * 1001, "\x00"])
def test_redacting_without_a_proper_replacement_asks_again(eraser, hung, replacement):
    nodes, *_ = hung
    page = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": replacement})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert "2 summaries are retired and emptied" in page.text
    assert not ChatMessage.objects.filter(redacted_at__isnull=False).exists()


def test_a_summary_is_not_redacted_and_the_way_out_is_told(eraser, hung):
    *_, second = hung
    response = eraser.post(url("chatmessage_redact", second.pk), {"replacement": "x"})
    assert "Retire it" in told(response)
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


def test_deleting_says_in_numbers_what_goes_along(eraser, hung):
    nodes, first, second = hung
    page = eraser.get(url("chatmessage_delete", nodes[1].pk)).text
    for line in (
        "6 messages below it",
        "2 live summaries",
        "1 retired summary",
    ):
        assert line in page, line
    gone, _, kept = page.partition('id="kept-objects"')
    assert "run" not in re.sub("<[^>]*>", " ", gone.partition('id="deleted-objects"')[2].partition("</ul>")[0])
    assert "3 runs as records" in kept
    assert "Of them 1 is open: no summary is written." in kept
    for summary in (first, second):
        assert f'<a href="{page_of(summary)}">{summary}</a>' in page


def test_more_summaries_than_a_page_names_are_counted(eraser):
    nodes = chain(start_session(), 60)
    for n in range(58):
        summarize(nodes[n + 1], nodes[n], token_count=5)
    page = eraser.get(url("chatmessage_delete", nodes[0].pk)).text
    assert "58 live summaries" in page
    assert "8 more summaries" in page
    assert "and 8 more" in eraser.get(url("chatmessage_redact", nodes[0].pk)).text


def test_deleting_what_is_gone_already_is_no_error(eraser, hung, monkeypatch):
    nodes, *_ = hung
    delete = chat.delete_message

    def twice(message):
        delete(ChatMessage.objects.get(pk=message.pk))
        return delete(message)

    monkeypatch.setattr(chat, "delete_message", twice)
    response = eraser.post(url("chatmessage_delete", nodes[1].pk), {"post": "yes"})
    assert "had been deleted already" in told(response)


def test_the_pages_before_an_erasure_take_the_same_queries_at_20_and_at_500_messages(superuser):
    """Django's own would load every row below to list it, and recurse once a level."""
    counts = []
    for length in (20, 500):
        nodes = chain(start_session(), length)
        for n in range(2, length - 2, 10):
            run_for(summarize(nodes[n + 1], nodes[n], token_count=5), nodes[-1], n)
        pages = [url(page, nodes[0].pk) for page in ("chatmessage_redact", "chatmessage_delete")]
        pages.append(url("chatsession_delete", nodes[0].session_id))
        counts.append([len(queries_of(superuser, page)) for page in pages])
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 10, counts


# -- compacting ---------------------------------------------------------------------------------------------


def test_instructions_over_two_thousand_characters_are_refused_with_a_clear_word(eraser, window_of_4000):
    tip = talk(start_session(), ["hi", "hello"])[-1]
    text = MARKUP.ljust(2001, "ä")
    page = eraser.post(url("chatmessage_compact", tip.pk), {"instructions": text}).text
    assert "Instructions have at most 2,000 characters; these have 2,001." in page
    assert escape(text) in page, "what was written is not lost, and stays text"
    assert "<script>alert" not in page
    assert not CompactionRun.objects.exists()


def test_line_ends_of_instructions_count_as_a_browser_counts_them(eraser, window_of_4000):
    """A browser's own limit counts a line's end as one character and sends two."""
    nodes = talk(start_session(), ["hi " * 300 for _ in range(12)])
    text = "\r\n".join(["x" * 99] * 20)
    assert len(text) > 2000 > len(text.replace("\r\n", "\n"))
    assert eraser.post(url("chatmessage_compact", nodes[-1].pk), {"instructions": text}).status_code == 302
    assert CompactionRun.objects.get().instructions == text.replace("\r\n", "\n")
