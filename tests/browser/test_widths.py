"""However long a word, a page is no wider than the screen."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.browser import admin_pages, conversations
from tests.browser.conftest import PHONE
from tests.browser.test_accessibility import STICKS_OUT

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

WORD = "Supercalifragilisticexpialidocious"
LONG = WORD * 6
WIDTH = "document.documentElement.scrollWidth"


def harbour_of_long_words() -> tuple[Any, conversations.Harbour]:
    """Rows in which every text is one word that is wider than a phone; written past the checks."""
    # The one who looks is named on every page by Django itself.
    user = conversations.superuser()
    harbour = conversations.harbour(owner=conversations.superuser(WORD * 4))
    ChatSession.objects.filter(pk=harbour.session.pk).update(
        title=LONG, model=LONG, external_id=LONG, system_prompt=LONG * 9, metadata={LONG: [LONG]}
    )
    call = {"id": LONG[:60], "type": "function", "function": {"name": LONG, "arguments": '{"' + LONG + '": 1}'}}
    message = {
        "content": LONG * 9, "name": LONG, "model": LONG, "external_id": LONG, "idempotency_key": LONG,
        "metadata": {LONG: LONG}, "attachments": [{"type": "image_url", "image_url": {"url": f"https://x/{LONG}"}}],
    }  # fmt: skip
    ChatMessage.objects.filter(pk=harbour.tip.pk).update(**message, reasoning=[{"text": LONG}])
    ChatMessage.objects.filter(pk=harbour.tool_result.parent_message_id).update(tool_calls=[call])
    ChatMessage.objects.filter(pk__in=[one.pk for one in harbour.generations]).update(content=LONG * 9)
    ChatMessage.objects.filter(pk=harbour.retired.pk).update(retired_reason=LONG)
    given = {"instructions": LONG, "policy_line": LONG, "summarizer_model": LONG, "task_id": LONG, "error_detail": LONG}
    CompactionRun.objects.filter(pk__in=[harbour.run.pk, harbour.failed.pk]).update(**given)
    CompactionEvent.objects.filter(pk=harbour.event.pk).update(payload={LONG: LONG})
    return user, harbour


def test_no_word_makes_a_page_wider_than_a_phone(open_page):
    """Folded parts opened: what is in them is read on a phone as well."""
    user, harbour = harbour_of_long_words()
    page = open_page(user, viewport=PHONE)
    wide = {}
    for address in admin_pages.addresses(harbour):
        assert page.goto(address).status == 200, address
        closed = page.evaluate(WIDTH)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        width = max(closed, page.evaluate(WIDTH))
        if width > PHONE["width"]:
            wide[address] = width, page.evaluate(STICKS_OUT)
    assert wide == {}
