"""What the chat page costs: a fixed number of queries, and the texts of its own messages only."""

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from project.chat.shown import PAGE_SIZE
from tests.project.chat_page.pages import counted_queries, grow, url

pytestmark = pytest.mark.django_db


def queries_of(browser, address):
    with counted_queries() as captured:
        assert browser.get(address).status_code == 200
    return len(captured)


@pytest.mark.django_db(transaction=True)
class TestQueries:
    """The number of queries depends on nothing: not on length, forks or what was compacted."""

    #: Sign-in 2, session, tip, context, runs, messages, variants, pins, the list of conversations.
    PLAIN = 10

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

    def test_the_page_reads_the_text_of_its_own_messages_only(self, browser, session):
        """50,000 messages must not be loaded to show forty."""
        grow(session, 60, content="Message ")
        with counted_queries() as captured:
            browser.get(url("session", session))
        (window,) = [q["sql"] for q in captured if "substr(m.content" in q["sql"]]
        assert len(list(ChatMessage.objects.raw(window.replace("%", "%%")))) == PAGE_SIZE
