"""What the chat page costs: a fixed number of queries, and the texts of its own messages only."""

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from project.chat.shown import PAGE_SIZE
from tests.project.chat_page.pages import WINDOW, counted_queries, grow, url

pytestmark = pytest.mark.django_db


def queries_of(browser, address):
    with counted_queries() as captured:
        assert browser.get(address).status_code == 200
    return len(captured)


@pytest.mark.django_db(transaction=True)
class TestQueries:
    """The number of queries depends on nothing: not on length, forks or what was compacted."""

    #: Sign-in 2, session, tip, context, runs, messages, variants, the list of conversations.
    PLAIN = 9
    #: One more for the generation in use.
    COMPACTED = 10

    @pytest.fixture(autouse=True)
    def wide_window(self, session):
        session.settings = {"CONTEXT_WINDOW": 100_000}
        session.save()

    @pytest.mark.parametrize("messages", [10, 60])
    def test_they_are_the_same_for_any_number_of_messages_and_variants(self, browser, session, messages):
        tip = grow(session, messages)
        root = ChatMessage.objects.get(parent=None)
        assert queries_of(browser, url("session", session)) == self.PLAIN
        # The message, whether it is being answered by the database's clock, and the forks below it; its session is not
        # read again.
        assert queries_of(browser, url("branch", session, root)) == self.PLAIN + 4
        for message in list(ChatMessage.objects.order_by("-id")[:8]):
            for _ in range(3):
                chat.append_message(session, message.parent, role=message.role, content="Variant")
        assert queries_of(browser, url("branch", session, tip)) == self.PLAIN + 2

    @pytest.mark.parametrize(("messages", "left_out"), [(30, False), (130, True)])
    def test_a_summary_takes_one_more_however_long_the_branch_is(self, browser, session, messages, left_out):
        tip = grow(session, messages, content="Tell me about the roof and the boat. " * 8)
        chat.compact(tip, instructions="The boat.")
        session.settings = WINDOW
        session.save()
        assert bool(chat.get_context(tip).dropped) is left_out
        # Where messages are left out, an extract of another branch is looked for.
        assert queries_of(browser, url("session", session)) == self.COMPACTED + left_out
        for _ in range(2):
            tip = grow(session, 20, parent=tip, content="And about the harbour. " * 8)
            chat.compact(tip)
        assert queries_of(browser, url("session", session)) == self.COMPACTED
        # The list, and the ids that say which of them are on this branch.
        assert queries_of(browser, url("session", session) + "?compactions") == self.COMPACTED + 2

    def test_the_page_reads_the_text_of_its_own_messages_only(self, browser, session):
        """50,000 messages must not be loaded to show forty."""
        grow(session, 60, content="Message ")
        with counted_queries() as captured:
            browser.get(url("session", session))
        (window,) = [q["sql"] for q in captured if "substr(m.content" in q["sql"]]
        assert len(list(ChatMessage.objects.raw(window.replace("%", "%%")))) == PAGE_SIZE
