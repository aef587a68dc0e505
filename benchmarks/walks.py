"""Which files of the package three calls go through, and how many functions call into another file.

``chat.get_context``, ``chat.complete`` and ``tasks.compact_branch`` run once on SQLite against a scripted model while
Python's profiler notes every file of ``compaction_app`` that a call enters, and every pair of functions of which one
calls the other across files. A loop counts once; ``memory/`` counts as one file. Prints numbers, asserts nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import openai
from django.core.management import call_command
from django.test import override_settings

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "compaction_app"
sys.path.insert(0, str(REPOSITORY))

TURNS = 60


class Walk:
    """Notes the files of the package while a call runs."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.calls: set[tuple[str, str]] = set()
        self._path: list[tuple[str, str]] = []

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "return") or not (name := self._name(frame.f_code.co_filename)):
            return
        if event == "return":
            self._path.pop()
            return
        function = f"{name}:{frame.f_code.co_qualname}"
        if self._path and self._path[-1][0] != name:
            self.calls.add((self._path[-1][1], function))
        self._path.append((name, function))
        if name not in self.files:
            self.files.append(name)

    @staticmethod
    def _name(filename: str) -> str:
        path = Path(filename)
        if not path.is_relative_to(PACKAGE) or path.is_relative_to(PACKAGE / "testing"):
            return ""
        parts = path.relative_to(PACKAGE).parts
        return "memory/" if parts[0] == "memory" else "/".join(parts)


def walk(title: str, call: Callable[[], object]) -> None:
    noted = Walk()
    sys.setprofile(noted)
    try:
        call()
    finally:
        sys.setprofile(None)
    print(f"{title}: {len(noted.files)} files, {len(noted.calls)} calls from one into another")
    print("   " + "  ".join(noted.files))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DATABASE_URL": f"sqlite:///{folder}/walks.sqlite3", "SECRET_KEY": "only-for-this"}
        os.environ |= {"DJANGO_SETTINGS_MODULE": "project.settings", "SCRIPTED_KEY": "none"}
        os.environ |= {"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}
        logging.disable(logging.WARNING)
        django.setup()
        call_command("migrate", verbosity=0)
        from compaction_app.testing import steps
        from compaction_app.testing.server import ScriptedOpenAIServer

        with ScriptedOpenAIServer(default=steps.fill_target(1.0)) as server:
            measure(server.url)


def measure(url: str) -> None:
    from compaction_app import chat, tasks

    entry = {"model": "summarizer", "base_url": url, "api_key_env": "SCRIPTED_KEY"}
    settings = {"CONTEXT_WINDOW": 8_000, "RESERVED_TOKENS": 500, "SUMMARIZERS": {"default": {"MODELS": [entry]}}}
    client = openai.OpenAI(base_url=url, api_key="none")
    with override_settings(COMPACTION=settings):
        session = chat.start_session(model="any")
        said = [{"role": r, "content": "The harbour is open. " * 20} for r in ("user", "assistant")]
        tip = chat.append_messages(session, None, said * TURNS)[-1]
        question = chat.append_message(session, tip, role="user", content="And tomorrow?")
        chat.compact(tip)
        walk("chat.get_context", lambda: chat.get_context(question))
        walk("chat.complete", lambda: chat.complete(question, client=client))
        grown = chat.append_messages(session, question, (said * TURNS)[1:])[-1]
        run = chat.request_compaction(grown)
        assert run is not None, "the branch is over its threshold"
        walk("tasks.compact_branch", lambda: tasks.compact_branch(run.pk))


if __name__ == "__main__":
    main()
