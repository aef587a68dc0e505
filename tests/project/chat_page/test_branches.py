"""Branches on the chat page: forks, variants, and the pages of a long one."""

import re

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage, MessagePin
from compaction_app.values import Role
from project.chat import reading
from project.chat.shown import PAGE_SIZE
from tests.project.chat_page.pages import grow, stored, text_of, url

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
class TestBranches:
    def test_an_edit_keeps_name_attachments_and_files(self, browser, session):
        image = {"type": "image", "name": "roof.png", "url": "https://example.com/roof.png", "tokens": 50}
        told = 'Look\n\n<file name="a.txt">\nTide.\n</file>'
        original = chat.append_message(session, role=Role.USER, content=told, name="Birk", attachments=[image])
        page = text_of(browser.get(url("branch", session, original), {"edit": original.pk}))
        assert 'id="edited-content">\nLook</textarea>' in page
        browser.post(url("edit", session, original), {"content": "Look again"})
        edited = ChatMessage.objects.get(content=told.replace("Look", "Look again"))
        assert (edited.name, edited.attachments) == ("Birk", [image])

    @pytest.mark.parametrize("content", ["", "a\x00b", "More than ten bytes"])
    def test_an_edit_that_can_not_be_stored_comes_back(self, browser, session, settings, content):
        message = grow(session, 2).parent
        settings.COMPACTION = {**settings.COMPACTION, "MAX_MESSAGE_BYTES": 10}
        response = browser.post(url("edit", session, message), {"content": content})
        assert response.status_code == 422
        assert f'action="{url("edit", session, message)}"' in text_of(response)
        assert stored(session) == 2

    def test_only_messages_of_the_user_can_be_edited(self, browser, session):
        reply = grow(session, 2)
        assert browser.post(url("edit", session, reply), {"content": "x"}).status_code == 404
        chat.redact_message(reply.parent)
        assert browser.post(url("edit", session, reply.parent), {"content": "x"}).status_code == 404
        page = text_of(browser.get(url("branch", session, reply)))
        assert ">Edit<" not in page
        assert "redacted" in page

    def test_a_message_leads_to_the_newest_tip_below_it_and_a_tip_to_its_own_branch(self, browser, session):
        fork = grow(session, 2)
        old = grow(session, 4, parent=fork, content="Older branch ")
        tip = grow(session, 2, parent=fork, content="Newer branch ")
        page = text_of(browser.get(url("branch", session, fork)))
        assert "Newer branch 1" in page
        assert "Older branch" not in page
        assert f'name="parent" value="{tip.pk}"' in page
        page = text_of(browser.get(url("branch", session, old)))
        assert "Older branch 3" in page
        assert "Newer branch" not in page
        assert "Newer branch 1" in text_of(browser.get(url("session", session)))

    def test_a_summary_is_neither_a_variant_nor_a_tip(self, browser, session):
        tip = grow(session, 20, content="Tell me about the roof and the boat. " * 8)
        chat.compact(tip)
        summary = chat.find_summary(tip)
        assert browser.get(url("branch", session, summary)).status_code == 404
        page = text_of(browser.get(url("session", session)))
        assert f'name="parent" value="{tip.pk}"' in page
        assert "variant" not in page


class TestPages:
    """A branch of any length is shown a page at a time."""

    def test_the_newest_messages_are_shown_first_and_the_earlier_ones_on_demand(self, browser, session):
        tip = grow(session, 2 * PAGE_SIZE + 10, content="Message ")
        page = text_of(browser.get(url("session", session)))
        shown = [int(n) for n in re.findall(r">Message (\d+)<", page)]
        assert shown == list(range(PAGE_SIZE + 10, 2 * PAGE_SIZE + 10))
        earlier = PAGE_SIZE + 10
        assert f"?end={earlier}#latest" in page
        page = text_of(browser.get(url("branch", session, tip), {"end": earlier}))
        shown = [int(n) for n in re.findall(r">Message (\d+)<", page)]
        assert shown == list(range(10, PAGE_SIZE + 10))
        assert "?end=10#latest" in page
        assert f'name="parent" value="{tip.pk}"' in page, "what is sent from an earlier page goes to the tip"
        assert f"?end={2 * PAGE_SIZE + 10}#latest" in page
        page = text_of(browser.get(url("branch", session, tip), {"end": 10}))
        assert [int(n) for n in re.findall(r">Message (\d+)<", page)] == list(range(10))
        assert "Show earlier" not in page
        page = text_of(browser.get(url("branch", session, tip), {"end": 2**62}))
        assert f">Message {2 * PAGE_SIZE + 9}<" in page, "an end beyond the branch is its end"

    def test_a_long_text_is_cut_and_shown_whole_on_demand(self, browser, session):
        long = "word " * reading.SHOWN_CHARACTERS
        message = chat.append_message(session, role=Role.USER, content=long)
        page = text_of(browser.get(url("session", session)))
        assert f"{len(long) - reading.SHOWN_CHARACTERS:,} more characters" in page
        assert len(page) < len(long)
        whole = browser.get(url("text", session, message))
        assert whole["Content-Type"] == "text/plain; charset=utf-8"
        assert whole["X-Content-Type-Options"] == "nosniff"
        assert text_of(whole) == long
        editing = text_of(browser.get(url("branch", session, message), {"edit": message.pk}))
        assert long.strip() in editing, "the box of an edit holds all of it"


def test_a_message_is_pinned_marked_and_unpinned_on_the_branch_that_is_shown(browser, session):
    tip = grow(session, 40)
    first = chat.get_branch(tip)[0]
    assert chat.compact(tip).status == "succeeded"
    assert f'id="m{first.pk}" class="message user covered"' in text_of(browser.get(url("branch", session, tip)))
    grow(session, 2, parent=first)
    address = url("pin", session, first)
    answer = browser.post(address, {"tip": tip.pk, "end": 40, "pin": ""})
    assert answer.url == f"{url('branch', session, tip)}?end=40#m{first.pk}"
    page = text_of(browser.get(answer.url))
    assert MessagePin.objects.get().message == first
    assert page.count(">pinned</span>") == 1
    assert ">Unpin<" in page
    assert f'id="m{first.pk}" class="message user"' in page, "the model reads it, so it is not covered"
    browser.post(address, {"tip": tip.pk, "end": 40})
    assert not MessagePin.objects.exists()
    assert ">pinned</span>" not in text_of(browser.get(answer.url))


def test_what_is_refused_is_told_and_a_stranger_finds_nothing(browser, stranger, session):
    tip = chat.append_message(session, None, role="user", content="long " * 1_000)
    page = text_of(browser.post(url("pin", session, tip), {"tip": tip.pk, "pin": ""}, follow=True))
    assert "There is no room for another pinned message." in page
    assert stranger.post(url("pin", session, tip), {"tip": tip.pk, "pin": ""}).status_code == 404
    assert not MessagePin.objects.exists()
