"""Where a page leads back to, what stands above it, and that red is kept for what can not be undone."""

import re

import pytest

from tests.admin.pages import VIEW, page_of, url
from tests.admin.records import compacted, run_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]

ALL = (*VIEW, "compact_chatsession", "retire_summary", "redact_chatmessage", "delete_chatmessage", "delete_chatsession")


@pytest.fixture
def everything(login):
    return login(*ALL)


def crumbs_of(page):
    """Addresses and names of what stands above a page, without the admin's front page and the app's."""
    [line] = re.findall(r'<div class="breadcrumbs">(.*?)</div>', page, re.DOTALL)
    return [(link, name) for link, name in re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', line)][2:]


def test_the_list_and_the_record_stand_above_every_page_of_an_action_and_red_is_what_can_not_be_undone(everything):
    session, nodes, summary, *_ = compacted()
    failed = run_at(nodes[-1])
    sessions = (url("chatsession_changelist"), "Chat sessions")
    runs = (url("compactionrun_changelist"), "Compaction runs")
    messages = (url("chatmessage_changelist"), "Messages")
    summaries = (url("chatmessage_changelist", kind="summary"), "Summaries")
    for page, above, record, is_final in (
        (url("chatsession_compact", session.pk), sessions, session, False),
        (url("chatsession_delete", session.pk), sessions, session, True),
        (url("chatmessage_compact", nodes[0].pk), messages, nodes[0], False),
        (url("chatmessage_redact", nodes[0].pk), messages, nodes[0], True),
        (url("chatmessage_delete", nodes[0].pk), messages, nodes[0], True),
        (url("chatmessage_retire", summary.pk), summaries, summary, False),
        (url("compactionrun_retry", failed.pk), runs, failed, False),
    ):
        text, name = everything.get(page).text, "Harbour" if record == session else str(record)
        assert crumbs_of(text) == [above, (page_of(record), name)], page
        assert ("delete-confirmation" in text) == is_final, page


def test_a_retry_is_offered_for_what_failed_only(everything):
    _, nodes, _, succeeded, _ = compacted()
    orphan = run_at(nodes[-1])
    orphan.tip = None
    orphan.save()
    for run in (succeeded, orphan):
        assert everything.get(url("compactionrun_retry", run.pk)).status_code == 404
        assert url("compactionrun_retry", run.pk) not in everything.get(page_of(run)).text
