"""Where there is no browser, the tests that need one say so: as a skip, and as a failure where they have to run."""

import subprocess
import sys

import pytest

from tests.browser.chromium import HOW_TO_INSTALL
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.pure, pytest.mark.long]
TESTS = ("pytest", "-p", "no:cacheprovider", "-rs", "tests/browser/test_chat_walk.py")


@pytest.mark.parametrize(
    ("required", "code", "word"),
    [({}, pytest.ExitCode.OK, "skipped"), ({"BROWSER_TESTS": "required"}, pytest.ExitCode.TESTS_FAILED, "error")],
)
def test_a_missing_browser_skips_the_tests_or_fails_them_and_says_what_to_install(tmp_path, required, code, word):
    # The folder of the interpreter may hold a chromium as well, so nothing is on PATH.
    env = dict.fromkeys(("PATH", "HOME", "PLAYWRIGHT_BROWSERS_PATH"), str(tmp_path)) | required
    done = subprocess.run(
        [sys.executable, "-m", *TESTS],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout
    assert f"there is no Chromium here: {HOW_TO_INSTALL}" in done.stdout.replace("\n", " ")
    assert word in done.stdout.splitlines()[-1]
    assert "passed" not in done.stdout
