"""The small world, in it a branch that is to be compacted."""

import pytest

from compaction_app import chat
from compaction_app.testing.builders import grow


@pytest.fixture(autouse=True)
def small_world(small_window: None) -> None:
    """Before the fixtures of a class, which change some of it: a mark would come after them."""


@pytest.fixture
def session():
    return chat.start_session(title="a conversation")


@pytest.fixture
def branch(session):
    """Over the threshold of 6,000."""
    return grow(session, None, "u a " * 35)
