"""Who is on the chat page, and in which conversation."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from compaction_app import chat
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.project.chat_page.pages import WINDOW, grow


@pytest.fixture
def marit():
    return get_user_model().objects.create_user("marit", password="wet-gloves-1")


@pytest.fixture
def browser(marit):
    client = Client()
    client.force_login(marit)
    return client


@pytest.fixture
def stranger():
    client = Client()
    client.force_login(get_user_model().objects.create_user("stranger"))
    return client


@pytest.fixture
def session(marit):
    return chat.start_session(owner=marit, title="The lighthouse", settings=WINDOW)


@pytest.fixture
def endpoint(settings):
    """A real server in the place of the model's endpoint."""
    with ScriptedOpenAIServer(default=steps.reply("Ahoy from the model.")) as server:
        settings.OPENAI_BASE_URL = server.url
        settings.OPENAI_API_KEY = "a-key-that-nobody-may-see"
        settings.CHAT_MODELS = ["scripted"]
        settings.CHAT_TIMEOUT_SECONDS = 5
        yield server


@pytest.fixture
def full(session):
    """The tip of a branch over the threshold."""
    return grow(session, 20, content="Tell me about the roof and the boat. " * 8)
