"""Whether the broker answers: told on the page of the app."""

import socket
import time

import pytest

from compaction_app.admin import health as watching
from project.celery import app as celery_app
from tests.admin.pages import alerts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


#: Before a fixture replaces it.
PRISTINE_KNOCK = watching.knock


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


@pytest.mark.pure
def test_a_port_that_accepts_and_says_nothing_is_no_broker(monkeypatch):
    """A page waits for it as long as an enqueueing does, and not for the server's patience."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(celery_app.conf, "broker_url", f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        begun = time.monotonic()
        with pytest.raises(Exception, match=r"(?i)time"):
            PRISTINE_KNOCK()
    assert time.monotonic() - begun < 10


def test_a_port_where_nobody_listens_is_no_broker_and_one_that_is_there_answers(monkeypatch, request):
    with monkeypatch.context() as nobody:
        nobody.setitem(celery_app.conf, "broker_url", "redis://127.0.0.1:1/0")
        with pytest.raises(Exception, match="refused"):
            PRISTINE_KNOCK()
    request.getfixturevalue("broker")
    PRISTINE_KNOCK()
