"""Whom the JSON API is asked by, and about what."""

import pytest
from django.core.cache import cache

from compaction_app import chat, tasks
from tests.api.asking import Asker, World, user


@pytest.fixture
def quiet_world(small_window, monkeypatch):
    """The small world, where no run is sent to a broker and nobody has used up any of the throttle."""
    monkeypatch.setattr(tasks, "enqueue", lambda run: True)
    cache.clear()


@pytest.fixture
def ann(db):
    return user("ann")


@pytest.fixture
def ask(ann):
    return Asker(ann)


@pytest.fixture
def world(ann):
    return World(ann)


@pytest.fixture(scope="session")
def document():
    return Asker().get("openapi.json").json()


@pytest.fixture
def session(ann):
    return chat.start_session(owner=ann)


@pytest.fixture
def path(session):
    """Where messages are appended to it."""
    return f"sessions/{session.pk}/messages"
