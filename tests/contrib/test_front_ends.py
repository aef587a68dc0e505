"""The real ``useChat`` and assistant-ui in a browser, over the stream: what the page does is in the tree."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from compaction_app.testing import steps
from tests.browser.chromium import NoBrowser, started_chromium
from tests.browser.conftest import session_cookie
from tests.contrib.drivers import calls
from tests.contrib.streaming import addresses, branches, processes, provider, reset_provider  # noqa: F401  # fixtures
from tests.plugin import NO_FRAMEWORKS
from tests.steps import stream_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("FRONT_ENDS" not in os.environ, reason=NO_FRAMEWORKS),
]

SOURCES = Path(__file__).parent / "front_ends"
PAGE = (Path(__file__).parent.parent.parent / "docs" / "frameworks.md").read_text()
IMPORTS = 'import { useChat } from "@ai-sdk/react";\nimport { DefaultChatTransport } from "ai";\n'


@pytest.fixture(scope="module")
def bundle():
    """Makes the page, with the page's lines as they are printed."""
    folder = Path(os.environ["FRONT_ENDS"])
    [lines] = re.findall(r"```jsx\n(.*?)```", PAGE, re.DOTALL)
    hook = f"{IMPORTS}export function useReadme(sessionId, csrfToken, messages) {{\n{lines}return chat;\n}}\n"
    (folder / "readme.jsx").write_text(hook)
    (folder / "page.jsx").write_text((SOURCES / "page.jsx").read_text())
    options = ["--bundle", "--format=esm", "--jsx=automatic", "--outfile=pages/page.js", "--log-level=warning"]
    options += ['--define:process.env.NODE_ENV="production"']
    subprocess.run(["node_modules/.bin/esbuild", "page.jsx", *options], cwd=folder, check=True)


@pytest.fixture(scope="module")
def chromium():
    try:
        with started_chromium() as browser:
            yield browser
    except NoBrowser as error:
        pytest.skip(str(error))


@pytest.fixture
def open_page(bundle, chromium, serve, owner, session):
    url = serve("asgi")
    context = chromium.new_context(base_url=url)
    context.set_default_timeout(15_000)
    context.add_cookies([session_cookie(owner, url)])

    def open_one(kind):
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.goto(f"/{kind}/{session.pk}")
        page.wait_for_selector("main")
        return page

    yield open_one
    context.close()


def shown(page, role="assistant"):
    return page.locator(f"[data-role={role}]")


def until_stored(page):
    """A reply is shown before it is stored."""
    page.wait_for_selector("main[data-status=ready]")


def test_use_chat(open_page, server, session):
    from playwright.sync_api import expect

    server.script([steps.reply("Hi."), steps.reply("Hi again."), steps.reply("Good evening to you.")])
    page = open_page("use-chat")

    def say(text, button, at=-1):
        page.locator("input").fill(text)
        page.get_by_role("button", name=button, exact=True).nth(at).click()

    say("Hello", "Send")
    expect(shown(page)).to_contain_text("Hi.")
    until_stored(page)
    page.get_by_role("button", name="Again").click()
    expect(shown(page)).to_contain_text("Hi again.")
    until_stored(page)
    say("Good evening", "Edit", 0)
    expect(shown(page)).to_contain_text("Good evening to you.")
    until_stored(page)
    made = [["Hello", "Hi."], ["Hello", "Hi again."], ["Good evening", "Good evening to you."]]
    assert branches(session) == made
    # A reload in the middle of a reply.
    server.script([stream_of("The tide ", "is in ", then=steps.hang())])
    say("When?", "Send")
    expect(shown(page).last).to_contain_text("is in")
    page.reload()
    expect(shown(page).last).to_contain_text("The tide is in")
    expect(page.locator("main[data-status=streaming]")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    until_stored(page)
    assert branches(session)[-1] == [*made[-1], "When?", "The tide is in "]
    # useChat's own stop only hangs up.
    server.script([stream_of("Low ", "tide ", then=steps.hang()), steps.reply("At noon.")])
    say("And then?", "Send")
    expect(shown(page).last).to_contain_text("Low tide")
    page.get_by_role("button", name="Hang up").click()
    say("When, again?", "Send")
    expect(shown(page).last).to_contain_text("At noon.")
    until_stored(page)
    assert branches(session)[-1][-4:] == ["And then?", "Low tide ", "When, again?", "At noon."]
    server.script([steps.server_error()] * 3)
    say("And?", "Send")
    expect(page.locator("footer")).to_contain_text("The chat model gave no answer")


def test_the_hosts_fields_arrive_and_a_reload_in_the_servers_loop_shows_a_call_once(open_page, server, session):
    from playwright.sync_api import expect

    looked = calls(("c1", "weather", {}))
    server.script([looked, stream_of("It is ", "wet", then=steps.hang()), steps.reply("Aye.")])
    page = open_page("use-chat")
    page.locator("input").fill("Weather?")
    page.get_by_role("button", name="With tools").click()
    expect(shown(page)).to_contain_text("It is wet")
    page.reload()
    expect(shown(page)).to_contain_text("It is wet")
    expect(page.locator("code")).to_have_text(["c1"])
    page.get_by_role("button", name="Stop").click()
    until_stored(page)
    assert branches(session) == [["Weather?", "", "Rain.", "It is wet"]]
    page.reload()
    expect(page.locator("code")).to_have_text(["c1"])


def test_assistant_ui(open_page, server, session):
    from playwright.sync_api import expect

    server.script([steps.reply("Hi."), steps.reply("Hi again."), steps.reply("Good evening to you.")])
    page = open_page("assistant-ui")
    page.locator("[data-new]").fill("Hello")
    page.get_by_role("button", name="Send").click()
    expect(shown(page)).to_contain_text("Hi.")
    until_stored(page)
    page.get_by_role("button", name="Again").click()
    expect(shown(page)).to_contain_text("Hi again.")
    until_stored(page)
    page.get_by_role("button", name="Edit").click()
    page.locator("[data-edit]").fill("Good evening")
    page.get_by_role("button", name="Save").click()
    expect(shown(page)).to_contain_text("Good evening to you.")
    until_stored(page)
    made = [["Hello", "Hi."], ["Hello", "Hi again."], ["Good evening", "Good evening to you."]]
    assert branches(session) == made
    # Loaded again, it has its branches.
    page.reload()
    expect(shown(page)).to_contain_text("Good evening to you.")
    expect(shown(page, "user").locator("output")).to_have_text("2/2")
    page.get_by_role("button", name="Previous").click()
    expect(shown(page, "user")).to_contain_text("Hello")
    expect(shown(page).locator("output")).to_have_text("1/2")
    server.script([steps.reply("Of the first.")])
    page.locator("[data-new]").fill("On which branch?")
    page.get_by_role("button", name="Send").click()
    expect(shown(page).last).to_contain_text("Of the first.")
    until_stored(page)
    assert branches(session)[-1] == ["Hello", "Hi.", "On which branch?", "Of the first."]
