"""A tick is for what is known to have succeeded; what nothing tells has no mark at all."""

import json

import pytest

from compaction_app.messages.tool_calls import result_status, tool_marker

pytestmark = pytest.mark.pure


def shell(command):
    return {"id": "c1", "function": {"name": "shell", "arguments": json.dumps({"command": command})}}


FAILED = [
    ("git push", " ! [rejected] main (non-fast-forward)\nerror: failed to push", "error: failed to push"),
    ("foo", "bash: foo: command not found", "bash: foo: command not found"),
    ("make", "cc a.c\nmake: *** [Makefile:3: all] Error 2", "make: *** [Makefile:3: all] Error 2"),
    ("cargo build", "   Compiling x\nerror[E0425]: cannot find value `x`", "error[E0425]: cannot find value `x`"),
    ("gcc a.c", "a.c:3:5: error: expected ';'", "a.c:3:5: error: expected ';'"),
    ("ls /x", "ls: cannot access '/x': No such file or directory", "No such file or directory"),
    ("ssh a", "me@a: Permission denied (publickey).", "Permission denied (publickey)."),
    ("python a.py", "one\nTraceback (most recent call last):\n  File\nValueError: x", "ValueError: x"),
    ("go test", "--- FAIL: TestA\nFAIL", "--- FAIL: TestA"),
    ("pytest -q", "412 passed, 3 failed in 12.3s", "412 passed, 3 failed in 12.3s"),
    ("python -m unittest", "Ran 3 tests\nFAILED (failures=1)", "FAILED (failures=1)"),
    ("mypy .", "Found 2 errors in 1 file (checked 9 source files)", "Found 2 errors"),
    ("./a.out", "Segmentation fault (core dumped)", "(core dumped)"),
    ("cat /x", "cat: /x: No such file or directory", "cat: /x: No such file or directory"),
    ("make", "ok\n" * 5_000 + "make: *** [all] Error 2\n" + "x\n" * 100, "make: *** [all] Error 2"),
    ("make", '{"stdout": "", "stderr": "make: *** [all] Error 2"}', "make: *** [all] Error 2"),
    ("npm ci", "npm error code EUSAGE", "npm error code EUSAGE"),
    ("apt install x", "E: Unable to locate package x", "E: Unable to locate package x"),
    ("gradle build", "BUILD FAILED", "BUILD FAILED"),
    ("x", '{"success": false, "message": "no"}', "no"),
]


@pytest.mark.parametrize(("command", "result", "told"), FAILED)
def test_a_command_that_failed_is_never_ticked(command, result, told):
    line = tool_marker(shell(command), result)
    assert line.startswith(f"[shell: {command}] ✗ ")
    assert told in line
    assert result_status(shell(command), result) == "error"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("git push", "Everything up-to-date"),
        ("ls", ""),
        ("foo", "bash: foo: Kommando nicht gefunden."),
        # What others wrote, of which none tells how the command itself ended.
        ("cat build.log", "all\nerror: failed to push\nmake: *** [all] Error 2\n3 failed in 2 s"),
        ("cd /x && tail -n 50 a.log", "one\nTraceback (most recent call last):\nValueError: x"),
        ("git log", "commit 1\n    Fix\n\nerror: is the prefix"),
        ("docker logs web", "ready\nFATAL: no room"),
        ("echo done", "3 failed"),
        # None of these is a failure.
        ("pytest", "412 passed, 0 failed in 2 s"),
        ("ruff check", "Found 3 errors (3 fixed, 0 remaining)."),
        ("x", "Errors: 0, failures: 0, failed=0"),
        ("prove", "not ok 3 - later # TODO"),
        ("x", "The word error: stands in prose, and so does 10 failed."[:52]),
    ],
)
def test_what_nothing_tells_has_no_mark(command, result):
    assert tool_marker(shell(command), result) == f"[shell: {command}]"
    assert result_status(shell(command), result) == ""


@pytest.mark.parametrize(
    "result",
    ["exit code: 0", "Process exited with code 0\nall well", '{"exit_code": 0, "stdout": "a"}', '{"success": true}'],
)
def test_an_exit_code_of_zero_and_a_field_that_says_so_are_success(result):
    assert tool_marker(shell("ls"), result) == "[shell: ls → ✓]"
    assert result_status(shell("ls"), result) == "ok"


def test_an_exit_code_tells_more_than_words():
    """A pipe hides the exit code of what stands before it."""
    assert tool_marker(shell("make"), "error: x\nexit code: 2") == "[shell: make → exit 2] ✗ error: x"
    piped = '{"exit_code": 0, "stdout": "3 failed, 4 passed in 2 s"}'
    assert tool_marker(shell("pytest | tail"), piped) == "[shell: pytest | tail → exit 0]"
    assert result_status(shell("pytest | tail"), piped) == ""
    assert result_status(shell("make"), "done\nexit code: 2") == "error"


def test_code_may_print_anything_but_a_traceback():
    call = {"id": "c1", "function": {"name": "python", "arguments": '{"code": "f()"}'}}
    assert tool_marker(call, "3 failed in 2 s") == "[shell: f()]"
    assert tool_marker(call, "1\nTraceback (most recent call last):\nKeyError") == "[shell: f()] ✗ KeyError"


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
