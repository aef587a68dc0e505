"""What the chat page says of its context and of compactions."""

import re

import pytest
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.values import ErrorCode, RunStatus, Strategy
from tests.project.chat_page.pages import grow, text_of, url

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
class TestState:
    def test_the_cutoff_is_marked_with_the_summary_and_its_figures(self, browser, session, full):
        run = chat.compact(full)
        page = text_of(browser.get(url("session", session)))
        assert f"The model read {run.tokens_before:,} tokens before that, and {run.tokens_after:,} since." in page
        assert run.summary.content.splitlines()[-1][:40] in page
        cutoff = run.summary.last_summarized_message
        after = ChatMessage.objects.messages().get(parent=cutoff)
        assert f"Messages 1–{cutoff.depth} are summarized · " in page
        assert page.index(f'id="m{cutoff.pk}"') < page.index('id="cutoff"') < page.index(f'id="m{after.pk}"')
        covered = len(re.findall(r'class="message \w+ covered"', page))
        assert covered == cutoff.depth

    def test_the_gauge_is_that_of_the_context(self, browser, session, full):
        chat.compact(full)
        context = chat.get_context(full)
        page = text_of(browser.get(url("session", session)))
        assert f"{100 * context.history_tokens / context.available_tokens:.0f}% full" in page
        assert f"at once ({context.available_tokens:,} tokens)" in page

    def test_a_summary_is_undone_by_its_owner(self, browser, session, full):
        summary = chat.compact(full).summary
        page = text_of(browser.get(url("session", session)))
        address = reverse("chat:undo", args=[session.pk, full.pk, summary.pk])
        assert f'action="{address}"' in page
        page = text_of(browser.post(address, follow=True))
        assert "The summary is undone. The model reads the messages themselves" in page
        assert "are summarized ·" not in page
        assert chat.find_summary(full) is None

    def test_the_summary_before_is_in_use_again_and_the_page_says_so(self, browser, session, full):
        first = chat.compact(full).summary
        tip = grow(session, 12, parent=full)
        second = chat.compact(tip).summary
        page = text_of(browser.post(reverse("chat:undo", args=[session.pk, tip.pk, second.pk]), follow=True))
        assert chat.get_context(tip).summary_id == first.pk
        covered = first.last_summarized_message.depth
        assert f"undone. The model reads a summary of messages 1–{covered} and all that follows." in page
        assert "the messages themselves" not in page

    @pytest.mark.parametrize(("mode", "awaits"), [("standard", True), ("off", False)])
    def test_an_undone_summary_that_is_needed_is_written_again(self, browser, session, full, mode, awaits):
        summary = chat.compact(full).summary
        session.settings = {**session.settings, "MODE": mode}
        session.save()
        page = text_of(browser.post(reverse("chat:undo", args=[session.pk, full.pk, summary.pk]), follow=True))
        assert ("so another summary is written" in page) is awaits
        assert ("data-open" in page) is awaits, "the page waits for it"

    def test_an_open_compaction_is_shown_until_it_is_over(self, browser, session, full):
        run = chat.request_compaction(full, trigger="manual")
        panel = url("branch", session, full)
        assert "Older messages will be summarized soon. You can go on writing." in text_of(browser.get(panel))
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING)
        assert "Older messages are being summarized." in text_of(browser.get(panel))
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.READY, error_code=ErrorCode.TIMEOUT)
        assert "could not be summarized because the summarizer took too long. It is tried again soon." in text_of(
            browser.get(panel)
        )
        CompactionRun.objects.filter(pk=run.pk).update(status=RunStatus.FAILED, error_code=ErrorCode.QUOTA)
        page = text_of(browser.get(panel))
        assert "data-open" not in page
        assert "could not be summarized because the provider&#x27;s quota is used up. Nothing is lost." in page
        elsewhere = grow(session, 2, content="Another beginning ")
        assert "Nothing is lost." not in text_of(browser.get(url("branch", session, elsewhere)))
        chat.compact(full)
        assert "Nothing is lost." not in text_of(browser.get(panel)), "forgotten once a summary stands"

    def test_the_fallback_is_shown_and_where_it_begins(self, browser, session, full):
        full = grow(session, 10, parent=full, content="Tell me about the roof and the boat. " * 8)
        context = chat.get_context(full)
        assert context.strategy == Strategy.TRUNCATED
        page = text_of(browser.get(url("session", session)))
        assert f"{context.dropped} older messages are left out of what the model reads" in page
        assert f"{context.dropped} messages above left out" in page
        assert len(re.findall(r'class="message \w+ left-out"', page)) == context.dropped
