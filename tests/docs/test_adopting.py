"""docs/adopting.md: its function copies a conversation whole or not at all, and a second run is as a clean one."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.transfer import importing
from compaction_app.tree.verify import verify_session
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.django_db(transaction=True)

COPY, COMPACT = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "adopting.md").read_text(), re.DOTALL)
MONDAY = datetime(2023, 5, 1, 9, 30, tzinfo=UTC)
Row = dict[str, Any]


@pytest.fixture
def adopt():
    known: dict[str, Any] = {}
    exec(COPY, known)  # our own document
    known["BATCH"] = 3
    return known["adopt"]


@pytest.fixture
def user():
    return get_user_model().objects.create_user("marit")


def row(number: Any, parent: Any, role: str = "user", **others: Any) -> Row:
    minutes = timedelta(minutes=number) if isinstance(number, int) else timedelta()
    return {
        "id": number,
        "parent_id": parent,
        "role": role,
        "text": f"{role} {number}",
        "time": MONDAY + minutes,
    } | others


def call(number: int, arguments: str = "{}") -> Row:
    return {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}


def conversation() -> list[Row]:
    """A prompt, a picture, calls with arguments that are no JSON, an edit, a regeneration and a second beginning."""
    picture = [{"type": "image", "name": "roof.jpg", "mime_type": "image/jpeg"}]
    return [
        row(1, None, "system", text="Be brief."),
        row(2, 1, attachments=picture),
        row(3, 2, "assistant", text="", tool_calls=[call(1), call(2, "{half")], model="m"),
        row(4, 3, "tool", tool_call_id="c1"),
        row(5, 4, "tool", tool_call_id="c2", name="look"),
        row(6, 5, "assistant", usage={"prompt_tokens": 9}),
        row(7, 6, "developer"),
        row(8, 7),
        row(9, 5, "assistant"),
        row(10, 1, attachments=[{**picture[0], "url": "https://example.org/roof.jpg"}]),
        row(11, 10, "assistant"),
        row(12, None, "system", text="Be exact."),
        row(13, 12),
    ]


def stored(of: ChatSession) -> list[Any]:
    """All that is known of a conversation, but for the keys of the tables."""
    of.refresh_from_db()
    about = "role content tool_calls tool_call_id name attachments model usage created_at external_id depth".split()
    branches = [[{key: getattr(one, key) for key in about} for one in chat.get_branch(tip)] for tip in chat.tips(of)]
    assert verify_session(of).problems == []
    return [of.title, of.system_prompt, of.created_at, of.updated_at, branches]


#: What is wrong with a row of the conversation above, by its place; the words of the error.
WRONG: list[tuple[int, Row, str]] = [
    *((at, {"role": "bot"}, "Unknown role") for at in (1, 5, 8)),
    *((at, {"text": "a\0"}, "NUL") for at in (0, 1, 4, 12)),
    (1, {"time": "yesterday"}, "created_at"),
    *((at, {"time": None}, "no time") for at in (0, 1, 12)),
    *((at, {"parent_id": bad}, "is its parent") for at in (1, 7, 12) for bad in (99, 0)),
    *((at, {"id": bad}, "the id of another one") for at in (7, 10) for bad in (2, "2")),
    (12, {"id": None}, "has no id"),
    *((at, {"tool_call_id": "c1 "}, "open call") for at in (3, 4)),
    (1, {"tool_call_id": "c1"}, "Only a tool message"),
    (5, {"metadata": {1: 2}}, "metadata"),
    (2, {"tool_calls": "[{}]"}, "tool_calls must be"),
    (0, {"attachments": [{"url": "https://example.org"}]}, "a text only"),
]


@pytest.mark.parametrize("wrong", [WRONG[::4], pytest.param(WRONG, marks=pytest.mark.long)], ids=["some", "all"])
def test_of_a_row_that_is_wrong_nothing_is_left_and_the_next_run_is_as_a_clean_one(adopt, user, wrong):
    clean = stored(adopt(user, {"id": "clean", "title": "Roof"}, conversation()))
    for number, (at, values, words) in enumerate(wrong):
        rows = conversation()
        rows[0]["text"] = "Be old."
        rows[at] |= values
        with pytest.raises(InvalidMessage, match=re.escape(words)) as caught:
            adopt(user, {"id": number, "title": "Old title"}, rows)
        assert caught.value.external_id == str(rows[at]["id"])
        assert re.search(rf"[Mm]essage '?{rows[at]['id']}(?!\w)", str(caught.value))
    assert ChatSession.objects.count() == 1
    for number in range(len(wrong)):
        assert stored(adopt(user, {"id": number, "title": "Roof"}, conversation())) == clean


def test_it_copies_roles_calls_files_dates_and_branches_and_is_safe_to_run_again(adopt, user):
    old = {"id": 7, "title": "Roof"}
    session = adopt(user, old, conversation()[:4])
    assert (session.system_prompt, chat.tips(session)[0].external_id) == ("Be brief.", "4")
    session = adopt(user, old, conversation())
    seen = stored(session)
    assert seen == stored(adopt(user, old, conversation()))
    assert seen[:4] == ["Roof", "Be brief.", MONDAY + timedelta(minutes=2), MONDAY + timedelta(minutes=13)]
    branches = [[one["external_id"] for one in branch] for branch in seen[4]]
    assert branches == [list("2345678"), list("23459"), ["10", "11"], ["12", "13"]]
    [asked, called, _, result] = seen[4][0][:4]
    assert asked["attachments"] == conversation()[1]["attachments"]
    assert [one["function"]["arguments"] for one in called["tool_calls"]] == ["{}", "{half"]
    assert (result["role"], result["tool_call_id"], result["name"]) == ("tool", "c2", "look")
    assert [one["role"] for one in seen[4][0][4:]] == ["assistant", "developer", "user"]
    exec(COMPACT, {"chat": chat, "session": session})


def test_an_id_of_any_form_is_named(adopt, user):
    for own in ("{0}", "a'b", "x" * 255):
        with pytest.raises(InvalidMessage, match="Unknown role") as caught:
            adopt(user, {"id": 7, "title": ""}, [row(own, None, "bot")])
        assert caught.value.external_id == own


def test_tenants_with_the_same_ids_do_not_meet(adopt, user):
    other = get_user_model().objects.create_user("other")
    chats = [(user, {"id": 7}), (other, {"id": 7}), (user, {"id": 7, "tenant": "north"}), (None, {"id": 7})]
    for number, (owner, old) in enumerate(chats):
        adopt(owner, {**old, "title": str(number)}, [row(1, None, text=f"of {number}")])
    assert sorted(ChatMessage.objects.values_list("session__title", "content")) == [
        (str(n), f"of {n}") for n in range(4)
    ]


def test_the_same_conversation_through_each_door_is_the_same(adopt, user):
    rows = [one for one in conversation() if one["id"] <= 8]
    adopted = stored(adopt(user, {"id": 7, "title": "Roof"}, rows))
    keys = {"text": "content", "id": "external_id", "time": "created_at"}
    messages = [{keys.get(key, key): value for key, value in one.items() if key != "parent_id"} for one in rows]
    messages = [{**one, "external_id": str(one["external_id"])} for one in messages]
    appended = chat.start_session(title="Roof")
    chat.append_messages(appended, None, messages)
    assert stored(appended) == adopted
    sent = [{**one, "created_at": one["created_at"].isoformat(), "id": one.pop("external_id")} for one in messages]
    document = {"title": "Roof", "messages": sent}
    [imported] = importing.store(importing.read([("1", document)]))
    began, *rest = stored(imported.session)[2:]
    # The file's prompt has a date, and it is a message there.
    assert (began, rest) == (MONDAY + timedelta(minutes=1), adopted[3:])
