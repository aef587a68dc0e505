"""``make demo``: it shows what it must, on real processes, and leaves none of them behind."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth import get_user_model

from compaction_app import chat
from project import offline_assistant
from project.chat.turns import take_turn
from project.demo import loading, places
from project.embedded import free_port
from tests.conftest import REPOSITORY

PROC = Path("/proc")
START_SECONDS = 120.0
STOP_SECONDS = 30.0


class RunningDemo:
    """``manage.py demo`` in a process of its own, with next to nothing in its environment."""

    def __init__(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env = kept | {"TERM": "dumb", "DEMO_FOLDER": str(folder)} | dict(environment)
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", *arguments],
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def output(self) -> str:
        return "".join(list(self.lines))

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self.output:
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{text!r} was not said:\n{self.output}")
            time.sleep(0.05)

    def wait(self, seconds: float = START_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def processes(self) -> dict[int, str]:
        """Every process that is there because of this demo: they inherit its folder in their environment."""
        mark = f"DEMO_FOLDER={self.folder}\0".encode()
        found = {}
        for entry in PROC.iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def assert_nothing_is_left(self, seconds: float = STOP_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == {}
        # The broker's own environment is empty, so it is asked for by its port.
        for port in re.findall(r"127\.0\.0\.1:(\d+)", self.output):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", int(port))) != 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment that names the demo's database: its own SQLite file, or one on the test's PostgreSQL."""
    if os.environ["TEST_DATABASE"] == "sqlite":
        yield {}
        return
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    name = f"demo_{uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield {"DATABASE_URL": f"{server}/{name}"}
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def demo(tmp_path: Path, database: dict[str, str]) -> Any:
    def start(*arguments: str, **environment: str) -> RunningDemo:
        ports = () if "--port" in arguments else ("--port", str(free_port()))
        return RunningDemo(tmp_path / "demo", [*arguments, *ports], database | environment)

    return start


def get(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


class TestOnce:
    # .ci/run carries it out with nothing but what it needs; what it prints is looked at here.
    @pytest.mark.long
    def test_it_shows_all_that_came_of_it(self, demo):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with demo("--once", "--port", str(port)) as first:
                assert first.wait() == 0, first.output
        out = first.output
        assert f"Port {port} is taken, using {port + 1}." in out
        assert "Imported 1 conversation with 344 messages." in out
        lines = out.partition("Branch map")[2].partition("Branches  ")[0]
        assert (lines.count("fork below"), lines.count("● tip")) == (9, 10)
        assert len(set(re.findall(r"◆ summary #(\d+) anchored at #\d+: generation \d+", lines))) >= 5
        branches = out.partition("Branches  ")[2].partition("Compactions")[0].splitlines()[2:]
        rows = [line.replace(",", "").split() for line in branches if line.strip()]
        assert [row[-1] for row in rows] == ["fits"] * 10
        assert all(int(after) <= int(threshold) for _, _, _, after, threshold, *_ in rows)
        assert len(re.findall(r" →\s+[\d,]+ threshold(?:\s+#\d+){4}\s+extractive \(offline\)", out)) >= 5
        contexts = out.partition("What the model would be sent now")[2]
        assert len(re.findall(r"^tip #\d+  \d+ messages, [\d,]+ tokens", contexts, re.MULTILINE)) == 10
        assert len(re.findall(r"^summary +user +\d+ \[Conversation Summary\]", contexts, re.MULTILINE)) == 10
        assert "10 of 10 branches at or under their threshold" in out
        assert "verify_chats: no problems found" in out
        assert "\x1b" not in out, "no colour where the output is no terminal"
        first.assert_nothing_is_left()


class TestStopping:
    @pytest.mark.long
    def test_ctrl_c_ends_all_of_it_in_order(self, demo):
        with demo() as running:
            running.wait_for("Press Ctrl-C to stop.")
            port = int(re.search(r"Web server: http://127\.0\.0\.1:(\d+)/", running.output)[1])
            assert get(port, "/accounts/login/") == 200
            assert re.search(rf"http://127\.0\.0\.1:{port}/chat/[0-9a-f-]+/", running.output)
            assert f"http://127.0.0.1:{port}/admin/" in running.output
            assert "Branch map" not in running.output, "the address is what is looked for"
            assert re.search(r"log in as demo with the password \S+", running.output)
            assert len(running.processes()) >= 5
            with demo("--once") as second:
                assert second.wait() == 1
            assert "Another demo is running here" in second.output
            running.process.send_signal(signal.SIGINT)
            assert running.wait() == 0
        assert "Stopped; nothing is left running." in running.output
        running.assert_nothing_is_left(seconds=0)

    @pytest.mark.pure
    @pytest.mark.long
    def test_a_demo_that_is_killed_leaves_nothing_either(self, demo):
        with demo() as running:
            running.wait_for("Worker:")
            running.process.kill()
            running.wait()
        running.assert_nothing_is_left()


@pytest.mark.long
@pytest.mark.pure
def test_a_broken_file_is_refused_before_anything_is_started(tmp_path):
    file = tmp_path / "broken.json"
    file.write_text('{"messages": [\n')
    with RunningDemo(tmp_path / "demo", ["--once", "--file", str(file)], {}) as running:
        assert running.wait() == 1
    assert "line 2: this is not JSON" in running.output
    assert "Traceback" not in running.output
    running.assert_nothing_is_left(seconds=0)


@pytest.mark.django_db
class TestAccount:
    def test_the_password_is_kept_for_its_owner_only_and_set_anew_where_it_was_lost(self, tmp_path, monkeypatch):
        file = tmp_path / "password"
        first, again = (loading.account(file) for _ in range(2))
        assert first.password == again.password
        assert again.user.check_password(again.password)
        assert again.user.is_superuser
        assert file.stat().st_mode & 0o777 == 0o600
        file.unlink()
        assert loading.account(file).password != first.password
        monkeypatch.setenv("DEMO_PASSWORD", "lighthouse")
        assert loading.account(file).user.check_password("lighthouse")

    def test_somebody_elses_account_is_left_alone(self, tmp_path):
        theirs = get_user_model().objects.create_user("demo", email="demo@example.com", password="theirs")
        assert loading.account(tmp_path / "password").password == ""
        theirs.refresh_from_db()
        assert theirs.check_password("theirs")


@pytest.mark.django_db(transaction=True)
def test_what_the_demo_suggests_is_answered_on_every_branch_and_again(settings, monkeypatch, django_user_model):
    monkeypatch.setattr(offline_assistant, "_SECONDS_PER_WORD", 0)
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    settings.COMPACTION = {**settings.COMPACTION, "MODE": "deterministic", "CONTEXT_WINDOW": 4_000}
    owner = django_user_model.objects.create_user("marit")
    [told] = loading.store_conversations(loading.read_conversations(places.CONVERSATION, join=False), owner=owner)
    asked = told.session.metadata["suggestions"]
    assert len(asked) == 3
    for end in chat.tips(told.session):
        chat.request_compaction(end)
        replies = [end]
        for content in asked * 2:
            question = chat.append_message(told.session, replies[-1], role="user", content=content)
            reply, why = take_turn(told.session, question)
            assert why == ""
            assert offline_assistant.NOTHING not in reply.content, f"message {end.pk}: {content}"
            replies.append(reply)
