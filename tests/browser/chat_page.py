"""What a person does at the example's chat page, and what is read there."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatSession
from tests.browser import conversations


def session_of(marit: Any, turns: int = 0, **fields: Any) -> ChatSession:
    session = chat.start_session(owner=marit, title="Lighthouse", **fields)
    if turns:
        chat.append_messages(session, None, conversations.turns(1, turns))
    return session


def go(page: Any, session: ChatSession) -> None:
    page.goto(f"{reverse('chat:session', args=[session.pk])}#latest")


def messages_of(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("article .text").all_inner_texts()]


def box(page: Any) -> Any:
    return page.get_by_role("textbox", name="Your message")


def send(page: Any, text: str) -> None:
    box(page).fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def told(page: Any, *texts: str) -> None:
    """Wait until exactly these texts are on the page, and none of them is under way."""
    from playwright.sync_api import expect

    expect(page.locator("article:not(.streaming) .text")).to_have_text(list(texts))
    expect(page.locator(".streaming")).to_have_count(0)
