"""Exports of other products: each oddity that they have, whole archives, and what is written for them."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError

from compaction_app import chat
from compaction_app.contrib import histories
from compaction_app.contrib.histories import files
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.transfer import importing
from compaction_app.transfer.formats import Conversation, read_moment
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.conftest import REPOSITORY, live_database_url
from tests.transfer.bundling import run

pytestmark = pytest.mark.django_db


def stored(*documents: Any) -> list[importing.Imported]:
    found = importing.read(((f"conversation {n}", one) for n, one in enumerate(documents, start=1)), histories.READERS)
    done = list(importing.store(found))
    assert [str(one) for one in done if isinstance(one, importing.Refused)] == []
    assert [verify_session(one.session).problems for one in done] == [[]] * len(done)
    return done


def drawn(session: ChatSession) -> list[str]:
    """A line a message, below its parent: the role's first letter, the text, the calls and what they answer."""
    lines: list[str] = []
    below: dict[int | None, list[ChatMessage]] = defaultdict(list)
    for row in session.messages.filter(kind="message").order_by("-sib_order"):
        below[row.parent_id].append(row)
    waiting = below[None]
    while waiting:
        row = waiting.pop()
        waiting += below[row.pk]
        called = [f"{call['function']['name']}({call['function']['arguments']})" for call in row.tool_calls or ()]
        named = [f"<{one['name']}>" for one in row.attachments or ()]
        words = [row.role[0], row.content, *called, *named, f"~{row.reasoning}" if row.reasoning else ""]
        lines.append(" " * (row.depth - 1) + " ".join(filter(None, words)))
    return lines


def node(own: str, parent: str | None, role: str = "", content: Any = "", children: Any = None, **more: Any) -> Any:
    """Of ChatGPT; the content's text, or the content."""
    content = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    author = {"role": role, "name": more.pop("name", None)}
    message = {"author": author, "content": content, "create_time": 1_700_000_000.5, "weight": 1.0, "recipient": "all"}
    made = {"id": own, "parent": parent, "message": {**message, **more} if role else None}
    return own, made if children is None else {**made, "children": children}


def gpt(*nodes: Any, **more: Any) -> dict[str, Any]:
    return {"title": "T", "create_time": 1_700_000_000, "mapping": dict(nodes), "conversation_id": "c", **more}


def code(text: str, language: str = "python") -> dict[str, Any]:
    return {"content_type": "code", "language": language, "text": text}


def parts(*given: Any) -> dict[str, Any]:
    return {"content_type": "multimodal_text", "parts": list(given)}


HIDDEN = {"is_visually_hidden_from_conversation": True}
THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "Hm."}, {"summary": "Aha."}]}
CONTEXT = {"content_type": "user_editable_context", "user_profile": "I fish.", "user_instructions": "Be brief."}
PHOTO = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
PLOT = {"aggregate_result": {"messages": [{"message_type": "image", "image_url": "file-service://file-9"}]}}
VOICE = {"content_type": "audio_transcription", "text": "Said aloud."}
SOUND = {"audio_asset_pointer": {"asset_pointer": "sediment://file_2"}, "content_type": "real_time_user_audio_video"}
ATTACHED = {"attachments": [{"id": "file-1", "name": "roof.jpg", "mime_type": "image/jpeg"}, {"name": "plan.pdf"}]}
CITED = 'In \ue200entity\ue202["city","Oslo",0]\ue201 it rains\ue200cite\ue202turn0\ue201【1†source】.'


def claude(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": "c", "name": "T", "created_at": "2026-02-14T10:04:22.000000Z", "chat_messages": list(rows)}


def said(own: str, sender: str, *blocks: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    up = {"parent_message_uuid": parent} if parent else {}
    return {"uuid": own, "sender": sender, "content": list(blocks), "text": "", **up, **more}


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


ROOT = "00000000-0000-4000-8000-000000000000"
FILE = {"file_name": "a.pdf"}
USE = {"type": "tool_use", "id": None, "name": "look", "input": {"at": 1}}
RESULT = {"type": "tool_result", "tool_use_id": None, "name": "look", "content": [block("fog")]}


def webui(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"title": "T", "chat": {"history": {"messages": {row["id"]: row for row in rows}}, **more}}


def row(own: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": own, "parentId": parent, "role": role, "content": content, "timestamp": 1_700_000_000, **more}


WHY = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n&gt; I &lt;see&gt;.\n</details>\n'
LOOK = (
    '<details type="tool_calls" id="c1" name="look" arguments="&quot;{\\&quot;at\\&quot;:1}&quot;" '
    'result="&quot;fog&quot;">\n</details>\n'
)
RUN = (
    '<details type="code_interpreter" output="{&quot;stdout&quot;:1}">\n<summary>Ran</summary>\n'
    "```py\n1\n```\n</details>"
)
OUTPUT = [
    {"type": "open_webui:code_interpreter", "id": "ci", "lang": "python", "code": "2", "output": {"stdout": "2"}},
    {"type": "reasoning", "summary": [{"text": "Why not."}], "content": None},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "fog"}]},
    {"type": "message", "content": [{"type": "output_text", "text": "Fog."}]},
]


def deepseek(*nodes: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    """Of each node its id, its parent and its fragments."""
    found = {own: {"id": own, "parent": parent, "children": [], "message": None} for own, parent, *_ in nodes}
    for own, _, *fragments in nodes:
        if fragments:
            about = {"files": [], "model": "m", "inserted_at": "2026-06-01T10:00:00.5+08:00", **more}
            found[own]["message"] = {**about, "fragments": fragments}
    return {"id": "d", "title": "T", "inserted_at": "2026-06-01T10:00:00+08:00", "mapping": found}


def fragment(kind: str, content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "content": content, **more}


PHASES = [
    {
        "phase": "thinking_summary",
        "content": "",
        "extra": {"summary_title": {"content": ["Plan"]}, "summary_thought": {"content": ["One.", "Two."]}},
    },
    {"phase": "web_search", "content": "", "extra": {"web_search_info": [{"url": "https://e.org/a", "title": "E"}]}},
    {"phase": "think", "content": "Hm."},
    {"phase": "answer", "content": "A.", "status": "finished"},
]


def libre(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"conversationId": "c", "title": "T", "messages": list(rows), **more}


def bubble(own: str, parent: str | None, by_user: bool, text: str = "", **more: Any) -> dict[str, Any]:
    at = "2026-01-01T10:00:00.000Z"
    return {
        "messageId": own,
        "parentMessageId": parent,
        "isCreatedByUser": by_user,
        "text": text,
        "createdAt": at,
        **more,
    }


ZERO = "00000000-0000-0000-0000-000000000000"
FOG = {"type": "text", "text": {"value": "Fog."}}
LOOKED = {"type": "tool_call", "tool_call": {"id": "c1", "name": "look", "args": {"at": 1}, "output": "fog"}}

#: What came, and what is stored.
ODDITIES: list[Any] = [
    pytest.param(
        deepseek(
            ("root", None),
            ("1", "root", fragment("REQUEST", "Q"), fragment("FILE", files=[{"file_id": "f", "file_name": "a.pdf"}])),
            ("2", "1", fragment("THINK", "Hm."), fragment("RESPONSE", "A")),
            ("3", "1", fragment("SEARCH", results=[{"url": "https://e.org/a", "title": "E"}]), fragment("TIP", "B")),
        ),
        [
            "u Q <a.pdf>",
            " a A ~Hm.",
            " a search({})",
            '  t {"results": [{"url": "https://e.org/a", "title": "E"}]}',
            "   a B",
        ],
        id="DeepSeek: fragments, a fork, and a search",
    ),
    pytest.param(
        webui(
            row("q", None, "user", "Q", files=[{"name": "a.pdf", "id": "f"}]),
            row("a", "q", "assistant", "", content_list=PHASES),
            row("b", "q", "assistant", "B.", reasoning_content="Well."),
        ),
        [
            "u Q <a.pdf>",
            " a web_search() ~Plan\nOne.\n\nTwo.",
            '  t {"web_search_info": [{"url": "https://e.org/a", "title": "E"}]}',
            "   a A. ~Hm.",
            " a B. ~Well.",
        ],
        id="Qwen: phases of a reply",
    ),
    pytest.param(
        gpt(node("r", None), node("a", "q", "critic", "A"), node("q", "r", "user", "Q"), node("b", "q", "tool", "B")),
        ["u Q", " a A", " a tool({})", "  t B"],
        id="ChatGPT: no children are named",
    ),
    pytest.param(
        gpt(node("q", None, "user", "Q", ["y", "x", "gone"]), node("x", "q", "user", "X"), node("y", "q", "user", "Y")),
        ["u Q", " u Y", " u X"],
        id="ChatGPT: children in the order of their parent, one of them gone",
    ),

    pytest.param(
        gpt(node("x", "y", "user", "X"), node("y", "x", "user", "Y"), node("z", "gone", "user", "Z")),
        ["u Z", "u X", " u Y"],
        id="ChatGPT: a ring and an orphan",
    ),
    pytest.param(
        gpt(
            node("r", None),
            node("h", "r", "system", "", weight=0.0),
            node("i", "h", "user", CONTEXT, metadata=HIDDEN),
            node("q", "i", "user", "Q"),
            node("q2", "i", "user", "Q2"),
            node("m", "q", "system", "Another model."),
            node("a", "m", "assistant", "A"),
            node("e", "a", "assistant", {"content_type": "text", "parts": None}),
            node("q3", "e", "user", "Q3"),
        ),
        ["= I fish.\n\nBe brief.", "u Q", " a A", "  u Q3", "u Q2"],
        id="ChatGPT: what is no message is bridged, instructions are the prompt",
    ),
    pytest.param(
        gpt(node("s", None, "system", "Be kind."), node("q", "s", "user", "Q")),
        ["= Be kind.", "u Q"],
        id="ChatGPT: a system message that is seen at the top",
    ),
    pytest.param(
        gpt(
            node("q", None, "user", "Q"),
            node("t", "q", "assistant", THOUGHTS),
            node("p", "t", "assistant", {"content_type": "reasoning_recap", "content": "4 s"}),
            node("a", "p", "assistant", "A"),
        ),
        ["u Q", " a A ~Hm.\n\nAha.\n\n4 s"],
        id="ChatGPT: thoughts join the reply",
    ),
    pytest.param(
        gpt(
            node("q", None, "user", parts(PHOTO, "Q", VOICE, SOUND), metadata=ATTACHED),
            node("c", "q", "assistant", code("1+1"), recipient="python"),
            node("o", "c", "tool", {"content_type": "execution_output", "text": ""}, name="python", metadata=PLOT),
            node("w", "o", "assistant", code('{"q":1}', "unknown"), recipient="web.run"),
            node("b", "w", "tool", {"content_type": "tether_browsing_display", "result": "fog"}, name="web.run"),
            node("b2", "b", "tool", {"content_type": "tether_quote", "text": "more"}, name="web.run"),
            node("d", "b2", "tool", parts(PHOTO), name="dalle.text2im"),
            node("a", "d", "assistant", CITED),
        ),
        [
            "u Q\n\nSaid aloud. <roof.jpg> <file_2> <plan.pdf>",
            ' a python({"code": "1+1"})',
            "  t <file-9>",
            '   a web.run({"q":1})',
            "    t fog",
            "     a web.run({})",
            "      t more",
            "       a dalle.text2im({})",
            "        t <file-1>",
            "         a In Oslo it rains.",
        ],
        id="ChatGPT: calls, results without a call, files by name, citations",
    ),
    pytest.param(
        gpt(
            node("c", None, "assistant", code("{}"), recipient="look"),
            node("d", "c", "assistant", code("{}"), recipient="look"),
            node("o", "d", "tool", "1", name="look"),
            node("p", "o", "tool", "2", name="look"),
        ),
        ["a look({})", " a look({})", "  t 1", "   t 2"],
        id="ChatGPT: two calls at once",
    ),
    pytest.param(
        claude(said("h", "human", text="Q"), said("b", "assistant", text="A"), said("h2", "human", text="Q2")),
        ["u Q", " a A", "  u Q2"],
        id="Claude: an old one, in the order of the file",
    ),
    pytest.param(
        claude(
            said("h", "human", block(""), parent=ROOT, attachments=[{"file_name": "", "extracted_content": "Pasted."}]),
            said("b", "assistant", {"type": "thinking", "thinking": "Hm."}, block("So."), USE, RESULT,
                 {"type": "token_budget"}, block("Fog."), parent="h", text="So.\nThis block is not supported\nFog."),
            said("x", "human", block("On?"), parent="b", files=[FILE], files_v2=[FILE]),
            said("y", "human", block("Or?"), parent="b"),
            said("z", "assistant", parent="x", stop_reason="user_canceled"),
        ),
        ["u Pasted.", ' a So. look({"at": 1}) ~Hm.', "  t fog", "   a Fog.", "    u On? <a.pdf>", "     a",
         "    u Or?"],
        id="Claude: a tree of blocks",
    ),
    pytest.param(
        {"chat": {"messages": [{"id": "1", "role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}},
        ["u Q", " a A"],
        id="Open WebUI: an old one, flat",
    ),
    pytest.param(
        webui(
            row("q", None, "user", "Q", files=[{"type": "image", "url": "data:,A"},
                {"name": "a.pdf", "file": {"data": {"content": "It says so."}}}]),
            row("a", "q", "assistant", WHY + "A &lt;", model="m1"),
            row("b", "q", "assistant", LOOK + "Fog.", model="m2"),
            row("c", "q", "assistant", LOOK + "No.", output=OUTPUT),
            row("d", "q", "assistant", RUN),
            row("s", "a", "system", "S"),
            row("q2", "s", "user", [block("Q2")], timestamp=None),
            row("e", "q2", "assistant", "", error={"content": "500"}),
            row("o", "gone", "user", WHY),
            row("f", "o", "assistant", f"```\n{WHY}```"),
            params={"system": "Be brief."},
        ),
        ["= Be brief.", "u Q\n\nIt says so. <image> <a.pdf>", " a A &lt; ~I <see>.", "  u Q2",
         ' a look({"at":1})', "  t fog", "   a Fog.",
         ' a code_interpreter({"lang": "python", "code": "2"})', '  t {"stdout": "2"}', "   a look({}) ~Why not.",
         "    t fog", "     a Fog.", ' a code_interpreter({"code": "1"})', '  t {"stdout":1}',
         f"u {WHY}", f" a ```\n{WHY}```"],
        id="Open WebUI: siblings, HTML, output, other roles, errors",
    ),
    pytest.param(
        libre(
            bubble("q", ZERO, True, "Q", files=[{"filename": "a.png", "type": "image/png"}]),
            bubble("a", "q", False, "again", content=[{"type": "think", "think": "Hm."}, LOOKED, FOG]),
            bubble("e", "q", False, "Something went wrong.", error=True),
            bubble("q2", "e", True, "Q2", createdAt=None),
            bubble("s", "a", False, content=[{"type": "summary", "text": "S"}, {"type": "text", "text": "On."}]),
            bubble("f", "a", False, content=[{"type": "error", "error": "429"}]),
            bubble("o", "gone", True, "O"),
            bubble("t", "o", False, ":::thinking\nFar north.\n:::\n\nSnow."),
            options={"promptPrefix": "Be brief.", "model": "m"},
        ),
        ["= Be brief.", "u Q <a.png>", ' a look({"at": 1}) ~Hm.', "  t fog", "   a Fog.", "    a On.", " u Q2", "u O",
         " a Snow. ~Far north."],
        id="LibreChat: parts, errors, an orphan",
    ),
    pytest.param(
        libre({**bubble("q", ZERO, True, "Q"), "children": [bubble("a", "q", False, "A"), bubble("b", "", 0, "B")]}),
        ["u Q", " a A", " a B"],
        id="LibreChat: nested",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "lines"), ODDITIES)
def test_an_oddity_is_read_as_it_was_meant(document, lines):
    (one,) = stored(document)
    prompt = [f"= {one.session.system_prompt}"] if one.session.system_prompt else []
    assert prompt + drawn(one.session) == lines


def test_dates_that_are_null_are_the_conversations(settings):
    settings.USE_TZ = True
    first, second = stored(
        gpt(node("q", None, "user", "Q", create_time="?"), node("a", "q", "assistant", "A"), create_time=None),
        webui(row("q", None, "user", "Q", timestamp=None), timestamp=1_700_000_000_000),
    )
    times = [str(row.created_at) for one in (first, second) for row in one.session.messages.order_by("id")]
    assert times == [*["2023-11-14 22:13:20.500000+00:00"] * 2, "2023-11-14 22:13:20+00:00"]


def test_a_conversation_was_last_used_when_its_newest_message_was_written(settings):
    settings.USE_TZ = True
    nodes = [node("q", None, "user", "Q"), node("a", "q", "assistant", "A", create_time=1_600_000_000)]
    later = node("q2", "a", "user", "Q2", create_time=1_700_000_300)
    for document, moment_ in ((gpt(*nodes), "22:13:20.5"), (gpt(*nodes, later), "22:18:20")):
        (one,) = stored(document)
        one.session.refresh_from_db()
        assert str(one.session.updated_at).startswith(f"2023-11-14 {moment_}")
    chat.append_message(one.session, one.session.messages.last(), role="user", content="Now.")
    one.session.refresh_from_db()
    used = one.session.updated_at
    stored(gpt(*nodes, later, node("q3", "a", "user", "Q3", create_time=1_700_000_400)))
    one.session.refresh_from_db()
    assert one.session.updated_at == used


def test_what_is_too_large_or_refused_by_a_database_is_left_out_of_a_message(settings):
    settings.COMPACTION = {"MAX_MESSAGE_BYTES": 2_000}
    picture = {"type": "image", "name": "a.png", "url": "data:image/png;base64," + "A" * 3_000}
    (one,) = stored(webui(row("q", None, "user", "Q\x00", files=[picture], sources=[{"name": "s" * 3_000}])))
    message = one.session.messages.get()
    assert (message.content, message.attachments[0]["name"]) == ("Q\ufffd", "a.png")
    assert "url" not in message.attachments[0]


def test_a_continued_conversation_is_one_and_two_with_equal_words_are_two():
    nodes = [node("q", None, "user", "Q"), node("a", "q", "assistant", "A"), node("q2", "a", "user", "Q2")]
    (first,), (other,) = stored(gpt(*nodes[:2])), stored(gpt(*nodes[:2], conversation_id="d"))
    (again,) = stored(gpt(*nodes, node("b", "q", "assistant", "B"), node("r", None, "user", "R")))
    assert (first.session, first.session.external_id) == (again.session, "chatgpt:c") != other.session
    assert drawn(again.session) == ["u Q", " a A", "  u Q2", " a B", "u R"]
    assert (again.already_there, sum(again.notes.values())) == (True, 3)
    assert [one.session for one in stored(histories.document_of(again.session))] == [again.session]


def test_an_id_of_a_client_that_looks_like_ours_is_not_ours():
    first, second = grow(chat.start_session(), None, "u a")
    ChatMessage.objects.filter(pk=first.pk).update(external_id=f"message-{second.pk}")
    read = histories.document_of(first.session)["messages"]
    assert [(one["id"], one["parent"]) for one in read] == [
        (f"message-{second.pk}", None),
        (f"message-{second.pk}-", f"message-{second.pk}"),
    ]


def talk(text: str) -> dict[str, Any]:
    return gpt(node("q", None, "user", text), title=text, conversation_id=text)


def places(value: Any) -> Iterator[list[Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield [key]
        yield from ([key, *below] for below in places(item))


@pytest.mark.parametrize(
    "others",
    [(None,), pytest.param((7, "x", [], {}, [None], {"x": None}), marks=pytest.mark.long)],
    ids=["some", "the rest"],
)
@pytest.mark.long
def test_no_value_of_another_type_loses_a_conversation(others):
    """Whatever stands in one place of a document, the rest of it is read; else it is named."""
    known = ("mapping", "messages", "chat_messages", "conversations", "chat", "history", "conversationId")
    for case in ODDITIES:
        for way in list(places(case.values[0])):
            for other in others:
                document = copy.deepcopy(case.values[0])
                inner = document
                for key in way[:-1]:
                    inner = inner[key]
                inner[way[-1]] = other
                (read, _) = importing.read([("", document), ("", talk("the next"))], histories.READERS)
                is_named = way[-1] in known or "was read: this format has no texts under the keys" in str(read)
                assert isinstance(read, Conversation) or is_named, (case.id, way, other, str(read))


FILES = {
    "chatgpt.json": (3, 20, 5),
    "open-webui.json": (2, 12, 5),
    "librechat.json": (1, 8, 3),
    "librechat-recursive.json": (1, 7, 2),
    "claude.json": (2, 9, 3),
}


@pytest.mark.parametrize("name", FILES)
def test_the_files_made_after_the_formats_documentation(shared_data, name):
    file = shared_data.parent / "reference" / "formats" / name
    if not file.exists():
        pytest.skip(f"{file} is not here")
    told = [json.loads(run("import_chats", file, "--json")[0])["sessions"] for _ in range(2)]
    assert (len(told[0]), *(sum(one[key] for one in told[0]) for key in ("messages", "branches"))) == FILES[name]
    assert [one | {"already_there": True} for one in told[0]] == told[1]
    assert all(drawn(session) for session in ChatSession.objects.all())


@pytest.fixture
def archive(tmp_path):
    def write(entries: dict[str, Any]) -> Path:
        with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for entry, document in entries.items():
                file.writestr(entry, document if isinstance(document, str) else json.dumps(document))
        return tmp_path / "export.zip"

    return write


class TestArchives:
    def test_the_conversations_of_all_files_of_a_zip_and_of_no_other(self, archive, tmp_path):
        mine = {"../../conversations-000.json": [talk("one")], "/x/conversations-001.json": [talk("two"), {"x": 1}]}
        out, code = run("import_chats", archive({**mine, "user.json": {"id": 1}, "chat.html": "<p>", "a/b.png": "x"}))
        assert set(ChatSession.objects.values_list("title", flat=True)) == {"one", "two"}
        assert code == 1
        assert "conversations-001.json, conversation 2: the format of this object with the keys x is not" in out
        assert [path.name for path in tmp_path.rglob("*")] == ["export.zip"]
        (other := tmp_path / "conversations-2.json").write_text(json.dumps([talk("three")]))
        assert "Imported 1 conversation" in run("import_chats", tmp_path / "export.zip", other)[0]

    @pytest.mark.parametrize(
        ("limit", "value", "words"),
        [("MOST_ENTRIES", 1, "has 2 entries"), ("LARGEST_TOTAL", 500, "too many"), ("HIGHEST_RATIO", 1, "too many")],
    )
    def test_a_zip_is_bounded(self, archive, monkeypatch, limit, value, words):
        monkeypatch.setattr(files, limit, value)
        with pytest.raises(CommandError, match=words):
            run("import_chats", archive({"conversations.json": [talk("x" * 5_000)], "b.json": "[]"}))
        assert not ChatSession.objects.exists()

    def test_a_broken_zip_is_one_clear_error(self, archive):
        file = archive({"conversations.json": [talk("x" * 5_000)]})
        data = bytearray(file.read_bytes())
        data[60:80] = bytes(20)
        file.write_bytes(data)
        with pytest.raises(CommandError, match="cannot be unpacked: this zip is damaged"):
            run("import_chats", file)

    @pytest.mark.parametrize("chunk", [7, 1 << 20])
    def test_a_broken_conversation_of_a_list_and_a_file_that_is_cut_off(self, tmp_path, monkeypatch, chunk):
        """However the file is cut in pieces when it is read, a text may have brackets and quotes."""
        monkeypatch.setattr(files, "_CHUNK", chunk)
        whole = [json.dumps(talk(text)) for text in ('on}"e', "tw\\o[", "Ж" * 50, "four")]
        file = tmp_path / "conversations.json"
        broken = ['{"mapping": {]}', 'null, "]"', '{"mapping": 5}']
        file.write_text(" [" + ",\n".join([whole[0], *broken, *whole[1:]])[:-9])
        out, code = run("import_chats", file, "--json")
        assert set(ChatSession.objects.values_list("title", flat=True)) == {'on}"e', "tw\\o[", "Ж" * 50}
        refused = {one["place"].removeprefix("conversation "): one["reason"] for one in json.loads(out)["refused"]}
        assert list(refused) == ["2", "3", "4", "5", "8"]
        assert "this is not JSON" in refused["2"]
        assert refused["8"] == "this is not JSON: the file ends inside of it."
        assert code == 1

    def test_a_nested_export_may_be_deep(self, tmp_path):
        file = tmp_path / "chat.json"
        opened = "".join(json.dumps({**bubble(str(n), None, True, "x"), "children": []})[:-2] for n in range(600))
        file.write_text(f'{{"conversationId": "c", "messages": [{opened}{"]}" * 600}]}}')
        assert "Imported 1 conversation with 600 messages." in run("import_chats", file)[0]

    @pytest.mark.long
    @pytest.mark.django_db(transaction=True)
    def test_an_archive_larger_than_the_memory_that_is_used(self, tmp_path):
        """The memory does not grow with the file. The benchmarks' page has such figures."""
        text = "The tide comes in at four, and the Ada lies at berth three. " * 140
        file = tmp_path / "conversations.json"
        with file.open("w") as out:
            for n in range(200):
                turns = [
                    node(f"{n}-{i}", f"{n}-{i - 1}", ("user", "assistant")[i % 2], f"{i} {text}") for i in range(200)
                ]
                out.write(("," if n else "[") + json.dumps(gpt(*turns)))
            out.write("]")
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings", "DATABASE_URL": live_database_url()}
        # A process begins with the peak of the one that it was forked from, so a small one starts it.
        small = "import resource as r, subprocess as s, sys; s.run(sys.argv[1:], check=True, stdout=s.DEVNULL); "
        small += "used = r.getrusage(r.RUSAGE_CHILDREN); print(int(used.ru_utime + used.ru_stime), used.ru_maxrss)"
        command = [sys.executable, "-S", "-c", small, sys.executable, "manage.py", "import_chats", str(file)]
        run = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.PIPE)
        seconds, kilobytes = map(int, run.stdout.split())
        print(f"{file.stat().st_size >> 20} MiB: {seconds} s, {kilobytes >> 10} MiB")  # noqa: T201
        assert ChatMessage.objects.count() == 40_000
        assert kilobytes << 10 < file.stat().st_size


@pytest.mark.parametrize("form", histories.WRITERS)
def test_what_is_exported_comes_back_with_its_branches_roles_dates_calls_and_files(form, tmp_path):
    ada, bob = (get_user_model().objects.create_user(name) for name in ("ada", "bob"))
    session = chat.start_session(owner=ada, title="Tide", model="m", system_prompt="Be brief.")
    looks = [{"name": "look", "arguments": f'{{"at": {n}}}'} for n in (1, 2)]
    calls = [{"id": f"c{n}", "type": "function", "function": look} for n, look in enumerate(looks, start=1)]
    image = {"type": "image", "name": "a.png", "mime_type": "image/png", "url": "https://example.org/a.png"}
    minutes = iter(range(60))

    def one(role: str, content: str = "", **more: Any) -> dict[str, Any]:
        at = read_moment(f"2026-03-02T08:{next(minutes):02}:00.250000+00:00")
        return {"role": role, "content": content, "created_at": at, **more}

    def result(of: int, content: str, **more: Any) -> dict[str, Any]:
        return one("tool", content, tool_call_id=f"c{of}", **more)

    turn = [one("user", "Q", attachments=[image]), one("assistant", "So.", tool_calls=calls)]
    turn += [result(1, "1"), result(2, "2", name="look"), one("assistant", "Fog.", model="m-1")]
    question, asked, *_, reply = chat.append_messages(session, None, turn)
    turn = [
        one("user", "Again"),
        one("assistant", tool_calls=calls, reasoning="Hm."),
        result(1, "", attachments=[image]),
    ]
    turn += [result(2, "2"), one("assistant", tool_calls=calls[:1]), result(1, "1"), one("assistant", "Fog.")]
    chat.append_messages(session, None, turn)
    chat.append_messages(session, asked, [result(2, "other")])
    chat.append_messages(session, question, [one("assistant", tool_calls=calls[:1])])
    chat.append_messages(session, reply, [one("system", "In French."), one("assistant")])
    chat.redact_message(chat.append_message(session, role="user", content="a secret"))
    about = {"session": session, "kind": "summary", "role": "user", "last_summarized_message": question}
    ChatMessage.objects.add_child(reply, instance=ChatMessage(content="S", **about))
    chat.append_message(chat.start_session(owner=bob), role="user", content="Not Ada's")
    file = tmp_path / "out.json"
    assert run("export_chats", "--owner", "ada", "--format", form, "--out", file) == ("", 0)
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export_chats", "--session", session.pk, "--format", form)[0] == file.read_text()
    assert "Already imported: 1 conversation." in run("import_chats", file, "--owner", "ada")[0]
    assert "a secret" not in file.read_text()
    with pytest.raises(CommandError, match="cannot be written"):
        run("export_chats", "--out", file)
    assert run("import_chats", file, "--owner", "bob")[1] == 0
    again = ChatSession.objects.get(owner=bob, title="Tide")

    def rows(of: ChatSession) -> list[Any]:
        chosen = of.messages.filter(kind="message").order_by("id")
        about = ("role", "content", "tool_call_id", "tool_calls", "created_at", "attachments", "model", "metadata")
        return sorted(str([bool(row.redacted_at), *(getattr(row, key) for key in about)]) for row in chosen)

    assert verify_session(again).problems == []
    assert sorted(drawn(again)) == sorted(drawn(session))
    assert rows(again) == rows(session)
    assert (again.system_prompt, again.model, again.created_at) == ("Be brief.", "m", session.created_at)
