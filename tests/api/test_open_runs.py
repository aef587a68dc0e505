"""The run that a request opened, or that is in its way, is named so that a client can poll it."""

import pytest

from compaction_app import chat
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import CompactionRun
from compaction_app.testing.builders import grow
from tests.api.asking import MOUNT, Asker, World, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("quiet_world")]


@pytest.fixture
def path(session, branch):
    return f"sessions/{session.pk}/compact"


@pytest.mark.parametrize("wait", [True, False])
class TestInTheWay:
    def test_it_is_named(self, ask, path, branch, wait):
        run = chat.request_compaction(branch[-1])
        response = ask.post(path, {"wait": wait})
        assert response.status_code == 409
        assert response.json() == {
            "code": "open_run",
            "detail": "A compaction of this branch is already open; `run_id` is the run to poll.",
            "run_id": run.pk,
        }
        assert ask.get(f"runs/{response.json()['run_id']}").json()["status"] == "ready"

    def test_of_several_it_is_the_one_of_this_branch(self, ask, path, session, wait):
        roots = [grow(session, None, "u a " * 35) for _ in range(2)]
        runs = [chat.request_compaction(branch[-1]) for branch in roots]
        for branch, run in zip(roots, runs, strict=True):
            said = ask.post(path, {"wait": wait, "message_id": branch[-1].pk}).json()
            assert said["run_id"] == run.pk


def test_a_worker_who_was_faster_has_it_open(ask, path, monkeypatch):
    """Between opening the run and claiming it a worker took it: nothing failed, and the run is there to poll."""
    monkeypatch.setattr("compaction_app.compaction.runs.claim", lambda *arguments: None)
    response = ask.post(path)
    run = CompactionRun.objects.get()
    assert response.status_code == 409
    assert (response.json()["code"], response.json()["run_id"]) == ("open_run", run.pk)
    with pytest.raises(CompactionFailed) as failed:
        chat.compact(grow(run.session, None, "u a " * 35)[-1])
    assert (failed.value.error_code, failed.value.run_id) == ("claimed", CompactionRun.objects.latest("pk").pk)


def test_an_accepted_one_says_where_it_is_polled(ask, path):
    response = ask.post(path, {"wait": False})
    assert response.status_code == 202
    assert response["Location"] == f"{MOUNT}runs/{response.json()['run_id']}"
    assert ask.client.get(response["Location"]).json() == response.json()
    assert "Location" not in ask.get(f"runs/{response.json()['run_id']}")


@pytest.mark.urls("tests.token_urls")
def test_wherever_a_host_has_mounted_it():
    world, ask = World(user("ann")), Asker(mount="/of/sessions/chats/v1/")
    body = {"wait": False, "instructions": "again"}
    response = ask.post(f"{world.path}/compact", body, headers={"Authorization": "Bearer nna"})
    assert response["Location"] == f"/of/sessions/chats/v1/runs/{response.json()['run_id']}"


def test_a_summary_that_is_to_be_deleted_or_redacted_is_told_how_it_goes_away(ask, world):
    """In words of this API: no client can call Python."""
    way = f"retire it with DELETE summaries/{world.summary.pk}."
    deleted = ask("DELETE", f"messages/{world.summary.pk}").json()
    redacted = ask.post(f"messages/{world.summary.pk}/redact").json()
    assert deleted == {"code": "invalid_message", "detail": f"message_id: A summary does not change; {way}"}
    assert redacted["detail"] == f"message_id: A summary does not change; {way}"
    assert "chat." not in ask.post(f"{world.path}/compact", {"message_id": world.summary.pk}).json()["detail"]
    assert world.session.messages.filter(pk=world.summary.pk, retired_at=None).exists()
