"""``import_chats``: what is read, how it is joined, and that a conversation comes in whole or not at all."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from compaction_app import chat
from compaction_app.contrib import histories
from compaction_app.exceptions import ImportFailed
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.transfer import importing
from compaction_app.tree.verify import verify_session
from project.demo.loading import read_conversations
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.django_db


def run(*arguments: Any) -> str:
    out = io.StringIO()
    call_command("import_chats", *map(str, arguments), stdout=out)
    return out.getvalue()


def import_file(file: Path, *, join: bool = False, **options: Any) -> list[Any]:
    found = list(importing.store(read_conversations(file, join=True) if join else histories.read(file), **options))
    if refused := next((one for one in found if isinstance(one, importing.Refused)), None):
        raise ImportFailed(str(refused))
    return found


def imported(file: Path, **options: Any) -> ChatSession:
    (one,) = import_file(file, **options)
    return one.session


def texts(session: ChatSession) -> list[tuple[str | None, str]]:
    """Each message's text with its parent's, in the order of storing."""
    rows = ChatMessage.objects.filter(session=session).order_by("id")
    return [(row.parent.content if row.parent else None, row.content) for row in rows.select_related("parent")]


@pytest.fixture
def json_file(tmp_path):
    def write(document: Any, name: str = "chat.json") -> Path:
        file = tmp_path / name
        file.write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
        return file

    return write


@pytest.fixture
def lines_file(json_file):
    def write(*documents: Any) -> Path:
        lines = (document if isinstance(document, str) else json.dumps(document) for document in documents)
        return json_file("\n".join(lines) + "\n", "trees.jsonl")

    return write


def user(text: Any = "q", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def assistant(text: str = "a", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def system(text: str = "Be brief.", **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": text, **more}


def linked(*told: str) -> list[dict[str, Any]]:
    """``"a 2 1"``: a text, its id and its parent's. Without the last it follows the one before; "-" is no parent."""
    found = (dict(zip(("content", "id", "parent"), one.split(), strict=False)) for one in told)
    return [{"role": "user", **one, **({"parent": None} if one.get("parent") == "-" else {})} for one in found]


def reply(text: str, *replies: dict[str, Any], role: str = "assistant", rank: Any = None) -> dict[str, Any]:
    return {"message_id": text, "text": text, "role": role, "rank": rank, "replies": list(replies)}


def tree(text: str, *replies: dict[str, Any]) -> dict[str, Any]:
    return {"message_tree_id": text, "prompt": reply(text, *replies, role="prompter")}


class TestOpenAssistantTrees:
    def test_each_tree_becomes_a_conversation_with_its_forks_in_the_order_of_the_file(self, lines_file):
        file = lines_file(tree("q1", reply("a1", reply("q2", role="prompter")), reply("a2")), tree("other", reply("b")))
        first, second = import_file(file)
        assert texts(first.session) == [(None, "q1"), ("q1", "a1"), ("a1", "q2"), ("q1", "a2")]
        assert texts(second.session) == [(None, "other"), ("other", "b")]
        assert (first.messages, first.tips, second.messages, second.tips) == (4, 2, 2, 1)
        assert [m.content for m in chat.variants(ChatMessage.objects.get(content="a2"))] == ["a1", "a2"]

    def test_prompters_are_users_and_nothing_of_a_message_is_lost(self, lines_file):
        prompt = tree("q")["prompt"] | {"lang": "en", "synthetic": True, "model_name": "m", "rank": 3}
        session = imported(lines_file({"prompt": prompt | {"created_date": "2023-02-05T14:23:51.983374+00:00"}}))
        message = ChatMessage.objects.get(session=session)
        assert (message.role, message.model, message.external_id) == ("user", "m", "q")
        assert message.metadata == {"lang": "en", "synthetic": True, "rank": 3}
        assert message.created_at.isoformat() == "2023-02-05T14:23:51.983374+00:00"
        assert session.title == "q"

    def test_join_goes_on_under_the_best_leaf_of_the_tree_before(self, lines_file):
        """The lowest rank at every level, unranked ones last, ties by the order of the file."""
        file = lines_file(
            tree("one", reply("no rank"), reply("rank 2", rank=2), reply("rank 0", reply("x"), reply("y"), rank=0)),
            tree("two", reply("first", rank=1), reply("same", rank=1)),
            tree("three"),
        )
        session = imported(file, join=True)
        parents = {text: parent for parent, text in texts(session)}
        assert (parents["two"], parents["three"]) == ("x", "first")
        assert ChatSession.objects.count() == 1


class TestOpenAIFormat:
    def test_a_history_with_tool_calls(self, json_file):
        calls = [
            {"id": number, "type": "function", "function": {"name": "look", "arguments": {"path": "é"}}}
            for number in ("c1", "c2")
        ]
        messages = [
            system(),
            user("Look."),
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "second"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "first", "name": "look"},
            assistant("Done.", refusal=None, weight=1),
        ]
        session = imported(json_file({"title": "A look", "model": "gpt-x", "messages": messages}))
        assert (session.title, session.model, session.system_prompt) == ("A look", "gpt-x", "Be brief.")
        rows = list(ChatMessage.objects.filter(session=session).order_by("id"))
        assert [row.role for row in rows] == ["user", "assistant", "tool", "tool", "assistant"]
        assert rows[1].tool_calls[1]["function"]["arguments"] == '{"path": "é"}'
        assert (rows[2].content, rows[3].name) == ("second", "look")
        assert rows[4].metadata == {"weight": 1}

    @pytest.mark.parametrize(
        ("document", "stored"),
        [
            (linked("q 1 -", "a 2 1", "on 3 2", "b 4 1", "next 5", "early 6 7", "root 7 -"),
             {"q": None, "a": "q", "on": "a", "b": "q", "next": "b", "early": "root", "root": None}),
            # As Anthropic's API has it; it was left out in silence.
            ({"system": [{"type": "text", "text": "Be brief."}], "messages": [user()]}, {"q": None}),
            ({"systemPrompt": "Be brief.", "messages": [user(), system("In French.")]}, {"q": None, "In French.": "q"}),
            ([system(id="s1"), *linked("q1 q1 s1"), system(id="s2", parent=None), *linked("q2 q2 s2"),
              system("Be long.", id="s3", parent=None)],
             {"q1": None, "q2": None, "Be long.": None}),
        ],
        ids=["ids and parents", "a prompt beside", "a later system message", "trees with a prompt each"],
    )  # fmt: skip
    def test_it_is_stored_as_a_tree_with_one_prompt(self, json_file, document, stored):
        session = imported(json_file(document))
        assert dict(map(reversed, texts(session))) == stored
        assert session.system_prompt == ("Be brief." if "Be brief." in str(document) else "")

    @pytest.mark.parametrize(
        ("own", "parent"), [("id", "parentId"), ("messageId", "parentMessageId"), ("message_id", "parent_message_id")]
    )
    def test_a_tree_is_one_whatever_its_keys_are_called(self, json_file, own, parent):
        """CherryHQ/cherry-studio#16164: it became one line, in which both answers followed each other."""
        messages = [
            user("q", **{own: "q", parent: None}),
            assistant("a", **{own: 1, parent: "q", "askId": "q"}),
            assistant("b", **{own: 2, parent: "q"}),
            user("on", **{own: 3, parent: "1"}),
        ]
        session = imported(json_file({"messages": messages}))
        assert texts(session) == [(None, "q"), ("q", "a"), ("q", "b"), ("a", "on")]
        message = ChatMessage.objects.get(content="a")
        assert (message.external_id, message.metadata) == ("1", {"askId": "q"})

    @pytest.mark.parametrize(("shown", "newest"), [(None, "later"), ("e", "early"), ("gone", "later")])
    def test_the_newest_row_is_where_people_went_on(self, json_file, shown, newest):
        """A fork of the third of March stood last in the file, and was opened though people went on at another."""
        messages = [
            user("q", id="q", parent=None, created_at="2026-03-01"),
            assistant("a", id="a", parent="q", created_at="2026-03-01"),
            user("later", id="l", parent="a", created_at="2026-03-14"),
            user("early", id="e", parent="a", created_at="2026-03-03"),
        ]
        session = imported(json_file({"messages": messages, "shown": shown}))
        assert texts(session)[-1] == ("a", newest)

    def test_what_other_clients_wrote_is_read_as_in_append_messages(self, json_file):
        results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"reef {n}"} for n in (1, 2)]
        asked = [{"type": "tool_use", "id": f"t{n}", "name": "look", "input": {}} for n in (1, 2)]
        messages = [
            user("q", id="1", parent=None),
            {"role": "assistant", "content": asked, "id": "2", "parent": "1"},
            {"role": "user", "content": results, "id": "3", "parent": "2"},
            assistant("Reefs.", id="4", parent="3", reasoning_content="Hm."),
            assistant("Again.", id="5", parent="1"),
            user("old", id="6", parent="5"),
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "a reef"},
        ]
        session = imported(json_file(messages))
        found = [("", "reef 1"), ("reef 1", "reef 2"), ("reef 2", "Reefs.")]
        found += [("q", "Again."), ("Again.", "old"), ("", "a reef")]
        assert [text for text in texts(session) if text[1] not in ("q", "")] == found
        reply = ChatMessage.objects.get(content="Reefs.")
        assert (reply.reasoning, reply.parent.external_id) == ("Hm.", "3")
        assert verify_session(session).problems == []

    def test_times_are_iso_or_seconds(self, json_file):
        messages = [
            user(created_at="2026-03-02T09:19:03+01:00"),
            assistant(created_at=1772439543),
            user(created_at="2026-03-02T09:19:03"),
        ]
        session = imported(json_file({"created_at": "2026-03-02T08:00:00Z", "messages": messages}))
        times = [m.created_at.isoformat() for m in ChatMessage.objects.filter(session=session).order_by("id")]
        assert times == ["2026-03-02T08:19:03+00:00"] * 2 + ["2026-03-02T09:19:03+00:00"]
        assert session.created_at.isoformat() == "2026-03-02T08:00:00+00:00"

    @pytest.mark.long
    def test_a_long_chain_and_a_wide_fork_need_no_recursion(self, json_file):
        chain = [user(f"{n}", id=n) for n in range(1100)]
        wide = [assistant(f"w{n}", parent=0) for n in range(30)]
        one = import_file(json_file({"messages": chain + wide}))[0]
        assert (one.messages, one.tips) == (1130, 31)
        assert ChatMessage.objects.order_by("-depth").first().depth == 1100
        variants = chat.variants(ChatMessage.objects.get(content="w0"))
        assert [v.content for v in variants] == ["1", *(f"w{n}" for n in range(30))]


BROKEN: list[Any] = [
    pytest.param('{"messages": [\n  {"role": "user",\n   "content": "q"\n', "line 4: this is not JSON", id="cut off"),
    pytest.param([], "it contains no conversation", id="no conversations"),
    pytest.param({"messages": []}, "it contains no message", id="no messages"),
    pytest.param({"chats": 1}, "with the keys chats is not recognized", id="another object"),
    pytest.param(
        {"messages": [user(), 7]}, "message 2: a message must be an object, not number", id="a message that is none"
    ),
    pytest.param([user(), user(7)], "message 2: content must be a string or a list", id="content"),
    pytest.param([user(created_at="yesterday")], "message 1: 'yesterday' is not a time", id="time"),
    pytest.param([user(), user("a\x00b")], "message 2: content contains a NUL", id="refused by append_messages"),
]

BROKEN_LINES: list[Any] = [
    pytest.param([{"prompt": {"text": "q", "role": "robot"}}], "line 2: message 1: Unknown role 'robot'", id="role"),
    pytest.param(
        ["", {"title": "Reef", "messages": [user(), user(7)]}], "line 3 “Reef”: message 2: content", id="named"
    ),
]


class TestBrokenFiles:
    @pytest.mark.parametrize(("document", "words"), BROKEN)
    def test_the_place_is_named_and_nothing_is_written(self, json_file, document, words):
        with pytest.raises(ImportFailed, match=words):
            import_file(json_file(document))
        assert not ChatSession.objects.exists()

    @pytest.mark.parametrize(("documents", "words"), BROKEN_LINES)
    def test_a_bad_conversation_is_named_and_the_others_are_there(self, lines_file, documents, words):
        with pytest.raises(ImportFailed, match=words):
            import_file(lines_file(tree("a good one"), *documents, tree("another")))
        assert set(ChatSession.objects.values_list("title", flat=True)) == {"a good one", "another"}

    def test_a_file_that_is_no_utf8_names_the_line(self, tmp_path):
        file = tmp_path / "latin.jsonl"
        file.write_bytes(json.dumps(tree("q")).encode() + b'\n{"prompt": "caf\xe9"}\n')
        with pytest.raises(ImportFailed, match="line 2: this cannot be read: 'utf-8' codec"):
            import_file(file)

    def test_what_is_wrong_with_a_tree_is_mended_and_noted(self, json_file):
        messages = [
            user("q", id="q", parent="nowhere"),
            {"role": "tool", "content": "r", "tool_call_id": "c", "name": "look", "id": "r", "parent": "q"},
            user("x", id="x", parent="y"),
            user("y", id="y", parent="x"),
            assistant("again", id="y", parent="y"),
        ]
        (one,) = import_file(json_file({"messages": messages, "created_at": "2026-03-02T08:00:00Z"}))
        said = "[result of a tool call: look c]\n> r"
        assert texts(one.session) == [(None, "q"), ("q", said), (None, "x"), ("x", "y"), ("y", "again")]
        assert sorted(one.notes.values()) == [1, 1, 1, 1]
        assert verify_session(one.session).problems == []
        assert not ChatMessage.objects.exclude(created_at="2026-03-02T08:00:00Z").exists()

    def test_what_fails_while_storing_is_taken_back_with_its_conversation_alone(self, lines_file, monkeypatch):
        file = lines_file(tree("two"), tree("one", reply("a"), reply("b")))
        append, calls = chat.append_messages, []

        def fail_later(*arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == 3:
                raise ConnectionError("the database is gone")
            return append(*arguments, **options)

        monkeypatch.setattr(chat, "append_messages", fail_later)
        with pytest.raises(ConnectionError):
            import_file(file)
        assert ChatMessage.objects.get().content == ChatSession.objects.get().title == "two"
        monkeypatch.undo()
        assert [one.already_there for one in import_file(file)] == [True, False]

    def test_a_byte_order_mark_and_line_separators_in_texts_do_no_harm(self, tmp_path):
        file = tmp_path / "marked.jsonl"
        lines = [json.dumps(tree(text), ensure_ascii=False) for text in ("a\u2028b", "c")]
        file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
        assert [one.session.title for one in import_file(file)] == ["a b", "c"]


class TestCommand:
    def test_a_second_import_of_an_owner_finds_the_first(self, lines_file):
        ada = get_user_model().objects.create_user("ada")
        file = lines_file(tree("one"), tree("two"))
        assert "Imported 2 conversations with 2 messages." in run(file, "--owner", "ada")
        assert "Already imported: 2 conversations" in run(file, "--owner", "ada")
        assert set(ChatSession.objects.filter(owner=ada).values_list("title", flat=True)) == {"one", "two"}
        (told, _) = json.loads(run(file, "--json"))["sessions"]
        session = ChatSession.objects.get(owner=None, title="one")
        expected = {"id": str(session.pk), "title": "one", "external_id": session.external_id, "messages": 1}
        assert told == {**expected, "branches": 1, "already_there": False}, "another owner's is another import"

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [(["nowhere.json"], 2), ([str(REPOSITORY / "docs")], 1), ([__file__], 1), ([__file__, "--owner", "nobody"], 2)],
        ids=["no file", "a folder without conversations", "no JSON", "no such user"],
    )
    def test_exit_codes_tell_a_wrong_call_from_a_broken_file(self, arguments, code):
        with pytest.raises(CommandError) as caught:
            run(*arguments)
        assert caught.value.returncode == code

    def test_a_title_can_not_steer_the_terminal(self, json_file):
        out = run(json_file({"title": "\x1b[31mred", "messages": [user()]}))
        assert "\x1b" not in out
