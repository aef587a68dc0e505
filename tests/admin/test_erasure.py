"""Redacting, retiring and deleting in the admin: who may, what a page says first, and what is left behind."""

import json
import re
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin.display import link
from compaction_app.admin.messages import ChatMessageAdmin
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind
from tests.admin.pages import page_of, told, url
from tests.admin.records import compacted, run_for, summarized, talk
from tests.trees import start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


SECRET = "the secret of the harbour"


def search_of(node):
    """The address has no text of the message: a browser would keep it."""
    return f'<a href="{url("chatmessage_changelist", session=node.session_id)}">search this session</a>'


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


def test_what_a_redaction_is_said_to_take_along_is_what_goes(eraser, hung):
    nodes, *going = hung
    page = eraser.get(url("chatmessage_redact", nodes[1].pk))
    assert list(page.context["live"]) == going
    assert (search_of(nodes[0]) in page.text, SECRET in page.text) == (True, False)
    assert ChatMessage.objects.get(pk=nodes[1].pk).redacted_at is None
    response = eraser.post(url("chatmessage_redact", nodes[1].pk), {"replacement": "[on request]"})
    assert f"Redacted: {nodes[1]}." in told(response)
    links = str(next(iter(get_messages(response.wsgi_request))))
    assert search_of(nodes[0]) in links
    assert f'href="{url("compactionrun_changelist", session=nodes[0].session_id)}"' in links
    assert response.headers["Location"] == page_of(nodes[1])
    row = ChatMessage.objects.get(pk=nodes[1].pk)
    assert (row.content, row.redacted_at is None) == ("[on request]", False)
    summaries = ChatMessage.objects.filter(kind="summary")
    assert set(summaries.values_list("content", flat=True)) == {""}
    assert not summaries.filter(retired_at__isnull=True).exists()
    assert not CompactionRun.objects.exclude(instructions="").exists()


def test_after_redacting_what_a_search_found_its_other_hits_are_next(eraser):
    node = talk(start_session(), [f"{SECRET} {n}" for n in range(2)])[0]
    search = url("chatmessage_changelist", session=node.session_id, q="secret")
    [hit] = [unescape(link) for link in re.findall('href="([^"]*)"', eraser.get(search).text) if page_of(node) in link]
    [page] = re.findall(r'href="([^"]*/redact/[^"]*)"', eraser.get(hit).text)
    answer = eraser.post(unescape(page), {"replacement": "x"})
    assert answer.headers["Location"] == search


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


def test_a_title_is_said_to_be_cleared_where_it_is(eraser):
    session = start_session(title="Where does the  Anna lie…")
    page = url("chatmessage_redact", talk(session, ["Where does the Anna lie today?", "At berth 7."])[0].pk)
    assert "the beginning of what goes, it is cleared too." in eraser.get(page).text
    eraser.post(page, {"replacement": "x"})
    session.refresh_from_db()
    assert session.title == ""


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("redact", {"replacement": "  "}),
        ("redact", {"replacement": "x" * 1001}),
        ("retire", {"reason": "  "}),
        ("retire", {"reason": "x" * 256}),
    ],
)
def test_without_a_proper_replacement_or_reason_it_asks_again(eraser, hung, action, given):
    nodes, _, second = hung
    about = {"redact": nodes[1], "retire": second}[action]
    before = list(ChatMessage.objects.values_list("retired_at", "redacted_at"))
    page = eraser.post(url(f"chatmessage_{action}", about.pk), given)
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert ("Live summaries that" in page.text) == (action == "redact")
    assert list(ChatMessage.objects.values_list("retired_at", "redacted_at")) == before


@pytest.mark.parametrize(
    ("action", "kind", "status"),
    [
        ("redact", "live", 404),
        ("delete", "live", 403),
        ("compact", "live", 404),
        ("retire", "retired", 404),
        ("retire", "message", 404),
    ],
)
def test_what_an_action_is_not_for_stays_as_it_is(eraser, hung, action, kind, status):
    nodes, _, second = hung
    retired = ChatMessage.objects.get(retired_at__isnull=False)
    row = {"live": second, "retired": retired, "message": nodes[0]}[kind]
    before = ChatMessage.objects.filter(pk=row.pk).values()[0]
    answer = eraser.post(url(f"chatmessage_{action}", row.pk), {"replacement": "x", "reason": "x", "post": "yes"})
    assert answer.status_code == status
    assert ChatMessage.objects.filter(pk=row.pk).values()[0] == before
    assert url(f"chatmessage_{action}", row.pk) not in eraser.get(page_of(row)).text


def test_deleting_says_in_numbers_what_goes_along(eraser, hung):
    nodes, *summaries = hung
    page = eraser.get(url("chatmessage_delete", nodes[1].pk))
    assert [page.context[name] for name in ("below", "tips", "unseen")] == [6, 1, {}]
    assert list(page.context["live"]) == summaries


@pytest.mark.parametrize("more", [(), ("view_chatsession",)])
def test_a_message_is_deleted_through_the_app_with_all_below_it(login, more):
    """The erasure is counted, so that a run which saw the text can not commit."""
    session, nodes, *_ = compacted()
    answer = login("view_chatmessage", "delete_chatmessage", *more).post(
        url("chatmessage_delete", nodes[1].pk), {"post": "yes"}
    )
    # Not to a session that the user may not see.
    assert answer.headers["Location"] == (page_of(session) if more else url("chatmessage_changelist"))
    assert "deleted successfully" in told(answer)
    session.refresh_from_db()
    assert session.erasures == 1
    assert list(session.messages.values_list("pk", flat=True)) == [nodes[0].pk]
    assert CompactionEvent.objects.filter(kind=EventKind.INVALIDATED).count() == 1


@pytest.mark.parametrize("model", ["chatsession", "chatmessage"])
def test_a_second_click_on_delete_is_no_error(superuser, monkeypatch, model):
    session, nodes, *_ = compacted()
    record, name = (session, "delete_session") if model == "chatsession" else (nodes[1], "delete_message")
    delete = getattr(chat, name)
    monkeypatch.setattr(chat, name, lambda row: (delete(type(row).objects.get(pk=row.pk)), delete(row)))
    assert superuser.post(url(f"{model}_delete", record.pk), {"post": "yes"}).status_code == 302
    assert not type(record).objects.filter(pk=record.pk).exists()


def test_a_session_is_deleted_through_the_app(login, monkeypatch):
    session, *_ = compacted()
    deleted = []
    delete_session = chat.delete_session
    monkeypatch.setattr(chat, "delete_session", lambda row: (deleted.append(row.pk), delete_session(row)))
    client = login("view_chatsession", "delete_chatsession")
    page = client.get(url("chatsession_delete", session.pk))
    counts = {"Messages": "4", "Summaries": "1", "Runs": "1", "Open runs": "0", "Failed runs": "0", "Events": "1"}
    assert page.context["counts"] == counts
    client.post(url("chatsession_delete", session.pk), {"post": "yes"})
    assert deleted == [session.pk]
    assert not ChatSession.objects.filter(pk=session.pk).exists()
    assert not CompactionRun.objects.exists()


def test_retiring_says_first_which_summaries_go_takes_a_reason_and_goes_through_the_app(operator, three):
    _, (_, second, third) = three
    page = operator.get(url("chatmessage_retire", second.pk))
    assert list(page.context["live"]) == [second, third]
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()
    response = operator.post(url("chatmessage_retire", second.pk), {"reason": "It was wrong."})
    retired = ChatMessage.objects.filter(retired_at__isnull=False).values_list("pk", "retired_reason")
    assert set(retired) == {(second.pk, "It was wrong."), (third.pk, "It was wrong.")}
    assert response.headers["Location"] == page_of(second)
    assert CompactionEvent.objects.filter(kind=EventKind.RETIRED).count() == 1
    logged = {entry.change_message for entry in LogEntry.objects.all()}
    assert logged == {"Retired."}, "this log outlives an erasure: the reason stands with the summary"


def test_a_copy_names_its_source_and_has_its_summary(viewer):
    nodes, summary = summarized(8)
    copy = chat.copy_branch(nodes[5])
    came_along = copy.messages.get(kind="summary")
    source = f'<a href="{page_of(nodes[5])}">Message {nodes[5].pk}</a>'
    # The summary that came along has no generation.
    for page, shown in ((copy, link(page_of(came_along), f"Summary {came_along.pk}")), (came_along, summary.content)):
        text = viewer.get(page_of(page)).text
        assert source in text
        assert shown in text


class TestRedacting:
    @pytest.fixture
    def copied(self):
        nodes, _summary = summarized(6)
        for title in ("First copy", "Second copy"):
            ChatSession.objects.filter(pk=chat.copy_branch(nodes[-1]).pk).update(title=title)
        return nodes, chat.copies_of(nodes[2])

    def test_each_copy_has_a_box_and_those_that_are_ticked_go_along(self, eraser, copied):
        nodes, (first, second) = copied
        address = url("chatmessage_redact", nodes[2].pk)
        page = eraser.get(address).text
        for copy in (first, second):
            assert f'<input type="checkbox" name="copies" value="{copy.pk}"' in page
        assert re.search(rf"Second copy · – · [^:<]*\d{{4}}: {re.escape(str(second))}", page)
        eraser.post(address, {"replacement": "[gone]", "copies": [second.pk]})
        rows = ChatMessage.objects.in_bulk([nodes[2].pk, first.pk, second.pk])
        assert [rows[pk].content == "[gone]" for pk in (nodes[2].pk, first.pk, second.pk)] == [True, False, True]
        assert set(LogEntry.objects.values_list("object_id", flat=True)) == {str(nodes[2].pk), str(second.pk)}
        assert f'value="{second.pk}"' not in eraser.get(address).text, "it is erased already"

    def test_a_message_that_is_no_copy_is_not_redacted(self, eraser, copied):
        nodes, (first, _second) = copied
        other = chat.get_branch(chat.tips(first.session)[0])[3]
        page = eraser.post(url("chatmessage_redact", nodes[2].pk), {"replacement": "[gone]", "copies": [other.pk]})
        assert page.status_code == 200
        assert not ChatMessage.objects.exclude(redacted_at=None).exists()

    def test_nothing_tells_of_copies_that_the_user_may_not_see(self, eraser, copied, monkeypatch):
        """A host's admin shows each of its staff some conversations only."""
        nodes, (first, second) = copied
        every, seen = ChatMessageAdmin.get_queryset, ChatMessageAdmin.has_view_permission
        monkeypatch.setattr(ChatMessageAdmin, "get_queryset", lambda self, r: every(self, r).exclude(pk=first.pk))
        monkeypatch.setattr(
            ChatMessageAdmin, "has_view_permission", lambda self, r, obj=None: seen(self, r, obj) and obj != second
        )
        page = eraser.get(url("chatmessage_redact", nodes[2].pk)).text
        assert "copies" not in page.split("<form method", 1)[1].split("</form>")[0]
        assert "copy:" not in page
