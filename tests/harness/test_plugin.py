"""A rule of the test run itself."""

from types import SimpleNamespace

import pytest

from tests import plugin

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("reason", "code"),
    [("no time", pytest.ExitCode.TESTS_FAILED), (plugin.NO_SHARED_DATA, pytest.ExitCode.OK)],
)
def test_in_ci_a_skip_without_a_known_reason_fails_the_run_and_is_named(monkeypatch, reason, code):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(plugin, "SKIPS", [])
    told = ("test_small.py", 4, f"Skipped: {reason}")
    plugin.pytest_runtest_logreport(pytest.TestReport("test_two", ("", 4, ""), {}, "skipped", told, "call"))
    run = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    plugin.pytest_sessionfinish(run)
    assert run.exitstatus == code
    assert plugin.forbidden_skips() == ([("test_two", reason)] if code else [])
