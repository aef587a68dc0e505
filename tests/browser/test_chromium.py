"""Where there is no browser, the tests that need one say so: as a skip, and as a failure where they have to run."""

import os
import subprocess
import sys

import pytest

from tests.browser.chromium import HOW_TO_INSTALL
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.pure, pytest.mark.long]


@pytest.fixture
def without_browser(tmp_path):
    """Run a Python module in an environment in which no browser can be found."""

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        # The folder of the interpreter may hold a chromium as well, so nothing is on PATH.
        bare = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, cwd=REPOSITORY, env=bare | env, capture_output=True, text=True, check=False, timeout=120
        )

    return run


TESTS = ("pytest", "-p", "no:cacheprovider", "-rs", "tests/browser/test_chat_walk.py")


def test_without_a_browser_the_tests_are_skipped_and_say_what_to_install(without_browser):
    done = without_browser(*TESTS)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert f"there is no Chromium here: {HOW_TO_INSTALL}" in done.stdout.replace(os.linesep, " ")
    assert "passed" not in done.stdout


def test_where_they_have_to_run_a_missing_browser_fails_them(without_browser):
    done = without_browser(*TESTS, BROWSER_TESTS="required")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "there is no Chromium here" in done.stdout
    assert "skipped" not in done.stdout
