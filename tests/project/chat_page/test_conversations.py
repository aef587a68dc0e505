"""The list of one's conversations: begun, found, renamed, deleted."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.tasks import compact_branch
from compaction_app.values import Role, RunStatus
from tests.project.chat_page.pages import grow, text_of, url
from tests.trees import summarize

pytestmark = pytest.mark.django_db


def listed(browser, **query):
    return re.findall(r'session-title" dir="auto">([^<]+)<', text_of(browser.get(reverse("chat:sessions"), query)))


class TestConversations:
    @pytest.mark.django_db(transaction=True)
    def test_a_first_message_begins_one_that_belongs_to_whoever_wrote_it(self, browser, marit, endpoint):
        words = {"content": "How old may a roof become?", "system_prompt": "Answer in prose.", "model": "unknown"}
        browser.post(reverse("chat:new"), words)
        session = ChatSession.objects.get()
        assert (session.owner, session.title, session.model) == (marit, words["content"], "scripted")
        assert [m["content"] for m in endpoint.requests[0]["messages"]] == ["Answer in prose.", words["content"]]

    @pytest.mark.parametrize("page", ["0" * 30 + "1", "0", "0" * 20 + "9" * 30, "9" * 5_000])
    def test_a_page_is_a_number_however_it_is_written(self, browser, page):
        answer = browser.get(reverse("chat:sessions"), {"page": page})
        assert answer.status_code == (200 if page.endswith("1") else 404)

    def test_one_is_downloaded_with_all_its_messages(self, browser, session):
        tip = grow(session, 3)
        answer = browser.get(url("export", session))
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer.json()["messages"][-1]["content"] == tip.content

    def test_questions_to_ask_are_sent_by_a_click(self, browser, marit):
        said = {"suggestions": ["Who <b>?", "When?", "Where?", "Why?"]}
        session = chat.start_session(owner=marit, metadata=said)
        assert "Who" not in text_of(browser.get(url("session", session)))
        page = text_of(browser.get(url("branch", session, grow(session, 1))))
        assert 'name="content" value="Who &lt;b&gt;?"' in page
        assert "Why?" not in page

    def test_one_is_renamed_and_deleted(self, browser, session):
        first, _last = (grow(session, 2) for _ in range(2))
        answer = browser.post(url("rename", session), {"title": "Harbour", "tip": first.pk})
        assert answer.url == url("branch", session, first), "on the branch that was shown"
        assert "Harbour" in text_of(browser.get(url("delete", session)))
        browser.post(url("delete", session))
        assert not ChatSession.objects.exists()

    def test_a_page_from_before_an_erasure_does_not_bring_a_title_back(self, browser, session):
        asked = chat.append_message(session, None, role=Role.USER, content="A harbour, please")
        browser.post(url("rename", session), {"title": "A harbour"})
        before, erased = ({"title": "A harbour", "erased": times} for times in (0, 1))
        assert 'name="erased" value="0"' in text_of(browser.get(url("session", session), follow=True))
        chat.redact_message(asked)
        assert "was erased since" in text_of(browser.post(url("rename", session), before, follow=True))
        session.refresh_from_db()
        assert session.title == ""
        # Of their own accord, on a page that shows what is so.
        browser.post(url("rename", session), erased)
        session.refresh_from_db()
        assert session.title == "A harbour"

    def test_a_title_that_is_sent_as_it_is_stays_its_messages(self, browser, session):
        session.title, session.title_of = "Boats", chat.append_message(session, None, role=Role.USER, content="Which?")
        session.save()
        browser.post(url("rename", session), {"title": "Boats"})
        chat.redact_message(session.title_of)
        session.refresh_from_db()
        assert session.title == ""

    def test_the_list_shows_ones_own_newest_first(self, browser, marit, stranger):
        for title in ("First", "Second"):
            chat.start_session(owner=marit, title=title)
        chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="Secret")
        chat.start_session(title="Nobody's")
        assert listed(browser) == ["Second", "First"]

    def test_titles_and_texts_are_searched(self, browser, session, stranger):
        chat.start_session(owner=session.owner, title="The cellar")
        hidden = chat.start_session(owner=get_user_model().objects.get(username="stranger"), title="LAMP")
        grow(hidden, 2, content="A secret lamp ")
        tip = grow(session, 2, content="The keeper <b>oils</b> the lamp ")
        chat.append_message(session, tip, role=Role.USER, content="Thanks")
        assert listed(browser, q="cellar") == ["The cellar"]
        page = text_of(browser.get(reverse("chat:sessions"), {"q": " the LAMP"}))
        assert f'href="{url("branch", session, tip)}#m{tip.pk}"' in page
        assert ">The keeper &lt;b&gt;oils&lt;/b&gt; the lamp 1<" in page
        # In any order, on another branch too.
        fork = chat.append_message(session, chat.get_branch(tip)[0], role=Role.USER, content="An oil of the lamp?")
        page = text_of(browser.get(reverse("chat:sessions"), {"q": "lamp oil"}))
        assert f'href="{url("branch", session, fork)}#m{fork.pk}"' in page
        assert "secret" not in page
        assert "Nothing found." in text_of(browser.get(reverse("chat:sessions"), {"q": "engine"}))


class TestContinuing:
    def test_a_new_conversation_begins_as_this_one_does(self, browser, session):
        tip = grow(session, 6)
        until = chat.get_branch(tip)[3]
        summarize(until, chat.get_branch(tip)[1], content="The keeper was named.")
        page = text_of(browser.get(url("branch", session, tip)))
        assert f'action="{url("copy", session, until)}"' in page
        answer = browser.post(url("copy", session, until))
        copy = ChatSession.objects.get(copied_from=until)
        assert (copy.owner, copy.title, answer.url) == (
            session.owner,
            session.title,
            reverse("chat:session", args=[copy.pk]),
        )
        page = text_of(browser.get(answer.url, {"compactions": ""}))
        browser.post(url("undo", copy, chat.tips(copy)[0], copy.messages.get(kind="summary")))
        assert "1–2 are summarized" not in text_of(browser.get(answer.url))

    def test_pictures_keep_their_names(self, browser, session):
        picture = {
            "type": "image",
            "mime_type": "image/png",
            "name": "roof.png",
            "url": "data:image/png;base64,iVBORw0KGgo=",
        }
        tip = chat.append_message(
            session, None, role=Role.USER, attachments=[picture], metadata={"pictures": ["roof.png"]}
        )
        answer = browser.post(url("copy", session, tip))
        assert 'alt="roof.png"' in browser.get(answer.url).text

    def test_a_new_chat_begins_with_the_summary(self, browser, session):
        nodes = chat.get_branch(grow(session, 6))
        summarize(nodes[3], nodes[1], content="The keeper was named.")
        page = text_of(browser.get(url("branch", session, nodes[-1])))
        action, key = re.search(r'action="([^"]*hand-over)">.*?name="key" value="(\w+)"', page).groups()
        first, again = (browser.post(action, {"key": key}).url for _ in range(2))
        assert first == again
        page = text_of(browser.get(first))
        assert f'<a href="{url("branch", session, nodes[1])}#m{nodes[1].pk}">The chat before this one</a>' in page
        assert "Earlier messages are summarized" in page
        assert "in place of all that was said before." in page
        assert re.search(r'<span class="around">Continued on \d+ \w+ \d+, ', page)
        new = ChatSession.objects.get(continues=nodes[1])
        assert new.messages.messages().count() == 5
        # Nothing could take its place.
        assert "/undo/" not in page
        [came], [tip] = new.messages.summaries(), chat.tips(new)
        browser.post(reverse("chat:correct", args=[new.pk, tip.pk, came.pk]), {"text": "The keeper is Ida."})
        page = text_of(browser.get(url("branch", new, tip), {"compactions": ""}))
        assert page.count("earlier ones") == 1, "the one that came along is there as it was"
        assert "The keeper was named." in page[page.index("<td>corrected</td>") :]
        assert "? →" not in page
        assert "None" not in page
        assert "/undo/" not in page
        chat.delete_session(session)
        assert "A chat before this one" in text_of(browser.get(first))
        # Undone meanwhile.
        answer = browser.post(url("hand_over", new, chat.tips(new)[0]), follow=True)
        assert "There is no summary now that a new chat can begin with." in text_of(answer)

    @pytest.mark.django_db(transaction=True)
    def test_what_the_other_branch_found_is_brought_here(self, browser, session):
        nodes = chat.get_branch(grow(session, 6))
        other = chat.append_message(session, nodes[1], role="user", content="And the lighthouse?")
        page = text_of(browser.get(url("branch", session, nodes[-1])))
        pattern = r'action="([^"]*carry-over)">.*?name="source" value="(\d+)".*?name="key" value="(\w+)"'
        action, source, key = re.search(pattern, page).groups()
        assert int(source) == other.pk
        posted = {"source": source, "key": key}
        assert "Press again in a moment." in text_of(browser.post(action, posted, follow=True))
        session.runs.update(status=RunStatus.FAILED, error_code="quota")
        told = "summarized: the provider&#x27;s quota is used up. It is tried again now."
        assert told in text_of(browser.post(action, posted, follow=True))
        compact_branch(session.runs.latest("pk").pk)
        answer = browser.post(action, posted, follow=True)
        assert "From another branch" in (shown := text_of(answer))
        assert not any(text in shown for text in ("[From Another Branch]", "There is no reply to this message yet."))
        carried = chat.get_branch(chat.newest_tip(nodes[-1]))[-1]
        assert (carried.parent_id, carried.copy_of) == (nodes[-1].pk, session.runs.latest("pk").summary_id)

    def test_those_of_others_are_not_found(self, stranger, session):
        tip = grow(session, 2)
        assert stranger.post(url("carry_over", session, tip), {"source": tip.pk}).status_code == 404
        assert stranger.post(url("hand_over", session, tip)).status_code == 404
        assert stranger.post(url("copy", session, tip)).status_code == 404
        assert ChatSession.objects.count() == 1
