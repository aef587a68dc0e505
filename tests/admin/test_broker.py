"""Whether the broker answers: asked once in a while, told in the admin, and waited for by no page."""

import socket
import threading
import time

import pytest

from compaction_app.admin import health as watching
from project.celery import app as celery_app
from tests.admin.pages import alerts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("answering_broker")]


def watch_with(knock, monkeypatch):
    watch = watching.Watch(knock)
    monkeypatch.setattr(watching, "watch", watch)
    return watch


def refused():
    raise ConnectionRefusedError("redis://user:secret@host")


def test_a_broker_that_does_not_answer_is_told_without_its_address(viewer, monkeypatch):
    watch_with(refused, monkeypatch)
    [said] = alerts(viewer)
    assert "The message broker does not answer (ConnectionRefusedError)." in said
    assert "secret" not in said


@pytest.mark.parametrize("mode", ["off", "deterministic"])
def test_where_nothing_is_enqueued_no_broker_is_missed(viewer, monkeypatch, settings, mode):
    settings.COMPACTION |= {"MODE": mode}
    watch_with(refused, monkeypatch)
    assert alerts(viewer) == []


def test_an_eager_celery_needs_no_broker(viewer, monkeypatch):
    watch_with(refused, monkeypatch)
    monkeypatch.setitem(celery_app.conf, "task_always_eager", True)
    assert alerts(viewer) == []


@pytest.mark.pure
class TestWatch:
    def test_it_asks_once_in_a_while_and_remembers_since_when(self, monkeypatch):
        asked = []
        monkeypatch.setattr(watching, "FRESH_SECONDS", 3600)
        watch = watching.Watch(lambda: (asked.append(1), refused()))
        first = watch.silence()
        assert watch.silence() is first
        assert len(asked) == 1
        watch._next_look = 0.0
        assert watch.silence().since == first.since
        assert len(asked) == 2

    def test_it_is_over_when_the_broker_answers_again(self):
        answers = iter([refused, lambda: None])
        watch = watching.Watch(lambda: next(answers)())  # noqa: PLW0108 - another one at each look
        assert watch.silence() is not None
        watch._next_look = 0.0
        assert watch.silence() is None

    def test_a_page_does_not_wait_for_one_that_hangs(self):
        """Nor does the next page start another look; what the look finds is told later."""
        hang = threading.Event()
        watch = watching.Watch(lambda: (hang.wait(30), refused()))
        begun = time.monotonic()
        assert watch.silence() is None
        assert watch.silence() is None
        assert time.monotonic() - begun < 10 * watching.PAGE_WAITS_SECONDS
        hang.set()
        deadline = time.monotonic() + 10
        while watch.silence() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.silence().error == "ConnectionRefusedError"

    def test_a_port_where_nobody_listens_is_no_broker(self, monkeypatch):
        monkeypatch.setitem(celery_app.conf, "broker_url", "redis://127.0.0.1:1/0")
        with pytest.raises(Exception, match="refused"):
            watching.knock()

    def test_a_port_that_accepts_and_says_nothing_is_no_broker(self, monkeypatch):
        """The look ends by the time-out of an enqueueing, not by the server's patience."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url_ = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            monkeypatch.setitem(celery_app.conf, "broker_url", url_)
            begun = time.monotonic()
            with pytest.raises(Exception, match=r"(?i)time"):
                watching.knock()
        assert time.monotonic() - begun < 10


def test_a_broker_that_is_there_answers(broker):
    watching.knock()
