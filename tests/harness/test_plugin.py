"""The rules of the test run itself, each shown on a run of pytest over a small file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.plugin import NO_SHARED_DATA, ON_POSTGRES_ONLY, ON_SQLITE_ONLY

pytestmark = pytest.mark.pure

SKIPPING = "import pytest\ndef test_one():\n    pytest.skip({reason!r})\ndef test_two():\n    pass\n"


@pytest.fixture
def run_pytest(tmp_path: Path):
    """Run pytest over this text, as the suite is run; ``env`` adds to a bare environment."""

    def run(text: str, **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_small.py").write_text(text)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(REPOSITORY / "pyproject.toml"),
            "-p",
            "no:cacheprovider",
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env}
        return subprocess.run(
            [*command, str(tmp_path / "test_small.py")],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_in_ci_a_skip_without_a_known_reason_fails_the_run_and_is_named(run_pytest):
    done = run_pytest(SKIPPING.format(reason="no time"), CI="true")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_one: no time" in done.stdout


def test_in_ci_a_module_skipped_whole_fails_the_run(run_pytest):
    done = run_pytest("import pytest\npytest.skip('not here', allow_module_level=True)\n", CI="true")
    assert done.returncode != pytest.ExitCode.OK
    assert "not here" in done.stdout


def test_in_ci_a_skip_with_a_known_reason_does_not_fail_the_run(run_pytest):
    done = run_pytest(SKIPPING.format(reason=NO_SHARED_DATA), CI="true")
    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_in_ci_an_expected_failure_is_no_skip(run_pytest):
    text = "import pytest\n@pytest.mark.xfail\ndef test_one():\n    assert False\n"
    assert run_pytest(text, CI="true").returncode == pytest.ExitCode.OK


def test_outside_of_ci_a_test_may_be_skipped(run_pytest):
    assert run_pytest(SKIPPING.format(reason="no time")).returncode == pytest.ExitCode.OK


@pytest.mark.parametrize("mark", ON_SQLITE_ONLY)
def test_a_test_that_no_database_matters_to_is_left_out_of_the_run_on_postgres_and_not_skipped(run_pytest, mark):
    text = f"import pytest\n@pytest.mark.{mark}\ndef test_one():\n    pass\ndef test_two():\n    pass\n"
    on_postgres = run_pytest(text, TEST_DATABASE="postgres")
    assert "1 passed, 1 deselected" in on_postgres.stdout
    assert "2 passed" in run_pytest(text, TEST_DATABASE="sqlite").stdout


@pytest.mark.parametrize("mark", ON_POSTGRES_ONLY)
def test_a_test_that_only_postgres_decides_is_left_out_of_the_run_on_sqlite_and_not_skipped(run_pytest, mark):
    text = f"import pytest\n@pytest.mark.{mark}\ndef test_one():\n    pass\ndef test_two():\n    pass\n"
    on_sqlite = run_pytest(text, TEST_DATABASE="sqlite")
    assert "1 passed, 1 deselected" in on_sqlite.stdout
    assert "2 passed" in run_pytest(text, TEST_DATABASE="postgres").stdout


def test_an_unknown_database_is_refused(run_pytest):
    done = run_pytest(SKIPPING, TEST_DATABASE="oracle")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Set it to one of sqlite, postgres" in done.stderr


def test_a_developers_own_settings_do_not_reach_the_run(run_pytest):
    text = (
        "import os\n"
        "from django.conf import settings\n"
        "def test_one():\n"
        "    assert 'OPENAI_API_KEY' not in os.environ\n"
        "    assert list(settings.COMPACTION) == ['SUMMARIZER']\n"
        "    assert settings.DEBUG is False\n"
    )
    done = run_pytest(
        text, OPENAI_API_KEY="a-key", COMPACTION_MODE="off", CELERY_BROKER_URL="redis://elsewhere", DEBUG="0"
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout


@pytest.mark.parametrize(("database", "vendor"), [("sqlite", "sqlite"), ("postgres", "postgresql")])
def test_tests_run_on_the_database_that_was_asked_for(run_pytest, database, vendor):
    text = (
        "import pytest\n"
        "from django.db import connection\n"
        "@pytest.mark.django_db\n"
        "def test_one():\n"
        f"    assert connection.vendor == {vendor!r}\n"
        "    assert 'test' in str(connection.settings_dict['NAME'])\n"
    )
    done = run_pytest(text, TEST_DATABASE=database)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_a_test_that_starts_a_worker_is_slow_without_saying_so(run_pytest):
    """The suite on the newest Django leaves it out."""
    text = "import pytest\n@pytest.fixture\ndef celery_worker():\n    pass\n"
    text += "def test_one(celery_worker):\n    pass\ndef test_two():\n    pass\n"
    done = run_pytest(text, PYTEST_ADDOPTS="-m 'not slow'")
    assert "1 passed, 1 deselected" in done.stdout
