"""An admin walks by links alone, with the mouse and with the keyboard, and does what the pages offer."""

import re
from typing import Any

import pytest
from django.urls import reverse

from compaction_app import chat
from tests.browser import conversations
from tests.browser.admin_pages import url
from tests.browser.clicking import follow, go_by_keyboard, press

pytestmark = pytest.mark.browser


@pytest.fixture
def admin() -> Any:
    return conversations.superuser()


def title(page: Any) -> str:
    return page.get_by_role("heading", level=2).first.inner_text()


@pytest.mark.long
def test_from_the_sessions_to_a_summarys_difference_its_run_and_events_and_back(open_page, admin):
    harbour = conversations.harbour()
    older, newer = harbour.generations
    page = open_page()
    page.goto(reverse("admin:index"))
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill(conversations.PASSWORD)
    press(page, "Log in")
    follow(page.locator("#content"), "Chat sessions")
    follow(page.locator("#result_list"), "Harbour")
    follow(page.get_by_role("region", name="Branches"), re.compile(f"^Message {harbour.fork.pk} "))
    assert page.get_by_role("heading", name="What would be sent now").is_visible()
    sent = page.get_by_role("region", name="What the model would be sent here, in order", exact=True)
    assert sent.get_by_role("row").count() == 1 + len(chat.get_context(harbour.fork).messages)
    follow(sent, f"Summary {newer.pk}")
    changed = page.get_by_role("region", name=f"Changes since summary {older.pk}")
    assert changed.locator("ins").last.is_visible()
    assert changed.locator("del").last.is_visible()
    follow(page.get_by_role("region", name="Compactions").first, f"Summary {older.pk}")
    follow(page.get_by_role("region", name="Compactions").first, f"Summary {newer.pk}")
    follow(page, f"Run {harbour.run.pk}")
    follow(page.get_by_role("region", name="Events").first, "Completed")
    follow(page.locator("#content"), f"Run {harbour.run.pk}")
    follow(page.locator("#content"), f"Summary {newer.pk}")
    follow(page.locator("#content"), "Harbour")
    follow(page.get_by_role("navigation", name="Breadcrumbs"), "Chat sessions")
    assert page.locator("#result_list").get_by_role("link", name="Harbour").is_visible()


@pytest.mark.long
def test_the_same_way_with_the_keyboard_alone(open_page, admin):
    harbour = conversations.harbour()
    page = open_page(admin)
    page.goto(url("chatsession_changelist"))
    go_by_keyboard(page, "Harbour")
    go_by_keyboard(page, f"Summary {harbour.generations[1].pk}, compaction 2")
    go_by_keyboard(page, f"Run {harbour.run.pk}")
    go_by_keyboard(page, "Completed")
    assert page.url.endswith(url("compactionevent_change", harbour.event.pk))


@pytest.mark.appearance
@pytest.mark.long
def test_the_page_of_the_api_lists_the_calls(open_page):
    """From this site's own files. An arrow of Swagger's own style is a ``data:`` image, which the policy leaves out."""
    page = open_page(conversations.superuser())
    assert page.goto("/api/v1/docs").status == 200
    page.get_by_text("/api/v1/sessions/{session_id}/compact", exact=True).wait_for()
    page.get_by_text("/api/v1/runs/{run_id}", exact=True).wait_for()
