"""Runs by real Celery workers, against a model that answers at once: what a run costs around the model's call.

Run as ``python -m benchmarks.speed.workers``, with ``DATABASE_URL`` set. Here a size is a number of workers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.speed.on_django import OnDjango
from benchmarks.speed.processes import REPOSITORY
from benchmarks.speed.serving import message, serve
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from project.embedded import EmbeddedValkey
from project.guard import GuardedProcess

RUNS, MESSAGES, WINDOW = 40, 150, 4_000
RECAP = "## Recap\n\n" + "".join(f"The user sent message {at}, and it was answered. " for at in range(0, 24, 2))
#: Seconds that workers may take to start, or a batch to end.
PATIENCE = 60.0


class Workers(OnDjango):
    """Each conversation is over its threshold; a batch ends when every one of them has its summary."""

    def __init__(self) -> None:
        self.model = ScriptedOpenAIServer(default=steps.reply(RECAP)).__enter__()
        self.broker = EmbeddedValkey().start()
        self.workers: list[GuardedProcess] = []
        self.folder = Path(tempfile.mkdtemp())
        os.environ |= {
            "CELERY_BROKER_URL": self.broker.url,
            "OPENAI_BASE_URL": self.model.url,
            "OPENAI_API_KEY": "none",
            "COMPACTION_CONTEXT_WINDOW": str(WINDOW),
        }
        super().__init__()

    def grow(self, size: int, branches: int) -> None:
        for worker in self.workers:
            worker.stop()
        self.workers = [self._start(f"worker-{size}-{number}") for number in range(size)]
        until = time.monotonic() + PATIENCE
        while not all(" ready." in worker.log_tail(200) for worker in self.workers):
            if time.monotonic() > until:
                raise TimeoutError(self.workers[0].log_tail(20))
            time.sleep(0.05)

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        import openai

        client = openai.OpenAI(base_url=self.model.url, api_key="none")
        words = message(0)["content"] * 80

        def bare() -> None:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": words}])

        return {"a run": self._batch, "the model's call alone": bare}

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return {}

    def _batch(self) -> float:
        """Seconds a run, from the first task that is sent to the last summary."""
        from compaction_app import chat
        from compaction_app.models import CompactionRun

        messages = [message(at) for at in range(MESSAGES)]
        tips = [chat.append_messages(chat.start_session(), None, messages)[-1] for _ in range(RUNS)]
        started = time.perf_counter()
        runs = [chat.request_compaction(tip) for tip in tips]
        pending = [run.pk for run in runs if run is not None]
        if len(pending) != RUNS:
            raise RuntimeError(f"{len(pending)} of {RUNS} runs were opened")
        while CompactionRun.objects.open().filter(pk__in=pending).exists():
            if time.perf_counter() - started > PATIENCE:
                raise TimeoutError(self.workers[0].log_tail(20))
            time.sleep(0.01)
        taken = time.perf_counter() - started
        if CompactionRun.objects.filter(pk__in=pending, status="succeeded").count() != RUNS:
            raise RuntimeError("not every run succeeded")
        return taken / RUNS

    def _start(self, name: str) -> GuardedProcess:
        options = ("--concurrency", "1", "--loglevel", "info", "--without-gossip", "--without-mingle")
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", "--hostname", f"{name}@%h", *options]
        return GuardedProcess(command, log=self.folder / f"{name}.log", cwd=REPOSITORY, env=dict(os.environ))


if __name__ == "__main__":
    serve(Workers())
