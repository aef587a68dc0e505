"""Texts on the chat page: any of them is shown, and none becomes markup; every code has its words."""

import re

import httpx2 as httpx
import openai
import pytest
from django.urls import reverse
from django.utils.translation import override

from compaction_app.api.codes import SENTENCES, TOO_LONG, Code, problem_of
from compaction_app.exceptions import (
    ConfigurationError,
    EmptyReply,
    InvalidMessage,
    InvalidReply,
    MessageNotFound,
    RedactionFailed,
    ReplyUnderWay,
    StreamInterrupted,
    TooManyReplies,
)
from compaction_app.models import CompactionRun
from compaction_app.models.words import WHY_IT_FAILED
from compaction_app.values import ErrorCode, RunStatus
from project.chat import shown, words
from project.chat.markdown import render
from project.chat.views import CONTENT_SECURITY_POLICY
from tests.browser import conversations
from tests.conftest import REPOSITORY
from tests.project.chat_page.pages import grow, send, text_of, url

pytestmark = pytest.mark.django_db


class TestEscaping:
    """What people, models and tools wrote is text, wherever it stands."""

    def test_markup_is_shown_as_text_wherever_it_stands(self, client):
        """A browser looks at the same pages."""
        user, harbour = conversations.filled_harbour(conversations.marked)
        client.force_login(user)
        addresses = [*conversations.chat_pages(harbour)]
        pages = [text_of(client.get(address)) for address in addresses]
        pages.append(text_of(send(client, harbour.session, conversations.marked("refused") + "\x00")))
        for page in pages:
            assert not re.search("<script>window|<img|<svg onload", page)
        assert "{{ 7|add:7 }}" in pages[0], "it is no template either"
        shown = set(re.findall(r"(\w+)&lt;script&gt;", "".join(pages)))
        of_messages = {"title", "content", "message_model", "attachment_name", "tool_name", "tool_result"}
        assert shown >= {*of_messages, "summary", "refused"}

    def test_the_pages_work_under_a_strict_content_security_policy(self, browser, session):
        """No script or style stands in the page: a text that got through the escaping could still do nothing."""
        grow(session, 3)
        for address in (reverse("chat:sessions"), url("session", session)):
            response = browser.get(address)
            page = text_of(response)
            assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert "no-store" in response["Cache-Control"]
            assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
            assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/chat/chat.js">']
            assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)

    @pytest.mark.pure
    def test_the_script_is_small(self):
        scripts = (REPOSITORY / "project" / "static" / "chat").glob("*.js")
        assert sum(one.stat().st_size for one in scripts) < 60_000


@pytest.mark.pure
class TestWords:
    def test_every_code_has_its_words(self):
        assert set(shown.OPEN_RUNS) == {status for status in RunStatus if CompactionRun(status=status).is_open}
        assert set(WHY_IT_FAILED) == set(ErrorCode)

    def test_every_failure_of_a_reply_has_its_words(self):
        """What the stream for pages may answer, but for what only a program gets wrong."""
        assert words.FAILURES.keys() >= {*SENTENCES.values(), TOO_LONG, problem_of(ValueError()).code}
        for error in (ReplyUnderWay(), TooManyReplies(), ConfigurationError(), RedactionFailed(), MessageNotFound()):
            assert words.words_for(error) == words.FAILURES[error.code]
        for error in (EmptyReply(), InvalidReply("x"), StreamInterrupted("x"), openai.OpenAIError()):
            assert words.words_for(error) == words.FAILURES[Code.MODEL]

    def test_how_long_to_wait_is_told_where_the_provider_says_so(self):
        response = httpx.Response(
            429, headers={"Retry-After": "6.5"}, request=httpx.Request("POST", "https://x.example")
        )
        error = openai.RateLimitError("Too many.", response=response, body=None)
        assert problem_of(error).headers == {"Retry-After": "7"}
        assert words.words_for(error).endswith("Try again in 7 s.")

    def test_what_is_refused_is_told_in_the_readers_language(self):
        with override("de"):
            told = {words.words_for(InvalidMessage("In English.", field=field)) for field in ("text", "until", "role")}
        assert len(told) == 3
        assert "In English." not in told


@pytest.mark.pure
@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("<img src=x onerror=alert(1)>", '<p dir="auto">&lt;img src=x onerror=alert(1)&gt;</p>'),
        (
            "![x](https://elsewhere.org/a.png)",
            '<p dir="auto"><a href="https://elsewhere.org/a.png" rel="noopener nofollow">x</a></p>',
        ),
        (
            "[x](javascript:alert(1)) [y](data:text/html,x)",
            '<p dir="auto">[x](javascript:alert(1)) [y](data:text/html,x)',
        ),
        ("```html\n<script>\n```", '<pre tabindex="0"><code>&lt;script&gt;\n</code></pre>'),
        ("| a |\n| -: |\n| b |", ' align="right"'),
        ("(https://a.org/b_(c)), README.md", 'nofollow">https://a.org/b_(c)</a>), README.md</p>'),
        (r"so \(a^2 \, b*c*d\) and \[x\] is", r'<p dir="auto">so \(a^2 \, b*c*d\) and \[x\] is</p>'),
        ("$$\n\\int_0^1 x\\,dx\n- 1\n= 2\n$$", '<p dir="auto">$$\n\\int_0^1 x\\,dx\n- 1\n= 2\n$$</p>'),
        (r"$\{x\}$ costs $5 or *$6*", r"$\{x\}$ costs $5 or <em>$6</em></p>"),
        ("- [ ] milk\n- [x] tea", "<li>[ ] milk</li>\n<li>[x] tea</li>"),
        ("so[^1]\n\n[^1]: http://a.b", 'so[^1]</p>\n<p dir="auto">[^1]: <a href="http://a.b"'),
        ("[a]\n\n[a]: http://a.b", '<a href="http://a.b" rel="noopener nofollow">a</a>'),
        ("**https://a.org?b=1&c=2**。", '<strong><a href="https://a.org?b=1&amp;c=2" rel="noopener nofollow">'),
    ],
)
def test_of_markdown_only_what_is_harmless_becomes_markup(markdown, html):
    assert html in render(markdown)
