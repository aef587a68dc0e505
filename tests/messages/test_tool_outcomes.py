"""A tick is for what is known to have succeeded; what nothing tells has no mark at all."""

import json

import pytest

from compaction_app.messages.tool_calls import result_status, tool_marker

pytestmark = pytest.mark.pure


def shell(command):
    return {"id": "c1", "function": {"name": "shell", "arguments": json.dumps({"command": command})}}


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("ls", ""),
        ("git push", "Everything up-to-date"),
        ("git push", " ! [rejected] main (non-fast-forward)\nerror: failed to push"),
        ("pytest -q", "F..\n412 passed, 3 failed in 12.3s"),
        ("foo", "bash: foo: Kommando nicht gefunden."),
        ("make", '{"stdout": "", "stderr": "make: *** [all] Error 2"}'),
        # What others wrote.
        ("cat a.log", "Error: no room\n" * 50),
        ("x", "The word error: stands in prose, and so does 10 failed."),
    ],
)
def test_without_an_exit_code_nothing_is_guessed(command, result):
    """A model sees the result itself, next to the marker."""
    assert tool_marker(shell(command), result) == f"[shell: {command}]"
    assert result_status(shell(command), result) == ""


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("fatal: not a repository", "fatal: not a repository"),
        ("Error: no such table: boats", "Error: no such table: boats"),
        ('{"success": false, "message": "no"}', "no"),
        ('{"error": {"code": "E1"}}', "E1"),
        ("one\nTraceback (most recent call last):\n  File\nValueError: x", "ValueError: x"),
    ],
)
def test_a_command_that_says_nothing_but_its_error_has_failed(result, told):
    assert tool_marker(shell("x"), result) == f"[shell: x] ✗ {told}"
    assert result_status(shell("x"), result) == "error"


@pytest.mark.parametrize(
    "result",
    ["exit code: 0", "Process exited with code 0\nall well", '{"exit_code": 0, "stdout": "a"}', '{"success": true}'],
)
def test_an_exit_code_of_zero_and_a_field_that_says_so_are_success(result):
    assert tool_marker(shell("ls"), result) == "[shell: ls → ✓]"
    assert result_status(shell("ls"), result) == "ok"


def test_an_exit_code_tells_more_than_words():
    """A pipe hides the exit code of what stands before it."""
    assert tool_marker(shell("make"), "a\nerror: x\nexit code: 2") == "[shell: make → exit 2] ✗ error: x"
    piped = '{"exit_code": 0, "stdout": "3 failed, 4 passed in 2 s"}'
    assert tool_marker(shell("pytest | tail"), piped) == "[shell: pytest | tail → exit 0]"
    assert result_status(shell("pytest | tail"), piped) == ""
    assert tool_marker(shell("pytest || true"), piped) == "[shell: pytest || true → ✓]"
    assert result_status(shell("make"), "done\nexit code: 2") == "error"


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ("Done", ""),
        ("No seats are left", ""),
        ("Error: not found", "error"),
        ("✗ ", "error"),
        ('{"ok": true}', "ok"),
        ('{"ok": false}', "error"),
    ],
)
def test_of_any_other_tool_only_its_first_words_and_its_fields_tell(result, status):
    call = {"id": "c1", "function": {"name": "book", "arguments": "{}"}}
    assert result_status(call, result) == status == result_status(None, result)
