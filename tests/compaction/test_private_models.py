"""A conversation that is summarized by a private model leaves for no other address."""

import pytest

from compaction_app import chat
from compaction_app.exceptions import CompactionFailed
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = "## Recap\n\n" + "All is on the board. " * 4


@pytest.fixture
def public(monkeypatch):
    """The default address, with the host's default key."""
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "the-default-key")
        yield running


@pytest.fixture
def private(settings):
    """The host's own summarizer, which is down."""
    with ScriptedOpenAIServer(default=steps.server_error()) as running:
        settings.COMPACTION = small(
            SUMMARIZERS={"default": {"MODELS": [{"model": "ours", "base_url": running.url}]}},
        )
        yield running


def compact(session, branch):
    session.model = "gpt-4o"
    session.save(update_fields=["model"])
    return chat.compact(branch[-1])


def test_the_model_that_an_owner_names_is_not_asked(session, branch, public, private):
    with pytest.raises(CompactionFailed) as failed:
        compact(session, branch)
    assert "gpt-4o" not in failed.value.error_detail
    assert (private.count("ours"), public.requests) == (1, [])


def test_a_listed_one_is_asked_where_the_host_says_with_the_key_that_it_names(
    session, branch, public, private, settings, monkeypatch
):
    monkeypatch.setenv("OUR_KEY", "our-own-key")
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as second:
        listed = {"model": "gpt-4o", "base_url": second.url, "api_key_env": "OUR_KEY"}
        settings.COMPACTION["SUMMARIZERS"]["default"]["CHAT_MODELS"] = [listed]
        run = compact(session, branch)
        assert (run.status, run.summarizer_model) == ("succeeded", "gpt-4o")
        assert second.calls[0].headers["authorization"] == "Bearer our-own-key"
    assert public.requests == []
