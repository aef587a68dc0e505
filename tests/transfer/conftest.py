"""A conversation, and the server that its compactions are sent to."""

from collections.abc import Iterator
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.transfer.bundling import SUMMARY, site


@pytest.fixture
def server(settings: Any) -> Iterator[ScriptedOpenAIServer]:
    with ScriptedOpenAIServer(default=steps.reply(SUMMARY)) as running:
        settings.COMPACTION = site(running)
        yield running


@pytest.fixture
def session() -> ChatSession:
    return chat.start_session(title="A garden", system_prompt="You help with gardens.")
