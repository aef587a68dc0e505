"""What has to be there before Django's settings are read; loaded with ``-p``, see pyproject.toml.

It clears the environment of whatever would change a run, starts the database that ``TEST_DATABASE`` names,
leaves out what needs no second run on PostgreSQL, and in CI fails a run that skips a test without a known
reason. The processes of pytest-xdist inherit the environment and the database server of the one that starts
them; each makes a test database of its own.
"""

import contextlib
import gc
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

import pytest

from project.embedded import EmbeddedPostgres

DATABASES = ("sqlite", "postgres")
#: The processes of pytest-xdist share the server, and some tests open hundreds of connections at once.
POSTGRES_OPTIONS = {"max_connections": "500"}

#: Of the whole run, and gone after it.
FOLDER_VARIABLE = "TEST_FOLDER"
#: The file of the SQLite test database. A file, since a worker process has to open the same one.
SQLITE_FILE_VARIABLE = "TEST_SQLITE_FILE"
DATA_VARIABLE = "COMPACTION_TEST_DATA"

#: A developer's own settings: they must not change the outcome, and a key must not be spent.
CLEARED_NAMES = frozenset({"ALLOWED_HOSTS", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "SECRET_KEY"})
CLEARED_PREFIXES = ("CELERY_", "CHAT_", "COMPACTION_", "OPENAI_")

NO_SHARED_DATA = f"the real conversations are not here: set {DATA_VARIABLE} to the folder that holds them"
NO_FRAMEWORKS = "the agent frameworks are not here: make test-frameworks installs them"
NO_DJANGO_TASKS = "django-tasks-db is not here: make test-newest-django installs it"

#: Why a test may be skipped in CI. Any other skip fails the run: a skipped test looks like a passed one.
ALLOWED_SKIPS = {
    NO_SHARED_DATA: "the conversations are kept beside the repository and not in it",
    NO_FRAMEWORKS: "they have an environment of their own",
    NO_DJANGO_TASKS: "it has an environment of its own",
}

#: Marks of tests whose outcome does not depend on the database.
ON_SQLITE_ONLY = ("pure", "appearance")

#: Marks of tests that take too long to be run twice, and whose outcome PostgreSQL decides.
ON_POSTGRES_ONLY = ("contract", "soak")

#: Set by pytest-xdist in the processes that it starts.
XDIST_VARIABLE = "PYTEST_XDIST_WORKER"

#: Test or module, and why.
SKIPS: list[tuple[str, str]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # What is imported and collected lives to the end, and is not looked through again and again.
    gc.disable()
    if XDIST_VARIABLE in os.environ:
        return
    clear_environment()
    database = os.environ.setdefault("TEST_DATABASE", "sqlite")
    if database not in DATABASES:
        raise pytest.UsageError(f"TEST_DATABASE={database!r} is unknown. Set it to one of {', '.join(DATABASES)}.")
    stack = contextlib.ExitStack()
    early_config.add_cleanup(stack.close)
    folder = os.environ[FOLDER_VARIABLE] = stack.enter_context(tempfile.TemporaryDirectory(prefix="compaction-tests-"))
    # No server here has a certificate, and to read all of the machine's takes each client that is made 40 ms.
    (certificates := Path(folder) / "certificates").mkdir()
    os.environ |= {"SSL_CERT_DIR": str(certificates), "SSL_CERT_FILE": ""}
    if database == "postgres":
        os.environ["DATABASE_URL"] = stack.enter_context(EmbeddedPostgres(options=POSTGRES_OPTIONS)).database_url(
            "compaction"
        )
    else:
        os.environ["DATABASE_URL"] = "sqlite:///" + quote(str(Path(folder) / "unused.sqlite3"))
        os.environ[SQLITE_FILE_VARIABLE] = str(Path(folder) / "test.sqlite3")


def clear_environment() -> None:
    for name in list(os.environ):
        if name in CLEARED_NAMES or (name.startswith(CLEARED_PREFIXES) and name != DATA_VARIABLE):
            del os.environ[name]


def pytest_report_header() -> str:
    return f"test database: {os.environ['TEST_DATABASE']}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = ON_POSTGRES_ONLY if os.environ["TEST_DATABASE"] == "sqlite" else ON_SQLITE_ONLY
    # Deselected and not skipped: a skip would say that something could not be tested.
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if any(item.get_closest_marker(mark) for mark in marks) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    families = defaultdict(list)
    for item in items:
        if item.get_closest_marker("twice") and os.environ["TEST_DATABASE"] == "sqlite":
            item.add_marker("long")
        elif item.get_closest_marker("few") and not item.get_closest_marker("long"):
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        for item in family[1:-1]:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # An expected failure is reported as skipped too, with this attribute.
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPS.append((report.nodeid, _reason(report.longrepr)))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        SKIPS.append((report.nodeid, _reason(report.longrepr)))


def _reason(told: object) -> str:
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")


def forbidden_skips() -> list[tuple[str, str]]:
    if os.environ.get("CI") != "true":
        return []
    return [(nodeid, reason) for nodeid, reason in SKIPS if reason not in ALLOWED_SKIPS]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if forbidden_skips() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    forbidden = forbidden_skips()
    if forbidden:
        terminalreporter.section("skipped in CI without a known reason", red=True)
        for nodeid, reason in forbidden:
            terminalreporter.line(f"{nodeid}: {reason}")
        terminalreporter.line("The reasons that are known: ALLOWED_SKIPS in tests/plugin.py.")
