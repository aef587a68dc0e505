"""Compacting from the admin: who may, what is opened, and what is told where it is not."""

import pytest
from django.contrib.admin.models import LogEntry

from compaction_app.values import RunStatus
from tests.admin.pages import MODELS, page_of, told, url
from tests.admin.records import compacted, conversation, run_at
from tests.trees import start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.parametrize(
    "codename",
    ["compact_chatsession", "retire_summary", "redact_chatmessage", "change_chatsession", "delete_chatmessage"],
)
def test_actions_have_permissions_of_their_own(login, codename):
    """As buttons and as pages: who may not, sees no button and gets no page."""
    session, nodes, summary, *_ = compacted()
    failed = run_at(nodes[-2], status="failed")
    client = login(*(f"view_{model}" for model in MODELS), codename)
    for needed, record, page in (
        ("compact_chatsession", session, url("chatsession_compact", session.pk)),
        ("compact_chatsession", nodes[-1], url("chatmessage_compact", nodes[-1].pk)),
        ("compact_chatsession", failed, url("compactionrun_retry", failed.pk)),
        ("retire_summary", summary, url("chatmessage_retire", summary.pk)),
        ("redact_chatmessage", nodes[0], url("chatmessage_redact", nodes[0].pk)),
        ("delete_chatmessage", nodes[0], url("chatmessage_delete", nodes[0].pk)),
    ):
        allowed, given = codename == needed, {"reason": "x", "replacement": "x", "post": "yes"}
        assert (f'href="{page}"' in client.get(page_of(record)).text) == allowed, page
        assert client.get(page).status_code == (200 if allowed else 403), page
        assert client.post(page, given).status_code == (302 if allowed else 403), page


def test_pages_of_actions_on_what_is_not_there_are_not_found(superuser):
    session = start_session()
    for page in (
        url("chatsession_compact", "00000000-0000-4000-8000-000000000000"),
        url("chatmessage_compact", 10**9),
        url("chatmessage_redact", 10**9),
        url("compactionrun_retry", 10**9),
    ):
        assert superuser.post(page, {"replacement": "x"}).status_code == 404
    assert session.runs.count() == 0


@pytest.mark.django_db(transaction=True)
def test_compact_now_opens_a_manual_run_with_the_instructions(operator, broker):
    session, tip = conversation()
    response = operator.post(url("chatmessage_compact", tip.pk), {"instructions": "Keep the prices."})
    run = session.runs.get()
    assert (run.tip_id, run.trigger, run.status, run.instructions) == (tip.pk, "manual", "ready", "Keep the prices.")
    assert told(response).startswith(f"Opened: Run {run.pk} (waiting).")
    assert response.headers["Location"] == page_of(tip)
    assert LogEntry.objects.get().change_message == f"Compaction requested: run {run.pk}."


@pytest.mark.django_db(transaction=True)
def test_compact_now_in_deterministic_mode_compacts_before_it_answers(operator, settings):
    settings.COMPACTION |= {"MODE": "deterministic"}
    session, tip = conversation()
    said = told(operator.post(url("chatmessage_compact", tip.pk)))
    assert said.startswith(f"Opened: Run {session.runs.get(status='succeeded').pk} (succeeded).")


def test_a_summary_is_no_tip_to_compact(operator):
    _, _, summary, *_ = compacted()
    assert "A summary is not a tip" in told(operator.post(url("chatmessage_compact", summary.pk)))


@pytest.mark.django_db(transaction=True)
def test_retry_opens_a_new_run_for_the_tip_of_the_failed_one(operator, broker):
    session, tip = conversation()
    failed = run_at(tip, status="failed", error_code="timeout", instructions="Keep the prices.")
    said = told(operator.post(url("compactionrun_retry", failed.pk)))
    new = session.runs.exclude(pk=failed.pk).get()
    assert (new.tip_id, new.trigger, new.status, new.instructions) == (tip.pk, "manual", "ready", "Keep the prices.")
    assert said.startswith(f"Opened: Run {new.pk} (waiting).")
    failed.refresh_from_db()
    assert failed.status == RunStatus.FAILED
