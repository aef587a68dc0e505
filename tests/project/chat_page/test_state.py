"""What the chat page says of its context and of compactions."""

import re

import pytest
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.values import Strategy
from tests.browser import conversations
from tests.project.chat_page.pages import grow, text_of, url

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
class TestState:
    def test_the_cutoff_is_marked_with_the_summary_and_its_figures(self, browser, session, full):
        run = chat.compact(full)
        page = text_of(browser.get(url("session", session)))
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

    def test_its_parts_are_those_of_the_meter(self, browser, session, full):
        chat.compact(full)
        measured = chat.measure(full)
        page = text_of(browser.get(url("session", session)))
        for name, tokens in (("Summary", measured.summary), ("Messages", measured.messages)):
            assert f"<dt>{name}</dt><dd>{tokens:,}</dd>" in page
        assert "<dt>Pinned messages</dt>" not in page

    def test_where_nothing_is_summarized_by_itself_a_person_may(self, browser, session, full):
        session.settings = {**session.settings, "MODE": "manual"}
        session.save()
        tip = grow(session, 12, parent=full)
        offer = "This conversation is getting too long for the model"
        page = text_of(browser.get(url("session", session)))
        assert offer in page
        assert "older messages should be summarized." in page
        page = text_of(browser.post(url("post", session), {"parent": tip.pk, "content": "/compact"}, follow=True))
        assert offer not in page
        assert "data-open" in page, "the page waits for it"

    def test_the_summary_before_is_in_use_again_and_the_page_says_so(self, browser, session, full):
        first = chat.compact(full).summary
        tip = grow(session, 12, parent=full)
        second = chat.compact(tip).summary
        page = text_of(browser.post(reverse("chat:undo", args=[session.pk, tip.pk, second.pk]), follow=True))
        assert chat.get_context(tip).summary_id == first.pk
        covered = first.last_summarized_message.depth
        assert f"undone. The model reads a summary of messages 1–{covered} and all that follows." in page
        assert "the messages themselves" not in page
        longer = grow(session, 60, parent=tip)
        page = text_of(browser.post(reverse("chat:undo", args=[session.pk, longer.pk, second.pk]), follow=True))
        assert f"messages 1–{covered}, and of what follows as much as fits." in page
        assert "and all that follows" not in page

    @pytest.mark.parametrize(("mode", "awaits"), [("standard", True), ("off", False)])
    def test_an_undone_summary_that_is_needed_is_written_again(self, browser, session, full, mode, awaits):
        summary = chat.compact(full).summary
        session.settings = {**session.settings, "MODE": mode}
        session.save()
        page = text_of(browser.post(reverse("chat:undo", args=[session.pk, full.pk, summary.pk]), follow=True))
        assert ("so another summary is written" in page) is awaits
        assert ("data-open" in page) is awaits, "the page waits for it"

    def test_the_fallback_is_shown_and_where_it_begins(self, browser, session, full):
        full = grow(session, 10, parent=full, content="Tell me about the roof and the boat. " * 8)
        context = chat.get_context(full)
        assert context.strategy == Strategy.TRUNCATED
        page = text_of(browser.get(url("session", session)))
        assert f"{context.dropped} older messages are left out of what the model reads" in page
        assert f"{context.dropped} messages above left out" in page
        assert len(re.findall(r'class="message \w+ left-out"', page)) == context.dropped

    def test_a_limit_that_is_reached_is_told_in_one_sentence(self, browser, session, full, settings):
        """Which says no summary to come, and none that could be asked for."""
        session.settings = {**session.settings, "MODE": "manual"}
        session.save()
        tip = grow(session, 10, parent=full, content="Tell me about the roof and the boat. " * 8)
        settings.COMPACTION = {**settings.COMPACTION, "SPENDING_LIMITS": {"session": ["1 runs/h"]}}
        conversations.failed_run(chat.append_message(session, role="user", content="Elsewhere"))
        page = text_of(browser.get(url("branch", session, tip)))
        dropped = chat.get_context(tip).dropped
        state = re.sub("<[^>]*>", " ", page[page.index('id="state"') : page.index('class="composer"')])
        assert re.sub(r"\s+", " ", state.partition(">")[2]).strip(" <div") == (
            "Summaries are paused for a while; until there is a summary, "
            f"{dropped} messages are left out of what the model reads."
        )


@pytest.mark.django_db(transaction=True)
class TestByHand:
    def test_a_person_says_up_to_where(self, browser, session, full):
        page = text_of(browser.get(url("session", session)))
        first = ChatMessage.objects.messages().filter(session=session, role="assistant").order_by("-pk")[3]
        action = reverse("chat:cut", args=[session.pk, first.pk])
        assert f'action="{action}"' in page
        assert f'action="{reverse("chat:cut", args=[session.pk, full.pk])}"' not in page, "nothing follows it"
        page = text_of(browser.post(action, {"tip": full.pk}, follow=True))
        assert "data-open" in page
        run = session.runs.get()
        assert (run.cutoff_id, run.is_cut_given) == (first.pk, True)
        answer = browser.post(reverse("chat:cut", args=[session.pk, first.parent_id]), {"tip": full.pk}, follow=True)
        assert "A summary cannot end here" in text_of(answer)
        session.settings = {"MODE": "off"}
        session.save()
        assert "Summarize up to here" not in text_of(browser.get(url("session", session)))

    def test_a_person_corrects_what_the_model_reads(self, browser, session, full):
        summary = chat.compact(full).summary
        page = text_of(browser.get(url("session", session)))
        action = reverse("chat:correct", args=[session.pk, full.pk, summary.pk])
        assert f'action="{action}"' in page
        page = text_of(browser.post(action, {"text": "<i>The boat</i> is blue."}, follow=True))
        assert chat.find_summary(full).content == "<i>The boat</i> is blue."
        assert "The model reads your text from now on." in page
        assert "Written by: a person" in page
        assert f"?end={full.depth}#cutoff" in page, "the newest page has it"
        assert "<i>The boat</i>" not in page
        page = text_of(browser.get(url("branch", session, full), {"compactions": ""}))
        assert page.index("<td><strong>in use here</strong></td>") < page.index("<td>corrected</td>")
        assert page.count("The boat&lt;/i&gt; is blue.") > 1, "the text of each can be opened"
        # With what was written.
        page = text_of(browser.post(action, {"text": "Again."}))
        assert "is not in use any more" in page
        assert "Again.</textarea>" in page
        # It is for branches with what was shown.
        assert chat.find_summary(full).parent_message_id == full.pk

    def test_of_another_person_there_is_nothing(self, browser, session, full, client, django_user_model):
        summary = chat.compact(full).summary
        client.force_login(django_user_model.objects.create_user("bob"))
        for action in (
            reverse("chat:correct", args=[session.pk, full.pk, summary.pk]),
            reverse("chat:cut", args=[session.pk, full.parent_id]),
        ):
            assert client.post(action, {"text": "x", "tip": full.pk}).status_code == 404
