"""However long a word, a page is no wider than the screen."""

from __future__ import annotations

import pytest

from tests.browser import admin_pages, conversations
from tests.browser.conftest import PHONE
from tests.browser.test_accessibility import STICKS_OUT

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

#: Wider than a phone.
LONG = "Supercalifragilisticexpialidocious" * 6
WIDTH = "document.documentElement.scrollWidth"


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
