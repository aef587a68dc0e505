"""Many at once over HTTP: a real server, a thread and a connection for each request, on both databases."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.core.cache import cache

from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from tests.conforming import MOUNT, served
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

#: A client gives up after this long; far more than any answer takes.
SECONDS = 120


@pytest.fixture
def compacting(settings, ann, branch):
    """What clients are answered that ask for one compaction each, all let go together."""
    settings.ROOT_URLCONF = "tests.token_urls"
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    ChatSession.objects.update(owner=ann)
    path = f"{MOUNT}sessions/{branch[0].session_id}/compact"
    headers = {"Authorization": f"Bearer {ann.username[::-1]}", "Content-Type": "application/json"}

    def send(address, barrier):
        barrier.wait(SECONDS)
        while True:
            try:
                with urlopen(Request(address + path, b"{}", headers), timeout=SECONDS) as answer:
                    return answer.status
            except HTTPError as refused:
                if refused.code != 503:
                    return refused.code
                # More than the database has connections for: it says so, and when to come again.
                time.sleep(int(refused.headers["Retry-After"]))

    def ask(count):
        barrier = threading.Barrier(count)
        with served() as address, ThreadPoolExecutor(count) as pool:
            return Counter(pool.map(lambda _: send(address, barrier), range(count)))

    return ask


@pytest.mark.twice
@pytest.mark.parametrize("crowd", [20, pytest.param(200, marks=pytest.mark.long)])
def test_of_many_compactions_of_one_branch_one_makes_a_summary(compacting, settings, crowd):
    """The rest is told that one is open, or that there is nothing left; nobody is told of a fault (rule 10)."""
    settings.COMPACTION = small(MANUAL_THROTTLE=None)
    FakeSummarizer.delay = 0.5
    answers = compacting(crowd)
    assert len(FakeSummarizer.requests) == 1
    assert answers.total() == crowd
    assert answers[200] == 1
    assert set(answers) <= {200, 409, 422}
    assert ChatMessage.objects.filter(kind="summary").count() == 1
    assert CompactionRun.objects.filter(status="succeeded").count() == 1
    assert not CompactionRun.objects.open().exists()


def test_a_burst_gets_no_more_than_the_throttle_says(compacting, settings):
    settings.COMPACTION = small(MANUAL_THROTTLE="5/d")
    cache.clear()
    answers = compacting(12)
    assert answers[429] == 7
    assert answers[200] == 1
    assert set(answers) <= {200, 409, 422, 429}
