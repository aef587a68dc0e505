"""An admin walks by links alone, with the mouse and with the keyboard, and does what the pages offer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.values import RunStatus
from tests.browser import conversations
from tests.browser.admin_pages import url
from tests.browser.clicking import follow, go_by_keyboard, press

pytestmark = pytest.mark.browser


@pytest.fixture
def admin() -> Any:
    return conversations.superuser()


def told(page: Any) -> str:
    """What the page says has come of the last thing that was asked for."""
    return " ".join(page.locator(".messagelist li").all_inner_texts())


def title(page: Any) -> str:
    return page.get_by_role("heading", level=2).first.inner_text()


# -- walking --------------------------------------------------------------------------------------------------


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


def test_the_same_way_with_the_keyboard_alone(open_page, admin):
    harbour = conversations.harbour()
    page = open_page(admin)
    page.goto(url("chatsession_changelist"))
    go_by_keyboard(page, "Harbour")
    go_by_keyboard(page, f"Summary {harbour.generations[1].pk}, compaction 2")
    go_by_keyboard(page, f"Run {harbour.run.pk}")
    go_by_keyboard(page, "Completed")
    assert page.url.endswith(url("compactionevent_change", harbour.event.pk))


# -- doing ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_branch_is_compacted_with_instructions_and_a_failed_run_is_tried_again(open_page, admin):
    harbour = conversations.harbour()
    page = open_page(admin)
    page.goto(url("chatmessage_change", harbour.tip.pk))
    follow(page, "Compact now")
    page.get_by_label("Instructions").fill("Keep the tides.")
    press(page, "Compact now")
    run = CompactionRun.objects.latest("id")
    # No broker is there for the pages of a test: that is told, and the run waits.
    assert told(page).startswith(f"Opened: Run {run.pk} (waiting).")
    assert (run.instructions, run.tip_id, run.status) == ("Keep the tides.", harbour.tip.pk, RunStatus.READY)
    follow(page.locator(".messagelist"), f"Run {run.pk} (waiting)")
    assert compact_branch(run.pk) == RunStatus.SUCCEEDED
    page.reload()
    run.refresh_from_db()
    assert "Succeeded" in page.locator("#content").inner_text()
    follow(page.locator("#content"), f"Summary {run.summary_id}")
    longer = chat.append_messages(harbour.session, harbour.tip, conversations.turns(40, 6))[-1]
    failed = conversations.failed_run(longer)

    page.goto(url("compactionrun_changelist", status__exact="failed"))
    follow(page.locator("#result_list"), f"Run {failed.pk}")
    follow(page, "Retry")
    press(page, "Retry")
    again = CompactionRun.objects.latest("id")
    assert (again.pk > failed.pk, again.tip_id) == (True, longer.pk)
    assert f"Run {again.pk}" in told(page)
