"""Bad input has the same fate on every database: a typed error that names the field, and nothing written."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.exceptions import ConfigurationError, InvalidMessage, InvalidParent
from compaction_app.messages.validation import MAX_JSON_DEPTH, canonical
from compaction_app.models import ChatMessage
from compaction_app.values import Role
from tests.small import tool_call as call
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def user(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": "Hello."} | fields


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": ""} | fields


#: What is no moment that both databases keep and every time zone can show.
BAD_MOMENTS: list[Any] = [
    "2026-01-01T00:00:00Z",
    date(2026, 1, 1),
    datetime.max,  # noqa: DTZ901
    datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-8))),
]
GOOD_MOMENTS = [
    datetime(2, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-14))),
    datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1, minutes=37))),
]


@pytest.mark.parametrize("moment", BAD_MOMENTS, ids=repr)
def test_a_moment_that_is_none_is_refused(moment: Any) -> None:
    for append in (
        lambda session: chat.append_message(session, **user(created_at=moment)),
        lambda session: chat.append_messages(session, None, [user(created_at=moment)]),
    ):
        with pytest.raises(InvalidMessage, match=r"^(messages\[0\]: )?created_at must") as caught:
            append(chat.start_session())
        assert caught.value.field == "created_at"
    assert ChatMessage.objects.count() == 0


@pytest.mark.parametrize("moment", GOOD_MOMENTS, ids=repr)
def test_a_moment_comes_back_and_can_be_shown_everywhere(moment: datetime) -> None:
    stored = chat.append_message(chat.start_session(), **user(created_at=moment))
    stored.refresh_from_db()
    for hours in (-14, 14):
        assert stored.created_at.astimezone(timezone(timedelta(hours=hours))) == moment


#: what is wrong → the field that the error names, and the message
BAD_MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "no role": ("role", {"content": "Hello."}),
    "content that is None": ("content", user(content=None)),
    "content in parts": ("content", user(content=[{"type": "text", "text": "Hello."}])),
    "NUL in the content": ("content", user(content="a\x00b")),
    "a lone surrogate in the content": ("content", user(content="a\ud83d")),
    "a name of 256 characters": ("name", user(name="x" * 256)),
    "a lone surrogate in the external id": ("external_id", user(external_id="\udcff")),
    "a tool message without the call's id": ("tool_call_id", {"role": "tool", "content": "42"}),
    "a user message with a call's id": ("tool_call_id", user(tool_call_id="c1")),
    "tool calls of a user": ("tool_calls", user(tool_calls=[call()])),
    "two tool calls with one id": ("tool_calls", assistant(tool_calls=[call(), call()])),
    "a tool call without a function": ("tool_calls", assistant(tool_calls=[{"id": "c1"}])),
    "arguments that are a dict": ("tool_calls", assistant(tool_calls=[call(arguments={})])),  # type: ignore[arg-type]
    "NUL in a tool call's name": ("tool_calls", assistant(tool_calls=[call(name="a\x00")])),
    "an attachment that is a text": ("attachments", user(attachments=["photo.png"])),
    "an attachment of negative tokens": ("attachments", user(attachments=[{"tokens": -1}])),
    "more tokens than a column holds": ("token_count", user(attachments=[{"tokens": 2**31}])),
    "NUL in a key of the metadata": ("metadata", user(metadata={"a": [{"\x00": 1}]})),
    "a key that is a number": ("metadata", user(metadata={"a": {1: 2}})),
    "NaN in the metadata": ("metadata", user(metadata={"score": float("nan")})),
    "metadata that is None": ("metadata", user(metadata=None)),
    "what is no JSON": ("metadata", user(metadata={"tags": {"a", "b"}})),
    "metadata nested without end": ("metadata", user(metadata={"a": nested(100_000)})),
    "reasoning nested one level too deep": ("reasoning", assistant(reasoning=nested(MAX_JSON_DEPTH + 1))),
    "NUL in the reasoning": ("reasoning", assistant(reasoning=[{"thinking": "\x00"}])),
    "content over the limit": ("content", user(content="x" * 2001)),
    "tool calls over the limit": ("tool_calls", assistant(tool_calls=[call(arguments=json.dumps("x" * 2000))])),
    "metadata over the limit, with the content": ("metadata", user(content="x" * 900, metadata={"a": "y" * 1200})),
}


@pytest.mark.parametrize("what", BAD_MESSAGES)
@override_settings(COMPACTION={"MAX_MESSAGE_BYTES": 2000})
def test_a_bad_message_is_refused_with_its_field(what: str) -> None:
    """As a root and as a child: ``InvalidMessage`` names the field, and no row is written or changed."""
    field, fields = BAD_MESSAGES[what]
    session = start_session()
    parent = chain(session, 1)[0]
    for append in (
        lambda: ChatMessage.objects.add_child(parent, dict(fields)),
        lambda: ChatMessage.objects.add_root(fields | {"session": session}),
    ):
        with pytest.raises(InvalidMessage) as caught:
            append()
        assert caught.value.field == field
        assert caught.value.code == "invalid_message"
    assert list(ChatMessage.objects.all()) == [parent]


GOOD_MESSAGES: dict[str, dict[str, Any]] = {
    "an empty text": user(content=""),
    "every plane of Unicode": user(content="é 漢字 🧠 \U0010ffff \u200b \x01 \x7f \r\n \ufffe"),
    "control characters in JSON": user(metadata={"a\x01": ["\x1f", "\u2028"]}),
    "calls with odd arguments": assistant(
        tool_calls=[call("a", arguments=""), call("b", arguments="null"), call("c", arguments='["é", 1e3]')]
    ),
    "JSON of every kind": assistant(usage={"a": None, "b": True, "c": 1.5, "d": [1, 2**63, -(10**30)], "e": {}}),
    "nested as deep as is allowed": assistant(reasoning=nested(MAX_JSON_DEPTH)),
    "texts of the greatest length": user(name="n" * 255, external_id="e" * 255, idempotency_key="k" * 255),
    "just as many bytes as are allowed": user(content="x" * 2000),
    **{f"the role {role}": {"role": role, "content": "x"} for role in Role if role != Role.TOOL},
}


@pytest.mark.parametrize("what", GOOD_MESSAGES)
@override_settings(COMPACTION={"MAX_MESSAGE_BYTES": 2000})
def test_a_good_message_comes_back_as_it_was_written(what: str) -> None:
    """What passes is stored whole, on both databases; keys of JSON may come back in another order."""
    fields = GOOD_MESSAGES[what]
    written = ChatMessage.objects.add_root(fields | {"session": start_session()})
    read = ChatMessage.objects.get(pk=written.pk)
    assert {name: getattr(read, name) for name in fields} == fields


TEXTS = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(content=TEXTS, name=TEXTS, metadata=st.dictionaries(TEXTS, JSON, max_size=3))
def test_whatever_is_given_is_refused_or_stored(content: str, name: str, metadata: dict[str, Any]) -> None:
    """No input reaches the database and fails there: both databases take all that validation lets through."""
    session = start_session()
    fields = {"role": "user", "content": content, "name": name, "metadata": metadata, "session": session}
    try:
        written = ChatMessage.objects.add_root(fields)
    except InvalidMessage as error:
        assert error.field in {"content", "name", "metadata"}  # noqa: PT017  # one of two outcomes, both lawful
        assert not session.messages.exists()
    else:
        read = ChatMessage.objects.get(pk=written.pk)
        assert (read.content, read.name, set(read.metadata)) == (content, name, set(metadata))


class Branches:
    """A question, a reply with two calls, one of them answered; beside it a reply with a call of its own."""

    def __init__(self) -> None:
        add_child = ChatMessage.objects.add_child
        self.session = start_session()
        self.question = ChatMessage.objects.add_root(user(session=self.session))
        self.calling = add_child(self.question, assistant(tool_calls=[call("c1"), call("c2")]))
        self.answer = add_child(self.calling, tool("c1"))
        self.beside = add_child(self.question, assistant(tool_calls=[call("other")]))


@pytest.fixture
def branches() -> Branches:
    return Branches()


def tool(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "content": "42", "tool_call_id": call_id}


def after_a_user_message(b: Branches) -> ChatMessage:
    return ChatMessage.objects.add_child(b.answer, user())


BAD_PLACES: dict[str, tuple[str, Callable[[Branches], ChatMessage | None], dict[str, Any]]] = {
    "a result that opens a conversation": ("tool_call_id", lambda b: None, tool("c1")),
    "a result where nothing was called": ("tool_call_id", lambda b: b.question, tool("c1")),
    "a result for a call that has one": ("tool_call_id", lambda b: b.answer, tool("c1")),
    "a result for a call that a message closed": ("tool_call_id", after_a_user_message, tool("c2")),
    "a result for a call of another branch": ("tool_call_id", lambda b: b.answer, tool("other")),
    "a message under a summary": ("parent", lambda b: summarize(b.answer, b.question), user()),
    "a parent of another session": ("parent", lambda b: chain(start_session(), 1)[0], user()),
}


@pytest.mark.parametrize("what", BAD_PLACES)
def test_a_message_that_can_not_stand_there_is_refused(branches: Branches, what: str) -> None:
    field, find_parent, fields = BAD_PLACES[what]
    parent = find_parent(branches)
    before = ChatMessage.objects.count()
    with pytest.raises(InvalidMessage) as caught:
        ChatMessage.objects.append_chain(parent, [ChatMessage(**fields, session=branches.session)])
    assert caught.value.field == field
    assert isinstance(caught.value, InvalidParent) == (field == "parent")
    assert ChatMessage.objects.count() == before


@pytest.mark.parametrize(
    ("configured", "problem_id"),
    [
        ({"MAX_MESSAGE_BYTES": "4 MiB"}, "compaction_app.E138"),
        ({"TOKEN_COUNTER": "nowhere.Counter"}, "compaction_app.E132"),
        ({"TRIGGER_RATIO": 7, "NONSENSE": 1}, ""),
    ],
)
def test_an_append_fails_for_the_settings_that_it_uses_only(configured: Any, problem_id: str) -> None:
    """A chat turn never fails because of compaction: not for a mistake in its other settings either."""
    session = start_session()
    problem = pytest.raises(ConfigurationError) if problem_id else nullcontext()
    with override_settings(COMPACTION=configured), problem as caught:
        ChatMessage.objects.add_root(user(session=session))
    assert session.messages.exists() is not bool(problem_id)
    assert caught is None or caught.value.problem_id == problem_id


def test_json_is_read_in_one_order_of_keys() -> None:
    """jsonb reorders keys; the same history must give the same bytes on both databases."""
    given_order = {"b": [{"z": 1, "a": 2}], "a": {"y": (1, 2), "x": None}}
    assert json.dumps(canonical(given_order)) == '{"a": {"x": null, "y": [1, 2]}, "b": [{"a": 2, "z": 1}]}'
