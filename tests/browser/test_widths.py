"""However long a word, a page is no wider than the screen."""

from __future__ import annotations

import pytest

from tests.admin.records import reply_to
from tests.browser import admin_pages, conversations
from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.test_accessibility import STICKS_OUT

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

#: Wider than a phone.
LONG = "Supercalifragilisticexpialidocious" * 6
WIDTH = "document.documentElement.scrollWidth"
#: Lists, contexts and events that have more than is visible.
SCROLLED = """[...document.querySelectorAll('.results, .compaction-context, .compaction-events')]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.className)"""


def test_no_word_makes_a_page_wider_than_a_phone(open_page):
    """Folded parts opened: what is in them is read on a phone as well."""
    _, harbour = conversations.filled_harbour(lambda _name: LONG)
    # The one who looks is named on every page by Django itself.
    page = open_page(conversations.superuser(), viewport=PHONE)
    wide = {}
    for address in admin_pages.addresses(harbour):
        assert page.goto(address).status == 200, address
        closed = page.evaluate(WIDTH)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        width = max(closed, page.evaluate(WIDTH))
        if width > PHONE["width"]:
            wide[address] = width, page.evaluate(STICKS_OUT)
    assert wide == {}


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_column_is_hidden_at_the_side(open_page, settings, language):
    """On a phone that is true of all but the lists of messages and summaries, whose numbers need their headings."""
    settings.LANGUAGE_CODE = language
    admin = conversations.superuser("anna.keller")
    harbour = conversations.harbour(owner=admin)
    url, lists = admin_pages.url, ("chatsession", "compactionrun", "compactionevent")
    addresses = [url(f"{name}_changelist") for name in lists]
    addresses += [url("chatmessage_change", reply_to(harbour.tip).pk), url("compactionrun_change", harbour.run.pk)]
    of_messages = [
        url("chatmessage_changelist", kind="summary"),
        url("chatmessage_changelist", session=harbour.session.pk),
    ]
    for size, pages in ((PHONE, addresses), (DESKTOP, addresses + of_messages)):
        page = open_page(admin, viewport=size)
        for address in pages:
            assert page.goto(address).status == 200, address
            assert page.evaluate(SCROLLED) == [], (address, size)
