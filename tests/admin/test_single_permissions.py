"""A person with one view permission: which texts a page shows, and that no link leads to a page that is refused."""

import html
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Q
from django.urls import reverse

from compaction_app.admin import ChatMessageAdmin, ChatSessionAdmin, CompactionEventAdmin, CompactionRunAdmin
from tests.admin.pages import VIEW, page_of, url
from tests.browser import admin_pages, conversations

pytestmark = pytest.mark.django_db

#: Permission → the texts that its pages may show. A prompt is part of the context that a message's page shows, and a
#: run's instructions may quote what is said, as its policy line and its error details do.
SHOWN = {
    "view_chatsession": (
        "username title session_model session_external_id system_prompt session_metadata_key session_metadata "
        "calibrated_model"
    ),
    "view_chatmessage": (
        "system_prompt first_words content name message_model external_id idempotency_key metadata_key metadata usage "
        "attachment_type attachment_name reasoning tool_name tool_key tool_result result_of summary summary_before "
        "retired_reason instructions summarizer_model payload_key payload"
    ),
    "view_compactionrun": "summarizer_model prompt_version task_id payload_key payload",
    "view_compactionevent": "payload_key payload",
}
#: Every permission but the one to read messages.
ALL_BUT_READING = (
    *(permission for permission in VIEW if permission != "view_chatmessage"),
    *("compact_chatsession", "retire_summary", "redact_chatmessage"),
    *("change_chatsession", "delete_chatsession", "delete_chatmessage"),
)


@pytest.fixture
def harbour():
    """With a mark in every text, which is the text's name."""
    return conversations.filled_harbour("MARK{}".format)[1]


def pages(harbour):
    """One of every sort."""
    search = url("chatmessage_changelist", session=harbour.session.pk, q="MARK")
    of_tools = url("chatmessage_change", harbour.tool_result.parent_message_id)
    return [
        *(reverse("admin:index"), search, of_tools),
        *admin_pages.addresses(harbour),
        *admin_pages.plain_texts(harbour),
    ]


def test_whoever_may_read_messages_reads_them_on_a_sessions_page_and_on_a_runs_page(viewer, harbour):
    assert "MARKfirst_words" in viewer.get(page_of(harbour.session)).text
    run, failed = (viewer.get(page_of(one)).text for one in (harbour.run, harbour.failed))
    assert "MARKinstructions" in run
    assert "MARKpolicy_line" in run
    assert "MARKerror_detail" in failed


def links_of(page):
    """One of each sort: which row it leads to is no matter of permission."""
    found = {html.unescape(link) for link in re.findall(r'href="(/admin/[^"#]*)', page)}
    kept = sorted(link for link in found if "logout" not in link and "password" not in link)
    return {re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", link): link for link in kept}.items()


PEOPLE = [
    *[(one,) for one in VIEW],
    ("view_chatsession", "compact_chatsession"),
    ("view_chatmessage", "compact_chatsession", "retire_summary", "redact_chatmessage", "delete_chatmessage"),
    ("view_compactionrun", "compact_chatsession"),
    ALL_BUT_READING,
]


@pytest.mark.long
def test_a_person_reads_what_a_view_permission_shows_and_can_follow_every_link(login, harbour):
    """Messages and summaries are quoted to those who may read messages, on the pages of sessions and runs too.

    What another permission is needed for is plain text instead of a link.
    """
    addresses = pages(harbour)
    for permissions in PEOPLE:
        read, refused = walked(login(*permissions), addresses)
        assert read == set(" ".join(SHOWN.get(one, "") for one in permissions).split()), permissions
        assert refused == set(), permissions


def walked(client, addresses):
    """The texts that are read there, and what leads to a page that is refused."""
    read, refused, followed = set(), set(), set()
    for page in addresses:
        answer = client.get(page)
        if answer.status_code == 200:
            read |= set(re.findall(r"MARK(\w+)", answer.text))
        if answer.status_code == 200 and "html" in answer.headers["Content-Type"]:
            for sort, link in links_of(answer.text):
                if sort not in followed and client.get(link, follow=True).status_code != 200:
                    refused.add((page, link))
                followed.add(sort)
            assert 'href=""' not in answer.text, page
    assert followed
    return read, refused


def test_an_action_alone_leads_to_no_page(login, harbour):
    """What the README says: an action needs the permission to view what it is done to."""
    actions = ("compact_chatsession", "retire_summary", "redact_chatmessage")
    client = login(*actions, "delete_chatmessage", "delete_chatsession")
    for page in admin_pages.addresses(harbour):
        if re.search("/(compact|redact|retire|retry|delete)/$", page):
            assert (client.get(page).status_code, client.post(page).status_code) == (403, 403), page


def test_a_session_is_named_by_its_id_to_those_who_may_not_see_sessions(login, harbour):
    """On pages of other apps too: that which deletes a user names the user's sessions. A title may quote a message."""
    client = login(*(permission for permission in VIEW if permission != "view_chatsession"))
    rights = Permission.objects.filter(Q(codename="view_user") | Q(codename__startswith="delete_"))
    get_user_model().objects.get(username="staff").user_permissions.add(*rights)
    for page in (page_of(harbour.run), reverse("admin:auth_user_delete", args=[harbour.session.owner_id])):
        text = client.get(page).text
        assert f"Session {harbour.session.pk}" in text
        assert "MARKtitle" not in text


@pytest.mark.long
def test_a_class_of_the_hosts_that_shows_only_some_records_is_asked_on_each_page(login, harbour, monkeypatch):
    """As Django asks on its own pages; here people read and redacted what is another tenant's."""
    # Whoever may change a record may view it.
    client = login("view_chatmessage", *(one for one in ALL_BUT_READING if one != "change_chatsession"))
    every = [*admin_pages.addresses(harbour), *admin_pages.plain_texts(harbour)]
    of_records = [one for one in every if re.search(r"/\d", one) or str(harbour.session.pk) in one.partition("?")[0]]
    of_records = [one for one in of_records if client.get(one).status_code == 200]
    assert len(of_records) > 20
    for shown in (ChatMessageAdmin, ChatSessionAdmin, CompactionRunAdmin, CompactionEventAdmin):
        seen = shown.has_view_permission
        monkeypatch.setattr(
            shown, "has_view_permission", lambda self, r, obj=None, seen=seen: seen(self, r, obj) and obj is None
        )
    assert [one for one in of_records if client.get(one).status_code != 403] == []
    assert client.post(url("chatmessage_redact", harbour.tip.pk), {"replacement": "x"}).status_code == 403
    harbour.tip.refresh_from_db()
    assert harbour.tip.redacted_at is None
