"""Fixtures of the whole suite: the real servers, real workers, the real conversations."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import hypothesis
import pytest
import redis
from django.core.cache import cache
from django.db import connection
from django.test import TransactionTestCase
from kombu import pools

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from project.celery import app as celery_app
from project.embedded import EmbeddedValkey
from project.guard import GuardedProcess
from tests.builders import grow
from tests.databases import copy_migrated
from tests.emptying import empty_databases
from tests.fake_summarizer import FakeSummarizer
from tests.plugin import DATA_VARIABLE, NO_SHARED_DATA
from tests.responses import OpenAIServer
from tests.small import small

REPOSITORY = Path(__file__).resolve().parent.parent
WORKER_START_SECONDS = 60.0

# The first example may load a tokenizer, or wait for another process.
hypothesis.settings.register_profile("without deadline", deadline=None)
hypothesis.settings.load_profile("without deadline")

WORKERS = pytest.StashKey[list["CeleryWorker"]]()


@pytest.fixture(scope="session", autouse=True)
def emptied_by_deleting() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_databases)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The copy that is there is taken, and goes with the folder or the server that it is in."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        copy_migrated("default")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real conversations."""
    folder = Path(os.environ.get(DATA_VARIABLE) or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(NO_SHARED_DATA)
    return folder


@pytest.fixture
def small_window(settings: Any) -> None:
    """The small world of exact numbers."""
    settings.COMPACTION = small()


@pytest.fixture
def own_cache() -> Iterator[None]:
    """What a test leaves in the cache is nothing to the next."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def _fake_summarizer_forgets() -> Iterator[None]:
    yield
    FakeSummarizer.reset()


@pytest.fixture
def session() -> ChatSession:
    return chat.start_session(title="a conversation")


@pytest.fixture
def branch(session: ChatSession) -> list[ChatMessage]:
    """Over the threshold of 6,000 in the small world."""
    return grow(session, None, "u a " * 35)


@pytest.fixture
def server() -> Iterator[ScriptedOpenAIServer]:
    """A provider whose every answer passes for a summary."""
    with OpenAIServer(default=steps.reply()) as running:
        yield running


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def broker(valkey: EmbeddedValkey) -> Iterator[str]:
    """An empty broker to which the tasks of this process go; its URL."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    before = celery_app.conf.broker_url
    _send_tasks_to(valkey.url)
    yield valkey.url
    _send_tasks_to(before)


def _send_tasks_to(url: str) -> None:
    # Celery keeps the pools it has made, and with them the connections to the broker before.
    pools.reset()
    celery_app._pool = None
    celery_app.amqp._producer_pool = None
    celery_app.conf.broker_url = url


class CeleryWorker(GuardedProcess):
    """A worker in a process of its own, on the test's database and broker."""

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until the condition holds, or fail with the worker's log."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"not so after {seconds:g} seconds; the worker's log:\n{self.said}")
            time.sleep(0.05)


StartWorker = Callable[..., CeleryWorker]


@pytest.fixture
def celery_worker(
    request: pytest.FixtureRequest, broker: str, transactional_db: None, tmp_path: Path
) -> Iterator[StartWorker]:
    """Start a real worker process: ``celery_worker(pool="solo", env={"COMPACTION_MODE": "aggressive"})``.

    All are ended before the test's rows are: PostgreSQL's TRUNCATE would wait for a worker's open
    transaction.
    """
    workers = request.node.stash[WORKERS] = []
    stack = contextlib.ExitStack()

    def start(
        *, pool: str = "prefork", concurrency: int = 1, beat: bool = False, env: Mapping[str, str] | None = None
    ) -> CeleryWorker:
        name = f"worker-{len(workers) + 1}"
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", "--hostname", f"{name}@%h"]
        command += ["--concurrency", str(concurrency), "--pool", pool, "--loglevel", "info"]
        command += ["--without-gossip", "--without-mingle"]
        if beat:
            command += ["--beat", "--schedule", str(tmp_path / f"{name}-schedule")]
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings", "PYTHONUNBUFFERED": "1"}
        environment |= {"DATABASE_URL": live_database_url(), "CELERY_BROKER_URL": broker} | dict(env or {})
        worker = CeleryWorker(command, log=tmp_path / f"{name}.log", cwd=REPOSITORY, env=environment)
        stack.callback(worker.stop)
        # In order it would end seconds later, with its next look at the broker.
        stack.callback(worker.kill)
        workers.append(worker)
        worker.wait_until(lambda: " ready." in worker.said or not worker.is_running(), WORKER_START_SECONDS)
        assert worker.is_running(), f"the worker ended while starting; its log:\n{worker.said}"
        return worker

    with stack:
        yield start


def live_database_url() -> str:
    """The URL of the database that the tests of this process are writing to."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return "sqlite:///" + quote(str(database["NAME"]))
    return f"postgresql://{database['USER']}@{database['HOST']}:{database['PORT']}/{quote(database['NAME'])}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        for number, worker in enumerate(item.stash.get(WORKERS, []), start=1):
            report.sections.append((f"log of worker {number}", worker.said))
    return report
