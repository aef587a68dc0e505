"""Searching for people: over branches and sessions, by words in any order, what is summarized and what is not."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.conversation import search as searching
from compaction_app.exceptions import ConfigurationError, InvalidMessage
from compaction_app.models import SearchEntry
from tests.builders import grow
from tests.conversation.asking import say
from tests.small import anchored_summary, small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@pytest.fixture
def owner():
    return get_user_model().objects.create_user("ida")


@pytest.fixture
def harbour(owner):
    """Four messages, of which two are summarized."""
    nodes = say(chat.start_session(owner=owner), None, "The boat is red.", "A red boat.", "And the pier?", "It is old.")
    anchored_summary(nodes[2], nodes[1])
    return nodes


def found(query, **options):
    return [one.message_id for one in chat.search(query, **options)]


def test_all_words_in_any_order_newest_first(owner, harbour):
    assert found("boat red", owner=owner) == found("RED boats", owner=owner) == [harbour[1].pk, harbour[0].pk]
    assert found("red pier", owner=owner) == []
    # Not summarized.
    assert found("old", owner=owner) == [harbour[3].pk]
    [one] = chat.search("pier", session=harbour[0].session)
    assert (one.message_id, one.session_id, one.role, one.excerpt) == (
        *(harbour[2].pk, harbour[2].session_id),
        *("user", "And the pier?"),
    )
    assert one.created_at == harbour[2].created_at


def test_sessions_of_others_are_not_searched(owner, harbour):
    other = get_user_model().objects.create_user("bo")
    theirs = say(chat.start_session(owner=other), None, "A red boat of mine.", "Yes.", "More.")
    anchored_summary(theirs[2], theirs[1])
    nobodys = say(chat.start_session(), None, "Nobody's red boat.")
    assert found("red boat", owner=other) == [theirs[0].pk]
    assert found("red boat", owner=owner) == [harbour[1].pk, harbour[0].pk]
    assert found("red boat", session=nobodys[0].session) == [nobodys[0].pk]


def test_every_branch_is_searched_and_a_find_names_the_tip_to_open(owner, harbour):
    session = harbour[0].session
    edit = say(session, harbour[1], "And the crane, which is red?", "It turns.")
    again = say(session, edit[0], "It creaks.")
    tips = {one.message_id: one.tip_id for one in chat.search("red", owner=owner)}
    assert tips == {edit[0].pk: again[-1].pk, harbour[1].pk: again[-1].pk, harbour[0].pk: again[-1].pk}
    assert [one.tip_id for one in chat.search("old", owner=owner)] == [harbour[3].pk]
    for message in (*harbour, *edit, *again):
        [first, *_] = searching.newest_tips([message]).items()
        assert first == (message.pk, chat.newest_tip(message).pk)


def test_what_is_erased_is_not_found(owner, harbour):
    assert found("boat", owner=owner)
    chat.redact_message(harbour[0])
    chat.delete_message(harbour[3])
    assert found("boat", owner=owner) == [harbour[1].pk]
    assert found("old", owner=owner) == []


def test_what_stands_for_others_is_not_found(owner, harbour):
    chat.hand_over(harbour[-1])
    assert found("conversation before another chat", owner=owner) == []


def test_with_the_setting_everything_is_put_into_the_index(owner, settings):
    settings.COMPACTION = small(RECALL="all")
    nodes = say(chat.start_session(owner=owner), None, "The boat is red.", "A red boat.")
    fork = say(nodes[0].session, nodes[0], "A boat?")
    assert found("boat", owner=owner) == [fork[0].pk, nodes[1].pk, nodes[0].pk]
    assert SearchEntry.objects.count() == 3
    with CaptureQueriesContext(connection) as queries:
        assert found("boat", owner=owner) == [fork[0].pk, nodes[1].pk, nodes[0].pk]
    assert not any("INSERT" in one["sql"] for one in queries)
    # A branch is searched by the model below its cutoff alone, as ever.
    assert chat.recall(nodes[1], "boat") == []


def test_what_is_read_besides_the_index_has_an_end(owner, monkeypatch):
    session = chat.start_session(owner=owner)
    nodes = say(session, None, *["a lighthouse"] * 6)
    monkeypatch.setattr(searching, "_MOST_READ", 3)
    assert found("lighthouse", owner=owner) == [node.pk for node in reversed(nodes[3:])]
    monkeypatch.setattr(searching, "_MOST_CHARACTERS", 20)
    assert len(found("lighthouse", owner=owner)) == 2
    assert len(found("lighthouse", owner=owner, limit=1)) == 1


def test_it_costs_as_many_queries_in_a_long_conversation(owner):
    counts = []
    for length in ("u a " * 5, "u a " * 300):
        nodes = grow(chat.start_session(owner=owner), None, length, word="lighthouse")
        anchored_summary(nodes[-1], nodes[-2])
        chat.recall(nodes[-1], "lighthouse")
        with CaptureQueriesContext(connection) as queries:
            assert len(found("lighthouse", session=nodes[0].session, limit=4)) == 4
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "owner or a session"),
        ({"owner": 1, "session": 1}, "owner or a session"),
        ({"session": 1}, "ChatSession"),
        ({"owner": "ann"}, "owner must be a user"),
    ],
)
def test_an_owner_or_a_session(options, why):
    with pytest.raises(InvalidMessage, match=why):
        chat.search("boat", **options)


def test_a_query_that_cannot_be_searched(owner, settings, harbour):
    with pytest.raises(InvalidMessage, match="at least 2 characters"):
        chat.search("x", owner=owner)
    assert chat.search("北", owner=owner) == []
    settings.COMPACTION = small(RECALL=False)
    with pytest.raises(ConfigurationError, match="RECALL is off"):
        chat.search("boat", owner=owner)


def test_a_redactor_is_not_passed_by(owner, settings):
    say(chat.start_session(owner=owner), None, "The key is secret-123 and long.")
    settings.COMPACTION = small(REDACTOR="tests.conversation.test_search.without_keys")
    assert [one.excerpt for one in chat.search("key long", owner=owner)] == ["The key is [gone] and long."]
    assert chat.search("secret", owner=owner) == []


def without_keys(text: str) -> str:
    return text.replace("secret-123", "[gone]")
