"""What the admin says of copies, and redacting the copies of a message with it."""

import re

import pytest
from django.contrib.admin.models import LogEntry

from compaction_app import chat
from compaction_app.admin.display import link
from compaction_app.admin.messages import ChatMessageAdmin
from compaction_app.models import ChatMessage, ChatSession
from tests.admin.pages import page_of, url
from tests.admin.records import summarized

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


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
