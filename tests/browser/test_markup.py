"""Markup and scripts in every text that is stored are shown as text, on every page, and never do anything.

Each stored text begins with a mark of its own, so that a page tells which of them it has shown.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.admin.test_single_permissions import SHOWN as SHOWN_TO_VIEWERS
from tests.browser import admin_pages, conversations

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

#: What any page shows of a marked text, however short it cuts it. In JSON the end of a line may stand before it.
SHOWN = re.compile(r"(?:\\n)?(\w+)<script>", re.IGNORECASE)


#: The names of all texts that :func:`conversations.filled_harbour` fills.
MARKS = {"policy_line", "error_detail", *" ".join(SHOWN_TO_VIEWERS.values()).split()}

SHOWN_TEXTS = """() => [
    document.title,
    document.body.innerText,
    ...[...document.querySelectorAll("input, textarea")].map((field) => field.value),
].join("\\n")"""


def marks_on(page: Any) -> set[str]:
    """Marks that this page shows as text; fails where one of them did something."""
    assert page.evaluate("typeof window.pwned") == "undefined", f"{page.url}: {page.evaluate('window.pwned')}"
    assert page.locator('[href^="javascript:" i], [src^="javascript:" i]').count() == 0, page.url
    assert page.locator("[onload], [onerror], [onclick]").count() == 0, page.url
    return {found.lower() for found in SHOWN.findall(page.evaluate(SHOWN_TEXTS))}


def test_what_is_stored_is_shown_as_text_on_every_page_and_does_nothing(open_page):
    """The admin's pages, folded parts opened, and the chat's."""
    user, harbour = conversations.filled_harbour(conversations.marked)
    page = open_page(user)
    seen: dict[str, set[str]] = {}
    more = [admin_pages.url("chatmessage_change", node.pk) for node in (harbour.tool_result, harbour.generations[0])]
    admins = [*admin_pages.addresses(harbour), *more, *admin_pages.plain_texts(harbour)]
    for address in [*admins, *conversations.chat_pages(harbour)]:
        assert page.goto(address).status == 200, address
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        seen[address] = marks_on(page)
    assert seen[admin_pages.url("chatsession_changelist")] >= {"username", "title"}
    assert seen[conversations.chat_pages(harbour)[0]] >= {"title", "content", "tool_name", "summary", "attachment_name"}
    assert set().union(*seen.values()) == MARKS
