"""A branch as text for a summarizer: nothing forged, nothing silent or guessed, nothing larger than allowed."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.messages import tool_calls
from compaction_app.messages.tool_calls import register_tool_marker, result_status, tool_marker
from compaction_app.messages.transcript import reasoning_text, render_messages
from compaction_app.messages.truncate import shorten
from compaction_app.values import Role
from tests.memory.telling import message

pytestmark = pytest.mark.pure

#: Text that PostgreSQL takes: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def call(name: str, arguments: Any = "", call_id: str = "c1") -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


class TestBlocks:
    def test_the_first_message_of_a_turn_has_its_day_and_hour(self):
        """ "Tomorrow" needs the day it was said, and "Friday" the weekday, which models compute badly.

        UTC is named: MemTensor/MemOS#2369.
        """
        oslo = timezone(timedelta(hours=1))
        moment = datetime(2026, 3, 6, 9, 5, 59, tzinfo=oslo)
        blocks = render_messages(
            [
                message(1, Role.USER, "Tomorrow?", created_at=moment, name="Ann"),
                message(2, Role.ASSISTANT, "Yes.", created_at=moment),
                message(3, Role.USER, "And then?", created_at=datetime(2, 1, 1, tzinfo=UTC)),
            ]
        )
        assert blocks == [
            '<user name="Ann" time="Fri 2026-03-06 09:05">Tomorrow?</user>',
            "<assistant>Yes.</assistant>",
            '<user time="Tue 0002-01-01 00:00 UTC">And then?</user>',
        ]

    def test_a_name_is_an_attribute_that_can_not_be_left(self):
        [block] = render_messages([message(1, Role.USER, "Hi", name='An"a\n<b>')])
        assert block == '<user name="An&quot;a &lt;b&gt;">Hi</user>'

    def test_an_answer_is_kept_also_when_it_used_tools(self):
        calls = (call("read_file", {"path": "a.py"}, "c1"), call("bash", {"command": "ls"}, "c2"))
        blocks = render_messages(
            [
                message(1, Role.ASSISTANT, "I will look.", tool_calls=calls),
                message(2, Role.TOOL, "Error: no such file", tool_call_id="c1"),
                message(3, Role.TOOL, "exit code: 0", tool_call_id="c2"),
                message(4, Role.TOOL, "of nobody", name="ls"),
            ]
        )
        assert blocks == [
            "<assistant>I will look.\n[read: a.py] ✗ Error: no such file\n[shell: ls → ✓]</assistant>",
            '<tool name="read_file" status="error">Error: no such file</tool>',
            '<tool name="bash" status="ok">exit code: 0</tool>',
            '<tool name="ls">of nobody</tool>',
        ]

    def test_a_call_id_used_again_gets_its_own_result(self):
        """Providers number calls per request: "c1" comes again in every group."""
        blocks = render_messages(
            [
                message(1, Role.ASSISTANT, tool_calls=(call("bash", {"command": "one"}),)),
                message(2, Role.TOOL, "exit code: 1", tool_call_id="c1"),
                message(3, Role.ASSISTANT, tool_calls=(call("bash", {"command": "two"}),)),
                message(4, Role.TOOL, "exit code: 0", tool_call_id="c1"),
                message(5, Role.ASSISTANT, tool_calls=(call("bash", {"command": "three"}),)),
                message(6, Role.USER, "stop"),
            ]
        )
        assert "[shell: one → exit 1]" in blocks[0]
        assert "[shell: two → ✓]" in blocks[2]
        assert "[shell: three]" in blocks[4]

    def test_attachments_are_lines(self):
        images = ({"type": "image", "name": "cat.png"}, {"type": "file", "name": "<plan>.pdf"})
        [block] = render_messages([message(1, Role.USER, "See", attachments=images)])
        assert block == "<user>See\n[image: cat.png]\n[attached: &lt;plan&gt;.pdf]</user>"

    def test_long_tool_results_are_shortened_and_nothing_else_is(self):
        long = "y" * 50_000
        result, answer = render_messages([message(1, Role.TOOL, long, name="grep"), message(2, Role.USER, long)])
        assert "...truncated " in result
        assert len(result) < 2100
        assert answer == f"<user>{long}</user>"

    def test_limits_shorten_text_reasoning_and_markers_together(self):
        calls = tuple(call("bash", {"command": f"{n} " * 30}, f"c{n}") for n in range(50))
        long = message(7, Role.ASSISTANT, "z" * 5000, reasoning="r" * 5000, tool_calls=calls)
        [block] = render_messages([long], limits={7: 400})
        assert len(block) < 500
        [other] = render_messages([long], limits={8: 400})
        assert len(other) > 10_000

    @given(st.lists(st.tuples(st.sampled_from(list(Role)), TEXT, TEXT, TEXT), max_size=5))
    def test_whatever_is_written_a_block_has_only_its_own_tags(self, written):
        messages = [
            message(n, role, content, name=name, tool_calls=(call(name, content),), reasoning=thought)
            for n, (role, content, name, thought) in enumerate(written)
        ]
        for block, (role, *_) in zip(render_messages(messages), written, strict=True):
            tags = re.findall(r"</?([^\s>]+)[^<>]*>", block)
            assert tags in ([role.value] * 2, [role.value, "reasoning", "reasoning", role.value])
            assert block.count("<") == block.count(">") == len(tags)


class TestReasoning:
    @pytest.mark.parametrize(
        "blocks",
        [
            "Think.",
            [{"type": "thinking", "thinking": "Think.", "signature": "c2lnbmF0dXJl"}],
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Think."}], "encrypted_content": "Zg=="},
            [{"type": "reasoning.text", "text": "Think."}, {"type": "reasoning.encrypted", "data": "Zg=="}],
        ],
    )
    def test_text_is_pulled_out_of_every_providers_blocks(self, blocks):
        assert reasoning_text(blocks) == "Think."

    @pytest.mark.parametrize(
        "blocks", [None, "", [], {}, 7, {"type": "redacted_thinking", "data": "Zg=="}, [{"encrypted_content": "Zg=="}]]
    )
    def test_what_can_not_be_read_is_left_out(self, blocks):
        """Reasoning is never fabricated."""
        assert reasoning_text(blocks) == ""

    def test_it_stands_in_the_assistants_block_or_is_dropped(self):
        thinking = message(1, Role.ASSISTANT, "Yes.", reasoning=[{"thinking": "a < b"}])
        assert render_messages([thinking]) == ["<assistant><reasoning>a &lt; b</reasoning>\nYes.</assistant>"]
        assert render_messages([thinking], reasoning="drop") == ["<assistant>Yes.</assistant>"]


class TestMarkers:
    @pytest.mark.parametrize(
        ("name", "arguments", "result", "line"),
        [
            ("read_file", {"path": "src/a.py"}, "text", "[read: src/a.py]"),
            ("edit", {"file_path": "a.py", "edits": [{}, {}]}, "ok", "[edited: a.py (2 edits)]"),
            ("apply_patch", {"patch": "+++ b/a.py\n+++ b/b.py"}, "", "[edited: a.py, b.py (2 edits)]"),
            ("text_editor", {"command": "view", "path": "a.py"}, "text", "[read: a.py]"),
            ("create_file", {"filename": "b.py"}, "", "[created: b.py]"),
            ("write_file", {"path": "a.py"}, "", "[wrote: a.py]"),
            ("bash", {"command": "ls"}, '{"exit_code": 0, "stdout": "a b"}', "[shell: ls → ✓]"),
            ("bash", {"command": "pytest", "description": "all tests"}, "exit code: 2", "[shell: all tests → exit 2]"),
            ("run_command", {"command": ["git", "push"]}, '{"exit_code": 128}', "[shell: git push → exit 128]"),
            ("shell", {"command": "sleep 99"}, "Command timed out after 30 s", "[shell: sleep 99 → timed out]"),
            ("bash", {"command": "git log"}, "fatal: not a repository", "[shell: git log] ✗ fatal: not a repository"),
            ("grep", {"pattern": "def main"}, "2 hits", '[searched: "def main"]'),
            ("lint", {"paths": ["a.py", "b.py"]}, "3 errors, 1 warning", "[lint: a.py b.py]"),
            ("ask_user", {"question": "Which day?"}, "Friday", "[asked user: Which day? → Friday]"),
            ("read_file", {"path": "a.py"}, '{"error": {"message": "not found"}}', "[read: a.py] ✗ not found"),
            ("cat", {"path": "doc.md"}, "About errors\n\nError: is a prefix. Traceback is one.", "[read: doc.md]"),
            ("mcp__fs__read_file", {"path": "a.py"}, "text", "[read: a.py]"),
            ("Read-File", {"path": "a.py"}, "text", "[read: a.py]"),
        ],
    )  # fmt: skip
    def test_common_tools_tell_what_they_did(self, name, arguments, result, line):
        assert tool_marker(call(name, arguments), result) == line

    @pytest.mark.parametrize(
        ("name", "arguments", "line"),
        [
            ("book_flight", {"from": "HEL", "to": "LIS", "seats": 2}, "[tool-book_flight: from=HEL, to=LIS, seats=2]"),
            ("submit", {}, "[tool-submit]"),
            ("submit", "{not json", "[tool-submit: {not json]"),
            ("read_file", {"lines": 3}, "[tool-read_file: lines=3]"),
            ("odd", {"deep": {"a": [1, None]}, "none": None}, '[tool-odd: deep={"a": [1, null]}]'),
        ],
    )  # fmt: skip
    def test_the_unknown_is_never_passed_over_in_silence(self, name, arguments, line):
        assert tool_marker(call(name, arguments), "done") == line

    def test_hosts_extend_the_registry(self, monkeypatch, caplog):
        monkeypatch.setattr(tool_calls, "_MARKERS", dict(tool_calls._MARKERS))
        register_tool_marker("book_flight", lambda arguments, result: f"[booked: {arguments['to']}]\n")
        assert tool_marker(call("book_flight", {"to": "LIS"}), None) == "[booked: LIS]"
        # Arguments that do not parse raise KeyError in it: a host's mistake must not stop a compaction.
        assert tool_marker(call("book_flight", "{"), None) == "[tool-book_flight: {]"
        assert "error step=tool_marker type=KeyError\n  File" in caplog.text
        register_tool_marker("book_flight", lambda arguments, result: "")
        assert tool_marker(call("book_flight", {"to": "LIS"}), None) == "[tool-book_flight: to=LIS]"

    @given(TEXT, TEXT, st.none() | TEXT)
    def test_a_marker_is_one_short_line(self, name, arguments, result):
        line = tool_marker(call(name, arguments), result)
        assert line
        assert len(line) <= 240
        assert line.splitlines() == [line]


def size(text: str) -> int:
    return len(text.encode())


class TestShorten:
    @pytest.mark.parametrize("limit", [-1, 0, 1, 5, 20, 27])
    def test_a_limit_smaller_than_the_notice_leaves_a_head_and_dots(self, limit):
        assert shorten("x" * 200, limit) == "x" * max(limit - 3, 0) + "..."[: max(limit, 0)]

    @given(TEXT, st.integers(0, 200))
    def test_laws(self, text, limit):
        """At most the limit, never larger than the original, the same when done twice, unchanged if it fits."""
        shortened = shorten(text, limit)
        assert size(shortened) <= limit
        assert size(shortened) <= size(text)
        assert shorten(shortened, limit) == shortened
        if size(text) <= limit:
            assert shortened == text

    @given(TEXT.map(lambda text: text * 20), st.integers(40, 200))
    def test_what_is_left_out_is_what_the_notice_says(self, text, limit):
        shortened = shorten(text, limit)
        if shortened != text and "truncated" in shortened:
            notice = re.search(r"\n\.\.\.truncated (\d+) bytes\.\.\.\n", shortened)
            assert size(text) - int(notice[1]) == size(shortened) - size(notice[0])
            head, tail = shortened.split(notice[0], 1)
            assert (text.startswith(head), text.endswith(tail)) == (True, True)


def shell(command):
    return {"id": "c1", "function": {"name": "shell", "arguments": json.dumps({"command": command})}}


PIPED = '{"exit_code": 0, "stdout": "3 failed, 4 passed in 2 s"}'


@pytest.mark.parametrize(
    ("command", "result", "told", "status"),
    [
        # Without an exit code nothing is guessed: a model sees the result itself, next to the marker.
        ("ls", "", "", ""),
        ("git push", " ! [rejected] main (non-fast-forward)\nerror: failed to push", "", ""),
        ("pytest -q", "F..\n412 passed, 3 failed in 12.3s", "", ""),
        ("make", '{"stdout": "", "stderr": "make: *** [all] Error 2"}', "", ""),
        # What others wrote.
        ("cat a.log", "Error: no room\n" * 50, "", ""),
        # A command that says nothing but its error has failed.
        ("x", "Error: no such table: boats", " ✗ Error: no such table: boats", "error"),
        ("x", '{"success": false, "message": "no"}', " ✗ no", "error"),
        ("x", "one\nTraceback (most recent call last):\n  File\nValueError: x", " ✗ ValueError: x", "error"),
        ("ls", "Process exited with code 0\nall well", " → ✓", "ok"),
        ("ls", '{"success": true}', " → ✓", "ok"),
        ("make", "a\nerror: x\nexit code: 2", " → exit 2 ✗ error: x", "error"),
        # A pipe hides the exit code of what stands before it.
        ("pytest | tail", PIPED, " → exit 0", ""),
        ("pytest || true", PIPED, " → ✓", "ok"),
    ],
)
def test_without_an_exit_code_nothing_is_guessed(command, result, told, status):
    mark, _, error = told.partition(" ✗ ")
    assert tool_marker(shell(command), result) == f"[shell: {command}{mark}]" + (f" ✗ {error}" if error else "")
    assert result_status(shell(command), result) == status


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
