"""Whatever fails, the chat page says one sentence, with its script and without, and what was typed or chosen stays."""

from __future__ import annotations

import re
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.api.codes import SENTENCES, TOO_LONG, Code
from compaction_app.models import ChatMessage, MessagePin
from compaction_app.testing import steps
from compaction_app.values import ErrorCode
from project.chat.words import FAILURES
from tests.browser import conversations
from tests.browser.chat_page import box, go, send, session_of
from tests.project.chat_page.pages import WINDOW
from tests.steps import insufficient_quota, malformed, stream_of, unauthorized

pytestmark = pytest.mark.browser

#: What the model's endpoint does, and the row of the table that is told.
OF_MODELS = [
    (steps.server_error(), Code.MODEL),
    (steps.rate_limited(), Code.MODEL),
    (steps.rate_limited(7), "The model is asked too much just now. Try again in 7 s."),
    (malformed(), Code.MODEL),
    (steps.reply(""), Code.MODEL),
    (stream_of("Half", then=steps.hang(0)), Code.MODEL),
    (steps.hang(), SENTENCES[ErrorCode.TIMEOUT]),
    (insufficient_quota(), SENTENCES[ErrorCode.QUOTA]),
    (unauthorized(), SENTENCES[ErrorCode.AUTHENTICATION]),
    (steps.bad_request("Input is too long for requested model."), SENTENCES[ErrorCode.INPUT_TOO_LARGE]),
]
LONG = "word " * 3000


def told(page: Any) -> list[str]:
    """Why nothing came of what was pressed: in a notice, at the conversation, or on a page of its own."""
    found = page.locator(".notice.error, #state .bad, main .narrow h1 + p")
    found.first.wait_for()
    return [text.strip() for text in found.all_inner_texts()]


@pytest.mark.long
def test_each_failure_is_the_same_sentence_with_the_script_and_without(open_page, marit, endpoint, settings):
    settings.CHAT_TIMEOUT_SECONDS = 0.5
    pages = [open_page(marit, java_script_enabled=scripts, expected_errors=True) for scripts in (True, False)]

    def check(row: str, *, text: str = "Anybody there?", meanwhile: Any = None, **fields: Any) -> None:
        for page in pages:
            settings.CHAT_MODELS = ["scripted"]
            session = session_of(marit, **fields)
            go(page, session)
            if meanwhile:
                meanwhile(page, session)
            send(page, text)
            assert told(page) == [FAILURES.get(row, row)], page
            box(page).or_(page.get_by_role("link", name="Your conversations")).first.wait_for()

    for step, row in OF_MODELS:
        endpoint.script(default=step)
        check(row)
    assert ChatMessage.objects.count() == 2 * len(OF_MODELS), "each question is kept, and no reply"
    check(TOO_LONG, text=LONG, settings=WINDOW)
    check(Code.CONFIGURATION, system_prompt=LONG, settings=WINDOW)
    check(Code.NOT_FOUND, meanwhile=lambda page, session: chat.delete_session(session))
    check(Code.CSRF_FAILED, meanwhile=lambda page, session: page.context.clear_cookies(name="csrftoken"))
    settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "tests.browser.test_chat_failures.told"}
    check(Code.REDACTION_FAILED)

    def break_down(page: Any, session: Any) -> None:
        settings.CHAT_MODELS = None

    check(Code.INTERNAL, meanwhile=break_down)


def test_no_button_loses_a_file_or_a_draft_and_offline_each_says_so(open_page, marit, endpoint):
    from playwright.sync_api import expect

    session = session_of(marit, 12, settings=conversations.SMALL_WINDOW)
    tip = chat.tips(session)[0]
    chat.compact(tip)
    page = open_page(marit, expected_errors=True)
    go(page, session)
    box(page).fill("Not sent yet")
    page.locator("[type=file]").set_input_files({"name": "tide.txt", "mimeType": "text/plain", "buffer": b"High at 6."})
    last = page.locator("article.user").last
    last.get_by_role("link", name=re.compile("^Edit")).click()
    edited = page.get_by_role("textbox", name="Edited message")
    edited.fill("Half an edit")

    reply = page.locator("article.assistant").last
    menu, title = reply.locator(".more > summary"), page.get_by_role("button", name="Rename, download or delete")

    def press_all(then: Any) -> None:
        for opened, name, done in (
            (menu, "Pin message 24", reply.locator(".tag", has_text="pinned")),
            (None, "undo", page.get_by_text("The summary is undone")),
            (title, "Rename", page.get_by_role("heading", name="Lighthouse")),
        ):
            if opened:
                opened.click()
            page.get_by_role("button", name=name, exact=name != "Pin message 24").click()
            then(done)

    def says_so(_done: Any = None) -> None:
        expect(page.locator(".notice.error")).to_have_text(re.compile("cannot be reached"))
        page.evaluate("document.querySelector('#notices').replaceChildren()")

    def kept(done: Any) -> None:
        expect(done).to_be_visible()
        expect(page.locator(".more[open], .about:popover-open")).to_have_count(0)
        assert box(page).input_value() == "Not sent yet"
        assert edited.input_value() == "Half an edit"
        assert page.locator(".chosen li").all_inner_texts() == ["tide.txt\n1 kB\n×"]

    page.context.set_offline(True)
    press_all(says_so)
    for press in (
        last.get_by_role("button", name="Send edited message"),
        reply.get_by_role("button", name=re.compile("^Regenerate")),
        page.get_by_role("link", name=re.compile("^Edit message")).last,
        page.get_by_role("button", name="Send", exact=True),
    ):
        press.click()
        says_so()
    page.context.set_offline(False)
    assert not MessagePin.objects.exists()
    press_all(kept)
    assert chat.find_summary(tip) is None
    last.get_by_role("link", name="Cancel").click()
    # Until the page is there, what is pressed is put off with a notice.
    expect(page.locator("form.edit")).to_have_count(0)
    binary = {"name": "tide.bin", "mimeType": "application/octet-stream", "buffer": b"\0"}
    page.locator("[type=file]").set_input_files([binary, {**binary, "name": "tide.txt", "buffer": b"High at 6."}])
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".composer .error")).to_contain_text("neither a text nor a picture")
    assert page.locator(".chosen bdi").all_inner_texts() == ["tide.bin", "tide.txt"]
