"""The pages speak the language of the browser, and say nothing in English to somebody who reads German."""

import re
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.summarizers.prompts import MAX_INSTRUCTIONS
from compaction_app.testing import steps
from project.chat.forms import MAX_CHARACTERS
from project.chat.turns import LOOKED_UP
from tests.browser import conversations
from tests.project.chat_page.pages import grow, text_of, url

pytestmark = pytest.mark.django_db(transaction=True)

#: What people and models wrote, in letters that are in no text of the pages.
THEIRS = "фонарь"
#: Words that are the same in both languages.
SAME = {
    "Admin",
    "Chat",
    "Download",
    "scripted",
    "Text",
    "Name",
    "/compact",
    "/compactions",
    "/compakt",
    "The lighthouse",
    "marit",
}
SHOWN_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-words")


class Texts(HTMLParser):
    """What somebody reads or hears of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_data(self, data):
        self.found.add(" ".join(data.split()))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "data-words":
                # Of the table of failures the keys are no texts of the page.
                self.found |= set(re.findall(r': "((?:[^"\\]|\\.)*)"', value))
            elif name in SHOWN_ATTRIBUTES:
                self.found.add(value)


def english_in(visitor, *addresses, **posted):
    """Texts that are the same where the browser asks for English and for German."""
    left = {}
    for address in addresses:
        pages = []
        for language in ("en", "de"):
            headers = {"accept-language": f"{language}, *;q=0.1"}
            ask = visitor.post if posted else visitor.get
            answer = ask(address, posted, headers=headers, follow=True)
            assert f'<html lang="{language}">' in text_of(answer), address
            pages.append(Texts(text_of(answer)).found)
        same = {one for one in pages[0] & pages[1] if re.search("[A-Za-z]{2}", one.replace(THEIRS, ""))}
        left[address] = same - SAME
    return {address: texts for address, texts in left.items() if texts}


def test_no_english_is_left_on_a_german_page(endpoint):
    owner, harbour = conversations.filled_harbour(lambda _name: THEIRS)
    session = harbour.session
    ChatMessage.objects.update(content=THEIRS)
    visitor = Client()
    visitor.force_login(owner)
    chat.pin_message(harbour.first)
    chat.annotate_message(harbour.tip.parent, **{LOOKED_UP: [[harbour.first.pk, 1]]})
    pages = conversations.chat_pages(harbour)
    assert english_in(visitor, *pages, reverse("chat:session", args=[session.pk])) == {}
    elsewhere = url("session", chat.start_session(owner=owner))
    assert english_in(visitor, elsewhere, f"{pages[0]}x") == {}
    assert english_in(Client(), reverse("login")) == {}


def test_what_goes_wrong_is_told_in_german(browser, session, endpoint, settings):
    for content in ("", THEIRS * MAX_CHARACTERS, "\x00", "/compakt", "/compact", "/compactions"):
        assert english_in(browser, url("post", session), content=content, parent="") == {}
    endpoint.script(default=steps.server_error())
    assert english_in(browser, url("post", session), content=THEIRS, parent="") == {}
    assert english_in(Client(enforce_csrf_checks=True), url("post", session), content=THEIRS) == {}
    tip = grow(session, 2, content=THEIRS)
    assert english_in(browser, url("cut", session, tip.parent), tip=tip.pk) == {}
    address, typed = url("post", session), f"/compact {THEIRS * MAX_INSTRUCTIONS}"
    assert english_in(browser, address, content=typed, parent=tip.pk) == {address: {typed}}
    settings.COMPACTION = {**settings.COMPACTION, "MODE": "off"}
    assert english_in(browser, url("session", session)) == {}
