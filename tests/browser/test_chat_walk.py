"""A person at the example's chat page, with a real server and a scripted model behind it."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.values import RunStatus
from tests.browser import conversations
from tests.browser.chat_page import box, go, messages_of, send, session_of, told
from tests.browser.clicking import follow, go_by_keyboard, press, tab_to
from tests.browser.conftest import PHONE, session_cookie
from tests.steps import stream_of

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("endpoint")]


@pytest.fixture
def gate(endpoint) -> Any:
    """The model writes the beginning of a reply, and the rest when it is set."""
    event = threading.Event()

    def rest(exchange: Any) -> None:
        event.wait(30)
        stream_of(" **stormy** night.", usage={})(exchange)

    endpoint.script(default=stream_of("It was *a dark* and", then=rest))
    yield event
    event.set()


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_person_signs_in_writes_edits_asks_again_and_goes_between_variants(open_page, marit, endpoint, scripts):
    """With the page's script and without it."""
    from playwright.sync_api import expect

    endpoint.script([steps.reply(f"Answer {number}.") for number in (1, 2, 3, 4)])
    page = open_page(java_script_enabled=scripts)
    page.goto("/")
    page.get_by_label("Username").fill("marit")
    page.get_by_label("Password").fill(conversations.PASSWORD)
    press(page, "Sign in")
    send(page, "Who keeps the lamp?")
    told(page, "Who keeps the lamp?", "Answer 1.")
    send(page, "And at night?")
    told(page, "Who keeps the lamp?", "Answer 1.", "And at night?", "Answer 2.")
    page.get_by_role("link", name="Edit message 3").click()
    edited = page.get_by_role("textbox", name="Edited message")
    expect(edited).to_be_focused()
    expect(edited).to_be_in_viewport(ratio=1)
    edited.fill("And by day?")
    page.get_by_role("button", name="Send edited message").click()
    told(page, "Who keeps the lamp?", "Answer 1.", "And by day?", "Answer 3.")
    page.get_by_role("link", name="Variant 1").click()
    told(page, "Who keeps the lamp?", "Answer 1.", "And at night?", "Answer 2.")
    page.get_by_role("button", name="Regenerate message 2").click()
    told(page, "Who keeps the lamp?", "Answer 4.")
    expect(page.get_by_label("variant 2 of 2")).to_be_visible()
    session = marit.chat_sessions.get()
    assert session.title == "Who keeps the lamp?"
    assert sorted(len(chat.get_branch(tip)) for tip in chat.tips(session)) == [2, 4, 4]


@pytest.mark.long
def test_a_reply_is_seen_as_it_comes_also_after_a_reload_and_in_another_tab(open_page, marit, gate):
    """As the page has it afterwards, Markdown included."""
    session = session_of(marit)
    page, other = open_page(marit), open_page(marit)
    go(page, session)
    send(page, "Begin.")
    page.locator(".streaming em", has_text="a dark").wait_for()
    page.reload()
    page.locator(".streaming", has_text="It was a dark and").wait_for()
    go(other, session)
    other.locator(".streaming", has_text="It was a dark and").wait_for()
    gate.set()
    for one in (page, other):
        told(one, "Begin.", "It was a dark and stormy night.")
        assert one.locator(".markdown strong").inner_text() == "stormy"
    assert ChatMessage.objects.count() == 2


def test_of_a_reply_that_breaks_off_what_was_read_stays_and_says_that_it_is_not_stored(open_page, marit, endpoint):
    def broken(exchange: Any) -> None:
        raise ConnectionResetError

    endpoint.script(default=stream_of("It was a **dark** and", then=broken))
    page = open_page(marit)
    go(page, session_of(marit))
    send(page, "Begin.")
    lost = page.locator(".lost", has_text="not stored")
    lost.locator("strong", has_text="dark").wait_for()
    assert page.get_by_role("alert").count() == 1
    assert ChatMessage.objects.count() == 1


def test_stop_keeps_what_came(open_page, marit, gate):
    from playwright.sync_api import expect

    page = open_page(marit)
    go(page, session_of(marit, 1))
    box(page).fill("Begin.")
    box(page).press("Enter")
    page.locator(".streaming", has_text="It was a dark and").wait_for()
    box(page).fill("Something for later")
    press_stop = page.get_by_role("button", name="Stop")
    press_stop.click()
    page.get_by_text("Regenerate message 4").wait_for()
    page.locator("#announced", has_text="The reply is stopped.").wait_for(state="attached")
    assert page.locator(".tag.stopped").count() == 1
    assert messages_of(page)[-1] == "It was a dark and"
    assert box(page).input_value() == "Something for later"
    expect(box(page)).to_be_focused()
    reply = ChatMessage.objects.latest("id")
    assert (reply.content, reply.finish_reason) == ("It was *a dark* and", "stopped")


@pytest.mark.long
def test_a_reply_taller_than_the_window_comes_whole_or_breaks_off(open_page, marit, endpoint):
    tall = "A line.\n\n" * 80
    endpoint.script([stream_of(tall), stream_of(tall, then=steps.hang(0))])
    page = open_page(marit)
    go(page, session_of(marit))
    send(page, "Tell all of it.")
    page.locator("#announced", has_text="The reply is complete.").wait_for(state="attached")
    assert page.locator(".markdown p").count() == 80
    send(page, "And the rest.")
    page.locator(".notice.error", has_text="No whole answer came").wait_for()
    page.get_by_role("button", name="Retry").wait_for()


@pytest.mark.long
def test_with_the_model_down_the_message_is_kept_and_asked_again(open_page, marit, endpoint):
    endpoint.script([steps.server_error(), stream_of("Half", then=steps.hang(0)), steps.reply("Back again.")])
    page = open_page(marit, expected_errors=True)
    go(page, session_of(marit))
    send(page, "Anybody there?")
    page.locator(".notice", has_text="model").wait_for()
    page.get_by_role("button", name="Retry").click()
    page.locator(".lost", has_text="Half").wait_for()
    page.get_by_role("button", name="Retry").click()
    told(page, "Anybody there?", "Back again.")


def test_the_window_fills_and_a_summary_comes_and_goes(open_page, marit, broker):
    """No worker runs until the run is carried out here: writing goes on meanwhile."""
    session = session_of(marit, 4, settings=conversations.SMALL_WINDOW)
    page = open_page(marit)
    go(page, session)
    number = 0
    while not page.locator("[data-open]").count():
        number += 1
        send(page, f"{number}: " + "berths and ships " * 60)
        page.get_by_text(f"Regenerate message {8 + 2 * number}").wait_for()
    page.get_by_text("Older messages will be summarized soon. You can go on writing.").wait_for()
    before = page.locator("button.gauge").inner_text()
    run = CompactionRun.objects.get()
    assert compact_branch(run.pk) == RunStatus.SUCCEEDED
    page.locator("summary", has_text="are summarized · show").click()
    page.get_by_text("The model reads this in place of the").wait_for()
    assert page.locator("button.gauge").inner_text() != before
    page.get_by_role("button", name="undo").click()
    page.get_by_text("The summary is undone").wait_for()
    assert page.locator(".cut summary").count() == 0
    # The page waits already, for the summary in place of the one that was undone.
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        send(page, "/compact Keep every number of a berth.")
    page.locator("#state [data-open]").wait_for()
    run = CompactionRun.objects.latest("id")
    assert run.instructions == "Keep every number of a berth."
    CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.FAILED, error_code="quota")
    told_why = "could not be summarized: the provider's quota is used up."
    page.locator("#state", has_text=told_why).wait_for()
    page.get_by_role("button", name="Try again").click()
    page.locator("#state [data-open]").wait_for()
    assert compact_branch(CompactionRun.objects.latest("id").pk) == RunStatus.SUCCEEDED
    page.locator("summary", has_text="are summarized · show").wait_for()
    send(page, "/compactions")
    rows = page.get_by_role("region", name="Summaries").get_by_role("row")
    rows.nth(2).wait_for()
    assert "in use here" in rows.nth(1).inner_text()


@pytest.mark.long
def test_drafts_files_copies_and_any_script(open_page, marit, endpoint):
    endpoint.script(default=steps.reply("Try:\n\n```\na < b\n```"))
    page = open_page(marit, permissions=["clipboard-read", "clipboard-write"])
    go(page, session_of(marit))
    long = "0123456789 " * 17_000
    box(page).fill(long)
    page.reload()
    assert box(page).input_value() == long, "a draft survives"
    box(page).press("Enter")
    page.get_by_text("Regenerate message 2").wait_for()
    text = "שלום 🌊\n你好，灯塔"
    box(page).fill("שלום 🌊")
    box(page).press("Shift+Enter")
    page.keyboard.insert_text("你好，灯塔")
    page.locator("[type=file]").set_input_files({"name": "tide.txt", "mimeType": "text/plain", "buffer": b"High at 6."})
    page.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File(["Low at 12."], "dropped.txt"));
        const paste = new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
        document.querySelector("textarea").dispatchEvent(paste);
    }""")
    assert page.locator(".chosen li").all_inner_texts() == ["tide.txt\n1 kB\n×", "dropped.txt\n1 kB\n×"]
    box(page).press("Enter")
    page.get_by_text("Regenerate message 4").wait_for()
    assert box(page).input_value() == ""
    page.reload()
    assert box(page).input_value() == "", "what was sent is no draft"
    for button, copied in (("Copy message 4", "Try:\n\n```\na < b\n```"), ("Copy", "a < b\n")):
        page.get_by_role("button", name=button, exact=True).last.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == copied
        page.get_by_role("button", name="Copied").wait_for(state="detached")
    first, second = ChatMessage.objects.filter(role="user").order_by("id")
    assert first.content == long
    files = '<file name="tide.txt">\nHigh at 6.\n</file>\n\n<file name="dropped.txt">\nLow at 12.\n</file>'
    assert second.content == f"{text}\n\n{files}"
    assert page.locator("article.file summary, details.file summary").all_inner_texts() == ["tide.txt", "dropped.txt"]


@pytest.mark.long
def test_with_the_keyboard_alone_the_place_is_kept(open_page, marit, endpoint):
    from playwright.sync_api import expect

    endpoint.script(default=steps.reply("An answer."))
    page = open_page(marit)
    page.goto("/chat/")
    expect(box(page)).to_be_focused()
    page.keyboard.type("/compact")
    page.keyboard.press("Enter")
    page.get_by_text("There is nothing to summarize yet.").wait_for()
    go(page, session_of(marit, 1))
    page.get_by_role("link", name="Edit message 1").focus()
    page.keyboard.press("Enter")
    edited = page.get_by_role("textbox", name="Edited message")
    expect(edited).to_be_focused()
    assert edited.evaluate("(box) => box.selectionStart === box.value.length && box.selectionStart > 0")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Edit message 1")).to_be_focused()
    page.keyboard.press("Enter")
    expect(edited).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("#announced", has_text="The reply is complete.").wait_for(state="attached")
    expect(page.locator("article.user")).to_be_focused()
    page.get_by_role("link", name="Variant 1").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Variant 2")).to_be_focused()
    page.get_by_role("button", name="Regenerate message 2").focus()
    page.keyboard.press("Enter")
    page.locator("article.assistant").get_by_label("variant 2 of 2").wait_for()
    expect(page.locator("article.assistant")).to_be_focused()
    more = page.locator("article.assistant .more > summary")
    more.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pin message 2").focus()
    page.keyboard.press("Enter")
    page.locator("article.assistant .tag", has_text="pinned").wait_for()
    expect(more).to_be_focused()
    page.get_by_role("button", name="How full").click()
    page.get_by_text("Of what the model can read").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Of what the model can read")).to_be_hidden()


@pytest.mark.long
def test_with_the_tab_key_alone_one_edits_stops_goes_between_branches_and_searches(open_page, marit, gate):
    session = session_of(marit, 1)
    page = open_page(marit)
    go(page, session)
    tab_to(page, "Edit message 1")
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Edited message").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("And at night?")
    page.keyboard.press("Enter")
    page.locator(".streaming", has_text="It was a dark and").wait_for()
    tab_to(page, "Stop")
    page.keyboard.press("Enter")
    page.locator("#announced", has_text="The reply is stopped.").wait_for(state="attached")
    tab_to(page, "Variant 1")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Variant 2").wait_for()
    assert messages_of(page)[-1].startswith("Answer 1:")
    tab_to(page, "Search titles and messages")
    page.keyboard.type("dark")
    page.locator("#sessions .around", has_text="a dark").wait_for()
    go_by_keyboard(page, "Lighthouse ")
    assert messages_of(page) == ["And at night?", "It was a dark and"]


def test_files_are_seen_before_they_are_sent_and_the_script_speaks_german(open_page, marit):
    from playwright.sync_api import expect

    page = open_page(marit, locale="de-DE", expected_errors=True)
    go(page, session_of(marit))
    picture = {"name": "dach.png", "mimeType": "image/png", "buffer": page.screenshot()}
    text = {"name": "tide.txt", "mimeType": "text/plain", "buffer": b"High at 6."}
    page.locator("[type=file]").set_input_files([picture, text])
    expect(page.locator(".chosen li", has_text="dach.png").locator("canvas")).to_be_visible()
    page.get_by_role("button", name="tide.txt entfernen").click()
    page.context.set_offline(True)
    page.get_by_role("button", name="Senden", exact=True).click()
    page.get_by_text("Die Website ist nicht erreichbar.").wait_for()
    page.context.set_offline(False)
    page.get_by_role("button", name="Senden", exact=True).click()
    page.get_by_role("img", name="dach.png").wait_for()
    assert [one["name"] for one in ChatMessage.objects.get(role="user").attachments] == ["dach.png"]


@pytest.mark.long
def test_a_draft_is_its_users_and_gone_when_they_sign_out(open_page, marit, address):
    page, start = open_page(marit), reverse("chat:sessions")
    page.goto(start)
    box(page).fill("My salary is")
    for user, draft in ((get_user_model().objects.create_user("ben"), ""), (marit, "My salary is")):
        page.context.add_cookies([session_cookie(user, address)])
        page.goto(start)
        assert box(page).input_value() == draft
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Password").wait_for()
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.long
def test_a_draft_is_sent_once(open_page, marit, gate):
    page = open_page(marit)
    go(page, session_of(marit))
    box(page).fill("Begin.")
    other = page.context.new_page()
    other.goto(page.url)
    assert box(other).input_value() == "Begin."
    box(page).press("Enter")
    page.locator(".streaming", has_text="It was a dark and").wait_for()
    other.wait_for_function("document.querySelector('#message-content').value === ''")
    box(page).fill("Next.")
    box(page).press("Enter")
    page.get_by_text("The reply is still coming.").wait_for()
    assert box(page).input_value() == "Next."
    gate.set()
    told(page, "Begin.", "It was a dark and stormy night.")


@pytest.mark.long
def test_on_a_phone_the_list_is_folded_and_all_of_it_is_there(open_page, marit):
    session_of(marit, 2)
    chat.start_session(owner=marit, title="The cellar")
    page = open_page(marit, viewport=PHONE, has_touch=True, is_mobile=True)
    page.goto("/chat/")
    side = page.get_by_role("navigation", name="Conversations")
    assert not side.is_visible()
    page.get_by_role("button", name="Conversations").tap()
    side.get_by_role("searchbox").fill("berth 41")
    side.get_by_text("lies at berth 40 berth 41").wait_for()
    follow(side, re.compile("^Lighthouse"))
    page.get_by_role("button", name="Rename, download or delete").tap()
    page.get_by_role("textbox", name="Title", exact=True).fill("Harbour")
    press(page, "Rename")
    assert page.get_by_role("heading", name="Harbour").is_visible()
    page.get_by_role("button", name="Rename, download or delete").tap()
    follow(page, "Delete…")
    press(page, "Delete")
    assert list(ChatSession.objects.values_list("title", flat=True)) == ["The cellar"]
    box(page).fill("one")
    box(page).press("Enter")
    assert box(page).input_value() == "one\n", "with a finger there is a button to send"


@pytest.mark.long
@pytest.mark.parametrize("size", [None, pytest.param(PHONE, marks=pytest.mark.long)])
def test_a_person_sees_what_fills_the_window_says_up_to_where_and_corrects(open_page, marit, size):
    from playwright.sync_api import expect

    session = session_of(marit, turns=12, settings={"MODE": "manual", "CONTEXT_WINDOW": 2_600, "RESERVED_TOKENS": 300})
    tip = chat.tips(session)[0]
    page = open_page(marit, **({"viewport": size} if size else {}))
    go(page, session)
    expect(page.get_by_text("This conversation is getting too long for the model")).to_be_visible()
    page.get_by_role("button", name="How full the model's window is").click()
    expect(page.locator("#fullness")).to_contain_text("Messages")
    page.keyboard.press("Escape")
    page.locator(".more", has=page.locator("[action$=cut]")).last.locator("summary").click()
    page.get_by_role("button", name="Summarize up to here").last.click()
    expect(page.locator(".busy")).to_be_visible()
    compact_branch(CompactionRun.objects.get().pk)
    go(page, session)
    expect(page.get_by_text("This conversation is getting too long")).to_have_count(0)
    page.locator("#cutoff summary").first.click()
    page.locator("#cutoff").get_by_text("Correct", exact=True).click()
    page.get_by_label("Text of the summary").fill("The keeper's name is **Ida**.")
    press(page, "Use this text")
    expect(page.get_by_text("The model reads your text from now on.")).to_be_visible()
    assert chat.find_summary(tip).content == "The keeper's name is **Ida**."
    page.locator("#cutoff summary").first.click()
    expect(page.locator("#cutoff strong")).to_have_text("Ida")
    # What was typed of a summary that is undone is not in the box of the one before.
    chat.compact(chat.append_messages(session, tip, conversations.turns(13, 8))[-1])
    go(page, session)
    page.locator("#cutoff summary").first.click()
    page.locator("#cutoff").get_by_text("Correct", exact=True).click()
    page.get_by_label("Text of the summary").fill("It is Ole.")
    press(page, "Use this text")
    expect(page.get_by_text("The model reads your text from now on.")).to_be_visible()
    page.get_by_role("button", name="undo").click()
    expect(page.get_by_text("What it had corrected stays in the list")).to_be_visible()
    expect(page.get_by_label("Text of the summary")).to_have_value("The keeper's name is **Ida**.")
    expect(page.locator("#cutoff .card")).to_be_hidden()


@pytest.mark.parametrize("size", [PHONE, pytest.param(None, marks=pytest.mark.long)])
def test_a_person_goes_on_in_a_new_chat_with_the_summary_and_finds_what_was_said(open_page, marit, size):
    """The new chat leads back to the one before, and the search finds a message by its words in any order."""
    from playwright.sync_api import expect

    session = session_of(marit, turns=12, settings=conversations.SMALL_WINDOW)
    chat.compact(chat.tips(session)[-1])
    page = open_page(marit, **({"viewport": size} if size else {}))
    go(page, session)
    press(page, "new chat with this summary")
    assert str(session.pk) not in page.url
    expect(page.locator("#cutoff summary").first).to_contain_text("Earlier messages are summarized")
    expect(page.get_by_text("The conversation before this message was in another chat.")).to_be_visible()
    follow(page, "The chat before this one")
    assert str(session.pk) in page.url
    if size:
        page.get_by_role("button", name="Conversations").click()
    words = chat.get_branch(chat.tips(session)[0])[-2].content.split()
    page.get_by_role("searchbox").fill(" ".join(reversed(words[:3])))
    expect(page.locator("#sessions .around").first).to_be_visible()
    with page.expect_response(lambda answer: "?q=" in answer.url):
        # The page is shown anew, and the search is still there.
        page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator("#sessions .around").first).to_be_visible()
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#sessions a").first).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
