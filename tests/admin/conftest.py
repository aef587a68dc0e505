"""Who looks at the admin, and in what world."""

from functools import partial

import pytest
from django.contrib.auth import get_user_model

from tests.admin.pages import VIEW, log_in
from tests.admin.records import run_for
from tests.trees import chain, start_session, summarize


@pytest.fixture
def window_of_4000(settings):
    settings.COMPACTION = {"CONTEXT_WINDOW": 4000, "SUMMARIZER": "extractive"}


@pytest.fixture
def login(client):
    """Log in as a staff member with these permissions of the app: ``login("view_chatmessage")``."""
    return partial(log_in, client)


@pytest.fixture
def viewer(login):
    """May see everything and do nothing."""
    return login(*VIEW)


@pytest.fixture
def operator(login):
    """May see everything, compact and retire."""
    return login(*VIEW, "compact_chatsession", "retire_summary")


@pytest.fixture
def eraser(login):
    """May see everything, compact and erase."""
    return login(*VIEW, "redact_chatmessage", "delete_chatmessage", "retire_summary", "compact_chatsession")


@pytest.fixture
def superuser(client):
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


@pytest.fixture
def tip():
    return chain(start_session(title="Harbour"), 1)[0]


@pytest.fixture
def tips():
    """Five messages of one session."""
    return chain(start_session(title="Harbour"), 5)


@pytest.fixture
def three():
    """A chain of eight with three generations, each built on the one before."""
    nodes = chain(start_session(title="Harbour"), 8)
    first = summarize(nodes[2], nodes[1], content="The budget is 2,000. Anna likes green.", token_count=9)
    second = summarize(nodes[4], nodes[3], content="The budget is 2,400. Anna likes green.", token_count=9)
    third = summarize(nodes[6], nodes[5], content="The budget is 2,400.", token_count=5)
    run_for(first, nodes[2], 1, messages_compacted=2, retention_after=1.0)
    run_for(second, nodes[4], 2, base=first, messages_compacted=2)
    run_for(third, nodes[6], 3, base=second, messages_compacted=2)
    return nodes, (first, second, third)
