"""Sessions of Claude Code and Codex CLI: the lines that they write, as trees that can be continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers

from compaction_app.contrib import histories
from compaction_app.contrib.histories import reading
from compaction_app.exceptions import ImportFailed
from compaction_app.models import ChatSession
from compaction_app.transfer import importing
from compaction_app.transfer.formats import Conversation
from compaction_app.tree.verify import verify_session
from tests.contrib.test_histories import block, drawn
from tests.contrib.test_what_an_import_says import STRUCTURE, marked
from tests.transfer.bundling import run

pytestmark = pytest.mark.django_db

ABOUT = {"sessionId": "s", "cwd": "/srv/tide", "gitBranch": "main", "version": "2.1.39", "userType": "external"}
BEFORE = "messages without their parent, behind the one before now"


def of_claude(own: str, parent: str | None, kind: str, **more: Any) -> dict[str, Any]:
    return {"uuid": own, "parentUuid": parent, "type": kind, "timestamp": "2026-02-10T21:12:01.669Z", **ABOUT, **more}


def asked(own: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    return of_claude(own, parent, "user", message={"role": "user", "content": content}, **more)


def replied(own: str, parent: str | None, message_id: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_creation": {"ephemeral_5m_input_tokens": 0}}
    message = {"id": message_id, "type": "message", "role": "assistant", "model": "claude-opus-4-6", "usage": usage}
    return of_claude(own, parent, "assistant", message={**message, "content": list(blocks)}, **more)


def use(call_id: str, name: str = "Read") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"at": call_id}}


def result(call_id: str, content: Any = "fog") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": False}


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
ODD = [
    {"type": "file-history-snapshot", "messageId": "q", "snapshot": {"trackedFileBackups": {}}},
    {"type": "queue-operation", "operation": "dequeue", "sessionId": "s"},
]
#: One reply with two calls at once: the first line of results hangs on the last call, the other on the first.
TURN = [
    *ODD,
    of_claude("p0", None, "progress", data={"type": "hook_progress"}),
    asked("q", "p0", "<system-reminder>be kind</system-reminder>Look & see"),
    replied("a1", "q", "m1", THOUGHT),
    replied("a2", "a1", "m1", block("So.")),
    replied("a3", "a2", "m1", use("c1")),
    of_claude("p1", "a3", "progress", data={"type": "bash_progress"}),
    replied("a4", "a3", "m1", use("c2", "Bash")),
    asked("r2", "a4", [result("c2", [block("mist"), PICTURE])], toolUseResult={"stdout": "mist"}),
    asked("r1", "a3", [result("c1")]),
    replied("b", "r1", "m2", block("Fog.")),
]
SEEN = [
    "u <system-reminder>be kind</system-reminder>Look & see",
    ' a So. Read({"at": "c1"}) Bash({"at": "c2"})',
    "  t mist <image 1>",
    "   t fog",
    "    a Fog.",
]


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload}


def spoken(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
    return item("response_item", type="message", role=role, content=content)


def prompted(text: str) -> list[dict[str, Any]]:
    return [spoken("user", text), item("event_msg", type="user_message", message=text, images=[])]


META = item(
    "session_meta", id="r", cwd="/srv/tide", git={"branch": "main"}, base_instructions={"text": "You are Codex."}
)
SEALED = item(
    "response_item", type="reasoning", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="x"
)
CALL = item("response_item", type="function_call", name="shell", arguments='{"command":"ls"}', call_id="c1")
PATCH = item("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2")
ROLLOUT = [
    META,
    spoken("user", "<environment_context>\n</environment_context>"),
    *prompted("Look"),
    item("turn_context", model="gpt-5.1-codex", cwd="/srv/tide"),
    SEALED,
    CALL,
    PATCH,
    item("response_item", type="function_call_output", call_id="c1", output="fog"),
    item("response_item", type="custom_tool_call_output", call_id="c2", output="Done"),
    spoken("assistant", "Fog."),
]
ROLLED = [
    "= You are Codex.",
    "u <environment_context>\n</environment_context>",
    " u Look",
    '  a shell({"command":"ls"}) apply_patch({"input": "*** Begin Patch"})',
    "   t fog",
    "    t Done",
    "     a Fog.",
]


def written(file: Path, rows: list[Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in rows))
    return file


def stored(file: Path) -> importing.Imported:
    (one,) = importing.store(histories.read(file))
    assert isinstance(one, importing.Imported), str(one)
    assert verify_session(one.session).problems == []
    return one


def seen(session: ChatSession) -> list[str]:
    prompt = [f"= {session.system_prompt}"] if session.system_prompt else []
    return [*prompt, *(line.partition(" ~")[0] for line in drawn(session))]


def test_a_reply_in_lines_is_one_message_and_the_results_of_its_calls_follow_it(tmp_path):
    one = stored(written(tmp_path / "s.jsonl", [*TURN, {"type": "ai-title", "aiTitle": "Tides", "sessionId": "s"}]))
    session = one.session
    assert seen(session) == SEEN
    about = {"id": "s", **{key: ABOUT[key] for key in ABOUT if key != "sessionId"}}
    assert (session.title, session.external_id, session.model) == ("Tides", "claude_code:s", "claude-opus-4-6")
    assert session.metadata["claude_code"] == about
    assert str(session.created_at) == "2026-02-10 21:12:01.669000+00:00"
    reply = session.messages.get(external_id="a4")
    assert [call["id"] for call in reply.tool_calls] == ["c1", "c2"]
    assert (reply.reasoning, reply.usage["output_tokens"], reply.model) == ([THOUGHT], 5, "claude-opus-4-6")
    # As it goes back to the model, signature and all.
    assert reply.original["data"]["content"] == [THOUGHT, block("So."), use("c1"), use("c2", "Bash")]
    assert session.messages.get(external_id="r2").original["data"]["content"] == [TURN[9]["message"]["content"][0]]
    assert session.messages.get(external_id="b").original is None, "a text alone is stored once"
    left_out = {"file-history-snapshot": 1, "queue-operation": 1, "progress": 2}
    assert +one.notes == {
        **{f"lines of the type {kind}, left out": number for kind, number in left_out.items()},
        "not stored: toolUseResult": 1,
    }


#: What comes behind the turn, what is drawn behind it, and what else is counted.
BEHIND: list[Any] = [
    pytest.param(
        [asked("q2", "b", "Again"), replied("x", "q2", "m3", block("X")), asked("q3", "b", "Other")],
        ["     u Again", "      a X", "     u Other"],
        {},
        id="a rewind is a branch",
    ),
    pytest.param(
        [
            of_claude("k", None, "system", logicalParentUuid="b", subtype="compact_boundary", content="Compacted"),
            asked("y", "k", "So far: fog.", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        ],
        ["     u So far: fog."],
        {"lines of the type system, left out": 1},
        id="its own summary follows what it replaced",
    ),
    pytest.param(
        [of_claude("k", None, "system", logicalParentUuid="gone"), asked("y", "k", "S"), asked("z", "lost", "Z")],
        ["     u S", "      u Z"],
        {"lines of the type system, left out": 1, BEFORE: 1},
        id="parents that are not in the file",
    ),
    pytest.param(
        [asked("y", None, "Find it", isSidechain=True), replied("z", "y", "m4", block("It."), isSidechain=True)],
        ["u Find it", " a It."],
        {},
        id="a subagent in the same file",
    ),
    pytest.param(
        [
            of_claude("k", "b", "attachment", attachment={"type": "queued_command", "prompt": "And the tide?"}),
            of_claude("j", "k", "attachment", attachment={"type": "todo_reminder", "content": []}),
            replied("e", "j", "m4", block("API Error"), isApiErrorMessage=True),
            asked("y", "e", [result("c9"), block("<command-name>/mcp</command-name>")]),
        ],
        [
            "     u And the tide?",
            "      u [result of a tool call: c9]\n> fog",
            "       u <command-name>/mcp</command-name>",
        ],
        {
            "lines of the type attachment, left out": 1,
            "errors of the provider, bridged": 1,
            "results without their call, texts now": 1,
        },
        id="words while it works, an error, a result without its call",
    ),
    pytest.param(
        [TURN[-1], {"type": "summary", "summary": "Another", "leafUuid": "of another"}, '{"type": "user", "uu\n'],
        [],
        {
            "lines that are there twice, left out": 1,
            "summaries of other sessions, left out": 1,
            "lines that cannot be read, left out": 1,
        },
        id="lines that are odd",
    ),
]


@pytest.mark.parametrize(("rows", "lines", "notes"), BEHIND)
def test_what_follows_a_turn_of_claude_code(rows, lines, notes, tmp_path):
    file = written(tmp_path / "s.jsonl", TURN)
    first = stored(file)
    one = stored(written(file, [*TURN, *rows]))
    assert (one.session, one.already_there) == (first.session, True)
    assert seen(one.session) == [*SEEN, *lines]
    added = {"messages added to conversations that were there": len(lines)} if lines else {}
    counted = {key: number for key, number in (one.notes - first.notes).items() if not key.startswith("not stored")}
    assert counted == {**notes, **added}
    marks = [row.metadata for row in one.session.messages.all() if row.metadata]
    known = ("isSidechain", "isCompactSummary")
    said = [{key: row[key] for key in known if key in row} for row in rows if isinstance(row, dict)]
    assert marks == [one for one in said if one]


def test_a_turn_that_is_imported_while_it_is_written_loses_nothing(tmp_path):
    file = written(tmp_path / "s.jsonl", TURN[:7])
    half = stored(file)
    again = stored(written(file, TURN))
    assert again.session == half.session
    assert set(SEEN) <= set(seen(again.session))


#: What comes behind the rollout, and what is drawn behind it.
GOES_ON: list[Any] = [
    pytest.param(
        [
            *prompted("Again"),
            spoken("assistant", "A."),
            item("event_msg", type="thread_rolled_back", num_turns=1),
            *prompted("Other"),
            spoken("assistant", "O."),
            item("event_msg", type="thread_rolled_back", num_turns=2),
            *prompted("Anew"),
        ],
        ["      u Again", "       a A.", "      u Other", "       a O.", " u Anew"],
        id="turns that were rolled back are branches",
    ),
    pytest.param(
        [
            item("compacted", message="So far: fog.", replacement_history=[]),
            *prompted("On"),
            item("compacted", message=""),
        ],
        ["      u So far: fog.", "       u On"],
        id="its own summary follows what it replaced",
    ),
    pytest.param(
        [item("response_item", type="web_search_call", status="completed", action={"query": "tide"}), META],
        ["     a Fog.\n\n[tool-web_search_c"],
        id="a hosted tool goes on with the answer",
    ),
]


@pytest.mark.parametrize(("rows", "lines"), GOES_ON)
def test_what_follows_in_a_rollout(rows, lines, tmp_path):
    file = written(tmp_path / "rollout-1.jsonl", ROLLOUT)
    first = stored(file)
    assert seen(first.session) == ROLLED
    again = stored(written(file, [*ROLLOUT, *rows]))
    assert again.session == first.session
    assert [line[: len(want)] for line, want in zip(seen(again.session)[len(ROLLED) :], lines, strict=True)] == lines
    assert (first.session.title, first.session.model) == ("Look", "gpt-5.1-codex")
    assert first.session.metadata["codex"] == {"id": "r", "cwd": "/srv/tide", "git": {"branch": "main"}}
    reply = first.session.messages.get(external_id="line 8")
    assert reply.original["data"] == [SEALED["payload"], CALL["payload"], PATCH["payload"]]
    assert {one.original for one in first.session.messages.filter(role="user")} == {None}


def test_the_first_rollouts_have_nothing_around_their_items(tmp_path):
    rows = [row["payload"] for row in ROLLOUT if row["type"] == "response_item"]
    old = [{"id": "o", "timestamp": "2025-06-01T10:00:00Z", "instructions": "You are Codex."}, {"record_type": "state"}]
    one = stored(written(tmp_path / "rollout-0.jsonl", [*old, *rows]))
    assert (seen(one.session), one.session.external_id) == (ROLLED, "codex:o")


def test_each_string_of_a_session_is_stored_or_counted_by_its_key(tmp_path):
    # A reply has one model; what a tool gave back beside its result is counted as one.
    kept = STRUCTURE | {"parentUuid", "sessionId", "model", "stdout"}
    for rows in (TURN[3:], [row for row in ROLLOUT if row["type"] in ("session_meta", "response_item")]):
        made: list[tuple[str, str]] = []
        whole = [marked(row, "", made) for row in rows if row["type"] != "progress"]
        one = stored(written(tmp_path / "s.jsonl", whole))
        found = serializers.serialize("json", [one.session, *one.session.messages.all()], ensure_ascii=False)
        lost = [(key, text) for key, text in made if key not in kept and text.split()[-1] not in found]
        assert [key for key, _ in lost if not one.notes[f"not stored: {key}"]] == []


def test_a_folder_is_all_sessions_in_it(tmp_path):
    project = tmp_path / "projects" / "-work-tide"
    written(project / "s.jsonl", TURN)
    mine = [
        asked("y", None, "Find it", isSidechain=True, agentId="x"),
        replied("z", "y", "m", block("It."), agentId="x"),
    ]
    written(project / "s" / "subagents" / "agent-x.jsonl", mine)
    written(project / "empty.jsonl", [])
    written(project / "s" / "subagents" / "journal.jsonl", [{"type": kind, "agentId": "x"} for kind in ("on", "off")])
    written(project / "only.jsonl", [{"type": "summary", "summary": "Another", "leafUuid": "of another"}])
    written(project / "sessions-index.json", [{"version": 1}])
    written(tmp_path / "projects" / "r" / "rollout-1.jsonl", ROLLOUT)
    out, code = run("import_chats", tmp_path / "projects")
    assert (code, "Imported 3 conversations with 13 messages." in out) == (0, True)
    assert "Conversations without a message, left out: 2" in out
    names = ["claude_code:s", "claude_code:s:x", "codex:r"]
    assert sorted(ChatSession.objects.values_list("external_id", flat=True)) == names
    assert "Already imported: 3 conversations." in run("import_chats", tmp_path / "projects")[0]


def as_lines(messages: list[dict[str, Any]], form: str) -> list[Any]:
    """A conversation in OpenAI's format as an agent writes it: a line a text, a call and a result."""
    rows: list[Any] = [META] if form == "codex" else []

    def add(number: int, role: str, content: Any, given: dict[str, Any]) -> None:
        about = {"id": f"m{number}"} if role == "assistant" else {}
        parent = str(len(rows) - 1) if rows else None
        line = of_claude(str(len(rows)), parent, role, message={**about, "role": role, "content": content})
        rows.append(line if form == "claude_code" else {"type": "response_item", "payload": given})

    for number, one in enumerate(messages):
        role, text, call_id = one["role"], one["content"], one.get("tool_call_id")
        if role == "tool":
            given = {"type": "function_call_output", "call_id": call_id, "output": text}
            add(number, "user", [result(call_id, text)], given)
        elif text:
            add(number, role, [block(text)] if role == "assistant" else text, spoken(role, text)["payload"])
        for call in one.get("tool_calls") or ():
            about, arguments = {"name": call["function"]["name"]}, call["function"]["arguments"]
            asked_of = {"type": "tool_use", "id": call["id"], **about, "input": json.loads(arguments)}
            given = {"type": "function_call", "call_id": call["id"], **about, "arguments": arguments}
            add(number, "assistant", [asked_of], given)
    return rows


def told(messages: list[Any]) -> tuple[Any, ...]:
    """All texts, without blanks; all calls; and what the results answer."""
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    made = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    answered = [one["tool_call_id"] for one in messages if one.get("tool_call_id")]
    return "".join(word for one in messages for word in one["content"].split()), made, answered


@pytest.mark.parametrize("form", ["claude_code", "codex"])
def test_real_sessions_come_back_node_by_node(shared_data, form, tmp_path):
    file = shared_data.parent / "real" / "agent_coding.json"
    if not file.exists():
        pytest.skip(f"{file} is not here")
    for given in json.loads(file.read_text()):
        (read,) = histories.read(written(tmp_path / "s.jsonl", as_lines(given["messages"], form)))
        assert isinstance(read, Conversation)
        assert [message.parent for message in read.messages] == [None, *range(len(read.messages) - 1)]
        found = [message.fields for message in read.messages]
        assert told(found) == told(given["messages"])
        roles = [one["role"] for one in given["messages"]]
        if form == "codex":
            # Two replies with nothing between them are one answer.
            roles = [
                role for role, before in zip(roles, ["", *roles], strict=False) if not role == before == "assistant"
            ]
        assert [one["role"] for one in found] == roles


def test_what_is_left_out_of_a_session_takes_no_room(tmp_path, monkeypatch):
    """Half of what Claude Code writes is what its tools report while they run."""
    monkeypatch.setattr(reading, "LARGEST", 10_000)
    noise = [of_claude(f"n{n}", "b", "progress", data="x" * 1_000) for n in range(100)]
    file = written(tmp_path / "s.jsonl", [*TURN, *noise])
    assert seen(stored(file).session) == SEEN
    written(file, [*TURN, asked("q2", "b", "x" * 9_000)])
    with pytest.raises(ImportFailed, match="which no conversation has"):
        list(histories.read(file))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_in_an_object_is_read_as_a_list(indent, tmp_path, monkeypatch):
    """Qwen's export of all conversations."""
    monkeypatch.setattr("compaction_app.contrib.histories.files._CHUNK", 100)
    talks = [{"id": str(n), "messages": [{"role": "user", "content": f"Q{n} [{{"}]} for n in range(3)]
    whole = {"success": True, "request_id": "x", "data": talks}
    (file := tmp_path / "export.json").write_text(json.dumps(whole, indent=indent))
    assert "Imported 3 conversations with 3 messages." in run("import_chats", file)[0]
