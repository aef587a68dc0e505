"""The rules of the test run itself, each shown by running pytest on a small file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.pure


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


def test_in_ci_a_skip_without_a_known_reason_fails_the_run_and_is_named(run_pytest):
    done = run_pytest("import pytest\n\ndef test_one(): pass\n\ndef test_two():\n    pytest.skip('no time')", CI="true")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_two: no time" in done.stdout
