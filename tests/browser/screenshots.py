"""Pictures of the pages for people to look at: ``make screenshots``; they land in ``var/screenshots``.

Sessions of 8, 200 and 5,000 messages, on phone and desktop, in light and dark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from tests.browser import admin_pages, conversations
from tests.browser.conftest import DESKTOP, PHONE
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "var" / "screenshots"
SIZES = {"desktop": DESKTOP, "phone": PHONE}
#: More than a screenful or two of a long page tells nothing more.
MOST_PIXELS = 6000
#: Turns between two compactions of a long conversation.
TURNS_PER_GENERATION = 20


def conversation(messages: int, owner: Any) -> tuple[ChatSession, ChatMessage]:
    """A session of so many messages on its longest branch, compacted as it grew, with a fork now and then."""
    window = conversations.SMALL_WINDOW | {"CONTEXT_WINDOW": 16_000, "SUMMARY_TARGET_TOKENS": 800}
    session = chat.start_session(
        owner=owner, title=f"Harbour, {messages:,} messages", system_prompt="Answer like a pilot.", settings=window
    )
    tip: ChatMessage | None = None
    for first in range(0, messages // 2, TURNS_PER_GENERATION):
        count = min(TURNS_PER_GENERATION, messages // 2 - first)
        grown = chat.append_messages(session, tip, conversations.turns(first, count, size=20))
        tip = grown[-1]
        if first % (TURNS_PER_GENERATION * 4) == 0 and len(grown) > 4:
            chat.append_messages(session, grown[2], conversations.tool_turn(first, lines=20))
        if count == TURNS_PER_GENERATION:
            chat.compact(tip)
    assert tip is not None
    return session, tip


def pages_of(session: ChatSession, tip: ChatMessage) -> dict[str, str]:
    found = {
        "session": admin_pages.url("chatsession_change", session.pk),
        "message": admin_pages.url("chatmessage_change", tip.pk),
        "chat": reverse("chat:branch", args=[session.pk, tip.pk]),
    }
    if summary := chat.find_summary(tip):
        found["summary"] = admin_pages.url("chatmessage_change", summary.pk)
        found["run"] = admin_pages.url("compactionrun_change", summary.made_by.get().pk)
    return found


def lists() -> dict[str, str]:
    return {
        name: admin_pages.url(f"{name}_changelist")
        for name in ("chatsession", "chatmessage", "compactionrun", "compactionevent")
    }


def take(page: Any, folder: Path, addresses: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, address in addresses.items():
        page.goto(address)
        size = page.viewport_size
        height = min(page.evaluate("document.documentElement.scrollHeight"), MOST_PIXELS)
        page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
        page.screenshot(path=folder / f"{name}.png")
        page.set_viewport_size(size)


@pytest.mark.parametrize("messages", [8, 200, 5000])
def test_pictures(open_page, messages):
    admin = conversations.superuser()
    session, tip = conversation(messages, admin)
    addresses = pages_of(session, tip) | (lists() if messages == 200 else {})
    for scheme in ("light", "dark"):
        for device, size in SIZES.items():
            page = open_page(admin, color_scheme=scheme, viewport=size)
            take(page, FOLDER / f"{messages}" / f"{device}-{scheme}", addresses)
