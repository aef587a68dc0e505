"""Every page of the admin and of the chat: no serious finding of axe, and nothing wider than a phone.

In light and in dark, on desktop and phone. The pages are taken from the admin's URL patterns, so a new one that
nobody looks at fails here.
"""

from typing import Any

import pytest
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage
from project.chat.turns import LOOKED_UP
from tests.admin.records import reply_to
from tests.browser import admin_pages, conversations
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

SERIOUS = ("serious", "critical")
WAYS = [(size, scheme) for size in (DESKTOP, PHONE) for scheme in ("light", "dark")]

#: What stock Django itself renders: rule of axe and selector → what is wrong there.
STOCK_DJANGO = {
    ("link-in-text-block", ".breadcrumbs a"): "links of the breadcrumbs differ by their colour alone",
    ("link-in-text-block", "#changelist-search a"): "so does the link that takes a search back",
    ("label-title-only", "#searchbar"): "the label of the search box is a picture",
}

#: Colours are looked at as they end up, and not on their way there.
AT_ONCE = "* { transition: none !important; animation: none !important }"
#: Nothing but colours differs between light and dark.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
AXE = """(options) => axe.run({resultTypes: ["violations"], preload: false, ...options}).then(({violations}) =>
    violations.flatMap((violation) => violation.nodes.map((node) => ({
        rule: violation.id,
        impact: violation.impact,
        help: violation.help,
        target: node.target.join(" "),
        html: node.html.slice(0, 160),
    })))
)"""
#: What is wider than the screen and no part of a box that scrolls by itself.
STICKS_OUT = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const scrolls = (node) => ["auto", "scroll", "hidden"].includes(getComputedStyle(node).overflowX);
    const boxed = (node) => {
        for (let box = node.parentElement; box && box !== document.body; box = box.parentElement)
            if (scrolls(box)) return true;
        return false;
    };
    return [...document.querySelectorAll("body *")]
        .filter((node) => node.getBoundingClientRect().right > width + 1 && !boxed(node))
        .map((node) => node.outerHTML.slice(0, 100));
}"""


@pytest.fixture
def looked_at(open_page, settings):
    """Look at pages as a person, in every way; what is wrong with them, a line each."""
    # Here and not above: without a browser this file is skipped, not broken.
    from axe_playwright_python.sync_playwright import Axe

    def look(user: Any, addresses: list[str]) -> tuple[list[str], set[tuple[str, str]]]:
        # axe writes styles into the page to measure it. That the pages need none is for the other tests to say.
        page = open_page(user, bypass_csp=True, locale=settings.LANGUAGE_CODE)
        axe_script = Axe().axe_script
        wrong: dict[str, list[str]] = {}
        excused = set()
        for address in addresses:
            assert page.goto(address).status == 200, address
            page.add_style_tag(content=AT_ONCE)
            page.evaluate(axe_script)
            for size, scheme in WAYS:
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                found, known = findings(page, COLOURS if scheme == "dark" else {})
                found += [f"wider than the screen: {html}" for html in page.evaluate(STICKS_OUT)]
                for one in found:
                    wrong.setdefault(f"{address}: {one}", []).append(f"{size['width']} px {scheme}")
                excused |= known
        return [f"{one} ({', '.join(ways)})" for one, ways in wrong.items()], excused

    return look


def findings(page: Any, options: dict[str, Any]) -> tuple[list[str], set[tuple[str, str]]]:
    """What axe holds against the page as it is now, and which of Django's own faults it met."""
    wrong, known = [], set()
    for finding in page.evaluate(AXE, options):
        if finding["impact"] not in SERIOUS:
            continue
        excuse = next((key for key in STOCK_DJANGO if excuses(page, key, finding)), None)
        if excuse:
            known.add(excuse)
        else:
            wrong.append("{impact} {rule} at {target}: {help}: {html}".format(**finding))
    return wrong, known


def excuses(page: Any, key: tuple[str, str], finding: dict[str, str]) -> bool:
    rule, selector = key
    return finding["rule"] == rule and page.locator(finding["target"]).evaluate("(e, s) => e.matches(s)", selector)


@pytest.mark.parametrize("language", ["en-us", "de"])
def test_the_pages_of_the_admin_have_no_serious_fault(looked_at, settings, language):
    settings.LANGUAGE_CODE = language
    harbour = conversations.harbour()
    assert not admin_pages.unknown(harbour), "a page that nobody looks at"
    wrong, excused = looked_at(conversations.superuser(), admin_pages.addresses(harbour))
    assert not wrong, "\n" + "\n".join(wrong)
    assert excused == STOCK_DJANGO.keys(), "an exception that no page needs any more"


@pytest.mark.long
def test_the_pages_before_an_erasure_that_hides_messages_have_no_serious_fault(looked_at):
    admin = conversations.superuser()
    session = chat.start_session(title="Harbour", settings=conversations.SMALL_WINDOW)
    path = chat.append_messages(session, None, conversations.turns(1, 40))
    chat.compact(path[-1])
    summary = chat.find_summary(path[-1])
    pages = [
        admin_pages.url("chatmessage_redact", path[2].pk),
        admin_pages.url("chatmessage_retire", summary.pk),
        admin_pages.url("chatmessage_delete", summary.parent_message_id),
    ]
    wrong, _ = looked_at(admin, pages)
    assert not wrong, "\n" + "\n".join(wrong)
    chat.retire_summary(summary)
    wrong, _ = looked_at(conversations.superuser("second"), [admin_pages.url("chatmessage_change", path[-1].pk)])
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_pages_of_the_chat_have_no_serious_fault(looked_at):
    user = conversations.superuser()
    harbour = conversations.harbour(owner=user)
    chat.pin_message(harbour.first)
    chat.annotate_message(harbour.tip.parent, **{LOOKED_UP: [[harbour.first.pk, 1]]})
    pages = conversations.chat_pages(harbour)
    wrong = looked_at(user, pages)[0] + looked_at(None, [reverse("login")])[0]
    assert not wrong, "\n" + "\n".join(wrong)


#: Wider than a phone.
LONG = "Supercalifragilisticexpialidocious" * 6
WIDTH = "document.documentElement.scrollWidth"
#: Lists, contexts and events that have more than is visible.
SCROLLED = """[...document.querySelectorAll(
    '.results, .compaction-scroll, .generations .scroll')]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.className)"""


def test_no_word_makes_a_page_wider_than_a_phone(open_page):
    """Folded parts opened: what is in them is read on a phone as well."""
    owner, harbour = conversations.filled_harbour(lambda _name: LONG)
    # The one who looks is named on every page by Django itself.
    page = open_page(conversations.superuser(), viewport=PHONE)
    wide = {}
    visitor = open_page(owner, viewport=PHONE)
    table = "|".join([LONG] * 3)
    ChatMessage.objects.filter(pk=harbour.tip.pk).update(content=f"|{table}|\n{'|-' * 3}|\n|{table}|")
    pages = [(page, address) for address in admin_pages.addresses(harbour)]
    chat.pin_message(harbour.first)
    for one, address in [*pages, *((visitor, address) for address in conversations.chat_pages(harbour))]:
        assert one.goto(address).status == 200, address
        closed = one.evaluate(WIDTH)
        one.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        one.evaluate("document.querySelectorAll('[popover]').forEach((part) => { part.showPopover() })")
        width = max(closed, one.evaluate(WIDTH))
        if width > PHONE["width"]:
            wide[address] = width, one.evaluate(STICKS_OUT)
    assert wide == {}


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_column_is_hidden_at_the_side(open_page, settings, language):
    """On a phone that is true of all but the lists of messages and summaries, whose numbers need their headings."""
    settings.LANGUAGE_CODE = language
    admin = conversations.superuser("anna.keller")
    harbour = conversations.harbour(owner=admin)
    url, lists = admin_pages.url, ("chatsession", "compactionrun", "compactionevent")
    addresses = [url(f"{name}_changelist") for name in lists]
    addresses += [url("chatmessage_change", reply_to(harbour.tip).pk), url("compactionrun_change", harbour.run.pk)]
    addresses += [url("chatmessage_change", harbour.generations[0].pk), *conversations.chat_pages(harbour)[:2]]
    of_messages = [
        url("chatmessage_changelist", kind="summary"),
        url("chatmessage_changelist", session=harbour.session.pk),
    ]
    for size, pages in ((PHONE, addresses), (DESKTOP, addresses + of_messages)):
        page = open_page(admin, viewport=size, locale=language)
        for address in pages:
            assert page.goto(address).status == 200, address
            assert page.evaluate(SCROLLED) == [], (address, size)
