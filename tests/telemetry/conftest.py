"""A real SDK that collects, and a real server that answers."""

import pytest

from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.small import small
from tests.telemetry.world import GOOD, USAGE, Collected


# A process has one, and one that was shut down complains in the log of every later test.
@pytest.fixture(scope="session")
def sdk():
    collected = Collected()
    yield collected
    collected.shut_down()


@pytest.fixture
def collected(sdk):
    sdk.clear()
    return sdk


@pytest.fixture
def server():
    with ScriptedOpenAIServer(default=steps.reply(GOOD, usage=USAGE)) as running:
        yield running


@pytest.fixture
def cascade(settings, server):
    models = [{"model": name, "base_url": server.url} for name in ("small-model", "large-model")]
    settings.COMPACTION = small(SUMMARIZERS={"default": {"MODELS": models}})
