"""Arguments of a wrong type are refused where they enter, by name, and nothing is written or sent."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync

from compaction_app import chat
from compaction_app.exceptions import ConfigurationError, InvalidMessage, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.plain import apply_tool_result_budget, check_and_compact, extract
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import Role
from tests.builders import grow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

SAYING = {"role": Role.USER, "content": "Aye."}


@pytest.fixture
def tip() -> ChatMessage:
    return grow(chat.start_session(model="m"), None, "u")[0]


def append(tip: ChatMessage, **fields: Any) -> ChatMessage:
    return chat.append_message(tip.session, tip, **SAYING, **fields)


CALLS: dict[str, tuple[str, Callable[[ChatMessage], Any]]] = {
    "settings of a number": ("settings", lambda tip: chat.start_session(settings=5)),
    "a model to ask": ("model", lambda tip: chat.get_context(tip, model=5)),
    "contributions of texts": ("contributions", lambda tip: chat.get_context(tip, contributions=["x"])),
    "a reserve below nothing": ("reserved_tokens", lambda tip: chat.get_context(tip, reserved_tokens=-1)),
    "a trigger of no kind": ("trigger", lambda tip: chat.request_compaction(tip, trigger="bogus")),
    "usage as the client has it": ("usage", lambda tip: append(tip, usage=SimpleNamespace(total_tokens=3))),
    "messages beside the branch": ("messages", lambda tip: chat.complete(tip, messages=[SAYING])),
    "a client that is awaited": ("client", lambda tip: chat.complete(tip, client=openai.AsyncOpenAI(api_key="x"))),
    "a client not to be awaited": ("client", lambda tip: chat.astream(tip, client=openai.OpenAI(api_key="x"))),
    "the twin's": ("client", lambda tip: async_to_sync(chat.acomplete)(tip, client=openai.OpenAI(api_key="x"))),
    "a message for a session": ("session", lambda tip: chat.tips(session=tip)),
    "a parent by its id": ("parent", lambda tip: chat.append_message(tip.session, tip.pk, **SAYING)),
    "NUL": ("contributions", lambda tip: chat.get_context(tip, contributions=[{**SAYING, "content": "a\x00"}])),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_argument_is_named(tip: ChatMessage, case: str) -> None:
    field, call = CALLS[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that nobody awaited
        with pytest.raises(InvalidMessage, match=field) as caught:
            call(tip)
    assert caught.value.field == field
    counts = [model.objects.count() for model in (ChatSession, ChatMessage, CompactionRun)]
    assert counts == [1, 1, 0]


PLAIN_CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "no messages": ("messages", lambda: check_and_compact(None)),
    "a reserve below nothing": ("reserved_tokens", lambda: check_and_compact([SAYING], reserved_tokens=-1)),
    "bytes below nothing": ("max_bytes", lambda: apply_tool_result_budget([SAYING], -5)),
}


@pytest.mark.parametrize("case", PLAIN_CALLS)
def test_the_argument_is_named_without_the_tree(case: str) -> None:
    field, call = PLAIN_CALLS[case]
    with pytest.raises(InvalidMessage, match=field) as caught:
        call()
    assert caught.value.field == field


@pytest.mark.parametrize("wrong", [5, {"CONTEXT_WINDO": 5}])
def test_options_are_called_options(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^options ") as caught:
        check_and_compact([SAYING], wrong, extract)
    assert "settings.COMPACTION" not in str(caught.value)


def test_what_the_provider_says_is_raised_as_it_is(tip: ChatMessage, server: ScriptedOpenAIServer) -> None:
    """An error that is its own cause is a cycle, which tools that print causes warn of or never leave."""
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    for ask in (chat.complete, chat.stream):
        server.script([steps.server_error()])
        with pytest.raises(openai.InternalServerError) as caught:
            ask(tip, client=client)
        assert caught.value.__cause__ is not caught.value
    assert ChatMessage.objects.count() == 1


def test_a_deleted_session_is_said_to_be_gone(tip: ChatMessage) -> None:
    session = ChatSession.objects.get()
    chat.delete_session(session)
    for ask in (chat.get_context, chat.should_compact, chat.request_compaction, chat.compact, chat.complete):
        with pytest.raises(MessageNotFound, match="does not exist any more"):
            ask(tip)
    with pytest.raises(MessageNotFound, match="was deleted"):
        chat.delete_session(session)
