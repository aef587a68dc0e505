"""A person with one view permission: which texts a page shows, and that no link leads to a page that is refused."""

import html
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent
from tests.admin.pages import MODELS, VIEW, page_of, url
from tests.admin.records import run_at
from tests.trees import summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]

#: Texts of a conversation, by the column that holds them.
SESSION = {"title": "MARKtitle", "system_prompt": "MARKprompt", "metadata": {"note": "MARKsession"}}
OF_MESSAGES = ("MARKcontent", "MARKreply", "MARKargument", "MARKattachment", "MARKname")
OF_SUMMARIES = ("MARKsummary", "MARKreason", "MARKinstructions")
#: Permission → the marks that its pages may show. A prompt is part of the context that a message's page shows.
SHOWN = {
    "view_chatsession": {"MARKtitle", "MARKprompt", "MARKsession"},
    "view_chatmessage": {"MARKprompt", *OF_MESSAGES, *OF_SUMMARIES},
    "view_compactionrun": set(),
    "view_compactionevent": set(),
}
#: Every permission but the one to read messages.
ALL_BUT_READING = (
    *(permission for permission in VIEW if permission != "view_chatmessage"),
    *("compact_chatsession", "retire_summary", "redact_chatmessage"),
    *("change_chatsession", "delete_chatsession", "delete_chatmessage"),
)


@pytest.fixture
def marked():
    """A session with a mark in every text, and one page of every sort of it."""
    owner = get_user_model().objects.create_user("owner")
    session = chat.start_session(**SESSION, owner=owner)
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "MARKargument"}'}}
    nodes = chat.append_messages(
        session,
        None,
        [
            {"role": "user", "content": "MARKcontent", "name": "MARKname", "metadata": {"note": "MARKnote"}},
            {"role": "assistant", "content": "MARKreply", "reasoning": [{"text": "MARKreasoning"}]},
            {"role": "user", "content": "and", "attachments": [{"type": "file", "name": "MARKattachment"}]},
            {"role": "assistant", "tool_calls": [call]},
        ],
    )
    live = summarize(nodes[2], nodes[1], content="MARKsummary and more")
    retired = summarize(
        nodes[3], nodes[2], content="MARKsummary", retired_at=timezone.now(), retired_reason="MARKreason"
    )
    texts = {"instructions": "MARKinstructions", "policy_line": "MARKpolicy", "error_detail": "MARKerror"}
    run = run_at(nodes[-1], status="succeeded", generation=1, summary=live, anchor=nodes[2], cutoff=nodes[1], **texts)
    failed = run_at(nodes[-1], status="failed", error_code="timeout", **texts)
    event = CompactionEvent.objects.create(session=session, run=run, message=nodes[-1], kind="completed")
    return [session, *nodes, live, retired, run, failed, event]


def pages(records):
    session = records[0]
    summary = next(row for row in records if isinstance(row, ChatMessage) and row.is_summary)
    found = [reverse("admin:index"), reverse("admin:app_list", args=["compaction_app"])]
    found += [url(f"{model}_changelist") for model in MODELS]
    found += [
        url("chatmessage_changelist", kind="summary"),
        url("chatmessage_changelist", session=session.pk, q="MARK"),
    ]
    found += [page_of(record) for record in records]
    found += [url(f"{row._meta.model_name}_history", row.pk) for row in records]
    found += [url(f"{row._meta.model_name}_delete", row.pk) for row in records]
    found += [url("chatmessage_retire", summary.pk)]
    found += [url("chatsession_compact", session.pk), url("chatmessage_compact", records[1].pk)]
    found += [url("chatmessage_text", records[1].pk, "content"), url("chatmessage_context", records[1].pk)]
    found += [url("chatmessage_redact", records[1].pk), url("chatmessage_transcript", records[1].pk)]
    found += [url("compactionrun_retry", records[-2].pk)]
    return found


def marks_on(client, page):
    answer = client.get(page)
    return set(re.findall(r"MARK[a-z]+", answer.text)) if answer.status_code == 200 else set()


def test_whoever_may_read_messages_reads_them_on_a_sessions_page_and_on_a_runs_page(viewer, marked):
    session, run = marked[0], marked[-2]
    assert "MARKcontent" in marks_on(viewer, page_of(session))
    assert {"MARKinstructions", "MARKpolicy", "MARKerror"} <= marks_on(viewer, page_of(run))


def links_of(page):
    found = {html.unescape(link) for link in re.findall(r'href="(/admin/[^"#]*)', page)}
    return sorted(link for link in found if "logout" not in link and "password" not in link)


@pytest.mark.parametrize(
    "permissions",
    [
        *[(one,) for one in VIEW],
        ("view_chatsession", "compact_chatsession"),
        ("view_chatmessage", "compact_chatsession", "retire_summary", "redact_chatmessage"),
        ("view_compactionrun", "compact_chatsession"),
        ("view_chatmessage", "delete_chatmessage"),
        ALL_BUT_READING,
    ],
)
def test_a_person_reads_what_a_view_permission_shows_and_can_follow_every_link(login, marked, permissions):
    """Messages and summaries are quoted to those who may read messages, on the pages of sessions and runs too.

    What another permission is needed for is plain text instead of a link.
    """
    client, read, refused, followed = login(*permissions), set(), set(), set()
    for page in pages(marked):
        answer = client.get(page)
        if answer.status_code == 200:
            read |= set(re.findall(r"MARK[a-z]+", answer.text))
        if answer.status_code == 200 and "html" in answer.headers["Content-Type"]:
            for link in links_of(answer.text):
                if link not in followed and client.get(link, follow=True).status_code != 200:
                    refused.add((page, link))
                followed.add(link)
            assert 'href=""' not in answer.text, page
    assert read == set().union(*(SHOWN.get(permission, ()) for permission in permissions))
    assert refused == set()
    assert followed


def test_an_action_alone_leads_to_no_page(login, marked):
    """What the README says: an action needs the permission to view what it is done to."""
    client = login("compact_chatsession", "retire_summary", "redact_chatmessage", "delete_chatmessage")
    session, message, summary, failed = marked[0], marked[1], marked[5], marked[-2]
    for page in (
        url("chatsession_compact", session.pk),
        *(url("chatmessage_compact", message.pk), url("chatmessage_redact", message.pk)),
        *(url("chatmessage_retire", summary.pk), url("compactionrun_retry", failed.pk)),
    ):
        assert (client.get(page).status_code, client.post(page).status_code) == (403, 403), page


def test_a_session_is_named_by_its_id_to_those_who_may_not_see_sessions(login, marked):
    page = login("view_compactionrun").get(page_of(marked[-3])).text
    assert f"Session {ChatSession.objects.get().pk}" in page


def test_a_title_needs_the_permission_to_view_sessions_on_pages_of_other_apps_too(login, marked):
    """The page that deletes a user names the user's sessions; a session's title may quote a message."""
    client = login(*(permission for permission in VIEW if permission != "view_chatsession"))
    rights = Permission.objects.filter(Q(codename="view_user") | Q(codename__startswith="delete_"))
    get_user_model().objects.get(username="staff").user_permissions.add(*rights)
    owner = marked[0].owner
    page = client.get(reverse("admin:auth_user_delete", args=[owner.pk]))
    assert page.status_code == 200
    assert f"Session {marked[0].pk}" in page.text
    assert "MARKtitle" not in page.text
