"""A server in the place of the chat model, and the client that asks it."""

import openai
import pytest

from compaction_app import chat
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow


@pytest.fixture
def session():
    return chat.start_session(model="house-model", system_prompt="You are terse.")


@pytest.fixture
def tip(session):
    """A question."""
    return grow(session, None, "u")[0]


@pytest.fixture
def server():
    with ScriptedOpenAIServer(default=steps.reply("Aye.")) as running:
        yield running


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
