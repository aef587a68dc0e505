"""A server in the place of every model."""

import pytest

from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.summarizers.summarizing import GOOD, KEY, KEY_VARIABLE


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as server:
        yield server
