"""The branch map as a browser draws it, in its own fonts: where it opens, and that nothing lies on anything else."""

from __future__ import annotations

import pytest

from compaction_app import chat
from tests.browser import admin_pages, conversations
from tests.browser.conftest import DESKTOP, PHONE
from tests.trees import chain, start_session

pytestmark = [pytest.mark.browser, pytest.mark.long]

#: Of each lane its number, the y of its line, and the pixels from the left to the right end of all that is drawn.
LANES = """() => [...document.querySelectorAll(".compaction-map-lane")].map((lane) => {
    const box = lane.getBBox(), y = lane.transform.baseVal[0].matrix.f;
    const number = lane.querySelector(".compaction-map-number").textContent;
    return [Number(number), y, box.x, box.x + box.width];
})"""
#: Whether all of a branch's label stands within the box that scrolls.
IS_IN_SIGHT = """(number) => {
    const numbers = [...document.querySelectorAll(".compaction-map-label .compaction-map-number")];
    const label = numbers.find((found) => found.textContent === number).closest(".compaction-map-label");
    const box = document.querySelector(".compaction-map-box").getBoundingClientRect();
    const {left, right} = label.getBoundingClientRect();
    return box.left <= left && right <= box.right;
}"""


@pytest.fixture
def forked():
    """A trunk with twenty forks of two messages; the fork in the middle is the newest."""
    session = start_session()
    main = chain(session, 400)
    places = [*range(10, 390, 20), 201]
    for place in places:
        chain(session, 2, main[place])
    return session


def page_of(session):
    return admin_pages.url("chatsession_change", session.pk)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_lanes_that_share_a_row_do_not_touch_in_the_fonts_of_a_browser(open_page, forked, size):
    page = open_page(conversations.superuser(), viewport=size)
    page.goto(page_of(forked))
    lanes = page.evaluate(LANES)
    assert [number for number, *_ in lanes] == list(range(1, 22))
    assert len({y for _, y, _, _ in lanes}) == 2
    for number, y, left, right in lanes:
        for other, other_y, other_left, other_right in lanes:
            assert number == other or y != other_y or right < other_left or left > other_right
    assert max(right for *_, right in lanes) < float(page.get_attribute(".compaction-map-picture", "width"))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_map_opens_where_the_newest_message_is(open_page, forked, size):
    newest = chat.tips(forked)[-1]
    page = open_page(conversations.superuser(), viewport=size)
    page.goto(page_of(forked))
    name = page.get_by_label(f"message {newest.pk} (").last.get_attribute("aria-label")
    number = name.removeprefix("Tip of branch ").split(":")[0]
    assert page.evaluate(IS_IN_SIGHT, number)
    assert not page.evaluate(IS_IN_SIGHT, "1")


def test_without_scripts_every_mark_can_be_reached(open_page, forked):
    page = open_page(conversations.superuser(), viewport=PHONE, java_script_enabled=False)
    page.goto(page_of(forked))
    tip = page.get_by_label("Tip of branch 1:")
    tip.scroll_into_view_if_needed()
    tip.click()
    page.wait_for_url("**/chatmessage/*/change/")
