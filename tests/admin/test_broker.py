"""Whether the broker answers: told on the page of the app."""

import pytest

from compaction_app.admin import health as watching
from project.celery import app as celery_app
from tests.admin.pages import alerts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


def refused():
    raise ConnectionRefusedError("redis://user:secret@host")


def test_a_broker_that_does_not_answer_is_told_without_its_address(viewer, monkeypatch):
    monkeypatch.setattr(watching, "knock", refused)
    [said] = alerts(viewer)
    assert "The message broker does not answer (ConnectionRefusedError)." in said
    assert "secret" not in said


@pytest.mark.parametrize("mode", ["off", "deterministic"])
def test_where_nothing_is_enqueued_no_broker_is_missed(viewer, monkeypatch, settings, mode):
    settings.COMPACTION |= {"MODE": mode}
    monkeypatch.setattr(watching, "knock", refused)
    assert alerts(viewer) == []


def test_an_eager_celery_needs_no_broker(viewer, monkeypatch):
    monkeypatch.setattr(watching, "knock", refused)
    monkeypatch.setitem(celery_app.conf, "task_always_eager", True)
    assert alerts(viewer) == []
