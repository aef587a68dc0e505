"""Where a conversation goes to be summarized: to the models of the name that its session has, and nowhere else."""

from collections.abc import Iterator

import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = "## Recap\n\n" + "All is on the board. " * 4


@pytest.fixture
def local() -> Iterator[ScriptedOpenAIServer]:
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as running:
        yield running


@pytest.fixture(autouse=True)
def _offered(settings, local):
    models = [{"model": "house-small", "base_url": local.url}]
    settings.COMPACTION = small()
    settings.COMPACTION["SUMMARIZERS"]["local"] = {"MODELS": models}


def test_a_session_picks_one_and_others_have_the_sites(local):
    picked = chat.start_session(settings={"SUMMARIZER": "local"})
    other = chat.start_session()
    for session in (picked, other):
        chat.compact(grow(session, None, "u a " * 35)[-1])
    assert [request["model"] for request in local.requests] == ["house-small"]
    assert [run.summarizer_model for run in (picked.runs.get(), other.runs.get())] == ["house-small", "fake"]
    assert len(FakeSummarizer.requests) == 1


def test_where_the_site_removes_one_its_sessions_go_on_and_only_their_compactions_fail(settings, local):
    """The site's own is not asked instead: a session may have chosen where its conversation is sent."""
    session = chat.start_session(settings={"SUMMARIZER": "local"})
    tip = grow(session, None, "u a " * 35)[-1]
    settings.COMPACTION = small()
    assert len(chat.get_context(tip).messages) == 70
    assert chat.append_message(session, tip, role="user", content="Still there?").depth == 71
    with pytest.raises(CompactionFailed) as caught:
        chat.compact(tip)
    assert caught.value.error_code == "bad_request"
    assert caught.value.error_detail == "SUMMARIZERS has no 'local', which this session has chosen."
    assert (local.requests, FakeSummarizer.requests) == ([], [])


@pytest.mark.parametrize("broken", [{"PRIVATE_ENDPOINT": "http://10.0.0.7"}, {"SUMMARIZERS": {"default": 7}}])
def test_a_run_whose_settings_can_not_be_read_fails_and_asks_nobody(broken):
    """A key that is not known may have said where the conversation may be sent."""
    run = chat.request_compaction(grow(chat.start_session(), None, "u a " * 35)[-1])
    CompactionRun.objects.filter(pk=run.pk).update(settings={**run.settings, **broken})
    compact_chat_history(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "bad_request")
    assert run.error_detail.startswith("The run's settings cannot be read: ")
    assert FakeSummarizer.requests == []


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
        settings.COMPACTION = small(SUMMARIZERS={"default": {"MODELS": [{"model": "ours", "base_url": running.url}]}})
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
