"""Where a page leads back to, what stands above it, and that red is kept for what can not be undone."""

import re

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from tests.admin.pages import VIEW, page_of, told, url
from tests.admin.records import compacted, run_at, summarized
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]

ALL = (*VIEW, "compact_chatsession", "retire_summary", "redact_chatmessage", "delete_chatmessage", "delete_chatsession")


@pytest.fixture
def everything(login):
    return login(*ALL)


def crumbs_of(page):
    """Addresses and names of what stands above a page, without the admin's front page and the app's."""
    [line] = re.findall(r'<div class="breadcrumbs">(.*?)</div>', page, re.DOTALL)
    return [(link, name) for link, name in re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', line)][2:]


def test_deleting_a_message_leads_to_its_session(everything):
    session, nodes, *_ = compacted()
    answer = everything.post(url("chatmessage_delete", nodes[1].pk), {"post": "yes"})
    assert answer.headers["Location"] == page_of(session)
    assert "deleted successfully" in told(answer)


def test_the_list_and_the_record_stand_above_every_page_of_an_action(everything):
    session, nodes, summary, *_ = compacted()
    failed = run_at(nodes[-1], status="failed")
    sessions, runs = (
        (url("chatsession_changelist"), "Chat sessions"),
        (url("compactionrun_changelist"), "Compaction runs"),
    )
    messages = (url("chatmessage_changelist"), "Messages")
    summaries = (url("chatmessage_changelist", kind="summary"), "Summaries")
    for page, above, record in (
        (url("chatsession_compact", session.pk), sessions, session),
        (url("chatsession_delete", session.pk), sessions, session),
        (url("chatmessage_compact", nodes[0].pk), messages, nodes[0]),
        (url("chatmessage_redact", nodes[0].pk), messages, nodes[0]),
        (url("chatmessage_delete", nodes[0].pk), messages, nodes[0]),
        (url("chatmessage_retire", summary.pk), summaries, summary),
        (url("compactionrun_retry", failed.pk), runs, failed),
    ):
        name = "Harbour" if record == session else str(record)
        assert crumbs_of(everything.get(page).text) == [above, (page_of(record), name)], page


def test_red_marks_what_can_not_be_undone(everything):
    session, nodes, summary, *_ = compacted()
    failed = run_at(nodes[-1], status="failed")
    red = {
        page: "delete-confirmation" in everything.get(page).text
        for page in (
            url("chatmessage_redact", nodes[0].pk),
            url("chatmessage_delete", nodes[0].pk),
            url("chatsession_delete", session.pk),
            url("chatmessage_retire", summary.pk),
            url("chatsession_compact", session.pk),
            url("compactionrun_retry", failed.pk),
        )
    }
    assert list(red.values()) == [True, True, True, False, False, False], red


def test_a_retry_is_offered_for_what_failed_only(everything):
    _, nodes, _, succeeded, _ = compacted()
    orphan = run_at(nodes[-1], status="failed")
    orphan.tip = None
    orphan.save()
    for run in (succeeded, orphan):
        answer = everything.get(url("compactionrun_retry", run.pk))
        assert answer.headers["Location"] == page_of(run)
        assert "only a failed run whose tip is still there can be retried." in told(answer)
        assert url("compactionrun_retry", run.pk) not in everything.get(page_of(run)).text


# -- a record that names what is elsewhere ----------------------------------------------------------------------


def notes_then(client, reply):
    return " ".join(client.get(page_of(reply)).context["table"]["notes"])


def with_record(nodes, **record):
    """A reply with a record as a host may have written it."""
    reply = chat.append_message(nodes[0].session, nodes[-1], role="assistant", content="aye")
    ChatMessage.objects.filter(pk=reply.pk).update(sent_context=record)
    return reply


def test_a_record_that_names_rows_of_another_session_shows_none_of_them(viewer):
    there, summary = summarized(content="Said elsewhere.")
    reply = with_record(
        chain(start_session(), 3), summary_id=summary.pk, cutoff_id=there[1].pk, pinned_id=there[0].pk, tokens=9
    )
    said = notes_then(viewer, reply)
    assert f"Summary {summary.pk} was sent and is deleted now." in said
    assert f"The pinned message {there[0].pk} was sent and is deleted now." in said
    assert "Said elsewhere." not in viewer.get(page_of(reply)).text
