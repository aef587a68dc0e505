"""The branch map as a browser draws it, in its own fonts: where it opens, and that nothing lies on anything else."""

from __future__ import annotations

import pytest

from compaction_app import chat
from tests.browser import admin_pages, conversations
from tests.browser.conftest import DESKTOP, PHONE
from tests.trees import chain, start_session

pytestmark = [pytest.mark.browser, pytest.mark.long]

TABLET = {"width": 768, "height": 1024}

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
    """A trunk with many forks of two messages; the fork in the middle is the newest."""
    session = start_session()
    main = chain(session, 400)
    places = [*range(10, 390, 10), 201]
    for place in places:
        chain(session, 2, main[place])
    return session


def page_of(session):
    return admin_pages.url("chatsession_change", session.pk)


@pytest.mark.parametrize("size", [DESKTOP, TABLET], ids=["desktop", "tablet"])
def test_lanes_that_share_a_row_do_not_touch_in_the_fonts_of_a_browser(open_page, size):
    session = start_session()
    main = chain(session, 22)
    for place in (2, 9, 16):
        chain(session, 2, main[place])
    page = open_page(conversations.superuser(), viewport=size)
    page.goto(page_of(session))
    lanes = page.evaluate(LANES)
    assert [number for number, *_ in lanes] == [1, 2, 3, 4]
    assert len({y for _, y, _, _ in lanes}) == 2
    for number, y, left, right in lanes:
        for other, other_y, other_left, other_right in lanes:
            assert number == other or y != other_y or right < other_left or left > other_right
    assert max(right for *_, right in lanes) < float(page.get_attribute(".compaction-map-picture", "width"))


@pytest.mark.parametrize("size", [DESKTOP, TABLET], ids=["desktop", "tablet"])
def test_the_map_opens_where_the_newest_message_is(open_page, forked, size):
    newest = chat.tips(forked)[-1]
    page = open_page(conversations.superuser(), viewport=size)
    page.goto(page_of(forked))
    name = page.get_by_label(f"message {newest.pk} (").last.get_attribute("aria-label")
    number = name.removeprefix("Tip of branch ").split(":")[0]
    assert page.evaluate(IS_IN_SIGHT, number)
    assert not page.evaluate(IS_IN_SIGHT, "1")


def test_without_scripts_every_mark_can_be_reached(open_page, forked):
    page = open_page(conversations.superuser(), viewport=TABLET, java_script_enabled=False)
    page.goto(page_of(forked))
    tip = page.get_by_label("Tip of branch 1:")
    tip.scroll_into_view_if_needed()
    tip.click()
    page.wait_for_url("**/chatmessage/*/change/")


def test_the_map_is_one_tab_stop_in_which_the_arrow_keys_move(open_page, forked):
    page = open_page(conversations.superuser(), viewport=DESKTOP)
    page.goto(page_of(forked))
    marks = page.locator(".compaction-map-picture a")
    assert page.locator('.compaction-map-picture a[tabindex="0"]').count() == 1
    page.locator(".compaction-map-box").focus()
    page.keyboard.press("ArrowRight")
    assert marks.first.evaluate("(mark) => mark === document.activeElement"), (
        "from the box the first key enters the map"
    )
    for key, place in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("End", marks.count() - 1), ("Home", 0)):
        page.keyboard.press(key)
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == marks.nth(place).get_attribute("aria-label")
        assert page.locator(".compaction-map-said").inner_text() == focused
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.compaction-map-picture')") is None


def test_the_whole_map_can_be_fitted_to_the_page(open_page, forked):
    page = open_page(conversations.superuser(), viewport=TABLET)
    page.goto(page_of(forked))
    box = page.locator(".compaction-map-box")
    overflow = "(box) => box.scrollWidth - box.clientWidth"
    assert box.evaluate(overflow) > 0
    page.get_by_role("button", name="Fit to the page").click()
    assert box.evaluate(overflow) <= 0
    assert page.get_by_role("button", name="Fit to the page").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Fit to the page").click()
    assert box.evaluate(overflow) > 0


def test_a_phone_without_scripts_can_open_the_table(open_page, forked):
    page = open_page(conversations.superuser(), viewport=PHONE, java_script_enabled=False)
    page.goto(page_of(forked))
    page.get_by_text("Show as table").click()
    assert page.get_by_role("link", name="Branch 40").is_visible()


def test_a_phone_shows_the_table_instead(open_page, forked):
    page = open_page(conversations.superuser(), viewport=PHONE)
    page.goto(page_of(forked))
    assert not page.locator(".compaction-map-box").is_visible()
    assert page.get_by_text("The map needs a wider screen; here is the table.").is_visible()
    for name in ("Skip the map", "Show as table"):
        assert not page.get_by_text(name).is_visible()
    assert page.get_by_role("link", name="Branch 40").is_visible()
    assert page.get_by_role("link", name="Transcript").first.is_visible()
