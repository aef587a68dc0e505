"""The demo from start to end: start the servers, import, let the worker compact, report, serve, stop."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from django.conf import settings
from django.db import connection, connections
from django.urls import reverse
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from compaction_app import chat, tasks
from compaction_app.conf import get_settings
from compaction_app.models import ChatSession
from compaction_app.transfer.formats import Conversation
from compaction_app.tree.verify import verify_session
from project.celery import app as celery_app
from project.demo import loading, places
from project.demo.processes import DemoFailed, Processes, Stopped, Stops
from project.demo.reading import SessionView
from project.demo.report import Report, number, print_totals
from project.demo.watching import Broker, Watch, wait_until_compacted
from project.embedded import HOST

FIRST_PORT = 8000
#: Sessions that are printed, and branches of each. The file has all of them.
SHOWN_SESSIONS = 5
SHOWN_BRANCHES = 30
_SERVE_SECONDS = 0.5
_REPORT_WIDTH = 160
_PLAIN_WIDTH = 140


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    once: bool = False
    reset: bool = False
    join: bool = False
    show_all: bool = False
    file: Path | None = None
    port: int = FIRST_PORT


class Demo:
    """One run of the demo. ``run`` returns whether all branches fit and no problem was found."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = places.folder()
        self.console = make_console()
        self.started = time.monotonic()
        self.is_offline = not (settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL)

    def run(self, stops: Stops) -> bool:
        # Read before anything is started, so that a broken file is reported at once.
        conversations = loading.read_conversations(self._file(), join=self.options.join)
        with self._alone(), Processes(stops, folder=self.folder, cwd=places.REPOSITORY) as processes:
            self._prepare()
            self._start(processes)
            sessions = self._load(conversations)
            watch = self._compact(sessions, processes)
            ok = self._report(sessions, watch)
            if not self.options.once:
                self._print_addresses(sessions, processes)
                with contextlib.suppress(Stopped):
                    self._serve(watch, processes)
                self._say("\nStopping…")
        if self.options.once:
            self._say("Without --once the pages of chat and admin are served until Ctrl-C.")
        else:
            self._say("Stopped; nothing is left running.")
        return ok

    def _file(self) -> Path:
        file = self.options.file or places.CONVERSATION
        if not file.is_file():
            raise DemoFailed(f"There is no file {file}.")
        return file

    # -- Start ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one demo at a time in a folder: two would write to the same logs and schedule."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("a+")
        except OSError as error:
            raise DemoFailed(f"The demo cannot use its folder {self.folder}: {error.strerror}.") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                raise DemoFailed(
                    f"Another demo is running here (process {lock.read().strip() or '?'}). "
                    "Stop it first, with Ctrl-C in its terminal."
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def _prepare(self) -> None:
        if self.options.reset:
            self._reset()
        _log_to(self.folder / "demo.log")
        with self._step("Database"):
            loading.migrate()
        name = connection.settings_dict["NAME"]
        self._say(f"Database: {connection.display_name}, {name}")

    def _reset(self) -> None:
        """Delete the demo's files, or its conversations if the database is not its own."""
        if os.environ["DATABASE_URL"] == places.own_database_url():
            for path in self.folder.iterdir():
                if path.name != "lock":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            self._say("Reset: files of earlier demos deleted.")
            return
        loading.migrate()
        self._say(f"Reset: {number(loading.forget(), 'conversation')} of earlier demos deleted.")

    def _start(self, processes: Processes) -> None:
        with self._step("Broker"):
            processes.start_broker()
        # The worker and the web server read it from their environment.
        celery_app.conf.broker_url = processes.broker.url
        self._say(f"Broker: {'your own' if processes.broker.own else 'Valkey'} at {processes.broker.url}")
        concurrency = 1 if connection.vendor == "sqlite" else 2
        worker = processes.start_worker(concurrency)
        web, taken = processes.start_web(self.options.port)
        for port in taken:
            self._say(f"Port {port} is taken, using {port + 1}.")
        with self._step("Celery worker with beat"):
            processes.wait_for_worker(worker)
        self._say(f"Worker: Celery with beat, {number(concurrency, 'process', 'processes')}, log {worker.log}")
        with self._step("Web server"):
            processes.wait_for_web(web)
        self._say(f"Web server: http://{HOST}:{processes.port}/, log {web.log}")

    # -- Work -------------------------------------------------------------------------------------------

    def _load(self, conversations: list[Conversation]) -> list[ChatSession]:
        self.account = loading.account(self.folder / "password")
        total = sum(len(conversation.messages) for conversation in conversations)
        with Progress(console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            task = progress.add_task("Importing", total=total)
            imported = []
            for one in loading.store_conversations(conversations, owner=self.account.user):
                progress.advance(task, one.messages)
                imported.append(one)
        new = [one for one in imported if not one.already_there]
        messages = sum(one.messages for one in new)
        if new:
            self._say(f"Imported {number(len(new), 'conversation')} with {number(messages, 'message')}.")
        if known := len(imported) - len(new):
            self._say(f"{number(known, 'conversation')} is already here from an earlier demo.")
        return [one.session for one in imported]

    def _compact(self, sessions: list[ChatSession], processes: Processes) -> Watch:
        summarizer = "extractive (offline: no API key or endpoint is set, so sentences are quoted)"
        if not self.is_offline:
            names = ", ".join(one.model for one in get_settings().summarizer_entry.models)
            summarizer = f"{names} at {settings.OPENAI_BASE_URL or 'the OpenAI API'}"
        self._say(f"Summaries by: {summarizer}")
        watch = Watch(sessions, self.console)
        for session in sessions:
            if not tasks.enqueue_session(session):
                raise DemoFailed(f"The broker at {processes.broker.url} did not accept the task.")
        self._say(
            f"{number(len(sessions), 'task')} enqueued, one for each conversation; the worker compacts every branch:"
        )
        # Other processes write from here on, and must not wait for a connection of this one.
        connections.close_all()
        with Broker(processes.broker.url) as broker:
            wait_until_compacted(watch, broker, processes.check)
        self._print_pace(watch)
        return watch

    def _print_pace(self, watch: Watch) -> None:
        if watch.first_summary_at is not None:
            seconds = (watch.first_summary_at - watch.since).total_seconds()
            self._say(f"First summary ready in {seconds:.1f} s.")
        elif not watch.failures:
            self._say("Nothing to summarize: every branch is at or under its threshold.")
        if watch.failures:
            self._say(
                f"Some summaries failed ({', '.join(sorted(watch.failures))}). See the worker's log. "
                "Without OPENAI_API_KEY and OPENAI_BASE_URL the demo needs no model."
            )

    # -- Report -----------------------------------------------------------------------------------------

    def _report(self, sessions: list[ChatSession], watch: Watch) -> bool:
        views = [SessionView(ChatSession.objects.get(pk=session.pk)) for session in sessions]
        report_file = self.folder / "report.txt"
        limit = None if self.options.show_all else SHOWN_BRANCHES
        # Of many conversations, the most compacted ones are printed; none where the address is what is looked for.
        most = sorted(views, key=lambda view: -len(view.runs))
        shown = views if self.options.show_all else most[: SHOWN_SESSIONS * self.options.once]
        with report_file.open("w") as file:
            full = Report(_plain_console(file=file, width=_REPORT_WIDTH), limit=None)
            short = Report(self.console, limit=limit, full_file=str(report_file))
            for view in views:
                full.print_session(view)
                if view in shown:
                    short.print_session(view)
        self.console.print()
        if not shown:
            self._say(f"Each branch, its summary and what a model would be sent: {report_file}")
        elif len(views) > len(shown):
            self._say(f"… and {number(len(views) - len(shown), 'conversation')} more, in {report_file}")
        fits = print_totals(self.console, views)
        return self._verify(sessions) and fits

    def _verify(self, sessions: list[ChatSession]) -> bool:
        reports = [verify_session(session) for session in sessions]
        found = [one for report in reports for one in report.problems]
        rows = sum(report.messages for report in reports)
        for one in found:
            where = f"message #{one.message_id}, run {one.run_id}"
            self.console.print(Text(f"  {one.finding}: {where}: {one.detail}", "red"))
        result = f"verify_chats: {number(len(found), 'problem')} found" if found else "verify_chats: no problems found"
        style = "bold red" if found else "bold green"
        self.console.print(Text(f"{result} ({rows:,} messages and summaries checked)", style))
        self.console.print(f"Finished in {time.monotonic() - self.started:.1f} s.")
        return not found

    def _print_addresses(self, sessions: list[ChatSession], processes: Processes) -> None:
        address = f"http://{HOST}:{processes.port}"
        self.console.print()
        self.console.print(Text.assemble("  chat   ", (address + self._longest_branch(sessions[0]), "bold")))
        self.console.print(Text.assemble("  admin  ", (address + reverse("admin:index"), "bold")))
        if self.account.password:
            self.console.print(f"  log in as {loading.USERNAME} with the password {self.account.password}")
        else:
            self.console.print(
                f"  log in with your own account: the user {loading.USERNAME} was not created by the demo"
            )

    @staticmethod
    def _longest_branch(session: ChatSession) -> str:
        """The address of the deepest branch; the newest tip may be on a short one."""
        deepest = max(chat.tips(session), key=lambda tip: (tip.depth, -tip.pk), default=None)
        if deepest is None:
            return reverse("chat:session", args=[session.pk])
        return reverse("chat:branch", args=[session.pk, deepest.pk])

    def _serve(self, watch: Watch, processes: Processes) -> None:
        self.console.print(Text("\nPress Ctrl-C to stop.", "bold"))
        while True:
            processes.check()
            watch.print_news()
            time.sleep(_SERVE_SECONDS)

    # -- Output -----------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.console.print(text)

    @contextlib.contextmanager
    def _step(self, what: str) -> Iterator[None]:
        """Show what is awaited, on a terminal only."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(f"{what}…"):
            yield


def _plain_console(*, file: TextIO | None = None, width: int | None = None, soft_wrap: bool = False) -> Console:
    """For texts of conversations: no markup, no emoji names, no coloured numbers."""
    return Console(file=file, width=width, soft_wrap=soft_wrap, markup=False, highlight=False, emoji=False)


def make_console() -> Console:
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show becomes a question mark, not an exception.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # both are text streams of files
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PLAIN_WIDTH
    return _plain_console(width=width, soft_wrap=not sys.stdout.isatty())


def _log_to(file: Path) -> None:
    """Write the app's log to a file: on the terminal it would mix with the output."""
    logger = logging.getLogger("compaction_app")
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("{asctime} {levelname} {name}: {message}", style="{"))
    logger.handlers = [handler]
