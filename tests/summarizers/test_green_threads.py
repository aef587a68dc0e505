"""Greenlets instead of threads: a model's event loop runs in a real thread, or nowhere (celery/celery#8262)."""

import asyncio
import concurrent.futures
import sys
import threading
from types import SimpleNamespace

import pytest

from compaction_app import chat
from compaction_app.exceptions import ConfigurationError
from compaction_app.management.checks import check_threads
from compaction_app.models import CompactionRun
from compaction_app.summarizers.base import run_summarizer
from compaction_app.summarizers.openai import OpenAISummarizer
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.builders import grow
from tests.steps import late
from tests.summarizers.summarizing import ACCEPT, GOOD, KEY, KEY_VARIABLE, cascade, request, settings


@pytest.fixture
def replaced(monkeypatch):
    """Says that a library has replaced threads, as its own module does."""

    def say(monkey, is_patched):
        monkeypatch.setitem(sys.modules, monkey, SimpleNamespace(**{is_patched: lambda module: True}))

    return say


@pytest.mark.pure
def test_under_gevent_no_loop_runs_in_the_callers_thread(server, monkeypatch, replaced):
    replaced("gevent.monkey", "is_module_patched")
    monkeypatch.setitem(sys.modules, "gevent.threadpool", concurrent.futures)
    ran_in, run = [], asyncio.run
    monkeypatch.setattr(asyncio, "run", lambda call: (ran_in.append(threading.get_ident()), run(call))[1])
    assert run_summarizer(cascade(server, "first"), request(), ACCEPT).text == GOOD
    assert ran_in
    assert threading.get_ident() not in ran_in


@pytest.mark.pure
def test_eventlet_is_an_error_of_the_checks_and_of_the_run(replaced):
    assert check_threads() == []
    replaced("eventlet.patcher", "is_monkey_patched")
    [error] = check_threads()
    assert (error.id, error.hint) == ("compaction_app.E024", "Use Celery's prefork pool, or gevent (-P gevent).")
    with pytest.raises(ConfigurationError, match="eventlet has replaced Python's threads"):
        OpenAISummarizer(settings())


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_worker_with_greenlets_makes_two_summaries_at_once(celery_worker, settings):
    slow = late(1, steps.reply("## Recap\n\n" + "All is on the board. " * 4))
    with ScriptedOpenAIServer(default=slow) as server:
        models = [{"model": "m", "base_url": server.url, "api_key_env": KEY_VARIABLE}]
        settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "SUMMARIZERS": {"default": {"MODELS": models}}}
        worker = celery_worker(pool="gevent", concurrency=4, env={KEY_VARIABLE: KEY})
        for _ in range(3):
            assert chat.request_compaction(grow(chat.start_session(), None, "u a " * 35)[-1])
        worker.wait_until(lambda: CompactionRun.objects.filter(status="succeeded").count() == 3)
    assert "SynchronousOnlyOperation" not in worker.said
