"""Two hundred at once over HTTP: a real server, a thread and a connection for each request, on both databases."""

import http.client
import threading
import time
from collections import Counter

import pytest
from django.conf import settings as django_settings
from django.test import Client

from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.testing.summarizers import FakeSummarizer
from tests.api.asking import MOUNT, forget_throttle
from tests.conforming import served
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

CROWD = 200
#: A client gives up after this long; far more than any answer takes.
SECONDS = 120


@pytest.fixture
def port():
    with served() as address:
        yield int(address.rpartition(":")[2])


class Crowd:
    """Clients that send one request each, all let go together; one that is told to come again does."""

    def __init__(self, port, owner, path, body):
        self.port = port
        signed_in, readied = Client(), Client(enforce_csrf_checks=True)
        signed_in.force_login(owner)
        readied.get(f"{MOUNT}docs")
        token = readied.cookies["csrftoken"].value
        session = signed_in.cookies[django_settings.SESSION_COOKIE_NAME].value
        self.headers = {
            "Host": "testserver",
            "Content-Type": "application/json",
            "Cookie": f"{django_settings.SESSION_COOKIE_NAME}={session}; csrftoken={token}",
            "X-CSRFToken": token,
        }
        self.path, self.body = MOUNT + path, body
        self.answers = []
        self.told_to_wait = 0

    def send(self, count):
        barrier = threading.Barrier(count)
        threads = [threading.Thread(target=self._send_one, args=(barrier,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
        return Counter(self.answers)

    def _send_one(self, barrier):
        barrier.wait()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            status, retry_after = self._ask()
            if status != 503:
                self.answers.append(status)
                return
            # More than the database has connections for: it said so, and when to come again.
            self.told_to_wait += 1
            time.sleep(retry_after)

    def _ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("POST", self.path, self.body, self.headers)
            response = connection.getresponse()
            response.read()
            return response.status, int(response.getheader("Retry-After") or 0)
        finally:
            connection.close()


def test_of_two_hundred_compactions_of_one_branch_one_makes_a_summary(port, ann, branch, settings):
    """The rest is told that one is open, or that there is nothing left; nobody is told of a fault (rule 10)."""
    settings.COMPACTION = small(MANUAL_THROTTLE=None)
    FakeSummarizer.delay = 0.5
    answers = Crowd(port, ann, f"sessions/{branch[0].session_id}/compact", b"{}").send(CROWD)
    assert len(FakeSummarizer.requests) == 1
    assert answers.total() == CROWD
    assert answers[200] == 1
    assert set(answers) <= {200, 409, 422}
    assert ChatMessage.objects.filter(kind="summary").count() == 1
    assert CompactionRun.objects.filter(status="succeeded").count() == 1
    assert not CompactionRun.objects.open().exists()


def test_a_burst_gets_no_more_than_the_throttle_says(port, ann, branch, settings):
    settings.COMPACTION = small(MANUAL_THROTTLE="5/d")
    forget_throttle()
    answers = Crowd(port, ann, f"sessions/{branch[0].session_id}/compact", b"{}").send(40)
    assert answers[429] == 35
    assert answers[200] == 1
    assert set(answers) <= {200, 409, 422, 429}
