"""Pin and Unpin on the chat page, without JavaScript."""

import pytest

from compaction_app import chat
from compaction_app.models import MessagePin
from tests.project.chat_page.pages import grow, text_of, url

pytestmark = pytest.mark.django_db


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
    assert "are allowed" in page
    assert stranger.post(url("pin", session, tip), {"tip": tip.pk, "pin": ""}).status_code == 404
    assert not MessagePin.objects.exists()
