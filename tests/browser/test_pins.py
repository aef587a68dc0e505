"""A person pins and unpins a message on the chat page, and an admin sees it and unpins it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import MessagePin
from tests.browser import conversations
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.mark.parametrize(("scripts", "viewport"), [(True, DESKTOP), (False, PHONE)])
def test_a_message_is_pinned_and_unpinned(open_page, scripts, viewport):
    """With the page's script and without it."""
    from playwright.sync_api import expect

    marit: Any = get_user_model().objects.create_user("marit", password=conversations.PASSWORD)
    session = chat.start_session(owner=marit, title="Lighthouse", settings=conversations.SMALL_WINDOW)
    messages = chat.append_messages(session, None, conversations.turns(1, 12))
    assert chat.compact(messages[-1]).status == "succeeded"
    page = open_page(marit, java_script_enabled=scripts, viewport=viewport)
    page.goto(reverse("chat:session", args=[session.pk]))
    first = page.locator(f"#m{messages[0].pk}")
    expect(first).to_contain_class("covered")
    first.locator(".more > summary").click()
    first.get_by_role("button", name="Pin message 1").click()
    expect(first.locator(".tag")).to_have_text("pinned")
    expect(first).not_to_contain_class("covered")
    assert chat.get_context(messages[-1]).pin_ids == (messages[0].pk,)
    first.locator(".more > summary").click()
    first.get_by_role("button", name="Unpin message 1").click()
    expect(first.locator(".tag")).to_have_count(0)
    assert not MessagePin.objects.exists()
