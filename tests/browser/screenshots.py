"""The pictures of docs/admin.md: ``make screenshots``; they land in ``var/screenshots``."""

import json
from typing import Any

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from tests.browser import admin_pages, conversations
from tests.browser.conftest import PHONE
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "var" / "screenshots"
#: How much of a long page is drawn.
MOST_PIXELS = 6000
#: Turns between two compactions of a long conversation.
TURNS_PER_GENERATION = 20
DEMO = REPOSITORY / "project" / "demo_conversation.json"
#: Pixels around what a picture shows.
MARGIN = 6
#: One that is readable in a document's column, and one that shows all columns of a list.
DOCUMENT = {"width": 1200, "height": 900}
WIDE = {"width": 1600, "height": 900}


def long_conversation(owner: Any) -> ChatMessage:
    """The tip of one that was compacted as it grew, often enough to fill a list of runs."""
    window = conversations.SMALL_WINDOW | {"CONTEXT_WINDOW": 16_000, "SUMMARY_TARGET_TOKENS": 800}
    session = chat.start_session(
        owner=owner, title="Harbour, 360 messages", system_prompt="Answer like a pilot.", settings=window
    )
    tip: ChatMessage | None = None
    for first in range(0, 180, TURNS_PER_GENERATION):
        tip = chat.append_messages(session, tip, conversations.turns(first, TURNS_PER_GENERATION, size=20))[-1]
        chat.compact(tip)
    assert tip is not None
    return tip


def cut_out(page: Any, name: str, address: str, first: str, last: str, most: int = 1100) -> None:
    """A picture from the top of one part of a page to the bottom of another."""
    page.goto(address)
    page.wait_for_load_state()
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": MOST_PIXELS})
    boxes = [page.locator(part).first.bounding_box() for part in (first, last)]
    top, bottom = boxes[0]["y"], boxes[1]["y"] + boxes[1]["height"]
    left = max(min(box["x"] for box in boxes) - MARGIN, 0)
    clip = {"x": left, "y": max(top - MARGIN, 0), "width": size["width"] - left}
    FOLDER.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=FOLDER / f"{name}.png", clip=clip | {"height": min(bottom - top + 2 * MARGIN, most)})
    page.set_viewport_size(size)


def lighthouse() -> ChatSession:
    """The demo's conversation with all its branches, compacted now and then as it was written."""
    demo = json.loads(DEMO.read_text())
    session = chat.start_session(
        title=demo["title"], model=demo["model"], system_prompt=demo["system_prompt"],
        settings={"CONTEXT_WINDOW": 4000, "RESERVED_TOKENS": 500, "SUMMARY_TARGET_TOKENS": 500, "COOLDOWN_SECONDS": 0},
    )  # fmt: skip
    kept = ("role", "content", "name", "tool_calls", "tool_call_id")
    stored: dict[str, ChatMessage] = {}
    compacted_at = 0
    for number, row in enumerate(demo["messages"]):
        parent = stored.get(row["parent"])
        if parent is not None and row["role"] == "user" and number - compacted_at >= TURNS_PER_GENERATION * 2:
            chat.compact(parent)
            compacted_at = number
        stored[row["id"]] = chat.append_message(session, parent, **{key: row[key] for key in kept if row.get(key)})
    return session


def test_pictures_of_the_documents(open_page):
    """Of the demo's lighthouse, and of runs; copied to docs/ when they are good."""
    admin = conversations.superuser()
    session = lighthouse()
    keeper = session.messages.messages().latest("id")
    conversations.failed_run(long_conversation(admin))
    change = "chatmessage_change"
    page = open_page(admin, viewport=DOCUMENT)
    newest = chat.find_summary(keeper)
    assert newest is not None
    here, summary = admin_pages.url(change, keeper.pk), admin_pages.url(change, newest.pk)
    cut_out(page, "context", here, "section:has(#compaction-context)", "section:has(#compaction-context)", 800)
    cut_out(page, "summary", summary, "section:has(#compaction-generations)", "section:has(#compaction-changed)", 800)
    runs = admin_pages.url("compactionrun_changelist")
    wide = open_page(admin, viewport=WIDE)
    cut_out(wide, "runs", runs, "#changelist", "#changelist", 740)
    phone = open_page(admin, viewport=PHONE, has_touch=True, is_mobile=True)
    branches = admin_pages.url("chatsession_change", session.pk)
    cut_out(phone, "phone", branches, ".compaction-branches", ".compaction-branches", 800)
