"""A person at the example's chat page: writes, edits, asks again, goes between variants, compacts."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.values import RunStatus
from tests.browser import conversations
from tests.browser.clicking import follow, press

pytestmark = pytest.mark.browser


@pytest.fixture
def marit() -> Any:
    return get_user_model().objects.create_user("marit", password=conversations.PASSWORD)


def messages_of(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("article .text").all_inner_texts()]


def send(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    press(page, "Send")


def test_a_person_signs_in_writes_edits_asks_again_and_goes_between_variants(open_page, marit):
    page = open_page()
    page.goto("/")
    page.get_by_label("Username").fill("marit")
    page.get_by_label("Password").fill(conversations.PASSWORD)
    press(page, "Sign in")
    page.get_by_label("Title").fill("Lighthouse")
    press(page, "Start")
    send(page, "Who keeps the lamp?")
    question, answer = messages_of(page)
    assert question == "Who keeps the lamp?"
    page.get_by_role("link", name="Edit message 1").click()
    page.get_by_role("textbox", name="Edited message").fill("Who keeps the lamp at night?")
    press(page, "Send edited message")
    assert messages_of(page)[0] == "Who keeps the lamp at night?"
    follow(page, "Variant 1")
    assert messages_of(page) == ["Who keeps the lamp?", answer]
    press(page, "Regenerate message 2")
    assert page.get_by_label("variant 2 of 2").count() == 1
    session = marit.chat_sessions.get()
    assert [len(chat.get_branch(tip)) for tip in chat.tips(session)] == [2, 2, 2]


@pytest.mark.parametrize("scripts", [True, False])
def test_edit_puts_the_cursor_into_the_box_of_the_message(open_page, marit, scripts):
    from playwright.sync_api import expect

    session = chat.start_session(owner=marit)
    chat.append_messages(session, None, conversations.turns(1, 12))
    page = open_page(marit, java_script_enabled=scripts)
    page.goto(reverse("chat:session", args=[session.pk]))
    follow(page, "Edit message 5")
    page.wait_for_load_state()
    box = page.get_by_role("textbox", name="Edited message")
    expect(box).to_be_focused()
    expect(box).to_be_in_viewport(ratio=1)
    expect(page.locator("article:has(form.edit) header")).to_be_in_viewport(ratio=1)


def test_compact_is_followed_to_its_end_and_listed(open_page, marit):
    """The page watches the open run by itself, and says when a worker has carried it out."""
    session = chat.start_session(owner=marit, settings=conversations.SMALL_WINDOW)
    chat.append_messages(session, None, conversations.turns(1, 6))
    page = open_page(marit)
    page.goto(reverse("chat:session", args=[session.pk]))
    send(page, "/compact Keep every number of a berth.")
    page.get_by_text("Older messages will be summarized soon").wait_for()
    run = CompactionRun.objects.get()
    assert (run.instructions, run.status) == ("Keep every number of a berth.", RunStatus.READY)
    assert compact_branch(run.pk) == RunStatus.SUCCEEDED
    page.get_by_text("Compaction finished.").wait_for()
    follow(page, "Reload the conversation")
    page.locator("summary", has_text="summarized").click()
    page.get_by_text("The model sees this summary instead of").wait_for()
    send(page, "/compactions")
    rows = page.get_by_role("region", name="Compactions").get_by_role("row")
    assert rows.count() == 2
    assert "in use here" in rows.nth(1).inner_text()
