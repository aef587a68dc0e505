"""Whatever a file holds is stored, counted by its key in the report, or refused by name; and the rest is imported."""

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import serializers
from django.core.management import CommandError, call_command

from compaction_app import chat
from compaction_app.contrib import histories
from compaction_app.contrib.histories import files
from compaction_app.models import ChatSession, MessagePin
from compaction_app.transfer import importing
from tests.contrib.test_histories import (
    ATTACHED,
    HIDDEN,
    ODDITIES,
    PHOTO,
    THOUGHTS,
    block,
    bubble,
    claude,
    deepseek,
    drawn,
    gpt,
    libre,
    node,
    parts,
    row,
    said,
    stored,
    talk,
    webui,
)
from tests.some import some
from tests.transfer.bundling import run

pytestmark = pytest.mark.django_db


def imported(*documents: Any) -> list[Any]:
    found = importing.read(((f"conversation {n}", one) for n, one in enumerate(documents, start=1)), histories.READERS)
    return list(importing.store(found))


# -- look-alikes ------------------------------------------------------------------------------------------


def asked(own: str, **more: Any) -> dict[str, Any]:
    return {"id": own, "role": "user", "createdAt": "2026-01-01T10:00:00Z", **more}


LOOKALIKES: list[Any] = [
    pytest.param(deepseek(("q", None, {"kind": "REQUEST", "body": "Q"})), "body", id="like DeepSeek"),
    pytest.param(
        webui(
            row("q", None, "user", "Q"),
            row("a", "q", "assistant", "", content_items=[{"content": "A", "phase": "answer"}]),
        ),
        "content_items",
        id="like Qwen: only the replies",
    ),
    pytest.param({"id": "c", "messages": [asked("1", contentParts=[block("Q")])]}, "contentParts", id="Chatbox"),
    pytest.param({"id": "c", "messages": [asked("1", fragments=[{"part": {"text": "Q"}}])]}, "fragments", id="big-AGI"),
    pytest.param([asked("1", parts=[block("Q")])], "parts", id="UI messages"),
    pytest.param(
        {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "text": "A"}]}, "text", id="text"
    ),
    pytest.param(
        {"uuid": "c", "chat_messages": [{"uuid": "1", "sender": "human", "body": "Q"}]}, "body", id="like Claude"
    ),
    pytest.param(libre({"messageId": "1", "isCreatedByUser": True, "markdown": "Q"}), "markdown", id="like LibreChat"),
    pytest.param({"prompt": {"role": "prompter", "said": "Q"}}, "said", id="like Open-Assistant"),
    pytest.param(
        gpt(node("q", None, "user", "Q"), node("a", "q", "assistant", {"content_type": "text_v2", "body": "A"})),
        "body",
        id="a ChatGPT of another year: only the replies",
    ),
]


@pytest.mark.parametrize(("document", "key"), LOOKALIKES)
def test_what_only_looks_like_a_format_is_refused_by_its_keys(document, key, tmp_path):
    """It was "conversations without a message, left out", with exit code 0, and its id was taken."""
    (file := tmp_path / "chats.json").write_text(
        "\n".join(map(json.dumps, (talk("the first"), document, talk("the last"))))
    )
    out, code = run("import_chats", file)
    assert ("line 2" in out, f"under the keys {key}." in out, code) == (True, True, 1)
    assert set(ChatSession.objects.values_list("title", flat=True)) == {"the first", "the last"}


def test_a_form_that_is_not_read_is_refused_with_what_to_write(tmp_path):
    """ShareGPT's, which sets for training have."""
    sharegpt = {"conversations": [{"from": "human", "value": "Q"}]}
    (file := tmp_path / "set.json").write_text(json.dumps(sharegpt))
    with pytest.raises(CommandError, match=r"keys conversations is not recognized: write .* under the key messages"):
        run("import_chats", file)
    file.write_text(json.dumps([talk("the first"), sharegpt]))
    out, code = run("import_chats", file)
    assert ("conversation 2: the format of this object with the keys conversations" in out, code) == (True, 1)


@pytest.mark.parametrize(
    "document",
    [
        claude(said("q", "human", block("Q")), said("a", "assistant", parent="q", updated_at="2026-01-01T00:00:00Z")),
        gpt(node("q", None, "user", "Q"), node("a", "q", "assistant", "", metadata={"finish_details": {"why": "x"}})),
        webui(row("q", None, "user", "Q"), row("a", "q", "assistant", "", modelName="GPT", done=True)),
        {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "error": "it is busy"}]},
    ],
    ids=["Claude", "ChatGPT", "Open WebUI", "OpenAI"],
)  # fmt: skip
def test_a_reply_that_never_came_is_no_other_format(document):
    (one,) = stored(document)
    assert drawn(one.session)[0] == "u Q"


# -- everything is stored, or counted ---------------------------------------------------------------------

#: What says how a document is read, and not what it says.
STRUCTURE = frozenset(
    "id uuid parent parentId parent_id parentMessageId parent_message_uuid messageId conversationId conversation_id"
    " role sender from type content_type recipient children childrenIds created_at createdAt create_time timestamp"
    " call_id message_type kind tool_use_id".split()
)


def marked(value: Any, key: str, made: list[tuple[str, str]]) -> Any:
    if isinstance(value, dict):
        found = {name: marked(item, name, made) for name, item in value.items()}
        return found | ({"unknownKey": marked("x", "unknownKey", made)} if key not in ("mapping", "arguments") else {})
    if isinstance(value, list):
        return [marked(item, key, made) for item in value]
    if isinstance(value, str) and value and key not in STRUCTURE:
        made.append((key, f"{value} marker{len(made)}x"))
        return made[-1][1]
    return value


def kinds(key: str) -> Iterator[str]:
    yield from (f"not stored: {key}", "hidden and system messages, bridged", "messages of other roles, bridged")
    yield from ("what is beside the text of a system prompt, left out", "thoughts without a reply, left out")
    yield from ("errors of the provider, bridged", "marks of citations, cut out", "other forms of a message, left out")


BESIDE_ANOTHER = [
    (claude(said("a", "assistant", {"type": "thinking", "thinking": "Hm.", "summaries": [{"summary": "S"}]})), ""),
    (gpt(node("q", None, "user", parts(["in a list"], "Q"))), ""),
    (libre({"messageId": "1", "isCreatedByUser": True, "files": [{"file_id": "f", "filepath": "/a.png"}]}), ""),
]


@pytest.mark.parametrize(("document", "_lines"), [*ODDITIES, *BESIDE_ANOTHER])
def test_each_string_is_stored_or_counted_by_its_key(document, _lines):
    made: list[tuple[str, str]] = []
    document = marked(copy.deepcopy(document), "mapping", made)
    (one,) = [found for found in imported(document) if isinstance(found, importing.Imported)]
    kept = serializers.serialize("json", [one.session, *one.session.messages.all()], ensure_ascii=False)
    lost = [(key, text) for key, text in made if text.split()[-1] not in kept]
    assert [(key, text) for key, text in lost if not any(one.notes[kind] for kind in kinds(key))] == []


def test_pictures_and_search_results_of_chatgpt_are_stored_unless_they_are_hidden():
    """What ChatGPT made itself has the weight 0 in its exports."""
    (one,) = stored(
        gpt(
            node("q", None, "user", "A cat?"),
            node("c", "q", "assistant", {"content_type": "code", "text": "{}"}, recipient="draw"),
            node("p", "c", "tool", parts(PHOTO), name="draw", weight=0.0, metadata=ATTACHED),
            node(
                "s",
                "p",
                "tool",
                {"content_type": "tether_quote", "text": "T", "url": "https://e.org/a"},
                name="web",
                weight=0,
            ),
            node("h", "s", "tool", "hidden", name="web", metadata=HIDDEN),
        )
    )
    assert drawn(one.session) == ["u A cat?", " a draw({})", "  t <roof.jpg> <plan.pdf>", "   a web({})", "    t T"]
    picture, plan = one.session.messages.get(external_id="p").attachments
    assert (picture["asset_id"], plan["asset_id"]) == ("file-service://file-1", "plan.pdf")
    assert one.session.messages.get(external_id="s").metadata == {"url": "https://e.org/a"}


def test_a_thought_is_of_the_first_reply_below_it_and_is_counted_without_one():
    replies = [node("a", "t", "assistant", "A"), node("b", "t", "assistant", "B")]
    alone = node("u", "q", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "Alone."}]})
    (one,) = stored(gpt(node("q", None, "user", "Q"), node("t", "q", "assistant", THOUGHTS), *replies, alone))
    assert drawn(one.session) == ["u Q", " a A ~Hm.\n\nAha.", " a B"]
    assert one.notes["thoughts without a reply, left out"] == 1


def test_the_summary_that_claude_wrote_of_a_conversation_is_kept():
    (one,) = stored({**claude(said("q", "human", block("Q"))), "summary": "About tides."})
    assert one.session.metadata["claude"]["summary"] == "About tides."


# -- one value ends one conversation ----------------------------------------------------------------------

ODD = [
    "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "1" + "0" * 400, "-" + "9" * 4_000, "1" * 5_000, "-1", "1e308",
    '"0000-01-01T00:00:00Z"', '"99999-01-01"', '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"',
    '"2026-01-01T00:00:00+99:99"', "true", "{}", '{"a": {"b": 1}}', "[[]]", '"\\ud800"', '"\\u0000"', '""',
    '"' + "x" * 5_000 + '"', '"\u0663"', "[" * 120 + "]" * 120, '{"__proto__": 1, "": 2}', '{"a": 1, "a": 2}',
]  # fmt: skip

ONE_OF_EACH: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "ChatGPT": (talk("bad"), [("title",), ("conversation_id",), ("create_time",), ("mapping", "q", "parent"),
        ("mapping", "q", "children"), ("mapping", "q", "message", "create_time"), ("mapping", "q", "message", "weight"),
        ("mapping", "q", "message", "author"), ("mapping", "q", "message", "metadata"), ("more",)]),
    "Claude": (claude(said("q", "human", block("bad"))), [("name",), ("uuid",), ("created_at",),
        ("chat_messages", 0, "uuid"), ("chat_messages", 0, "created_at"), ("chat_messages", 0, "sender"),
        ("chat_messages", 0, "content", 0, "citations"), ("chat_messages", 0, "parent_message_uuid")]),
    "Open WebUI": (webui(row("q", None, "user", "bad")), [("id",), ("title",), ("created_at",), ("chat", "models"),
        ("chat", "history", "currentId"), ("chat", "history", "messages", "q", "timestamp"), ("chat", "messages"),
        ("chat", "history", "messages", "q", "parentId"), ("chat", "history", "messages", "q", "usage"),
        ("chat", "history", "messages", "q", "role")]),
    "LibreChat": (libre(bubble("q", None, True, "bad")), [("title",), ("conversationId",), ("createdAt",), ("options",),
        ("messages", 0, "messageId"), ("messages", 0, "createdAt"), ("messages", 0, "role"), ("messages", 0, "files"),
        ("messages", 0, "parentMessageId")]),
    "Open-Assistant": ({"message_tree_id": "o", "prompt": {"text": "bad", "role": "prompter", "message_id": "q"}},
        [("message_tree_id",), ("prompt", "message_id"), ("prompt", "created_date"), ("prompt", "role"),
         ("prompt", "replies"), ("prompt", "rank")]),
    "OpenAI": ({"id": "o", "messages": [{"role": "user", "content": "bad", "id": "q"}]}, [("id",), ("title",),
        ("model",),
        ("created_at",), ("metadata",), ("settings",), ("external_id",), ("messages", 0, "id"), ("messages", 0, "role"),
        ("messages", 0, "created_at"), ("messages", 0, "parent"), ("messages", 0, "usage"), ("messages", 0, "pinned"),
        ("messages", 0, "name"), ("messages", 0, "redacted_at"), ("messages", 0, "metadata"), ("tools",)]),
}  # fmt: skip


@pytest.mark.parametrize("product", some(ONE_OF_EACH, "ChatGPT"))
def test_no_value_ends_more_than_its_own_conversation(product, tmp_path):
    """``"created_at": 10**400`` was an ``OverflowError``, and the chats behind it were not read."""
    document, ways = ONE_OF_EACH[product]
    lines = []
    for way in ways:
        inner = whole = copy.deepcopy(document)
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = "PLACE"
        lines += [json.dumps(whole).replace('"PLACE"', value) for value in ODD]
    (file := tmp_path / "chats.jsonl").write_text("\n".join([*lines, json.dumps(talk("the last"))]), encoding="utf-8")
    outcomes = list(importing.store(histories.read(file)))
    assert len(outcomes) == len(lines) + 1
    assert outcomes[-1].session.title == "the last"
    refused = [one for one in outcomes if isinstance(one, importing.Refused)]
    assert all(one.place and one.reason for one in refused)
    assert {one.reason for one in refused if "is not in the form of its format (" in one.reason} == set()
    assert any("the key 'a' is there twice" in one.reason for one in refused)


def test_a_fault_of_a_reader_ends_one_conversation_and_is_named_without_its_text(monkeypatch, tmp_path, caplog):
    def fail(given: Any) -> Any:
        raise ZeroDivisionError(given["chat_messages"][0]["text"])

    monkeypatch.setattr(histories, "READERS", (fail_for_claude(fail), *histories.READERS))
    bad = claude(said("q", "human", text="a secret"))
    (file := tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, (talk("first"), bad, talk("last")))))
    out, code = run("import_chats", file)
    assert "line 2 “T”: it is not in the form of its format (ZeroDivisionError at test_what_an_import_says.py:" in out
    assert (code, ChatSession.objects.count()) == (1, 2)
    assert "error=ZeroDivisionError" in caplog.text
    assert "a secret" not in caplog.text


def fail_for_claude(fail: Any) -> Any:
    return lambda given: fail(given) if "chat_messages" in given else None


@pytest.mark.parametrize("form", ["list", "lines", "text"])
def test_a_conversation_that_is_too_large_is_named_and_the_next_ones_are_read(form, monkeypatch, tmp_path):
    """``[[[[]]]],`` costs fifty times its size in memory: values are counted before anything is made of them."""
    monkeypatch.setattr(files, "LARGEST", 20_000)
    monkeypatch.setattr(files, "MOST_VALUES", 2_000)
    monkeypatch.setattr(files, "_CHUNK", 1_000)
    deep = f'{{"messages": [], "x": [{"[[[[]]]]," * 600}0]}}'
    long = json.dumps({"messages": [{"role": "user", "content": 'x"[' * 10_000}]})
    many = json.dumps({"messages": [{"role": "user", "content": "one, two, three [and] four, " * 500}]})
    documents = [json.dumps(talk("one")), deep, long, many, json.dumps(talk("last"))]
    text = f"[{','.join(documents)}]" if form == "list" else "\n".join(documents)
    if form == "text":
        text = json.dumps({"messages": [{"role": "user", "content": "x"}] * 700}, indent=1)
    (file := tmp_path / "chats.json").write_text(text)
    if form == "text":
        with pytest.raises(CommandError, match="which no conversation has"):
            run("import_chats", file)
        return
    out, code = run("import_chats", file, "--json")
    refused = json.loads(out)["refused"]
    assert [one["place"].split()[-1] for one in refused] == ["2", "3"]
    assert all("which no conversation has" in one["reason"] for one in refused)
    assert (code, ChatSession.objects.count()) == (1, 3)


# -- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", histories.WRITERS)
def test_pins_settings_redactions_and_roles_come_back(form, tmp_path):
    ada, bob = (get_user_model().objects.create_user(name) for name in ("ada", "bob"))
    session = chat.start_session(owner=ada, title="T", settings={"CONTEXT_WINDOW": 3_000})
    first = chat.append_message(session, role="user", content="Q")
    note = chat.append_message(session, first, role="developer", content="A note.")
    secret = chat.append_message(session, note, role="user", content="a secret")
    chat.pin_message(first)
    redacted = chat.redact_message(secret)
    run("export_chats", "--format", form, "--out", file := tmp_path / "out.json")
    out, code = run("import_chats", file, "--owner", "bob", "--json")
    assert (code, [note for note in json.loads(out)["notes"] if "left out" in note]) == (0, [])
    again = ChatSession.objects.get(owner=bob)
    rows = [(one.role, one.content, one.redacted_at) for one in again.messages.order_by("pk")]
    assert rows == [
        ("user", "Q", None),
        ("developer", "A note.", None),
        ("user", redacted.content, redacted.redacted_at),
    ]
    assert MessagePin.objects.get(session=again).message.content == "Q"
    assert (again.settings, again.title) == ({"CONTEXT_WINDOW": 3_000}, "T")


def test_an_export_that_breaks_off_leaves_no_file(monkeypatch, tmp_path):
    for title in ("one", "two"):
        chat.append_message(chat.start_session(title=title), role="user", content="Q")
    made = histories.document_of
    called: list[Any] = []

    def fail_later(session: ChatSession) -> Any:
        called.append(session)
        if len(called) == 2:
            raise KeyboardInterrupt
        return made(session)

    monkeypatch.setattr("compaction_app.contrib.histories.document_of", fail_later)
    with pytest.raises(KeyboardInterrupt):
        call_command("export_chats", out=Path(tmp_path, "out.json"), stdout=io.StringIO())
    assert list(tmp_path.iterdir()) == []
