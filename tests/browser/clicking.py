"""Links and buttons by their names, each followed to the page that it leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

    from playwright.sync_api import Locator, Page

#: Nobody presses the Tab key this often to get anywhere.
MOST_TABS = 150

FOCUSED = """() => {
    const node = document.activeElement;
    const name = node.getAttribute("aria-label") || node.innerText || node.value || "";
    return [name.trim().replace(/\\s+/g, " "), node.matches(":focus-visible")];
}"""


def follow(where: Page | Locator, name: str | re.Pattern[str]) -> None:
    """Click the first link of this name, here or in a part of the page, and wait for what it leads to."""
    _click(where, "link", name)


def press(where: Page | Locator, name: str) -> None:
    """Press the button of this name and wait for the answer."""
    _click(where, "button", name)


def _click(where: Page | Locator, role: str, name: str | re.Pattern[str]) -> None:
    page = getattr(where, "page", where)
    target = where.get_by_role(role, name=name, exact=True).first
    with page.expect_navigation():
        target.click()


def go_by_keyboard(page: Page, name: str) -> None:
    """Tab to what is called so, or begins so where the name ends in a space, and press Enter."""
    tab_to(page, name)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def tab_to(page: Page, name: str) -> None:
    passed = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused, is_visible = page.evaluate(FOCUSED)
        if focused == name or (name.endswith(" ") and focused.startswith(name)):
            assert is_visible, f"{name!r} has the focus and does not show it"
            return
        passed.append(focused[:60])
    raise AssertionError(f"{name!r} was not met on the way: {passed}")
