"""The rules of the test run itself, each shown by running pytest on a small file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.plugin import NO_SHARED_DATA

pytestmark = pytest.mark.pure

SMALL = """
import os
import pytest
from django.conf import settings
from django.db import connection

@pytest.mark.django_db
def test_the_database_is_the_one_asked_for():
    assert connection.vendor == {vendor!r}
    assert "test" in str(connection.settings_dict["NAME"])

def test_a_developers_own_settings_do_not_reach_the_run():
    assert "OPENAI_API_KEY" not in os.environ
    assert list(settings.COMPACTION) == ["SUMMARIZER"]
    assert settings.DEBUG is False

@pytest.mark.pure
def test_pure(): pass

@pytest.mark.appearance
def test_appearance(): pass

@pytest.mark.contract
def test_contract(): pass

@pytest.mark.xfail
def test_expected_to_fail():
    assert False

def test_skipped():
    pytest.skip({reason!r})
"""
A_DEVELOPERS = {
    "OPENAI_API_KEY": "a-key",
    "COMPACTION_MODE": "off",
    "CELERY_BROKER_URL": "redis://elsewhere",
    "DEBUG": "0",
}


@pytest.fixture
def run_pytest(tmp_path: Path):
    """Run pytest on this text, as the suite is run; ``env`` adds to a bare environment."""

    def run(text: str, **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_small.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml"), "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, str(tmp_path / "test_small.py")],
            cwd=REPOSITORY,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.long
def test_on_sqlite_what_only_postgres_decides_is_left_out_and_a_known_skip_passes(run_pytest):
    done = run_pytest(SMALL.format(vendor="sqlite", reason=NO_SHARED_DATA), CI="true", **A_DEVELOPERS)
    assert "4 passed, 1 skipped, 1 deselected, 1 xfailed" in done.stdout
    assert done.returncode == pytest.ExitCode.OK


@pytest.mark.long
def test_on_postgres_what_no_database_matters_to_is_left_out_and_not_skipped(run_pytest):
    text = SMALL.format(vendor="postgresql", reason="no time")
    done = run_pytest(text, TEST_DATABASE="postgres", **A_DEVELOPERS)
    assert "3 passed, 1 skipped, 2 deselected, 1 xfailed" in done.stdout
    assert done.returncode == pytest.ExitCode.OK, "outside of CI a test may be skipped"


def test_in_ci_a_skip_without_a_known_reason_fails_the_run_and_is_named(run_pytest):
    done = run_pytest("import pytest\n\ndef test_one(): pass\n\ndef test_two():\n    pytest.skip('no time')", CI="true")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_two: no time" in done.stdout
