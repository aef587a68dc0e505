"""Commands in the chat box."""

import re

import pytest

from compaction_app.models import CompactionRun
from project.chat import commands
from tests.project.chat_page.pages import grow, send, stored, text_of

pytestmark = pytest.mark.django_db


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/compact", commands.Command("compact")),
        ("/compact  keep the names\nand dates ", commands.Command("compact", "keep the names\nand dates")),
        ("/Compactions", commands.Command("compactions")),
        (" /compact", None),
        ("/etc/passwd holds what?", None),
        ("/2 of it", None),
    ],
)
def test_a_command_is_a_slash_and_a_word_at_the_very_beginning(text, command):
    assert commands.parse(text) == command


@pytest.mark.django_db(transaction=True)
class TestCommands:
    def told(self, browser, response):
        page = text_of(browser.get(response.url))
        return re.findall(r'<p class="notice [a-z]+"(?: data-open)?>(.*?)</p>', page)

    def test_compact_says_why_there_is_none(self, browser, session, full):
        send(browser, session, "/compact", parent=full)
        told = self.told(browser, send(browser, session, "/compact", parent=full))
        assert told[-1] == "A summary is under way."
        page = text_of(browser.get(send(browser, session, "/compact", parent=full).url))
        assert " data-open>A summary is under way." in page, "the page waits for it"
        run = CompactionRun.objects.get()
        assert (run.trigger, run.tip, stored(session)) == ("manual", full, 20)
        nothing = "Nothing to summarize: older messages are already summarized, or there are too few."
        elsewhere = grow(session, 2)
        assert self.told(browser, send(browser, session, "/compact", parent=elsewhere)) == [nothing]
        session.settings = {"MODE": "off"}
        session.save()
        told = self.told(browser, send(browser, session, "/compact", parent=elsewhere))
        assert told == ["Summaries are off for this conversation."]

    def test_an_unknown_command_is_explained_and_not_stored(self, browser, session):
        response = send(browser, session, "/compakt <b>now</b>", parent=grow(session, 2))
        assert response.status_code == 422
        page = text_of(response)
        assert "Unknown command /compakt. Available are /compact" in page
        assert "/compakt &lt;b&gt;now&lt;/b&gt;</textarea>" in page
        assert stored(session) == 2
