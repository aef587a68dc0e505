"""Where there is no browser, the tests that need one say so: as a skip, and as a failure where they have to run."""

import os
import subprocess
import sys

import pytest

from tests.browser.chromium import HOW_TO_INSTALL, is_required
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


def test_it_says_what_to_install(without_browser):
    done = without_browser("tests.browser.chromium")
    assert (done.returncode, done.stderr) == (1, f"there is no Chromium here: {HOW_TO_INSTALL}\n")


def test_a_program_that_was_named_and_is_not_there_is_named_in_the_answer(without_browser):
    done = without_browser("tests.browser.chromium", CHROMIUM="/nowhere/chrome")
    assert done.returncode == 1
    assert "CHROMIUM='/nowhere/chrome' names no program" in done.stderr


def test_a_program_that_is_no_browser_is_refused(without_browser):
    done = without_browser("tests.browser.chromium", CHROMIUM=sys.executable)
    assert done.returncode == 1
    assert f"{sys.executable} does not start" in done.stderr


def test_they_have_to_run_in_ci_and_where_it_is_said(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BROWSER_TESTS", raising=False)
    assert not is_required()
    monkeypatch.setenv("CI", "true")
    assert is_required()
    monkeypatch.setenv("CI", "false")
    monkeypatch.setenv("BROWSER_TESTS", "required")
    assert is_required()


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
